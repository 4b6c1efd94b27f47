//! The scalar kernels: what every fast one must equal.

use super::{BlockSums, Chosen};
use stempack_codecs::planes::{BLOCK_SCANS, PlaneBlock};

pub(in super::super) fn sum_block(block: &PlaneBlock, pixels: &[u32], out: &mut BlockSums) {
    for (scan, sum) in out.iter_mut().enumerate() {
        *sum = pixels.iter().map(|&p| u32::from(block.sample(p as usize, scan))).sum();
    }
}

pub(in super::super) fn sum_pixels(block: &PlaneBlock, first: usize, chosen: Chosen<'_>, out: &mut [u64]) {
    for (k, sum) in out.iter_mut().enumerate() {
        let scans = (0..BLOCK_SCANS).filter(|s| chosen.is_none_or(|bits| bits[s / 32] >> (s % 32) & 1 == 1));
        *sum += scans.map(|scan| u64::from(block.sample(first + k, scan))).sum::<u64>();
    }
}
