//! Encoding: decoded windows → checked, hashed and packed tiles. One pass over the source proves and packs.

use super::hashing::{Hashing, Window, working_is_raw};
use super::plan::Plan;
use crate::ContainerCode;
use rayon::prelude::*;
use std::ops::Range;
use stempack_codecs::shard::{Profile, ShardBuilder};
use stempack_codecs::tile::{self, EncodedTile, TileSample};
use stempack_model::{Acquisition, Error, FrameSource, Result, SampleType, Samples, Task};

/// What goes into the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Working values of at most 8 bits; excluded pixels become constants.
    U8,
    /// Every raw value of at most 16 bits, excluded pixels included.
    U16Retained,
    /// Admitted values of at most 16 bits; excluded pixels are constants wider than that.
    U16Constants,
}

impl Mode {
    pub(super) fn profile(self) -> Profile {
        match self {
            Mode::U8 => Profile::U8,
            Mode::U16Retained | Mode::U16Constants => Profile::U16,
        }
    }
}

/// Why a mode cannot hold the source.
#[derive(Debug)]
pub(super) enum Unfit {
    /// An admitted count is too large: scan position, pixel, value.
    Count { scan: u64, pixel: usize, value: i128 },
    /// An excluded pixel holds a value of more than 16 bits.
    WideExcluded { scan: u64, pixel: usize, value: i128 },
    /// An excluded pixel is not constant: scan position, pixel, first value, other value.
    NotConstant { scan: u64, pixel: usize, first: u32, value: i128 },
}

impl Unfit {
    /// One sentence, also used as the reason of the profile that is chosen instead.
    pub(super) fn sentence(&self, detector_cols: usize) -> String {
        let place = |pixel: &usize| {
            format!("pixel {pixel} (row {}, column {})", pixel / detector_cols, pixel % detector_cols)
        };
        match self {
            Unfit::Count { scan, pixel, value } => {
                format!("count {value} at scan position {scan}, {}", place(pixel))
            }
            Unfit::WideExcluded { scan, pixel, value } => {
                format!(
                    "excluded {} holds {value}, which is no count of 16 bits, at scan position {scan}",
                    place(pixel)
                )
            }
            Unfit::NotConstant { scan, pixel, first, value } => {
                format!("excluded {} holds {first} first and {value} at scan position {scan}", place(pixel))
            }
        }
    }
    pub(super) fn into_error(self, what: &str, acquisition: &Acquisition) -> Error {
        let code = match self {
            Unfit::NotConstant { .. } => ContainerCode::ExcludedNotConstant,
            Unfit::Count { .. } | Unfit::WideExcluded { .. } => ContainerCode::CountTooLarge,
        };
        let (scan, pixel) = match self {
            Unfit::Count { scan, pixel, .. }
            | Unfit::WideExcluded { scan, pixel, .. }
            | Unfit::NotConstant { scan, pixel, .. } => (scan, pixel),
        };
        Error::new(code, format!("{} does not fit {what}", self.sentence(acquisition.detector.cols())))
            .with("scan_position", scan)
            .with("pixel", pixel)
    }
}

/// An integer sample of any source.
trait SourceSample: Copy + Send + Sync + Into<i128> {
    /// The count, or the largest u32 for what is no count of 32 bits.
    fn wide(self) -> u32;
}
macro_rules! source_samples {
    ($($unsigned:ident)* ; $($other:ident)*) => {
        $(impl SourceSample for $unsigned {
            fn wide(self) -> u32 {
                self.into()
            }
        })*
        $(impl SourceSample for $other {
            fn wide(self) -> u32 {
                u32::try_from(self).unwrap_or(u32::MAX)
            }
        })*
    };
}
source_samples!(u8 u16 u32; u64 i8 i16 i32 i64);

trait Narrow: Copy + Send + Sync + Default {
    fn narrow(value: u32) -> Self;
}
impl Narrow for u8 {
    fn narrow(value: u32) -> u8 {
        value as u8
    }
}
impl Narrow for u16 {
    fn narrow(value: u32) -> u16 {
        value as u16
    }
}

