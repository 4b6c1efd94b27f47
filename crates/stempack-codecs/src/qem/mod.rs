//! The codecs of `.qem`: column streams of counts, of float halves, and the older XOR rows, without files.
//!
//! A column is one detector pixel along up to [`BLOCK_SCANS`] scan positions; every column is a stream of its own
//! (see [`stream`]), so that pixels decode independently. [`columns`] holds chunks of counts with their spatial
//! index, [`lanes`] chunks of `float32` as two columns per pixel, [`xor`] the retired float codec, read only.

pub mod columns;
mod fault;
mod interleave;
pub mod lanes;
pub mod stream;
mod table;
pub mod xor;

/// Scan positions that one stream covers at most.
pub const BLOCK_SCANS: usize = 512;

/// A sample type whose counts column streams hold.
pub trait QemSample: Copy + Default + Into<u16> + Send + Sync + 'static {
    /// The largest count.
    const MAX: u16;
    /// The count, which the caller has compared with [`Self::MAX`].
    fn from_count(count: u16) -> Self;
}

impl QemSample for u8 {
    const MAX: u16 = u8::MAX as u16;
    #[inline]
    fn from_count(count: u16) -> Self {
        count as u8
    }
}

impl QemSample for u16 {
    const MAX: u16 = u16::MAX;
    #[inline]
    fn from_count(count: u16) -> Self {
        count
    }
}

/// How many frames of `pixels` samples `samples` are.
///
/// # Panics
/// When they are no whole number of frames.
fn whole_frames(samples: usize, pixels: usize) -> usize {
    assert!(pixels > 0 && samples.is_multiple_of(pixels), "whole frames");
    samples / pixels
}

/// Panics unless `range` lies within `scans` scan positions and `room` is just enough for its frames.
fn check_range(range: &std::ops::Range<usize>, scans: usize, pixels: usize, room: usize) {
    assert!(range.start <= range.end && range.end <= scans, "range within the chunk");
    assert_eq!(range.len().checked_mul(pixels), Some(room), "room for the frames");
}

/// Panics unless `pixel` is one of `pixels` and `room` is one value for each of `scans` scan positions.
fn check_column(pixel: usize, pixels: usize, room: usize, scans: usize) {
    assert!(pixel < pixels && room == scans, "a pixel, and room for its column");
}

/// The number in little-endian bytes at `index` of a table of `u32`; the caller has checked the table's length.
#[inline]
fn u32_at(bytes: &[u8], index: usize) -> u32 {
    bytes[4 * index..].first_chunk().map_or(0, |&b| u32::from_le_bytes(b))
}
