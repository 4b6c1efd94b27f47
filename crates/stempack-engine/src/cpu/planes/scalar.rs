//! The scalar kernels: what every fast one must equal.

use super::{BlockSums, Chosen, Signed};
use stempack_codecs::planes::{BLOCK_SCANS, PlaneBlock};

pub(in super::super) fn sum_block(block: &PlaneBlock, pixels: Signed<'_>, out: &mut BlockSums) {
    out.fill(0);
    let mut counts = [0; 32];
    let add = pixels.add.iter().map(|&pixel| (pixel, true));
    for (pixel, added) in add.chain(pixels.take.iter().map(|&pixel| (pixel, false))) {
        for (tile, out) in out.chunks_exact_mut(32).enumerate() {
            if block.tile(pixel as usize, tile, &mut counts) {
                for (sum, count) in out.iter_mut().zip(counts.map(u32::from)) {
                    *sum = if added { *sum + count } else { sum.wrapping_sub(count) };
                }
            }
        }
    }
}

pub(in super::super) fn sum_pixels(block: &PlaneBlock, first: usize, chosen: Chosen<'_>, out: &mut [u64]) {
    for (k, sum) in out.iter_mut().enumerate() {
        let scans = (0..BLOCK_SCANS).filter(|s| chosen.is_none_or(|bits| bits[s / 32] >> (s % 32) & 1 == 1));
        *sum += scans.map(|scan| u64::from(block.sample(first + k, scan))).sum::<u64>();
    }
}
