//! Frames where bits are counted by an instruction.
//!
//! Scalar twin: [`PlaneBlock::sample`].
#![expect(unsafe_code, reason = "a call of a function that needs detected CPU features")]

use super::PlaneBlock;

/// See [`PlaneBlock::frame`], which has asked for the features.
pub(super) fn frame(block: &PlaneBlock, scan: usize, first: usize, out: &mut [u16]) {
    // SAFETY: see above.
    unsafe { frame_with(block, scan, first, out) }
}
#[target_feature(enable = "popcnt,bmi2")]
unsafe fn frame_with(block: &PlaneBlock, scan: usize, first: usize, out: &mut [u16]) {
    block.frame_inline(scan, first, out);
}
