//! What every form of a shard in memory can do: give back its counts, frame by frame or tile by tile.

use crate::bits;
use crate::planes::{BLOCK_SCANS, PlaneShard};
use crate::shard::PackedShard;
use crate::tile::Unpack;

/// Counts of consecutive scan positions, in whatever form.
pub trait Counts: Sync {
    /// Scan positions.
    fn scans(&self) -> usize;
    /// Detector pixels.
    fn pixels(&self) -> usize;
    /// Scans that [`Counts::tile`] gives at once, at most 128.
    fn tile_scans(&self) -> usize;
    /// The counts of pixels `first..first + out.len()` at one scan.
    ///
    /// # Panics
    /// When the scan or a pixel is out of range.
    fn frame(&self, scan: usize, first: usize, out: &mut [u16]);
    /// The counts of one pixel at the scans of one tile, `out` being [`Counts::tile_scans`] long; false when all are
    /// zero and nothing was written.
    ///
    /// # Panics
    /// When the tile or the pixel is out of range, or `out` has another length.
    fn tile(&self, unpack: Unpack, pixel: usize, tile: usize, out: &mut [u16]) -> bool;
}

impl Counts for PackedShard {
    fn scans(&self) -> usize {
        PackedShard::scans(self)
    }
    fn pixels(&self) -> usize {
        PackedShard::pixels(self)
    }
    fn tile_scans(&self) -> usize {
        self.profile().tile_scans()
    }
    fn frame(&self, scan: usize, first: usize, out: &mut [u16]) {
        let per_tile = self.profile().tile_scans();
        for (k, count) in out.iter_mut().enumerate() {
            let (width, bytes) = PackedShard::tile(self, first + k, scan / per_tile);
            *count = bits::sample_at(bytes, width, scan % per_tile);
        }
    }
    fn tile(&self, unpack: Unpack, pixel: usize, tile: usize, out: &mut [u16]) -> bool {
        assert_eq!(out.len(), self.profile().tile_scans());
        let (width, bytes) = PackedShard::tile(self, pixel, tile);
        if width > 0 {
            unpack.unpack(bytes, width, out);
        }
        width > 0
    }
}

impl Counts for PlaneShard {
    fn scans(&self) -> usize {
        PlaneShard::scans(self)
    }
    fn pixels(&self) -> usize {
        PlaneShard::pixels(self)
    }
    fn tile_scans(&self) -> usize {
        32
    }
    fn frame(&self, scan: usize, first: usize, out: &mut [u16]) {
        self.blocks()[scan / BLOCK_SCANS].frame(scan % BLOCK_SCANS, first, out);
    }
    fn tile(&self, _: Unpack, pixel: usize, tile: usize, out: &mut [u16]) -> bool {
        let per_block = BLOCK_SCANS / 32;
        let out = out.try_into().expect("a tile of planes has 32 scans");
        self.blocks()[tile / per_block].tile(pixel, tile % per_block, out)
    }
}

/// Unpacks the frames of one tile into `out` (up to a tile of frames, each of all pixels), converted by `narrow`.
///
/// # Panics
/// When `out` is not a whole number of frames within the tile.
pub fn expand_tile<T: Copy>(
    counts: &impl Counts,
    unpack: Unpack,
    tile: usize,
    out: &mut [T],
    narrow: impl Fn(u16) -> T,
) {
    let (stride, tile_scans) = (counts.pixels(), counts.tile_scans());
    assert!(tile_scans <= 128 && out.len().is_multiple_of(stride) && out.len() / stride <= tile_scans);
    let scans = out.len() / stride;
    let zero = narrow(0);
    // Sixteen pixels at a time keep every touched line of the output in the first-level cache.
    let mut block = [[0u16; 128]; 16];
    for first in (0..stride).step_by(16) {
        let pixels = 16.min(stride - first);
        let mut any = false;
        for (k, samples) in block.iter_mut().enumerate().take(pixels) {
            if counts.tile(unpack, first + k, tile, &mut samples[..tile_scans]) {
                any = true;
            } else {
                samples[..tile_scans].fill(0);
            }
        }
        for s in 0..scans {
            let row = &mut out[s * stride + first..][..pixels];
            if any {
                for (sample, samples) in row.iter_mut().zip(&block) {
                    *sample = narrow(samples[s]);
                }
            } else {
                row.fill(zero);
            }
        }
    }
}
