//! Counts → planes → streams with AVX2: one instruction takes a bit of 32 bytes, one shuffle closes up eight words.
//!
//! Scalar twins: `planes_scalar` and `write_scalar` in `build.rs`.
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::build::{Header, write_header};
use super::{BlockCounts, MAX_PLANES, MAX_STREAM, PLANE_WORDS, Plane, SLACK_WORDS};
use crate::bits::bit_length;
use std::arch::x86_64::*;

/// Whether this machine has what [`planes`] and [`write`] need.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
}

/// Writes the planes that are not all zero and returns how many.
pub(super) fn planes(counts: &BlockCounts, planes: &mut [Plane; MAX_PLANES]) -> usize {
    assert!(detected());
    // SAFETY: the features were asked for just above.
    unsafe { planes_with(counts, planes) }
}

#[target_feature(enable = "avx2,popcnt")]
unsafe fn planes_with(counts: &BlockCounts, planes: &mut [Plane; MAX_PLANES]) -> usize {
    let width = bit_length(counts.iter().fold(0, |or, &count| or | count)).into();
    let low_byte = _mm256_set1_epi16(0xff);
    for (t, tile) in counts.chunks_exact(32).enumerate() {
        // SAFETY: 32 counts are twice 32 bytes.
        let [a, b] = [0, 16].map(|at| unsafe { _mm256_loadu_si256(tile.as_ptr().add(at).cast()) });
        let low = in_order(_mm256_and_si256(a, low_byte), _mm256_and_si256(b, low_byte));
        let high = in_order(_mm256_srli_epi16::<8>(a), _mm256_srli_epi16::<8>(b));
        for (half, mut bytes) in [(0, low), (8, high)] {
            for k in (half..half + 8).rev() {
                if k < width {
                    planes[k][t] = _mm256_movemask_epi8(bytes) as u32;
                }
                bytes = _mm256_add_epi8(bytes, bytes);
            }
        }
    }
    width
}

/// The low bytes of 16 and 16 numbers below 256.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn in_order(a: __m256i, b: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(a, b))
}

/// For each mask of eight words: where those that stay come from, in order. The rest may be anything.
static STAY: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut from, mut to) = (0, 0);
        while from < 8 {
            if mask >> from & 1 == 1 {
                table[mask][to] = from;
                to += 1;
            }
            from += 1;
        }
        mask += 1;
    }
    table
};

/// Writes one pixel's stream and returns its words.
pub(super) fn write(planes: &[Plane], out: &mut [u32]) -> usize {
    assert!(planes.len() <= MAX_PLANES && out.len() >= MAX_STREAM + SLACK_WORDS && detected());
    // SAFETY: the features were asked for and the room was checked just above.
    unsafe { write_with(planes, out) }
}

#[target_feature(enable = "avx2,popcnt")]
unsafe fn write_with(planes: &[Plane], out: &mut [u32]) -> usize {
    // SAFETY: a plane is twice 32 bytes.
    let load = |plane: &Plane| [0, 8].map(|at| unsafe { _mm256_loadu_si256(plane.as_ptr().add(at).cast()) });
    // The number of planes, and the mask of each.
    let mut halves = Header::default();
    let mut width = 0;
    for (k, plane) in (1..).zip(planes) {
        let [low, high] = load(plane).map(|words| {
            let zero = _mm256_cmpeq_epi32(words, _mm256_setzero_si256());
            !_mm256_movemask_ps(_mm256_castsi256_ps(zero)) as u16 & 0xff
        });
        halves[k] = low | high << 8;
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
        for (words, mask) in load(plane).into_iter().zip(mask.to_le_bytes()) {
            // SAFETY: a row of the table has 8 bytes; `out` has room for masks, 16 full planes and a plane behind them.
            unsafe {
                let stay = _mm256_cvtepu8_epi32(_mm_loadl_epi64(STAY[mask as usize].as_ptr().cast()));
                let words = _mm256_permutevar8x32_epi32(words, stay);
                _mm256_storeu_si256(out.as_mut_ptr().add(at).cast(), words);
            }
            at += mask.count_ones() as usize;
        }
    }
    debug_assert!(at <= MAX_STREAM && PLANE_WORDS == 16);
    at
}
