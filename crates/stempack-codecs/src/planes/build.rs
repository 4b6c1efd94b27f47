//! Planes → streams: a block is made pixel after pixel, from counts or from planes.

use super::{BlockCounts, MAX_PLANES, MAX_STREAM, PLANE_WORDS, Plane, PlaneBlock, SLACK_WORDS, header_words};
#[cfg(target_arch = "x86_64")]
use super::{build_avx2, build_avx512};
use crate::bits::bit_length;

/// Makes one block, pixel after pixel.
#[derive(Debug)]
pub struct BlockBuilder {
    offsets: Vec<u32>,
    words: Vec<u32>,
    filled: usize,
    build: Build,
}

impl BlockBuilder {
    /// Words by which it grows.
    const ROOM: usize = MAX_STREAM + SLACK_WORDS + (1 << 14);
    /// Bytes that a builder touches besides what it holds.
    pub(super) const ROOM_BYTES: usize = 4 * Self::ROOM;

    /// An empty block for `pixels` pixels, built with the fastest means of this machine.
    pub fn new(pixels: usize) -> Self {
        Self::with(pixels, Build::detect())
    }
    /// The same by the scalar reference.
    pub fn scalar(pixels: usize) -> Self {
        Self::with(pixels, Build::Scalar)
    }
    /// The same by everything that this machine has.
    #[cfg(test)]
    pub(super) fn each(pixels: usize) -> impl Iterator<Item = Self> {
        Build::available().into_iter().map(move |build| Self::with(pixels, build))
    }
    fn with(pixels: usize, build: Build) -> Self {
        let mut offsets = Vec::with_capacity(pixels + 1);
        offsets.push(0);
        BlockBuilder { offsets, words: Vec::new(), filled: 0, build }
    }
    /// Empty again, for other pixels.
    pub(super) fn clear(&mut self) {
        self.offsets.truncate(1);
        self.filled = 0;
    }
    /// Appends a pixel whose counts are all zero.
    pub fn push_zero(&mut self) {
        self.offsets.push(self.filled as u32);
    }
    /// Appends the next pixel. Counts past the block's last scan must be zero.
    ///
    /// # Panics
    /// When the block grows beyond 16 GiB.
    pub fn push(&mut self, counts: &BlockCounts) {
        let mut planes = [[0; PLANE_WORDS]; MAX_PLANES];
        let width = match self.build {
            Build::Scalar => planes_scalar(counts, &mut planes),
            #[cfg(target_arch = "x86_64")]
            Build::Avx2 => build_avx2::planes(counts, &mut planes),
            #[cfg(target_arch = "x86_64")]
            Build::Avx512 => build_avx512::planes(counts, &mut planes),
        };
        self.push_planes(&planes[..width]);
    }
    /// Appends the next pixel, whose last planes may be zero.
    pub(super) fn push_planes(&mut self, planes: &[Plane]) {
        if self.words.len() - self.filled < MAX_STREAM + SLACK_WORDS {
            // The vector's capacity doubles; only what is filled is touched.
            self.words.resize(self.filled + Self::ROOM, 0);
        }
        let room = &mut self.words[self.filled..];
        self.filled += match self.build {
            Build::Scalar => write_scalar(planes, room),
            #[cfg(target_arch = "x86_64")]
            Build::Avx2 => build_avx2::write(planes, room),
            #[cfg(target_arch = "x86_64")]
            Build::Avx512 => build_avx512::write(planes, room),
        };
        self.offsets.push(u32::try_from(self.filled).expect("a block takes at most 16 GiB"));
    }
    /// The first word of each pixel's stream, and all streams.
    pub(super) fn streams(&self) -> (&[u32], &[u32]) {
        (&self.offsets[..self.offsets.len() - 1], &self.words[..self.filled])
    }
    /// The block of all pushed pixels.
    pub fn finish(mut self, scans: usize) -> PlaneBlock {
        self.words.truncate(self.filled);
        self.words.resize(self.filled + SLACK_WORDS, 0);
        self.words.shrink_to_fit();
        PlaneBlock { scans, offsets: self.offsets, words: self.words }
    }
}

#[derive(Clone, Copy, Debug)]
enum Build {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Build {
    /// All that this machine has, the fastest last.
    fn available() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "others need features"))]
        let mut all = vec![Build::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(build_avx2::detected().then_some(Build::Avx2));
            all.extend(build_avx512::detected().then_some(Build::Avx512));
        }
        all
    }
    fn detect() -> Self {
        Self::available().pop().unwrap_or(Build::Scalar)
    }
}

/// Writes the planes that are not all zero and returns how many: the reference.
fn planes_scalar(counts: &BlockCounts, planes: &mut [Plane; MAX_PLANES]) -> usize {
    let width = bit_length(counts.iter().fold(0, |or, &c| or | c)).into();
    for (k, plane) in planes.iter_mut().enumerate().take(width) {
        for (word, tile) in plane.iter_mut().zip(counts.chunks_exact(32)) {
            *word = tile.iter().rev().fold(0, |word, &c| word << 1 | u32::from(c >> k & 1));
        }
    }
    width
}

/// The halves of words in front of a stream: the number of planes, and the mask of each.
pub(super) type Header = [u16; 2 * header_words(MAX_PLANES)];

/// Writes a header for fast paths and returns its words. It is written as long as any header: a length that is known costs
/// less, and what is too much is overwritten.
#[inline(always)]
pub(super) fn write_header(halves: &Header, out: &mut [u32]) -> usize {
    for (word, halves) in out[..header_words(MAX_PLANES)].iter_mut().zip(halves.as_chunks::<2>().0) {
        *word = u32::from(halves[0]) | u32::from(halves[1]) << 16;
    }
    header_words(halves[0].into())
}

/// Writes one pixel's stream and returns its words: the reference.
fn write_scalar(planes: &[Plane], out: &mut [u32]) -> usize {
    let width = planes.iter().rposition(|plane| plane.iter().any(|&w| w != 0)).map_or(0, |last| last + 1);
    if width == 0 {
        return 0;
    }
    let mut at = header_words(width);
    out[..at].fill(0);
    out[0] = width as u32;
    for (half, plane) in (1..).zip(&planes[..width]) {
        for (t, &word) in plane.iter().enumerate().filter(|(_, word)| **word != 0) {
            out[half / 2] |= 1 << (16 * (half % 2) + t);
            out[at] = word;
            at += 1;
        }
    }
    at
}
