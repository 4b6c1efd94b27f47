//! A resident straight from an original: frames are read once, in windows that the caches hold, and turned into bit planes
//! as they come. No file is written; whether the resident holds what the source holds is [`Resident::check_against`].

use crate::error::EngineCode;
use crate::floats::Floats;
use crate::frames::Frames;
use crate::held::{Form, Held};
use crate::resident::{Contents, Resident};
use rayon::prelude::*;
use std::sync::Arc;
use stempack_codecs::planes::{BLOCK_SCANS, FrameTurner, PlaneBlock, PlaneShard, TURN_SCANS};
use stempack_containers::pack::{FrameDecoder, RawAccess};
use stempack_model::{
    Acquisition, Error, FrameSource, Result, SampleType, Samples, SamplesRef, Shape4, Task,
};
use stempack_products::{FrameSourceProducts, Products};

/// What a count must fit: 16 bits.
const LARGEST: u32 = 0xffff;

impl Resident {
    /// Reads every frame of an acquisition whose scan shape is known, and whose admitted counts fit 16 bits or whose
    /// samples are `float32`. Of floats every bit is kept, and a mean dark frame that a `.qem` file carries is taken from
    /// everything but raw frames.
    ///
    /// An excluded pixel may hold more, as detectors mark it with the largest number of their type, if it holds the same
    /// at every scan position. Besides what the resident grows to, memory holds a window of 64 frames, or 512 where
    /// files store many together, and the planes of 512, which is compared with the task's budget before each block of 512.
    ///
    /// # Errors
    /// `missing_scan_shape`, `scan_frame_mismatch`; `resident_sample_type` for `float64`; `count_too_large` and
    /// `excluded_pixel_not_constant`, naming scan position and pixel; `resident_over_budget`; those of the source;
    /// `cancelled`.
    pub fn from_source(source: &Arc<dyn FrameSource>, task: &Task) -> Result<Self> {
        let shape = FrameSourceProducts::new(source.clone())?.shape();
        let acquisition = source.acquisition();
        if acquisition.sample.is_float() {
            let floats = Floats::from_source(source, None, task)?;
            return Ok(Resident(Contents::Floats(Box::new(floats))));
        }
        let (pixels, total) = (shape.detector.pixels(), shape.scan.positions());
        let at_once = window_scans(source.as_ref());
        let working = working_bytes(acquisition.sample, pixels, at_once);
        check_budget(working, 0, total, task)?;
        let mut reader = Reader::new(acquisition, shape);
        let mut window = Samples::zeroed(acquisition.sample, at_once.min(total) * pixels);
        let sample_bytes = acquisition.sample.bytes() as u64;
        let quiet = task.quiet();
        task.begin("read", (total * pixels) as u64 * sample_bytes);
        // Inside the pool of threads, so that each window's work starts without waking one.
        rayon::scope(|_| {
            for first in (0..total).step_by(TURN_SCANS) {
                task.check()?;
                if first % BLOCK_SCANS == 0 {
                    check_budget(reader.held_bytes() + working, first, total, task)?;
                }
                let within = first % at_once;
                if within == 0 {
                    let count = at_once.min(total - first) * pixels;
                    source.read(first as u64, window.head_mut(count), &quiet)?;
                }
                let count = TURN_SCANS.min(total - first) * pixels;
                reader.take(window.as_ref().slice(within * pixels..within * pixels + count))?;
                task.advance(count as u64 * sample_bytes);
            }
            Ok(())
        })?;
        task.finish();
        source.check_unchanged()?;
        Ok(reader.resident(acquisition, shape))
    }

    /// Reads the source again and compares every raw frame with what the resident holds.
    ///
    /// # Errors
    /// `not_equal`, naming the first scan position and pixel that differ; those of the source; `cancelled`.
    pub fn check_against(&self, source: &dyn FrameSource, task: &Task) -> Result<()> {
        if let Contents::Floats(floats) = &self.0 {
            return floats.check_against(source, task);
        }
        let acquisition = source.acquisition();
        let shape = self.shape();
        let (pixels, total) = (shape.detector.pixels(), shape.scan.positions());
        let fail = |message: String| Error::new(EngineCode::NotEqual, message);
        if acquisition.detector != shape.detector || acquisition.frame_count != total as u64 {
            return Err(fail(format!(
                "the resident has {total} frames of {} pixels, `{}` has {} of {}",
                shape.detector, acquisition.label, acquisition.frame_count, acquisition.detector
            )));
        }
        if acquisition.sample != self.sample_type() {
            return Err(fail(format!(
                "the resident gives {} samples, `{}` holds {}",
                self.sample_type(),
                acquisition.label,
                acquisition.sample
            )));
        }
        let frames = 64.min(total);
        let mut theirs = Samples::zeroed(acquisition.sample, frames * pixels);
        let mut ours = Samples::zeroed(acquisition.sample, frames * pixels);
        task.begin("compare", (total * pixels * acquisition.sample.bytes()) as u64);
        let quiet = task.quiet();
        for first in (0..total).step_by(frames) {
            task.check()?;
            let count = frames.min(total - first) * pixels;
            let (read, decoded) = rayon::join(
                || source.read(first as u64, theirs.head_mut(count), &quiet),
                || self.raw_positions(first as u64, ours.head_mut(count), &quiet),
            );
            read?;
            decoded?;
            let (theirs, ours) = (theirs.head(count), ours.head(count));
            if let Some(at) = first_difference(theirs, ours) {
                return Err(fail(format!(
                    "pixel {} of scan position {} is {} in `{}` and {} in the resident",
                    at % pixels,
                    first + at / pixels,
                    integer(theirs, at),
                    acquisition.label,
                    integer(ours, at)
                ))
                .with("scan_position", first + at / pixels)
                .with("pixel", at % pixels));
            }
            task.advance((count * acquisition.sample.bytes()) as u64);
        }
        task.finish();
        source.check_unchanged()
    }
}

