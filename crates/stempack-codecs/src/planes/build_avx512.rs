//! Counts → planes → streams with AVX-512: one test instruction gives 32 bits of a plane.
//!
//! Scalar twins: `planes_scalar` and `write_scalar` in `build.rs`.
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::build::{Header, write_header};
use super::{BlockCounts, MAX_PLANES, MAX_STREAM, PLANE_WORDS, Plane, SLACK_WORDS};
use crate::bits::bit_length;
use std::arch::x86_64::*;

/// Whether this machine has what [`planes`] and [`write`] need.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("popcnt")
}

/// Writes the planes that are not all zero and returns how many.
pub(super) fn planes(counts: &BlockCounts, planes: &mut [Plane; MAX_PLANES]) -> usize {
    assert!(detected());
    // SAFETY: the features were asked for just above.
    unsafe { planes_with(counts, planes) }
}

#[target_feature(enable = "avx512f,avx512bw,popcnt")]
unsafe fn planes_with(counts: &BlockCounts, planes: &mut [Plane; MAX_PLANES]) -> usize {
    // SAFETY: 512 counts are 16 times 64 bytes.
    let tiles: [__m512i; PLANE_WORDS] =
        std::array::from_fn(|t| unsafe { _mm512_loadu_si512(counts.as_ptr().add(32 * t).cast()) });
    let or = tiles.iter().fold(_mm512_setzero_si512(), |or, &v| _mm512_or_si512(or, v));
    let or = _mm512_reduce_or_epi32(or) as u32;
    let width = usize::from(bit_length((or | or >> 16) as u16));
    for (k, plane) in planes.iter_mut().enumerate().take(width) {
        let bit = _mm512_set1_epi16((1u32 << k) as i16);
        for (word, &tile) in plane.iter_mut().zip(&tiles) {
            *word = _mm512_test_epi16_mask(tile, bit);
        }
    }
    width
}

/// Writes one pixel's stream and returns its words.
pub(super) fn write(planes: &[Plane], out: &mut [u32]) -> usize {
    assert!(planes.len() <= MAX_PLANES && out.len() >= MAX_STREAM + SLACK_WORDS && detected());
    // SAFETY: the features were asked for and the room was checked just above.
    unsafe { write_with(planes, out) }
}

#[target_feature(enable = "avx512f,avx512bw,popcnt")]
unsafe fn write_with(planes: &[Plane], out: &mut [u32]) -> usize {
    // SAFETY: a plane is 64 bytes.
    let load = |plane: &Plane| unsafe { _mm512_loadu_si512(plane.as_ptr().cast()) };
    // The number of planes, and the mask of each.
    let mut halves = Header::default();
    let mut width = 0;
    for (k, plane) in (1..).zip(planes) {
        halves[k] = _mm512_test_epi32_mask(load(plane), load(plane));
        if halves[k] != 0 {
            width = k;
        }
    }
    if width == 0 {
        return 0;
    }
    halves[0] = width as u16;
    let mut at = write_header(&halves, out);
    for (plane, &mask) in planes.iter().zip(&halves[1..]).take(width) {
        // SAFETY: `out` has room for masks, 16 full planes and a whole store behind them.
        unsafe {
            let words = _mm512_maskz_compress_epi32(mask, load(plane));
            _mm512_storeu_si512(out.as_mut_ptr().add(at).cast(), words);
        }
        at += mask.count_ones() as usize;
    }
    at
}
