//! Floats straight from a source: frames are read once, in windows of 512 scan positions, while the window before is
//! compressed.

use super::{Floats, less};
use crate::cpu::Kernel;
use crate::error::EngineCode;
use std::sync::Arc;
use stempack_codecs::floats::{BLOCK_SCANS, FloatBlock, Range, block_of_frames};
use stempack_containers::qem::{Background, QemFile};
use stempack_model::{Error, FrameSource, Result, SampleType, Samples, SamplesRef, Task};
use stempack_products::{FrameSourceProducts, Products};

impl Floats {
    /// See [`Resident::from_source`](crate::Resident::from_source).
    pub(crate) fn from_source(
        source: &Arc<dyn FrameSource>,
        given: Option<Background>,
        task: &Task,
    ) -> Result<Self> {
        let shape = FrameSourceProducts::new(source.clone())?.shape();
        let acquisition = source.acquisition();
        if acquisition.sample != SampleType::F32 {
            return Err(Error::new(
                EngineCode::SampleType,
                format!(
                    "`{}` holds {} samples, which are neither counts of 16 bits nor float32",
                    acquisition.label, acquisition.sample
                ),
            )
            .hint("ask the original"));
        }
        let background = background_of(source.as_ref(), given)?;
        let (pixels, total) = (shape.detector.pixels(), shape.scan.positions());
        let tables = (pixels * (size_of::<Range>() + if background.is_some() { 4 } else { 0 })) as u64;
        let mut held = tables;
        let mut blocks: Vec<FloatBlock> = Vec::new();
        check_budget(held, (0, total), pixels, task)?;
        let quiet = task.quiet();
        let read = |first: usize, into: &mut Samples| {
            let count = BLOCK_SCANS.min(total - first) * pixels;
            source.read(first as u64, into.head_mut(count), &quiet)
        };
        let mut window = Samples::zeroed(SampleType::F32, BLOCK_SCANS.min(total) * pixels);
        let mut ahead = Samples::zeroed(SampleType::F32, 0);
        task.begin("read", 4 * (total * pixels) as u64);
        read(0, &mut window)?;
        for first in (0..total).step_by(BLOCK_SCANS) {
            task.check()?;
            check_budget(held, (first, total), pixels, task)?;
            let (next, count) = (first + BLOCK_SCANS, BLOCK_SCANS.min(total - first) * pixels);
            if next < total && ahead.is_empty() {
                ahead = Samples::zeroed(SampleType::F32, window.len());
            }
            let (filled, block) = rayon::join(
                || if next < total { read(next, &mut ahead) } else { Ok(()) },
                || block_of_frames(floats(window.head(count)), pixels),
            );
            filled?;
            held += block.resident_bytes();
            blocks.push(block);
            task.advance(4 * count as u64);
            std::mem::swap(&mut window, &mut ahead);
        }
        task.finish();
        source.check_unchanged()?;
        let mut excluded = vec![false; pixels];
        acquisition.excluded.pixels.iter().for_each(|&p| excluded[p as usize] = true);
        let dark = background.as_ref().map(|background| &background.values[..]);
        let over_blocks = |pixel| {
            let raw = blocks.iter().fold(Range::ZERO, |range, block| range.with(block.range(pixel)));
            less(raw, dark, pixel)
        };
        let ranges = (0..pixels).map(over_blocks).collect();
        Ok(Floats {
            shape,
            exclusions: acquisition.excluded.clone(),
            excluded,
            blocks,
            ranges,
            background,
            kernel: Kernel::detect(),
        })
    }
}

fn floats(samples: SamplesRef<'_>) -> &[f32] {
    if let SamplesRef::F32(floats) = samples { floats } else { &[] }
}

/// What is taken from the samples: what is given, or what the file carries, and never both.
fn background_of(source: &dyn FrameSource, given: Option<Background>) -> Result<Option<Background>> {
    let file = source.as_container().and_then(|any| any.downcast_ref::<QemFile>());
    let saved = file.map_or(Ok(None), QemFile::background)?;
    match (given, saved) {
        (Some(_), Some(_)) => Err(Error::new(
            EngineCode::DarkTwice,
            format!("`{}` carries a mean dark frame already", source.acquisition().label),
        )
        .hint("use it as it is; a second subtraction would be wrong")),
        (given, saved) => Ok(given.or(saved)),
    }
}

/// Two windows, the block that one of them becomes, and its parts until they are put together.
fn check_budget(held: u64, (first, total): (usize, usize), pixels: usize, task: &Task) -> Result<()> {
    let scans = BLOCK_SCANS.min(total);
    let windows = if total > BLOCK_SCANS { 2 } else { 1 };
    let window = (4 * scans as u64).saturating_mul(pixels as u64);
    let block = FloatBlock::bound_bytes(scans, pixels);
    let needed = held.saturating_add(window.saturating_mul(windows)).saturating_add(block.saturating_mul(2));
    if needed <= task.memory_budget() {
        return Ok(());
    }
    Err(Error::new(
        EngineCode::OverBudget,
        format!(
            "after {first} of {total} scan positions the resident takes up to {needed} bytes of memory with the next, \
             the budget is {}",
            task.memory_budget()
        ),
    )
    .hint("allow more with --max-memory")
    .with("needed_bytes", needed))
}
