//! Sums over chosen scan positions of a packed shard: tiles without a chosen position are passed by, the others are
//! unpacked once, and what is not chosen counts as zero. The scalar twin is
//! [`reference::selection_sum`](stempack_products::reference::selection_sum); the answer is the one that
//! [`Products::selection_sum`](stempack_products::Products::selection_sum) has without doing anything.

use rayon::prelude::*;
use std::ops::Range;
use stempack_codecs::shard::PackedShard;
use stempack_codecs::tile::Unpack;
use stempack_model::{Result, Task};
use stempack_products::ScanSelection;

/// Pixels of one task.
const BLOCK: usize = 512;
/// Scan positions of the largest tile.
const LARGEST_TILE: usize = 128;

/// Which positions of one shard are chosen, as factors.
pub(crate) struct Chosen {
    /// 1 or 0 for each scan position of the shard, and 0 for the padding of its last tile.
    factors: Vec<u16>,
    /// Which tiles hold a chosen one.
    tiles: Vec<bool>,
}

impl Chosen {
    /// Those in `scans`, the scan positions of the shard; `None` when there are none.
    pub(crate) fn in_shard(
        selection: &ScanSelection,
        scans: Range<u64>,
        shard: &PackedShard,
    ) -> Option<Self> {
        let tile_scans = shard.profile().tile_scans();
        let mut factors = vec![0; shard.tiles() * tile_scans];
        let mut tiles = vec![false; shard.tiles()];
        let first = selection.runs().partition_point(|run| run.end <= scans.start);
        for run in selection.runs()[first..].iter().take_while(|run| run.start < scans.end) {
            let from = (run.start.max(scans.start) - scans.start) as usize;
            let to = (run.end.min(scans.end) - scans.start) as usize;
            factors[from..to].fill(1);
            tiles[from / tile_scans..to.div_ceil(tile_scans)].fill(true);
        }
        tiles.contains(&true).then_some(Chosen { factors, tiles })
    }
}

/// Adds the chosen samples of every pixel but the excluded ones. The caller has proved that the sums fit.
pub(crate) fn add(
    shard: &PackedShard,
    max_widths: &[u8],
    chosen: &Chosen,
    excluded: &[bool],
    sums: &mut [u64],
    task: &Task,
) -> Result<()> {
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
                if chosen.tiles[t] {
                    unpack.unpack(payload, width, &mut samples[..tile_scans]);
                    let factors = &chosen.factors[t * tile_scans..(t + 1) * tile_scans];
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
