//! `image`: the sum under a virtual detector at every scan position.

use super::angles::Angles;
use super::opened::{self, Opened};
use super::provenance::Provenance;
use crate::CliCode;
use crate::args::{Detector, Image, Unit};
use crate::context::{Context, Outcome};
use crate::parse::Numbers;
use crate::results::{Made, Shown, Target, picture, sum_value};
use serde_json::{Map, Value, json};
use stempack::display::ColourMap;
use stempack::export::{ScaleBar, read_mask};
use stempack::{DetectorMask, Error, Quantity, Result, SamplesRef, Total, VirtualDetector, log_spectrum};

pub(crate) fn run(args: &Image, context: &Context) -> Result<Outcome> {
    if args.unit == Unit::Mrad && args.detector.disk.is_none() && args.detector.annulus.is_none() {
        return Err(Error::new(CliCode::Usage, "--unit mrad is the unit of --disk and --annulus"));
    }
    let target = Target::new(&args.out)?;
    let what = opened::what(&args.input)?;
    if what.acquisition().is_some_and(stempack::is_scalar_image) {
        return scalar(args, what, target, context);
    }
    let opened = opened::questions(what, &args.input, args.dark.dark.as_deref(), context)?;
    let products = opened.products();
    let chosen = choose(&args.detector, args.unit, &opened, context)?;
    let image = products.virtual_image(&chosen.mask, context.task())?;
    let size = (image.shape.rows(), image.shape.cols());
    let spectrum = args.fft.then(|| log_spectrum(&image.values.to_f64(), size));
    let array = spectrum.as_ref().map_or(image.values.samples(), |s| SamplesRef::F32(s));
    let mut said = Map::new();
    said.insert("sum".into(), sum_value(image.sum()));
    said.insert("mode".into(), opened.mode().into());
    said.insert("values".into(), "working".into());
    said.insert("fft_transforms".into(), u32::from(args.fft).into());
    said.insert("detector".into(), chosen.document);
    let what = if args.fft { "spectrum of the " } else { "" };
    let text = format!("{what}{}, {} pixels, sum {}", chosen.sentence, chosen.mask.count(), image.sum());
    let name = format!("{}{}", chosen.name, if args.fft { "_spectrum" } else { "" });
    let made = Made { array, shape: &[size.0, size.1], names: &[name.as_str()] };
    let show = || {
        let numbers = array.to_f64();
        let (picture, contrast) =
            picture(size, &numbers, numbers.iter().copied(), &args.look, ColourMap::Grey);
        let description = format!("{what}{} of {}", chosen.sentence, opened.label());
        // Frequencies have no length on the specimen.
        let scale = if args.fft { None } else { opened.scan_scale() };
        Shown { picture, contrast, scale, description }
    };
    opened.provenance().deliver("stempack.image/1", target, &made, said, &text, show, context)?;
    Ok(Outcome::Done)
}

/// The numbers of a scalar image, which an instrument summed itself: they are written as they are recorded.
fn scalar(args: &Image, what: stempack::Opened, target: Target, context: &Context) -> Result<Outcome> {
    let label = args.input.file.display().to_string();
    if !args.detector.total || args.dark.dark.is_some() {
        let message = format!("`{label}` is a scalar image: one number for each scan position, no frames");
        return Err(Error::new(CliCode::ScalarImage, message).hint("--total writes its numbers"));
    }
    let path = what.acquisition().and_then(|a| a.members.first()).map_or(&args.input.file, |m| &m.path);
    let image = stempack::scalar_image(path, context.task())?;
    let (recorded, size) = (image.samples.as_ref(), (image.scan.rows(), image.scan.cols()));
    let spectrum = args.fft.then(|| log_spectrum(&recorded.to_f64(), size));
    let array = spectrum.as_ref().map_or(recorded, |s| SamplesRef::F32(s));
    let sum = Total::of(recorded);
    let mut said = Map::new();
    said.insert("sum".into(), sum_value(sum));
    said.insert("mode".into(), "recorded".into());
    said.insert("values".into(), "raw".into());
    said.insert("fft_transforms".into(), u32::from(args.fft).into());
    said.insert("detector".into(), json!({ "kind": "total", "pixels": 1 }));
    let name = if args.fft { "scalar_image_spectrum" } else { "scalar_image" };
    let made = Made { array, shape: &[size.0, size.1], names: &[name] };
    let show = || {
        let numbers = array.to_f64();
        let (picture, contrast) =
            picture(size, &numbers, numbers.iter().copied(), &args.look, ColourMap::Grey);
        let step = image.acquisition.quantities.get(&Quantity::ScanStepCol).filter(|_| !args.fft);
        let what = if args.fft { "spectrum of the scalar image" } else { "scalar image" };
        let description = format!("{what} of {}", image.acquisition.label);
        Shown { picture, contrast, scale: step.and_then(|r| ScaleBar::angstrom(r.value)), description }
    };
    let what_text = if args.fft { "spectrum of the" } else { "the" };
    let text = format!("{what_text} recorded scalar image, sum {sum}");
    let provenance = Provenance { what, dark: None, digest: args.input.digest };
    provenance.deliver("stempack.image/1", target, &made, said, &text, show, context)?;
    Ok(Outcome::Done)
}

struct Chosen {
    mask: DetectorMask,
    /// The kind, as it stands in the document.
    name: String,
    document: Value,
    sentence: String,
}

fn choose(detector: &Detector, unit: Unit, opened: &Opened, context: &Context) -> Result<Chosen> {
    let (shape, exclusions) = (opened.products().shape().detector, opened.products().exclusions());
    let chosen = |mask: DetectorMask, mut document: Value, sentence: String| {
        document["pixels"] = mask.count().into();
        let name = document["kind"].as_str().unwrap_or_default().to_owned();
        Chosen { mask, name, document, sentence }
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
    let angles = match unit {
        Unit::Px => None,
        Unit::Mrad => Some(Angles::of(opened)?),
    };
    let steps = angles.as_ref().map_or([1.0; 2], |a| a.steps);
    let mrad = if angles.is_some() { " mrad" } else { "" };
    let said = angles.as_ref().map_or_else(String::new, |a| {
        format!(" ({} {:.6} × {:.6} mrad/pixel)", a.evidence, steps[0], steps[1])
    });
    let in_unit = |mut document: Value| {
        if let Some(angles) = &angles {
            document["unit"] = "mrad".into();
            document["step"] = json!(angles.steps);
            document["step_evidence"] = angles.evidence.into();
            document["step_from"] = json!(angles.from);
        }
        document
    };
    if let Some(Numbers([row, col, radius])) = detector.disk {
        let document = in_unit(json!({ "kind": "disk", "centre": [row, col], "radius": radius }));
        let sentence = format!("disk image at ({row}, {col}) with radius {radius}{mrad}{said}");
        let mask = DetectorMask::disk_of_steps(shape, exclusions, [row, col], radius, steps)?;
        return Ok(chosen(mask, document, sentence));
    }
    if let Some(Numbers([row, col, inner, outer])) = detector.annulus {
        let document =
            in_unit(json!({ "kind": "annulus", "centre": [row, col], "inner": inner, "outer": outer }));
        let sentence = format!("annulus image at ({row}, {col}) from {inner} to {outer}{mrad}{said}");
        let mask = DetectorMask::annulus_of_steps(shape, exclusions, [row, col], [inner, outer], steps)?;
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
