//! A resident straight from an original. Blocks of 512 scan positions are made side by side: each thread reads its own
//! block once, in windows that the caches hold, and turns them into bit planes as they come. No file is written; whether
//! the resident holds what the source holds is [`Resident::check_against`].

use crate::error::EngineCode;
use crate::floats::Floats;
use crate::frames::Frames;
use crate::held::{Form, Held};
use crate::marks::Marks;
use crate::resident::{Contents, Resident};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stempack_codecs::planes::{
    BLOCK_SCANS, FrameTurner, PlaneBlock, PlaneShard, TRANSPOSED_BLOCK_BYTES, TURN_SCANS,
};
use stempack_containers::pack::{FrameDecoder, RawAccess};
use stempack_model::{Error, FrameSource, Result, SampleType, Samples, SamplesRef, Shape4, Task};
use stempack_products::{FrameSourceProducts, Products};

impl Resident {
    /// Reads every frame of an acquisition whose scan shape is known, and whose admitted counts fit 16 bits or whose
    /// samples are `float32`. Of floats every bit is kept, and a mean dark frame that a `.qem` file carries is taken from
    /// everything but raw frames.
    ///
    /// An excluded pixel may hold more, as detectors mark it with the largest number of their type, if it holds the same
    /// at every scan position. Besides what the resident grows to, memory holds for each thread a window of 64 frames, or
    /// 512 where files store many together, and the planes of 512. This is compared with the task's budget before each
    /// block of 512, and where it would be too much, fewer threads work.
    ///
    /// # Errors
    /// `missing_scan_shape`, `scan_frame_mismatch`; `resident_sample_type` for `float64`; `count_too_large` and
    /// `excluded_pixel_not_constant`, naming scan position and pixel; `resident_over_budget`; those of the source;
    /// `cancelled`. Of several failures that of the earliest block.
    pub fn from_source(source: &Arc<dyn FrameSource>, task: &Task) -> Result<Self> {
        let shape = FrameSourceProducts::new(source.clone())?.shape();
        let acquisition = source.acquisition();
        if acquisition.sample.is_float() {
            let floats = Floats::from_source(source, None, task)?;
            return Ok(Resident(Contents::Floats(Box::new(floats))));
        }
        let plan = Plan::new(source.as_ref(), shape, task);
        plan.check_budget(0, 0, 1)?;
        let marks = Marks::of(source.as_ref(), &task.quiet())?;
        let total_bytes = (shape.scan.positions() * plan.pixels * acquisition.sample.bytes()) as u64;
        task.begin("read", total_bytes);
        let makers = plan.makers();
        let yard = Mutex::new(Yard { makers, max_widths: vec![0; plan.pixels], ..Yard::default() });
        rayon::scope(|scope| {
            (0..makers).for_each(|_| scope.spawn(|_| Maker::new(&plan, &marks).work(&yard)));
        });
        let yard = yard.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, error)) = yard.failure {
            return Err(error);
        }
        task.finish();
        source.check_unchanged()?;
        let mut blocks = yard.blocks;
        blocks.sort_unstable_by_key(|(number, _)| *number);
        let held = Held {
            form: Form::Arranged(PlaneShard::new(plan.pixels, blocks.into_iter().map(|b| b.1).collect())),
            max_widths: yard.max_widths,
            map: None,
        };
        let exclusions = acquisition.excluded.clone();
        let access = match (exclusions.pixels.is_empty(), marks.constants().is_empty()) {
            (true, _) => RawAccess::NoExclusions,
            (_, true) => RawAccess::RetainedPayload,
            _ => RawAccess::ExclusionConstants,
        };
        let working = FrameDecoder::working(acquisition.sample, exclusions.pixels.clone());
        let raw = FrameDecoder::raw(acquisition.sample, marks.constants());
        let frames = Frames::of_source(shape, exclusions, marks.into_excluded(), working, raw);
        Ok(Resident::of(frames, vec![held], access, None))
    }
}

