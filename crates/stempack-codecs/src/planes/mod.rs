//! Bit planes: the form in which counts are summed fastest, and what a resident is rearranged to.
//!
//! 512 consecutive scans of one detector pixel are written as binary digits: plane `k` holds bit `k` of every count, one
//! bit for each scan. 32-bit words of a plane that are zero are left out, and a 16-bit mask says which are there. So a
//! sparse pixel takes no more than in the tiles of a pack, and counts are added 512 at a time with full adders, whatever
//! their widths. Blocks follow the scan and pixels follow each other inside a block, which makes reading a detector, a
//! frame or everything one pass over consecutive memory.
//!
//! A pixel's stream in a block begins with 16-bit halves of words, the low half first: the number of planes, and the mask
//! of each. Then come the words of plane 0, of plane 1, and so on. The stream of a pixel without counts is empty. So one
//! number for each pixel finds everything, and what is read for one pixel lies together.

mod build;
#[cfg(target_arch = "x86_64")]
mod build_avx2;
#[cfg(target_arch = "x86_64")]
mod build_avx512;
#[cfg(target_arch = "x86_64")]
mod frame_x86;
mod frames;
mod transposed;
#[cfg(target_arch = "x86_64")]
mod turn_avx2;
#[cfg(target_arch = "x86_64")]
mod turn_avx512;

pub use build::BlockBuilder;
pub use frames::{FrameTurner, TURN_SCANS};
pub use transposed::TRANSPOSED_BLOCK_BYTES;

use crate::shard::PackedShard;
use crate::tile::Unpack;

/// Scans of a full block.
pub const BLOCK_SCANS: usize = 512;
/// Words of a full plane.
pub const PLANE_WORDS: usize = BLOCK_SCANS / 32;
/// Words that follow the last stream, so that fast paths may load a whole plane from anywhere.
pub const SLACK_WORDS: usize = PLANE_WORDS;
/// The most planes of a pixel.
const MAX_PLANES: usize = 16;
/// The most words a pixel's stream takes: masks and full planes.
const MAX_STREAM: usize = header_words(MAX_PLANES) + MAX_PLANES * PLANE_WORDS;

/// Words in front of the planes of a stream that has `width` of them.
#[inline(always)]
pub const fn header_words(width: usize) -> usize {
    width / 2 + 1
}

/// Counts of one pixel in a block; those past the last scan are zero.
pub type BlockCounts = [u16; BLOCK_SCANS];
/// One binary digit of the counts of one pixel.
type Plane = [u32; PLANE_WORDS];

/// Up to 512 consecutive scans of every detector pixel.
#[derive(Debug)]
pub struct PlaneBlock {
    scans: usize,
    /// First word of each pixel's stream, and the word after the last.
    offsets: Vec<u32>,
    words: Vec<u32>,
}

impl PlaneBlock {
    /// Scan positions in the block.
    pub fn scans(&self) -> usize {
        self.scans
    }
    /// Detector pixels.
    pub fn pixels(&self) -> usize {
        self.offsets.len() - 1
    }
    /// Bytes held in memory.
    pub fn resident_bytes(&self) -> u64 {
        (4 * self.offsets.len() + 4 * self.words.len()) as u64
    }
    /// The most bytes that a block of `pixels` pixels takes, whose counts have at most `max_width` bits.
    pub fn bound_bytes(pixels: usize, max_width: u8) -> u64 {
        let stream = header_words(max_width.into()) + usize::from(max_width) * PLANE_WORDS;
        4 * (pixels * (1 + stream) + 1 + SLACK_WORDS) as u64
    }
    /// Bytes of the streams of one pixel.
    ///
    /// # Panics
    /// When `pixel` is out of range.
    pub fn pixel_bytes(&self, pixel: usize) -> u64 {
        4 * u64::from(self.offsets[pixel + 1] - self.offsets[pixel])
    }
    /// Number of planes of a pixel.
    ///
    /// # Panics
    /// When `pixel` is out of range.
    pub fn width(&self, pixel: usize) -> u8 {
        let stream = self.offsets[pixel]..self.offsets[pixel + 1];
        if stream.is_empty() { 0 } else { self.words[stream.start as usize] as u8 }
    }
    /// First word of each pixel's stream, and the word after the last.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }
    /// All streams, [`SLACK_WORDS`] words behind them.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Planes of a pixel: mask, and the words it stands for.
    pub fn planes(&self, pixel: usize) -> impl Iterator<Item = (u16, &[u32])> {
        let stream = &self.words[self.offsets[pixel] as usize..self.offsets[pixel + 1] as usize];
        let width = stream.first().map_or(0, |word| *word as u8 as usize);
        let (header, mut words) = stream.split_at(header_words(width).min(stream.len()));
        (1..=width).map(move |k| {
            let mask = (header[k / 2] >> (16 * (k % 2))) as u16;
            let own;
            (own, words) = words.split_at(mask.count_ones() as usize);
            (mask, own)
        })
    }
    /// One count.
    ///
    /// # Panics
    /// When `pixel` is out of range, or `scan` not below [`BLOCK_SCANS`].
    #[inline]
    pub fn sample(&self, pixel: usize, scan: usize) -> u16 {
        assert!(scan < BLOCK_SCANS);
        let (tile, bit) = (scan / 32, scan % 32);
        let mut count = 0;
        for (k, (mask, words)) in self.planes(pixel).enumerate() {
            if mask >> tile & 1 == 1 {
                let before = (mask & ((1 << tile) - 1)).count_ones() as usize;
                count |= ((words[before] >> bit & 1) as u16) << k;
            }
        }
        count
    }
    /// The counts of pixels `first..first + out.len()` at one scan; scalar twin: [`PlaneBlock::sample`].
    ///
    /// # Panics
    /// When a pixel is out of range, or `scan` not below [`BLOCK_SCANS`].
    pub fn frame(&self, scan: usize, first: usize, out: &mut [u16]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi2") {
            return frame_x86::frame(self, scan, first, out);
        }
        self.frame_inline(scan, first, out);
    }
    #[inline(always)]
    fn frame_inline(&self, scan: usize, first: usize, out: &mut [u16]) {
        assert!(scan < BLOCK_SCANS);
        let (tile, bit) = (scan / 32, scan % 32);
        let below = (1u32 << tile) - 1;
        let offsets = &self.offsets[first..][..out.len() + 1];
        for (count, ends) in out.iter_mut().zip(offsets.windows(2)) {
            *count = 0;
            if ends[0] == ends[1] {
                continue;
            }
            let stream = &self.words[ends[0] as usize..];
            let width = stream[0] as u8 as usize;
            let mut words = header_words(width);
            for k in 1..=width {
                let mask = stream[k / 2] >> (16 * (k % 2)) & 0xffff;
                // A word that was left out counts as zero; whichever word stands there instead exists.
                let word = stream[words + (mask & below).count_ones() as usize];
                *count |= ((word >> bit & mask >> tile & 1) << (k - 1)) as u16;
                words += mask.count_ones() as usize;
            }
        }
    }
    /// Writes the counts of 32 scans, from scan `32 * tile` on; false when all are zero and nothing was written.
    ///
    /// # Panics
    /// When `pixel` or `tile` is out of range.
    pub fn tile(&self, pixel: usize, tile: usize, out: &mut [u16; 32]) -> bool {
        assert!(tile < PLANE_WORDS);
        let mut any = false;
        for (k, (mask, words)) in self.planes(pixel).enumerate() {
            if mask >> tile & 1 == 1 {
                if !any {
                    out.fill(0);
                    any = true;
                }
                let word = words[(mask & ((1 << tile) - 1)).count_ones() as usize];
                for (s, count) in out.iter_mut().enumerate() {
                    *count |= ((word >> s & 1) as u16) << k;
                }
            }
        }
        any
    }
}

