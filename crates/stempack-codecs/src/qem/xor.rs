//! Rows of `float32` as differences from a base pattern: `empad-xor-row-packed-v1`, retired, read only.
//!
//! Every detector row of 128 pixels has a descriptor of four words: base, width, shift, and the word where its
//! differences start. A pixel's bits are the base XOR its difference shifted left.

use super::u32_at;
use crate::error::CodecCode;
use rayon::prelude::*;
use std::ops::Range;
use stempack_model::{Error, Result, Task};

/// Rows and columns of the only detector that this codec knows.
pub const SIDE: usize = 128;

/// The most scan positions of a chunk.
pub const LONGEST_CHUNK: usize = 512;

const DESCRIPTOR: usize = 16;

/// Payload and descriptors of one chunk as they lie in the file, checked.
#[derive(Clone, Copy, Debug)]
pub struct XorChunk<'a> {
    scans: usize,
    payload: &'a [u8],
    descriptors: &'a [u8],
}

impl<'a> XorChunk<'a> {
    /// Checks lengths, widths, shifts, and that the rows' words follow each other without gaps to the payload's end.
    ///
    /// # Errors
    /// `qem_array_length`, `qem_xor_descriptor`, naming scan position and detector row.
    pub fn new(scans: usize, payload: &'a [u8], descriptors: &'a [u8]) -> Result<Self> {
        if !(1..=LONGEST_CHUNK).contains(&scans) {
            return Err(Error::new(
                CodecCode::QemArrayLength,
                format!("XOR chunk of {scans} scan positions, expected 1 to {LONGEST_CHUNK}"),
            ));
        }
        if descriptors.len() != scans * SIDE * DESCRIPTOR {
            return Err(Error::new(
                CodecCode::QemArrayLength,
                format!("{} bytes of descriptors, expected {}", descriptors.len(), scans * SIDE * DESCRIPTOR),
            ));
        }
        if payload.is_empty() || !payload.len().is_multiple_of(4) {
            return Err(Error::new(
                CodecCode::QemArrayLength,
                format!("XOR payload of {} bytes, expected at least one whole word", payload.len()),
            ));
        }
        let chunk = XorChunk { scans, payload, descriptors };
        let mut expected = 0;
        for row in 0..scans * SIDE {
            let [_, width, shift, first] = chunk.descriptor(row);
            let place = || format!("scan position {}, detector row {}", row / SIDE, row % SIDE);
            if width > 32 || shift > 32 - width {
                return Err(Error::new(
                    CodecCode::QemXorDescriptor,
                    format!("{}: width {width} and shift {shift}, expected a sum of at most 32", place()),
                ));
            }
            if first != expected {
                return Err(Error::new(
                    CodecCode::QemXorDescriptor,
                    format!("{}: differences start at word {first}, expected {expected}", place()),
                ));
            }
            // At most 512·128 rows of 128 words: far below 2³².
            expected += 4 * width;
        }
        // A chunk of constant rows has one word that nothing uses.
        let words = expected.max(1) as usize;
        if payload.len() != 4 * words {
            return Err(Error::new(
                CodecCode::QemXorDescriptor,
                format!("rows have {words} words of differences, the payload has {}", payload.len() / 4),
            ));
        }
        Ok(chunk)
    }

    fn descriptor(&self, row: usize) -> [u32; 4] {
        std::array::from_fn(|k| u32_at(self.descriptors, 4 * row + k))
    }

    /// Scan positions of the chunk.
    pub fn scans(&self) -> usize {
        self.scans
    }

    /// Decodes scan positions `range` into row-major frames.
    ///
    /// # Errors
    /// `cancelled`; the bytes were checked before.
    ///
    /// # Panics
    /// When `range` leaves the chunk or `out` does not have its length in frames.
    pub fn decode(&self, range: Range<usize>, out: &mut [f32], task: &Task) -> Result<()> {
        super::check_range(&range, self.scans, SIDE * SIDE, out.len());
        out.par_chunks_exact_mut(SIDE * SIDE).enumerate().try_for_each(|(at, frame)| {
            task.check()?;
            for (row, values) in frame.chunks_exact_mut(SIDE).enumerate() {
                self.decode_row((range.start + at) * SIDE + row, values);
            }
            Ok(())
        })
    }

    fn decode_row(&self, row: usize, values: &mut [f32]) {
        let [base, width, shift, first] = self.descriptor(row);
        if width == 0 {
            return values.fill(f32::from_bits(base));
        }
        let words = &self.payload[4 * first as usize..4 * (first + 4 * width) as usize];
        let (mut word, mut held, mut bits) = (0, 0u64, 0);
        for value in values {
            if bits < width {
                held |= u64::from(u32_at(words, word)) << bits;
                word += 1;
                bits += 32;
            }
            let delta = (held & ((1 << width) - 1)) as u32;
            held >>= width;
            bits -= width;
            *value = f32::from_bits(base ^ delta << shift);
        }
    }
}
