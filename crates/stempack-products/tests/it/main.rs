//! Products against their definitions: the scalar references, and integer arithmetic.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod floats;
mod masks;
mod originals;

use stempack_model::{Exclusions, MaskOrigin};

fn excluding(pixels: &[u32]) -> Exclusions {
    Exclusions { pixels: pixels.to_vec(), mask_sha256: [0; 32], origin: MaskOrigin::SourceMask }
}
