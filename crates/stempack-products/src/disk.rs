//! Where the bright-field disk lies when nobody recorded it, and what BF, ABF and ADF mean once it is known.
//!
//! The measurement: mean working pattern, 3×3 median over admitted pixels, threshold at half of the filtered maximum,
//! centre = intensity-weighted centroid of the pixels above, R = √(area/π). For integers all of it is integer arithmetic
//! on the exact pattern sum up to the last division. Pixels of a float pattern that are not finite count as excluded.

use crate::{Compensated, DetectorMask, PatternSum, ProductCode, Sums};
use std::cmp::Ordering;
use stempack_model::{DetectorShape, Error, Exclusions, Result};

/// Why a bright-field disk is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskEvidence {
    /// A calibration recorded in the file.
    Recorded,
    /// Measured from the mean pattern by [`measure_disk`].
    Measured,
}

impl DiskEvidence {
    /// The word used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            DiskEvidence::Recorded => "recorded",
            DiskEvidence::Measured => "measured",
        }
    }
}

/// Centre and radius of the bright-field disk in detector pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BrightFieldDisk {
    /// Row of the centre.
    pub centre_row: f64,
    /// Column of the centre.
    pub centre_col: f64,
    /// Radius R.
    pub radius: f64,
    /// Where the numbers come from.
    pub evidence: DiskEvidence,
}

/// The standard virtual detectors, relative to the bright-field radius R.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualDetector {
    /// Bright field, 0…R.
    BrightField,
    /// Annular bright field, R/2…R.
    AnnularBrightField,
    /// Annular dark field, R…2R.
    AnnularDarkField,
}

impl VirtualDetector {
    /// The short name used in results: `bf`, `abf`, `adf`.
    pub fn as_str(self) -> &'static str {
        match self {
            VirtualDetector::BrightField => "bf",
            VirtualDetector::AnnularBrightField => "abf",
            VirtualDetector::AnnularDarkField => "adf",
        }
    }

    /// The pixels of this detector around `disk`.
    ///
    /// # Errors
    /// As [`DetectorMask::disk`] and [`DetectorMask::annulus`].
    pub fn mask(
        self,
        disk: &BrightFieldDisk,
        shape: DetectorShape,
        exclusions: &Exclusions,
    ) -> Result<DetectorMask> {
        let (row, col, r) = (disk.centre_row, disk.centre_col, disk.radius);
        match self {
            VirtualDetector::BrightField => DetectorMask::disk(shape, exclusions, row, col, r),
            VirtualDetector::AnnularBrightField => {
                DetectorMask::annulus(shape, exclusions, row, col, r / 2.0, r)
            }
            VirtualDetector::AnnularDarkField => {
                DetectorMask::annulus(shape, exclusions, row, col, r, 2.0 * r)
            }
        }
    }
}

/// Measures the bright-field disk of a pattern sum.
///
/// # Errors
/// `no_disk` when the filtered pattern is nowhere positive, `mask_geometry` when an exclusion lies outside.
pub fn measure_disk(pattern: &PatternSum, exclusions: &Exclusions) -> Result<BrightFieldDisk> {
    let mut admitted = DetectorMask::all(pattern.shape, exclusions)?.members().to_vec();
    let located = match &pattern.sums {
        Sums::F64(sums) => {
            // A pixel that was not finite in one frame tells nothing, as an excluded one.
            admitted.iter_mut().zip(sums).for_each(|(a, sum)| *a &= sum.is_finite());
            locate(&medians(sums, pattern.shape, &admitted), pattern.shape.cols())
        }
        integers => {
            let sums: Vec<i128> = (0..integers.len()).filter_map(|i| integers.samples().integer(i)).collect();
            locate(&medians(&sums, pattern.shape, &admitted), pattern.shape.cols())
        }
    };
    let Some((centre_row, centre_col, area)) = located else {
        return Err(Error::new(
            ProductCode::NoDisk,
            "no bright-field disk can be measured: the mean pattern is nowhere positive after the 3×3 median",
        )
        .hint("state the geometry yourself, for example `--disk ROW,COL,RADIUS`"));
    };
    Ok(BrightFieldDisk {
        centre_row,
        centre_col,
        radius: (area as f64 / std::f64::consts::PI).sqrt(),
        evidence: DiskEvidence::Measured,
    })
}

