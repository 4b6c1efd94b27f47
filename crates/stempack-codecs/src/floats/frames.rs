//! Frames ⇄ blocks: 512 frames are turned 16 pixels at a time, and turned back.

use super::{BLOCK_SCANS, FloatBlock, Head, LANES, Means, SLACK, Stretch, encode::encode};
use rayon::prelude::*;

/// Pixels whose stretches one thread makes at once.
const PART: usize = 512;
/// Pixels turned together: the samples of a cache line.
const COLUMNS: usize = 16;

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
    let mut block =
        FloatBlock { scans, heads: Vec::with_capacity(pixels), words: Vec::with_capacity(words + SLACK) };
    for part in parts {
        let before = u32::try_from(block.words.len() / LANES).expect("a block takes at most 256 GiB");
        block.heads.extend(part.heads.iter().map(|head| Head { first: before + head.first, ..*head }));
        block.words.extend(&part.words);
    }
    block.words.resize(words + SLACK, 0);
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
    let mut part = Part { heads: Vec::with_capacity(count), words: Vec::new() };
    let mut columns = [[0f32; BLOCK_SCANS]; COLUMNS];
    for pixel in (first..first + count).step_by(COLUMNS) {
        let columns = &mut columns[..COLUMNS.min(first + count - pixel)];
        turn(frames, pixels, pixel, columns);
        for column in columns {
            // Behind the last scan is a sample that is there anyway.
            let last = column[scans - 1];
            column[scans..].fill(last);
            part.heads.push(encode(column, rows, &mut part.words));
        }
    }
    part
}

/// The samples of the pixels from `first` on at every scan.
#[inline(always)]
fn turn(frames: &[f32], pixels: usize, first: usize, columns: &mut [Stretch]) {
    let frames = || frames.chunks_exact(pixels).enumerate();
    if columns.len() == COLUMNS {
        for (scan, frame) in frames() {
            let own: &[f32; COLUMNS] = frame[first..].first_chunk().expect("pixels of the detector");
            for (column, &sample) in columns.iter_mut().zip(own) {
                column[scan] = sample;
            }
        }
        return;
    }
    for (scan, frame) in frames() {
        for (column, &sample) in columns.iter_mut().zip(&frame[first..]) {
            column[scan] = sample;
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
        let mut columns = [[0f32; BLOCK_SCANS]; COLUMNS];
        for pixel in (0..pixels).step_by(COLUMNS) {
            let columns = &mut columns[..COLUMNS.min(pixels - pixel)];
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
