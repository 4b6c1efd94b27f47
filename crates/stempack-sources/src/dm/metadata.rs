//! What the recorded values mean: steps of the axes, beam energy, camera, date.
//!
//! Both axes of a pair are calibrated in the same kind of unit, or the pair is not calibrated. The seed contract
//! refuses a file without steps of the detector; so does this reader, unless that is allowed.

use super::images::Image;
use super::layout::{Axis, Layout};
use super::units::Domain;
use super::values::Values;
use super::{format_label, retained};
use crate::error::SourceCode;
use crate::units::{note_unusable, step_flag};
use crate::{OpenOptions, shown};
use std::collections::BTreeMap;
use stempack_model::{Origin, Quantity, Recorded, Result, SampleType, Warning};

const MODEL_TAG: [&str; 4] = ["ImageTags", "Acquisition", "Device", "Source Model"];
const ID_TAG: [&str; 4] = ["ImageTags", "Acquisition", "Device", "Source ID"];
const PROCESSING_TAG: [&str; 5] = ["ImageTags", "Acquisition", "Parameters", "High Level", "Processing"];
const VOLTAGE_TAG: [&str; 3] = ["ImageTags", "Microscope Info", "Voltage"];
const DATE_TAG: [&str; 4] = ["ImageTags", "SI", "Acquisition", "Date"];

/// Tags that are interpreted: retained before all others.
pub(super) const INTERPRETED: [&[&str]; 7] = [
    &["ImageData", "DataType"],
    &MODEL_TAG,
    &ID_TAG,
    &PROCESSING_TAG,
    &VOLTAGE_TAG,
    &DATE_TAG,
    &super::layout::ORDER_TAG,
];

/// The identifier the seed gives to files that satisfy its contract.
const SEED_CONTRACT: &str = "digitalmicrograph/native-counts-v1";

/// Everything that is interpreted.
#[derive(Default)]
pub(super) struct Described {
    pub(super) format: String,
    pub(super) quantities: BTreeMap<Quantity, Recorded<f64>>,
    pub(super) identity: BTreeMap<&'static str, String>,
    pub(super) provenance: BTreeMap<&'static str, String>,
    pub(super) warnings: Vec<Warning>,
    pub(super) retained: Vec<(String, String)>,
    pub(super) retained_left_out: usize,
}

/// The steps of two axes, row and column, and what they sample.
struct Pair {
    domain: Domain,
    steps: [Recorded<f64>; 2],
    /// Whether the seed converts both units.
    in_seed: bool,
}

pub(super) fn describe(
    values: Values<'_>,
    image: &Image<'_>,
    layout: &Layout,
    options: &OpenOptions,
) -> Result<Described> {
    let mut all = Described::default();
    let scan = layout.scan_axes.as_ref().and_then(|axes| pair(values, image, axes));
    let scan = scan.filter(|pair| pair.domain == Domain::Length);
    let detector = pair(values, image, &layout.detector_axes).filter(|pair| pair.domain != Domain::Length);

    match (&scan, &layout.scan_axes) {
        (Some(pair), _) => {
            all.take([Quantity::ScanStepRow, Quantity::ScanStepCol], &pair.steps);
            let place = format!("{}:{}.ImageData.Calibrations", shown(values.input.path()), image.place);
            all.provenance.insert("spatial_calibration_source", place);
        }
        // Scales without any unit are how an image says that it is not calibrated.
        (None, Some([row, col]))
            if [row, col].iter().any(|a| a.units.as_deref().is_some_and(|u| !u.is_empty())) =>
        {
            let message = format!(
                "the scan axes of `{}` are recorded as {} by {}, which is no scan step",
                image.place,
                row.describe(),
                col.describe()
            );
            all.warnings.push(Warning { code: "uncalibrated_scan_step", message });
        }
        _ => {}
    }
    match &detector {
        Some(pair) if pair.domain == Domain::Angle => {
            all.take([Quantity::DetectorAngleRow, Quantity::DetectorAngleCol], &pair.steps);
        }
        Some(pair) => {
            all.take([Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol], &pair.steps);
        }
        None => {
            let [row, col] = &layout.detector_axes;
            let message = format!(
                "the detector axes of `{}` are recorded as {} by {}, which is no reciprocal or angular step",
                image.place,
                row.describe(),
                col.describe()
            );
            if !options.allow_uncalibrated {
                return Err(values
                    .input
                    .refuse(SourceCode::MissingCalibration, message)
                    .hint("--allow-uncalibrated opens it without steps of the detector"));
            }
            all.warnings.push(Warning { code: "uncalibrated_detector", message });
        }
    }

    if let Some(data) = values.data(image.tags, &VOLTAGE_TAG)? {
        let origin = origin(values, image, &VOLTAGE_TAG);
        let voltage = values.number(data)?;
        match voltage.map(|v| (v, v.as_f64() / 1e3)).filter(|(_, kev)| Quantity::is_possible(*kev)) {
            Some((voltage, value)) => {
                let conversion = format!("{voltage} V ÷ 1000");
                let found = Recorded { value, origin, conversion, flag: None };
                all.quantities.insert(Quantity::BeamEnergy, found);
            }
            None => {
                let (at, shown) = ((origin.file.as_str(), origin.path.as_str()), values.show(data)?);
                note_unusable(&mut all.warnings, at, Quantity::BeamEnergy, &shown, Some("V"));
            }
        }
    }
    for (key, tag) in [
        ("camera_model", &MODEL_TAG[..]),
        ("camera_id", &ID_TAG),
        ("acquisition_processing", &PROCESSING_TAG),
        ("acquisition_date", &DATE_TAG),
    ] {
        if let Some(text) = values.text_at(image.tags, tag)? {
            all.identity.insert(key, text);
        }
    }
    all.format =
        format_label(values.tags.header.version, all.identity.get("camera_model").map(String::as_str));
    if strict(values, layout, scan.as_ref(), detector.as_ref()) {
        all.provenance.insert("sourceFormatVersion", SEED_CONTRACT.to_owned());
    }
    all.provenance.insert("sourceBytes", values.input.bytes().to_string());
    all.provenance.insert("sourceDataset", format!("{}.ImageData.Data", image.place));
    all.provenance.insert("axis_order", layout.order_evidence.clone());
    if let Some(origins) = origins(layout) {
        all.provenance.insert("axis_origins", origins);
    }
    let kept = retained::collect(values, image)?;
    all.retained = kept.texts;
    all.retained_left_out = kept.left_out;
    all.warnings.extend(layout.warnings.iter().cloned());
    Ok(all)
}

