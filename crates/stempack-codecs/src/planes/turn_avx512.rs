//! Frames → words of 64 scans with AVX-512 and 8×8 bit matrices; eight such words as whole planes.
//!
//! A group is a cube of 64 scans × 64 pixels × 8 bits for each byte of a count. Sixty-four bytes of one register are
//! numbered by six binary digits, the registers by further ones, and a perfect shuffle of registers rotates the digits:
//! three make the scans of eight frames neighbours, a matrix product exchanges these scans with the bits of a byte, three
//! more put scans next to scans.
//!
//! Scalar twins: `turn_scalar` and `gather_scalar` in `frames.rs`.
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::frames::{GROUP, STRIP, TURN_SCANS, TURNS, Turned};
use super::{MAX_PLANES, Plane};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Whether this machine has what [`turn`] and [`gather`] need.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("gfni")
}

/// Turns 64 frames, the `window`th of the block, of as many pixels as `groups` have; counts of `S` are 8 or 16 bits wide.
pub(super) fn turn<S: Copy>(frames: &[S], stride: usize, window: usize, groups: &mut [Turned<'_>]) {
    let pixels = GROUP * groups.len();
    assert!(groups.len() <= STRIP && stride >= pixels && frames.len() >= (TURN_SCANS - 1) * stride + pixels);
    assert!(window < TURNS && detected());
    let frames = frames.as_ptr().cast();
    // SAFETY: the features were asked for, and the room was checked, just above.
    unsafe {
        match size_of::<S>() {
            1 => _ = turn_bytes::<1>(frames, stride, window, 0, groups),
            2 => {
                if turn_bytes::<2>(frames, 2 * stride, window, 0, groups) {
                    turn_bytes::<2>(frames, 2 * stride, window, 1, groups);
                }
            }
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

/// Turns byte `half` of each count, after those before it, and says whether there is more.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
unsafe fn turn_bytes<const BYTES: usize>(
    frames: *const u8,
    stride_bytes: usize,
    window: usize,
    half: usize,
    groups: &mut [Turned<'_>],
) -> bool {
    let zero = _mm512_setzero_si512();
    // SAFETY: 64 indices are 64 bytes.
    let pick = unsafe { _mm512_loadu_si512(Pick::<BYTES>::BYTE[half].as_ptr().cast()) };
    // The operand of a matrix product is taken last row first.
    let unit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    // octets[g][n][i]: bit k of the pixels 8 i to 8 i + 7 of group n at the scans 8 g to 8 g + 7.
    let mut octets = [[[MaybeUninit::uninit(); 8]; STRIP]; 8];
    let mut own = [zero; STRIP];
    let mut all = zero;
    for (g, octets) in octets.iter_mut().enumerate() {
        for (n, octet) in octets.iter_mut().enumerate().take(groups.len()) {
            let mut or = zero;
            let rows: [__m512i; 8] = std::array::from_fn(|s| {
                // SAFETY: the caller has checked that 64 frames of as many counts lie there.
                unsafe {
                    let row = frames.add((8 * g + 7 - s) * stride_bytes + n * GROUP * BYTES);
                    let a = _mm512_loadu_si512(row.cast());
                    let b = if BYTES == 2 { _mm512_loadu_si512(row.add(64).cast()) } else { a };
                    or = _mm512_or_si512(or, _mm512_or_si512(a, b));
                    _mm512_permutex2var_epi8(a, pick, b)
                }
            });
            if _mm512_test_epi64_mask(or, or) == 0 {
                *octet = [MaybeUninit::new(zero); 8];
                continue;
            }
            all = _mm512_or_si512(all, or);
            own[n] = rows.iter().fold(own[n], |or, &v| _mm512_or_si512(or, v));
            *octet = shuffle(rows)
                .map(|pixels| MaybeUninit::new(_mm512_gf2p8affine_epi64_epi8::<0>(unit, pixels)));
        }
    }
    for (n, (group, or)) in groups.iter_mut().zip(own).enumerate() {
        let or = (_mm512_reduce_or_epi64(or) as u64).to_le_bytes().iter().fold(0, |or, byte| or | byte);
        let width = 8 - or.leading_zeros() as usize;
        if width == 0 {
            continue;
        }
        for plane in &mut group.planes[(*group.width).into()..8 * half] {
            plane[window] = [0; GROUP];
        }
        *group.width = (8 * half + width) as u8;
        for at in (0..GROUP).step_by(8) {
            // Digits of the register now: odd pixel, and two of the plane, whose lowest one tells the halves of a lane.
            // SAFETY: every `octets[g][n]` of the groups that there are was written above.
            let r = shuffle(std::array::from_fn(|g| unsafe { octets[g][n][at / 8].assume_init() }));
            for (k, plane) in group.planes[8 * half..][..width].iter_mut().enumerate() {
                let (even, odd) = (r[k / 2], r[4 + k / 2]);
                let words = if k % 2 == 0 {
                    _mm512_unpacklo_epi64(even, odd)
                } else {
                    _mm512_unpackhi_epi64(even, odd)
                };
                // SAFETY: eight words from `at` on lie in a plane of 64.
                unsafe { _mm512_storeu_si512(plane[window].as_mut_ptr().add(at).cast(), words) };
            }
        }
    }
    BYTES == 2 && _mm512_test_epi16_mask(all, _mm512_set1_epi16(0xff00_u16 as i16)) != 0
}

/// Plane `k` of 64 pixels from its words of 64 scans.
pub(super) fn gather(turns: [&[u64; GROUP]; TURNS], k: usize, pixels: &mut [[Plane; MAX_PLANES]; GROUP]) {
    assert!(k < MAX_PLANES && detected());
    // SAFETY: the features were asked for just above.
    unsafe { gather_with(turns, k, pixels) }
}

#[target_feature(enable = "avx512f")]
unsafe fn gather_with(turns: [&[u64; GROUP]; TURNS], k: usize, pixels: &mut [[Plane; MAX_PLANES]; GROUP]) {
    for (i, pixels) in pixels.chunks_exact_mut(8).enumerate() {
        // SAFETY: eight words from the eighth of `i` on lie in a plane of 64.
        let mut r = turns.map(|words| unsafe { _mm512_loadu_si512(words.as_ptr().add(8 * i).cast()) });
        for _ in 0..3 {
            let mut t = r;
            for i in 0..4 {
                t[2 * i] =
                    _mm512_permutex2var_epi64(r[i], _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), r[i + 4]);
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
