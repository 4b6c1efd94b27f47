//! Reductions over tiles as packs hold them.
//!
//! Sums gather in 16-bit lanes that are emptied into 32-bit ones, and these into 64-bit ones, each before it could
//! overflow. What a lane can hold is known from the largest width of each pixel.

use super::{Change, ScanMoments, cut, max_count};
use crate::cpu::{Kernel, Lanes, NARROW_MAX};
use rayon::prelude::*;
use std::ops::Range;
use stempack_codecs::shard::PackedShard;
use stempack_codecs::tile::Unpack;
use stempack_model::{Result, Task};

/// A packed shard with the pixel widths that reductions need.
pub(super) struct Part<'a> {
    pub(super) shard: &'a PackedShard,
    /// Largest width of each pixel in this shard.
    pub(super) max_widths: &'a [u8],
}

/// See [`super::virtual_image`]; one of `shards` shards.
pub(super) fn virtual_image(
    kernel: Kernel,
    part: &Part<'_>,
    change: Change<'_>,
    shards: usize,
    out: &mut [u64],
    task: &Task,
) -> Result<()> {
    let sum = |pixels: &[u32]| {
        let pieces = cut(pixels.len(), shards, 64).into_par_iter().map(|piece| {
            task.check()?;
            Ok(sum_pixels(kernel, part, &pixels[piece]))
        });
        pieces.collect::<Result<Vec<_>>>()
    };
    let (add, take) = (sum(change.add)?, sum(change.take)?);
    match change.before {
        Some(before) => out.copy_from_slice(before),
        None => out.fill(0),
    }
    // Added first, so that no sum is ever below zero.
    add.iter().for_each(|sums| out.iter_mut().zip(sums).for_each(|(o, s)| *o += s));
    take.iter().for_each(|sums| out.iter_mut().zip(sums).for_each(|(o, s)| *o -= s));
    Ok(())
}

/// Lanes of one shard with the bounds of what was added to them.
struct Sums {
    narrow: Vec<u16>,
    middle: Vec<u32>,
    total: Vec<u64>,
    narrow_bound: u64,
    middle_bound: u64,
}

impl Sums {
    fn new(lanes: usize) -> Self {
        Sums {
            narrow: vec![0; lanes],
            middle: vec![0; lanes],
            total: vec![0; lanes],
            narrow_bound: 0,
            middle_bound: 0,
        }
    }
    /// Makes room for one more sample of at most `width` bits in every lane.
    fn reserve(&mut self, width: u8) {
        let narrow = max_count(width).min(NARROW_MAX.into());
        // The narrow lanes end up in the middle ones, so the whole sample counts there from the start.
        if self.middle_bound + max_count(width) > u32::MAX.into() {
            self.empty_middle();
        }
        if self.narrow_bound + narrow > u16::MAX.into() {
            self.empty_narrow();
        }
        self.narrow_bound += narrow;
        self.middle_bound += max_count(width);
    }
    fn empty_narrow(&mut self) {
        for (middle, narrow) in self.middle.iter_mut().zip(&mut self.narrow) {
            *middle += u32::from(*narrow);
            *narrow = 0;
        }
        self.narrow_bound = 0;
    }
    fn empty_middle(&mut self) {
        self.empty_narrow();
        for (total, middle) in self.total.iter_mut().zip(&mut self.middle) {
            *total += u64::from(*middle);
            *middle = 0;
        }
        self.middle_bound = 0;
    }
}

fn sum_pixels(kernel: Kernel, part: &Part<'_>, pixels: &[u32]) -> Vec<u64> {
    let shard = part.shard;
    let tile_scans = shard.profile().tile_scans();
    let mut sums = Sums::new(shard.tiles() * tile_scans);
    let mut widths = vec![0; shard.tiles()];
    for &pixel in pixels {
        let width = part.max_widths[pixel as usize];
        if width == 0 {
            continue;
        }
        sums.reserve(width);
        let payload = shard.pixel(pixel as usize, &mut widths);
        let lanes = Lanes { narrow: &mut sums.narrow, wide: &mut sums.middle };
        kernel.add_tiles(payload, &widths, tile_scans, lanes);
    }
    sums.empty_middle();
    // Lanes past the last scan belong to the padding of a partial tile, whatever it holds.
    sums.total.truncate(shard.scans());
    sums.total
}

