//! Sums at every scan position that pixels are added to and taken from.
//!
//! A sum that is proved exact is kept in two parts: rounded, and what rounding left. Together they are the sum itself, so
//! whatever is added and taken away afterwards, the rounded part is what summing anew gives, bit for bit. In a block of
//! scans where that is not proved, for the pixels before and after together, the sums are made anew: above all when a
//! sample that is NaN or infinite was or is among them, which no subtraction gets rid of.

use super::Floats;
use crate::cpu::floats::{FloatSums, Terms, Way};
use rayon::prelude::*;
use stempack_codecs::floats::{BLOCK_SCANS, FloatBlock};
use stempack_model::{Result, Task};

/// Sums at every scan position.
pub(crate) struct FloatMap {
    sums: Vec<f64>,
    /// What rounding left, in blocks whose sums are exact.
    rests: Vec<f64>,
}

impl FloatMap {
    pub(crate) fn sums(&self) -> &[f64] {
        &self.sums
    }
    pub(crate) fn into_sums(self) -> Vec<f64> {
        self.sums
    }
}

/// The part of a map that belongs to a block.
struct Part<'a> {
    sums: &'a mut [f64],
    rests: &'a mut [f64],
}

impl Floats {
    /// Sums of nothing, which are exact.
    pub(crate) fn empty_map(&self) -> FloatMap {
        let positions = self.shape.scan.positions();
        FloatMap { sums: vec![0.0; positions], rests: vec![0.0; positions] }
    }

    /// Sums pixels, which are in order, anew.
    pub(crate) fn rebase(&self, pixels: &[u32], map: &mut FloatMap, task: &Task) -> Result<()> {
        let whole = self.way(self.range(pixels.iter().copied()), pixels.len(), 1);
        self.each_block(map, task, |_, block, part| self.anew(block, pixels, whole, part))
    }

    /// Goes on from sums `before`: pixels come and go, and all those that are there in the end are given in order too.
    pub(crate) fn step(
        &self,
        before: &FloatMap,
        add: &[u32],
        take: &[u32],
        all: &[u32],
        map: &mut FloatMap,
        task: &Task,
    ) -> Result<()> {
        // Those before and those after.
        let both = || all.iter().chain(take).copied();
        let terms = all.len() + take.len();
        let whole = self.way(self.range(both()), terms, 1);
        self.each_block(map, task, |k, block, part| {
            let way =
                if whole.is_exact() { whole } else { self.way(self.block_range(block, both()), terms, 1) };
            if !way.is_exact() {
                return self.anew(block, all, Way::Rule, part);
            }
            // What is exact for all of these pixels was so for those before, which are fewer: their rests are there.
            let scans = k * BLOCK_SCANS..k * BLOCK_SCANS + block.scans();
            let mut sums = FloatSums::new(way);
            sums.begin(way, &before.sums[scans.clone()], &before.rests[scans]);
            for (pixels, taken) in [(add, false), (take, true)] {
                let terms = Terms { block, pixels, dark: self.dark(), taken };
                self.kernel.add_floats(&terms, way, &mut sums);
            }
            sums.end(way, part.sums, part.rests);
        })
    }

    fn each_block(
        &self,
        map: &mut FloatMap,
        task: &Task,
        fill: impl Fn(usize, &FloatBlock, Part<'_>) + Sync,
    ) -> Result<()> {
        let parts = map.sums.par_chunks_mut(BLOCK_SCANS).zip(map.rests.par_chunks_mut(BLOCK_SCANS));
        self.blocks.par_iter().zip(parts).enumerate().try_for_each(|(k, (block, (sums, rests)))| {
            task.check()?;
            fill(k, block, Part { sums, rests });
            Ok(())
        })
    }

    /// Sums a block; `whole` is the way that suffices for all blocks.
    fn anew(&self, block: &FloatBlock, pixels: &[u32], whole: Way, part: Part<'_>) {
        let way = if whole == Way::Plain {
            whole
        } else {
            self.way(self.block_range(block, pixels.iter().copied()), pixels.len(), 1)
        };
        let mut sums = FloatSums::new(way);
        let terms = Terms { block, pixels, dark: self.dark(), taken: false };
        self.kernel.add_floats(&terms, way, &mut sums);
        sums.end(way, part.sums, part.rests);
    }
}
