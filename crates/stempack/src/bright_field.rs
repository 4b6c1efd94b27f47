//! Where the bright-field disk is: the recorded calibration if there is one, else measured from the mean pattern.

use crate::{Opened, Products, Result, Task};
use stempack_products::{BrightFieldDisk, DiskEvidence, measure_disk};

/// How a measured disk was found, as calibrations record it: half of the maximum of the mean pattern.
pub const MEASURED_DISK_METHOD: &str = "mean-diffraction-half-maximum";

/// The disk that `opened` records, or the one measured on `products` of it.
///
/// # Errors
/// `no_disk`, and those of the pattern sum.
pub fn bright_field_disk(opened: &Opened, products: &dyn Products, task: &Task) -> Result<BrightFieldDisk> {
    match recorded_disk(opened) {
        Some(disk) => Ok(disk),
        None => measured_disk(products, task),
    }
}

/// The disk that `opened` records.
pub fn recorded_disk(opened: &Opened) -> Option<BrightFieldDisk> {
    let Opened::Pack(pack) = opened else { return None };
    let calibration = pack.manifest().calibration.as_ref()?;
    let [centre_row, centre_col] = calibration.centre_px;
    let radius = calibration.bright_field_radius_px;
    Some(BrightFieldDisk { centre_row, centre_col, radius, evidence: DiskEvidence::Recorded })
}

/// The disk that the mean pattern of `products` shows, whatever is recorded.
///
/// # Errors
/// `no_disk`, and those of the pattern sum.
pub fn measured_disk(products: &dyn Products, task: &Task) -> Result<BrightFieldDisk> {
    measure_disk(&products.pattern_sum(task)?, products.exclusions())
}
