//! Which image of a Velox file is a calibrated scalar image: every recorded size must agree with every other.

use super::document::{self, at, number};
use super::{IMAGES, images};
use crate::error::SourceCode;
use crate::flat::digest_members;
use crate::hdf5::{DatasetIndex, ElementClass, File, Found, shortest};
use crate::identity::Fingerprints;
use crate::scan_shape::{self, Candidate, Standing};
use crate::{OpenOptions, refuse, units};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;
use stempack_model::{
    Acquisition, DetectorShape, Error, FrameSource, Member, MemberDigest, MemberRole, Origin, Quantity,
    Recorded, Result, SampleType, Samples, SamplesMut, ScanShape, SourceDocument, Task, Warning,
};

const LABEL: &str = "Velox EMD scalar image";
const READER: &str = "velox-scalar-image/v1";
/// How far pixel size × pixels may be from the field of view: relative, and in metres.
const AGREE: (f64, f64) = (1e-6, 1e-15);
/// Samples of the largest image that is read.
const MAX_SAMPLES: u64 = 1 << 30;

/// The exact counts of a scalar image, row-major over the scan.
#[derive(Clone, Debug)]
pub struct ScalarImage {
    /// What it is, with its calibration.
    pub acquisition: Acquisition,
    /// Scan rows and columns.
    pub scan: ScanShape,
    /// One sample for each scan position.
    pub samples: Samples,
}

/// A validated image.
struct Image {
    id: String,
    index: DatasetIndex,
    sample: SampleType,
    rows: u64,
    cols: u64,
    /// Row and column step in metres.
    step: [f64; 2],
    detector: Option<String>,
    text: String,
}

/// Whether an acquisition is a scalar image, which has numbers and no frames.
pub fn is_scalar_image(acquisition: &Acquisition) -> bool {
    acquisition.reader == READER
}

/// Reads the one scalar image of a Velox file.
///
/// # Errors
/// As for opening it; `over_budget`, `corrupt_payload`, `source_changed`, `cancelled`.
pub fn scalar_image(path: &Path, task: &Task) -> Result<ScalarImage> {
    let opened = read(path, &OpenOptions::default())?;
    let index = &opened.index;
    let bytes = index.decoded_bytes();
    if bytes > task.memory_budget() {
        let message = format!("the image takes {bytes} bytes, the memory budget is {}", task.memory_budget());
        return Err(refuse(SourceCode::TooLarge, message, path));
    }
    let acquisition = opened.source.acquisition.clone();
    let mut samples = Samples::zeroed(acquisition.sample, acquisition.frame_count as usize);
    let file = opened.source.fingerprints.open(path)?;
    index.read_rows(&file, 0, samples.as_mut().as_bytes_mut(), task).map_err(|failure| {
        let place = format!("`{}` of `{}`, scan rows {:?}", index.object(), index.file_name(), failure.rows);
        index.explain(failure, &place)
    })?;
    opened.source.check_unchanged()?;
    Ok(ScalarImage { acquisition, scan: opened.scan, samples })
}

pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    Ok(Arc::new(read(path, options)?.source))
}

struct Opened {
    source: ImageSource,
    index: DatasetIndex,
    scan: ScanShape,
}

fn read(path: &Path, options: &OpenOptions) -> Result<Opened> {
    let mut fingerprints = Fingerprints::default();
    fingerprints.add(path)?;
    let file = File::open(path)?;
    let (image, warnings) = choose(&file)?;
    let (mut acquisition, scan) = describe(&file, &image, options, warnings)?;
    acquisition.judge_quantities();
    let source = ImageSource { acquisition, fingerprints };
    // What was read in pieces must have been one state of the file.
    source.check_unchanged()?;
    Ok(Opened { source, index: image.index, scan })
}

