//! Frames ⇄ blocks: 512 frames are turned 16 pixels at a time, and turned back.

use super::{BLOCK_SCANS, FloatBlock, Head, LANES, Means, SLACK, Stretch, encode::encode};
use rayon::prelude::*;

/// Pixels whose stretches one thread makes at once.
const PART: usize = 512;
/// Pixels turned together: each frame lies on other pages of memory, so what is read there at once should be more than
/// one cache line.
const COLUMNS: usize = 64;
/// Samples from one turned pixel to the next: not a power of two, for pixels would share few sets of the cache.
const STRIDE: usize = BLOCK_SCANS + LANES;
/// Pixels that are unpacked together when frames are made.
const UNPACKED: usize = 16;

/// Stretches of some pixels.
pub(super) struct Part {
    heads: Vec<Head>,
    pub(super) words: Vec<u32>,
}

/// The block of up to 512 consecutive frames of `pixels` samples each.
///
/// # Panics
/// When `frames` is no whole number of frames, or more than a block holds.
pub fn block_of_frames(frames: &[f32], pixels: usize) -> FloatBlock {
    let scans = frames.len() / pixels;
    assert!(scans > 0 && scans <= BLOCK_SCANS && frames.len() == scans * pixels);
    let parts: Vec<Part> = (0..pixels)
        .into_par_iter()
        .step_by(PART)
        .map(|first| part(frames, pixels, first, PART.min(pixels - first)))
        .collect();
    let words: usize = parts.iter().map(|p| p.words.len()).sum();
    let mut block = FloatBlock { scans, heads: Vec::with_capacity(pixels), words: vec![0; words + SLACK] };
    let (mut rest, mut before) = (&mut block.words[..], 0);
    let mut copies = Vec::with_capacity(parts.len());
    for part in parts {
        let group = u32::try_from(before / LANES).expect("a block takes at most 256 GiB");
        block.heads.extend(part.heads.iter().map(|head| Head { first: group + head.first, ..*head }));
        let own;
        (own, rest) = rest.split_at_mut(part.words.len());
        before += part.words.len();
        copies.push((own, part.words));
    }
    copies.into_par_iter().for_each(|(own, words)| own.copy_from_slice(&words));
    block
}

fn part(frames: &[f32], pixels: usize, first: usize, count: usize) -> Part {
    #[cfg(target_arch = "x86_64")]
    if let Some(part) = super::x86::part(frames, pixels, first, count) {
        return part;
    }
    part_inline(frames, pixels, first, count)
}

/// The stretches of the pixels from `first` on.
#[inline(always)]
pub(super) fn part_inline(frames: &[f32], pixels: usize, first: usize, count: usize) -> Part {
    let scans = frames.len() / pixels;
    let rows = scans.div_ceil(LANES);
    let room = LANES * rows * count;
    let mut part = Part { heads: Vec::with_capacity(count), words: Vec::with_capacity(room) };
    let mut columns = vec![0f32; STRIDE * COLUMNS];
    for pixel in (first..first + count).step_by(COLUMNS) {
        let columns = &mut columns[..STRIDE * COLUMNS.min(first + count - pixel)];
        turn(frames, pixels, pixel, columns);
        for column in columns.chunks_exact_mut(STRIDE) {
            let column: &mut Stretch = column.first_chunk_mut().expect("a stride holds a stretch");
            // Behind the last scan is a sample that is there anyway.
            let last = column[scans - 1];
            column[scans..].fill(last);
            part.heads.push(encode(column, rows, &mut part.words));
        }
    }
    part
}

/// Pixels and scans of a square.
const SIDE: usize = 16;

/// The samples of the pixels from `first` on at every scan.
#[inline(always)]
fn turn(frames: &[f32], pixels: usize, first: usize, columns: &mut [f32]) {
    let scans = frames.len() / pixels;
    let count = columns.len() / STRIDE;
    let (squares, whole) = (count / SIDE, scans / SIDE * SIDE);
    let mut square = [[0f32; SIDE]; SIDE];
    for scan in (0..whole).step_by(SIDE) {
        for (k, columns) in columns.chunks_exact_mut(STRIDE * SIDE).enumerate() {
            for (s, row) in square.iter_mut().enumerate() {
                let at = (scan + s) * pixels + first + SIDE * k;
                *row = *frames[at..].first_chunk().expect("pixels of the detector");
            }
            for (p, column) in columns.chunks_exact_mut(STRIDE).enumerate() {
                let turned: [f32; SIDE] = std::array::from_fn(|s| square[s][p]);
                column[scan..scan + SIDE].copy_from_slice(&turned);
            }
        }
    }
    for (scan, frame) in frames.chunks_exact(pixels).enumerate() {
        let done = if scan < whole { SIDE * squares } else { 0 };
        for (column, &sample) in frame[first..first + count].iter().enumerate().skip(done) {
            columns[STRIDE * column + scan] = sample;
        }
    }
}

impl FloatBlock {
    /// Frames of consecutive scans from `first` on, as many as `out` holds.
    ///
    /// # Panics
    /// When `out` is no whole number of frames, or goes beyond the block.
    pub fn frames(&self, first: usize, out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if super::x86::frames(self, first, out) {
            return;
        }
        self.frames_inline(first, out);
    }

    #[inline(always)]
    pub(super) fn frames_inline(&self, first: usize, out: &mut [f32]) {
        /// Fewer samples than this are taken one by one.
        const FEW: usize = 12;
        let pixels = self.pixels();
        let count = out.len() / pixels;
        assert!(out.len() == count * pixels && first + count <= self.scans);
        if count < FEW {
            for (scan, frame) in (first..).zip(out.chunks_exact_mut(pixels)) {
                for (pixel, sample) in frame.iter_mut().enumerate() {
                    *sample = self.sample(pixel, scan);
                }
            }
            return;
        }
        let means = Means::detect();
        let mut columns = [[0f32; BLOCK_SCANS]; UNPACKED];
        for pixel in (0..pixels).step_by(UNPACKED) {
            let columns = &mut columns[..UNPACKED.min(pixels - pixel)];
            for (k, column) in columns.iter_mut().enumerate() {
                self.unpack(means, pixel + k, column);
            }
            for (scan, frame) in (first..).zip(out.chunks_exact_mut(pixels)) {
                for (sample, column) in frame[pixel..].iter_mut().zip(columns.iter()) {
                    *sample = column[scan];
                }
            }
        }
    }
}
