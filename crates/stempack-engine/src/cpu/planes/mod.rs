//! Kernels over bit planes: many pixels added at 512 scan positions at once, and many scan positions at one pixel.
//!
//! Counts are added as binary digits. A full adder takes three planes of one weight and gives their sum and, at twice the
//! weight, their carry; eight pixels at a time go through a tree of them (the carry-save scheme of Harley and Seal), so
//! that most planes cost one adder, whatever the widths. [`kernel`] holds the one algorithm, written over [`Plane`], what
//! 512 bits are on a machine: [`portable`] (two `u64` at a time on NEON, by the compiler), [`avx2`], [`avx512`].
//!
//! Scalar twin: [`scalar`]. A test holds all of them equal.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
mod kernel;
pub(super) mod portable;
pub(super) mod scalar;
#[cfg(test)]
mod tests;

use super::Kernel;
use stempack_codecs::planes::{BLOCK_SCANS, PLANE_WORDS, PlaneBlock};

/// One 32-bit sum for each scan of a block, in two's complement where counts were taken away.
pub type BlockSums = [u32; BLOCK_SCANS];

/// Pixels whose counts are added, and pixels whose counts are taken away.
#[derive(Clone, Copy, Default)]
pub struct Signed<'a> {
    /// Those that are added.
    pub add: &'a [u32],
    /// Those that are taken away.
    pub take: &'a [u32],
}

impl<'a> Signed<'a> {
    /// All are added.
    pub fn sum(add: &'a [u32]) -> Self {
        Signed { add, take: &[] }
    }
    /// The pixels that are summed first.
    pub fn first(self) -> &'a [u32] {
        if self.take.is_empty() { self.add } else { self.take }
    }
}

/// What will be summed next, so that it can be fetched meanwhile: few pixels of a block are soon summed, and the memory is
/// far away.
pub type Next<'a> = (&'a PlaneBlock, &'a [u32]);

/// Which scans of a block count, one bit for each; all without one.
pub type Chosen<'a> = Option<&'a [u32; PLANE_WORDS]>;

impl Kernel {
    /// Sums of the given pixels at every scan of a block. The caller has proved by the pixels' widths that neither what
    /// is added nor what is taken away sums up to more than `bound`; of sums that are larger all the same, digits are
    /// lost. Where pixels are taken away, `bound` has at most 31 bits.
    ///
    /// # Panics
    /// When a pixel is out of range.
    pub fn sum_block(
        self,
        block: &PlaneBlock,
        pixels: Signed<'_>,
        bound: u32,
        next: Next<'_>,
        out: &mut BlockSums,
    ) {
        let planes = 32 - bound.leading_zeros() as usize;
        match self {
            Kernel::Scalar => scalar::sum_block(block, pixels, out),
            Kernel::Portable => portable::sum_block(block, pixels, planes, next, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => avx2::sum_block(block, pixels, planes, next, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => avx512::sum_block(block, pixels, planes, next, out),
        }
    }

    /// Adds to each of `out` the counts of one pixel over all scans of a block, or the chosen ones, from pixel `first`
    /// on.
    ///
    /// # Panics
    /// When a pixel is out of range.
    pub fn sum_pixels(self, block: &PlaneBlock, first: usize, chosen: Chosen<'_>, out: &mut [u64]) {
        match self {
            Kernel::Scalar => scalar::sum_pixels(block, first, chosen, out),
            Kernel::Portable => portable::sum_pixels(block, first, chosen, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => avx2::sum_pixels(block, first, chosen, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => avx512::sum_pixels(block, first, chosen, out),
        }
    }

    /// Adds `weight` times every sum.
    pub fn add_weighted(self, sums: &BlockSums, weight: u32, out: &mut [u64; BLOCK_SCANS]) {
        match self {
            Kernel::Scalar | Kernel::Portable => portable::add_weighted(sums, weight, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => avx2::add_weighted(sums, weight, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => avx512::add_weighted(sums, weight, out),
        }
    }

    /// Adds every sum, in two's complement, to the number of `before`, or of `out` without one.
    pub fn add_signed(self, before: Option<&[u64]>, sums: &[u32], out: &mut [u64]) {
        match self {
            Kernel::Scalar | Kernel::Portable => portable::add_signed(before, sums, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => avx2::add_signed(before, sums, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => avx512::add_signed(before, sums, out),
        }
    }
}
