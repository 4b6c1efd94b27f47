//! Which physical quantities a `.qem` header names, in which unit each is stored, and how older units convert.

use stempack_model::Quantity;

/// A quantity with a path of its own under `electron_microscope`.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) path: &'static str,
    /// Units of schema 2.
    pub(super) units: &'static [&'static str],
    /// Units of schema 1: unit, how it converts, unit of schema 2.
    from: &'static [(&'static str, Convert, &'static str)],
    /// Index of the axis whose step it repeats.
    pub(super) axis: Option<usize>,
    pub(super) overridable: bool,
}

#[derive(Clone, Copy, Debug)]
enum Convert {
    Times(f64),
    Over(f64),
}

impl Convert {
    fn apply(self, value: f64) -> f64 {
        match self {
            Convert::Times(factor) => value * factor,
            Convert::Over(divisor) => value / divisor,
        }
    }
}

use Convert::{Over, Times};

const LENGTH: &[(&str, Convert, &str)] = &[
    ("m", Times(1e10), "angstrom"),
    ("nm", Times(10.0), "angstrom"),
    ("Å", Times(1.0), "angstrom"),
    ("\u{212b}", Times(1.0), "angstrom"),
];
const DETECTOR: &[(&str, Convert, &str)] = &[
    ("rad", Times(1e3), "mrad"),
    ("1/nm", Over(10.0), "1/angstrom"),
    ("1/Å", Times(1.0), "1/angstrom"),
    ("1/\u{212b}", Times(1.0), "1/angstrom"),
];
pub(super) const SCAN_UNITS: &[&str] = &["angstrom"];
pub(super) const DETECTOR_UNITS: &[&str] = &["mrad", "1/angstrom"];

pub(super) const VOLTAGE: &str = "electron_source/accelerating_voltage";
pub(super) const BEAM_ENERGY: &str = "electron_source/beam_energy";
pub(super) const SEMI_ANGLE: &str = "illumination_system/semi_convergence_angle";
pub(super) const DWELL_TIME: &str = "scan_controller/regular_scan/dwell_time";
pub(super) const CAMERA_LENGTH: &str = "imaging_system/camera_length";

const fn known(
    path: &'static str,
    units: &'static [&'static str],
    from: &'static [(&'static str, Convert, &'static str)],
    axis: Option<usize>,
) -> Known {
    Known { path, units, from, axis, overridable: true }
}

/// The quantities that have one meaning and one unit in every file.
pub(super) const KNOWN: [Known; 9] = [
    known(VOLTAGE, &["kV"], &[("V", Over(1e3), "kV")], None),
    Known { overridable: false, ..known(BEAM_ENERGY, &["keV"], &[("eV", Over(1e3), "keV")], None) },
    known(SEMI_ANGLE, &["mrad"], &[("rad", Times(1e3), "mrad")], None),
    known(DWELL_TIME, &["us"], &[("s", Times(1e6), "us"), ("ms", Times(1e3), "us")], None),
    known(CAMERA_LENGTH, &["mm"], &[("m", Times(1e3), "mm"), ("cm", Times(10.0), "mm")], None),
    known("scan_controller/regular_scan/pixel_size_row", SCAN_UNITS, LENGTH, Some(0)),
    known("scan_controller/regular_scan/pixel_size_column", SCAN_UNITS, LENGTH, Some(1)),
    known("imaging_system/reciprocal_pixel_size_row", DETECTOR_UNITS, DETECTOR, Some(2)),
    known("imaging_system/reciprocal_pixel_size_column", DETECTOR_UNITS, DETECTOR, Some(3)),
];

impl Known {
    pub(super) fn at(path: &str) -> Option<&'static Known> {
        KNOWN.iter().find(|k| k.path == path)
    }
    /// What an axis is measured in: the quantity that repeats its step.
    pub(super) fn of_axis(axis: usize) -> Option<&'static Known> {
        KNOWN.iter().find(|k| k.axis == Some(axis))
    }
    /// The value in its unit of schema 2, or `None` for a unit that does not convert.
    pub(super) fn canonical(&self, value: f64, unit: &str) -> Option<(f64, &'static str)> {
        if let Some(&unit) = self.units.iter().find(|&&u| u == unit) {
            return Some((value, unit));
        }
        let &(_, convert, to) = self.from.iter().find(|(from, ..)| *from == unit)?;
        Some((convert.apply(value), to))
    }
    /// The model's quantity that a value in `unit` (of schema 2) is.
    pub(super) fn quantity(&self, unit: &str) -> Option<Quantity> {
        Some(match (self.path, self.axis, unit) {
            (VOLTAGE | BEAM_ENERGY, ..) => Quantity::BeamEnergy,
            (SEMI_ANGLE, ..) => Quantity::SemiConvergenceAngle,
            (DWELL_TIME, ..) => Quantity::DwellTime,
            (CAMERA_LENGTH, ..) => Quantity::CameraLength,
            (_, Some(0), _) => Quantity::ScanStepRow,
            (_, Some(1), _) => Quantity::ScanStepCol,
            (_, Some(2), "mrad") => Quantity::DetectorAngleRow,
            (_, Some(3), "mrad") => Quantity::DetectorAngleCol,
            (_, Some(2), _) => Quantity::DetectorReciprocalRow,
            (_, Some(3), _) => Quantity::DetectorReciprocalCol,
            _ => return None,
        })
    }
}

/// A step of the other axis of the pair must stand beside these.
pub(super) const PAIRS: [(Quantity, Quantity); 3] = [
    (Quantity::ScanStepRow, Quantity::ScanStepCol),
    (Quantity::DetectorAngleRow, Quantity::DetectorAngleCol),
    (Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_units_convert_to_the_one_of_schema_2() {
        for (path, value, unit, expected) in [
            (VOLTAGE, 300_000.0, "V", Some((300.0, "kV"))),
            (BEAM_ENERGY, 80_000.0, "eV", Some((80.0, "keV"))),
            (DWELL_TIME, 5e-5, "s", Some((50.0, "us"))),
            (DWELL_TIME, 0.5, "ms", Some((500.0, "us"))),
            (CAMERA_LENGTH, 0.23, "m", Some((230.0, "mm"))),
            ("scan_controller/regular_scan/pixel_size_row", 0.06, "nm", Some((0.6, "angstrom"))),
            ("imaging_system/reciprocal_pixel_size_row", 0.2, "1/nm", Some((0.02, "1/angstrom"))),
            ("imaging_system/reciprocal_pixel_size_row", 0.002, "rad", Some((2.0, "mrad"))),
            ("imaging_system/reciprocal_pixel_size_row", 1.0, "1/m", None),
            (VOLTAGE, 1.0, "keV", None),
        ] {
            let found = Known::at(path).unwrap().canonical(value, unit);
            match (found, expected) {
                (Some((v, u)), Some((w, x))) => assert!(u == x && (v - w).abs() <= 1e-12 * w, "{path} {v}"),
                (found, expected) => assert_eq!(found, expected, "{path}"),
            }
        }
    }
}
