//! A resident straight from an original: frames are read once, in blocks of 512 scan positions, and turned into bit planes
//! as they come. No file is written; whether the resident holds what the source holds is [`Resident::check_against`].

use crate::error::EngineCode;
use crate::floats::Floats;
use crate::frames::Frames;
use crate::held::{Form, Held};
use crate::resident::{Contents, Resident};
use std::sync::Arc;
use stempack_codecs::planes::{BLOCK_SCANS, PlaneShard, block_of_frames};
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
    /// at every scan position. Memory holds two windows of 512 frames besides what the resident grows to, which is
    /// compared with the task's budget before each window.
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
        let mut reader = Reader::new(acquisition, shape);
        let (pixels, total) = (shape.detector.pixels(), shape.scan.positions());
        let mut window = Samples::zeroed(acquisition.sample, BLOCK_SCANS.min(total) * pixels);
        let mut ahead = Samples::zeroed(acquisition.sample, 0);
        let sample_bytes = acquisition.sample.bytes() as u64;
        let quiet = task.quiet();
        let read = |first: usize, into: &mut Samples| {
            let count = BLOCK_SCANS.min(total - first) * pixels;
            source.read(first as u64, into.head_mut(count), &quiet)
        };
        task.begin("read", (total * pixels) as u64 * sample_bytes);
        read(0, &mut window)?;
        for first in (0..total).step_by(BLOCK_SCANS) {
            task.check()?;
            let needed = reader.held_bytes() + reader.window_bytes();
            if needed > task.memory_budget() {
                return Err(Error::new(
                    EngineCode::OverBudget,
                    format!(
                        "after {first} of {total} scan positions the resident takes up to {needed} bytes of memory with \
                         the next, the budget is {}",
                        task.memory_budget()
                    ),
                )
                .hint("allow more with --max-memory")
                .with("needed_bytes", needed));
            }
            let (next, count) = (first + BLOCK_SCANS, BLOCK_SCANS.min(total - first) * pixels);
            if next < total && ahead.is_empty() {
                ahead = Samples::zeroed(acquisition.sample, window.len());
            }
            let (filled, taken) = rayon::join(
                || if next < total { read(next, &mut ahead) } else { Ok(()) },
                || reader.take(window.head(count)),
            );
            taken?;
            filled?;
            task.advance(count as u64 * sample_bytes);
            std::mem::swap(&mut window, &mut ahead);
        }
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
    pixels: usize,
    sample: SampleType,
    /// One entry per detector pixel.
    excluded: Vec<bool>,
    excluded_pixels: Vec<u32>,
    /// Excluded pixels with the value they hold everywhere, where it is no count of 16 bits.
    constants: Vec<(u32, u32)>,
    blocks: Vec<stempack_codecs::planes::PlaneBlock>,
    max_widths: Vec<u8>,
    counts: Vec<u16>,
    scans_done: usize,
}

impl Reader {
    fn new(acquisition: &Acquisition, shape: Shape4) -> Self {
        let pixels = shape.detector.pixels();
        let mut excluded = vec![false; pixels];
        acquisition.excluded.pixels.iter().for_each(|&p| excluded[p as usize] = true);
        Reader {
            pixels,
            sample: acquisition.sample,
            excluded,
            excluded_pixels: acquisition.excluded.pixels.clone(),
            constants: Vec::new(),
            blocks: Vec::new(),
            max_widths: vec![0; pixels],
            counts: Vec::new(),
            scans_done: 0,
        }
    }
    fn held_bytes(&self) -> u64 {
        self.blocks.iter().map(|b| b.resident_bytes()).sum()
    }
    /// Two windows, the same as 16-bit counts, and the block that they become.
    fn window_bytes(&self) -> u64 {
        (BLOCK_SCANS * self.pixels) as u64 * (2 * self.sample.bytes() as u64 + 4)
    }

    fn take(&mut self, window: SamplesRef<'_>) -> Result<()> {
        let block = match window {
            SamplesRef::U16(frames) => block_of_frames(frames, self.pixels),
            other => {
                self.convert(other)?;
                block_of_frames(&self.counts, self.pixels)
            }
        };
        self.max_widths.iter_mut().enumerate().for_each(|(p, m)| *m = (*m).max(block.width(p)));
        self.scans_done += block.scans();
        self.blocks.push(block);
        Ok(())
    }

    /// Counts of 16 bits; constants of excluded pixels become zero.
    fn convert(&mut self, window: SamplesRef<'_>) -> Result<()> {
        let mut counts = std::mem::take(&mut self.counts);
        counts.resize(window.len(), 0);
        let frames = counts.chunks_exact_mut(self.pixels).enumerate();
        match window {
            SamplesRef::U8(all) => counts.iter_mut().zip(all).for_each(|(count, &v)| *count = v.into()),
            SamplesRef::U32(all) => {
                for ((k, counts), frame) in frames.zip(all.chunks_exact(self.pixels)) {
                    let admitted = frame.iter().zip(&self.excluded).map(|(&v, &e)| if e { 0 } else { v });
                    if admitted.fold(0, |or, v| or | v) > LARGEST {
                        self.frame(k, window, counts)?;
                        continue;
                    }
                    counts.iter_mut().zip(frame).for_each(|(count, &v)| *count = v as u16);
                    for i in 0..self.excluded_pixels.len() {
                        let pixel = self.excluded_pixels[i] as usize;
                        counts[pixel] = self.count(k, pixel, frame[pixel].into())?;
                    }
                }
            }
            other => frames.into_iter().try_for_each(|(k, counts)| self.frame(k, other, counts))?,
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