/// What is to be made, and in what memory.
struct Plan<'a> {
    source: &'a dyn FrameSource,
    sample: SampleType,
    pixels: usize,
    /// Scan positions.
    total: usize,
    /// Frames read at once.
    window: usize,
    /// Bytes of memory that making a block takes.
    working: u64,
    task: &'a Task,
    /// For what is a part of this work.
    quiet: Task,
}

impl<'a> Plan<'a> {
    fn new(source: &'a dyn FrameSource, shape: Shape4, task: &'a Task) -> Self {
        let (sample, pixels) = (source.acquisition().sample, shape.detector.pixels());
        // Frames that are turned at once, or a whole block's where files store frames together in another way, for what
        // is read in parts is decoded again for each of them.
        let apart = (TURN_SCANS as u64).is_multiple_of(source.frames_together());
        let window = if apart { TURN_SCANS } else { BLOCK_SCANS };
        // A window, 64 of its frames as 16-bit counts, a block in the making and what it becomes.
        let width = max_width(sample);
        let working = (pixels * (window * sample.bytes() + TURN_SCANS * 2)) as u64
            + FrameTurner::held_bytes(pixels, width)
            + PlaneBlock::bound_bytes(pixels, width);
        let total = shape.scan.positions();
        Plan { source, sample, pixels, total, window, working, task, quiet: task.quiet() }
    }

    fn blocks(&self) -> usize {
        self.total.div_ceil(BLOCK_SCANS)
    }

    /// How many blocks are made side by side: half of the memory is left to what they become.
    fn makers(&self) -> usize {
        let room = (self.task.memory_budget() / 2 / self.working).try_into().unwrap_or(usize::MAX);
        rayon::current_num_threads().min(self.blocks()).min(room).max(1)
    }

    /// Refuses what may need too much memory until the `makers` blocks from `first` on are held besides `held` bytes.
    fn check_budget(&self, held: u64, first: usize, makers: usize) -> Result<()> {
        let (needed, budget) = (held + self.working * makers as u64, self.task.memory_budget());
        if needed <= budget {
            return Ok(());
        }
        Err(Error::new(
            EngineCode::OverBudget,
            format!(
                "after {first} of {} scan positions the resident takes up to {needed} bytes of memory with the next, the \
                 budget is {budget}",
                self.total
            ),
        )
        .hint("allow more with --max-memory")
        .with("needed_bytes", needed))
    }
}

/// Bits of the counts that are kept of a sample type.
fn max_width(sample: SampleType) -> u8 {
    if sample == SampleType::U8 { 8 } else { 16 }
}

/// Where the makers of blocks meet.
#[derive(Default)]
struct Yard {
    /// Makers at work.
    makers: usize,
    /// The number of the next block.
    next: usize,
    /// Blocks that are done, with their numbers.
    blocks: Vec<(usize, PlaneBlock)>,
    held_bytes: u64,
    /// Of each pixel in the blocks that are done.
    max_widths: Vec<u8>,
    /// The failure of the earliest block that failed.
    failure: Option<(usize, Error)>,
}

impl Yard {
    /// The block that a maker makes next; none if it is no longer needed, or if there is memory for fewer makers.
    fn next(&mut self, plan: &Plan<'_>) -> Option<usize> {
        let number = self.next;
        let room = plan.check_budget(self.held_bytes, number * BLOCK_SCANS, self.makers);
        if number == plan.blocks() || self.failure.is_some() || room.is_err() {
            self.makers -= 1;
            if number < plan.blocks()
                && self.makers == 0
                && let Err(error) = room
            {
                self.fail(number, error);
            }
            return None;
        }
        self.next += 1;
        Some(number)
    }

    fn fail(&mut self, number: usize, error: Error) {
        if self.failure.as_ref().is_none_or(|(earliest, _)| number < *earliest) {
            self.failure = Some((number, error));
        }
    }

