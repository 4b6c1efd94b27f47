//! The definitions once more, as slowly and plainly as possible: what tests hold every engine to. Nothing here shares
//! code with the fast paths.
//!
//! A sum of integers is exact; one that does not fit 64 bits (unsigned for unsigned samples, signed for signed) is no
//! result.
//!
//! A sum of floats follows one rule, so that neither threads nor windows nor the way data lie in memory change a bit:
//!
//! 1. The terms are the admitted samples as doubles (for moments each times its row or column, rounded once), in
//!    row-major order of detector pixels for a frame, in order of scan positions for a pixel, in order for totals of
//!    images and patterns. Excluded pixels give no term, whatever they hold.
//! 2. `sum` begins at +0 and takes each term by one addition; `error` begins at +0 and takes what that addition rounded
//!    away (Neumaier's compensation). The result is `sum + error`.
//! 3. If `sum` is not finite, the result is `sum`: NaN and infinities propagate, infinities of both signs give NaN, and
//!    sums beyond the largest double are infinite. Every NaN result has the bits `0x7ff8000000000000`.
//!
//! The result differs from the exact sum of its n terms by at most 2⁻⁵³ of itself and n²·2⁻¹⁰⁶ of the sum of their
//! absolute values.

use crate::{Moments, PatternSum, Sums};
use stempack_model::{Exclusions, SampleType, Samples, SamplesRef, Shape4, with_samples};

/// Gives the raw frame of a scan position, row-major, one sample for each detector pixel.
pub type Frames<'a> = &'a dyn Fn(usize) -> Samples;

