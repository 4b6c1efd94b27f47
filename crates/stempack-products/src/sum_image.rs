//! How wide the sums of a virtual image are: 32 bits when a bound proves they fit, else 64.

use stempack_model::{SamplesRef, ScanShape};

/// Whether a sum that cannot exceed `bound` fits 32 bits.
pub fn fits_u32(bound: u128) -> bool {
    bound <= u128::from(u32::MAX)
}

/// Exact sums, row-major over the scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sums {
    /// A bound proved that 32 bits suffice.
    U32(Vec<u32>),
    /// The bound exceeds 32 bits.
    U64(Vec<u64>),
}

impl Sums {
    /// Stores sums in 32 bits when `bound`, which no sum exceeds, proves that they fit, else in 64.
    pub fn with_bound(sums: Vec<u64>, bound: u128) -> Self {
        debug_assert!(sums.iter().all(|&v| u128::from(v) <= bound), "a sum exceeds its bound");
        if !fits_u32(bound) {
            return Sums::U64(sums);
        }
        match sums.iter().map(|&v| u32::try_from(v)).collect() {
            Ok(narrow) => Sums::U32(narrow),
            // A wrong bound must not become a wrong sum.
            Err(_) => Sums::U64(sums),
        }
    }
    /// The sums as samples of their own type.
    pub fn samples(&self) -> SamplesRef<'_> {
        match self {
            Sums::U32(v) => SamplesRef::U32(v),
            Sums::U64(v) => SamplesRef::U64(v),
        }
    }
    /// Number of scan positions.
    pub fn len(&self) -> usize {
        match self {
            Sums::U32(v) => v.len(),
            Sums::U64(v) => v.len(),
        }
    }
    /// Whether there are no scan positions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Sum at a scan position, or `None` outside.
    pub fn get(&self, position: usize) -> Option<u64> {
        match self {
            Sums::U32(v) => v.get(position).map(|&x| x.into()),
            Sums::U64(v) => v.get(position).copied(),
        }
    }
    /// All sums in order, widened.
    pub fn iter(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Sums::U32(v) => Box::new(v.iter().map(|&x| x.into())),
            Sums::U64(v) => Box::new(v.iter().copied()),
        }
    }
    /// `uint32` or `uint64`.
    pub fn dtype(&self) -> &'static str {
        match self {
            Sums::U32(_) => "uint32",
            Sums::U64(_) => "uint64",
        }
    }
}

/// A virtual image: the exact sum under one mask at every scan position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumImage {
    /// Scan rows and columns.
    pub shape: ScanShape,
    /// One sum for each scan position.
    pub values: Sums,
}

impl SumImage {
    /// Sum over all scan positions. 2⁴⁰ positions of 64 bits cannot overflow 128.
    pub fn sum(&self) -> u128 {
        self.values.iter().map(u128::from).sum()
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
    }

    #[test]
    fn the_total_does_not_wrap_at_64_bits() {
        let image =
            SumImage { shape: ScanShape::new(1, 2).unwrap(), values: Sums::U64(vec![u64::MAX, u64::MAX]) };
        assert_eq!(image.sum(), 2 * u128::from(u64::MAX));
    }
}
