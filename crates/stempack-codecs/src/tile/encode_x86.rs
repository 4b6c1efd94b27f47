//! Fast packing on x86-64: transpose a block of pixels in registers, then gather bits with `pext`.
//!
//! Scalar twin: [`super::encode_scalar`].
#![expect(unsafe_code, reason = "SIMD loads and calls of functions that need detected CPU features")]

use super::EncodedTile;
use crate::bits::bit_length;
use std::arch::x86_64::*;
use std::ops::Range;

fn available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2")
}

pub(super) fn encode_u8(frames: &[u8], stride: usize, pixels: Range<usize>, out: &mut EncodedTile) -> usize {
    if !available() || frames.len() != 32 * stride || pixels.end > stride {
        return 0;
    }
    // SAFETY: the features were detected and the shape was checked just above.
    unsafe { encode_u8_bmi2(frames, stride, pixels, out) }
}

pub(super) fn encode_u16(
    frames: &[u16],
    stride: usize,
    pixels: Range<usize>,
    out: &mut EncodedTile,
) -> usize {
    if !available()
        || frames.is_empty()
        || !frames.len().is_multiple_of(stride)
        || frames.len() > 128 * stride
    {
        return 0;
    }
    if pixels.end > stride {
        return 0;
    }
    // SAFETY: the features were detected and the shape was checked just above.
    unsafe { encode_u16_bmi2(frames, stride, pixels, out) }
}

/// Transposes 16×16 bytes: four perfect shuffles of the 8-bit element index.
#[target_feature(enable = "avx2")]
fn transpose_16x16(mut r: [__m128i; 16]) -> [__m128i; 16] {
    for _ in 0..4 {
        let mut t = r;
        for i in 0..8 {
            t[2 * i] = _mm_unpacklo_epi8(r[i], r[i + 8]);
            t[2 * i + 1] = _mm_unpackhi_epi8(r[i], r[i + 8]);
        }
        r = t;
    }
    r
}

/// Transposes 8×8 u16: three perfect shuffles of the 6-bit element index.
#[target_feature(enable = "avx2")]
fn transpose_8x8(mut r: [__m128i; 8]) -> [__m128i; 8] {
    for _ in 0..3 {
        let mut t = r;
        for i in 0..4 {
            t[2 * i] = _mm_unpacklo_epi16(r[i], r[i + 4]);
            t[2 * i + 1] = _mm_unpackhi_epi16(r[i], r[i + 4]);
        }
        r = t;
    }
    r
}

#[target_feature(enable = "avx2,bmi2")]
unsafe fn encode_u8_bmi2(frames: &[u8], stride: usize, pixels: Range<usize>, out: &mut EncodedTile) -> usize {
    let blocks = pixels.len() / 16;
    // At most 16 pixels × 32 bytes; eight more let every store be a whole word. What a store writes too much is
    // overwritten by the next, so nothing has to be cleared.
    let mut packed = [0u8; 16 * 32 + 8];
    for block in 0..blocks {
        let first = pixels.start + 16 * block;
        let mut low = [_mm_setzero_si128(); 16];
        let mut high = low;
        let mut or = _mm_setzero_si128();
        for row in 0..16 {
            // SAFETY: row + 16 < 32 frames of `stride` pixels and first + 16 <= pixels.end <= stride.
            unsafe {
                low[row] = _mm_loadu_si128(frames.as_ptr().add(row * stride + first).cast());
                high[row] = _mm_loadu_si128(frames.as_ptr().add((row + 16) * stride + first).cast());
            }
            or = _mm_or_si128(or, _mm_or_si128(low[row], high[row]));
        }
        if _mm_testz_si128(or, or) == 1 {
            out.widths.extend_from_slice(&[0; 16]);
            continue;
        }
        let low = transpose_16x16(low);
        let high = transpose_16x16(high);
        let mut start = 0;
        for pixel in 0..16 {
            let groups = [
                _mm_cvtsi128_si64(low[pixel]) as u64,
                _mm_extract_epi64::<1>(low[pixel]) as u64,
                _mm_cvtsi128_si64(high[pixel]) as u64,
                _mm_extract_epi64::<1>(high[pixel]) as u64,
            ];
            let mut any = groups[0] | groups[1] | groups[2] | groups[3];
            any |= any >> 32;
            any |= any >> 16;
            any |= any >> 8;
            let width = bit_length(any as u16 & 0xff);
            out.widths.push(width);
            let lanes = ((1u64 << width) - 1) * 0x0101_0101_0101_0101;
            for (g, group) in groups.into_iter().enumerate() {
                let at = start + g * width as usize;
                packed[at..at + 8].copy_from_slice(&_pext_u64(group, lanes).to_le_bytes());
            }
            start += 4 * width as usize;
        }
        out.bytes.extend_from_slice(&packed[..start]);
    }
    16 * blocks
}

#[target_feature(enable = "avx2,bmi2")]
unsafe fn encode_u16_bmi2(
    frames: &[u16],
    stride: usize,
    pixels: Range<usize>,
    out: &mut EncodedTile,
) -> usize {
    let scans = frames.len() / stride;
    let blocks = pixels.len() / 8;
    // As above: eight pixels × 256 bytes and one store of sixteen.
    let mut packed = [0u8; 8 * 256 + 16];
    for block in 0..blocks {
        let first = pixels.start + 8 * block;
        // groups[g][pixel] holds the samples 8g..8g+8 of that pixel.
        let mut groups = [[_mm_setzero_si128(); 8]; 16];
        let mut or = _mm_setzero_si128();
        for (g, group) in groups.iter_mut().enumerate().take(scans.div_ceil(8)) {
            for (row, vector) in group.iter_mut().enumerate().take(scans - 8 * g) {
                // SAFETY: 8g + row < scans frames of `stride` pixels and first + 8 <= pixels.end <= stride.
                *vector =
                    unsafe { _mm_loadu_si128(frames.as_ptr().add((8 * g + row) * stride + first).cast()) };
                or = _mm_or_si128(or, *vector);
            }
        }
        if _mm_testz_si128(or, or) == 1 {
            out.widths.extend_from_slice(&[0; 8]);
            continue;
        }
        for group in groups.iter_mut().take(scans.div_ceil(8)) {
            *group = transpose_8x8(*group);
        }
        let mut widths = [0u16; 8];
        // SAFETY: `widths` is 16 bytes, the size of the vector.
        unsafe { _mm_storeu_si128(widths.as_mut_ptr().cast(), or) };
        let mut start = 0;
        for pixel in 0..8 {
            let width = bit_length(widths[pixel]);
            out.widths.push(width);
            let lanes = u64::from(crate::bits::mask(width)) * 0x0001_0001_0001_0001;
            for (g, group) in groups.iter().enumerate() {
                let low = _pext_u64(_mm_cvtsi128_si64(group[pixel]) as u64, lanes);
                let high = _pext_u64(_mm_extract_epi64::<1>(group[pixel]) as u64, lanes);
                let both = u128::from(low) | u128::from(high) << (4 * width);
                let at = start + g * width as usize;
                packed[at..at + 16].copy_from_slice(&both.to_le_bytes());
            }
            start += 16 * width as usize;
        }
        out.bytes.extend_from_slice(&packed[..start]);
    }
    8 * blocks
}
