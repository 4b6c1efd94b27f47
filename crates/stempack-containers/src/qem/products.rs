//! Exact sums straight from the encoded streams: whole tiles from the spatial index, border pixels decoded.
//!
//! Excluded pixels are zero everywhere. Float files have no exact integer sums; their products are made of frames.

use super::QemFile;
use super::layout::Block;
use crate::ContainerCode;
use rayon::prelude::*;
use stempack_codecs::qem::columns;
use stempack_model::{Error, FrameSource, ModelCode, Result, Samples, SamplesRef, Task};

/// Exact moments of every frame, one entry for each scan position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemMoments {
    /// Σ count.
    pub total: Vec<u64>,
    /// Σ det_row · count.
    pub row: Vec<u64>,
    /// Σ det_col · count.
    pub col: Vec<u64>,
}

impl QemFile {
    /// Whether the file holds counts, of which the sums here are made.
    pub fn has_counts(&self) -> bool {
        self.header.codec == super::QemCodec::Columns
    }

    fn valid(&self) -> Result<&[bool]> {
        self.header.valid.as_deref().filter(|_| self.has_counts()).ok_or_else(|| {
            Error::new(
                ContainerCode::NotCounts,
                format!("`{}` holds floats, which have no exact integer sums", self.described().label),
            )
        })
    }

    /// Σ of the counts of the member pixels at every scan position; excluded pixels never count.
    ///
    /// # Errors
    /// `not_counts`; `out_of_range` for a mask of another detector; those of reading; `cancelled`.
    pub fn virtual_sums(&self, members: &[bool], task: &Task) -> Result<Vec<u64>> {
        let (valid, detector) = (self.valid()?, self.shape().detector);
        if members.len() != detector.pixels() {
            return Err(Error::new(
                ModelCode::OutOfRange,
                format!("a mask of {} pixels is no mask of a {detector} detector", members.len()),
            ));
        }
        self.check_room(8, task)?;
        let plan = columns::plan_mask_subtracting(detector, members, valid);
        let decodes = !(plan.pixels.is_empty() && plan.minus.is_empty());
        let mut sums = vec![0u64; self.shape().scan.positions()];
        self.each_block("virtual image", &mut sums, task, |block, sums, task| {
            let Some(spatial) = self.encoded_spatial(block, task)? else {
                return Err(Error::new(ContainerCode::QemLayout, "the chunk has no spatial index"));
            };
            self.with_spatial(block, &spatial, |spatial| {
                for &field in &plan.fields {
                    spatial.add_field(field, sums);
                }
                Ok(())
            })?;
            if !decodes {
                return Ok(());
            }
            let encoded = self.encoded(block, task)?;
            self.with_columns(block, &encoded, |chunk| {
                chunk.add_pixels(&plan.pixels, sums, task)?;
                if plan.minus.is_empty() {
                    return Ok(());
                }
                let mut minus = vec![0; sums.len()];
                chunk.add_pixels(&plan.minus, &mut minus, task)?;
                for (scan, (sum, less)) in sums.iter_mut().zip(minus).enumerate() {
                    // Only an index that contradicts the counts can make this fail.
                    *sum = sum.checked_sub(less).ok_or_else(|| {
                        Error::new(
                            ContainerCode::QemSpatialIndex,
                            format!("scan position {scan} of the block: tile sums fall short of the counts in them"),
                        )
                    })?;
                }
                Ok(())
            })
        })?;
        Ok(sums)
    }

    /// A few bytes of zeros can stand for any number of scan positions; their results may still not fit.
    fn check_room(&self, bytes_a_position: u64, task: &Task) -> Result<()> {
        let needed = self.shape().scan.positions() as u64 * bytes_a_position;
        if needed <= task.memory_budget() / 2 {
            return Ok(());
        }
        Err(Error::new(
            ModelCode::OverBudget,
            format!(
                "results for {} take {needed} bytes, half of {} may be used",
                self.shape().scan,
                task.memory_budget()
            ),
        ))
    }

    /// Runs `with` on every block and its part of `sums`, in parallel, a bounded number of blocks at a time.
    fn each_block(
        &self,
        phase: &str,
        sums: &mut [u64],
        task: &Task,
        with: impl Fn(Block, &mut [u64], &Task) -> Result<()> + Sync,
    ) -> Result<()> {
        let quiet = task.quiet();
        let mut rest = sums;
        let mut blocks = self.header.layout.blocks();
        task.begin(phase, self.header.body_bytes);
        loop {
            let mut window = Vec::new();
            for block in blocks.by_ref().take(2 * rayon::current_num_threads()) {
                let (mine, later) = rest.split_at_mut(block.scans);
                rest = later;
                window.push((block, mine));
            }
            if window.is_empty() {
                break;
            }
            let scans: usize = window.iter().map(|w| w.0.scans).sum();
            window.into_par_iter().try_for_each(|(block, mine)| {
                task.check()?;
                with(block, mine, &quiet)
            })?;
            let share = scans as f64 / self.shape().scan.positions() as f64;
            task.advance((self.header.body_bytes as f64 * share) as u64);
        }
        task.finish();
        self.check_unchanged()
    }

