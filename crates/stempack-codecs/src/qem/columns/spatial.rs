//! The spatial index: for every scan position the sums of all 8×8 and 32×32 detector tiles, bit-packed.
//!
//! Fields are the 8×8 tiles, rows outer, then the 32×32 tiles; tiles at the border are cut. Only valid pixels count.

use super::super::{BLOCK_SCANS, QemSample, u32_at, whole_frames};
use crate::error::CodecCode;
use rayon::prelude::*;
use std::ops::Range;
use stempack_model::{DetectorShape, Error, Result};

const SMALL: usize = 8;
const LARGE: usize = 32;

/// The three arrays of one chunk's spatial index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpatialIndex {
    /// Sums of each stream from the lowest bit of a word upward, every stream from a new word on.
    pub words: Vec<u32>,
    /// The word where each stream starts, and the number of words.
    pub offsets: Vec<u64>,
    /// Bits of each stream's sums.
    pub widths: Vec<u8>,
}

/// The detector pixels that one field sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Detector rows.
    pub rows: Range<usize>,
    /// Detector columns.
    pub cols: Range<usize>,
}

/// Number of fields of a detector.
pub fn field_count(detector: DetectorShape) -> usize {
    [SMALL, LARGE].map(|t| detector.rows().div_ceil(t) * detector.cols().div_ceil(t)).iter().sum()
}

/// The fields of a detector in their order.
pub fn fields(detector: DetectorShape) -> Vec<Field> {
    let cut = |start: usize, t: usize, end: usize| start..(start + t).min(end);
    let mut all = Vec::with_capacity(field_count(detector));
    for t in [SMALL, LARGE] {
        for row in (0..detector.rows()).step_by(t) {
            let across = (0..detector.cols()).step_by(t);
            all.extend(
                across.map(|col| Field {
                    rows: cut(row, t, detector.rows()),
                    cols: cut(col, t, detector.cols()),
                }),
            );
        }
    }
    all
}

/// Sums every field of `frames`, which are whole frames of one chunk, with the least width per stream.
///
/// # Panics
/// When `frames` is not a whole number of frames, or `valid` does not have one element per pixel.
pub fn spatial_index<S: QemSample>(frames: &[S], detector: DetectorShape, valid: &[bool]) -> SpatialIndex {
    let pixels = detector.pixels();
    let scans = whole_frames(frames.len(), pixels);
    assert_eq!(valid.len(), pixels, "one flag per pixel");
    let count = field_count(detector);
    let mask: Vec<u16> = valid.iter().map(|&v| if v { u16::MAX } else { 0 }).collect();
    let mut index = SpatialIndex { offsets: vec![0], ..SpatialIndex::default() };
    let mut sums = vec![0u32; BLOCK_SCANS.min(scans) * count];
    for block in frames.chunks(BLOCK_SCANS * pixels) {
        let sums = &mut sums[..block.len() / pixels * count];
        sums.par_chunks_exact_mut(count)
            .zip(block.par_chunks_exact(pixels))
            .for_each(|(sums, frame)| sum_fields(frame, detector, &mask, sums));
        for field in 0..count {
            let column = || sums[field..].iter().step_by(count).copied();
            let width = u32::BITS - column().fold(0, |or, v| or | v).leading_zeros();
            pack(column(), width, &mut index.words);
            index.widths.push(width as u8);
            index.offsets.push(index.words.len() as u64);
        }
    }
    index
}

/// The sums of all fields of one frame; `mask` is all ones where a pixel is valid.
fn sum_fields<S: QemSample>(frame: &[S], detector: DetectorShape, mask: &[u16], sums: &mut [u32]) {
    let (small_cols, large_cols) = (detector.cols().div_ceil(SMALL), detector.cols().div_ceil(LARGE));
    let (small, large) = sums.split_at_mut(detector.rows().div_ceil(SMALL) * small_cols);
    small.fill(0);
    large.fill(0);
    let band = SMALL * detector.cols();
    for (tile_row, ((frame, mask), small)) in
        frame.chunks(band).zip(mask.chunks(band)).zip(small.chunks_exact_mut(small_cols)).enumerate()
    {
        for (row, mask) in frame.chunks_exact(detector.cols()).zip(mask.chunks_exact(detector.cols())) {
            for ((sum, part), mask) in small.iter_mut().zip(row.chunks(SMALL)).zip(mask.chunks(SMALL)) {
                *sum += add_masked(part, mask);
            }
        }
        let large = &mut large[tile_row / (LARGE / SMALL) * large_cols..][..large_cols];
        for (sum, four) in large.iter_mut().zip(small.chunks(LARGE / SMALL)) {
            *sum += four.iter().sum::<u32>();
        }
    }
}