/// Adds to each of `sums` the counts of one admitted pixel over all scans, from pixel `first` on.
pub(super) fn pattern_sum(part: &Part<'_>, first: usize, excluded: &[bool], sums: &mut [u64]) {
    let unpack = Unpack::detect();
    let shard = part.shard;
    let tile_scans = shard.profile().tile_scans();
    let mut samples = [0u16; 128];
    let mut widths = vec![0; shard.tiles()];
    for (k, sum) in sums.iter_mut().enumerate() {
        let pixel = first + k;
        if excluded[k] || part.max_widths[pixel] == 0 {
            continue;
        }
        let mut payload = shard.pixel(pixel, &mut widths);
        for (t, &width) in widths.iter().enumerate() {
            if width == 0 {
                continue;
            }
            let scans = tile_scans.min(shard.scans() - t * tile_scans);
            unpack.unpack(payload, width, &mut samples[..tile_scans]);
            // 128 counts of 16 bits fit 32 bits.
            *sum += u64::from(samples[..scans].iter().map(|&s| u32::from(s)).sum::<u32>());
            payload = &payload[width as usize * tile_scans / 8..];
        }
    }
}

/// Moments of every scan; one of `shards` shards. The caller has proved that they fit 64 bits.
pub(super) fn moments(
    part: &Part<'_>,
    detector: (usize, usize),
    excluded: &[bool],
    shards: usize,
    task: &Task,
) -> Result<ScanMoments> {
    let partial = cut(detector.0, shards, 1)
        .into_par_iter()
        .map(|rows| {
            task.check()?;
            Ok(moments_of_rows(part, rows, detector.1, excluded))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut sum = ScanMoments::zeros(part.shard.scans());
    partial.into_iter().for_each(|p| sum.add(p));
    Ok(sum)
}

/// A lane wide enough for one detector row's total and column moment.
trait Lane: Copy + Default + Into<u64> + From<u16> + std::ops::AddAssign + std::ops::Mul<Output = Self> {
    fn of(count: u32) -> Self;
}
impl Lane for u32 {
    fn of(count: u32) -> u32 {
        count
    }
}
impl Lane for u64 {
    fn of(count: u32) -> u64 {
        count.into()
    }
}

fn moments_of_rows(part: &Part<'_>, rows: Range<usize>, cols: usize, excluded: &[bool]) -> ScanMoments {
    let widest =
        rows.clone().flat_map(|r| &part.max_widths[r * cols..(r + 1) * cols]).max().copied().unwrap_or(0);
    // The column moment of a row is at most (0 + 1 + … + cols-1) · widest count, its total at most cols · that.
    let weight = (cols as u128 * (cols as u128 - 1) / 2).max(cols as u128);
    if weight * u128::from(max_count(widest)) <= u128::from(u32::MAX) {
        moments_in::<u32>(part, rows, cols, excluded)
    } else {
        moments_in::<u64>(part, rows, cols, excluded)
    }
}

/// Columns are taken from the last to the first: with `S` the sum so far, adding `S` once per column step but the last
/// gives each count as often as its column says.
fn moments_in<L: Lane>(part: &Part<'_>, rows: Range<usize>, cols: usize, excluded: &[bool]) -> ScanMoments {
    let shard = part.shard;
    let unpack = Unpack::detect();
    let (tile_scans, scans) = (shard.profile().tile_scans(), shard.scans());
    let lanes = shard.tiles() * tile_scans;
    let mut out = ScanMoments::zeros(scans);
    let mut widths = vec![0; shard.tiles()];
    let mut samples = vec![0u16; lanes];
    let (mut sum, mut moment) = (vec![L::default(); lanes], vec![L::default(); lanes]);
    for row in rows {
        sum.fill(L::default());
        moment.fill(L::default());
        // Steps whose sum is not yet in the moment.
        let mut owed = 0u32;
        let settle = |sum: &[L], moment: &mut [L], owed: &mut u32| {
            match *owed {
                0 => {}
                1 => moment.iter_mut().zip(sum).for_each(|(m, &s)| *m += s),
                k => moment.iter_mut().zip(sum).for_each(|(m, &s)| *m += s * L::of(k)),
            }
            *owed = 0;
        };
        for col in (0..cols).rev() {
            let pixel = row * cols + col;
            if !excluded[pixel] && part.max_widths[pixel] > 0 {
                settle(&sum, &mut moment, &mut owed);
                let mut payload = shard.pixel(pixel, &mut widths);
                for (&width, samples) in widths.iter().zip(samples.chunks_exact_mut(tile_scans)) {
                    unpack.unpack(payload, width, samples);
                    payload = &payload[width as usize * tile_scans / 8..];
                }
                sum.iter_mut().zip(&samples).for_each(|(s, &v)| *s += L::from(v));
            }
            if col > 0 {
                owed += 1;
            }
        }
        settle(&sum, &mut moment, &mut owed);
        for scan in 0..scans {
            let total: u64 = sum[scan].into();
            out.total[scan] += total;
            out.row[scan] += row as u64 * total;
            out.col[scan] += Into::<u64>::into(moment[scan]);
        }
    }
    out
}
