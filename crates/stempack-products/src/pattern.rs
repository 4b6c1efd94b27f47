//! The sum of all frames and the mean pattern that follows from it.

use crate::{ProductCode, Sums, Total};
use stempack_model::{DetectorShape, Error, Result};

/// Sum over all scan positions at each detector pixel; excluded pixels are zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternSum {
    /// Detector rows and columns.
    pub shape: DetectorShape,
    /// Row-major sums, never narrower than 64 bits.
    pub sums: Sums,
    /// Number of frames summed.
    pub positions: u64,
}

impl PatternSum {
    /// Fails unless `positions` counts up to `max_value` fit 64 bits.
    ///
    /// # Errors
    /// `sum_overflow`.
    pub fn check_bound(positions: u64, max_value: u64) -> Result<()> {
        if positions.checked_mul(max_value).is_some() {
            return Ok(());
        }
        Err(Error::new(
            ProductCode::SumOverflow,
            format!("the sum of {positions} frames with counts up to {max_value} may exceed 64 bits"),
        ))
    }

    /// The refusal of a pixel whose sum does not fit.
    pub(crate) fn overflow(detector: DetectorShape, pixel: usize) -> Error {
        let (row, col) = (pixel / detector.cols(), pixel % detector.cols());
        let message = format!("the sum of all frames at pixel ({row}, {col}) exceeds 64 bits");
        Error::new(ProductCode::SumOverflow, message).with("pixel", pixel)
    }

    /// Sum divided by the number of scan positions.
    pub fn mean(&self) -> Vec<f64> {
        let n = self.positions as f64;
        self.sums.to_f64().into_iter().map(|sum| sum / n).collect()
    }

    /// Sum of the whole pattern.
    pub fn sum(&self) -> Total {
        self.sums.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_divides_by_scan_positions() {
        let mean =
            |sums: Sums| PatternSum { shape: DetectorShape::new(1, 2).unwrap(), sums, positions: 4 }.mean();
        assert_eq!(mean(Sums::U64(vec![3, 0])), [0.75, 0.0]);
        assert_eq!(mean(Sums::I64(vec![-3, 0])), [-0.75, 0.0]);
        assert_eq!(mean(Sums::F64(vec![1.5, f64::INFINITY])), [0.375, f64::INFINITY]);
    }

    #[test]
    fn sums_that_could_wrap_are_refused() {
        assert!(PatternSum::check_bound(1 << 32, u64::from(u32::MAX)).is_ok());
        assert_eq!(PatternSum::check_bound(1 << 33, u64::from(u32::MAX)).unwrap_err().code(), "sum_overflow");
    }
}
