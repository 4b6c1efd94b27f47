//! Encoding: decoded windows → checked, hashed and packed tiles. One pass over the source proves and packs.

use super::plan::Plan;
use crate::ContainerCode;
use crate::Digest;
use crate::digest::{Hasher, little_endian};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;
use stempack_codecs::shard::{Profile, ShardBuilder};
use stempack_codecs::tile::{self, EncodedTile, TileSample};
use stempack_model::{Acquisition, Error, FrameSource, Result, Samples, Task};

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
    Count { scan: u64, pixel: usize, value: u32 },
    /// An excluded pixel holds a value of more than 16 bits.
    WideExcluded { scan: u64, pixel: usize, value: u32 },
    /// An excluded pixel is not constant: scan position, pixel, first value, other value.
    NotConstant { scan: u64, pixel: usize, first: u32, value: u32 },
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
                format!("excluded {} holds {value}, more than 16 bits, at scan position {scan}", place(pixel))
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

/// Digests and constants gathered while encoding.
#[derive(Debug)]
pub(super) struct Streams {
    /// Of the source's own stream, for sources that are not u16.
    pub(super) original: Option<Digest>,
    /// Of the raw stream as u16, where it exists.
    pub(super) raw: Option<Digest>,
    /// Of the working stream: u8 in the u8 profile, else u16.
    pub(super) working: Digest,
    /// Values of the excluded pixels at the first scan position.
    pub(super) constants: Vec<u32>,
}

/// A sample of any supported source.
trait SourceSample: Copy + Send + Sync + Into<u32> {}
impl SourceSample for u8 {}
impl SourceSample for u16 {}
impl SourceSample for u32 {}

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
    original: Option<Hasher>,
    raw: Option<Hasher>,
    working: Hasher,
    raw16: Vec<u16>,
    working8: Vec<u8>,
    working16: Vec<u16>,
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
        let native = acquisition.sample == stempack_model::SampleType::U16;
        Encoder {
            mode,
            pixels,
            excluded,
            admitted,
            everything: std::iter::once(0..pixels).collect(),
            scans_done: 0,
            constants: Vec::new(),
            original: (!native).then(Hasher::default),
            raw: (mode != Mode::U16Constants).then(Hasher::default),
            working: Hasher::default(),
            raw16: Vec::new(),
            working8: Vec::new(),
            working16: Vec::new(),
        }
    }

    /// Checks, hashes and packs one window of `samples` (`len` valid samples): whole tiles, or the last of a shard.
    /// Meanwhile `ahead` runs, unless the window is unfit.
    pub(super) fn window(
        &mut self,
        samples: &Samples,
        len: usize,
        ahead: impl FnOnce() + Send,
    ) -> Result<Vec<EncodedTile>, Unfit> {
        match samples {
            Samples::U8(v) => self.typed(&v[..len], ahead),
            Samples::U16(v) => self.typed(&v[..len], ahead),
            Samples::U32(v) => self.typed(&v[..len], ahead),
        }
    }

    fn typed<S: SourceSample + bytemuck::Pod>(
        &mut self,
        window: &[S],
        ahead: impl FnOnce() + Send,
    ) -> Result<Vec<EncodedTile>, Unfit> {
        self.check_excluded(window)?;
        let native = std::mem::size_of::<S>() == 2;
        let limit = if self.mode == Mode::U8 { 0xff } else { 0xffff };
        let or = match self.mode {
            Mode::U8 => convert(window, &mut self.working8, self.pixels, &self.admitted, self.excluded),
            Mode::U16Retained if native && self.working_is_raw() => 0,
            Mode::U16Retained | Mode::U16Constants => {
                convert(window, &mut self.working16, self.pixels, &self.admitted, self.excluded)
            }
        };
        if or > limit {
            return Err(self.first_count_above(window, limit));
        }
        if self.raw.is_some() && !native {
            // Excluded values were checked to fit 16 bits just above.
            convert(window, &mut self.raw16, self.pixels, &self.everything, &[]);
        }
        self.scans_done += (window.len() / self.pixels) as u64;

        let raw16: &[u16] = if native { bytemuck::cast_slice(window) } else { &self.raw16 };
        let (pixels, mode) = (self.pixels, self.mode);
        let same = self.working_is_raw();
        let working16: &[u16] = &self.working16;
        let (original, raw, working) = (&mut self.original, &mut self.raw, &mut self.working);
        let working8: &[u8] = &self.working8;
        let mut tiles = Vec::new();
        rayon::scope(|scope| {
            // Other threads take the first of these first. A digest is one long chain that cannot be split, so the
            // longest must not be the last to begin; reading and packing can be split and fill the rest.
            if let Some(hasher) = original {
                scope.spawn(move |_| hash_native(hasher, window));
            }
            scope.spawn(move |_| match (raw, mode) {
                (Some(raw), Mode::U8) => raw.update_both(&le(raw16), working, working8),
                // Without exclusions the working stream is the raw one, and so is its digest.
                (Some(raw), _) if same => raw.update_u16(raw16),
                (Some(raw), _) => raw.update_both(&le(raw16), working, &le(working16)),
                (None, _) => working.update_u16(working16),
            });
            scope.spawn(move |_| ahead());
            tiles = match mode {
                Mode::U8 => encode_tiles(working8, pixels),
                Mode::U16Retained => encode_tiles(raw16, pixels),
                Mode::U16Constants => encode_tiles(working16, pixels),
            };
        });
        Ok(tiles)
    }

    /// Remembers the first value of every excluded pixel and refuses what the mode cannot restore.
    fn check_excluded<S: SourceSample>(&mut self, window: &[S]) -> Result<(), Unfit> {
        for (k, frame) in window.chunks_exact(self.pixels).enumerate() {
            if self.constants.len() < self.excluded.len() {
                self.constants = self.excluded.iter().map(|&p| frame[p as usize].into()).collect();
            }
            for (&pixel, &first) in self.excluded.iter().zip(&self.constants) {
                let value: u32 = frame[pixel as usize].into();
                let (scan, pixel) = (self.scans_done + k as u64, pixel as usize);
                if self.mode != Mode::U16Constants && value > 0xffff {
                    return Err(Unfit::WideExcluded { scan, pixel, value });
                }
                if self.mode != Mode::U16Retained && value != first {
                    return Err(Unfit::NotConstant { scan, pixel, first, value });
                }
            }
        }
        Ok(())
    }

    fn first_count_above<S: SourceSample>(&self, window: &[S], limit: u32) -> Unfit {
        for (k, frame) in window.chunks_exact(self.pixels).enumerate() {
            for pixel in self.admitted.iter().cloned().flatten() {
                let value: u32 = frame[pixel].into();
                if value > limit {
                    return Unfit::Count { scan: self.scans_done + k as u64, pixel, value };
                }
            }
        }
        unreachable!("the caller saw an admitted count above the limit in this window")
    }

    fn working_is_raw(&self) -> bool {
        self.mode == Mode::U16Retained && self.excluded.is_empty()
    }

    pub(super) fn finish(self) -> Streams {
        let same = self.working_is_raw();
        let raw = self.raw.map(Hasher::finish);
        Streams {
            original: self.original.map(Hasher::finish),
            raw,
            working: raw.filter(|_| same).unwrap_or_else(|| self.working.finish()),
            constants: self.constants,
        }
    }
}

