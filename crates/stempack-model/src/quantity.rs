//! Physical quantities: one name and one unit each, when a value is believed, and the place it was read.
//!
//! One rule holds for every source. A value that is not finite or not above zero is absent. One that is possible but
//! outside what is usual is kept and flagged: it may be a wrong unit, or an unusual experiment.

use std::fmt;
use std::ops::RangeInclusive;

/// Where a value was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// File name, without its folder.
    pub file: String,
    /// Place inside the file: an HDF5 path, an attribute, a tag.
    pub path: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.path)
    }
}

/// A value with its origin and what was done to it on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded<T> {
    /// The value in the unit of its [`Quantity`].
    pub value: T,
    /// Where it was read.
    pub origin: Origin,
    /// How the recorded text became the value, for example `0.05 nm × 10`.
    pub conversion: String,
    /// A doubt that travels with the value, for example `outside the usual range`.
    pub flag: Option<String>,
}

impl Recorded<f64> {
    /// A value of `quantity`, in its unit, or nothing when it is [impossible](Quantity::is_possible); flagged when it is
    /// [unusual](Quantity::doubt).
    pub fn of(quantity: Quantity, value: f64, origin: Origin, conversion: impl Into<String>) -> Option<Self> {
        Quantity::is_possible(value).then(|| Recorded {
            value,
            origin,
            conversion: conversion.into(),
            flag: quantity.doubt(value),
        })
    }
}

/// The quantities that readers recognise. A quantity nobody recorded is absent, never zero or assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Specimen step between scan rows.
    ScanStepRow,
    /// Specimen step between scan columns.
    ScanStepCol,
    /// Scattering angle between detector rows.
    DetectorAngleRow,
    /// Scattering angle between detector columns.
    DetectorAngleCol,
    /// Reciprocal-space step between detector rows.
    DetectorReciprocalRow,
    /// Reciprocal-space step between detector columns.
    DetectorReciprocalCol,
    /// Energy of the beam electrons.
    BeamEnergy,
    /// Semi-convergence angle of the probe.
    SemiConvergenceAngle,
    /// Time per scan position.
    DwellTime,
    /// Nominal camera length.
    CameraLength,
}

