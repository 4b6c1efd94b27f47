//! Whether what was measured is right: compared in the same run with ways that share no kernel with it.

use super::streams::plain_frame;
use crate::{
    Check, DetectorMask, FrameSource, FrameSourceProducts, Moments, Products, Result, ScanShape, Shape4,
    Sums, Task, reference,
};
use std::sync::Arc;

/// Scan positions that the plain definitions are asked about; they take about a second for a million samples.
const SAMPLED: usize = 8;

/// Equal numbers, whatever their width; floats bit for bit.
pub(super) fn same(a: &Sums, b: &Sums) -> bool {
    match (a.to_u64(), b.to_u64()) {
        (Some(a), Some(b)) => a == b,
        _ => {
            let bits = |s: &Sums| s.to_f64().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            bits(a) == bits(b)
        }
    }
}

/// The image under `mask`, the pattern sum and the moments, against the same summed frame by frame by generic code.
pub(super) fn frame_by_frame(
    products: &dyn Products,
    frames: Arc<dyn FrameSource>,
    mask: &DetectorMask,
    checks: &mut Vec<Check>,
    task: &Task,
) -> Result<()> {
    let plain = FrameSourceProducts::new(frames)?;
    let mut push = |name, ok, detail: &str| checks.push(Check { name, ok, detail: detail.into() });
    let (a, b) = (products.virtual_image(mask, task)?, plain.virtual_image(mask, task)?);
    push("image_by_frames", same(&a.values, &b.values), "the image equals the one added up frame by frame");
    let (a, b) = (products.pattern_sum(task)?, plain.pattern_sum(task)?);
    push("mean_by_frames", same(&a.sums, &b.sums), "the mean pattern equals the one added up frame by frame");
    let (a, b) = (products.moments(task)?, plain.moments(task)?);
    push("com_by_frames", same_moments(&a, &b), "the moments equal those added up frame by frame");
    Ok(())
}

fn same_moments(a: &Moments, b: &Moments) -> bool {
    same(&a.total, &b.total) && same(&a.row, &b.row) && same(&a.col, &b.col)
}

/// Image and moments at some scan positions, against the plain definitions.
pub(super) fn reference(
    products: &dyn Products,
    mask: &DetectorMask,
    checks: &mut Vec<Check>,
    task: &Task,
) -> Result<()> {
    let shape = products.shape();
    let positions = shape.scan.positions();
    let n = SAMPLED.min(positions);
    let at: Vec<usize> = (0..n).map(|k| k * (positions - 1) / n.saturating_sub(1).max(1)).collect();
    let mut frames = Vec::with_capacity(n);
    for &position in &at {
        frames.push(plain_frame(products, position)?.0);
    }
    let sampled = Shape4 { scan: ScanShape::new(1, n as u64)?, detector: shape.detector };
    let (members, cols) = (mask.members(), shape.detector.cols());
    let frame = |k: usize| frames[k].clone();
    let image = reference::virtual_image(sampled, &frame, products.exclusions(), &|row, col| {
        members[row * cols + col]
    });
    let moments = reference::moments(sampled, &frame, products.exclusions());
    let (whole, all) = (products.virtual_image(mask, task)?, products.moments(task)?);
    let pick = |sums: &Sums| match sums.to_u64() {
        Some(v) => Sums::U64(at.iter().map(|&p| v[p]).collect()),
        None => {
            let v = sums.to_f64();
            Sums::F64(at.iter().map(|&p| v[p]).collect())
        }
    };
    let ok = image.is_some_and(|image| same(&pick(&whole.values), &image))
        && moments.is_some_and(|m| {
            same(&pick(&all.total), &m.total)
                && same(&pick(&all.row), &m.row)
                && same(&pick(&all.col), &m.col)
        });
    checks.push(Check {
        name: "definitions",
        ok,
        detail: format!("image and moments at {n} scan positions equal the plain definitions"),
    });
    Ok(())
}
