//! What the metadata of an EMD 1 datacube mean: steps, angles, beam energy, and where each was read.
//!
//! The calibration bundle outranks the dimension vectors, which speak where it is silent; a disagreement is a warning.
//! A unit of pixels is no calibration.

use super::datacube::{Cube, READER};
use super::dims::{self, Dim};
use super::short;
use crate::hdf5::{File, Found, Value, shortest};
use crate::units::{self, Factor};
use stempack_model::{Acquisition, Origin, Quantity, Recorded, Warning};

/// Relative difference of two records of the same step that is worth a remark.
const AGREE: f64 = 1e-6;

const ANGSTROM: &str = "\u{c5}";
const SCAN_UNITS: &[Factor] = &[
    ("A", 1.0),
    (ANGSTROM, 1.0),
    ("\u{212b}", 1.0),
    ("A\u{30a}", 1.0),
    ("angstrom", 1.0),
    ("Angstrom", 1.0),
    ("pm", 1e-2),
    ("nm", 10.0),
    ("um", 1e4),
    ("\u{b5}m", 1e4),
    ("\u{3bc}m", 1e4),
    ("mm", 1e7),
    ("m", 1e10),
];
const RECIPROCAL_UNITS: &[Factor] = &[
    ("A^-1", 1.0),
    ("\u{c5}^-1", 1.0),
    ("\u{212b}^-1", 1.0),
    ("A\u{30a}^-1", 1.0),
    ("A\u{207b}\u{b9}", 1.0),
    ("\u{c5}\u{207b}\u{b9}", 1.0),
    ("\u{212b}\u{207b}\u{b9}", 1.0),
    ("A\u{30a}\u{207b}\u{b9}", 1.0),
    ("1/A", 1.0),
    ("1/\u{c5}", 1.0),
    ("1/\u{212b}", 1.0),
    ("1/A\u{30a}", 1.0),
    ("1/angstrom", 1.0),
    ("angstrom^-1", 1.0),
    ("nm^-1", 0.1),
    ("nm\u{207b}\u{b9}", 0.1),
    ("1/nm", 0.1),
    ("m^-1", 1e-10),
    ("1/m", 1e-10),
];
/// Units that say that nobody calibrated.
const UNCALIBRATED: [&str; 6] = ["", "pixels", "pixel", "px", "_None", "none"];

/// The scan or the detector.
#[derive(Clone, Copy)]
struct Plane {
    /// What its keys begin with in the bundle.
    letter: char,
    /// For people.
    what: &'static str,
    /// Its two axes among the four.
    axes: [usize; 2],
    /// What a value in one of the units is, row and column.
    kinds: &'static [([Quantity; 2], &'static [Factor])],
    /// The units that the seed takes.
    strict: &'static [&'static str],
    /// Key of the source that was chosen.
    chosen: &'static str,
}

const PLANES: [Plane; 2] = [
    Plane {
        letter: 'R',
        what: "scan step",
        axes: [0, 1],
        kinds: &[([Quantity::ScanStepRow, Quantity::ScanStepCol], SCAN_UNITS)],
        strict: &["A", ANGSTROM],
        chosen: "spatial_calibration_source",
    },
    Plane {
        letter: 'Q',
        what: "detector step",
        axes: [2, 3],
        kinds: &[
            ([Quantity::DetectorAngleRow, Quantity::DetectorAngleCol], units::ANGLE_MRAD),
            ([Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol], RECIPROCAL_UNITS),
        ],
        strict: &["mrad"],
        chosen: "detector_calibration_source",
    },
];

/// The steps along both axes of a plane.
#[derive(Clone, Debug)]
struct Steps {
    quantities: [Quantity; 2],
    values: [Recorded<f64>; 2],
}

/// What one place says about a plane.
enum Said {
    /// Nothing, or that it is not calibrated.
    Nothing,
    /// Something that cannot be used.
    Unusable(String),
    Steps(Steps),
}

