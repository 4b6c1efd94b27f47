//! The scalar meaning of a packed tile: least-significant-bit-first samples inside little-endian u32 words.
//!
//! Every fast pack or unpack path in this workspace is held equal to these two functions by tests.

/// Bits needed for `max`: 0 for zero, else the position of its highest set bit plus one.
#[inline]
pub fn bit_length(max: u16) -> u8 {
    (16 - max.leading_zeros()) as u8
}

/// Writes the low `width` bits of each sample one after another into `out`.
///
/// `samples.len() * width` must be a multiple of 8 and `out` must have exactly that many bits. Missing samples of a
/// partial tile are the caller's zeros.
///
/// # Panics
/// When `out` is shorter than the samples need.
pub fn pack_scalar(samples: &[u16], width: u8, out: &mut [u8]) {
    out.fill(0);
    let mut bit = 0usize;
    for &sample in samples {
        for k in 0..width as usize {
            let one = (sample >> k) as u8 & 1;
            out[bit >> 3] |= one << (bit & 7);
            bit += 1;
        }
    }
}

/// Sample `index` of a tile with `width` bits per sample.
///
/// # Panics
/// When the tile is shorter than the sample needs.
#[inline]
pub fn sample_at(tile: &[u8], width: u8, index: usize) -> u16 {
    if width == 0 {
        return 0;
    }
    let bit = index * width as usize;
    let first = bit >> 3;
    // A sample of at most 16 bits starting at any bit of a byte spans at most three bytes.
    let mut word = 0u32;
    for (k, &byte) in tile[first..].iter().take(3).enumerate() {
        word |= u32::from(byte) << (8 * k);
    }
    (word >> (bit & 7)) as u16 & mask(width)
}

/// Unpacks as many samples as `out` holds.
///
/// # Panics
/// When the tile is shorter than the samples need.
pub fn unpack_scalar(tile: &[u8], width: u8, out: &mut [u16]) {
    for (index, sample) in out.iter_mut().enumerate() {
        *sample = sample_at(tile, width, index);
    }
}

/// The largest sample of `width` bits.
#[inline]
pub fn mask(width: u8) -> u16 {
    ((1u32 << width) - 1) as u16
}
