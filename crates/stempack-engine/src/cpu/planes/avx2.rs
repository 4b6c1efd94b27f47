//! 512 bits as two registers.
//!
//! Scalar twin: [`super::scalar`]. The functions are only reached through [`super::Kernel::Avx2`], which holds the proof
//! that the features are there.
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::kernel::{self, Plane};
use super::{BlockSums, Chosen, Next, PlaneBlock, Signed};
use std::arch::x86_64::*;
use stempack_codecs::planes::{BLOCK_SCANS, PLANE_WORDS};

#[derive(Clone, Copy)]
#[repr(C)]
struct Ymm(__m256i, __m256i);

/// For each mask of eight words: which of the words that are there goes where. A word that was left out takes any.
static PLACES: [[u8; 8]; 256] = places();

const fn places() -> [[u8; 8]; 256] {
    let mut table = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut place, mut next) = (0, 0);
        while place < 8 {
            if mask >> place & 1 == 1 {
                table[mask][place] = next;
                next += 1;
            }
            place += 1;
        }
        mask += 1;
    }
    table
}

/// Eight words, those that the low half of `mask` leaves out being zero.
///
/// # Safety
/// AVX2 is enabled; 32 bytes can be read.
#[inline(always)]
unsafe fn expand(words: *const u32, mask: u8) -> __m256i {
    // SAFETY: see above; a row of the table has the 8 bytes that are loaded.
    unsafe {
        let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        let there = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask.into()), bits), bits);
        let places = _mm256_cvtepu8_epi32(_mm_loadl_epi64(PLACES[mask as usize].as_ptr().cast()));
        let v = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(words.cast()), places);
        _mm256_and_si256(v, there)
    }
}

/// Sum and carry of three registers.
///
/// # Safety
/// AVX2 is enabled.
#[inline(always)]
unsafe fn add(a: __m256i, b: __m256i, c: __m256i) -> (__m256i, __m256i) {
    // SAFETY: see above.
    unsafe {
        let half = _mm256_xor_si256(a, b);
        let carry = _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(half, c));
        (_mm256_xor_si256(half, c), carry)
    }
}

// SAFETY: registers hold the words in their order. For all methods: AVX2 is enabled where they are inlined.
unsafe impl Plane for Ymm {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        unsafe { Ymm(_mm256_setzero_si256(), _mm256_setzero_si256()) }
    }
    #[inline(always)]
    unsafe fn expand(words: *const u32, mask: u16) -> Self {
        let low = (mask as u8).count_ones() as usize;
        // SAFETY: a whole plane may be read, as the trait says: at most eight words further and eight more.
        unsafe { Ymm(expand(words, mask as u8), expand(words.add(low), (mask >> 8) as u8)) }
    }
    #[inline(always)]
    unsafe fn add(self, b: Self, c: Self) -> (Self, Self) {
        // SAFETY: see above.
        unsafe {
            let (low, high) = (add(self.0, b.0, c.0), add(self.1, b.1, c.1));
            (Ymm(low.0, high.0), Ymm(low.1, high.1))
        }
    }
    #[inline(always)]
    unsafe fn flip(self) -> Self {
        // SAFETY: see above.
        unsafe {
            let ones = _mm256_set1_epi32(-1);
            Ymm(_mm256_xor_si256(self.0, ones), _mm256_xor_si256(self.1, ones))
        }
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: see above.
        unsafe {
            let any = _mm256_or_si256(self.0, self.1);
            _mm256_testz_si256(any, any) == 1
        }
    }
    #[inline(always)]
    unsafe fn prefetch(words: *const u32) {
        // SAFETY: prefetching any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(words.cast()) }
    }
    /// Scalar twin: the method of the trait.
    #[inline(always)]
    unsafe fn numbers(digits: &[[u32; PLANE_WORDS]], less: u32, out: &mut BlockSums) {
        for (t, out) in out.chunks_exact_mut(32).enumerate() {
            // SAFETY: AVX2 is enabled; each quarter has the 8 bytes, each eighth part of `out` the 32 that are accessed.
            unsafe {
                // Each byte of a word goes to eight bytes, one for each of its bits.
                let spread = _mm256_setr_epi64x(
                    0,
                    0x0101_0101_0101_0101,
                    0x0202_0202_0202_0202,
                    0x0303_0303_0303_0303,
                );
                let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
                let mut quarters = [[[0u8; 8]; 4]; 4];
                for (digits, quarters) in digits.chunks(8).zip(&mut quarters) {
                    // Eight digits of 32 numbers are 32 bytes.
                    let mut bytes = _mm256_setzero_si256();
                    for plane in digits.iter().rev() {
                        let word = _mm256_shuffle_epi8(_mm256_set1_epi32(plane[t] as i32), spread);
                        let ones = _mm256_cmpeq_epi8(_mm256_and_si256(word, bits), bits);
                        bytes = _mm256_sub_epi8(_mm256_add_epi8(bytes, bytes), ones);
                    }
                    _mm256_storeu_si256(quarters.as_mut_ptr().cast(), bytes);
                }
                for (q, out) in out.chunks_exact_mut(8).enumerate() {
                    let mut numbers = _mm256_setzero_si256();
                    for quarters in quarters.iter().take(digits.len().div_ceil(8)).rev() {
                        let low = _mm256_cvtepu8_epi32(_mm_loadl_epi64(quarters[q].as_ptr().cast()));
                        numbers = _mm256_or_si256(_mm256_slli_epi32::<8>(numbers), low);
                    }
                    let numbers = _mm256_sub_epi32(numbers, _mm256_set1_epi32(less as i32));
                    _mm256_storeu_si256(out.as_mut_ptr().cast(), numbers);
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
#[target_feature(enable = "avx2,popcnt,bmi2")]
unsafe fn sum_block_with(
    block: &PlaneBlock,
    pixels: Signed<'_>,
    planes: usize,
    next: Next<'_>,
    out: &mut BlockSums,
) {
    // SAFETY: the features are enabled here.
    unsafe { kernel::sum_block::<Ymm>(block, pixels, planes, next, out) }
}

pub(in super::super) fn sum_pixels(block: &PlaneBlock, first: usize, chosen: Chosen<'_>, out: &mut [u64]) {
    // SAFETY: the caller holds the proof that the features were detected.
    unsafe { sum_pixels_with(block, first, chosen, out) }
}
#[target_feature(enable = "avx2,popcnt,bmi2")]
unsafe fn sum_pixels_with(block: &PlaneBlock, first: usize, chosen: Chosen<'_>, out: &mut [u64]) {
    kernel::sum_pixels(block, first, chosen, out);
}

pub(in super::super) fn add_weighted(sums: &BlockSums, weight: u32, out: &mut [u64; BLOCK_SCANS]) {
    // SAFETY: the caller holds the proof that the features were detected.
    unsafe { add_weighted_with(sums, weight, out) }
}
#[target_feature(enable = "avx2")]
unsafe fn add_weighted_with(sums: &BlockSums, weight: u32, out: &mut [u64; BLOCK_SCANS]) {
    kernel::add_weighted(sums, weight, out);
}

pub(in super::super) fn add_signed(before: Option<&[u64]>, sums: &[u32], out: &mut [u64]) {
    // SAFETY: the caller holds the proof that the features were detected.
    unsafe { add_signed_with(before, sums, out) }
}
#[target_feature(enable = "avx2")]
unsafe fn add_signed_with(before: Option<&[u64]>, sums: &[u32], out: &mut [u64]) {
    kernel::add_signed(before, sums, out);
}
