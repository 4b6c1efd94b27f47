//! Counts → planes with AVX-512: one test instruction gives 32 bits of a plane; and frames where bits are counted by an
//! instruction.
//!
//! Scalar twins: [`super::build_scalar`], [`PlaneBlock::sample`].
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::{BlockCounts, MAX_STREAM, PLANE_WORDS, PlaneBlock, SLACK_WORDS};
use std::arch::x86_64::*;

/// Whether this machine has what [`build`] needs.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("popcnt")
}

/// Writes one pixel's stream and returns its words. Only called after [`detected`] said yes.
pub(super) fn build(counts: &BlockCounts, width: u8, out: &mut [u32]) -> usize {
    assert!(width <= 16 && out.len() >= MAX_STREAM + SLACK_WORDS && detected());
    // SAFETY: the features were asked for and the room was checked just above.
    unsafe { run(counts, width as usize, out) }
}

#[target_feature(enable = "avx512f,avx512bw,popcnt")]
unsafe fn run(counts: &BlockCounts, width: usize, out: &mut [u32]) -> usize {
    let mut planes = [[0u32; PLANE_WORDS]; 16];
    for (t, tile) in counts.chunks_exact(32).enumerate() {
        // SAFETY: 32 counts are 64 bytes.
        let v = unsafe { _mm512_loadu_si512(tile.as_ptr().cast()) };
        for (k, plane) in planes.iter_mut().enumerate().take(width) {
            plane[t] = _mm512_test_epi16_mask(v, _mm512_set1_epi16((1u32 << k) as i16));
        }
    }
    let masks = width.div_ceil(2);
    out[..masks].fill(0);
    let mut at = masks;
    for (k, plane) in planes.iter().enumerate().take(width) {
        // SAFETY: a plane is 64 bytes, and `out` has room for masks, 16 full planes and a whole store behind them.
        let mask = unsafe {
            let v = _mm512_loadu_si512(plane.as_ptr().cast());
            let mask = _mm512_test_epi32_mask(v, v);
            _mm512_storeu_si512(out.as_mut_ptr().add(at).cast(), _mm512_maskz_compress_epi32(mask, v));
            mask
        };
        out[k / 2] |= u32::from(mask) << (16 * (k % 2));
        at += mask.count_ones() as usize;
    }
    at
}

/// See [`PlaneBlock::frame`], which has asked for the features.
pub(super) fn frame(block: &PlaneBlock, scan: usize, first: usize, out: &mut [u16]) {
    // SAFETY: see above.
    unsafe { frame_with(block, scan, first, out) }
}
#[target_feature(enable = "popcnt,bmi2")]
unsafe fn frame_with(block: &PlaneBlock, scan: usize, first: usize, out: &mut [u16]) {
    block.frame_inline(scan, first, out);
}
