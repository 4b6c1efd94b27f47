//! How whole windows of frames are summed: which samples go through narrow lanes, and the plain loops of all others.
//!
//! Integers whose sums provably fit 64 bits take the lanes of [`lanes`](crate::lanes); other integers are summed in 128
//! bits and checked; floats are compensated in the order that [`reference`](crate::reference) states. Every entry of a
//! result depends on the terms of that entry alone, taken in order, so threads and windows change nothing.

use crate::{Compensated, lanes};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use stempack_model::SamplesRef;

/// Frames handled by one task, so that small frames do not drown in scheduling.
pub(crate) const MIN_FRAMES: usize = 4;

/// Pixels handled by one task: blocks that stay in the first-level cache while all frames pass.
pub(crate) fn block_of(pixels: usize) -> usize {
    pixels.div_ceil(4 * rayon::current_num_threads()).clamp(256, 4096)
}

/// One frame's moments on their way out.
pub(crate) struct MomentsOut<'a, S> {
    /// Σ sample.
    pub(crate) total: &'a mut [S],
    /// Σ row · sample.
    pub(crate) row: &'a mut [S],
    /// Σ column · sample.
    pub(crate) col: &'a mut [S],
}

/// A sum in the making that takes one term after the other.
pub(crate) trait Accumulator<T>: Copy + Default + Send + Sync {
    /// What comes out.
    type Sum;
    /// Adds `factor` times the sample.
    fn add(&mut self, sample: T, factor: u64);
    /// The sum; `None` when it does not fit.
    fn finish(self) -> Option<Self::Sum>;
}

/// An exact sum of integers that ends in the 64-bit type `S`. The caller keeps
/// samples times factors below 2⁶² of the largest.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wide<S>(i128, std::marker::PhantomData<S>);

impl<T: Into<i128>, S: TryFrom<i128> + Copy + Default + Send + Sync> Accumulator<T> for Wide<S> {
    type Sum = S;
    fn add(&mut self, sample: T, factor: u64) {
        self.0 += sample.into() * i128::from(factor);
    }
    fn finish(self) -> Option<S> {
        S::try_from(self.0).ok()
    }
}

impl<T: Into<f64>> Accumulator<T> for Compensated {
    type Sum = f64;
    fn add(&mut self, sample: T, factor: u64) {
        // Once is exact, so plain sums go the same way.
        Compensated::add(self, sample.into() * factor as f64);
    }
    fn finish(self) -> Option<f64> {
        Some(self.value())
    }
}

/// A type of samples and how it is summed.
pub(crate) trait Sample: Copy + Default + Send + Sync + 'static {
    /// Type of sums.
    type Sum: Copy + Default + Send + Sync;
    /// The sum in the making where lanes will not do.
    type Plain: Accumulator<Self, Sum = Self::Sum>;
    /// The largest magnitude, where lanes may do if sums provably fit.
    const LARGEST: Option<u64>;
    /// The samples, if they are of this type.
    fn of(samples: SamplesRef<'_>) -> Option<&[Self]>;
    /// The lanes, for types that have [`LARGEST`](Self::LARGEST).
    fn lane_sums(frames: &[Self], pixels: usize, runs: &[Range<usize>], out: &mut [Self::Sum]);
    /// As [`lane_sums`](Self::lane_sums).
    fn lane_frames(frames: &[Self], sums: &mut [Self::Sum]);
    /// As [`lane_sums`](Self::lane_sums).
    fn lane_moments(
        frames: &[Self],
        cols: usize,
        pixels: usize,
        excluded: &[u32],
        out: MomentsOut<'_, Self::Sum>,
    );
}

