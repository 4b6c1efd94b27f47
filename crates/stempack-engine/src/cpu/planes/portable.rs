//! 512 bits as sixteen `u32`, for machines without a kernel of their own. Compilers make NEON of it.
//!
//! Scalar twin: [`super::scalar`].
#![expect(unsafe_code, reason = "implements an unsafe trait method; the pointer's bounds are the caller's")]

use super::kernel::{self, Plane};
use super::{BlockSums, Chosen, Next, PlaneBlock, Signed};
use stempack_codecs::planes::{BLOCK_SCANS, PLANE_WORDS};

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Words([u32; PLANE_WORDS]);

// SAFETY: nothing but words.
unsafe impl Plane for Words {
    #[inline(always)]
    unsafe fn zero() -> Self {
        Words([0; PLANE_WORDS])
    }
    #[inline(always)]
    unsafe fn expand(words: *const u32, mask: u16) -> Self {
        // SAFETY: a whole plane may be read, as the trait says.
        let words = unsafe { &*words.cast::<[u32; PLANE_WORDS]>() };
        if mask == u16::MAX {
            return Words(*words);
        }
        let mut out = [0; PLANE_WORDS];
        let mut left = mask;
        for &word in words.iter().take(mask.count_ones() as usize) {
            out[left.trailing_zeros() as usize] = word;
            left &= left - 1;
        }
        Words(out)
    }
    #[inline(always)]
    unsafe fn add(self, b: Self, c: Self) -> (Self, Self) {
        let (mut sum, mut carry) = ([0; PLANE_WORDS], [0; PLANE_WORDS]);
        for i in 0..PLANE_WORDS {
            let half = self.0[i] ^ b.0[i];
            sum[i] = half ^ c.0[i];
            carry[i] = self.0[i] & b.0[i] | half & c.0[i];
        }
        (Words(sum), Words(carry))
    }
    #[inline(always)]
    unsafe fn flip(self) -> Self {
        Words(self.0.map(|w| !w))
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        self.0.iter().all(|&w| w == 0)
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const u32) {}
}

pub(in super::super) fn sum_block(
    block: &PlaneBlock,
    pixels: Signed<'_>,
    planes: usize,
    next: Next<'_>,
    out: &mut BlockSums,
) {
    // SAFETY: no processor feature is needed.
    unsafe { kernel::sum_block::<Words>(block, pixels, planes, next, out) }
}
pub(in super::super) fn sum_pixels(block: &PlaneBlock, first: usize, chosen: Chosen<'_>, out: &mut [u64]) {
    kernel::sum_pixels(block, first, chosen, out);
}
pub(in super::super) fn add_weighted(sums: &BlockSums, weight: u32, out: &mut [u64; BLOCK_SCANS]) {
    kernel::add_weighted(sums, weight, out);
}
pub(in super::super) fn add_signed(before: Option<&[u64]>, sums: &[u32], out: &mut [u64]) {
    kernel::add_signed(before, sums, out);
}