/// A shard as blocks of planes.
#[derive(Debug)]
pub struct PlaneShard {
    scans: usize,
    pixels: usize,
    blocks: Vec<PlaneBlock>,
}

impl PlaneShard {
    /// Puts blocks together.
    ///
    /// # Panics
    /// When a block but the last is not full, or they differ in pixels.
    pub fn new(pixels: usize, blocks: Vec<PlaneBlock>) -> Self {
        let last = blocks.len().saturating_sub(1);
        assert!(blocks.iter().all(|b| b.pixels() == pixels));
        assert!(blocks[..last].iter().all(|b| b.scans == BLOCK_SCANS));
        PlaneShard { scans: blocks.iter().map(|b| b.scans).sum(), pixels, blocks }
    }
    /// Scan positions.
    pub fn scans(&self) -> usize {
        self.scans
    }
    /// Detector pixels.
    pub fn pixels(&self) -> usize {
        self.pixels
    }
    /// The blocks in scan order.
    pub fn blocks(&self) -> &[PlaneBlock] {
        &self.blocks
    }
    /// Bytes held in memory.
    pub fn resident_bytes(&self) -> u64 {
        self.blocks.iter().map(PlaneBlock::resident_bytes).sum()
    }
    /// The most bytes that arranging `shard` can give: every word of every tile kept, and the index.
    pub fn bound_bytes(shard: &PackedShard, max_widths: &[u8]) -> u64 {
        let index: u64 = max_widths.iter().map(|&w| 4 + 4 * header_words(w.into()) as u64).sum();
        let blocks = shard.scans().div_ceil(BLOCK_SCANS) as u64;
        shard.payload_bytes() + blocks * (index + 4 + 4 * SLACK_WORDS as u64)
    }
}

/// Rearranges block `block` of a packed shard.
///
/// # Panics
/// When the shard has no such block.
pub fn arrange(shard: &PackedShard, block: usize) -> PlaneBlock {
    let first = block * BLOCK_SCANS;
    assert!(first < shard.scans());
    let scans = BLOCK_SCANS.min(shard.scans() - first);
    let tile_scans = shard.profile().tile_scans();
    let tiles = first / tile_scans..(first + scans).div_ceil(tile_scans);
    let unpack = Unpack::detect();
    let mut builder = BlockBuilder::new(shard.pixels());
    let mut counts = [0u16; BLOCK_SCANS];
    let mut widths = [0u8; PLANE_WORDS];
    for pixel in 0..shard.pixels() {
        let widths = &mut widths[..tiles.len()];
        let mut payload = shard.tiles_from(pixel, tiles.start, widths);
        if widths.iter().all(|&w| w == 0) {
            builder.push_zero();
            continue;
        }
        for (&width, counts) in widths.iter().zip(counts.chunks_exact_mut(tile_scans)) {
            if width == 0 {
                counts.fill(0);
            } else {
                unpack.unpack(payload, width, counts);
                payload = &payload[width as usize * tile_scans / 8..];
            }
        }
        // A partial tile may hold anything behind its last scan.
        counts[scans..].fill(0);
        builder.push(&counts);
    }
    builder.finish(scans)
}

#[cfg(test)]
mod tests;
