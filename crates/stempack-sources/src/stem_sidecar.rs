//! The side file `<stem>.h5` that NCEM's acquisition software writes: a group `STEM Metadata` of plain attributes.
//!
//! Its units are not recorded; those used here are what the software is known to mean. `ScanDwellTime` has no known
//! unit and is left alone. A pixel size that the file itself calls uncalibrated is not a scan step.

use crate::hdf5::{File, Value};
use crate::units::{self, Converted, Factor};
use std::collections::BTreeMap;
use stempack_model::{Origin, Quantity, Recorded, Warning};

pub(crate) const GROUP: &str = "/STEM Metadata";

/// What a side file says.
#[derive(Debug, Default)]
pub(crate) struct SideFile {
    /// Rows and columns of the scan.
    pub(crate) dimensions: Option<(u64, u64)>,
    /// The step, the same along both axes, when it is calibrated.
    pub(crate) step: Option<Recorded<f64>>,
    /// A pixel size that is not calibrated, and what the file says of that.
    pub(crate) uncalibrated_step: Option<(f64, &'static str)>,
    /// Beam energy and camera length.
    pub(crate) quantities: BTreeMap<Quantity, Recorded<f64>>,
    /// What is recorded and not taken.
    pub(crate) warnings: Vec<Warning>,
}

/// Reads a side file; `None` when the file is none.
pub(crate) fn read(file: &File) -> Option<SideFile> {
    if !file.has_group(GROUP) {
        return None;
    }
    let attribute = |name: &str| file.attribute(GROUP, name);
    let mut warnings = Vec::new();
    // A text may carry its own unit, which is then meant.
    let mut recorded = |name: &str, quantity: Quantity, table: &[Factor], unit: &str| {
        let (value, path) = (attribute(name)?, format!("{GROUP}@{name}"));
        let Some(Converted { value, conversion }) = units::quantity(&value, None, table, Some(unit)) else {
            let unit = value.number().map(|_| unit);
            units::note_unusable(&mut warnings, (file.name(), &path), quantity, &value.display(), unit);
            return None;
        };
        let origin = Origin { file: file.name().to_owned(), path };
        Some(Recorded { value, origin, conversion, flag: None })
    };
    let count = |name: &str| attribute(name).and_then(|v| v.count()).filter(|&n| n > 0);
    let mut side =
        SideFile { dimensions: count("NumPixelsY").zip(count("NumPixelsX")), ..SideFile::default() };
    let step = recorded("Pixel Size", Quantity::ScanStepRow, units::LENGTH_ANGSTROM, "nm");
    let calibrated = attribute("IsPixelSizeCalibrated");
    if calibrated.as_ref().and_then(Value::count).is_some_and(|n| n != 0) {
        side.step = step.map(crate::nxem::flagged);
    } else {
        let why = match calibrated {
            Some(_) => "says that it is not calibrated",
            None => "does not say that it is calibrated",
        };
        side.uncalibrated_step = step.map(|s| (s.value, why));
    }
    let voltage = recorded("High Tension", Quantity::BeamEnergy, units::BEAM_KEV_FROM_VOLTAGE, "V");
    let camera_length = recorded("Camera Length", Quantity::CameraLength, units::CAMERA_LENGTH_MM, "m");
    for (quantity, found) in [(Quantity::BeamEnergy, voltage), (Quantity::CameraLength, camera_length)] {
        if let Some(found) = found {
            side.quantities.insert(quantity, found);
        }
    }
    side.warnings = warnings;
    Some(side)
}
