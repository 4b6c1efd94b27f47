//! Total and first moments of each frame, and the centre of mass that follows from them.

use crate::compensated::canonical;
use crate::{ProductCode, Sums};
use stempack_model::{DetectorShape, Error, Result, ScanShape};

/// Moments of the working frames, one entry for each scan position: exact for integers, compensated for floats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments {
    /// Scan rows and columns.
    pub shape: ScanShape,
    /// Σ sample; never narrower than 64 bits, as the others.
    pub total: Sums,
    /// Σ det_row · sample.
    pub row: Sums,
    /// Σ det_col · sample.
    pub col: Sums,
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

    /// Whether each position has a centre: its total is neither zero nor, for floats, something that is not finite.
    pub fn defined(&self) -> Vec<bool> {
        // No integer but zero becomes 0.0.
        self.total.to_f64().into_iter().map(|total| total != 0.0 && total.is_finite()).collect()
    }

    /// Row and column centre of mass, divided in `f64`. Where there is none, 0 for integers and NaN for floats.
    pub fn center_of_mass(&self) -> CenterOfMass {
        let none = if self.total.samples().sample_type().is_float() { f64::NAN } else { 0.0 };
        let (totals, defined) = (self.total.to_f64(), self.defined());
        let divide = |moment: &Sums| -> Vec<f64> {
            let quotient = |((m, t), d): ((f64, &f64), &bool)| if *d { canonical(m / t) } else { none };
            moment.to_f64().into_iter().zip(&totals).zip(&defined).map(quotient).collect()
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
    fn an_empty_frame_of_counts_has_its_centre_at_zero() {
        let m = Moments {
            shape: ScanShape::new(1, 2).unwrap(),
            total: Sums::U64(vec![0, 4]),
            row: Sums::U64(vec![0, 6]),
            col: Sums::U64(vec![0, 3]),
        };
        let com = m.center_of_mass();
        assert_eq!(com.rows(), [0.0, 1.5]);
        assert_eq!(com.cols(), [0.0, 0.75]);
    }

    #[test]
    fn a_float_frame_without_a_finite_total_has_no_centre() {
        let floats = |values: &[f64]| Sums::F64(values.to_vec());
        let m = Moments {
            shape: ScanShape::new(2, 2).unwrap(),
            total: floats(&[0.0, f64::INFINITY, f64::NAN, -2.0]),
            row: floats(&[1.0, 1.0, 1.0, 1.0]),
            col: floats(&[0.0, 0.0, 0.0, 3.0]),
        };
        let com = m.center_of_mass();
        assert_eq!(m.defined(), [false, false, false, true]);
        assert!(com.rows()[..3].iter().chain(&com.cols()[..3]).all(|v| v.is_nan()));
        assert_eq!((com.rows()[3], com.cols()[3]), (-0.5, -1.5));
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