/// Frames of a dense row-major array.
pub fn dense(array: SamplesRef<'_>, shape: Shape4) -> impl Fn(usize) -> Samples + '_ {
    let pixels = shape.detector.pixels();
    move |position| array.slice(position * pixels..(position + 1) * pixels).to_owned()
}

/// The frame with zero at excluded pixels.
pub fn working_frame(frames: Frames<'_>, exclusions: &Exclusions, position: usize) -> Samples {
    let mut frame = frames(position);
    for &pixel in &exclusions.pixels {
        with_samples!(Samples, &mut frame, v => v[pixel as usize] = Default::default());
    }
    frame
}

/// One term of a sum.
#[derive(Clone, Copy)]
enum Term {
    Integer(i128),
    Float(f64),
}

impl Term {
    fn times(self, factor: usize) -> Term {
        match self {
            Term::Integer(value) => Term::Integer(value * factor as i128),
            Term::Float(value) => Term::Float(value * factor as f64),
        }
    }
}

fn terms(frame: &Samples) -> Vec<Term> {
    match frame {
        Samples::F32(v) => v.iter().map(|&x| Term::Float(f64::from(x))).collect(),
        Samples::F64(v) => v.iter().map(|&x| Term::Float(x)).collect(),
        integers => {
            (0..integers.len()).filter_map(|i| integers.as_ref().integer(i)).map(Term::Integer).collect()
        }
    }
}

/// Sums of lists of terms of one sample type; `None` when one does not fit.
fn sums(sample: SampleType, lists: &[Vec<Term>]) -> Option<Sums> {
    let integer = |terms: &Vec<Term>| -> i128 {
        terms.iter().map(|t| if let Term::Integer(value) = t { *value } else { 0 }).sum()
    };
    Some(if sample.is_float() {
        Sums::F64(lists.iter().map(|terms| neumaier(terms)).collect())
    } else if sample.is_unsigned() {
        Sums::U64(lists.iter().map(|terms| u64::try_from(integer(terms)).ok()).collect::<Option<_>>()?)
    } else {
        Sums::I64(lists.iter().map(|terms| i64::try_from(integer(terms)).ok()).collect::<Option<_>>()?)
    })
}

fn neumaier(terms: &[Term]) -> f64 {
    let (mut sum, mut error) = (0.0f64, 0.0f64);
    for term in terms {
        let Term::Float(term) = *term else { continue };
        let next = sum + term;
        if sum.abs() >= term.abs() {
            error += (sum - next) + term;
        } else {
            error += (term - next) + sum;
        }
        sum = next;
    }
    let result = if sum.is_finite() { sum + error } else { sum };
    if result.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { result }
}

/// The admitted terms of a frame with their rows and columns.
fn admitted(
    shape: Shape4,
    frames: Frames<'_>,
    exclusions: &Exclusions,
    position: usize,
) -> Vec<(usize, usize, Term)> {
    let cols = shape.detector.cols();
    let all = terms(&frames(position)).into_iter().enumerate();
    all.filter(|(pixel, _)| !exclusions.pixels.iter().any(|&x| x as usize == *pixel))
        .map(|(pixel, term)| (pixel / cols, pixel % cols, term))
        .collect()
}

/// Σ of working samples where `member(det_row, det_col)` holds, at each scan position, 64 bits wide.
pub fn virtual_image(
    shape: Shape4,
    frames: Frames<'_>,
    exclusions: &Exclusions,
    member: &dyn Fn(usize, usize) -> bool,
) -> Option<Sums> {
    let mut lists = Vec::new();
    for position in 0..shape.scan.positions() {
        let mut list = Vec::new();
        for (row, col, term) in admitted(shape, frames, exclusions, position) {
            if member(row, col) {
                list.push(term);
            }
        }
        lists.push(list);
    }
    sums(frames(0).sample_type(), &lists)
}

/// Σ of working samples over all scan positions at each detector pixel.
pub fn pattern_sum(shape: Shape4, frames: Frames<'_>, exclusions: &Exclusions) -> Option<PatternSum> {
    let mut lists = vec![Vec::new(); shape.detector.pixels()];
    for position in 0..shape.scan.positions() {
        for (row, col, term) in admitted(shape, frames, exclusions, position) {
            lists[row * shape.detector.cols() + col].push(term);
        }
    }
    let sums = sums(frames(0).sample_type(), &lists)?;
    Some(PatternSum { shape: shape.detector, sums, positions: shape.scan.positions() as u64 })
}

/// Σ of working samples over the scan positions where `chosen(scan_row, scan_col)` holds, at each detector pixel.
pub fn selection_sum(
    shape: Shape4,
    frames: Frames<'_>,
    exclusions: &Exclusions,
    chosen: &dyn Fn(usize, usize) -> bool,
) -> Option<PatternSum> {
    let mut lists = vec![Vec::new(); shape.detector.pixels()];
    let mut positions = 0;
    for scan_row in 0..shape.scan.rows() {
        for scan_col in 0..shape.scan.cols() {
            if !chosen(scan_row, scan_col) {
                continue;
            }
            positions += 1;
            let position = scan_row * shape.scan.cols() + scan_col;
            for (row, col, term) in admitted(shape, frames, exclusions, position) {
                lists[row * shape.detector.cols() + col].push(term);
            }
        }
    }
    let sums = sums(frames(0).sample_type(), &lists)?;
    Some(PatternSum { shape: shape.detector, sums, positions })
}

/// Total and first moments of each working frame.
pub fn moments(shape: Shape4, frames: Frames<'_>, exclusions: &Exclusions) -> Option<Moments> {
    let (mut total, mut row, mut col) = (Vec::new(), Vec::new(), Vec::new());
    for position in 0..shape.scan.positions() {
        let frame = admitted(shape, frames, exclusions, position);
        total.push(frame.iter().map(|&(_, _, term)| term).collect());
        row.push(frame.iter().map(|&(row, _, term)| term.times(row)).collect());
        col.push(frame.iter().map(|&(_, col, term)| term.times(col)).collect());
    }
    let of = |lists: &[Vec<Term>]| sums(frames(0).sample_type(), lists);
    Some(Moments { shape: shape.scan, total: of(&total)?, row: of(&row)?, col: of(&col)? })
}
