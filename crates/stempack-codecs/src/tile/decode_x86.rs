//! Fast unpacking with AVX2: byte shuffle, multiply or variable shift, logical shift — one table row per width, no
//! branch on the width.
//!
//! Scalar twin: [`crate::bits::unpack_scalar`].
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::{NARROW_WIDTH, READ_SLACK};
use std::arch::x86_64::*;

/// What one width needs to unpack eight samples in 16-bit lanes.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug)]
pub struct Narrow {
    /// Byte pair of each sample, the same in both 128-bit lanes.
    pub shuffle: [u8; 32],
    /// Moves the sample's top bit to bit 15.
    pub multiply: [u16; 16],
    /// Moves it down again.
    pub shift: [u64; 2],
}

/// What one width needs to unpack eight samples in 32-bit lanes.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    /// Four bytes of each sample: samples 0–3 in the low lane, 4–7 in the high lane.
    pub shuffle: [u8; 32],
    /// Bits below the sample.
    pub shift: [u32; 8],
    /// The sample's bits.
    pub mask: [u32; 8],
}

/// Rows for the widths 0 to [`NARROW_WIDTH`].
pub static NARROW: [Narrow; NARROW_WIDTH as usize + 1] = narrow_table();
/// Rows for every width; only the wide ones are used.
pub static WIDE: [Wide; 17] = wide_table();

const fn narrow_table() -> [Narrow; NARROW_WIDTH as usize + 1] {
    let zero = Narrow { shuffle: [0x80; 32], multiply: [1; 16], shift: [16, 0] };
    let mut table = [zero; NARROW_WIDTH as usize + 1];
    let mut w = 1;
    while w <= NARROW_WIDTH as usize {
        let mut i = 0;
        while i < 16 {
            let bit = (i % 8) * w;
            table[w].shuffle[2 * i] = (bit / 8) as u8;
            table[w].shuffle[2 * i + 1] = (bit / 8 + 1) as u8;
            table[w].multiply[i] = 1 << (16 - w - bit % 8);
            i += 1;
        }
        table[w].shift = [16 - w as u64, 0];
        w += 1;
    }
    table
}

const fn wide_table() -> [Wide; 17] {
    let mut table = [Wide { shuffle: [0x80; 32], shift: [0; 8], mask: [0; 8] }; 17];
    let mut w = 1;
    while w <= 16 {
        let mut i = 0;
        while i < 8 {
            let bit = i * w;
            let mut k = 0;
            while k < 4 {
                // Bytes past the group's sixteen hold no bit of the sample.
                let byte = bit / 8 + k;
                table[w].shuffle[4 * i + k] = if byte < 16 { byte as u8 } else { 0x80 };
                k += 1;
            }
            table[w].shift[i] = (bit % 8) as u32;
            table[w].mask[i] = (1 << w) - 1;
            i += 1;
        }
        w += 1;
    }
    table
}

/// Unpacks a multiple of sixteen samples. The caller has checked AVX2.
pub(super) fn unpack(tile: &[u8], width: u8, out: &mut [u16]) {
    assert!(tile.len() >= out.len() / 8 * width as usize + READ_SLACK && out.len().is_multiple_of(16));
    assert!(width <= 16);
    // SAFETY: `Unpack` holds `avx2` only when it was detected; lengths were checked just above.
    unsafe { if width <= NARROW_WIDTH { narrow(tile, width, out) } else { wide(tile, width, out) } }
}

#[target_feature(enable = "avx2")]
unsafe fn narrow(tile: &[u8], width: u8, out: &mut [u16]) {
    let row = &NARROW[width as usize];
    let w = width as usize;
    // SAFETY: table rows are 32-byte aligned arrays of the loaded size; group g starts at byte g·w and 16 bytes from
    // there stay inside the slack that the caller checked.
    unsafe {
        let shuffle = _mm256_load_si256(row.shuffle.as_ptr().cast());
        let multiply = _mm256_load_si256(row.multiply.as_ptr().cast());
        let shift = _mm_load_si128(row.shift.as_ptr().cast());
        for (pair, samples) in out.chunks_exact_mut(16).enumerate() {
            let p = tile.as_ptr().add(2 * pair * w);
            let v = _mm256_inserti128_si256::<1>(
                _mm256_castsi128_si256(_mm_loadu_si128(p.cast())),
                _mm_loadu_si128(p.add(w).cast()),
            );
            let v = _mm256_mullo_epi16(_mm256_shuffle_epi8(v, shuffle), multiply);
            _mm256_storeu_si256(samples.as_mut_ptr().cast(), _mm256_srl_epi16(v, shift));
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn wide(tile: &[u8], width: u8, out: &mut [u16]) {
    let row = &WIDE[width as usize];
    let w = width as usize;
    // SAFETY: as in `narrow`; each store writes the eight u16 of its chunk.
    unsafe {
        let shuffle = _mm256_load_si256(row.shuffle.as_ptr().cast());
        let shift = _mm256_load_si256(row.shift.as_ptr().cast());
        let mask = _mm256_load_si256(row.mask.as_ptr().cast());
        for (group, samples) in out.chunks_exact_mut(8).enumerate() {
            let v = _mm256_broadcastsi128_si256(_mm_loadu_si128(tile.as_ptr().add(group * w).cast()));
            let v = _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(v, shuffle), shift), mask);
            let v = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            _mm_storeu_si128(samples.as_mut_ptr().cast(), v);
        }
    }
}
