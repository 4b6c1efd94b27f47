//! The definitions once more, as slowly and plainly as possible: what tests hold every engine to.
//!
//! Frames are dense `u32` raw frames by scan position; nothing here shares code with the fast paths.

use crate::{Moments, PatternSum};
use stempack_model::{Exclusions, Shape4};

/// Gives the raw frame of a scan position, row-major, one value for each detector pixel.
pub type Frames<'a> = &'a dyn Fn(usize) -> Vec<u32>;

/// Frames of a dense row-major array.
pub fn dense(array: &[u32], shape: Shape4) -> impl Fn(usize) -> Vec<u32> + '_ {
    let pixels = shape.detector.pixels();
    move |position| array[position * pixels..(position + 1) * pixels].to_vec()
}

/// The frame with zero at excluded pixels.
pub fn working_frame(frames: Frames<'_>, exclusions: &Exclusions, position: usize) -> Vec<u32> {
    let mut frame = frames(position);
    for (pixel, value) in frame.iter_mut().enumerate() {
        if exclusions.pixels.iter().any(|&x| x as usize == pixel) {
            *value = 0;
        }
    }
    frame
}

/// Σ of working counts where `member(det_row, det_col)` holds, at each scan position.
pub fn virtual_image(
    shape: Shape4,
    frames: Frames<'_>,
    exclusions: &Exclusions,
    member: &dyn Fn(usize, usize) -> bool,
) -> Vec<u64> {
    let mut image = Vec::new();
    for position in 0..shape.scan.positions() {
        let frame = working_frame(frames, exclusions, position);
        let mut sum = 0u64;
        for row in 0..shape.detector.rows() {
            for col in 0..shape.detector.cols() {
                if member(row, col) {
                    sum += u64::from(frame[row * shape.detector.cols() + col]);
                }
            }
        }
        image.push(sum);
    }
    image
}

/// Σ of working counts over all scan positions at each detector pixel.
pub fn pattern_sum(shape: Shape4, frames: Frames<'_>, exclusions: &Exclusions) -> PatternSum {
    let mut sums = vec![0u64; shape.detector.pixels()];
    for position in 0..shape.scan.positions() {
        for (sum, value) in sums.iter_mut().zip(working_frame(frames, exclusions, position)) {
            *sum += u64::from(value);
        }
    }
    PatternSum { shape: shape.detector, sums, positions: shape.scan.positions() as u64 }
}

/// Total and first moments of each working frame.
pub fn moments(shape: Shape4, frames: Frames<'_>, exclusions: &Exclusions) -> Moments {
    let mut m = Moments { shape: shape.scan, total: Vec::new(), row: Vec::new(), col: Vec::new() };
    for position in 0..shape.scan.positions() {
        let frame = working_frame(frames, exclusions, position);
        let (mut total, mut row_moment, mut col_moment) = (0u64, 0u64, 0u64);
        for row in 0..shape.detector.rows() {
            for col in 0..shape.detector.cols() {
                let value = u64::from(frame[row * shape.detector.cols() + col]);
                total += value;
                row_moment += row as u64 * value;
                col_moment += col as u64 * value;
            }
        }
        m.total.push(total);
        m.row.push(row_moment);
        m.col.push(col_moment);
    }
    m
}
