//! Counts → planes with AVX-512: one test instruction gives 32 bits of a plane; and frames where bits are counted by an
//! instruction.
//!
//! Scalar twins: [`super::build_scalar`], [`PlaneBlock::sample`].
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::{BlockCounts, MAX_STREAM, PLANE_WORDS, PlaneBlock, SLACK_WORDS, header_words};
use crate::bits::bit_length;
use std::arch::x86_64::*;

/// Whether this machine has what [`build`] needs.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("popcnt")
}

/// Writes one pixel's stream and returns its words.
pub(super) fn build(counts: &BlockCounts, out: &mut [u32]) -> usize {
    assert!(out.len() >= MAX_STREAM + SLACK_WORDS && detected());
    // SAFETY: the features were asked for and the room was checked just above.
    unsafe { run(counts, out) }
}

#[target_feature(enable = "avx512f,avx512bw,popcnt")]
unsafe fn run(counts: &BlockCounts, out: &mut [u32]) -> usize {
    // SAFETY: 512 counts are 16 times 64 bytes.
    let tiles: [__m512i; PLANE_WORDS] =
        std::array::from_fn(|t| unsafe { _mm512_loadu_si512(counts.as_ptr().add(32 * t).cast()) });
    let or = tiles.iter().fold(_mm512_setzero_si512(), |or, &v| _mm512_or_si512(or, v));
    let or = _mm512_reduce_or_epi32(or) as u32;
    let width = usize::from(bit_length((or | or >> 16) as u16));
    if width == 0 {
        return 0;
    }
    let mut planes = [[0u32; PLANE_WORDS]; 16];
    for (k, plane) in planes.iter_mut().enumerate().take(width) {
        let bit = _mm512_set1_epi16((1u32 << k) as i16);
        for (word, &tile) in plane.iter_mut().zip(&tiles) {
            *word = _mm512_test_epi16_mask(tile, bit);
        }
    }
    let mut at = header_words(width);
    out[..at].fill(0);
    out[0] = width as u32;
    for (k, plane) in planes.iter().enumerate().take(width) {
        // SAFETY: a plane is 64 bytes, and `out` has room for masks, 16 full planes and a whole store behind them.
        let mask = unsafe {
            let v = _mm512_loadu_si512(plane.as_ptr().cast());
            let mask = _mm512_test_epi32_mask(v, v);
            _mm512_storeu_si512(out.as_mut_ptr().add(at).cast(), _mm512_maskz_compress_epi32(mask, v));
            mask
        };
        let half = k + 1;
        out[half / 2] |= u32::from(mask) << (16 * (half % 2));
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

/// Eight rows of eight counts as eight columns: three perfect shuffles of the 6-bit element index. SSE2 is always there.
#[inline]
pub(super) fn transpose(rows: [&[u16; 8]; 8]) -> [[u16; 8]; 8] {
    // SAFETY: each row has the 16 bytes that are loaded, each column those that are stored.
    unsafe {
        let mut r = rows.map(|row| _mm_loadu_si128(row.as_ptr().cast()));
        for _ in 0..3 {
            let mut t = r;
            for i in 0..4 {
                t[2 * i] = _mm_unpacklo_epi16(r[i], r[i + 4]);
                t[2 * i + 1] = _mm_unpackhi_epi16(r[i], r[i + 4]);
            }
            r = t;
        }
        let mut columns = [[0; 8]; 8];
        for (column, v) in columns.iter_mut().zip(r) {
            _mm_storeu_si128(column.as_mut_ptr().cast(), v);
        }
        columns
    }
}
