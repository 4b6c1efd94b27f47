//! AVX-512 and AVX2: 16 scans unpacked by the same shifts; and the plain code of [`super::frames`] compiled for both.
//!
//! Scalar twins: [`FloatBlock::sample`]; `part_inline` and `frames_inline`, which are what is compiled here.
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::decode::Packed;
use super::frames::{Part, part_inline};
use super::{BLOCK_SCANS, Coding, FloatBlock, LANES, Stretch, power};
use std::arch::x86_64::*;

/// Whether this machine has what is used here of AVX-512.
pub(super) fn avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Whether this machine has AVX2.
pub(super) fn avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

/// `None` where the machine has neither.
pub(super) fn part(frames: &[f32], pixels: usize, first: usize, count: usize) -> Option<Part> {
    if avx512() {
        // SAFETY: the features were just detected.
        return Some(unsafe { part_512(frames, pixels, first, count) });
    }
    if avx2() {
        // SAFETY: the feature was just detected.
        return Some(unsafe { part_256(frames, pixels, first, count) });
    }
    None
}
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn part_512(frames: &[f32], pixels: usize, first: usize, count: usize) -> Part {
    part_inline(frames, pixels, first, count)
}
#[target_feature(enable = "avx2")]
unsafe fn part_256(frames: &[f32], pixels: usize, first: usize, count: usize) -> Part {
    part_inline(frames, pixels, first, count)
}

/// `false` where the machine has neither.
pub(super) fn frames(block: &FloatBlock, first: usize, out: &mut [f32]) -> bool {
    if avx512() {
        // SAFETY: the features were just detected.
        unsafe { frames_512(block, first, out) };
        return true;
    }
    if avx2() {
        // SAFETY: the feature was just detected.
        unsafe { frames_256(block, first, out) };
        return true;
    }
    false
}
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn frames_512(block: &FloatBlock, first: usize, out: &mut [f32]) {
    block.frames_inline(first, out);
}
#[target_feature(enable = "avx2")]
unsafe fn frames_256(block: &FloatBlock, first: usize, out: &mut [f32]) {
    block.frames_inline(first, out);
}

/// Bytes of loads and stores are checked here once for all rows.
fn check(packed: &Packed<'_>) {
    let groups = (packed.rows * packed.width as usize).div_ceil(32) + 1;
    assert!((1..=32).contains(&packed.width) && LANES * packed.rows <= BLOCK_SCANS);
    assert!(packed.words.len() >= LANES * groups);
}

/// Only reached through [`super::Means`], which holds the proof that the features are there.
pub(super) fn unpack_512(packed: &Packed<'_>, out: &mut Stretch) {
    check(packed);
    // SAFETY: see above.
    unsafe { run_512(packed, out) }
}
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run_512(packed: &Packed<'_>, out: &mut Stretch) {
    let (mask, base) = (_mm512_set1_epi32(packed.mask() as i32), _mm512_set1_epi32(packed.base as i32));
    let step = _mm512_set1_ps(power(packed.shift));
    let shift = _mm_cvtsi32_si128(i32::from(packed.shift) & 31);
    let mut digit = 0;
    for row in 0..packed.rows {
        let place = digit % 32;
        // SAFETY: the group of the row's lowest digit and the one behind it are words, and every row has its room, as
        // `check` has found.
        unsafe {
            let group = packed.words.as_ptr().add((digit / 32) as usize * LANES);
            let low = _mm512_srl_epi32(_mm512_loadu_si512(group.cast()), _mm_cvtsi32_si128(place as i32));
            // What is shifted by 32 is zero.
            let next = _mm512_loadu_si512(group.add(LANES).cast());
            let next = _mm512_sll_epi32(next, _mm_cvtsi32_si128(32 - place as i32));
            let number = _mm512_and_si512(_mm512_or_si512(low, next), mask);
            let samples = match packed.coding {
                Coding::Steps => _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(base, number)), step),
                Coding::Bits => {
                    let rotated = _mm512_add_epi32(base, _mm512_sll_epi32(number, shift));
                    _mm512_castsi512_ps(_mm512_ror_epi32::<1>(rotated))
                }
            };
            _mm512_storeu_ps(out.as_mut_ptr().add(LANES * row), samples);
        }
        digit += packed.width;
    }
}

/// As [`unpack_512`].
pub(super) fn unpack_256(packed: &Packed<'_>, out: &mut Stretch) {
    check(packed);
    // SAFETY: see `unpack_512`.
    unsafe { run_256(packed, out) }
}
#[target_feature(enable = "avx2")]
unsafe fn run_256(packed: &Packed<'_>, out: &mut Stretch) {
    let (mask, base) = (_mm256_set1_epi32(packed.mask() as i32), _mm256_set1_epi32(packed.base as i32));
    let step = _mm256_set1_ps(power(packed.shift));
    let shift = _mm_cvtsi32_si128(i32::from(packed.shift) & 31);
    let mut digit = 0;
    for row in 0..packed.rows {
        let place = digit % 32;
        for half in [0, LANES / 2] {
            // SAFETY: as in `run_512`, one half of the lanes after the other.
            unsafe {
                let group = packed.words.as_ptr().add((digit / 32) as usize * LANES + half);
                let low = _mm256_loadu_si256(group.cast());
                let low = _mm256_srl_epi32(low, _mm_cvtsi32_si128(place as i32));
                let next = _mm256_loadu_si256(group.add(LANES).cast());
                let next = _mm256_sll_epi32(next, _mm_cvtsi32_si128(32 - place as i32));
                let number = _mm256_and_si256(_mm256_or_si256(low, next), mask);
                let samples = match packed.coding {
                    Coding::Steps => _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(base, number)), step),
                    Coding::Bits => {
                        let rotated = _mm256_add_epi32(base, _mm256_sll_epi32(number, shift));
                        let turned = _mm256_or_si256(
                            _mm256_srli_epi32::<1>(rotated),
                            _mm256_slli_epi32::<31>(rotated),
                        );
                        _mm256_castsi256_ps(turned)
                    }
                };
                _mm256_storeu_ps(out.as_mut_ptr().add(LANES * row + half), samples);
            }
        }
        digit += packed.width;
    }
}