pub(super) struct Encoder<'a> {
    mode: Mode,
    pixels: usize,
    excluded: &'a [u32],
    /// Runs of admitted pixels.
    admitted: Vec<Range<usize>>,
    everything: Vec<Range<usize>>,
    scans_done: u64,
    constants: Vec<u32>,
    working_is_raw: bool,
    /// Whether the source already holds the words of the raw stream.
    native: bool,
    /// Whether constants of excluded pixels may be wider than 16 bits: those of u32 sources, which is what the
    /// container has room for.
    wide_constants: bool,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(mode: Mode, acquisition: &'a Acquisition) -> Self {
        let pixels = acquisition.detector.pixels();
        let excluded = &acquisition.excluded.pixels;
        let mut admitted = Vec::new();
        let mut start = 0;
        for &pixel in excluded.iter().chain([&(pixels as u32)]) {
            if start < pixel as usize {
                admitted.push(start..pixel as usize);
            }
            start = pixel as usize + 1;
        }
        Encoder {
            mode,
            pixels,
            excluded,
            admitted,
            everything: std::iter::once(0..pixels).collect(),
            scans_done: 0,
            constants: Vec::new(),
            working_is_raw: working_is_raw(mode, acquisition),
            native: acquisition.sample == SampleType::U16,
            wide_constants: acquisition.sample == SampleType::U32,
        }
    }

    /// Values of the excluded pixels at the first scan position.
    pub(super) fn constants(self) -> Vec<u32> {
        self.constants
    }

    /// Checks, converts and packs one window: whole tiles, or the last of a shard.
    pub(super) fn window(&mut self, window: &mut Window) -> Result<Vec<EncodedTile>, Unfit> {
        let Window { samples, len, raw16, working8, working16 } = window;
        match samples {
            Samples::U8(v) => self.convert(&v[..*len], raw16, working8, working16),
            Samples::U16(v) => self.convert(&v[..*len], raw16, working8, working16),
            Samples::U32(v) => self.convert(&v[..*len], raw16, working8, working16),
            Samples::U64(v) => self.convert(&v[..*len], raw16, working8, working16),
            Samples::I8(v) => self.convert(&v[..*len], raw16, working8, working16),
            Samples::I16(v) => self.convert(&v[..*len], raw16, working8, working16),
            Samples::I32(v) => self.convert(&v[..*len], raw16, working8, working16),
            Samples::I64(v) => self.convert(&v[..*len], raw16, working8, working16),
            Samples::F32(_) | Samples::F64(_) => unreachable!("planning refuses floats"),
        }?;
        Ok(match self.mode {
            Mode::U8 => encode_tiles(&window.working8, self.pixels),
            Mode::U16Retained => encode_tiles(window.raw16(), self.pixels),
            Mode::U16Constants => encode_tiles(&window.working16, self.pixels),
        })
    }

    fn convert<S: SourceSample>(
        &mut self,
        window: &[S],
        raw16: &mut Vec<u16>,
        working8: &mut Vec<u8>,
        working16: &mut Vec<u16>,
    ) -> Result<(), Unfit> {
        self.check_excluded(window)?;
        let native = self.native;
        let limit = if self.mode == Mode::U8 { 0xff } else { 0xffff };
        let or = match self.mode {
            Mode::U8 => convert(window, working8, self.pixels, &self.admitted, self.excluded),
            Mode::U16Retained if native && self.working_is_raw => 0,
            Mode::U16Retained | Mode::U16Constants => {
                convert(window, working16, self.pixels, &self.admitted, self.excluded)
            }
        };
        if or > limit {
            return Err(self.first_count_above(window, limit));
        }
        if self.mode != Mode::U16Constants && !native {
            // Excluded values were checked to fit 16 bits just above.
            convert(window, raw16, self.pixels, &self.everything, &[]);
        }
        self.scans_done += (window.len() / self.pixels) as u64;
        Ok(())
    }

    /// Remembers the first value of every excluded pixel and refuses what the mode cannot restore.
    fn check_excluded<S: SourceSample>(&mut self, window: &[S]) -> Result<(), Unfit> {
        for (k, frame) in window.chunks_exact(self.pixels).enumerate() {
            if self.constants.len() < self.excluded.len() {
                self.constants = self.excluded.iter().map(|&p| frame[p as usize].wide()).collect();
            }
            for (&pixel, &first) in self.excluded.iter().zip(&self.constants) {
                let sample = frame[pixel as usize];
                let (wide, value) = (sample.wide(), sample.into());
                let (scan, pixel) = (self.scans_done + k as u64, pixel as usize);
                if wide > 0xffff && !(self.mode == Mode::U16Constants && self.wide_constants) {
                    return Err(Unfit::WideExcluded { scan, pixel, value });
                }
                if self.mode != Mode::U16Retained && wide != first {
                    return Err(Unfit::NotConstant { scan, pixel, first, value });
                }
            }
        }
        Ok(())
    }

    fn first_count_above<S: SourceSample>(&self, window: &[S], limit: u32) -> Unfit {
        for (k, frame) in window.chunks_exact(self.pixels).enumerate() {
            for pixel in self.admitted.iter().cloned().flatten() {
                if frame[pixel].wide() > limit {
                    let value = frame[pixel].into();
                    return Unfit::Count { scan: self.scans_done + k as u64, pixel, value };
                }
            }
        }
        unreachable!("the caller saw an admitted count above the limit in this window")
    }
}

