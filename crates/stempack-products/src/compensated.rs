//! How floats are added: in a fixed order, with the rounding error of every addition carried beside the sum.
//!
//! The rule is stated in [`reference`](crate::reference); this is what the fast paths use.

/// A running sum of doubles with what its additions rounded away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    /// Adds the next term. The order of terms is part of the result's definition.
    #[inline]
    pub fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        // Without a branch, so that neighbouring sums can be computed together.
        let larger = self.sum.abs() >= term.abs();
        let (big, small) = if larger { (self.sum, term) } else { (term, self.sum) };
        self.error += (big - sum) + small;
        self.sum = sum;
    }

    /// The sum; one that is not finite tells nothing of its errors, and every NaN is the same NaN.
    pub fn value(self) -> f64 {
        canonical(if self.sum.is_finite() { self.sum + self.error } else { self.sum })
    }

    /// The compensated sum of terms in their order.
    pub fn of(terms: impl IntoIterator<Item = f64>) -> f64 {
        let mut sum = Compensated::default();
        terms.into_iter().for_each(|term| sum.add(term));
        sum.value()
    }
}

/// Which NaN an operation returns is the processor's choice; results hold only one.
pub(crate) fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_plain_addition_loses_is_kept() {
        assert_eq!(Compensated::of([1e100, 1.0, -1e100]), 1.0);
        assert_eq!(Compensated::of([1.0, 1e100, 1.0, -1e100]), 2.0);
        assert_eq!(Compensated::of(std::iter::repeat_n(0.1, 10)), 1.0);
        assert_eq!(Compensated::of([]).to_bits(), 0);
        assert_eq!(Compensated::of([-0.0]).to_bits(), 0);
    }

    #[test]
    fn what_is_not_finite_shows() {
        let inf = f64::INFINITY;
        assert_eq!(Compensated::of([1.0, inf, 2.0]), inf);
        assert_eq!(Compensated::of([1.0, -inf]), -inf);
        let signalling = f64::from_bits(0xfff0_0000_0000_0001);
        for terms in [[inf, -inf], [f64::NAN, 1.0], [1.0, signalling]] {
            assert_eq!(Compensated::of(terms).to_bits(), f64::NAN.to_bits());
        }
        assert_eq!(Compensated::of([f64::MAX, f64::MAX, -f64::MAX]), inf);
        assert_eq!(Compensated::of([f64::MAX, -f64::MAX, 1.0]), 1.0);
    }
}
