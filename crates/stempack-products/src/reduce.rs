//! How whole windows of frames are summed quickly: plain loops over consecutive counts that compilers vectorise.
//!
//! Narrow lanes hold as many counts as provably fit and are then emptied into 64 bits, so every result is exact.
//! The scalar twins are in [`reference`](crate::reference); tests hold the two equal.

use rayon::prelude::*;
use std::ops::{AddAssign, Range};

/// Frames handled by one task, so that small frames do not drown in scheduling.
const MIN_FRAMES: usize = 4;

/// A detector count and the lane it is summed in.
pub(crate) trait Count: Copy + Send + Sync + Into<Self::Lane> + Into<u64> {
    /// The accumulator of fast loops.
    type Lane: Copy + Default + AddAssign + Into<u64> + Send + Sync;
    /// Largest counts that a lane certainly holds.
    const LANE_COUNTS: usize;
}
impl Count for u8 {
    type Lane = u32;
    const LANE_COUNTS: usize = 1 << 24;
}
impl Count for u16 {
    type Lane = u32;
    const LANE_COUNTS: usize = 1 << 16;
}
impl Count for u32 {
    type Lane = u64;
    const LANE_COUNTS: usize = 1 << 31;
}

fn sum<T: Count>(counts: &[T]) -> u64 {
    let lane_sum = |piece: &[T]| -> u64 {
        let mut lane = T::Lane::default();
        for &count in piece {
            lane += count.into();
        }
        lane.into()
    };
    counts.chunks(T::LANE_COUNTS).map(lane_sum).sum()
}

/// Σ over `runs` of each frame, into `out`, one entry for each frame.
pub(crate) fn masked_sums<T: Count>(frames: &[T], pixels: usize, runs: &[Range<usize>], out: &mut [u64]) {
    frames.par_chunks_exact(pixels).zip(out).with_min_len(MIN_FRAMES).for_each(|(frame, out)| {
        *out = runs.iter().map(|run| sum(&frame[run.clone()])).sum();
    });
}

/// Adds every frame to `sums`, pixel by pixel.
pub(crate) fn add_frames<T: Count>(frames: &[T], sums: &mut [u64]) {
    let pixels = sums.len();
    // Blocks of pixels that stay in the first-level cache while all frames pass.
    let block = pixels.div_ceil(4 * rayon::current_num_threads()).clamp(256, 4096);
    sums.par_chunks_mut(block).enumerate().for_each(|(index, sums)| {
        let at = index * block;
        let mut lanes = vec![T::Lane::default(); sums.len()];
        for group in frames.chunks(pixels.saturating_mul(T::LANE_COUNTS)) {
            lanes.fill(T::Lane::default());
            for frame in group.chunks_exact(pixels) {
                for (lane, &count) in lanes.iter_mut().zip(&frame[at..at + sums.len()]) {
                    *lane += count.into();
                }
            }
            for (sum, &lane) in sums.iter_mut().zip(&lanes) {
                *sum += lane.into();
            }
        }
    });
}

/// One frame's moments on their way out.
pub(crate) struct MomentsOut<'a> {
    /// Σ count.
    pub(crate) total: &'a mut [u64],
    /// Σ row · count.
    pub(crate) row: &'a mut [u64],
    /// Σ column · count.
    pub(crate) col: &'a mut [u64],
}

/// Total, row and column moment of each frame without its excluded pixels. The caller has proved that the moments of
/// whole frames fit 64 bits.
pub(crate) fn frame_moments<T: Count>(
    frames: &[T],
    cols: usize,
    pixels: usize,
    excluded: &[u32],
    out: MomentsOut<'_>,
) {
    frames
        .par_chunks_exact(pixels)
        .zip(out.total)
        .zip(out.row)
        .zip(out.col)
        .with_min_len(MIN_FRAMES)
        .for_each_init(
            || vec![T::Lane::default(); cols],
            |lanes, (((frame, total), row_moment), col_moment)| {
                let (mut t, mut r, mut c) = (0u64, 0u64, 0u64);
                let mut first_row = 0;
                for group in frame.chunks(cols.saturating_mul(T::LANE_COUNTS)) {
                    lanes.fill(T::Lane::default());
                    for (row, counts) in group.chunks_exact(cols).enumerate() {
                        for (lane, &count) in lanes.iter_mut().zip(counts) {
                            *lane += count.into();
                        }
                        let row_sum = sum(counts);
                        t += row_sum;
                        r += (first_row + row) as u64 * row_sum;
                    }
                    for (col, &lane) in lanes.iter().enumerate() {
                        c += col as u64 * lane.into();
                    }
                    first_row += group.len() / cols;
                }
                for &pixel in excluded {
                    let count: u64 = frame[pixel as usize].into();
                    t -= count;
                    r -= (pixel as usize / cols) as u64 * count;
                    c -= (pixel as usize % cols) as u64 * count;
                }
                (*total, *row_moment, *col_moment) = (t, r, c);
            },
        );
}

/// Writes zero at the excluded pixels of every frame.
pub(crate) fn clear_excluded<T: Copy + Default>(frames: &mut [T], pixels: usize, excluded: &[u32]) {
    if excluded.is_empty() {
        return;
    }
    for frame in frames.chunks_exact_mut(pixels) {
        for &pixel in excluded {
            frame[pixel as usize] = T::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes at their worst: the largest count, one more of them than a lane holds.
    #[test]
    fn lanes_are_emptied_before_they_overflow() {
        let n = u16::LANE_COUNTS + 3;
        let counts = vec![u16::MAX; n];
        assert_eq!(sum(&counts), n as u64 * 65_535);
        let mut sums = [0u64; 1];
        add_frames(&counts, &mut sums);
        assert_eq!(sums[0], n as u64 * 65_535);

        let (mut total, mut row, mut col) = ([0u64], [0u64], [0u64]);
        let out = MomentsOut { total: &mut total, row: &mut row, col: &mut col };
        frame_moments(&counts, 1, n, &[2], out);
        assert_eq!(total[0], (n as u64 - 1) * 65_535);
        assert_eq!(row[0], (n as u64 * (n as u64 - 1) / 2 - 2) * 65_535);
        assert_eq!(col[0], 0);
    }
}
