//! AVX2 kernels: the table-driven unpacking of the codecs, added to lanes instead of stored.
//!
//! Scalar twin: [`super::scalar`].
#![expect(unsafe_code, reason = "SIMD loads, stores and calls of functions that need detected CPU features")]

use super::Lanes;
use std::arch::x86_64::*;
use stempack_codecs::tile::{NARROW, NARROW_WIDTH, WIDE};

/// The caller ([`super::Kernel::add_tiles`]) has checked lengths and widths, and holds the proof that AVX2 is there.
pub(super) fn add_tiles(payload: &[u8], widths: &[u8], tile_scans: usize, lanes: Lanes<'_>) {
    // SAFETY: see above.
    unsafe { run(payload, widths, tile_scans, lanes) }
}

#[target_feature(enable = "avx2")]
unsafe fn run(payload: &[u8], widths: &[u8], tile_scans: usize, lanes: Lanes<'_>) {
    let mut tile = payload.as_ptr();
    let mut narrow = lanes.narrow.as_mut_ptr();
    let mut wide = lanes.wide.as_mut_ptr();
    for &width in widths {
        let w = width as usize;
        // SAFETY: the tiles' bytes and the slack behind them lie in `payload`, each group of eight samples is `w` bytes
        // and loads sixteen; lanes cover every tile; table rows are 32-byte aligned. All checked by the caller.
        unsafe {
            if width <= NARROW_WIDTH {
                let row = NARROW.get_unchecked(w);
                let shuffle = _mm256_load_si256(row.shuffle.as_ptr().cast());
                let multiply = _mm256_load_si256(row.multiply.as_ptr().cast());
                let shift = _mm_load_si128(row.shift.as_ptr().cast());
                for pair in 0..tile_scans / 16 {
                    let p = tile.add(2 * pair * w);
                    let v = _mm256_inserti128_si256::<1>(
                        _mm256_castsi128_si256(_mm_loadu_si128(p.cast())),
                        _mm_loadu_si128(p.add(w).cast()),
                    );
                    let v = _mm256_mullo_epi16(_mm256_shuffle_epi8(v, shuffle), multiply);
                    let v = _mm256_srl_epi16(v, shift);
                    let lane = narrow.add(16 * pair).cast::<__m256i>();
                    _mm256_storeu_si256(lane, _mm256_add_epi16(_mm256_loadu_si256(lane), v));
                }
            } else {
                let row = WIDE.get_unchecked(w);
                let shuffle = _mm256_load_si256(row.shuffle.as_ptr().cast());
                let shift = _mm256_load_si256(row.shift.as_ptr().cast());
                let mask = _mm256_load_si256(row.mask.as_ptr().cast());
                for group in 0..tile_scans / 8 {
                    let v = _mm256_broadcastsi128_si256(_mm_loadu_si128(tile.add(group * w).cast()));
                    let v = _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(v, shuffle), shift), mask);
                    let lane = wide.add(8 * group).cast::<__m256i>();
                    _mm256_storeu_si256(lane, _mm256_add_epi32(_mm256_loadu_si256(lane), v));
                }
            }
            tile = tile.add(w * tile_scans / 8);
            narrow = narrow.add(tile_scans);
            wide = wide.add(tile_scans);
        }
    }
}
