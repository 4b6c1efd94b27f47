//! `com`: the centre of mass of every diffraction pattern, rows then columns, in detector pixels.

use super::opened;
use crate::args::Com;
use crate::context::{Context, Outcome};
use crate::results::{Made, Shown, Target};
use serde_json::Map;
use stempack::display::Picture;
use stempack::{Result, SamplesRef};

pub(crate) fn run(args: &Com, context: &Context) -> Result<Outcome> {
    let target = Target::new(&args.out)?;
    let opened = opened::open(&args.input, args.dark.dark.as_deref(), context)?;
    let moments = opened.products().moments(context.task())?;
    let com = moments.center_of_mass();
    let shape = [2, com.shape.rows(), com.shape.cols()];
    let defined = moments.defined();
    let empty = defined.iter().filter(|&&d| !d).count();
    let mean = [com.rows(), com.cols()].map(|v| {
        let there = v.iter().zip(&defined).filter(|(_, d)| **d).map(|(v, _)| *v);
        match defined.len() - empty {
            // What every position holds.
            0 => v.first().copied().unwrap_or_default(),
            n => there.sum::<f64>() / n as f64,
        }
    });
    let mut said = Map::new();
    said.insert("unit".into(), "detector pixel".into());
    said.insert("values".into(), "working".into());
    said.insert("mean".into(), mean.to_vec().into());
    said.insert("positions_without_counts".into(), empty.into());
    let text = format!("centre of mass, mean ({:.3}, {:.3}) detector pixels", mean[0], mean[1]);
    said.insert("fft_transforms".into(), 0.into());
    let made = Made { array: SamplesRef::F64(&com.values), shape: &shape, names: &["com_row", "com_col"] };
    let show = || Shown {
        picture: Picture::of_directions(&moments),
        contrast: None,
        scale: opened.scan_scale(),
        description: format!(
            "centre of mass of {} relative to its mean: hue is direction, brightness distance",
            opened.label()
        ),
    };
    opened.provenance().deliver("stempack.com/1", target, &made, said, &text, show, context)?;
    Ok(Outcome::Done)
}
