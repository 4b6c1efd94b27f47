//! Sources without a pixel mask: everything is admitted.

use sha2::{Digest, Sha256};
use stempack_model::{DetectorShape, Exclusions, MaskOrigin};

/// No pixel is excluded, which is the identity of a mask of zeros.
pub(crate) fn none(detector: DetectorShape) -> Exclusions {
    let mut hash = Sha256::new();
    let zeros = [0u8; 4096];
    let mut left = detector.pixels() as u64 * 4;
    while left > 0 {
        let n = left.min(zeros.len() as u64);
        hash.update(&zeros[..n as usize]);
        left -= n;
    }
    Exclusions {
        pixels: Vec::new(),
        mask_sha256: hash.finalize().into(),
        origin: MaskOrigin::ImplicitAllAdmitted,
    }
}