/// What a pattern consists of while the disk is measured; the median is of a unit that keeps it exact.
trait Level: Copy + Default + PartialOrd {
    /// The middle between the two middle values, in units of `Level`'s own.
    fn middle(self, other: Self) -> Self;
    /// Whether it lies above half of `maximum`.
    fn above_half(self, maximum: Self) -> bool;
    /// Σ weight, Σ weight · row, Σ weight · column, as doubles.
    fn moments(pixels: &[(Self, usize, usize)]) -> [f64; 3];
}

/// Integers count in halves, so that the middle of two is an integer. 2²⁸ pixels of 65 bits times 2²⁸ fit 128.
impl Level for i128 {
    fn middle(self, other: Self) -> Self {
        self + other
    }
    fn above_half(self, maximum: Self) -> bool {
        2 * self > maximum
    }
    fn moments(pixels: &[(Self, usize, usize)]) -> [f64; 3] {
        let sum = |of: &dyn Fn(&(i128, usize, usize)) -> i128| pixels.iter().map(of).sum::<i128>() as f64;
        [sum(&|p| p.0), sum(&|p| p.0 * p.1 as i128), sum(&|p| p.0 * p.2 as i128)]
    }
}

impl Level for f64 {
    fn middle(self, other: Self) -> Self {
        // Halved first: two large values must not become infinite.
        self / 2.0 + other / 2.0
    }
    fn above_half(self, maximum: Self) -> bool {
        self > maximum / 2.0
    }
    fn moments(pixels: &[(Self, usize, usize)]) -> [f64; 3] {
        // Relative to the largest, so that no product is infinite.
        let largest = pixels.iter().fold(0.0, |m: f64, p| m.max(p.0));
        let sum = |of: &dyn Fn(&(f64, usize, usize)) -> f64| Compensated::of(pixels.iter().map(of));
        [sum(&|p| p.0 / largest), sum(&|p| p.0 / largest * p.1 as f64), sum(&|p| p.0 / largest * p.2 as f64)]
    }
}

/// Centre and area of what lies above half of the maximum; `None` when the maximum is not positive.
fn locate<T: Level>(filtered: &[T], cols: usize) -> Option<(f64, f64, usize)> {
    let maximum = filtered.iter().fold(T::default(), |m, &v| if v > m { v } else { m });
    let all = filtered.iter().enumerate().map(|(pixel, &value)| (value, pixel / cols, pixel % cols));
    let above: Vec<_> = all.filter(|p| p.0 > T::default() && p.0.above_half(maximum)).collect();
    if above.is_empty() {
        return None;
    }
    let [weight, row, col] = T::moments(&above);
    Some((row / weight, col / weight, above.len()))
}