/// Adds everything that is interpreted.
pub(super) fn describe(file: &File, cube: &Cube, shape: [u64; 4], a: &mut Acquisition) {
    let bundles = [
        format!("{}/metadatabundle/calibration", cube.root),
        format!("{}/metadatabundle/calibration", cube.group),
    ];
    let dims = dims::read(file, &cube.group, shape).unwrap_or_else(|why| {
        warn(a, units::UNUSABLE, format!("`{}`: {why}; none is used", file.name()));
        [const { None }; 4]
    });
    for plane in PLANES {
        let bundle = bundles
            .iter()
            .map(|group| from_bundle(file, group, plane))
            .find(|said| !matches!(said, Said::Nothing))
            .unwrap_or(Said::Nothing);
        let [row, col] = plane.axes;
        let vectors = from_dims(file, [dims[row].as_ref(), dims[col].as_ref()], plane);
        choose(a, plane, bundle, vectors);
    }
    let of = |quantity, group: &str, key, unit, table| Scalar {
        quantity,
        group: group.to_owned(),
        key,
        unit,
        table,
    };
    let som2k = format!("{}/metadatabundle/SoM2k", cube.group);
    let angle = Quantity::SemiConvergenceAngle;
    for scalar in [
        of(angle, &bundles[0], "convergence_semiangle_mrad", "mrad", units::ANGLE_MRAD),
        of(angle, &bundles[1], "convergence_semiangle_mrad", "mrad", units::ANGLE_MRAD),
        of(Quantity::BeamEnergy, &som2k, "high tension", "V", units::BEAM_KEV_FROM_VOLTAGE),
        of(Quantity::CameraLength, &som2k, "camera length", "m", units::CAMERA_LENGTH_MM),
    ] {
        if !a.quantities.contains_key(&scalar.quantity)
            && let Some(found) = scalar.read(file, &mut a.warnings)
        {
            a.quantities.insert(scalar.quantity, found);
        }
    }
    retain(file, a);
}

fn warn(a: &mut Acquisition, code: &'static str, message: String) {
    a.warnings.push(Warning { code, message });
}

fn choose(a: &mut Acquisition, plane: Plane, bundle: Said, vectors: Said) {
    for (place, said) in [("the calibration", &bundle), ("the dimension vectors", &vectors)] {
        if let Said::Unusable(why) = said {
            warn(a, units::UNUSABLE, format!("{place} give no {}: {why}", plane.what));
        }
    }
    let (source, steps) = match (bundle, vectors) {
        (Said::Steps(first), Said::Steps(second)) => {
            if let Some(how) = disagreement(&first, &second) {
                let message = format!("{how}; the {} of the calibration is taken", plane.what);
                warn(a, "calibration_disagreement", message);
            }
            ("EMD calibration", first)
        }
        (Said::Steps(steps), _) => ("EMD calibration", steps),
        (_, Said::Steps(steps)) => ("EMD dimension vectors", steps),
        _ => return,
    };
    let [row, _] = &steps.values;
    a.provenance.insert(plane.chosen, format!("{source} · {}", row.origin.file));
    a.quantities.extend(steps.quantities.into_iter().zip(steps.values));
}

/// How two records of a plane differ, if they do.
fn disagreement(first: &Steps, second: &Steps) -> Option<String> {
    let same = |k: usize| {
        let (x, y) = (first.values[k].value, second.values[k].value);
        (x - y).abs() <= AGREE * x.abs().max(y.abs())
    };
    if first.quantities == second.quantities && same(0) && same(1) {
        return None;
    }
    let told = |steps: &Steps| {
        let [row, col] = &steps.values;
        let unit = steps.quantities[0].unit();
        let (r, c) = (shortest(row.value), shortest(col.value));
        if row.origin == col.origin { format!("{r} {unit}") } else { format!("{r} and {c} {unit}") }
    };
    Some(format!(
        "`{}` gives {}, `{}` gives {}",
        first.values[0].origin.path,
        told(first),
        second.values[0].origin.path,
        told(second)
    ))
}

/// A value of the bundle: a dataset of the group, or else an attribute on it.
fn member(file: &File, group: &str, key: &str) -> Option<(Option<Value>, String)> {
    let path = format!("{group}/{key}");
    match file.find(&path) {
        Ok(Found::Dataset(dataset)) => Some((dataset.value(), path)),
        _ if file.has_attribute(group, key) => Some((file.attribute(group, key), format!("{group}@{key}"))),
        _ => None,
    }
}

