//! Sums over chosen scan positions of a shard: tiles without a chosen position are passed by, the others are unpacked
//! once, and what is not chosen counts as zero; of bit planes the chosen bits are counted. The scalar twin is
//! [`reference::selection_sum`](stempack_products::reference::selection_sum); the answer is the one that
//! [`Products::selection_sum`](stempack_products::Products::selection_sum) has without doing anything.

use crate::cpu::Kernel;
use crate::held::{Form, Held};
use rayon::prelude::*;
use std::ops::Range;
use stempack_codecs::planes::{BLOCK_SCANS, PLANE_WORDS};
use stempack_codecs::shard::PackedShard;
use stempack_codecs::tile::Unpack;
use stempack_model::{Result, Task};
use stempack_products::ScanSelection;

/// Pixels of one task.
const BLOCK: usize = 512;
/// Scan positions of the largest tile.
const LARGEST_TILE: usize = 128;

/// Which positions of one shard are chosen, one bit for each.
pub(crate) struct Chosen(Vec<u32>);

impl Chosen {
    /// Those in `scans`, the scan positions of a shard; `None` when there are none.
    pub(crate) fn in_shard(selection: &ScanSelection, scans: Range<u64>) -> Option<Self> {
        let mut bits = vec![0; ((scans.end - scans.start) as usize).div_ceil(BLOCK_SCANS) * PLANE_WORDS];
        let first = selection.runs().partition_point(|run| run.end <= scans.start);
        for run in selection.runs()[first..].iter().take_while(|run| run.start < scans.end) {
            let from = (run.start.max(scans.start) - scans.start) as usize;
            let to = (run.end.min(scans.end) - scans.start) as usize;
            (from..to).for_each(|scan| bits[scan / 32] |= 1u32 << (scan % 32));
        }
        bits.iter().any(|&b| b != 0).then_some(Chosen(bits))
    }
    /// One bit for each scan position, in whole blocks of 512.
    pub(crate) fn bits(&self) -> &[[u32; PLANE_WORDS]] {
        self.0.as_chunks().0
    }
    /// 1 or 0 for each scan position, and for the padding of the last tile.
    fn factors(&self, shard: &PackedShard) -> Vec<u16> {
        let scans = shard.tiles() * shard.profile().tile_scans();
        (0..scans).map(|scan| (self.0.get(scan / 32).map_or(0, |b| b >> (scan % 32)) & 1) as u16).collect()
    }
}

/// Adds the chosen samples of every pixel but the excluded ones, which are left at zero. The caller has proved that the
/// sums fit.
pub(crate) fn add(
    kernel: Kernel,
    held: &Held,
    chosen: &Chosen,
    excluded: &[bool],
    sums: &mut [u64],
    task: &Task,
) -> Result<()> {
    let planes = match &held.form {
        Form::Packed(shard) => return add_packed(shard, &held.max_widths, chosen, excluded, sums, task),
        Form::Arranged(planes) => planes,
    };
    sums.par_chunks_mut(BLOCK).enumerate().try_for_each(|(k, sums)| {
        let first = k * BLOCK;
        task.check()?;
        for (block, bits) in planes.blocks().iter().zip(chosen.0.chunks_exact(PLANE_WORDS)) {
            let bits = bits.try_into().expect("a chunk of that length");
            kernel.sum_pixels(block, first, Some(bits), sums);
        }
        let excluded = &excluded[first..first + sums.len()];
        sums.iter_mut().zip(excluded).filter(|(_, excluded)| **excluded).for_each(|(sum, _)| *sum = 0);
        Ok(())
    })
}

fn add_packed(
    shard: &PackedShard,
    max_widths: &[u8],
    chosen: &Chosen,
    excluded: &[bool],
    sums: &mut [u64],
    task: &Task,
) -> Result<()> {
    let factors = chosen.factors(shard);
    let tiles: Vec<bool> =
        factors.chunks_exact(shard.profile().tile_scans()).map(|tile| tile.contains(&1)).collect();
    let unpack = Unpack::detect();
    let tile_scans = shard.profile().tile_scans();
    sums.par_chunks_mut(BLOCK).enumerate().try_for_each(|(block, sums)| {
        task.check()?;
        let mut samples = [0u16; LARGEST_TILE];
        let mut widths = vec![0; shard.tiles()];
        for (k, sum) in sums.iter_mut().enumerate() {
            let pixel = block * BLOCK + k;
            if excluded[pixel] || max_widths[pixel] == 0 {
                continue;
            }
            let mut payload = shard.pixel(pixel, &mut widths);
            for (t, &width) in widths.iter().enumerate() {
                if width == 0 {
                    continue;
                }
                if tiles[t] {
                    unpack.unpack(payload, width, &mut samples[..tile_scans]);
                    let factors = &factors[t * tile_scans..(t + 1) * tile_scans];
                    // 128 counts of 16 bits fit 32 bits.
                    let tile: u32 =
                        samples[..tile_scans].iter().zip(factors).map(|(&s, &f)| u32::from(s * f)).sum();
                    *sum += u64::from(tile);
                }
                payload = &payload[width as usize * tile_scans / 8..];
            }
        }
        Ok(())
    })
}
