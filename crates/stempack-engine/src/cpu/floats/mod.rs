//! Kernels over blocks of floats: many pixels added at 512 scan positions at once, and many scan positions at one pixel.
//!
//! `kernel` is plain code over 512 sums that lie side by side, which compilers vectorise; `x86` compiles it for AVX-512
//! and AVX2. [`Way`] says which of three additions gives a sum the bits that the rule gives it. The order of a position's
//! terms is that of its pixels in every kernel.
//!
//! Scalar twin: `scalar`. A test holds all of them equal, and another the three ways.

mod kernel;
mod scalar;
#[cfg(test)]
mod tests;
mod way;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use way::Way;

use super::Kernel;
use stempack_codecs::floats::{BLOCK_SCANS, FloatBlock, LANES, Means};

/// 512 sums in the making: what the two numbers of each are is the affair of a [`Way`].
#[derive(Clone, Debug)]
pub struct FloatSums {
    sum: [f64; BLOCK_SCANS],
    rest: [f64; BLOCK_SCANS],
}

/// What is taken from every sample, one number for each detector pixel.
pub type Dark<'a> = Option<&'a [f32]>;

/// Words of one bit for each scan of a block.
pub const CHOSEN_WORDS: usize = BLOCK_SCANS / 32;

/// Which scans of a block count, one bit for each; all without one.
pub type ChosenScans<'a> = Option<&'a [u32; CHOSEN_WORDS]>;

/// Pixels added to, or taken from, the sums of a block.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Where the samples are.
    pub block: &'a FloatBlock,
    /// Whose samples.
    pub pixels: &'a [u32],
    /// Less what.
    pub dark: Dark<'a>,
    /// Whether they are taken away, which [`Way::Rule`] does not know.
    pub taken: bool,
}

impl FloatSums {
    /// Sums of nothing.
    pub fn new(way: Way) -> Self {
        let mut sums = FloatSums { sum: [0.0; BLOCK_SCANS], rest: [0.0; BLOCK_SCANS] };
        sums.begin(way, &[], &[]);
        sums
    }
    /// Begins with sums whose rounding left a rest, in one of the ways in which those are exact; with zero behind them.
    pub fn begin(&mut self, way: Way, sum: &[f64], rest: &[f64]) {
        (self.sum, self.rest) = ([0.0; BLOCK_SCANS], [0.0; BLOCK_SCANS]);
        self.sum[..sum.len()].copy_from_slice(sum);
        self.rest[..rest.len()].copy_from_slice(rest);
        for (sum, rest) in self.sum.iter_mut().zip(&mut self.rest) {
            (*sum, *rest) = way.begin(*sum, *rest);
        }
    }
    /// The sums, and what rounding them left; of [`Way::Rule`] nothing is known but the sums.
    pub fn end(&self, way: Way, sum: &mut [f64], rest: &mut [f64]) {
        for ((s, r), (sum, rest)) in self.sum.iter().zip(&self.rest).zip(sum.iter_mut().zip(rest)) {
            (*sum, *rest) = way.end(*s, *r);
        }
    }
}

impl Kernel {
    /// Adds the samples of pixels at every scan of a block, pixel after pixel.
    ///
    /// # Panics
    /// When a pixel is out of range.
    pub fn add_floats(self, terms: &Terms<'_>, way: Way, sums: &mut FloatSums) {
        match self {
            Kernel::Scalar => scalar::add(terms, way, sums),
            Kernel::Portable => kernel::add(Means::portable(), terms, way, sums),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => x86::add_256(terms, way, sums),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => x86::add_512(terms, way, sums),
        }
    }

    /// Adds the samples of pixels, and the same times row and times column of a detector of `cols` columns.
    ///
    /// # Panics
    /// When a pixel is out of range.
    pub fn add_float_moments(self, terms: &Terms<'_>, cols: usize, way: Way, sums: &mut [FloatSums; 3]) {
        match self {
            Kernel::Scalar => scalar::moments(terms, cols, way, sums),
            Kernel::Portable => kernel::moments(Means::portable(), terms, cols, way, sums),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => x86::moments_256(terms, cols, way, sums),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => x86::moments_512(terms, cols, way, sums),
        }
    }

    /// Adds to a sum in the making, begun with two zeros, the samples of one pixel at every scan of a block, or at the
    /// chosen ones, in their order. At the end [`Way::end_of_pixel`] tells the sum.
    ///
    /// # Panics
    /// When the pixel is out of range.
    pub fn add_float_pixel(self, pixel: &PixelTerms<'_>, way: Way, sum: &mut (f64, f64)) {
        match self {
            Kernel::Scalar => scalar::pixel(pixel, way, sum),
            Kernel::Portable => kernel::pixel(Means::portable(), pixel, way, sum),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => x86::pixel_256(pixel, way, sum),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => x86::pixel_512(pixel, way, sum),
        }
    }
}

/// The samples of one pixel at the scans of a block.
#[derive(Clone, Copy, Debug)]
pub struct PixelTerms<'a> {
    /// Where the samples are.
    pub block: &'a FloatBlock,
    /// Whose samples.
    pub pixel: usize,
    /// Less what.
    pub dark: Option<f32>,
    /// Which scans.
    pub chosen: ChosenScans<'a>,
}
