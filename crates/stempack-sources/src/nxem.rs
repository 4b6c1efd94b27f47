//! The NXem block (`/electron_microscope`) of a companion or of a master: scan dimensions, scan steps and microscope
//! quantities.
//!
//! Whether the dimensions are those of the acquisition is the caller's decision, and it is a different question from
//! whether the steps have usable units: a voltage does not become wrong because a step has no unit.

use crate::hdf5::{File, Value};
use crate::units::{self, Converted, Factor};
use std::collections::BTreeMap;
use stempack_model::{Origin, Quantity, Recorded, Warning};

const ROOT: &str = "/electron_microscope";
const SCAN: &str = "/electron_microscope/scan_controller/regular_scan";

/// What an NXem block says.
#[derive(Debug, Default)]
pub(crate) struct Nxem {
    /// Scan rows and columns, or why there are none.
    pub(crate) dimensions: Dimensions,
    /// Row and column step, when both are usable.
    pub(crate) steps: Option<[Recorded<f64>; 2]>,
    /// Microscope quantities other than the scan steps.
    pub(crate) quantities: BTreeMap<Quantity, Recorded<f64>>,
    /// What is recorded and not taken.
    pub(crate) warnings: Vec<Warning>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Dimensions {
    /// The file has no scan block at all.
    #[default]
    Absent,
    /// It has one that is no regular scan of one frame for each position.
    Unusable(String),
    /// Rows and columns, and the place they were read.
    Recorded(u64, u64, &'static str),
}

/// Paths below [`ROOT`] with the units each accepts.
const QUANTITIES: &[(Quantity, &str, &[Factor])] = &[
    (Quantity::BeamEnergy, "electron_source/accelerating_voltage", units::BEAM_KEV_FROM_VOLTAGE),
    (Quantity::SemiConvergenceAngle, "illumination_system/semi_convergence_angle", units::ANGLE_MRAD),
    (Quantity::DwellTime, "scan_controller/regular_scan/dwell_time", units::TIME_US),
    (Quantity::CameraLength, "imaging_system/camera_length", units::CAMERA_LENGTH_MM),
    (Quantity::DetectorAngleRow, "imaging_system/reciprocal_pixel_size_y", units::ANGLE_MRAD),
    (Quantity::DetectorAngleCol, "imaging_system/reciprocal_pixel_size_x", units::ANGLE_MRAD),
];

/// The paths that are interpreted, without the leading slash: retained whatever else does not fit.
pub(crate) fn interpreted_paths() -> impl Iterator<Item = String> {
    let root = ROOT.trim_start_matches('/');
    let scan = SCAN.trim_start_matches('/');
    QUANTITIES
        .iter()
        .map(move |(_, path, _)| format!("{root}/{path}"))
        .chain(
            ["n_pixels_y", "n_pixels_x", "n_frames", "pixel_size_y", "pixel_size_x"]
                .map(|n| format!("{scan}/{n}")),
        )
        .chain([format!("{root}/scan_controller/scan_type")])
}

/// Reads the block; `None` when the file has none.
pub(crate) fn read(file: &File) -> Option<Nxem> {
    if !file.has_group(ROOT) {
        return None;
    }
    let (mut quantities, mut warnings) = (BTreeMap::new(), Vec::new());
    for &(quantity, path, table) in QUANTITIES {
        let path = format!("{ROOT}/{path}");
        let convert = |v: &Value, u: Option<&str>| units::quantity(v, u, table, None);
        if let Some(found) = recorded(file, &path, quantity, &mut warnings, convert) {
            quantities.insert(quantity, found);
        }
    }
    let dimensions = dimensions(file);
    // A step belongs to the regular scan of this block; where that is not established there is none.
    let steps = match dimensions {
        Dimensions::Recorded(_, _, place) if place == SCAN => steps(file, &mut warnings),
        _ => None,
    };
    Some(Nxem { dimensions, steps, quantities, warnings })
}

fn dimensions(file: &File) -> Dimensions {
    let at = |name: &str| file.value(&format!("{SCAN}/{name}"));
    let kind = file.value(&format!("{ROOT}/scan_controller/scan_type"));
    let (rows, cols) = (at("n_pixels_y"), at("n_pixels_x"));
    let frames = at("n_frames");
    // Of a block that is absent or incomplete nothing is used; the attribute may still say.
    if [&kind, &rows, &cols, &frames].into_iter().any(Option::is_none) {
        let attribute = attribute_dimensions(file);
        let absent = kind.is_none() && rows.is_none() && cols.is_none();
        if absent || attribute != Dimensions::Absent {
            return attribute;
        }
    }
    match kind.as_ref().and_then(Value::text) {
        Some("regular") => {}
        other => return Dimensions::Unusable(format!("its scan_type is {}, not `regular`", shown(other))),
    }
    let count = |v: Option<Value>| v.and_then(|v| v.count()).filter(|&n| n > 0);
    let (Some(rows), Some(cols)) = (count(rows), count(cols)) else {
        return Dimensions::Unusable(
            "its n_pixels_y and n_pixels_x are not two positive integers".to_owned(),
        );
    };
    match frames.and_then(|v| v.count()) {
        Some(1) => Dimensions::Recorded(rows, cols, SCAN),
        Some(n) => Dimensions::Unusable(format!("it records {n} frames for each scan position, not 1")),
        None => Dimensions::Unusable("it does not record n_frames = 1".to_owned()),
    }
}

/// A companion without a scan block may still carry the shape as an attribute.
fn attribute_dimensions(file: &File) -> Dimensions {
    const PLACE: &str = "/entry/data@scan_shape";
    match file.attribute("/entry/data", "scan_shape").and_then(|v| v.counts()).as_deref() {
        Some(&[rows, cols]) if rows > 0 && cols > 0 => Dimensions::Recorded(rows, cols, PLACE),
        _ => Dimensions::Absent,
    }
}

fn shown(text: Option<&str>) -> String {
    text.map_or_else(|| "not recorded".to_owned(), |t| format!("`{t}`"))
}

fn steps(file: &File, warnings: &mut Vec<Warning>) -> Option<[Recorded<f64>; 2]> {
    let mut said = Vec::new();
    let mut step = |name: &str, quantity: Quantity| {
        let path = format!("{SCAN}/{name}");
        recorded(file, &path, quantity, &mut said, units::scan_step).map(flagged)
    };
    let row = step("pixel_size_y", Quantity::ScanStepRow);
    let col = step("pixel_size_x", Quantity::ScanStepCol);
    both(row, col, said, warnings)
}

/// Two steps, or none. One alone is said, unless `said` tells already what else is not taken.
pub(crate) fn both(
    row: Option<Recorded<f64>>,
    col: Option<Recorded<f64>>,
    mut said: Vec<Warning>,
    warnings: &mut Vec<Warning>,
) -> Option<[Recorded<f64>; 2]> {
    let found = match (row, col) {
        (Some(row), Some(col)) => Some([row, col]),
        (Some(one), None) | (None, Some(one)) if said.is_empty() => {
            units::note_one_axis(&mut said, &one);
            None
        }
        _ => None,
    };
    warnings.append(&mut said);
    found
}

/// Marks a scan step outside the usual range.
pub(crate) fn flagged(mut step: Recorded<f64>) -> Recorded<f64> {
    step.flag = units::step_flag(step.value);
    step
}

/// A value with its `units` attribute, converted, with its origin; one that does not convert is said.
pub(crate) fn recorded(
    file: &File,
    path: &str,
    quantity: Quantity,
    warnings: &mut Vec<Warning>,
    convert: impl Fn(&Value, Option<&str>) -> Option<Converted>,
) -> Option<Recorded<f64>> {
    let value = file.value(path)?;
    let units = file.attribute(path, "units");
    let unit = units.as_ref().and_then(Value::text);
    let Some(Converted { value, conversion }) = convert(&value, unit) else {
        units::note_unusable(warnings, (file.name(), path), quantity, &value.display(), unit);
        return None;
    };
    let origin = Origin { file: file.name().to_owned(), path: path.to_owned() };
    Some(Recorded { value, origin, conversion, flag: None })
}