macro_rules! with_lanes {
    ($($name:ident, $rust:ty, $sum:ty;)*) => {
        $(impl Sample for $rust {
            type Sum = $sum;
            type Plain = Wide<$sum>;
            const LARGEST: Option<u64> = Some((<$rust>::MIN as i64).unsigned_abs() | <$rust>::MAX as u64);
            fn of(samples: SamplesRef<'_>) -> Option<&[Self]> {
                if let SamplesRef::$name(v) = samples { Some(v) } else { None }
            }
            fn lane_sums(frames: &[Self], pixels: usize, runs: &[Range<usize>], out: &mut [$sum]) {
                lanes::masked_sums(frames, pixels, runs, out);
            }
            fn lane_frames(frames: &[Self], sums: &mut [$sum]) {
                lanes::add_frames(frames, sums);
            }
            fn lane_moments(frames: &[Self], cols: usize, pixels: usize, ex: &[u32], out: MomentsOut<'_, $sum>) {
                lanes::frame_moments(frames, cols, pixels, ex, out);
            }
        })*
    };
}
with_lanes! {
    U8, u8, u64;
    U16, u16, u64;
    U32, u32, u64;
    I8, i8, i64;
    I16, i16, i64;
    I32, i32, i64;
}

macro_rules! without_lanes {
    ($($name:ident, $rust:ty, $sum:ty, $plain:ty;)*) => {
        $(impl Sample for $rust {
            type Sum = $sum;
            type Plain = $plain;
            const LARGEST: Option<u64> = None;
            fn of(samples: SamplesRef<'_>) -> Option<&[Self]> {
                if let SamplesRef::$name(v) = samples { Some(v) } else { None }
            }
            fn lane_sums(_: &[Self], _: usize, _: &[Range<usize>], _: &mut [$sum]) {}
            fn lane_frames(_: &[Self], _: &mut [$sum]) {}
            fn lane_moments(_: &[Self], _: usize, _: usize, _: &[u32], _: MomentsOut<'_, $sum>) {}
        })*
    };
}
without_lanes! {
    U64, u64, u64, Wide<u64>;
    I64, i64, i64, Wide<i64>;
    F32, f32, f64, Compensated;
    F64, f64, f64, Compensated;
}

/// Runs a generic expression with the Rust type of a sample type.
macro_rules! with_type {
    ($sample:expr, $t:ident => $do:expr) => {
        with_type!(@arms $sample, $t, $do, U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, F32 f32, F64 f64)
    };
    (@arms $sample:expr, $t:ident, $do:expr, $($name:ident $rust:ident),*) => {
        match $sample {
            $(stempack_model::SampleType::$name => {
                type $t = $rust;
                $do
            })*
        }
    };
}
pub(crate) use with_type;

/// The lowest index whose sum did not fit.
struct Overflow(AtomicUsize);

impl Overflow {
    fn none() -> Self {
        Overflow(AtomicUsize::new(usize::MAX))
    }
    fn unwrap_at<S: Default>(&self, index: usize, sum: Option<S>) -> S {
        sum.unwrap_or_else(|| {
            self.0.fetch_min(index, Ordering::Relaxed);
            S::default()
        })
    }
    fn result(self) -> Result<(), usize> {
        match self.0.into_inner() {
            usize::MAX => Ok(()),
            index => Err(index),
        }
    }
}

/// Σ over `runs` of each frame, into `out`, one entry for each frame; `Err` is the first frame whose sum does not fit.
pub(crate) fn masked_sums<T: Sample>(
    frames: &[T],
    pixels: usize,
    runs: &[Range<usize>],
    out: &mut [T::Sum],
) -> Result<(), usize> {
    if T::LARGEST.is_some() {
        // 2^28 pixels of a mask times 32 bits fit.
        T::lane_sums(frames, pixels, runs, out);
        return Ok(());
    }
    let overflow = Overflow::none();
    frames.par_chunks_exact(pixels).zip(out).enumerate().with_min_len(MIN_FRAMES).for_each(
        |(index, (frame, out))| {
            let mut sum = T::Plain::default();
            for run in runs {
                frame[run.clone()].iter().for_each(|&sample| sum.add(sample, 1));
            }
            *out = overflow.unwrap_at(index, sum.finish());
        },
    );
    overflow.result()
}

/// Sums of all frames in the making.
pub(crate) enum PatternSums<T: Sample> {
    /// All of them provably fit.
    Lanes(Vec<T::Sum>),
    /// Checked or compensated.
    Plain(Vec<T::Plain>),
}

impl<T: Sample> PatternSums<T> {
    /// Bytes for each pixel, with what becomes of them.
    pub(crate) const BYTES: u64 =
        8 + if size_of::<T::Plain>() > 8 { size_of::<T::Plain>() as u64 } else { 8 };

    pub(crate) fn new(pixels: usize, positions: u64) -> Self {
        match T::LARGEST {
            Some(largest) if positions.checked_mul(largest).is_some_and(|bound| bound <= i64::MAX as u64) => {
                PatternSums::Lanes(vec![T::Sum::default(); pixels])
            }
            _ => PatternSums::Plain(vec![T::Plain::default(); pixels]),
        }
    }

    /// Adds every frame, pixel by pixel.
    pub(crate) fn add_frames(&mut self, frames: &[T]) {
        let sums = match self {
            PatternSums::Lanes(sums) => return T::lane_frames(frames, sums),
            PatternSums::Plain(sums) => sums,
        };
        let (pixels, block) = (sums.len(), block_of(sums.len()));
        sums.par_chunks_mut(block).enumerate().for_each(|(index, sums)| {
            let at = index * block;
            for frame in frames.chunks_exact(pixels) {
                for (sum, &sample) in sums.iter_mut().zip(&frame[at..]) {
                    sum.add(sample, 1);
                }
            }
        });
    }

    /// The sums without those of excluded pixels; `Err` is the first pixel whose sum does not fit.
    pub(crate) fn finish(self, excluded: &[u32]) -> Result<Vec<T::Sum>, usize> {
        match self {
            PatternSums::Lanes(mut sums) => {
                let pixels = sums.len();
                clear_excluded(&mut sums, pixels, excluded);
                Ok(sums)
            }
            PatternSums::Plain(mut sums) => {
                let pixels = sums.len();
                clear_excluded(&mut sums, pixels, excluded);
                sums.into_iter().enumerate().map(|(pixel, sum)| sum.finish().ok_or(pixel)).collect()
            }
        }
    }
}

/// Total, row and column moment of each frame without its excluded pixels; `Err` is the first frame one of whose
/// moments does not fit. `proved` says that lanes will do.
pub(crate) fn frame_moments<T: Sample>(
    frames: &[T],
    cols: usize,
    pixels: usize,
    excluded: &[u32],
    proved: bool,
    out: MomentsOut<'_, T::Sum>,
) -> Result<(), usize> {
    if proved && T::LARGEST.is_some() {
        T::lane_moments(frames, cols, pixels, excluded, out);
        return Ok(());
    }
    let overflow = Overflow::none();
    frames
        .par_chunks_exact(pixels)
        .zip(out.total)
        .zip(out.row)
        .zip(out.col)
        .enumerate()
        .with_min_len(MIN_FRAMES)
        .for_each_init(Vec::new, |working, (index, (((frame, total), row_moment), col_moment))| {
            let mut frame = frame;
            if !excluded.is_empty() {
                // A zero changes neither an exact nor a compensated sum.
                working.clear();
                working.extend_from_slice(frame);
                clear_excluded(working, pixels, excluded);
                frame = &working[..];
            }
            let (mut t, mut r, mut c) = (T::Plain::default(), T::Plain::default(), T::Plain::default());
            for (row, samples) in (0u64..).zip(frame.chunks_exact(cols)) {
                for (col, &sample) in (0u64..).zip(samples) {
                    t.add(sample, 1);
                    r.add(sample, row);
                    c.add(sample, col);
                }
            }
            *total = overflow.unwrap_at(index, t.finish());
            *row_moment = overflow.unwrap_at(index, r.finish());
            *col_moment = overflow.unwrap_at(index, c.finish());
        });
    overflow.result()
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