    /// Σ of the counts of all scan positions at every detector pixel, zero at excluded ones.
    ///
    /// # Errors
    /// `not_counts`; those of reading; `cancelled`.
    pub fn pattern_sums(&self, task: &Task) -> Result<Vec<u64>> {
        let valid = self.valid()?;
        let mut sums = vec![0u64; self.shape().detector.pixels()];
        let quiet = task.quiet();
        task.begin("pattern sum", self.header.body_bytes);
        let blocks = self.header.layout.block_count().max(1);
        for block in self.header.layout.blocks() {
            task.check()?;
            let encoded = self.encoded(block, &quiet)?;
            // 2^40 scan positions of 16-bit counts stay far below 2^64.
            self.with_columns(block, &encoded, |chunk| chunk.pattern_sums(&mut sums, &quiet))?;
            task.advance(self.header.body_bytes / blocks);
        }
        task.finish();
        sums.iter_mut().zip(valid).for_each(|(sum, &valid)| *sum *= u64::from(valid));
        self.check_unchanged()?;
        Ok(sums)
    }

    /// Total and first moments of every frame.
    ///
    /// # Errors
    /// `not_counts`; those of reading; `cancelled`.
    pub fn moments(&self, task: &Task) -> Result<QemMoments> {
        self.valid()?;
        self.check_room(24, task)?;
        let (rows, cols) = (self.shape().detector.rows() as u128, self.shape().detector.cols() as u128);
        let most = u128::from(self.header.stored.max_unsigned().unwrap_or_default());
        if rows * cols * rows.max(cols) * most > u128::from(u64::MAX) {
            return Err(Error::new(
                ModelCode::OverBudget,
                format!("moments of a {} detector may exceed 64 bits", self.shape().detector),
            ));
        }
        let n = self.shape().scan.positions();
        let (detector, excluded) = (self.shape().detector, &self.described().excluded.pixels);
        let mut m = QemMoments { total: vec![0; n], row: vec![0; n], col: vec![0; n] };
        let pixels = detector.pixels();
        let sample = self.described().sample;
        // A window of whole blocks' frames where the budget holds them.
        let most = (task.memory_budget() / 4) as usize / (pixels * sample.bytes());
        let window = most.clamp(1, super::INTERVAL).min(n);
        let mut frames = Samples::zeroed(sample, window * pixels);
        let quiet = task.quiet();
        task.begin("moments", (n * pixels * sample.bytes()) as u64);
        let mut first = 0;
        while first < n {
            task.check()?;
            let block = self.header.layout.block_at(first as u64);
            let count = window.min(block.stop() as usize - first);
            self.read(first as u64, frames.head_mut(count * pixels), &quiet)?;
            let out = m.total[first..first + count]
                .par_iter_mut()
                .zip(&mut m.row[first..first + count])
                .zip(&mut m.col[first..first + count])
                .enumerate();
            let frames = frames.as_ref();
            out.for_each(|(i, ((total, row), col))| {
                let frame = frames.slice(i * pixels..(i + 1) * pixels);
                [*total, *row, *col] = match frame {
                    SamplesRef::U8(v) => frame_moments(v, detector.cols(), excluded),
                    SamplesRef::U16(v) => frame_moments(v, detector.cols(), excluded),
                    _ => [0; 3],
                };
            });
            first += count;
            task.advance((count * pixels * sample.bytes()) as u64);
        }
        task.finish();
        self.check_unchanged()?;
        Ok(m)
    }
}

/// Σ 1, Σ row and Σ column of one frame, without its excluded pixels.
///
/// The caller has shown that no moment exceeds 64 bits.
fn frame_moments<T: Copy + Into<u64>>(frame: &[T], cols: usize, excluded: &[u32]) -> [u64; 3] {
    let [mut total, mut by_row, mut by_col] = [0u64; 3];
    for (r, row) in frame.chunks_exact(cols).enumerate() {
        let (mut sum, mut moment) = (0u64, 0u64);
        for (c, &count) in row.iter().enumerate() {
            let count: u64 = count.into();
            sum += count;
            moment += c as u64 * count;
        }
        total += sum;
        by_row += r as u64 * sum;
        by_col += moment;
    }
    for &p in excluded {
        let (count, p): (u64, usize) = (frame[p as usize].into(), p as usize);
        total -= count;
        by_row -= (p / cols) as u64 * count;
        by_col -= (p % cols) as u64 * count;
    }
    [total, by_row, by_col]
}