fn integer(samples: SamplesRef<'_>, at: usize) -> i128 {
    samples.integer(at).unwrap_or_default()
}

fn first_difference(a: SamplesRef<'_>, b: SamplesRef<'_>) -> Option<usize> {
    if a == b {
        return None;
    }
    (0..a.len()).find(|&at| integer(a, at) != integer(b, at))
}

/// Turns windows into blocks.
struct Reader {
    scans: usize,
    pixels: usize,
    sample: SampleType,
    /// One entry per detector pixel.
    excluded: Vec<bool>,
    excluded_pixels: Vec<u32>,
    /// Excluded pixels with the value they hold everywhere, where it is no count of 16 bits.
    constants: Vec<(u32, u32)>,
    blocks: Vec<PlaneBlock>,
    max_widths: Vec<u8>,
    counts: Vec<u16>,
    turner: FrameTurner,
    scans_done: usize,
}

/// Bits of the counts that are kept of a sample type.
fn max_width(sample: SampleType) -> u8 {
    if sample == SampleType::U8 { 8 } else { 16 }
}

/// Frames read at once: those that are turned at once, or a whole block's where frames are stored together in another way,
/// for what is read in parts is decoded again for each of them.
fn window_scans(source: &dyn FrameSource) -> usize {
    if (TURN_SCANS as u64).is_multiple_of(source.frames_together()) { TURN_SCANS } else { BLOCK_SCANS }
}

/// A window, 64 of its frames as 16-bit counts, a block in the making and what it becomes.
fn working_bytes(sample: SampleType, pixels: usize, at_once: usize) -> u64 {
    let window = (pixels * (at_once * sample.bytes() + TURN_SCANS * 2)) as u64;
    let width = max_width(sample);
    window + FrameTurner::held_bytes(pixels, width) + PlaneBlock::bound_bytes(pixels, width)
}

/// Refuses what may need too much until the next block of scan positions is held.
fn check_budget(needed: u64, first: usize, total: usize, task: &Task) -> Result<()> {
    if needed <= task.memory_budget() {
        return Ok(());
    }
    Err(Error::new(
        EngineCode::OverBudget,
        format!(
            "after {first} of {total} scan positions the resident takes up to {needed} bytes of memory with the next, the \
             budget is {}",
            task.memory_budget()
        ),
    )
    .hint("allow more with --max-memory")
    .with("needed_bytes", needed))
}

impl Reader {
    fn new(acquisition: &Acquisition, shape: Shape4) -> Self {
        let pixels = shape.detector.pixels();
        let mut excluded = vec![false; pixels];
        acquisition.excluded.pixels.iter().for_each(|&p| excluded[p as usize] = true);
        Reader {
            scans: shape.scan.positions(),
            pixels,
            sample: acquisition.sample,
            excluded,
            excluded_pixels: acquisition.excluded.pixels.clone(),
            constants: Vec::new(),
            blocks: Vec::new(),
            max_widths: vec![0; pixels],
            counts: Vec::new(),
            turner: FrameTurner::new(pixels, max_width(acquisition.sample)),
            scans_done: 0,
        }
    }
    fn held_bytes(&self) -> u64 {
        self.blocks.iter().map(|b| b.resident_bytes()).sum()
    }
    fn take(&mut self, window: SamplesRef<'_>) -> Result<()> {
        let scans = window.len() / self.pixels;
        match window {
            SamplesRef::U8(frames) => self.turner.push(frames),
            SamplesRef::U16(frames) => self.turner.push(frames),
            other => {
                self.convert(other)?;
                self.turner.push(&self.counts);
            }
        }
        self.scans_done += scans;
        if self.turner.scans() == BLOCK_SCANS || self.scans_done == self.scans {
            let block = self.turner.finish();
            let widths = self.max_widths.par_iter_mut().enumerate();
            widths.with_min_len(1024).for_each(|(p, m)| *m = (*m).max(block.width(p)));
            self.blocks.push(block);
        }
        Ok(())
    }

