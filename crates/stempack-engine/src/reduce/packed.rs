//! Reductions over tiles as packs hold them.
//!
//! Sums gather in 16-bit lanes that are emptied into 32-bit ones, and these into 64-bit ones, each before it could
//! overflow. What a lane can hold is known from the largest width of each pixel.

use super::{Change, Lines, ScanMoments, cut, max_count};
use crate::cpu::{Kernel, Lanes, NARROW_MAX};
use rayon::prelude::*;
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
    match change.before {
        Some(before) => out.copy_from_slice(before),
        None => out.fill(0),
    }
    let mut lanes = None;
    // Added first, so that no sum is ever below zero.
    for (sign, pixels) in [(Sign::Add, change.add), (Sign::Take, change.take)] {
        let pieces = cut(pixels.len(), shards, 64);
        if pieces.len() <= 1 {
            task.check()?;
            lanes.get_or_insert_with(|| Sums::of(part)).sum(kernel, part, pixels, sign, out);
            continue;
        }
        let pieces = pieces.into_par_iter().map(|piece| {
            task.check()?;
            let mut sums = vec![0; part.shard.scans()];
            Sums::of(part).sum(kernel, part, &pixels[piece], Sign::Add, &mut sums);
            Ok(sums)
        });
        for sums in pieces.collect::<Result<Vec<_>>>()? {
            out.iter_mut().zip(sums).for_each(|(out, sum)| sign.apply(out, sum));
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Sign {
    Add,
    Take,
}

impl Sign {
    #[inline]
    fn apply(self, to: &mut u64, sum: u64) {
        match self {
            Sign::Add => *to += sum,
            Sign::Take => *to -= sum,
        }
    }
}

/// Lanes of one shard with the bounds of what was added to them.
struct Sums {
    narrow: Vec<u16>,
    middle: Vec<u32>,
    narrow_bound: u64,
    middle_bound: u64,
    /// Of the tiles of one pixel.
    widths: Vec<u8>,
}

impl Sums {
    fn of(part: &Part<'_>) -> Self {
        let tiles = part.shard.tiles();
        let lanes = tiles * part.shard.profile().tile_scans();
        Sums {
            narrow: vec![0; lanes],
            middle: vec![0; lanes],
            narrow_bound: 0,
            middle_bound: 0,
            widths: vec![0; tiles],
        }
    }
    /// Adds the counts of pixels to what is at every scan, or takes them away.
    fn sum(&mut self, kernel: Kernel, part: &Part<'_>, pixels: &[u32], sign: Sign, at: &mut [u64]) {
        let shard = part.shard;
        for &pixel in pixels {
            let width = part.max_widths[pixel as usize];
            if width == 0 {
                continue;
            }
            self.reserve(width, sign, at);
            let payload = shard.pixel(pixel as usize, &mut self.widths);
            let lanes = Lanes { narrow: &mut self.narrow, wide: &mut self.middle };
            kernel.add_tiles(payload, &self.widths, shard.profile().tile_scans(), lanes);
        }
        self.empty(sign, at);
    }
    /// Makes room for one more sample of at most `width` bits in every lane.
    fn reserve(&mut self, width: u8, sign: Sign, at: &mut [u64]) {
        let narrow = max_count(width).min(NARROW_MAX.into());
        // The narrow lanes end up in the middle ones, so the whole sample counts there from the start.
        if self.middle_bound + max_count(width) > u32::MAX.into() {
            self.empty(sign, at);
        }
        if self.narrow_bound + narrow > u16::MAX.into() {
            for (middle, narrow) in self.middle.iter_mut().zip(&mut self.narrow) {
                *middle += u32::from(*narrow);
                *narrow = 0;
            }
            self.narrow_bound = 0;
        }
        self.narrow_bound += narrow;
        self.middle_bound += max_count(width);
    }
    fn empty(&mut self, sign: Sign, at: &mut [u64]) {
        for (at, (middle, narrow)) in at.iter_mut().zip(self.middle.iter().zip(&self.narrow)) {
            sign.apply(at, u64::from(*middle) + u64::from(*narrow));
        }
        // Lanes past the last scan belong to the padding of a partial tile, whatever it holds.
        self.middle.fill(0);
        self.narrow.fill(0);
        (self.middle_bound, self.narrow_bound) = (0, 0);
    }
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

/// Moments of every scan; one of `shards` shards. The caller has proved that they fit 64 bits. Lines of the detector are
/// summed as every image is, and the sums weighted with the index of the line.
pub(super) fn moments(
    kernel: Kernel,
    part: &Part<'_>,
    lines: &Lines,
    shards: usize,
    task: &Task,
) -> Result<ScanMoments> {
    let of = |lines: &[Vec<u32>]| cut(lines.len(), shards, 1);
    let rows = of(&lines.rows).into_iter().map(|piece| (true, piece));
    let pieces: Vec<_> = rows.chain(of(&lines.cols).into_iter().map(|piece| (false, piece))).collect();
    let partial = pieces.into_par_iter().map(|(of_rows, piece)| {
        let mut out = ScanMoments::zeros(part.shard.scans());
        let (mut lanes, mut sums) = (Sums::of(part), vec![0; part.shard.scans()]);
        for index in piece {
            task.check()?;
            let lines = if of_rows { &lines.rows } else { &lines.cols };
            sums.fill(0);
            lanes.sum(kernel, part, &lines[index], Sign::Add, &mut sums);
            let moment = if of_rows { &mut out.row } else { &mut out.col };
            moment.iter_mut().zip(&sums).for_each(|(moment, sum)| *moment += index as u64 * sum);
            if of_rows {
                out.total.iter_mut().zip(&sums).for_each(|(total, sum)| *total += sum);
            }
        }
        Ok(out)
    });
    let mut sum = ScanMoments::zeros(part.shard.scans());
    partial.collect::<Result<Vec<_>>>()?.into_iter().for_each(|part| sum.add(part));
    Ok(sum)
}
