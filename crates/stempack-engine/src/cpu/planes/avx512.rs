//! 512 bits as one register: planes expanded by one instruction, a full adder in two.
//!
//! Scalar twin: [`super::scalar`]. The functions are only reached through [`super::Kernel::Avx512`], which holds the proof
//! that the features are there.
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::kernel::{self, Plane};
use super::{BlockSums, Chosen, Next, PlaneBlock, Signed};
use std::arch::x86_64::*;
use stempack_codecs::planes::{BLOCK_SCANS, PLANE_WORDS};

#[derive(Clone, Copy)]
#[repr(C)]
struct Zmm(__m512i);

/// Truth tables of a ternary operation.
const XOR: i32 = 0x96;
const MAJORITY: i32 = 0xe8;

// SAFETY: registers hold the words in their order. For all methods: the features are enabled where they are inlined.
unsafe impl Plane for Zmm {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        Zmm(unsafe { _mm512_setzero_si512() })
    }
    #[inline(always)]
    unsafe fn expand(words: *const u32, mask: u16) -> Self {
        // SAFETY: a whole plane may be read, as the trait says.
        Zmm(unsafe { _mm512_maskz_expand_epi32(mask, _mm512_loadu_si512(words.cast())) })
    }
    #[inline(always)]
    unsafe fn add(self, b: Self, c: Self) -> (Self, Self) {
        // SAFETY: see above.
        unsafe {
            (
                Zmm(_mm512_ternarylogic_epi64::<XOR>(self.0, b.0, c.0)),
                Zmm(_mm512_ternarylogic_epi64::<MAJORITY>(self.0, b.0, c.0)),
            )
        }
    }
    #[inline(always)]
    unsafe fn flip(self) -> Self {
        // SAFETY: see above.
        Zmm(unsafe { _mm512_xor_si512(self.0, _mm512_set1_epi32(-1)) })
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: see above.
        unsafe { _mm512_test_epi64_mask(self.0, self.0) == 0 }
    }
    #[inline(always)]
    unsafe fn prefetch(words: *const u32) {
        // SAFETY: prefetching any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(words.cast()) }
    }
    /// Scalar twin: the method of the trait.
    #[inline(always)]
    unsafe fn numbers(digits: &[[u32; PLANE_WORDS]], less: u32, out: &mut BlockSums) {
        for (i, out) in out.chunks_exact_mut(64).enumerate() {
            // SAFETY: each quarter has the 64 bytes that are stored.
            unsafe {
                // Eight digits of 64 numbers are 64 bytes.
                let mut bytes = [_mm512_setzero_si512(); 4];
                for (digits, bytes) in digits.chunks(8).zip(&mut bytes) {
                    for (k, plane) in digits.iter().enumerate() {
                        let mask = u64::from(plane[2 * i]) | u64::from(plane[2 * i + 1]) << 32;
                        *bytes = _mm512_mask_add_epi8(*bytes, mask, *bytes, _mm512_set1_epi8(1 << k));
                    }
                }
                let mut quarters = [[_mm_setzero_si128(); 4]; 4];
                for (bytes, quarters) in bytes.iter().zip(&mut quarters) {
                    _mm512_storeu_si512(quarters.as_mut_ptr().cast(), *bytes);
                }
                for (q, out) in out.chunks_exact_mut(16).enumerate() {
                    let mut numbers = _mm512_cvtepu8_epi32(quarters[0][q]);
                    for (more, quarters) in quarters.iter().enumerate().take(digits.len().div_ceil(8)).skip(1)
                    {
                        let high = _mm512_cvtepu8_epi32(quarters[q]);
                        let shift = _mm_cvtsi32_si128(8 * more as i32);
                        numbers = _mm512_or_si512(numbers, _mm512_sll_epi32(high, shift));
                    }
                    let numbers = _mm512_sub_epi32(numbers, _mm512_set1_epi32(less as i32));
                    _mm512_storeu_si512(out.as_mut_ptr().cast(), numbers);
                }
            }
        }
    }
}

pub(in super::super) fn sum_block(
    block: &PlaneBlock,
    pixels: Signed<'_>,
    planes: usize,
    next: Next<'_>,
    out: &mut BlockSums,
) {
    // SAFETY: the caller holds the proof that the features were detected.
    unsafe { sum_block_with(block, pixels, planes, next, out) }
}
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,popcnt,bmi2")]
unsafe fn sum_block_with(
    block: &PlaneBlock,
    pixels: Signed<'_>,
    planes: usize,
    next: Next<'_>,
    out: &mut BlockSums,
) {
    // SAFETY: the features are enabled here.
    unsafe { kernel::sum_block::<Zmm>(block, pixels, planes, next, out) }
}

pub(in super::super) fn sum_pixels(block: &PlaneBlock, first: usize, chosen: Chosen<'_>, out: &mut [u64]) {
    // SAFETY: the caller holds the proof that the features were detected.
    unsafe { sum_pixels_with(block, first, chosen, out) }
}
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,popcnt,bmi2")]
unsafe fn sum_pixels_with(block: &PlaneBlock, first: usize, chosen: Chosen<'_>, out: &mut [u64]) {
    kernel::sum_pixels(block, first, chosen, out);
}

pub(in super::super) fn add_weighted(sums: &BlockSums, weight: u32, out: &mut [u64; BLOCK_SCANS]) {
    // SAFETY: the caller holds the proof that the features were detected.
    unsafe { add_weighted_with(sums, weight, out) }
}
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn add_weighted_with(sums: &BlockSums, weight: u32, out: &mut [u64; BLOCK_SCANS]) {
    kernel::add_weighted(sums, weight, out);
}

pub(in super::super) fn add_signed(before: Option<&[u64]>, sums: &[u32], out: &mut [u64]) {
    // SAFETY: the caller holds the proof that the features were detected.
    unsafe { add_signed_with(before, sums, out) }
}
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn add_signed_with(before: Option<&[u64]>, sums: &[u32], out: &mut [u64]) {
    kernel::add_signed(before, sums, out);
}