#[inline]
fn add_masked<S: QemSample>(part: &[S], mask: &[u16]) -> u32 {
    let one = |(&count, &mask): (&S, &u16)| u32::from(count.into() & mask);
    // Eight at a time is what a compiler turns into one addition.
    match (part.first_chunk::<SMALL>(), mask.first_chunk::<SMALL>()) {
        (Some(part), Some(mask)) => part.iter().zip(mask).map(one).sum(),
        _ => part.iter().zip(mask).map(one).sum(),
    }
}

/// Appends values of `width` bits each, beginning a new word.
fn pack(values: impl Iterator<Item = u32>, width: u32, words: &mut Vec<u32>) {
    if width == 0 {
        return;
    }
    let (mut held, mut bits) = (0u64, 0);
    for value in values {
        held |= u64::from(value) << bits;
        bits += width;
        if bits >= 32 {
            words.push(held as u32);
            held >>= 32;
            bits -= 32;
        }
    }
    if bits > 0 {
        words.push(held as u32);
    }
}

/// The spatial index of one chunk as it lies in the file, checked: every stream has exactly the words it needs.
#[derive(Clone, Copy, Debug)]
pub struct Spatial<'a> {
    scans: usize,
    detector: DetectorShape,
    words: &'a [u8],
    offsets: &'a [u8],
    widths: &'a [u8],
}

impl<'a> Spatial<'a> {
    /// Checks array lengths, widths and offsets; `words` are little-endian `u32` and `offsets` little-endian `u64`,
    /// both at any alignment.
    ///
    /// # Errors
    /// `qem_array_length`, `qem_spatial_layout`, naming block and field.
    pub fn new(
        scans: usize,
        detector: DetectorShape,
        words: &'a [u8],
        offsets: &'a [u8],
        widths: &'a [u8],
    ) -> Result<Self> {
        let count = field_count(detector);
        let streams = scans.div_ceil(BLOCK_SCANS).checked_mul(count).filter(|&n| n > 0);
        let offset_bytes = streams.and_then(|n| n.checked_add(1)?.checked_mul(8));
        if Some(widths.len()) != streams
            || Some(offsets.len()) != offset_bytes
            || !words.len().is_multiple_of(4)
        {
            return Err(Error::new(
                CodecCode::QemArrayLength,
                format!(
                    "spatial index has {} bytes of words, {} of offsets, {} of widths, expected whole words for \
                     {count} fields in each block of {scans} scan positions",
                    words.len(),
                    offsets.len(),
                    widths.len()
                ),
            ));
        }
        let spatial = Spatial { scans, detector, words, offsets, widths };
        let mut expected = 0u64;
        for (k, &width) in widths.iter().enumerate() {
            let place = || format!("spatial index, block {}, field {}", k / count, k % count);
            if width > 32 {
                return Err(Error::new(
                    CodecCode::QemSpatialLayout,
                    format!("{}: width {width}, expected at most 32", place()),
                ));
            }
            if spatial.offset(k) != expected {
                return Err(Error::new(
                    CodecCode::QemSpatialLayout,
                    format!("{}: starts at word {}, expected {expected}", place(), spatial.offset(k)),
                ));
            }
            expected += (spatial.block_scans(k / count) * usize::from(width)).div_ceil(32) as u64;
        }
        if spatial.offset(widths.len()) != expected || (words.len() / 4) as u64 != expected {
            return Err(Error::new(
                CodecCode::QemSpatialLayout,
                format!(
                    "spatial index ends at word {} of {}, expected {expected}",
                    spatial.offset(widths.len()),
                    words.len() / 4
                ),
            ));
        }
        Ok(spatial)
    }

