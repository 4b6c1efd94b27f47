//! Frames → packed tile: the scalar reference and the choice of the fast path.

use crate::bits;
use std::ops::Range;

/// A sample type that a profile packs, with its tile length and widest sample.
pub trait TileSample: Copy + Default + Into<u16> + Send + Sync + 'static {
    /// Scans of a full tile.
    const SCANS: usize;
    /// Widest sample.
    const MAX_WIDTH: u8;
    /// The fast path for whole blocks of pixels, if the machine has one; returns the pixels it did.
    fn encode_fast(frames: &[Self], stride: usize, pixels: Range<usize>, out: &mut EncodedTile) -> usize;
}

/// One tile of a range of detector pixels, pixel after pixel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedTile {
    /// Bits per sample, one per pixel.
    pub widths: Vec<u8>,
    /// The samples, `SCANS / 8 * width` bytes per pixel.
    pub bytes: Vec<u8>,
}

/// Packs one tile of `frames` (`frames.len() / stride` consecutive frames of `stride` pixels each, at most
/// [`TileSample::SCANS`]; missing ones count as zero) for the given detector pixels.
///
/// Its scalar twin is [`encode_scalar`].
///
/// # Panics
/// When `pixels` exceeds `stride` or `frames` is not a whole number of frames.
pub fn encode<S: TileSample>(frames: &[S], stride: usize, pixels: Range<usize>) -> EncodedTile {
    let mut out = EncodedTile::default();
    out.widths.reserve_exact(pixels.len());
    let done = S::encode_fast(frames, stride, pixels.clone(), &mut out);
    encode_rest(frames, stride, pixels.start + done..pixels.end, &mut out);
    out.bytes.shrink_to_fit();
    out
}

/// The reference for [`encode`]: one pixel at a time, one bit at a time.
///
/// # Panics
/// As [`encode`].
pub fn encode_scalar<S: TileSample>(frames: &[S], stride: usize, pixels: Range<usize>) -> EncodedTile {
    let mut out = EncodedTile::default();
    encode_rest(frames, stride, pixels, &mut out);
    out
}

fn encode_rest<S: TileSample>(frames: &[S], stride: usize, pixels: Range<usize>, out: &mut EncodedTile) {
    assert!(pixels.end <= stride && frames.len().is_multiple_of(stride) && frames.len() / stride <= S::SCANS);
    let mut samples = [0u16; 128];
    for pixel in pixels {
        let mut or = 0;
        for (frame, sample) in frames.chunks_exact(stride).zip(&mut samples) {
            *sample = frame[pixel].into();
            or |= *sample;
        }
        let width = bits::bit_length(or);
        out.widths.push(width);
        let start = out.bytes.len();
        out.bytes.resize(start + S::SCANS / 8 * width as usize, 0);
        bits::pack_scalar(&samples[..S::SCANS], width, &mut out.bytes[start..]);
    }
}

impl TileSample for u8 {
    const SCANS: usize = super::U8_SCANS;
    const MAX_WIDTH: u8 = 8;
    fn encode_fast(frames: &[u8], stride: usize, pixels: Range<usize>, out: &mut EncodedTile) -> usize {
        #[cfg(target_arch = "x86_64")]
        return super::encode_x86::encode_u8(frames, stride, pixels, out);
        #[cfg(not(target_arch = "x86_64"))]
        return 0;
    }
}

impl TileSample for u16 {
    const SCANS: usize = super::U16_SCANS;
    const MAX_WIDTH: u8 = 16;
    fn encode_fast(frames: &[u16], stride: usize, pixels: Range<usize>, out: &mut EncodedTile) -> usize {
        #[cfg(target_arch = "x86_64")]
        return super::encode_x86::encode_u16(frames, stride, pixels, out);
        #[cfg(not(target_arch = "x86_64"))]
        return 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::sample_at;

    // Deterministic noise whose widths cover 0..=max.
    fn noise(len: usize, stride: usize, max_width: u32) -> Vec<u16> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        (0..len)
            .map(|i| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let width = (i % stride) as u32 % (max_width + 1);
                ((state >> 40) & ((1 << width) - 1)) as u16
            })
            .collect()
    }

    #[test]
    fn fast_equals_scalar_u8() {
        for stride in [1, 15, 16, 17, 100, 257] {
            let frames: Vec<u8> = noise(32 * stride, stride, 8).iter().map(|&v| v as u8).collect();
            assert_eq!(encode(&frames, stride, 0..stride), encode_scalar(&frames, stride, 0..stride));
            let part = stride / 3..stride;
            assert_eq!(encode(&frames, stride, part.clone()), encode_scalar(&frames, stride, part));
        }
    }

    #[test]
    fn fast_equals_scalar_u16_with_partial_tiles() {
        for stride in [1, 7, 8, 9, 100, 131] {
            for scans in [1, 6, 8, 33, 127, 128] {
                let frames = noise(scans * stride, stride, 16);
                assert_eq!(encode(&frames, stride, 0..stride), encode_scalar(&frames, stride, 0..stride));
                let part = stride / 2..stride;
                assert_eq!(encode(&frames, stride, part.clone()), encode_scalar(&frames, stride, part));
            }
        }
    }

    #[test]
    fn samples_come_back_where_the_format_puts_them() {
        let stride = 20;
        let frames = noise(128 * stride, stride, 16);
        let tile = encode(&frames, stride, 0..stride);
        let mut at = 0;
        for pixel in 0..stride {
            let width = tile.widths[pixel];
            for s in 0..128 {
                // The seed's own words: bit = s·w, word = bit/32, shift = bit%32, low w bits.
                let bit = s * width as usize;
                let value = (0..width as usize).fold(0u32, |v, k| {
                    let b = bit + k;
                    let word = u32::from_le_bytes(tile.bytes[at + b / 32 * 4..][..4].try_into().unwrap());
                    v | (word >> (b % 32) & 1) << k
                });
                assert_eq!(value, u32::from(frames[s * stride + pixel]));
                assert_eq!(value as u16, sample_at(&tile.bytes[at..], width, s));
            }
            at += 16 * width as usize;
        }
        assert_eq!(at, tile.bytes.len());
    }
}
