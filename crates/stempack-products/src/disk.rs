//! Where the bright-field disk lies when nobody recorded it, and what BF, ABF and ADF mean once it is known.
//!
//! The measurement: mean working pattern, 3×3 median over admitted pixels, threshold at half of the filtered maximum,
//! centre = intensity-weighted centroid of the pixels above, R = √(area/π). All of it is integer arithmetic on the
//! exact pattern sum up to the last division, so it does not depend on summation order.

use crate::{DetectorMask, PatternSum, ProductCode};
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
/// `no_disk` when the filtered pattern is zero everywhere, `mask_geometry` when an exclusion lies outside.
pub fn measure_disk(pattern: &PatternSum, exclusions: &Exclusions) -> Result<BrightFieldDisk> {
    let admitted = DetectorMask::all(pattern.shape, exclusions)?;
    let filtered = doubled_median(pattern, admitted.members());
    let maximum = filtered.iter().copied().max().unwrap_or(0);
    if maximum == 0 {
        return Err(Error::new(
            ProductCode::NoDisk,
            "no bright-field disk can be measured: the mean pattern is zero after the 3×3 median",
        )
        .hint("state the geometry yourself, for example `--disk ROW,COL,RADIUS`"));
    }
    let (mut area, mut weight, mut row_moment, mut col_moment) = (0u64, 0u128, 0u128, 0u128);
    for (pixel, &value) in filtered.iter().enumerate() {
        if 2 * value > maximum {
            let (row, col) = (pixel / pattern.shape.cols(), pixel % pattern.shape.cols());
            area += 1;
            weight += value;
            row_moment += value * row as u128;
            col_moment += value * col as u128;
        }
    }
    Ok(BrightFieldDisk {
        centre_row: row_moment as f64 / weight as f64,
        centre_col: col_moment as f64 / weight as f64,
        radius: (area as f64 / std::f64::consts::PI).sqrt(),
        evidence: DiskEvidence::Measured,
    })
}

/// Twice the median of the admitted pixels among each pixel's 3×3 neighbourhood inside the detector; 0 where there are
/// none. Doubled, because the median of an even number of values is the mean of the middle two.
fn doubled_median(pattern: &PatternSum, admitted: &[bool]) -> Vec<u128> {
    let (rows, cols) = (pattern.shape.rows(), pattern.shape.cols());
    let mut out = Vec::with_capacity(rows * cols);
    let mut near = Vec::with_capacity(9);
    for row in 0..rows {
        for col in 0..cols {
            near.clear();
            for r in row.saturating_sub(1)..(row + 2).min(rows) {
                for c in col.saturating_sub(1)..(col + 2).min(cols) {
                    if admitted[r * cols + c] {
                        near.push(pattern.sums[r * cols + c]);
                    }
                }
            }
            near.sort_unstable();
            out.push(match near.len() {
                0 => 0,
                n => u128::from(near[(n - 1) / 2]) + u128::from(near[n / 2]),
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
        PatternSum { shape, sums, positions: 1 }
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
        assert_eq!(doubled_median(&p, &[true, false, true, true]), [20, 30, 50, 50]);
        // Half of the maximum is 25: pixels 1, 2, 3 lie above with weights 30, 50, 50.
        let disk = measure_disk(&p, &excluding(&[1])).unwrap();
        assert_eq!(disk.centre_col, (30.0 + 2.0 * 50.0 + 3.0 * 50.0) / 130.0);
        assert_eq!(disk.radius, (3.0 / std::f64::consts::PI).sqrt());
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
