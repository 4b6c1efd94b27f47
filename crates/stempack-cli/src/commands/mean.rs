//! `mean`: the mean diffraction pattern of the scan or a part of it, or its exact sum.

use super::{opened, region};
use crate::args::Mean;
use crate::context::{Context, Outcome};
use crate::results::{Made, Shown, Target, picture, sum_value};
use serde_json::Map;
use stempack::display::{ColourMap, admitted};
use stempack::{Result, SamplesRef};

pub(crate) fn run(args: &Mean, context: &Context) -> Result<Outcome> {
    let target = Target::new(&args.out)?;
    let what = opened::what(&args.input)?;
    let dark = args.dark.dark.as_deref();
    // A part of the scan is one question, for which no resident is loaded.
    let opened = if args.positions.is_whole() {
        opened::questions(what, &args.input, dark, context)?
    } else {
        opened::frames(what, &args.input, dark, context)?
    };
    let products = opened.products();
    let chosen = region::choose(&args.positions, products.shape().scan)?;
    let pattern = match &chosen.selection {
        Some(selection) => products.selection_sum(selection, context.task())?,
        None => products.pattern_sum(context.task())?,
    };
    let mean = pattern.mean();
    let array = if args.sum { pattern.sums.samples() } else { SamplesRef::F64(&mean) };
    let name = if args.sum { "pattern sum" } else { "mean pattern" };
    let size = (pattern.shape.rows(), pattern.shape.cols());
    let mut said = Map::new();
    said.insert("values".into(), "working".into());
    said.insert("sum".into(), sum_value(pattern.sum()));
    said.insert("positions".into(), pattern.positions.into());
    said.insert("region".into(), chosen.document);
    said.insert("fft_transforms".into(), 0.into());
    let text = format!("{name} of {} frames{}, sum {}", pattern.positions, chosen.sentence, pattern.sum());
    let names = [if args.sum { "pattern_sum" } else { "mean_pattern" }];
    let made = Made { array, shape: &[size.0, size.1], names: &names };
    let show = || {
        let numbers = array.to_f64();
        let counted = admitted(&numbers, products.exclusions());
        let (picture, contrast) = picture(size, &numbers, counted, &args.look, ColourMap::Inferno);
        let description = format!("{name} of {}{}", opened.label(), chosen.sentence);
        Shown { picture, contrast, scale: opened.detector_scale(), description }
    };
    opened.provenance().deliver("stempack.mean/1", target, &made, said, &text, show, context)?;
    Ok(Outcome::Done)
}
