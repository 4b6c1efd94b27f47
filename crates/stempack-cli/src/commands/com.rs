//! `com`: the centre of mass of every diffraction pattern, rows then columns, in detector pixels.

use super::opened;
use crate::args::Com;
use crate::context::{Context, Outcome};
use crate::results::{Shown, Target};
use stempack::display::Picture;
use stempack::{Result, SamplesRef};

pub(crate) fn run(args: &Com, context: &Context) -> Result<Outcome> {
    let target = Target::new(&args.out)?;
    let opened = opened::open(&args.input, context)?;
    let moments = opened.products().moments(context.task())?;
    let com = moments.center_of_mass();
    let shape = [2, com.shape.rows(), com.shape.cols()];
    let mut said = target.write(SamplesRef::F64(&com.values), &shape, || Shown {
        picture: Picture::of_directions(&moments),
        contrast: None,
        scale: opened.scan_scale(),
        description: format!(
            "centre of mass of {} relative to its mean: hue is direction, brightness distance",
            opened.label()
        ),
    })?;
    let empty = moments.total.iter().filter(|&&t| t == 0).count();
    let counted = (moments.total.len() - empty).max(1) as f64;
    // Positions without counts hold zeros, so they add nothing.
    let mean = [com.rows(), com.cols()].map(|v| v.iter().sum::<f64>() / counted);
    said.insert("unit".into(), "detector pixel".into());
    said.insert("values".into(), "working".into());
    said.insert("mean".into(), mean.to_vec().into());
    said.insert("positions_without_counts".into(), empty.into());
    let text = format!("centre of mass, mean ({:.3}, {:.3}) detector pixels", mean[0], mean[1]);
    opened.report("stempack.com/1", said, &text, context);
    Ok(Outcome::Done)
}