    fn offset(&self, k: usize) -> u64 {
        self.offsets[8 * k..].first_chunk().map_or(0, |&b| u64::from_le_bytes(b))
    }

    fn block_scans(&self, block: usize) -> usize {
        BLOCK_SCANS.min(self.scans - block * BLOCK_SCANS)
    }

    /// Number of fields.
    pub fn field_count(&self) -> usize {
        field_count(self.detector)
    }

    /// Adds to `sums`, one per scan position of the chunk, the sums of one field.
    ///
    /// # Panics
    /// When `field` does not exist or `sums` does not have one element per scan position.
    pub fn add_field(&self, field: usize, sums: &mut [u64]) {
        assert!(
            field < self.field_count() && sums.len() == self.scans,
            "a field, and a sum per scan position"
        );
        for (block, sums) in sums.chunks_mut(BLOCK_SCANS).enumerate() {
            let k = block * self.field_count() + field;
            for (sum, value) in sums.iter_mut().zip(self.values(k)) {
                *sum = sum.wrapping_add(u64::from(value));
            }
        }
    }

    /// The values of stream `k`.
    fn values(&self, k: usize) -> impl Iterator<Item = u32> + use<'a> {
        let width = u32::from(self.widths[k]);
        let bytes = &self.words[4 * self.offset(k) as usize..4 * self.offset(k + 1) as usize];
        let mask = ((1u64 << width) - 1) as u32;
        let (mut word, mut held, mut bits) = (0, 0u64, 0);
        std::iter::repeat_with(move || {
            if bits < width {
                held |= u64::from(if 4 * word < bytes.len() { u32_at(bytes, word) } else { 0 }) << bits;
                word += 1;
                bits += 32;
            }
            let value = held as u32 & mask;
            held >>= width;
            bits -= width;
            value
        })
    }

    /// Compares every stored sum with `frames`, the decoded frames of scan positions `first` and on of the chunk.
    ///
    /// # Errors
    /// `qem_spatial_sum`, naming scan position and field.
    ///
    /// # Panics
    /// When `frames` is not a whole number of frames within the chunk, or `valid` does not have one element per pixel.
    pub fn compare<S: QemSample>(&self, first: usize, frames: &[S], valid: &[bool]) -> Result<()> {
        let pixels = self.detector.pixels();
        assert_eq!(valid.len(), pixels, "one flag per pixel");
        assert!(first + whole_frames(frames.len(), pixels) <= self.scans, "frames within the chunk");
        let count = self.field_count();
        let mask: Vec<u16> = valid.iter().map(|&v| if v { u16::MAX } else { 0 }).collect();
        frames.par_chunks_exact(pixels).enumerate().try_for_each_init(
            || vec![0; count],
            |sums, (at, frame)| {
                sum_fields(frame, self.detector, &mask, sums);
                let scan = first + at;
                match (0..count).find(|&field| self.value(scan, field) != sums[field]) {
                    None => Ok(()),
                    Some(field) => Err(Error::new(
                        CodecCode::QemSpatialSum,
                        format!(
                            "spatial index, scan position {scan} of the chunk, field {field}: sum is {}, expected {}",
                            self.value(scan, field),
                            sums[field]
                        ),
                    )),
                }
            },
        )
    }

    /// The stored sum of one field at one scan position.
    ///
    /// # Panics
    /// When one of them does not exist.
    pub fn value(&self, scan: usize, field: usize) -> u32 {
        assert!(scan < self.scans && field < self.field_count(), "a scan position and a field");
        let k = scan / BLOCK_SCANS * self.field_count() + field;
        let width = usize::from(self.widths[k]);
        if width == 0 {
            return 0;
        }
        let bytes = &self.words[4 * self.offset(k) as usize..4 * self.offset(k + 1) as usize];
        let bit = scan % BLOCK_SCANS * width;
        let low = u64::from(u32_at(bytes, bit / 32));
        let high = if bit % 32 + width > 32 { u64::from(u32_at(bytes, bit / 32 + 1)) } else { 0 };
        ((low | high << 32) >> (bit % 32)) as u32 & ((1u64 << width) - 1) as u32
    }
}
