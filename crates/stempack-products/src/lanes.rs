//! How windows of narrow integers are summed quickly: plain loops over consecutive samples that compilers vectorise.
//!
//! Narrow lanes hold as many samples as provably fit and are then emptied into 64 bits, so every result is exact.
//! The scalar twins are in [`reference`](crate::reference); tests hold the two equal.

use crate::reduce::{MIN_FRAMES, MomentsOut, block_of};
use rayon::prelude::*;
use std::iter::Sum;
use std::ops::{AddAssign, Mul, Range, SubAssign};

/// A 64-bit sum of integers.
pub(crate) trait Whole:
    Copy + Default + AddAssign + SubAssign + Mul<Output = Self> + Sum + Send + Sync
{
    /// A row or column as a factor.
    fn factor(index: usize) -> Self;
}
impl Whole for u64 {
    fn factor(index: usize) -> u64 {
        index as u64
    }
}
impl Whole for i64 {
    fn factor(index: usize) -> i64 {
        index as i64
    }
}

/// An integer sample, the lane it is summed in, and the sum that lanes are emptied into.
pub(crate) trait Count: Copy + Send + Sync + Into<Self::Lane> + Into<Self::Sum> {
    /// The accumulator of fast loops.
    type Lane: Copy + Default + AddAssign + Into<Self::Sum> + Send + Sync;
    /// The sum.
    type Sum: Whole;
    /// How many samples a lane certainly holds.
    const LANE_COUNTS: usize;
}

macro_rules! counts {
    ($($count:ty, $lane:ty, $sum:ty, $holds:expr;)*) => {
        $(impl Count for $count {
            type Lane = $lane;
            type Sum = $sum;
            const LANE_COUNTS: usize = $holds;
        })*
    };
}
counts! {
    u8, u32, u64, 1 << 24;
    u16, u32, u64, 1 << 16;
    u32, u64, u64, 1 << 31;
    i8, i32, i64, 1 << 24;
    i16, i32, i64, 1 << 16;
    i32, i64, i64, 1 << 31;
}

fn sum<T: Count>(counts: &[T]) -> T::Sum {
    let lane_sum = |piece: &[T]| -> T::Sum {
        let mut lane = T::Lane::default();
        for &count in piece {
            lane += count.into();
        }
        lane.into()
    };
    counts.chunks(T::LANE_COUNTS).map(lane_sum).sum()
}

/// Σ over `runs` of each frame, into `out`, one entry for each frame. Masks are small enough that no sum overflows.
pub(crate) fn masked_sums<T: Count>(frames: &[T], pixels: usize, runs: &[Range<usize>], out: &mut [T::Sum]) {
    frames.par_chunks_exact(pixels).zip(out).with_min_len(MIN_FRAMES).for_each(|(frame, out)| {
        *out = runs.iter().map(|run| sum(&frame[run.clone()])).sum();
    });
}

/// Adds every frame to `sums`, pixel by pixel. The caller has proved that the sums of all frames fit.
pub(crate) fn add_frames<T: Count>(frames: &[T], sums: &mut [T::Sum]) {
    let pixels = sums.len();
    let block = block_of(pixels);
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

/// Total, row and column moment of each frame without its excluded pixels. The caller has proved that the moments of
/// whole frames fit 64 bits.
pub(crate) fn frame_moments<T: Count>(
    frames: &[T],
    cols: usize,
    pixels: usize,
    excluded: &[u32],
    out: MomentsOut<'_, T::Sum>,
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
                let (mut t, mut r, mut c) = (T::Sum::default(), T::Sum::default(), T::Sum::default());
                let mut first_row = 0;
                for group in frame.chunks(cols.saturating_mul(T::LANE_COUNTS)) {
                    lanes.fill(T::Lane::default());
                    for (row, counts) in group.chunks_exact(cols).enumerate() {
                        for (lane, &count) in lanes.iter_mut().zip(counts) {
                            *lane += count.into();
                        }
                        let row_sum = sum(counts);
                        t += row_sum;
                        r += T::Sum::factor(first_row + row) * row_sum;
                    }
                    for (col, &lane) in lanes.iter().enumerate() {
                        c += T::Sum::factor(col) * lane.into();
                    }
                    first_row += group.len() / cols;
                }
                for &pixel in excluded {
                    let count: T::Sum = frame[pixel as usize].into();
                    t -= count;
                    r -= T::Sum::factor(pixel as usize / cols) * count;
                    c -= T::Sum::factor(pixel as usize % cols) * count;
                }
                (*total, *row_moment, *col_moment) = (t, r, c);
            },
        );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes at their worst: the extreme sample, some more of them than a lane holds.
    fn worst<T: Count<Sum = S>, S: Whole + PartialEq + std::fmt::Debug>(extreme: T) {
        let n = (1 << 16) + 3;
        let (samples, one): (_, S) = (vec![extreme; n], extreme.into());
        assert_eq!(sum(&samples), S::factor(n) * one);
        let mut sums = [S::default(); 1];
        add_frames(&samples, &mut sums);
        assert_eq!(sums[0], S::factor(n) * one);

        let (mut total, mut row, mut col) = ([S::default()], [S::default()], [S::default()]);
        let out = MomentsOut { total: &mut total, row: &mut row, col: &mut col };
        frame_moments(&samples, 1, n, &[2], out);
        assert_eq!(total[0], S::factor(n - 1) * one);
        assert_eq!(row[0], S::factor(n * (n - 1) / 2 - 2) * one);
        assert_eq!(col[0], S::default());
    }

    #[test]
    fn lanes_are_emptied_before_they_overflow() {
        worst(u16::MAX);
        worst(i16::MIN);
        worst(i16::MAX);
        worst(u32::MAX);
        worst(i32::MIN);
    }
}
