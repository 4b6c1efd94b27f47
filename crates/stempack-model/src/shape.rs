//! Validated shapes: no dimension is zero and no product overflows.

use crate::{Error, ModelCode, Result};
use std::fmt;

/// Scan positions as rows × columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScanShape {
    rows: usize,
    cols: usize,
}

/// Detector pixels as rows × columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DetectorShape {
    rows: usize,
    cols: usize,
}

macro_rules! two_dimensional {
    ($name:ident, $what:literal, $count:ident, $count_doc:literal) => {
        impl $name {
            /// Checks that both dimensions are positive and that the product fits 2⁴⁰.
            ///
            /// # Errors
            /// `invalid_shape` otherwise.
            pub fn new(rows: u64, cols: u64) -> Result<Self> {
                // 2^40 positions or pixels are far beyond any instrument and keep every later product in u64.
                match rows.checked_mul(cols) {
                    Some(n) if n > 0 && n <= 1 << 40 => Ok(Self { rows: rows as usize, cols: cols as usize }),
                    _ => Err(Error::new(
                        ModelCode::InvalidShape,
                        format!(concat!($what, " shape {}×{} is empty or too large"), rows, cols),
                    )),
                }
            }
            /// Number of rows.
            pub fn rows(self) -> usize {
                self.rows
            }
            /// Number of columns.
            pub fn cols(self) -> usize {
                self.cols
            }
            #[doc = $count_doc]
            pub fn $count(self) -> usize {
                self.rows * self.cols
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}×{}", self.rows, self.cols)
            }
        }
    };
}
two_dimensional!(ScanShape, "scan", positions, "Scan positions, rows × columns.");
two_dimensional!(DetectorShape, "detector", pixels, "Detector pixels, rows × columns.");

/// The four axes of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape4 {
    /// Scan rows and columns.
    pub scan: ScanShape,
    /// Detector rows and columns.
    pub detector: DetectorShape,
}

impl Shape4 {
    /// `[scan_row, scan_col, det_row, det_col]`.
    pub fn dims(self) -> [usize; 4] {
        [self.scan.rows, self.scan.cols, self.detector.rows, self.detector.cols]
    }
    /// Number of samples, or `None` above 2⁶⁴.
    pub fn samples(self) -> Option<u64> {
        (self.scan.positions() as u64).checked_mul(self.detector.pixels() as u64)
    }
}

impl fmt::Display for Shape4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{}", self.scan, self.detector)
    }
}