/// The median of the admitted pixels among each pixel's 3×3 neighbourhood inside the detector, which for an even number
/// of values is the mean of the middle two; 0 where there are none.
fn medians<T: Level>(sums: &[T], shape: DetectorShape, admitted: &[bool]) -> Vec<T> {
    let (rows, cols) = (shape.rows(), shape.cols());
    let mut out = Vec::with_capacity(rows * cols);
    let mut near: Vec<T> = Vec::with_capacity(9);
    for row in 0..rows {
        for col in 0..cols {
            near.clear();
            for r in row.saturating_sub(1)..(row + 2).min(rows) {
                for c in col.saturating_sub(1)..(col + 2).min(cols) {
                    if admitted[r * cols + c] {
                        near.push(sums[r * cols + c]);
                    }
                }
            }
            // No NaN is admitted.
            near.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
            out.push(match near.len() {
                0 => T::default(),
                n => near[(n - 1) / 2].middle(near[n / 2]),
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use stempack_model::MaskOrigin;

    fn excluding(pixels: &[u32]) -> Exclusions {
        Exclusions { pixels: pixels.to_vec(), mask_sha256: [0; 32], origin: MaskOrigin::SourceMask }
    }

    fn pattern(shape: DetectorShape, value: impl Fn(usize, usize) -> u64) -> PatternSum {
        let sums = (0..shape.pixels()).map(|p| value(p / shape.cols(), p % shape.cols())).collect();
        PatternSum { shape, sums: Sums::U64(sums), positions: 1 }
    }

    /// A sharp disk is found where it was put, and its radius follows from the pixels it covers.
    #[test]
    fn a_sharp_disk_is_measured() {
        let shape = DetectorShape::new(64, 80).unwrap();
        let inside = |r: usize, c: usize| (r as i64 - 30).pow(2) + (c as i64 - 41).pow(2) <= 12 * 12;
        let disk = measure_disk(&pattern(shape, |r, c| if inside(r, c) { 900 } else { 10 }), &excluding(&[]));
        let disk = disk.unwrap();
        assert_eq!(disk.evidence, DiskEvidence::Measured);
        // The disk is symmetric about its centre, and so is what the median leaves of its rim.
        assert_eq!((disk.centre_row, disk.centre_col), (30.0, 41.0));
        assert!((disk.radius - 12.0).abs() < 0.3, "{}", disk.radius);
    }

    /// The median is worked out by hand: a 3×3 detector with one bright pixel and one excluded pixel.
    #[test]
    fn excluded_pixels_are_no_neighbours() {
        let shape = DetectorShape::new(1, 4).unwrap();
        let p = pattern(shape, |_, c| [10, 1_000_000, 20, 30][c]);
        // Without pixel 1: neighbourhoods [10], [10, 20], [20, 30], [20, 30] → doubled medians 20, 30, 50, 50.
        let doubled = medians(&[10i128, 1_000_000, 20, 30], shape, &[true, false, true, true]);
        assert_eq!(doubled, [20, 30, 50, 50]);
        // Half of the maximum is 25: pixels 1, 2, 3 lie above with weights 30, 50, 50.
        let disk = measure_disk(&p, &excluding(&[1])).unwrap();
        assert_eq!(disk.centre_col, (30.0 + 2.0 * 50.0 + 3.0 * 50.0) / 130.0);
        assert_eq!(disk.radius, (3.0 / std::f64::consts::PI).sqrt());
    }

    /// The same pattern as floats, with what must not count: a NaN instead of an exclusion, negative and huge values.
    #[test]
    fn floats_and_negative_values_are_measured_alike() {
        let shape = DetectorShape::new(1, 4).unwrap();
        let of =
            |sums: Sums| measure_disk(&PatternSum { shape, sums, positions: 1 }, &excluding(&[])).unwrap();
        let want = (30.0 + 2.0 * 50.0 + 3.0 * 50.0) / 130.0;
        for hole in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let disk = of(Sums::F64(vec![10.0, hole, 20.0, 30.0]));
            assert!((disk.centre_col - want).abs() < 1e-12);
            assert_eq!(disk.radius, (3.0 / std::f64::consts::PI).sqrt());
        }
        let huge = of(Sums::F64(vec![1e308, f64::NAN, 1.7e308, 1.7e308]));
        assert!(huge.centre_col.is_finite() && huge.centre_row == 0.0);
        // Medians −75, −50, 80, 80.
        let signed = of(Sums::I64(vec![-100, -50, 80, 80]));
        assert_eq!((signed.centre_col, signed.radius), (2.5, (2.0 / std::f64::consts::PI).sqrt()));
        let dark = PatternSum { shape, sums: Sums::F64(vec![-1.0; 4]), positions: 1 };
        assert_eq!(measure_disk(&dark, &excluding(&[])).unwrap_err().code(), "no_disk");
    }

    #[test]
    fn a_dark_pattern_has_no_disk() {
        let shape = DetectorShape::new(5, 5).unwrap();
        assert_eq!(measure_disk(&pattern(shape, |_, _| 0), &excluding(&[])).unwrap_err().code(), "no_disk");
        let all: Vec<u32> = (0..25).collect();
        assert_eq!(measure_disk(&pattern(shape, |_, _| 9), &excluding(&all)).unwrap_err().code(), "no_disk");
    }

    /// BF and ADF share no pixel; ABF is the outer part of BF; together BF and ADF are the disk of 2R.
    #[test]
    fn standard_detectors_tile_the_disk_of_twice_the_radius() {
        let shape = DetectorShape::new(40, 40).unwrap();
        let ex = excluding(&[815, 900]);
        let disk = BrightFieldDisk {
            centre_row: 19.25,
            centre_col: 20.5,
            radius: 7.5,
            evidence: DiskEvidence::Recorded,
        };
        let of = |d: VirtualDetector| d.mask(&disk, shape, &ex).unwrap();
        let (bf, abf, adf) = (
            of(VirtualDetector::BrightField),
            of(VirtualDetector::AnnularBrightField),
            of(VirtualDetector::AnnularDarkField),
        );
        let whole = DetectorMask::disk(shape, &ex, 19.25, 20.5, 15.0).unwrap();
        for p in 0..shape.pixels() {
            assert!(!(bf.members()[p] && adf.members()[p]));
            assert_eq!(bf.members()[p] || adf.members()[p], whole.members()[p]);
            assert!(!abf.members()[p] || bf.members()[p]);
        }
        assert!(abf.count() > 0 && abf.count() < bf.count());
    }
}