fn le(samples: &[u16]) -> Cow<'_, [u8]> {
    little_endian(samples, |s| s.to_le_bytes())
}

fn hash_native<S: bytemuck::Pod>(hasher: &mut Hasher, window: &[S]) {
    match std::mem::size_of::<S>() {
        4 => hasher.update_u32(bytemuck::cast_slice(window)),
        _ => hasher.update(bytemuck::cast_slice(window)),
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
                    let value: u32 = (*sample).into();
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

/// Reads one shard's frames window by window, decoding the next while this one is encoded.
pub(super) fn encode_shard(
    source: &dyn FrameSource,
    encoder: &mut Encoder<'_>,
    plan: &Plan,
    first_scan: usize,
    buffers: &mut [Samples; 2],
    task: &Task,
) -> Result<Result<ShardBuilder, Unfit>> {
    let pixels = encoder.pixels;
    let sample_bytes = source.acquisition().sample.bytes() as u64;
    let window = plan.window_tiles * plan.profile.tile_scans();
    let quiet = task.quiet();
    let mut builder = ShardBuilder::new(plan.profile, pixels);
    let scans_of = |start: usize| window.min(plan.scans_per_shard - start);
    let read = |start: usize, buffer: &mut Samples| {
        source.read((first_scan + start) as u64, buffer.head_mut(scans_of(start) * pixels), &quiet)
    };
    read(0, &mut buffers[0])?;
    for start in (0..plan.scans_per_shard).step_by(window) {
        task.check()?;
        let next = start + window;
        let (current, other) = buffers.split_at_mut(1);
        let (current, other) = (&mut current[0], &mut other[0]);
        let len = scans_of(start) * pixels;
        let more = next < plan.scans_per_shard;
        let mut outcome = Ok(());
        let tiles = encoder.window(current, len, || {
            if more && plan.overlap {
                outcome = read(next, other);
            }
        });
        if tiles.is_ok() && more {
            if plan.overlap {
                outcome?;
                std::mem::swap(current, other);
            } else {
                read(next, current)?;
            }
        }
        match tiles {
            Ok(tiles) => tiles.into_iter().for_each(|t| builder.push(t)),
            Err(unfit) => return Ok(Err(unfit)),
        }
        task.advance(len as u64 * sample_bytes);
    }
    Ok(Ok(builder))
}
