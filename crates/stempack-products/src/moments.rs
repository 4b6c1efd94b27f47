//! Total and first moments of each frame, exact, and the centre of mass that follows from them.

use crate::ProductCode;
use stempack_model::{DetectorShape, Error, Result, ScanShape};

/// Exact integer moments of the working frames, one entry for each scan position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments {
    /// Scan rows and columns.
    pub shape: ScanShape,
    /// Σ count.
    pub total: Vec<u64>,
    /// Σ det_row · count.
    pub row: Vec<u64>,
    /// Σ det_col · count.
    pub col: Vec<u64>,
}

impl Moments {
    /// Fails unless every moment of a frame with counts up to `max_value` fits 64 bits.
    ///
    /// # Errors
    /// `sum_overflow`.
    pub fn check_bound(detector: DetectorShape, max_value: u64) -> Result<()> {
        let (rows, cols) = (detector.rows() as u128, detector.cols() as u128);
        // The largest of Σ 1, Σ det_row and Σ det_col over all pixels; 2^40 pixels keep it below 2^80.
        let weights = (rows * cols).max(cols * (rows * (rows - 1) / 2)).max(rows * (cols * (cols - 1) / 2));
        match weights.checked_mul(u128::from(max_value)) {
            Some(bound) if bound <= u128::from(u64::MAX) => Ok(()),
            _ => Err(Error::new(
                ProductCode::SumOverflow,
                format!("moments of a {detector} detector with counts up to {max_value} may exceed 64 bits"),
            )),
        }
    }

    /// Row and column centre of mass, divided in `f64`; 0 where the total is 0.
    pub fn center_of_mass(&self) -> CenterOfMass {
        let divide = |moment: &[u64]| -> Vec<f64> {
            let quotient = |(&m, &t): (&u64, &u64)| if t == 0 { 0.0 } else { m as f64 / t as f64 };
            moment.iter().zip(&self.total).map(quotient).collect()
        };
        let mut values = divide(&self.row);
        values.extend(divide(&self.col));
        CenterOfMass { shape: self.shape, values }
    }
}

/// Centre of mass in detector pixels as `(2, scan_row, scan_col)`: rows first, then columns.
#[derive(Clone, Debug, PartialEq)]
pub struct CenterOfMass {
    /// Scan rows and columns.
    pub shape: ScanShape,
    /// All row coordinates, then all column coordinates.
    pub values: Vec<f64>,
}

impl CenterOfMass {
    /// Row coordinate at every scan position.
    pub fn rows(&self) -> &[f64] {
        &self.values[..self.shape.positions()]
    }
    /// Column coordinate at every scan position.
    pub fn cols(&self) -> &[f64] {
        &self.values[self.shape.positions()..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_frame_has_its_centre_at_zero() {
        let m = Moments {
            shape: ScanShape::new(1, 2).unwrap(),
            total: vec![0, 4],
            row: vec![0, 6],
            col: vec![0, 3],
        };
        let com = m.center_of_mass();
        assert_eq!(com.rows(), [0.0, 1.5]);
        assert_eq!(com.cols(), [0.0, 0.75]);
    }

    #[test]
    fn moments_that_could_wrap_are_refused() {
        // 2^20 × 2^20 pixels: the weight sum is 2^20 · 2^39 = 2^59 and a bit less, so 32-bit counts overflow and 4 bits do not.
        let detector = DetectorShape::new(1 << 20, 1 << 20).unwrap();
        assert!(Moments::check_bound(detector, 16).is_ok());
        let e = Moments::check_bound(detector, u64::from(u32::MAX)).unwrap_err();
        assert_eq!(e.code(), "sum_overflow");
        assert!(Moments::check_bound(DetectorShape::new(4096, 4096).unwrap(), u64::from(u32::MAX)).is_err());
        assert!(Moments::check_bound(DetectorShape::new(1024, 1024).unwrap(), u64::from(u32::MAX)).is_ok());
    }
}
