//! Sources without a pixel mask: everything is admitted.

use crate::error::SourceCode;
use sha2::{Digest, Sha256};
use stempack_model::{DetectorShape, Error, Exclusions, MaskOrigin, Result};

/// Largest detector that is read, in pixels: no camera comes near it, and a few bytes may claim more.
pub(crate) const MAX_PIXELS: u64 = 1 << 27;

/// No pixel is excluded, which is the identity of a mask of zeros.
///
/// # Errors
/// `too_large` for a detector that no camera has, before anything of its size is done.
pub(crate) fn none(detector: DetectorShape) -> Result<Exclusions> {
    if detector.pixels() as u64 > MAX_PIXELS {
        let message = format!("a detector of {detector} exceeds {MAX_PIXELS} pixels");
        return Err(Error::new(SourceCode::TooLarge, message));
    }
    let mut hash = Sha256::new();
    let zeros = [0u8; 4096];
    let mut left = detector.pixels() as u64 * 4;
    while left > 0 {
        let n = left.min(zeros.len() as u64);
        hash.update(&zeros[..n as usize]);
        left -= n;
    }
    Ok(Exclusions {
        pixels: Vec::new(),
        mask_sha256: hash.finalize().into(),
        origin: MaskOrigin::ImplicitAllAdmitted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detector_that_no_camera_has_is_refused_before_it_is_hashed() {
        let huge = DetectorShape::new(1 << 16, 1 << 16).unwrap();
        assert_eq!(none(huge).unwrap_err().code(), "too_large");
        assert!(none(DetectorShape::new(4, 5).unwrap()).is_ok());
    }
}