impl Described {
    fn take(&mut self, names: [Quantity; 2], steps: &[Recorded<f64>; 2]) {
        self.quantities.extend(names.into_iter().zip(steps.iter().cloned()));
    }
}

/// The steps of two axes, when both are recorded in units of the same kind.
fn pair(values: Values<'_>, image: &Image<'_>, axes: &[Axis; 2]) -> Option<Pair> {
    let step = |axis: &Axis| {
        let (scale, unit) = (axis.scale?, axis.unit()?);
        let value = unit.convert(scale.as_f64())?;
        let path = ["ImageData", "Calibrations", "Dimension", &axis.tag, "Scale"];
        let conversion = unit.conversion(scale, axis.units.as_deref().unwrap_or(""));
        let flag = if unit.domain == Domain::Length { step_flag(value) } else { None };
        Some((unit, Recorded { value, origin: origin(values, image, &path), conversion, flag }))
    };
    let ((row_unit, row), (col_unit, col)) = (step(&axes[0])?, step(&axes[1])?);
    (row_unit.domain == col_unit.domain).then_some(Pair {
        domain: row_unit.domain,
        steps: [row, col],
        in_seed: row_unit.in_seed && col_unit.in_seed,
    })
}

fn origin(values: Values<'_>, image: &Image<'_>, path: &[&str]) -> Origin {
    Origin { file: shown(values.input.path()), path: format!("{}.{}", image.place, path.join(".")) }
}

/// Whether the seed contract holds: DM4, little-endian 8- or 16-bit counts, detector axes fastest and in exactly
/// `1/nm`, a scale for every axis, and no scan step from a unit that the seed leaves alone.
fn strict(values: Values<'_>, layout: &Layout, scan: Option<&Pair>, detector: Option<&Pair>) -> bool {
    let Some(scan_axes) = &layout.scan_axes else { return false };
    let recorded = |axis: &Axis| axis.scale.is_some() && axis.units.is_some();
    values.tags.header.version == super::tags::Version::Dm4
        && !values.big_endian()
        && matches!(layout.sample, SampleType::U8 | SampleType::U16)
        && layout.detector_fastest
        && layout.detector_axes.iter().all(|axis| axis.units.as_deref() == Some("1/nm"))
        && detector.is_some()
        && scan_axes.iter().all(recorded)
        && scan.is_none_or(|pair| pair.in_seed)
}

/// The recorded origins in public order, in pixels.
fn origins(layout: &Layout) -> Option<String> {
    let names = ["det_row", "det_col"];
    let mut all: Vec<String> = Vec::new();
    if let Some(axes) = &layout.scan_axes {
        for (name, axis) in ["scan_row", "scan_col"].iter().zip(axes) {
            all.extend(axis.origin.map(|o| format!("{name} {o}")));
        }
    }
    for (name, axis) in names.iter().zip(&layout.detector_axes) {
        all.extend(axis.origin.map(|o| format!("{name} {o}")));
    }
    (!all.is_empty()).then(|| all.join(", "))
}