    fn take(&mut self, number: usize, block: PlaneBlock) {
        for (pixel, widest) in self.max_widths.iter_mut().enumerate() {
            *widest = (*widest).max(block.width(pixel));
        }
        self.held_bytes += block.resident_bytes();
        self.blocks.push((number, block));
    }
}

/// Makes one block after another.
struct Maker<'a> {
    plan: &'a Plan<'a>,
    marks: &'a Marks,
    window: Samples,
    counts: Vec<u16>,
    turner: FrameTurner,
    /// Blocks of a transposed frame.
    blocks: usize,
    /// Which planes are present in each block of the frames of the window.
    planes: Vec<u16>,
    /// Whether the source leaves the bits of its frames transposed, as far as is known.
    transposed: bool,
}

impl<'a> Maker<'a> {
    fn new(plan: &'a Plan<'a>, marks: &'a Marks) -> Self {
        let frames = plan.window.min(plan.total);
        let blocks = (plan.pixels * plan.sample.bytes()).div_ceil(TRANSPOSED_BLOCK_BYTES);
        Maker {
            plan,
            marks,
            window: Samples::zeroed(plan.sample, frames * plan.pixels),
            counts: Vec::new(),
            turner: FrameTurner::new(plan.pixels, max_width(plan.sample)),
            blocks,
            planes: vec![0; frames * blocks],
            transposed: matches!(plan.sample, SampleType::U8 | SampleType::U16),
        }
    }

    fn work(mut self, yard: &Mutex<Yard>) {
        // What stands there is whole at any time.
        let lock = || -> MutexGuard<'_, Yard> { yard.lock().unwrap_or_else(PoisonError::into_inner) };
        loop {
            let Some(number) = lock().next(self.plan) else { return };
            let made = self.block(number);
            match made {
                Ok(block) => lock().take(number, block),
                Err(error) => lock().fail(number, error),
            }
        }
    }

    fn block(&mut self, number: usize) -> Result<PlaneBlock> {
        let Plan { source, pixels, total, window, .. } = *self.plan;
        let begin = number * BLOCK_SCANS;
        let end = total.min(begin + BLOCK_SCANS);
        for first in (begin..end).step_by(window) {
            let count = window.min(end - first);
            if self.transposed {
                let into = self.window.head_mut(count * pixels);
                let planes = &mut self.planes[..count * self.blocks];
                self.transposed = source.read_transposed(first as u64, into, planes, &self.plan.quiet)?;
            }
            if !self.transposed {
                source.read(first as u64, self.window.head_mut(count * pixels), &self.plan.quiet)?;
            }
            for part in (0..count).step_by(TURN_SCANS) {
                self.turn(first + part, part..count.min(part + TURN_SCANS))?;
            }
        }
        Ok(self.turner.finish())
    }

    /// Turns frames of the window, the first of which is that of scan position `first`.
    fn turn(&mut self, first: usize, frames: Range<usize>) -> Result<()> {
        let Plan { pixels, sample, task, .. } = *self.plan;
        task.check()?;
        let (counts, bytes) =
            (frames.start * pixels..frames.end * pixels, frames.len() * pixels * sample.bytes());
        if self.transposed {
            let from = frames.start * pixels * sample.bytes();
            let mut window = self.window.as_mut();
            let window = &window.as_bytes_mut()[from..from + bytes];
            let planes = &self.planes[frames.start * self.blocks..frames.end * self.blocks];
            self.turner.push_transposed(window, sample.bytes(), planes);
        } else {
            match self.window.as_ref().slice(counts) {
                SamplesRef::U8(counts) => self.turner.push(counts),
                SamplesRef::U16(counts) => self.turner.push(counts),
                other => {
                    self.marks.counts(other, first, &mut self.counts)?;
                    self.turner.push(&self.counts);
                }
            }
        }
        task.advance(bytes as u64);
        Ok(())
    }
}
