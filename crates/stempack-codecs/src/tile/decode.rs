//! Packed tile → samples: the choice of the fast path.

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
}
