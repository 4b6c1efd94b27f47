//! Samples → numbers: which coding is cheaper, and the packed words.

use super::range::{INFINITE, MAGNITUDE, above, lowest_digit};
use super::{BLOCK_SCANS, Coding, Head, LANES, Range, Stretch, lane_words};

/// What one pass over a stretch finds.
struct Survey {
    /// Smallest and largest rotated bits.
    smallest: u32,
    largest: u32,
    /// Digits in which rotated bits differ.
    differ: u32,
    /// Least and greatest sample in the order of numbers, as keys.
    least: i32,
    greatest: i32,
    lowest: i32,
    minus_zero: bool,
}

/// Integers in the order of floats.
#[inline(always)]
fn key(bits: u32) -> i32 {
    let bits = bits as i32;
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

#[inline(always)]
fn survey(samples: &[f32]) -> Survey {
    let first = samples[0].to_bits();
    let (mut smallest, mut largest, mut differ) = (u32::MAX, 0, 0);
    let (mut least, mut greatest, mut lowest) = (i32::MAX, i32::MIN, i32::MAX);
    let mut minus_zero = 0;
    for sample in samples {
        let bits = sample.to_bits();
        let rotated = bits.rotate_left(1);
        (smallest, largest) = (smallest.min(rotated), largest.max(rotated));
        differ |= bits ^ first;
        let key = key(bits);
        (least, greatest) = (least.min(key), greatest.max(key));
        lowest = lowest.min(lowest_digit(bits));
        minus_zero |= u32::from(rotated == 1);
    }
    let differ = differ.rotate_left(1);
    Survey { smallest, largest, differ, least, greatest, lowest, minus_zero: minus_zero != 0 }
}

fn digits(number: u32) -> u32 {
    32 - number.leading_zeros()
}

/// A coding, and what it takes.
struct Choice {
    coding: Coding,
    base: u32,
    shift: i16,
    width: u32,
}

impl Survey {
    fn largest_magnitude(&self) -> u32 {
        self.largest >> 1 & MAGNITUDE
    }
    fn range(&self) -> Range {
        match self.largest_magnitude() {
            0 => Range::ZERO,
            INFINITE.. => Range::UNKNOWN,
            magnitude => Range::new(self.lowest as i16, above(magnitude)),
        }
    }
    fn choose(&self) -> Choice {
        let shift = if self.differ == 0 { 0 } else { self.differ.trailing_zeros() };
        let width = digits((self.largest - self.smallest) >> shift);
        let bits = Choice { coding: Coding::Bits, base: self.smallest, shift: shift as i16, width };
        let magnitude = self.largest_magnitude();
        if magnitude == 0 || magnitude >= INFINITE || self.minus_zero {
            return bits;
        }
        // Numbers of steps must fit 31 bits and a sign.
        if i32::from(above(magnitude)) - self.lowest > 31 {
            return bits;
        }
        let per_step = 2f64.powi(-self.lowest);
        let steps = |key: i32| f64::from(sample_of(key)) * per_step;
        let (least, greatest) = (steps(self.least) as i32, steps(self.greatest) as i32);
        let width = digits(greatest.wrapping_sub(least) as u32);
        if width >= bits.width {
            return bits;
        }
        Choice { coding: Coding::Steps, base: least as u32, shift: self.lowest as i16, width }
    }
}

/// The inverse of [`key`], which undoes itself.
fn sample_of(order: i32) -> f32 {
    f32::from_bits(key(order as u32) as u32)
}

/// A whole number of at most 31 digits and a sign, as an integer. Added to 1.5·2⁵², its digits are the lowest of the sum;
/// conversions that mind NaN are not made for many numbers at once.
#[inline(always)]
fn whole(number: f64) -> u32 {
    (number + 6_755_399_441_055_744.0).to_bits() as u32
}

/// Appends one stretch of so many rows to `words`, which hold whole groups of lanes.
///
/// # Panics
/// When the words grow beyond 2³² groups.
#[inline(always)]
pub(super) fn encode(samples: &Stretch, rows: usize, words: &mut Vec<u32>) -> Head {
    let samples = &samples[..(LANES * rows).min(BLOCK_SCANS)];
    let found = survey(samples);
    let Choice { coding, base, shift, width } = found.choose();
    let range = found.range();
    let at = words.len();
    let first = u32::try_from(at / LANES).expect("a block takes at most 256 GiB");
    if width > 0 {
        words.resize(at + LANES * lane_words(rows, width as usize), 0);
        let words = &mut words[at..];
        match coding {
            Coding::Steps => {
                let per_step = 2f64.powi(-i32::from(shift));
                pack(samples, width, words, |sample| whole(f64::from(sample) * per_step).wrapping_sub(base));
            }
            Coding::Bits => {
                pack(samples, width, words, |sample| (sample.to_bits().rotate_left(1) - base) >> shift);
            }
        }
    }
    let (low, high) = range.ends();
    Head { first, base, low, high, shift, width: width as u8, coding }
}

#[inline(always)]
fn pack(samples: &[f32], width: u32, words: &mut [u32], number: impl Fn(f32) -> u32) {
    let mut digit = 0;
    for samples in samples.chunks_exact(LANES) {
        let at = (digit / 32) as usize * LANES;
        let shift = digit % 32;
        let mut numbers = [0; LANES];
        for (n, &sample) in numbers.iter_mut().zip(samples) {
            *n = number(sample);
        }
        for (word, n) in words[at..at + LANES].iter_mut().zip(&numbers) {
            *word |= n << shift;
        }
        if shift + width > 32 {
            for (word, n) in words[at + LANES..at + 2 * LANES].iter_mut().zip(&numbers) {
                *word |= n >> (32 - shift);
            }
        }
        digit += width;
    }
}
