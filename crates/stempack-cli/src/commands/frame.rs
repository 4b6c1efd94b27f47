//! `frame`: one diffraction pattern, or several in a stack.

use super::opened;
use crate::CliCode;
use crate::args::Frame;
use crate::context::{Context, Outcome};
use crate::results::{Made, Shown, Target, picture, sum_value};
use serde_json::{Map, json};
use stempack::display::{ColourMap, admitted};
use stempack::{Error, Result, Total, Values};

pub(crate) fn run(args: &Frame, context: &Context) -> Result<Outcome> {
    let target = Target::new(&args.out)?;
    let single = args.row.zip(args.col);
    let positions: Vec<(usize, usize)> = match single {
        Some(one) => vec![one],
        None => args.at.iter().map(|p| (p.row, p.col)).collect(),
    };
    if target.is_picture() && positions.len() > 1 {
        let message = format!("a picture shows one frame, asked for are {}", positions.len());
        return Err(Error::new(CliCode::OutputFormat, message).hint("write them as .npy, .h5 or .tif"));
    }
    let opened = opened::open_frames(&args.input, args.dark.dark.as_deref(), context)?;
    let products = opened.products();
    let values = if args.raw { Values::Raw } else { Values::Working };
    let samples = products.frames(&positions, values, context.task())?;
    let detector = products.shape().detector;
    let array = samples.as_ref();
    let size = (detector.rows(), detector.cols());
    let mut said = Map::new();
    said.insert("values".into(), values.as_str().into());
    let name = match single {
        Some((row, col)) => {
            said.insert("row".into(), row.into());
            said.insert("col".into(), col.into());
            format!("{} frame ({row}, {col})", values.as_str())
        }
        None => format!("{} {} frames", positions.len(), values.as_str()),
    };
    said.insert("positions".into(), json!(positions));
    let sum = Total::of(array);
    said.insert("sum".into(), sum_value(sum));
    said.insert("fft_transforms".into(), 0.into());
    let stack = [positions.len(), size.0, size.1];
    let (shape, names) = match single {
        Some(_) => (&stack[1..], ["frame"]),
        None => (&stack[..], ["frames"]),
    };
    let made = Made { array, shape, names: &names };
    let show = || {
        let numbers = array.to_f64();
        let counted = admitted(&numbers, products.exclusions());
        let (picture, contrast) = picture(size, &numbers, counted, &args.look, ColourMap::Inferno);
        let description = format!("{name} of {}", opened.label());
        Shown { picture, contrast, scale: opened.detector_scale(), description }
    };
    let text = format!("{name}, sum {sum}");
    opened.provenance().deliver("stempack.frame/1", target, &made, said, &text, show, context)?;
    Ok(Outcome::Done)
}
