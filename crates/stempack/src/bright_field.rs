//! Where the bright-field disk is: the recorded calibration if there is one, else measured from the mean pattern.

use crate::{Opened, Products, Result, Task};
use stempack_products::{BrightFieldDisk, DiskEvidence, measure_disk};

/// The disk that `opened` records, or the one measured on `products` of it.
///
/// # Errors
/// `no_disk`, and those of the pattern sum.
pub fn bright_field_disk(opened: &Opened, products: &dyn Products, task: &Task) -> Result<BrightFieldDisk> {
    if let Opened::Pack(pack) = opened
        && let Some(calibration) = &pack.manifest().calibration
    {
        let [centre_row, centre_col] = calibration.centre_px;
        return Ok(BrightFieldDisk {
            centre_row,
            centre_col,
            radius: calibration.bright_field_radius_px,
            evidence: DiskEvidence::Recorded,
        });
    }
    measure_disk(&products.pattern_sum(task)?, products.exclusions())
}