impl Quantity {
    /// Every quantity, in the order it is printed.
    pub const ALL: [Quantity; 10] = [
        Quantity::ScanStepRow,
        Quantity::ScanStepCol,
        Quantity::DetectorAngleRow,
        Quantity::DetectorAngleCol,
        Quantity::DetectorReciprocalRow,
        Quantity::DetectorReciprocalCol,
        Quantity::BeamEnergy,
        Quantity::SemiConvergenceAngle,
        Quantity::DwellTime,
        Quantity::CameraLength,
    ];
    /// The JSON name.
    pub fn as_str(self) -> &'static str {
        match self {
            Quantity::ScanStepRow => "scan_step_row",
            Quantity::ScanStepCol => "scan_step_col",
            Quantity::DetectorAngleRow => "detector_angle_row",
            Quantity::DetectorAngleCol => "detector_angle_col",
            Quantity::DetectorReciprocalRow => "detector_reciprocal_row",
            Quantity::DetectorReciprocalCol => "detector_reciprocal_col",
            Quantity::BeamEnergy => "beam_energy",
            Quantity::SemiConvergenceAngle => "semi_convergence_angle",
            Quantity::DwellTime => "dwell_time",
            Quantity::CameraLength => "camera_length",
        }
    }
    /// The only unit values of this quantity are expressed in.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::ScanStepRow | Quantity::ScanStepCol => "angstrom",
            Quantity::DetectorAngleRow | Quantity::DetectorAngleCol | Quantity::SemiConvergenceAngle => {
                "mrad"
            }
            Quantity::DetectorReciprocalRow | Quantity::DetectorReciprocalCol => "1/angstrom",
            Quantity::BeamEnergy => "keV",
            Quantity::DwellTime => "us",
            Quantity::CameraLength => "mm",
        }
    }
    /// The quantity with a JSON name, the inverse of [`as_str`](Self::as_str).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|q| q.as_str() == name)
    }
    /// Whether a value can be one of any quantity: finite and above zero.
    pub fn is_possible(value: f64) -> bool {
        value.is_finite() && value > 0.0
    }
    /// Where values usually lie, in the unit of the quantity. Wide: a wrong unit is a factor of a thousand, and most
    /// experiments lie three or more such factors within.
    pub fn usual(self) -> RangeInclusive<f64> {
        match self {
            // A hundredth of the finest probe, to one micrometre.
            Quantity::ScanStepRow | Quantity::ScanStepCol => 1e-4..=1e4,
            // Per detector pixel, from nanodiffraction at a long camera length to wide-angle at low energy.
            Quantity::DetectorAngleRow | Quantity::DetectorAngleCol => 1e-4..=100.0,
            Quantity::DetectorReciprocalRow | Quantity::DetectorReciprocalCol => 1e-5..=10.0,
            // Scanning microscopes in transmission, to high-voltage instruments.
            Quantity::BeamEnergy => 1.0..=3000.0,
            // Nearly parallel, to beyond any corrector.
            Quantity::SemiConvergenceAngle => 1e-3..=300.0,
            // Ten nanoseconds to a hundred seconds.
            Quantity::DwellTime => 0.01..=1e8,
            // One millimetre to a hundred metres.
            Quantity::CameraLength => 1.0..=1e5,
        }
    }
    /// Why a possible value deserves a second look, if it does.
    pub fn doubt(self, value: f64) -> Option<String> {
        let usual = self.usual();
        if usual.contains(&value) {
            return None;
        }
        Some(format!("outside the usual range of {} to {} {}", usual.start(), usual.end(), self.unit()))
    }
    /// The same quantity along the other axis.
    pub fn across(self) -> Option<Quantity> {
        Some(match self {
            Quantity::ScanStepRow => Quantity::ScanStepCol,
            Quantity::ScanStepCol => Quantity::ScanStepRow,
            Quantity::DetectorAngleRow => Quantity::DetectorAngleCol,
            Quantity::DetectorAngleCol => Quantity::DetectorAngleRow,
            Quantity::DetectorReciprocalRow => Quantity::DetectorReciprocalCol,
            Quantity::DetectorReciprocalCol => Quantity::DetectorReciprocalRow,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(quantity: Quantity, value: f64) -> Option<Recorded<f64>> {
        Recorded::of(quantity, value, Origin { file: "f".into(), path: "p".into() }, "c")
    }

    #[test]
    fn impossible_values_are_absent_whatever_the_quantity() {
        for quantity in Quantity::ALL {
            for value in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert_eq!(recorded(quantity, value), None, "{} {value}", quantity.as_str());
            }
            assert!(recorded(quantity, f64::MIN_POSITIVE).is_some_and(|r| r.flag.is_some()));
            assert!(recorded(quantity, f64::MAX).is_some_and(|r| r.flag.is_some()));
        }
    }

    /// Values of real files are usual; the same in a unit a thousand times off mostly are not.
    #[test]
    fn unusual_values_are_kept_and_flagged() {
        for (quantity, value) in [
            (Quantity::BeamEnergy, 300.0),
            (Quantity::BeamEnergy, 30.0),
            (Quantity::CameraLength, 369.0),
            (Quantity::DwellTime, 199.5),
            (Quantity::DwellTime, 1000.0),
            (Quantity::SemiConvergenceAngle, 21.5),
            (Quantity::SemiConvergenceAngle, 0.5),
            (Quantity::DetectorAngleRow, 0.429_065_743_944_636_7),
            (Quantity::DetectorReciprocalCol, 0.001_87),
            (Quantity::DetectorReciprocalCol, 0.018_265_370_602_272_9),
            (Quantity::ScanStepRow, 276.131_150_512_053_8),
            (Quantity::ScanStepRow, 1e-4),
            (Quantity::ScanStepRow, 1e4),
        ] {
            assert_eq!(recorded(quantity, value).unwrap().flag, None, "{} {value}", quantity.as_str());
        }
        for (quantity, value, flag) in [
            (Quantity::ScanStepRow, 11_415.857, "outside the usual range of 0.0001 to 10000 angstrom"),
            (Quantity::BeamEnergy, 0.3, "outside the usual range of 1 to 3000 keV"),
            (Quantity::BeamEnergy, 300_000.0, "outside the usual range of 1 to 3000 keV"),
            (Quantity::CameraLength, 0.369, "outside the usual range of 1 to 100000 mm"),
            (Quantity::SemiConvergenceAngle, 21_500.0, "outside the usual range of 0.001 to 300 mrad"),
        ] {
            let found = recorded(quantity, value).unwrap();
            assert_eq!((found.value, found.flag.as_deref()), (value, Some(flag)));
        }
    }

    #[test]
    fn names_lead_back_and_axes_across() {
        for quantity in Quantity::ALL {
            assert_eq!(Quantity::named(quantity.as_str()), Some(quantity));
            if let Some(other) = quantity.across() {
                assert_eq!((other.across(), other.unit()), (Some(quantity), quantity.unit()));
            }
        }
        assert_eq!(Quantity::named("scan_step"), None);
    }
}
