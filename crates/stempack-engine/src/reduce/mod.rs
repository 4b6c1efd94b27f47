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
    let threads = rayon::current_num_threads();
    let pieces = if threads == 1 { 1 } else { (2 * threads).div_ceil(others.max(1)) };
    let size = items.div_ceil(pieces).max(smallest).max(1);
    (0..items).step_by(size).map(|start| start..(start + size).min(items)).collect()
}

/// Calls `work` for each item: on all threads, or here if there is but one, which then need not be woken.
fn each<T: Send>(items: Vec<T>, work: impl Fn(T) -> Result<()> + Send + Sync) -> Result<()> {
    if rayon::current_num_threads() == 1 {
        items.into_iter().try_for_each(work)
    } else {
        items.into_par_iter().try_for_each(work)
    }
}

/// Cuts `out` into the scans of each shard, which are given too.
fn split<'a, 'b, H: AsRef<Held>>(
    shards: &'a [H],
    mut out: &'b mut [u64],
) -> Vec<(&'a Held, Range<usize>, &'b mut [u64])> {
    let mut parts = Vec::with_capacity(shards.len());
    let mut first = 0;
    for held in shards {
        let held = held.as_ref();
        let scans = first..first + held.scans();
        first = scans.end;
        let (own, rest) = out.split_at_mut(held.scans());
        parts.push((held, scans, own));
        out = rest;
    }
    assert!(out.is_empty());
    parts
}

/// A change of the sums at every scan.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    /// What they were; zero without it.
    pub(crate) before: Option<&'a [u64]>,
    /// Pixels whose counts are added.
    pub(crate) add: &'a [u32],
    /// Pixels whose counts are taken away, which are in the sums before or added.
    pub(crate) take: &'a [u32],
}

impl<'a> Change<'a> {
    /// Sums of these pixels.
    pub(crate) fn anew(pixels: &'a [u32]) -> Self {
        Change { before: None, add: pixels, take: &[] }
    }
    /// What concerns the scans of one shard.
    fn part(self, scans: Range<usize>) -> Self {
        Change { before: self.before.map(|sums| &sums[scans]), ..self }
    }
}

/// Fills `out`, which has one sum for each scan of every shard, with what the change makes of the sums before.
pub(crate) fn virtual_image<H: AsRef<Held>>(
    kernel: Kernel,
    shards: &[H],
    change: Change<'_>,
    out: &mut [u64],
    task: &Task,
) -> Result<()> {
    let count = shards.len();
    each(split(shards, out), |(held, scans, out)| {
        let change = change.part(scans);
        match &held.form {
            Form::Packed(shard) => {
                let part = packed::Part { shard, max_widths: &held.max_widths };
                packed::virtual_image(kernel, &part, change, count, out, task)
            }
            Form::Arranged(planes) => {
                let part = arranged::Part { planes, max_widths: &held.max_widths };
                arranged::virtual_image(kernel, &part, change, count, out, task)
            }
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

/// The admitted pixels of each detector row and of each column.
struct Lines {
    rows: Vec<Vec<u32>>,
    cols: Vec<Vec<u32>>,
}

impl Lines {
    fn of((rows, cols): (usize, usize), excluded: &[bool]) -> Self {
        let line = |pixels: &mut dyn Iterator<Item = usize>| -> Vec<u32> {
            pixels.filter(|&p| !excluded[p]).map(|p| p as u32).collect()
        };
        Lines {
            rows: (0..rows).map(|r| line(&mut (r * cols..(r + 1) * cols))).collect(),
            cols: (0..cols).map(|c| line(&mut (c..rows * cols).step_by(cols))).collect(),
        }
    }
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
    let lines = Lines::of(detector, excluded);
    let each: Vec<ScanMoments> = shards
        .par_iter()
        .map(|held| {
            let held = held.as_ref();
            match &held.form {
                Form::Packed(shard) => {
                    let part = packed::Part { shard, max_widths: &held.max_widths };
                    packed::moments(kernel, &part, &lines, shards.len(), task)
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
