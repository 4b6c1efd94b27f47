//! Frames → words of 64 scans with AVX2; eight such words as whole planes.
//!
//! Sixteen frames are turned at a time: bytes of 32 pixels in 16 registers are exchanged until each half of a register has
//! the 16 bytes of one pixel, and one instruction takes a bit of each.
//!
//! Scalar twins: `turn_scalar` and `gather_scalar` in `frames.rs`.
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::build_avx2::in_order;
use super::frames::{GROUP, STRIP, TURN_SCANS, TURNS, Turned};
use super::{MAX_PLANES, Plane};
use crate::bits::bit_length;
use std::arch::x86_64::*;

/// Frames turned at a time, and pixels.
const SCANS: usize = 16;
const PIXELS: usize = 32;

/// Whether this machine has what [`turn`] and [`gather`] need.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx2")
}

/// Turns 64 frames, the `window`th of the block, of as many pixels as `groups` have; counts of `S` are 8 or 16 bits wide.
pub(super) fn turn<S: Copy>(frames: &[S], stride: usize, window: usize, groups: &mut [Turned<'_>]) {
    let pixels = GROUP * groups.len();
    assert!(groups.len() <= STRIP && stride >= pixels && frames.len() >= (TURN_SCANS - 1) * stride + pixels);
    assert!(window < TURNS && detected());
    let frames = frames.as_ptr().cast();
    // SAFETY: the feature was asked for, and the room was checked, just above.
    unsafe {
        match size_of::<S>() {
            1 => turn_with::<1>(frames, stride, window, groups),
            2 => turn_with::<2>(frames, 2 * stride, window, groups),
            bytes => unreachable!("counts of {bytes} bytes"),
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn turn_with<const BYTES: usize>(
    frames: *const u8,
    stride_bytes: usize,
    window: usize,
    groups: &mut [Turned<'_>],
) {
    for part in 0..TURN_SCANS / SCANS {
        for (n, group) in groups.iter_mut().enumerate() {
            for side in 0..GROUP / PIXELS {
                let first = GROUP * n + PIXELS * side;
                // Each row's first 32 bytes, and the other 32 of counts of two bytes.
                // SAFETY: the caller has checked that 64 frames of as many counts lie there.
                let rows: [[__m256i; BYTES]; SCANS] = std::array::from_fn(|s| unsafe {
                    let row = frames.add((SCANS * part + s) * stride_bytes + first * BYTES);
                    std::array::from_fn(|b| _mm256_loadu_si256(row.add(32 * b).cast()))
                });
                let or = rows.iter().flatten().fold(_mm256_setzero_si256(), |or, &v| _mm256_or_si256(or, v));
                let width = width_of::<BYTES>(or);
                if width == 0 {
                    continue;
                }
                // Planes that none before needed are zero elsewhere.
                for plane in group.planes.iter_mut().take(width).skip((*group.width).into()) {
                    plane[window] = [0; GROUP];
                }
                *group.width = (*group.width).max(width as u8);
                for half in 0..width.div_ceil(8) {
                    let mut bytes = [_mm256_setzero_si256(); SCANS];
                    for (bytes, row) in bytes.iter_mut().zip(&rows) {
                        *bytes = if BYTES == 1 { row[0] } else { byte_of(row[0], row[BYTES - 1], half) };
                    }
                    let pixels = exchange(bytes);
                    for k in 0..8.min(width - 8 * half) {
                        let words = &mut group.planes[8 * half + k][window][PIXELS * side..][..PIXELS];
                        let words = words.as_mut_ptr().cast::<u16>();
                        // The bit comes to the top of its byte.
                        let shift = _mm_cvtsi32_si128(7 - k as i32);
                        for (p, pixel) in pixels.iter().enumerate() {
                            let bits = _mm256_movemask_epi8(_mm256_sll_epi16(*pixel, shift));
                            // SAFETY: a word of 64 scans has four times 16, the lowest first on this architecture, and
                            // there are words of twice 16 pixels.
                            unsafe {
                                words.add(4 * p + part).write(bits as u16);
                                words.add(4 * (p + PIXELS / 2) + part).write((bits >> 16) as u16);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Bits of the largest count of which `or` has the bits.
#[target_feature(enable = "avx2")]
fn width_of<const BYTES: usize>(or: __m256i) -> usize {
    let or = _mm_or_si128(_mm256_castsi256_si128(or), _mm256_extracti128_si256::<1>(or));
    let or = (_mm_cvtsi128_si64(or) | _mm_extract_epi64::<1>(or)) as u64;
    let or = or | or >> 32;
    let or = (or | or >> 16) as u16;
    bit_length(if BYTES == 1 { (or | or >> 8) & 0xff } else { or }).into()
}

/// Byte `half` of 16 and 16 counts.
#[inline]
#[target_feature(enable = "avx2")]
fn byte_of(a: __m256i, b: __m256i, half: usize) -> __m256i {
    if half == 0 {
        let low = _mm256_set1_epi16(0xff);
        in_order(_mm256_and_si256(a, low), _mm256_and_si256(b, low))
    } else {
        in_order(_mm256_srli_epi16::<8>(a), _mm256_srli_epi16::<8>(b))
    }
}

/// Exchanges the number of the register with that of the byte in each half of it: a perfect shuffle rotates the eight
/// binary digits of both by one.
#[inline]
#[target_feature(enable = "avx2")]
fn exchange(mut r: [__m256i; 16]) -> [__m256i; 16] {
    for _ in 0..4 {
        let mut t = r;
        for i in 0..8 {
            t[2 * i] = _mm256_unpacklo_epi8(r[i], r[i + 8]);
            t[2 * i + 1] = _mm256_unpackhi_epi8(r[i], r[i + 8]);
        }
        r = t;
    }
    r
}

/// Plane `k` of 64 pixels from its words of 64 scans.
pub(super) fn gather(turns: [&[u64; GROUP]; TURNS], k: usize, pixels: &mut [[Plane; MAX_PLANES]; GROUP]) {
    assert!(k < MAX_PLANES && detected());
    // SAFETY: the feature was asked for just above.
    unsafe { gather_with(turns, k, pixels) }
}

#[target_feature(enable = "avx2")]
unsafe fn gather_with(turns: [&[u64; GROUP]; TURNS], k: usize, pixels: &mut [[Plane; MAX_PLANES]; GROUP]) {
    for (i, pixels) in pixels.chunks_exact_mut(4).enumerate() {
        for (half, turns) in turns.chunks_exact(4).enumerate() {
            // SAFETY: four words from the quarter of `i` on lie in a plane of 64.
            let r: [__m256i; 4] =
                std::array::from_fn(|t| unsafe { _mm256_loadu_si256(turns[t].as_ptr().add(4 * i).cast()) });
            let pairs = [
                _mm256_unpacklo_epi64(r[0], r[1]),
                _mm256_unpackhi_epi64(r[0], r[1]),
                _mm256_unpacklo_epi64(r[2], r[3]),
                _mm256_unpackhi_epi64(r[2], r[3]),
            ];
            let planes = [
                _mm256_permute2x128_si256::<0x20>(pairs[0], pairs[2]),
                _mm256_permute2x128_si256::<0x20>(pairs[1], pairs[3]),
                _mm256_permute2x128_si256::<0x31>(pairs[0], pairs[2]),
                _mm256_permute2x128_si256::<0x31>(pairs[1], pairs[3]),
            ];
            for (pixel, plane) in pixels.iter_mut().zip(planes) {
                // SAFETY: half a plane is 32 bytes.
                unsafe { _mm256_storeu_si256(pixel[k].as_mut_ptr().add(8 * half).cast(), plane) };
            }
        }
    }
}
