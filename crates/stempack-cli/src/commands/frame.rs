//! `frame`: one diffraction pattern.

use super::opened;
use crate::args::Frame;
use crate::context::{Context, Outcome};
use crate::results::{Shown, Target, picture, sum_value};
use stempack::Result;
use stempack::display::{ColourMap, admitted};
use stempack::{Total, Values};

pub(crate) fn run(args: &Frame, context: &Context) -> Result<Outcome> {
    let target = Target::new(&args.out)?;
    let opened = opened::open_frames(&args.input, args.dark.dark.as_deref(), context)?;
    let products = opened.products();
    let (values, samples) = if args.raw {
        (Values::Raw, products.raw_frame(args.row, args.col)?)
    } else {
        (Values::Working, products.working_frame(args.row, args.col)?)
    };
    let detector = products.shape().detector;
    let array = samples.as_ref();
    let name = format!("{} frame ({}, {})", values.as_str(), args.row, args.col);
    let mut said = target.write(array, &[detector.rows(), detector.cols()], || {
        let numbers = array.to_f64();
        let counted = admitted(&numbers, products.exclusions());
        let size = (detector.rows(), detector.cols());
        let (picture, contrast) = picture(size, &numbers, counted, &args.look, ColourMap::Inferno);
        let description = format!("{name} of {}", opened.label());
        Shown { picture, contrast, scale: opened.detector_scale(), description }
    })?;
    said.insert("values".into(), values.as_str().into());
    said.insert("row".into(), args.row.into());
    said.insert("col".into(), args.col.into());
    let sum = Total::of(array);
    said.insert("sum".into(), sum_value(sum));
    opened.report("stempack.frame/1", said, &format!("{name}, sum {sum}"), context);
    Ok(Outcome::Done)
}
