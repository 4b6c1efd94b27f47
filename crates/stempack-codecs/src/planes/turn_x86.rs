//! Frames → words of 64 scans with AVX-512 and 8×8 bit matrices; eight such words as whole planes.
//!
//! A group is a cube of 64 scans × 64 pixels × 8 bits for each byte of a count. Sixty-four bytes of one register are
//! numbered by six binary digits, the registers by further ones, and a perfect shuffle of registers rotates the digits:
//! three make the scans of eight frames neighbours, a matrix product exchanges these scans with the bits of a byte, three
//! more put scans next to scans.
//!
//! Scalar twins: `turn_scalar` and `gather_scalar` in `frames.rs`.
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::frames::{GROUP, GroupPlane, TURN_SCANS, TURNS};
use super::{MAX_PLANES, Plane};
use std::arch::x86_64::*;

/// Whether this machine has what [`turn`] and [`gather`] need.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("gfni")
}

/// Writes the planes of 64 pixels, as many as are not zero, and returns how many; counts of `S` are 8 or 16 bits wide.
pub(super) fn turn<S: Copy>(frames: &[S], stride: usize, planes: &mut [GroupPlane]) -> u8 {
    assert!(stride >= GROUP && frames.len() >= (TURN_SCANS - 1) * stride + GROUP);
    assert!(planes.len() >= 8 * size_of::<S>() && detected());
    let frames = frames.as_ptr().cast();
    // SAFETY: the features were asked for, and the room was checked, just above.
    unsafe {
        match size_of::<S>() {
            1 => turn_with::<1>(frames, stride, planes),
            2 => turn_with::<2>(frames, 2 * stride, planes),
            bytes => unreachable!("counts of {bytes} bytes"),
        }
    }
}

/// `PICK[h]` takes byte `h` of 64 counts of `BYTES` bytes such that after three shuffles the pixels are in order: byte `j`
/// of lane `l` comes from pixel `8 (j / 2) + 2 l + j % 2`.
struct Pick<const BYTES: usize>;
impl<const BYTES: usize> Pick<BYTES> {
    const BYTE: [[u8; 64]; BYTES] = {
        let mut pick = [[0; 64]; BYTES];
        let mut at = 0;
        while at < 64 * BYTES {
            let (half, lane, j) = (at / 64, at / 16 % 4, at % 16);
            pick[half][at % 64] = ((8 * (j / 2) + 2 * lane + j % 2) * BYTES + half) as u8;
            at += 1;
        }
        pick
    };
}

/// Rotates the seven digits of (register, byte in a lane) by three.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn shuffle(mut r: [__m512i; 8]) -> [__m512i; 8] {
    for _ in 0..3 {
        let mut t = r;
        for i in 0..4 {
            t[2 * i] = _mm512_unpacklo_epi8(r[i], r[i + 4]);
            t[2 * i + 1] = _mm512_unpackhi_epi8(r[i], r[i + 4]);
        }
        r = t;
    }
    r
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
unsafe fn turn_with<const BYTES: usize>(
    frames: *const u8,
    stride_bytes: usize,
    planes: &mut [GroupPlane],
) -> u8 {
    let zero = _mm512_setzero_si512();
    // SAFETY: 64 indices are 64 bytes.
    let pick = Pick::<BYTES>::BYTE.map(|pick| unsafe { _mm512_loadu_si512(pick.as_ptr().cast()) });
    // The operand of a matrix product is taken last row first.
    let unit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    // octets[h][i][g]: of the pixels 8 i to 8 i + 7 the bytes that hold bit k of byte h at the scans 8 g to 8 g + 7.
    let mut octets = [[[zero; 8]; 8]; BYTES];
    let mut or = [zero; BYTES];
    for g in 0..8 {
        for s in 0..8 {
            // Rows lie so far apart that nothing but this has the next group at hand; any address may be prefetched.
            let next = frames.wrapping_add((8 * g + s) * stride_bytes + GROUP * BYTES);
            _mm_prefetch::<_MM_HINT_T0>(next.cast());
            if BYTES == 2 {
                _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(64).cast());
            }
        }
        for half in 0..BYTES {
            let rows: [__m512i; 8] = std::array::from_fn(|s| {
                // SAFETY: the caller has checked that 64 counts of 64 frames lie there.
                unsafe {
                    let row = frames.add((8 * g + 7 - s) * stride_bytes);
                    let low = _mm512_loadu_si512(row.cast());
                    let high = if BYTES == 2 { _mm512_loadu_si512(row.add(64).cast()) } else { low };
                    _mm512_permutex2var_epi8(low, pick[half], high)
                }
            });
            let any = rows.iter().fold(zero, |or, &v| _mm512_or_si512(or, v));
            if _mm512_test_epi64_mask(any, any) == 0 {
                continue;
            }
            or[half] = _mm512_or_si512(or[half], any);
            for (i, pixels) in shuffle(rows).into_iter().enumerate() {
                octets[half][i][g] = _mm512_gf2p8affine_epi64_epi8::<0>(unit, pixels);
            }
        }
    }
    let mut width = 0;
    for (half, &or) in or.iter().enumerate() {
        let or = (_mm512_reduce_or_epi64(or) as u64).to_le_bytes().iter().fold(0, |or, byte| or | byte);
        if or != 0 {
            width = 8 * half + 8 - or.leading_zeros() as usize;
        }
    }
    for (octets, planes) in octets.iter().zip(planes[..width].chunks_mut(8)) {
        for (i, &octet) in octets.iter().enumerate() {
            // Digits of the register now: odd pixel, and two of the plane, whose lowest one tells the halves of a lane.
            let r = shuffle(octet);
            for (k, plane) in planes.iter_mut().enumerate() {
                let (even, odd) = (r[k / 2], r[4 + k / 2]);
                let words =
                    if k % 2 == 0 { _mm512_unpacklo_epi64(even, odd) } else { _mm512_unpackhi_epi64(even, odd) };
                // SAFETY: eight words from the eighth of `i` on lie in a plane of 64.
                unsafe { _mm512_storeu_si512(plane.as_mut_ptr().add(8 * i).cast(), words) };
            }
        }
    }
    width as u8
}

/// Plane `k` of 64 pixels from its words of 64 scans.
pub(super) fn gather(turns: [&GroupPlane; TURNS], k: usize, pixels: &mut [[Plane; MAX_PLANES]; GROUP]) {
    assert!(k < MAX_PLANES && detected());
    // SAFETY: the features were asked for just above.
    unsafe { gather_with(turns, k, pixels) }
}

#[target_feature(enable = "avx512f")]
unsafe fn gather_with(turns: [&GroupPlane; TURNS], k: usize, pixels: &mut [[Plane; MAX_PLANES]; GROUP]) {
    for (i, pixels) in pixels.chunks_exact_mut(8).enumerate() {
        // SAFETY: eight words from the eighth of `i` on lie in a plane of 64.
        let mut r = turns.map(|words| unsafe { _mm512_loadu_si512(words.as_ptr().add(8 * i).cast()) });
        for _ in 0..3 {
            let mut t = r;
            for i in 0..4 {
                t[2 * i] = _mm512_permutex2var_epi64(r[i], _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), r[i + 4]);
                t[2 * i + 1] =
                    _mm512_permutex2var_epi64(r[i], _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), r[i + 4]);
            }
            r = t;
        }
        for (pixel, plane) in pixels.iter_mut().zip(r) {
            // SAFETY: a plane is 64 bytes.
            unsafe { _mm512_storeu_si512(pixel[k].as_mut_ptr().cast(), plane) };
        }
    }
}