/// The only image that is a calibrated scalar image. Which of several is meant is not guessed.
fn choose(file: &File) -> Result<(Image, Vec<Warning>)> {
    let (mut valid, mut refused) = (Vec::new(), Vec::new());
    for id in images(file)? {
        match validate(file, &id) {
            Ok(image) => valid.push(image),
            Err(error) => refused.push(error),
        }
    }
    let path = file.path();
    if valid.len() > 1 {
        let named: Vec<String> = valid
            .iter()
            .map(|i| i.detector.as_ref().map_or_else(|| i.id.clone(), |d| format!("{} ({d})", i.id)))
            .collect();
        let message = format!("`{}` holds {} scalar images: {}", file.name(), named.len(), named.join(", "));
        return Err(refuse(SourceCode::AmbiguousSource, message, path)
            .with("candidates", named)
            .hint("export the image that is meant to a file of its own"));
    }
    match valid.pop() {
        Some(image) => {
            let warnings = refused
                .iter()
                .map(|e| Warning { code: "image_ignored", message: e.message().to_owned() })
                .collect();
            Ok((image, warnings))
        }
        None => Err(refused
            .into_iter()
            .next()
            .unwrap_or_else(|| {
                refuse(SourceCode::UnsupportedLayout, format!("`{}` holds no image", file.name()), path)
            })
            .hint("read are calibrated STEM images of unsigned 8- or 16-bit counts, one number per scan position")),
    }
}

fn validate(file: &File, id: &str) -> Result<Image> {
    let place = format!("`{IMAGES}/{id}` of `{}`", file.name());
    let refuse = |code, why: String| refuse(code, format!("{place}: {why}"), file.path());
    let layout = |why: String| refuse(SourceCode::UnsupportedLayout, why);
    let dataset = |part: &str| match file.find(&format!("{IMAGES}/{id}/{part}"))? {
        Found::Dataset(dataset) => Ok(dataset),
        _ => Err(layout(format!("it has no dataset `{part}`"))),
    };
    let data = dataset("Data")?;
    let element = data.element().map_err(|e| e.at(&place))?;
    let sample = match (element.class, element.bytes) {
        (ElementClass::Unsigned, 1) => SampleType::U8,
        (ElementClass::Unsigned, 2) => SampleType::U16,
        (class, bytes) => {
            let found = format!("{class:?}").to_lowercase();
            return Err(layout(format!(
                "its samples are of type {found} with {bytes} bytes, expected uint8 or uint16"
            )));
        }
    };
    let index = DatasetIndex::build(file, &data)?;
    let &[rows, cols, frames] = index.shape() else {
        return Err(layout(format!("its samples have {} axes, expected 3", index.shape().len())));
    };
    if frames != 1 {
        return Err(layout(format!("it is a stack of {frames} frames of {rows}×{cols}, not a single image")));
    }
    let (text, json) = document::read(file, &dataset("Metadata")?)
        .map_err(|why| refuse(SourceCode::InvalidMetadata, why))?;
    let step = calibrated(&json, [rows, cols]).map_err(|why| refuse(SourceCode::InvalidMetadata, why))?;
    let detector = at(&json, &["BinaryResult", "Detector"]).and_then(Json::as_str).map(str::to_owned);
    Ok(Image { id: id.to_owned(), index, sample, rows, cols, step, detector, text })
}

/// Row and column step in metres, when units, pixel size, scan size and field of view are recorded and agree.
fn calibrated(json: &Json, size: [u64; 2]) -> Result<[f64; 2], String> {
    for name in ["PixelUnitX", "PixelUnitY"] {
        let unit = at(json, &["BinaryResult", name]).and_then(Json::as_str).unwrap_or("");
        if unit.trim().to_lowercase() != "m" {
            return Err(format!("BinaryResult.{name} is `{unit}`, expected `m`"));
        }
    }
    let field = |names: &[&str]| -> Result<f64, String> {
        match at(json, names).and_then(number) {
            Some(x) if x > 0.0 => Ok(x),
            Some(x) => Err(format!("{} is {}, expected more than 0", names.join("."), shortest(x))),
            None => Err(format!("{} is missing or no number", names.join("."))),
        }
    };
    let mut steps = [0.0; 2];
    for (k, (side, axis)) in [("height", "y"), ("width", "x")].into_iter().enumerate() {
        let step = field(&["BinaryResult", "PixelSize", side])?;
        let scan = field(&["Scan", "ScanSize", side])?;
        if scan != size[k] as f64 {
            return Err(format!("Scan.ScanSize.{side} is {}, the image has {}", shortest(scan), size[k]));
        }
        let view = field(&["Optics", "FullScanFieldOfView", axis])?;
        let covered = step * size[k] as f64;
        if (covered - view).abs() > (AGREE.0 * view).max(AGREE.1) {
            return Err(format!(
                "BinaryResult.PixelSize.{side} × {} is {} m, Optics.FullScanFieldOfView.{axis} is {} m",
                size[k],
                shortest(covered),
                shortest(view)
            ));
        }
        steps[k] = step;
    }
    Ok(steps)
}

