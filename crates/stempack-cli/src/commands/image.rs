//! `image`: the sum under a virtual detector at every scan position.

use super::opened::{self, Opened};
use crate::args::{Detector, Image};
use crate::context::{Context, Outcome};
use crate::parse::Numbers;
use crate::results::{Shown, Target, picture, sum_value};
use serde_json::{Value, json};
use stempack::Result;
use stempack::display::ColourMap;
use stempack::export::read_mask;
use stempack::{DetectorMask, SamplesRef, VirtualDetector, log_spectrum};

pub(crate) fn run(args: &Image, context: &Context) -> Result<Outcome> {
    let target = Target::new(&args.out)?;
    let opened = opened::open(&args.input, context)?;
    let products = opened.products();
    let chosen = choose(&args.detector, &opened, context)?;
    let image = products.virtual_image(&chosen.mask, context.task())?;
    let size = (image.shape.rows(), image.shape.cols());
    let spectrum = args.fft.then(|| log_spectrum(&image.values.to_f64(), size));
    let array = spectrum.as_ref().map_or(image.values.samples(), |s| SamplesRef::F32(s));
    let mut said = target.write(array, &[size.0, size.1], || {
        let numbers = array.to_f64();
        let (picture, contrast) =
            picture(size, &numbers, numbers.iter().copied(), &args.look, ColourMap::Grey);
        let what = if args.fft { "spectrum of " } else { "" };
        let description = format!("{what}{} of {}", chosen.sentence, opened.label());
        // Frequencies have no length on the specimen.
        let scale = if args.fft { None } else { opened.scan_scale() };
        Shown { picture, contrast, scale, description }
    })?;
    said.insert("sum".into(), sum_value(image.sum()));
    said.insert("mode".into(), opened.mode().into());
    said.insert("values".into(), "working".into());
    said.insert("fft_transforms".into(), u32::from(args.fft).into());
    said.insert("detector".into(), chosen.document);
    let text = format!("{}, {} pixels, sum {}", chosen.sentence, chosen.mask.count(), image.sum());
    opened.report("stempack.image/1", said, &text, context);
    Ok(Outcome::Done)
}

struct Chosen {
    mask: DetectorMask,
    document: Value,
    sentence: String,
}

fn choose(detector: &Detector, opened: &Opened, context: &Context) -> Result<Chosen> {
    let (shape, exclusions) = (opened.products().shape().detector, opened.products().exclusions());
    let chosen = |mask: DetectorMask, mut document: Value, sentence: String| {
        document["pixels"] = mask.count().into();
        Chosen { mask, document, sentence }
    };
    let standard = [
        (detector.bf, VirtualDetector::BrightField),
        (detector.abf, VirtualDetector::AnnularBrightField),
        (detector.adf, VirtualDetector::AnnularDarkField),
    ];
    if let Some((_, kind)) = standard.into_iter().find(|(wanted, _)| *wanted) {
        let disk = opened.disk(context)?;
        let (name, evidence) = (kind.as_str(), disk.evidence.as_str());
        let document = json!({
            "kind": name, "evidence": evidence, "centre": [disk.centre_row, disk.centre_col],
            "bright_field_radius": disk.radius,
        });
        let sentence = format!(
            "{name} image, {evidence} disk at ({:.2}, {:.2}) with radius {:.2}",
            disk.centre_row, disk.centre_col, disk.radius
        );
        return Ok(chosen(kind.mask(&disk, shape, exclusions)?, document, sentence));
    }
    if let Some(Numbers([row, col, radius])) = detector.disk {
        let document = json!({ "kind": "disk", "centre": [row, col], "radius": radius });
        let sentence = format!("disk image at ({row}, {col}) with radius {radius}");
        return Ok(chosen(DetectorMask::disk(shape, exclusions, row, col, radius)?, document, sentence));
    }
    if let Some(Numbers([row, col, inner, outer])) = detector.annulus {
        let document = json!({ "kind": "annulus", "centre": [row, col], "inner": inner, "outer": outer });
        let sentence = format!("annulus image at ({row}, {col}) from {inner} to {outer}");
        let mask = DetectorMask::annulus(shape, exclusions, row, col, inner, outer)?;
        return Ok(chosen(mask, document, sentence));
    }
    if let Some(path) = &detector.mask {
        let mask = DetectorMask::from_array(shape, exclusions, &read_mask(path, shape)?)?;
        let document = json!({ "kind": "mask", "path": path.display().to_string() });
        return Ok(chosen(mask, document, format!("image under mask `{}`", path.display())));
    }
    let mask = DetectorMask::all(shape, exclusions)?;
    Ok(chosen(mask, json!({ "kind": "total" }), "total image".to_owned()))
}
