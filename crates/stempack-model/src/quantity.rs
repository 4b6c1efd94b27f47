//! Physical quantities as recorded: one name and one unit each, with the place the value was read.

use std::fmt;

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
}
