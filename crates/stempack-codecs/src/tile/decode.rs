//! Packed tile → samples: the choice of the fast path, and whole frames out of many pixels.

use crate::bits;

/// Bytes that must follow the last tile in a buffer given to [`Unpack`], so that fast paths may load whole vectors.
pub const READ_SLACK: usize = 32;

/// Unpacks tiles with the fastest means of this machine; scalar twin: [`bits::unpack_scalar`].
#[derive(Clone, Copy, Debug)]
pub struct Unpack {
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has a fast path"))]
    avx2: bool,
}

impl Default for Unpack {
    fn default() -> Self {
        Self::detect()
    }
}

impl Unpack {
    /// The fastest path of this machine.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        return Unpack { avx2: is_x86_feature_detected!("avx2") };
        #[cfg(not(target_arch = "x86_64"))]
        return Unpack { avx2: false };
    }
    /// The scalar reference.
    pub fn scalar() -> Self {
        Unpack { avx2: false }
    }
    /// Name for reports: `avx2` or `scalar`.
    pub fn name(self) -> &'static str {
        if self.avx2 { "avx2" } else { "scalar" }
    }
    /// Unpacks one pixel of one tile into `out` (a multiple of 8 samples).
    ///
    /// `tile` starts at the pixel's first byte and continues at least [`READ_SLACK`] bytes past its last.
    ///
    /// # Panics
    /// When `tile` is too short.
    pub fn unpack(self, tile: &[u8], width: u8, out: &mut [u16]) {
        assert!(tile.len() >= out.len() / 8 * width as usize + READ_SLACK && width <= 16);
        #[cfg(target_arch = "x86_64")]
        if self.avx2 && out.len().is_multiple_of(16) {
            return super::decode_x86::unpack(tile, width, out);
        }
        bits::unpack_scalar(tile, width, out);
    }
}

/// Unpacks one tile of many pixels into frames.
///
/// `tiles(pixel)` gives the width and the bytes of that pixel's tile (with [`READ_SLACK`] behind them); `out` receives
/// `scans` frames of `stride` samples, converted by `narrow`, for the pixels `0..stride`.
///
/// # Panics
/// When `out` is not `scans * stride` long or a tile is too short.
pub fn expand_frames<'a, T: Copy>(
    unpack: Unpack,
    tile_scans: usize,
    stride: usize,
    out: &mut [T],
    narrow: impl Fn(u16) -> T,
    mut tiles: impl FnMut(usize) -> (u8, &'a [u8]),
) {
    assert!(tile_scans <= 128 && out.len().is_multiple_of(stride) && out.len() / stride <= tile_scans);
    let scans = out.len() / stride;
    let zero = narrow(0);
    // Sixteen pixels at a time keep every touched line of the output in the first-level cache.
    let mut block = [[0u16; 128]; 16];
    for first in (0..stride).step_by(16) {
        let pixels = 16.min(stride - first);
        let mut any = false;
        for (k, samples) in block.iter_mut().enumerate().take(pixels) {
            let (width, bytes) = tiles(first + k);
            if width == 0 {
                samples[..tile_scans].fill(0);
            } else {
                any = true;
                unpack.unpack(bytes, width, &mut samples[..tile_scans]);
            }
        }
        for s in 0..scans {
            let row = &mut out[s * stride + first..][..pixels];
            if any {
                for (sample, samples) in row.iter_mut().zip(&block) {
                    *sample = narrow(samples[s]);
                }
            } else {
                row.fill(zero);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_equals_scalar_for_every_width() {
        let mut state = 7u64;
        let bytes: Vec<u8> = (0..256 + READ_SLACK)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect();
        for width in 0..=16u8 {
            for scans in [32, 128] {
                let (mut fast, mut slow) = (vec![1u16; scans], vec![2u16; scans]);
                Unpack::detect().unpack(&bytes, width, &mut fast);
                bits::unpack_scalar(&bytes, width, &mut slow);
                assert_eq!(fast, slow, "width {width}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "assertion failed")]
    fn a_tile_without_slack_is_refused() {
        Unpack::detect().unpack(&[0; 40], 8, &mut [0; 32]);
    }

    #[test]
    fn frames_round_trip() {
        for (stride, scans) in [(1, 128), (37, 128), (16, 5), (50, 77)] {
            let frames: Vec<u16> =
                (0..stride * scans).map(|i| ((i * 2654435761) >> (i % 16)) as u16).collect();
            let tile = crate::tile::encode(&frames, stride, 0..stride);
            let mut bytes = tile.bytes.clone();
            bytes.resize(bytes.len() + READ_SLACK, 0);
            let mut starts = vec![0];
            for w in &tile.widths {
                starts.push(starts.last().unwrap() + 16 * *w as usize);
            }
            let mut out = vec![0u16; frames.len()];
            expand_frames(
                Unpack::detect(),
                128,
                stride,
                &mut out,
                |v| v,
                |p| (tile.widths[p], &bytes[starts[p]..]),
            );
            assert_eq!(out, frames);
        }
    }
}
