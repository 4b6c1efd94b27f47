//! How fine and how large samples are: what has to be known to prove that a sum of them is exact.

/// Every sample is a multiple of `2^low` and in magnitude at most `2^high`, or nothing is known of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    low: i16,
    high: i16,
}

impl Range {
    /// Of samples that are all zero, or of none.
    pub const ZERO: Range = Range { low: i16::MAX, high: i16::MIN };
    /// Of samples some of which are NaN or infinite, or may be.
    pub const UNKNOWN: Range = Range { low: i16::MIN, high: i16::MAX };

    #[inline(always)]
    pub(super) const fn new(low: i16, high: i16) -> Self {
        Range { low, high }
    }
    /// Of one sample.
    pub fn of(sample: f32) -> Self {
        if sample == 0.0 {
            return Self::ZERO;
        }
        if !sample.is_finite() {
            return Self::UNKNOWN;
        }
        let bits = sample.to_bits();
        Range { low: lowest_digit(bits) as i16, high: above(bits & MAGNITUDE) }
    }
    #[inline(always)]
    pub(super) const fn ends(self) -> (i16, i16) {
        (self.low, self.high)
    }
    /// Of samples of both.
    #[inline(always)]
    #[must_use]
    pub fn with(self, other: Range) -> Self {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
    /// Of these samples, one number taken from each in single precision: what has to be rounded becomes coarser.
    #[must_use]
    pub fn less(self, number: f32) -> Self {
        if number == 0.0 {
            return self;
        }
        let both = self.with(Range::of(number));
        // A difference of larger numbers may be infinite.
        if both.high >= 127 { Self::UNKNOWN } else { Range { high: both.high + 1, ..both } }
    }
    /// Whether all samples are finite for certain.
    #[inline(always)]
    pub fn is_known(self) -> bool {
        self.high != i16::MAX
    }
    /// Binary digits from the highest of a sum of `2^more` such samples to the lowest of one: 0 for zeros. The range must
    /// be known.
    #[inline(always)]
    pub fn digits(self, more: u32) -> i64 {
        if self.high == i16::MIN { 0 } else { i64::from(more) + i64::from(self.high) - i64::from(self.low) }
    }
    /// The exponent of what no sum of `2^more` such samples exceeds; that of 1 for zeros. The range must be known.
    #[inline(always)]
    pub fn highest(self, more: u32) -> i64 {
        if self.high == i16::MIN { 0 } else { i64::from(more) + i64::from(self.high) }
    }
}

pub(super) const MAGNITUDE: u32 = 0x7fff_ffff;
pub(super) const INFINITE: u32 = 0x7f80_0000;

/// The exponent of the lowest binary digit of a finite float that is not zero; far above all for zeros. Without
/// branches, so that many are found at once.
#[inline(always)]
pub(super) fn lowest_digit(bits: u32) -> i32 {
    let magnitude = bits & MAGNITUDE;
    let exponent = (magnitude >> 23).max(1);
    let digits = magnitude & 0x7f_ffff | u32::from(magnitude >= 1 << 23) << 23;
    let lowest = digits & digits.wrapping_neg();
    // The exponent of a power of two as a float.
    let place = ((lowest as i32 as f32).to_bits() >> 23) as i32;
    if lowest == 0 { i16::MAX.into() } else { exponent as i32 + place - 277 }
}

/// The exponent of a power of two above a finite magnitude.
#[inline(always)]
pub(super) fn above(magnitude: u32) -> i16 {
    (magnitude >> 23) as i16 - 126
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_lies_within_its_range() {
        let mut bits = 1u32;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let sample = f32::from_bits(bits & u32::MAX << (bits >> 8 & 31));
            let range = Range::of(sample);
            if !sample.is_finite() {
                assert_eq!(range, Range::UNKNOWN);
                continue;
            }
            if sample == 0.0 {
                assert_eq!(range, Range::ZERO);
                continue;
            }
            // Powers of two are exact in double precision over all exponents of single precision.
            let scaled = f64::from(sample) / 2f64.powi(range.low.into());
            assert!(scaled.fract() == 0.0 && scaled % 2.0 != 0.0, "{sample:e} {range:?}");
            assert!(f64::from(sample).abs() < 2f64.powi(range.high.into()), "{sample:e} {range:?}");
        }
        assert_eq!(Range::of(1.0), Range { low: 0, high: 1 });
        assert_eq!(Range::of(-0.75), Range { low: -2, high: 0 });
        assert_eq!(Range::of(f32::from_bits(1)), Range { low: -149, high: -126 });
        assert_eq!(Range::of(f32::MAX), Range { low: 104, high: 128 });
    }

    #[test]
    fn differences_lie_within_theirs() {
        let one = Range::of(1.0);
        assert_eq!(one.less(0.0), one);
        assert_eq!(one.less(0.25), Range { low: -2, high: 2 });
        assert_eq!(Range::ZERO.less(0.25), Range { low: -2, high: 0 });
        assert!(!Range::of(f32::MAX).less(-f32::MAX).is_known());
        assert!(!Range::UNKNOWN.less(1.0).is_known() && one.is_known());
    }
}