fn describe(
    file: &File,
    image: &Image,
    options: &OpenOptions,
    warnings: Vec<Warning>,
) -> Result<(Acquisition, ScanShape)> {
    let (path, evidence) = (file.path(), format!("{}/{}/Metadata", &IMAGES[1..], image.id));
    let samples = image.rows.checked_mul(image.cols).filter(|&n| n > 0 && n <= MAX_SAMPLES);
    let Some(frame_count) = samples else {
        let message = format!("`{}`: an image of {}×{} is not read", file.name(), image.rows, image.cols);
        return Err(refuse(SourceCode::TooLarge, message, path));
    };
    let scan = ScanShape::new(image.rows, image.cols)?;
    let recorded = Candidate {
        rows: image.rows,
        cols: image.cols,
        evidence: format!("{}:{evidence}: Scan.ScanSize", file.name()),
        standing: Standing::Inside,
    };
    let decision = scan_shape::decide(frame_count, options.scan, &[recorded])?;
    let detector = DetectorShape::new(1, 1)?;
    let mut a = Acquisition::new(
        LABEL,
        READER,
        frame_count,
        detector,
        image.sample,
        crate::exclusions::none(detector)?,
    );
    a.label = path.file_stem().map_or_else(|| crate::shown(path), |s| s.to_string_lossy().into_owned());
    a.members = vec![Member { path: path.to_owned(), role: MemberRole::Data, bytes: file.bytes() }];
    a.scan = decision.scan;
    a.warnings = decision.warnings;
    a.warnings.extend(warnings);
    for (quantity, metres, side) in
        [(Quantity::ScanStepRow, image.step[0], "height"), (Quantity::ScanStepCol, image.step[1], "width")]
    {
        let value = metres * 1e10;
        let origin = Origin {
            file: file.name().to_owned(),
            path: format!("/{evidence}: BinaryResult.PixelSize.{side}"),
        };
        let conversion = format!("{} m × 1e10", shortest(metres));
        a.quantities.insert(quantity, Recorded { value, origin, conversion, flag: units::step_flag(value) });
    }
    a.provenance.insert("spatial_calibration_source", format!("Velox EMD · {}", file.name()));
    a.provenance.insert("sourceDataset", image.index.object().to_owned());
    a.provenance.insert("metadataEvidence", evidence);
    a.documents = vec![SourceDocument {
        filename: format!("{}.json", image.id),
        media_type: "application/json",
        sha256: Sha256::digest(image.text.as_bytes()).into(),
        content: image.text.clone(),
    }];
    Ok((a, scan))
}

/// A described image, whose counts are not frames.
struct ImageSource {
    acquisition: Acquisition,
    fingerprints: Fingerprints,
}

impl FrameSource for ImageSource {
    fn acquisition(&self) -> &Acquisition {
        &self.acquisition
    }

    fn read(&self, _: u64, _: SamplesMut<'_>, _: &Task) -> Result<()> {
        let message = format!(
            "`{}` is a scalar image with one number for each scan position, not a 4-D acquisition",
            self.acquisition.label
        );
        Err(Error::new(SourceCode::NotFourDimensional, message)
            .hint("`inspect` shows its size and calibration; it has no diffraction patterns"))
    }

    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        digest_members(&self.acquisition, &self.fingerprints, task)
    }

    fn check_unchanged(&self) -> Result<()> {
        self.fingerprints.check()
    }
}
