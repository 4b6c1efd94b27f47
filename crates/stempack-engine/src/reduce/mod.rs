//! Reductions over shards in either form: virtual images, pattern sums and moments, split over shards, scans and pixels.
//!
//! [`packed`] reads tiles as files hold them, [`arranged`] bit planes.

mod arranged;
mod packed;

use crate::cpu::Kernel;
use crate::held::{Form, Held};
use rayon::prelude::*;
use std::ops::Range;
use stempack_codecs::counts::Counts;
use stempack_model::{Result, Task};

/// The largest count a width can hold.
pub(crate) fn max_count(width: u8) -> u64 {
    (1 << width) - 1
}

/// Cuts `items` so that few others still occupy all threads.
fn cut(items: usize, others: usize, smallest: usize) -> Vec<Range<usize>> {
    let pieces = (2 * rayon::current_num_threads()).div_ceil(others.max(1));
    let size = items.div_ceil(pieces).max(smallest).max(1);
    (0..items).step_by(size).map(|start| start..(start + size).min(items)).collect()
}

/// Whether sums are added to what is there or taken from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Add,
    Take,
}

impl Sign {
    /// Applies one sum.
    #[inline(always)]
    fn apply(self, out: &mut u64, sum: u64) {
        match self {
            Sign::Add => *out += sum,
            Sign::Take => *out -= sum,
        }
    }
}

/// Cuts `out` into the scans of each shard.
fn split<'a, 'b, H: AsRef<Held>>(shards: &'a [H], mut out: &'b mut [u64]) -> Vec<(&'a Held, &'b mut [u64])> {
    let mut parts = Vec::with_capacity(shards.len());
    for held in shards {
        let held = held.as_ref();
        let (own, rest) = out.split_at_mut(held.scans());
        parts.push((held, own));
        out = rest;
    }
    assert!(out.is_empty());
    parts
}

/// Pixels whose sums are added or taken.
pub(crate) type Change<'a> = (Sign, &'a [u32]);

/// Makes the changes to `out`, which has one sum for each scan of every shard.
pub(crate) fn virtual_image<H: AsRef<Held>>(
    kernel: Kernel,
    shards: &[H],
    changes: &[Change<'_>],
    out: &mut [u64],
    task: &Task,
) -> Result<()> {
    let count = shards.len();
    split(shards, out).into_par_iter().try_for_each(|(held, out)| match &held.form {
        Form::Packed(shard) => {
            let part = packed::Part { shard, max_widths: &held.max_widths };
            changes.iter().filter(|(_, pixels)| !pixels.is_empty()).try_for_each(|&(sign, pixels)| {
                let sums = packed::virtual_image(kernel, &part, pixels, count, task)?;
                out.iter_mut().zip(sums).for_each(|(o, s)| sign.apply(o, s));
                Ok(())
            })
        }
        Form::Arranged(planes) => {
            let part = arranged::Part { planes, max_widths: &held.max_widths };
            arranged::virtual_image(kernel, &part, changes, count, out, task)
        }
    })
}

/// Sum over all scans of every pixel; excluded ones are left at zero.
pub(crate) fn pattern_sum<H: AsRef<Held> + Sync>(
    kernel: Kernel,
    shards: &[H],
    excluded: &[bool],
    task: &Task,
) -> Result<Vec<u64>> {
    /// Pixels that one thread takes at once.
    const BLOCK: usize = 1024;
    let mut out = vec![0u64; excluded.len()];
    out.par_chunks_mut(BLOCK).enumerate().try_for_each(|(k, sums)| {
        let first = k * BLOCK;
        let excluded = &excluded[first..first + sums.len()];
        for held in shards {
            task.check()?;
            let held = held.as_ref();
            match &held.form {
                Form::Packed(shard) => {
                    let part = packed::Part { shard, max_widths: &held.max_widths };
                    packed::pattern_sum(&part, first, excluded, sums);
                }
                Form::Arranged(planes) => {
                    planes.blocks().iter().for_each(|block| kernel.sum_pixels(block, first, None, sums));
                }
            }
        }
        // Bit planes are summed in one run, whatever is excluded.
        sums.iter_mut().zip(excluded).filter(|(_, excluded)| **excluded).for_each(|(sum, _)| *sum = 0);
        Ok(())
    })?;
    Ok(out)
}

/// Total, row and column moment of every scan.
#[derive(Default)]
pub(crate) struct ScanMoments {
    pub(crate) total: Vec<u64>,
    pub(crate) row: Vec<u64>,
    pub(crate) col: Vec<u64>,
}

impl ScanMoments {
    fn zeros(scans: usize) -> Self {
        ScanMoments { total: vec![0; scans], row: vec![0; scans], col: vec![0; scans] }
    }
    /// Appends those of later scans.
    pub(crate) fn extend(&mut self, later: ScanMoments) {
        self.total.extend(later.total);
        self.row.extend(later.row);
        self.col.extend(later.col);
    }
    /// Adds those of other pixels.
    fn add(&mut self, other: ScanMoments) {
        for (a, b) in [(&mut self.total, other.total), (&mut self.row, other.row), (&mut self.col, other.col)]
        {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        }
    }
}

/// Moments of every scan of every shard, in scan order. The caller has proved that they fit 64 bits.
pub(crate) fn moments<H: AsRef<Held> + Sync>(
    kernel: Kernel,
    shards: &[H],
    detector: (usize, usize),
    excluded: &[bool],
    task: &Task,
) -> Result<ScanMoments> {
    let lines = arranged::Lines::of(detector, excluded);
    let each: Vec<ScanMoments> = shards
        .par_iter()
        .map(|held| {
            let held = held.as_ref();
            match &held.form {
                Form::Packed(shard) => {
                    let part = packed::Part { shard, max_widths: &held.max_widths };
                    packed::moments(&part, detector, excluded, shards.len(), task)
                }
                Form::Arranged(planes) => {
                    let part = arranged::Part { planes, max_widths: &held.max_widths };
                    arranged::moments(kernel, &part, &lines, shards.len(), task)
                }
            }
        })
        .collect::<Result<_>>()?;
    let mut all = ScanMoments::default();
    each.into_iter().for_each(|m| all.extend(m));
    Ok(all)
}