fn from_bundle(file: &File, group: &str, plane: Plane) -> Said {
    let letter = plane.letter;
    let Some((size, place)) = member(file, group, &format!("{letter}_pixel_size")) else {
        return Said::Nothing;
    };
    let unit = member(file, group, &format!("{letter}_pixel_units"))
        .and_then(|(value, _)| value)
        .and_then(|v| v.text().map(|t| t.trim().to_owned()));
    let Some(unit) = unit else {
        return Said::Unusable(format!("`{place}` has no unit"));
    };
    if UNCALIBRATED.contains(&unit.as_str()) {
        return Said::Nothing;
    }
    let Some(size) = size.and_then(|v| v.number()) else {
        return Said::Unusable(format!("`{place}` is not a single number"));
    };
    let origin = Origin { file: file.name().to_owned(), path: place };
    match recorded(size, &unit, plane, origin) {
        Ok((quantities, mut step)) => {
            if !plane.strict.contains(&unit.as_str()) {
                step.conversion.push_str(&format!(" ({READER})"));
            }
            Said::Steps(Steps { quantities, values: [step.clone(), step] })
        }
        Err(why) => Said::Unusable(why),
    }
}

fn from_dims(file: &File, dims: [Option<&Dim>; 2], plane: Plane) -> Said {
    let [Some(row), Some(col)] = dims else { return Said::Nothing };
    let mut found = Vec::new();
    for dim in [row, col] {
        let unit = dim.unit.as_deref().unwrap_or("");
        if UNCALIBRATED.contains(&unit) {
            return Said::Nothing;
        }
        let origin = Origin { file: file.name().to_owned(), path: dim.path.clone() };
        let step = match &dim.step {
            Ok(step) => *step,
            Err(why) => return Said::Unusable(format!("`{}`: {why}", dim.path)),
        };
        match recorded(step, unit, plane, origin) {
            Ok((quantities, mut step)) => {
                step.conversion.push_str(&format!(" ({READER})"));
                found.push((quantities, step));
            }
            Err(why) => return Said::Unusable(why),
        }
    }
    match (found.pop(), found.pop()) {
        (Some((of_col, col)), Some((of_row, row))) if of_col == of_row => {
            Said::Steps(Steps { quantities: of_row, values: [row, col] })
        }
        _ => Said::Unusable(format!("`{}` and `{}` are not of one kind", row.path, col.path)),
    }
}

/// A step in the unit of the quantity that its unit says it is.
fn recorded(
    size: f64,
    unit: &str,
    plane: Plane,
    origin: Origin,
) -> Result<([Quantity; 2], Recorded<f64>), String> {
    let Some(&(quantities, table)) =
        plane.kinds.iter().find(|(_, table)| table.iter().any(|(name, _)| *name == unit))
    else {
        return Err(format!(
            "`{}` has the unit `{}`, which is not known for a {}",
            origin.path,
            short(unit),
            plane.what
        ));
    };
    let Some(converted) = units::quantity(&Value::Float(vec![size]), Some(unit), table, None) else {
        return Err(format!("`{}` is {}, not a positive number", origin.path, shortest(size)));
    };
    let flag = match quantities[0] {
        Quantity::ScanStepRow => units::step_flag(converted.value),
        _ => None,
    };
    Ok((quantities, Recorded { value: converted.value, origin, conversion: converted.conversion, flag }))
}

/// A single number whose unit is a convention, unless it carries one of its own.
struct Scalar {
    quantity: Quantity,
    group: String,
    key: &'static str,
    unit: &'static str,
    table: &'static [Factor],
}

impl Scalar {
    /// The value; one that is there and cannot be used is said.
    fn read(&self, file: &File, warnings: &mut Vec<Warning>) -> Option<Recorded<f64>> {
        let (value, place) = member(file, &self.group, self.key)?;
        let own = file.attribute(&place, "units");
        let own = own.as_ref().and_then(Value::text).map(str::trim).filter(|t| !t.is_empty());
        let unit = own.unwrap_or(self.unit);
        let converted = value
            .as_ref()
            .and_then(Value::number)
            .and_then(|x| units::quantity(&Value::Float(vec![x]), Some(unit), self.table, None));
        let Some(converted) = converted else {
            let found = value.map_or_else(|| "no single value".to_owned(), |v| v.display());
            units::note_unusable(warnings, (file.name(), &place), self.quantity, &found, Some(unit));
            return None;
        };
        let origin = Origin { file: file.name().to_owned(), path: place };
        Some(Recorded { value: converted.value, origin, conversion: converted.conversion, flag: None })
    }
}

/// Texts kept without interpretation; those that were interpreted first.
fn retain(file: &File, a: &mut Acquisition) {
    let first = a.quantities.values().map(|r| r.origin.path.trim_start_matches('/').to_owned()).collect();
    let kept = crate::arina::retained::collect(file, &first);
    a.retained = kept.texts.into_iter().collect();
    a.retained_left_out = kept.left_out;
}
