//! `mean`: the mean diffraction pattern, or its exact sum.

use super::opened;
use crate::args::Mean;
use crate::context::{Context, Outcome};
use crate::results::{Shown, Target, picture, sum_value};
use stempack::display::{ColourMap, admitted};
use stempack::{Result, SamplesRef};

pub(crate) fn run(args: &Mean, context: &Context) -> Result<Outcome> {
    let target = Target::new(&args.out)?;
    let opened = opened::open(&args.input, args.dark.dark.as_deref(), context)?;
    let products = opened.products();
    let pattern = products.pattern_sum(context.task())?;
    let mean = pattern.mean();
    let array = if args.sum { pattern.sums.samples() } else { SamplesRef::F64(&mean) };
    let name = if args.sum { "pattern sum" } else { "mean pattern" };
    let size = (pattern.shape.rows(), pattern.shape.cols());
    let mut said = target.write(array, &[size.0, size.1], || {
        let numbers = array.to_f64();
        let counted = admitted(&numbers, products.exclusions());
        let (picture, contrast) = picture(size, &numbers, counted, &args.look, ColourMap::Inferno);
        let description = format!("{name} of {}", opened.label());
        Shown { picture, contrast, scale: opened.detector_scale(), description }
    })?;
    said.insert("values".into(), "working".into());
    said.insert("sum".into(), sum_value(pattern.sum()));
    said.insert("positions".into(), pattern.positions.into());
    let text = format!("{name} of {} frames, sum {}", pattern.positions, pattern.sum());
    opened.report("stempack.mean/1", said, &text, context);
    Ok(Outcome::Done)
}
