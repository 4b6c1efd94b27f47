//! The side file `<stem>.h5` that NCEM's acquisition software writes: a group `STEM Metadata` of plain attributes.
//!
//! Its units are not recorded; those used here are what the software is known to mean. `ScanDwellTime` has no known
//! unit and is left alone. A pixel size that the file itself calls uncalibrated is not a scan step.

use crate::hdf5::File;
use crate::units::{self, Converted};
use std::collections::BTreeMap;
use stempack_model::{Origin, Quantity, Recorded};

pub(crate) const GROUP: &str = "/STEM Metadata";

/// What a side file says.
#[derive(Debug, Default)]
pub(crate) struct SideFile {
    /// Rows and columns of the scan.
    pub(crate) dimensions: Option<(u64, u64)>,
    /// The step, the same along both axes, when it is calibrated.
    pub(crate) step: Option<Recorded<f64>>,
    /// Whether there is a pixel size that is not calibrated.
    pub(crate) uncalibrated_step: Option<f64>,
    /// Beam energy and camera length.
    pub(crate) quantities: BTreeMap<Quantity, Recorded<f64>>,
}

/// Reads a side file; `None` when the file is none.
pub(crate) fn read(file: &File) -> Option<SideFile> {
    if !file.has_group(GROUP) {
        return None;
    }
    let attribute = |name: &str| file.attribute(GROUP, name);
    let recorded = |name: &str, convert: &dyn Fn(&crate::hdf5::Value) -> Option<Converted>| {
        let Converted { value, conversion } = convert(&attribute(name)?)?;
        let origin = Origin { file: file.name().to_owned(), path: format!("{GROUP}@{name}") };
        Some(Recorded { value, origin, conversion, flag: None })
    };
    let count = |name: &str| attribute(name).and_then(|v| v.count()).filter(|&n| n > 0);
    let mut side =
        SideFile { dimensions: count("NumPixelsY").zip(count("NumPixelsX")), ..SideFile::default() };
    let step = recorded("Pixel Size", &|v| units::scan_step(v, Some("nm")));
    if attribute("IsPixelSizeCalibrated").and_then(|v| v.count()).is_some_and(|n| n != 0) {
        side.step = step.map(crate::nxem::flagged);
    } else {
        side.uncalibrated_step = step.map(|s| s.value);
    }
    let voltage =
        recorded("High Tension", &|v| units::quantity(v, Some("V"), units::BEAM_KEV_FROM_VOLTAGE, None));
    let camera_length =
        recorded("Camera Length", &|v| units::quantity(v, Some("m"), units::CAMERA_LENGTH_MM, None));
    for (quantity, found) in [(Quantity::BeamEnergy, voltage), (Quantity::CameraLength, camera_length)] {
        if let Some(found) = found {
            side.quantities.insert(quantity, found);
        }
    }
    Some(side)
}
