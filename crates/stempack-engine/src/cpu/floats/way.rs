//! Which additions give a sum the bits of the rule, and when the order of its terms is no part of it.
//!
//! The rule ([`stempack_products::reference`]) adds terms in their order and carries beside the sum what each addition
//! rounded away; at the end both are added. Let all terms be multiples of `2^low` and at most `2^high`, let there be no more
//! than `n ≤ 2^c` of them, and `B = c + high`. Every exact partial sum is a multiple of `2^low` and at most `2^B`.
//!
//! * `B − low ≤ 53`: every partial sum is a double, and nothing is ever rounded. Plain additions give the exact sum, as
//!   does the rule ([`Way::Plain`]).
//! * `B + c − low ≤ 104`: an addition rounds away at most `2^(B−53)` and always a multiple of `2^low`, so `n` such errors
//!   add up exactly. Then sum and error together *are* the exact sum, and the rule's last addition rounds it once. Whoever
//!   knows the exact sum in whatever way, and rounds it once, has the same bits ([`Way::Split`]): here the sum begins at
//!   1.5·2^K with `K = B + 2`, which dwarfs every term. What an addition rounds away is then `term − (after − before)`,
//!   which needs no comparison; it is at most `2^(B−51)`, and `n` of them add up exactly because `c + B − 51 − low ≤ 53`.
//! * Otherwise, and whenever a term may not be finite, the rule is followed to the letter ([`Way::Rule`]).
//!
//! In the first two, terms may be added in any order, and taken away again: nothing was lost, so nothing drifts. Samples of
//! single precision have 24 digits; to need the third way, 16,384 of them must span more than 50 powers of two.

use stempack_codecs::floats::Range;

/// How a sum is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// Additions that round nothing.
    Plain,
    /// Additions to a large number, what they round away beside it.
    Split {
        /// The large number.
        bias: f64,
    },
    /// The rule as it is written.
    Rule,
}

/// Digits of a double.
const DIGITS: i64 = 53;
/// Digits of a factor times which a sample of 24 digits still is exact.
const FACTOR_DIGITS: u32 = 29;

impl Way {
    /// The cheapest for sums of up to `terms` samples of a range, each times up to `factor`.
    pub fn of(range: Range, terms: usize, factor: usize) -> Way {
        if !range.is_known() {
            return Way::Rule;
        }
        // A sum that goes on from another counts as two terms: the sum and its rest.
        let (count, times) = (log2(terms.saturating_add(2)), log2(factor));
        if times > FACTOR_DIGITS {
            return Way::Rule;
        }
        let digits = range.digits(count + times);
        if digits <= DIGITS {
            return Way::Plain;
        }
        if digits + i64::from(count) <= 2 * DIGITS - 2 {
            // Between 2^-140 and 2^240, by what exponents and numbers of terms there are.
            let bias = 1.5 * 2f64.powi((range.highest(count + times) + 2) as i32);
            return Way::Split { bias };
        }
        Way::Rule
    }
    /// Whether sums are exact until they are rounded once, so that the order of terms does not matter.
    pub fn is_exact(self) -> bool {
        self != Way::Rule
    }

    #[inline(always)]
    pub(super) fn begin(self, sum: f64, rest: f64) -> (f64, f64) {
        match self {
            Way::Plain | Way::Rule => (sum, rest),
            Way::Split { bias } => {
                let biased = bias + sum;
                (biased, (sum - (biased - bias)) + rest)
            }
        }
    }
    #[inline(always)]
    pub(super) fn end(self, sum: f64, rest: f64) -> (f64, f64) {
        match self {
            Way::Plain => (sum, 0.0),
            Way::Split { bias } => both(sum - bias, rest),
            Way::Rule => (value(sum, rest), 0.0),
        }
    }
    /// The sum over the scans of a pixel.
    pub fn end_of_pixel(self, (sum, rest): (f64, f64)) -> f64 {
        match self {
            Way::Plain | Way::Split { .. } => sum + rest,
            Way::Rule => value(sum, rest),
        }
    }
}

/// The exponent of the smallest power of two that is no less.
fn log2(number: usize) -> u32 {
    usize::BITS - (number.max(1) - 1).leading_zeros()
}

/// The sum of two doubles, and what rounding it left; whichever is larger.
#[inline(always)]
fn both(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// The rule's last step.
#[inline(always)]
fn value(sum: f64, error: f64) -> f64 {
    let value = if sum.is_finite() { sum + error } else { sum };
    if value.is_nan() { f64::NAN } else { value }
}
