//! How wide sums are: counts in 32 bits when a bound proves they fit, else in 64; signed integers in 64; floats as
//! doubles.

use crate::Compensated;
use std::fmt;
use stempack_model::{SamplesRef, ScanShape};

/// Whether a sum that cannot exceed `bound` fits 32 bits.
pub fn fits_u32(bound: u128) -> bool {
    bound <= u128::from(u32::MAX)
}

/// Sums of samples: exact for integers, compensated for floats.
#[derive(Clone, Debug)]
pub enum Sums {
    /// Counts; a bound proved that 32 bits suffice.
    U32(Vec<u32>),
    /// Counts.
    U64(Vec<u64>),
    /// Signed integers.
    I64(Vec<i64>),
    /// Floats, by the rule of [`reference`](crate::reference).
    F64(Vec<f64>),
}

/// Sums are equal when their type and every bit are: a NaN equals itself here.
impl PartialEq for Sums {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.samples(), other.samples());
        a.sample_type() == b.sample_type() && a.little_endian() == b.little_endian()
    }
}
impl Eq for Sums {}

impl From<Vec<u64>> for Sums {
    fn from(sums: Vec<u64>) -> Self {
        Sums::U64(sums)
    }
}
impl From<Vec<i64>> for Sums {
    fn from(sums: Vec<i64>) -> Self {
        Sums::I64(sums)
    }
}
impl From<Vec<f64>> for Sums {
    fn from(sums: Vec<f64>) -> Self {
        Sums::F64(sums)
    }
}

impl Sums {
    /// Stores sums in 32 bits when `bound`, which no sum exceeds, proves that they fit, else in 64.
    pub fn with_bound(sums: Vec<u64>, bound: u128) -> Self {
        debug_assert!(sums.iter().all(|&v| u128::from(v) <= bound), "a sum exceeds its bound");
        Sums::U64(sums).narrowed(bound)
    }
    /// Counts in 32 bits when `bound`, which no sum exceeds, proves that they fit; everything else as it is.
    #[must_use]
    pub fn narrowed(self, bound: u128) -> Self {
        match self {
            Sums::U64(sums) if fits_u32(bound) => match sums.iter().map(|&v| u32::try_from(v)).collect() {
                Ok(narrow) => Sums::U32(narrow),
                // A wrong bound must not become a wrong sum.
                Err(_) => Sums::U64(sums),
            },
            other => other,
        }
    }
    /// The sums as samples of their own type.
    pub fn samples(&self) -> SamplesRef<'_> {
        match self {
            Sums::U32(v) => SamplesRef::U32(v),
            Sums::U64(v) => SamplesRef::U64(v),
            Sums::I64(v) => SamplesRef::I64(v),
            Sums::F64(v) => SamplesRef::F64(v),
        }
    }
    /// Number of sums.
    pub fn len(&self) -> usize {
        self.samples().len()
    }
    /// Whether there are no sums.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Counts widened to 64 bits; `None` for sums of signed integers and floats.
    pub fn to_u64(&self) -> Option<Vec<u64>> {
        match self {
            Sums::U32(v) => Some(v.iter().map(|&x| x.into()).collect()),
            Sums::U64(v) => Some(v.clone()),
            _ => None,
        }
    }
    /// Every sum as a double, for quotients and pictures. Integers beyond 2⁵³ are rounded.
    pub fn to_f64(&self) -> Vec<f64> {
        self.samples().to_f64()
    }
    /// `uint32`, `uint64`, `int64` or `float64`.
    pub fn dtype(&self) -> &'static str {
        self.samples().sample_type().as_str()
    }
    /// Sum of all.
    pub fn total(&self) -> Total {
        Total::of(self.samples())
    }
}

/// One sum over everything: exact for integers, compensated in order for floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Total {
    /// Of integers.
    Integer(i128),
    /// Of floats.
    Float(f64),
}

impl Total {
    /// The sum of samples. 2⁶³ integers of 64 bits, more than memory holds, fit 128 bits.
    pub fn of(samples: SamplesRef<'_>) -> Self {
        match samples {
            SamplesRef::F32(v) => Total::Float(Compensated::of(v.iter().map(|&x| x.into()))),
            SamplesRef::F64(v) => Total::Float(Compensated::of(v.iter().copied())),
            integers => Total::Integer((0..integers.len()).filter_map(|i| integers.integer(i)).sum()),
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Total::Integer(sum) => sum.fmt(f),
            Total::Float(sum) => sum.fmt(f),
        }
    }
}

/// A virtual image: the sum under one mask at every scan position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumImage {
    /// Scan rows and columns.
    pub shape: ScanShape,
    /// One sum for each scan position.
    pub values: Sums,
}

impl SumImage {
    /// Sum over all scan positions.
    pub fn sum(&self) -> Total {
        self.values.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_changes_exactly_at_the_largest_u32() {
        let edge = u128::from(u32::MAX);
        assert_eq!(Sums::with_bound(vec![7], edge), Sums::U32(vec![7]));
        assert_eq!(Sums::with_bound(vec![7], edge + 1), Sums::U64(vec![7]));
        assert_eq!(Sums::I64(vec![7]).narrowed(7), Sums::I64(vec![7]));
    }

    #[test]
    fn equality_is_of_bits_and_types() {
        assert_eq!(Sums::F64(vec![f64::NAN]), Sums::F64(vec![f64::NAN]));
        assert_ne!(Sums::F64(vec![0.0]), Sums::F64(vec![-0.0]));
        assert_ne!(Sums::U64(vec![1]), Sums::I64(vec![1]));
    }

    #[test]
    fn the_total_does_not_wrap_at_64_bits() {
        let total = |values: Sums| SumImage { shape: ScanShape::new(1, 2).unwrap(), values }.sum();
        assert_eq!(total(Sums::U64(vec![u64::MAX; 2])), Total::Integer(2 * i128::from(u64::MAX)));
        assert_eq!(total(Sums::I64(vec![i64::MIN; 2])), Total::Integer(2 * i128::from(i64::MIN)));
        assert_eq!(total(Sums::F64(vec![1e17, 1.5])), Total::Float(1e17));
    }
}
