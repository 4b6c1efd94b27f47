//! Chunks of `float32` as two columns per pixel, the low and the high half of the bits: `float32-bit-lanes-rans-v1`.
//!
//! Bits are never interpreted: signed zeros, subnormals, infinities and every NaN come back as they were.

use super::columns::{self, Chunk, EncodedChunk};
use super::{BLOCK_SCANS, check_column, check_range, whole_frames};
use std::ops::Range;
use stempack_model::{Error, ModelCode, Result, Task};

/// The most bytes of samples in one chunk; one frame cannot be larger.
pub const CHUNK_BYTES: usize = 32 << 20;

/// The most scan positions that a chunk may have, 0 when one frame of so many pixels is already too large.
pub fn longest_chunk(pixels: usize) -> usize {
    pixels.checked_mul(4).filter(|&n| n > 0).map_or(0, |frame| BLOCK_SCANS.min(CHUNK_BYTES / frame))
}

fn check_chunk(scans: usize, pixels: usize) -> Result<()> {
    if scans == 0 || scans > longest_chunk(pixels) {
        return Err(Error::new(
            ModelCode::OutOfRange,
            format!(
                "float chunk of {scans} scan positions × {pixels} pixels, expected 1 to {} scan positions",
                longest_chunk(pixels)
            ),
        ));
    }
    Ok(())
}

/// Encodes whole frames of `pixels` samples as one chunk of at most [`longest_chunk`] scan positions.
///
/// The payload is never empty: without streams it is one filler byte, which no offset covers.
///
/// # Errors
/// `out_of_range` for a chunk that is too long, `cancelled`.
///
/// # Panics
/// When `frames` is not a whole number of frames.
pub fn encode(frames: &[f32], pixels: usize, task: &Task) -> Result<EncodedChunk> {
    check_chunk(whole_frames(frames.len(), pixels), pixels)?;
    let halves: Vec<u16> =
        frames.iter().flat_map(|v| [v.to_bits() as u16, (v.to_bits() >> 16) as u16]).collect();
    let mut chunk = columns::encode(&halves, 2 * pixels, task)?;
    if chunk.payload.is_empty() {
        chunk.payload.push(0);
    }
    Ok(chunk)
}

/// The arrays of one chunk of floats as they lie in the file, checked.
#[derive(Clone, Copy, Debug)]
pub struct LaneChunk<'a>(Chunk<'a>);

impl<'a> LaneChunk<'a> {
    /// Checks the chunk's size, array lengths, offsets, selectors and stream lengths; payload bytes after the last
    /// offset are filler.
    ///
    /// # Errors
    /// `out_of_range`, `qem_array_length`, `qem_stream_offsets`, `qem_selector`, `qem_stream_length`; of a stream,
    /// "pixel" in a message is twice the detector pixel, plus one for the high half.
    pub fn new(
        scans: usize,
        pixels: usize,
        payload: &'a [u8],
        offsets: &'a [u8],
        selectors: &'a [u8],
    ) -> Result<Self> {
        check_chunk(scans, pixels)?;
        Ok(LaneChunk(Chunk::with_filler(scans, 2 * pixels, payload, offsets, selectors)?))
    }

    /// Scan positions of the chunk.
    pub fn scans(&self) -> usize {
        self.0.scans()
    }

    /// Detector pixels.
    pub fn pixels(&self) -> usize {
        self.0.pixels() / 2
    }

    /// Decodes scan positions `range` of all pixels into row-major frames; every stream is decoded and checked.
    ///
    /// # Errors
    /// `qem_entropy`, `qem_sparse_positions`, `cancelled`.
    ///
    /// # Panics
    /// When `range` leaves the chunk or `out` does not have its length in frames.
    pub fn decode(&self, range: Range<usize>, out: &mut [f32], task: &Task) -> Result<()> {
        check_range(&range, self.scans(), self.pixels(), out.len());
        let mut halves = vec![0u16; 2 * out.len()];
        self.0.decode(range, &mut halves, task)?;
        for (value, [low, high]) in out.iter_mut().zip(halves.as_chunks().0) {
            *value = f32::from_bits(u32::from(*low) | u32::from(*high) << 16);
        }
        Ok(())
    }

    /// Decodes one pixel for all scan positions.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    ///
    /// # Panics
    /// When `pixel` is outside the detector or `out` does not have one value per scan position.
    pub fn decode_pixel(&self, pixel: usize, out: &mut [f32]) -> Result<()> {
        check_column(pixel, self.pixels(), out.len(), self.scans());
        let mut halves = [[0; BLOCK_SCANS]; 2];
        for (lane, half) in halves.iter_mut().enumerate() {
            self.0.decode_pixel(2 * pixel + lane, &mut half[..out.len()])?;
        }
        for (at, value) in out.iter_mut().enumerate() {
            *value = f32::from_bits(u32::from(halves[0][at]) | u32::from(halves[1][at]) << 16);
        }
        Ok(())
    }
}
