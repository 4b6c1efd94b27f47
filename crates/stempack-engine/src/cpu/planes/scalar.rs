//! The scalar kernels: what every fast one must equal.

use super::BlockSums;
use stempack_codecs::planes::{BLOCK_SCANS, PlaneBlock};

pub(in super::super) fn sum_block(block: &PlaneBlock, pixels: &[u32], out: &mut BlockSums) {
    for (scan, sum) in out.iter_mut().enumerate() {
        *sum = pixels.iter().map(|&p| u32::from(block.sample(p as usize, scan))).sum();
    }
}

pub(in super::super) fn sum_pixels(block: &PlaneBlock, first: usize, out: &mut [u64]) {
    for (k, sum) in out.iter_mut().enumerate() {
        *sum += (0..BLOCK_SCANS).map(|scan| u64::from(block.sample(first + k, scan))).sum::<u64>();
    }
}