    /// Counts of 16 bits; constants of excluded pixels become zero.
    fn convert(&mut self, window: SamplesRef<'_>) -> Result<()> {
        let mut counts = std::mem::take(&mut self.counts);
        counts.resize(window.len(), 0);
        match window {
            SamplesRef::U32(all) => {
                let excluded = &self.excluded;
                let pairs = counts.par_chunks_exact_mut(self.pixels).zip(all.par_chunks_exact(self.pixels));
                let fits = pairs.map(|(counts, frame)| {
                    let admitted = frame.iter().zip(excluded).map(|(&v, &e)| if e { 0 } else { v });
                    let fits = admitted.fold(0, |or, v| or | v) <= LARGEST;
                    if fits {
                        counts.iter_mut().zip(frame).for_each(|(count, &v)| *count = v as u16);
                    }
                    fits
                });
                let fits: Vec<bool> = fits.collect();
                let frames = counts.chunks_exact_mut(self.pixels).zip(all.chunks_exact(self.pixels));
                for (k, (counts, frame)) in frames.enumerate() {
                    if !fits[k] {
                        self.frame(k, window, counts)?;
                        continue;
                    }
                    for i in 0..self.excluded_pixels.len() {
                        let pixel = self.excluded_pixels[i] as usize;
                        counts[pixel] = self.count(k, pixel, frame[pixel].into())?;
                    }
                }
            }
            other => {
                let mut frames = counts.chunks_exact_mut(self.pixels).enumerate();
                frames.try_for_each(|(k, counts)| self.frame(k, other, counts))?;
            }
        }
        self.counts = counts;
        Ok(())
    }

    /// Frame `k` of a window of any type.
    fn frame(&mut self, k: usize, window: SamplesRef<'_>, counts: &mut [u16]) -> Result<()> {
        for (pixel, count) in counts.iter_mut().enumerate() {
            *count = self.count(k, pixel, integer(window, k * self.pixels + pixel))?;
        }
        Ok(())
    }

    /// What is kept of one value in frame `k` of a window.
    fn count(&mut self, k: usize, pixel: usize, value: i128) -> Result<u16> {
        let place = (self.scans_done + k, pixel);
        match u16::try_from(value) {
            Ok(_) if self.constant(pixel).is_some() => Err(not_constant(place, value)),
            Ok(count) => Ok(count),
            Err(_) if !self.excluded[pixel] => Err(too_large(place, value)),
            Err(_) => {
                let wide = u32::try_from(value).map_err(|_| too_large(place, value))?;
                match self.constant(pixel) {
                    None if place.0 == 0 => self.constants.push((pixel as u32, wide)),
                    Some(constant) if constant == wide => {}
                    _ => return Err(not_constant(place, value)),
                }
                Ok(0)
            }
        }
    }

    fn constant(&self, pixel: usize) -> Option<u32> {
        if !self.excluded[pixel] {
            return None;
        }
        let at = self.constants.binary_search_by_key(&(pixel as u32), |c| c.0).ok()?;
        Some(self.constants[at].1)
    }

    fn resident(self, acquisition: &Acquisition, shape: Shape4) -> Resident {
        let excluded = acquisition.excluded.pixels.clone();
        let frames = Frames::of_source(
            shape,
            acquisition.excluded.clone(),
            self.excluded,
            FrameDecoder::working(self.sample, excluded),
            FrameDecoder::raw(self.sample, &self.constants),
        );
        let held = Held {
            form: Form::Arranged(PlaneShard::new(self.pixels, self.blocks)),
            max_widths: self.max_widths,
        };
        let access = match (frames.exclusions.pixels.is_empty(), self.constants.is_empty()) {
            (true, _) => RawAccess::NoExclusions,
            (_, true) => RawAccess::RetainedPayload,
            _ => RawAccess::ExclusionConstants,
        };
        Resident::of(frames, vec![held], access, None)
    }
}

fn too_large((scan, pixel): (usize, usize), value: i128) -> Error {
    Error::new(
        EngineCode::CountTooLarge,
        format!("count {value} at scan position {scan}, pixel {pixel} is no count of 16 bits"),
    )
    .with("scan_position", scan)
    .with("pixel", pixel)
}

fn not_constant((scan, pixel): (usize, usize), value: i128) -> Error {
    Error::new(
        EngineCode::ExcludedNotConstant,
        format!(
            "excluded pixel {pixel} holds {value} at scan position {scan} and another value, one of them being no count \
             of 16 bits"
        ),
    )
    .with("scan_position", scan)
    .with("pixel", pixel)
}
