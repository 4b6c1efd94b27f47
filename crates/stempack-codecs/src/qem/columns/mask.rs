//! Which whole fields and which single pixels a detector mask is made of.

use super::spatial::{Field, fields};
use super::{Chunk, Spatial};
use stempack_model::{DetectorShape, Result, Task};

/// The sum of a detector mask as whole fields plus single pixels minus single pixels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaskPlan {
    /// Fields to add, rising.
    pub fields: Vec<usize>,
    /// Pixels to add, rising.
    pub pixels: Vec<u32>,
    /// Pixels of added fields that are not in the mask, rising; empty unless the plan was made to subtract.
    pub minus: Vec<u32>,
}

/// Plans the sum of the valid pixels of a mask: 32×32 tiles that lie wholly inside, then 8×8 tiles, then pixels.
///
/// A tile lies inside when all its valid pixels are members, and it has one.
///
/// # Panics
/// When `members` or `valid` does not have one element per pixel.
pub fn plan_mask(detector: DetectorShape, members: &[bool], valid: &[bool]) -> MaskPlan {
    plan(detector, members, valid, false)
}

/// Like [`plan_mask`], but an 8×8 tile with more members than others is added whole and the others are subtracted:
/// fewer pixels to decode along the border.
///
/// # Panics
/// As [`plan_mask`].
pub fn plan_mask_subtracting(detector: DetectorShape, members: &[bool], valid: &[bool]) -> MaskPlan {
    plan(detector, members, valid, true)
}

fn plan(detector: DetectorShape, members: &[bool], valid: &[bool], subtract: bool) -> MaskPlan {
    assert!(members.len() == detector.pixels() && valid.len() == detector.pixels(), "one element per pixel");
    let pixels_of = |field: &Field| {
        let (rows, cols) = (field.rows.clone(), field.cols.clone());
        rows.flat_map(move |row| cols.clone().map(move |col| row * detector.cols() + col))
    };
    let mut covered = vec![false; detector.pixels()];
    let mut plan = MaskPlan::default();
    let all = fields(detector);
    let small_count = detector.rows().div_ceil(8) * detector.cols().div_ceil(8);
    // From the last field: large tiles come first.
    for (index, field) in all.iter().enumerate().rev() {
        let (mut inside, mut outside) = (0, 0);
        for pixel in pixels_of(field).filter(|&p| valid[p] && !covered[p]) {
            if members[pixel] { inside += 1 } else { outside += 1 }
        }
        let whole = inside > 0 && outside == 0;
        if whole || subtract && index < small_count && inside > outside + 1 {
            plan.fields.push(index);
            for pixel in pixels_of(field) {
                covered[pixel] = true;
                if valid[pixel] && !members[pixel] {
                    plan.minus.push(pixel as u32);
                }
            }
        }
    }
    plan.fields.reverse();
    plan.minus.sort_unstable();
    plan.pixels =
        (0..detector.pixels()).filter(|&p| members[p] && valid[p] && !covered[p]).map(|p| p as u32).collect();
    plan
}

impl MaskPlan {
    /// Adds to `sums`, one per scan position of the chunk, the mask's sums.
    ///
    /// # Errors
    /// As [`Chunk::add_pixels`].
    ///
    /// # Panics
    /// When `sums` does not have one element per scan position, or plan, index and chunk are of different detectors.
    pub fn apply(
        &self,
        chunk: &Chunk<'_>,
        spatial: &Spatial<'_>,
        sums: &mut [u64],
        task: &Task,
    ) -> Result<()> {
        for &field in &self.fields {
            spatial.add_field(field, sums);
        }
        chunk.add_pixels(&self.pixels, sums, task)?;
        if !self.minus.is_empty() {
            let mut minus = vec![0; sums.len()];
            chunk.add_pixels(&self.minus, &mut minus, task)?;
            // Wrapping, because an index that lies about a sum must not become a panic.
            sums.iter_mut().zip(minus).for_each(|(sum, less)| *sum = sum.wrapping_sub(less));
        }
        Ok(())
    }
}