/// Converts every frame's `runs`, zeroes `excluded`, and returns the bitwise or of all converted values.
fn convert<S: SourceSample, T: Narrow>(
    window: &[S],
    into: &mut Vec<T>,
    pixels: usize,
    runs: &[Range<usize>],
    excluded: &[u32],
) -> u32 {
    into.resize(window.len(), T::default());
    window
        .par_chunks_exact(pixels)
        .zip(into.par_chunks_exact_mut(pixels))
        .map(|(frame, out)| {
            let mut or = 0u32;
            for run in runs {
                for (sample, out) in frame[run.clone()].iter().zip(&mut out[run.clone()]) {
                    let value = sample.wide();
                    or |= value;
                    *out = T::narrow(value);
                }
            }
            for &pixel in excluded {
                out[pixel as usize] = T::default();
            }
            or
        })
        .reduce(|| 0, |a, b| a | b)
}

fn encode_tiles<S: TileSample>(window: &[S], pixels: usize) -> Vec<EncodedTile> {
    window.par_chunks(S::SCANS * pixels).map(|frames| tile::encode(frames, pixels, 0..pixels)).collect()
}

/// Reads and packs one shard window by window, reading the next while this one is packed if the plan allows it.
/// `None` when the hashing thread has died.
pub(super) fn encode_shard(
    source: &dyn FrameSource,
    encoder: &mut Encoder<'_>,
    hashing: &Hashing<'_>,
    plan: &Plan,
    first_scan: usize,
    task: &Task,
) -> Result<Option<Result<ShardBuilder, Unfit>>> {
    let pixels = encoder.pixels;
    let sample_bytes = source.acquisition().sample.bytes() as u64;
    let window_scans = plan.window_tiles * plan.profile.tile_scans();
    let quiet = task.quiet();
    let mut builder = ShardBuilder::new(plan.profile, pixels);
    let read = |start: usize, window: &mut Window| {
        window.len = window_scans.min(plan.scans_per_shard - start) * pixels;
        source.read((first_scan + start) as u64, window.samples.head_mut(window.len), &quiet)
    };
    let Some(mut current) = hashing.window() else { return Ok(None) };
    read(0, &mut current)?;
    for start in (0..plan.scans_per_shard).step_by(window_scans) {
        task.check()?;
        let next = start + window_scans;
        let more = next < plan.scans_per_shard;
        let (tiles, ahead) = if more && plan.overlap {
            let Some(mut ahead) = hashing.window() else { return Ok(None) };
            let (tiles, read) = rayon::join(|| encoder.window(&mut current), || read(next, &mut ahead));
            (tiles, read.map(|()| Some(ahead)))
        } else {
            (encoder.window(&mut current), Ok(None))
        };
        match tiles {
            Ok(tiles) => tiles.into_iter().for_each(|t| builder.push(t)),
            Err(unfit) => return Ok(Some(Err(unfit))),
        }
        task.advance(current.len as u64 * sample_bytes);
        hashing.hash(current);
        current = match ahead? {
            Some(ahead) => ahead,
            None if more => {
                let Some(mut window) = hashing.window() else { return Ok(None) };
                read(next, &mut window)?;
                window
            }
            None => break,
        };
    }
    Ok(Some(Ok(builder)))
}
