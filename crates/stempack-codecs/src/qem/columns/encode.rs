//! Frames → column streams: which pixels go together, and the fast way to the same bytes as the scalar twin
//! [`stream::encode`](super::super::stream::encode).

use super::super::interleave::{Encoder, LANES};
use super::super::stream::{self, CONSTANT, Plan, SPARSE, Summary, ZERO};
use super::super::table::{ESCAPE, SYMBOLS};
use super::super::{BLOCK_SCANS, QemSample, whole_frames};
use super::TILE;
use crate::error::CodecCode;
use rayon::prelude::*;
use std::ops::Range;
use stempack_model::{Error, Result, Task};

/// The encoded arrays of one chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedChunk {
    /// All streams back to back.
    pub payload: Vec<u8>,
    /// Where each stream starts, and the payload's length.
    pub offsets: Vec<u32>,
    /// How each stream is coded.
    pub selectors: Vec<u8>,
}

/// Pixels of one piece of parallel work.
const PIECE: usize = 16 * TILE;

/// Encodes `frames`, whole row-major frames of `pixels` samples each; they become one chunk.
///
/// The same frames give the same bytes on every machine; no stream is longer than its literal form.
///
/// # Errors
/// `qem_payload_limit` when the streams exceed 32-bit offsets, `cancelled`.
///
/// # Panics
/// When there is no frame, or `frames` is not a whole number of them.
pub fn encode<S: QemSample>(frames: &[S], pixels: usize, task: &Task) -> Result<EncodedChunk> {
    assert!(whole_frames(frames.len(), pixels) > 0, "at least one frame");
    let scans = frames.len() / pixels;
    let pieces = pixels.div_ceil(PIECE);
    let parts = (0..scans.div_ceil(BLOCK_SCANS) * pieces)
        .into_par_iter()
        .map(|job| {
            task.check()?;
            let first = job / pieces * BLOCK_SCANS;
            let rows = &frames[first * pixels..(first + BLOCK_SCANS).min(scans) * pixels];
            let start = job % pieces * PIECE;
            Ok(encode_piece(rows, pixels, start..(start + PIECE).min(pixels)))
        })
        .collect::<Result<Vec<Part>>>()?;
    join(&parts)
}

/// The streams of some pixels of one block.
#[derive(Default)]
struct Part {
    payload: Vec<u8>,
    lengths: Vec<u32>,
    selectors: Vec<u8>,
}

fn join(parts: &[Part]) -> Result<EncodedChunk> {
    let bytes: usize = parts.iter().map(|p| p.payload.len()).sum();
    if u32::try_from(bytes).is_err() {
        return Err(Error::new(
            CodecCode::QemPayloadLimit,
            format!("encoded streams of one chunk have {bytes} bytes, expected at most {}", u32::MAX),
        )
        .hint("encode fewer scan positions per chunk"));
    }
    let streams = parts.iter().map(|p| p.selectors.len()).sum::<usize>();
    let mut chunk = EncodedChunk {
        payload: Vec::with_capacity(bytes),
        offsets: Vec::with_capacity(streams + 1),
        selectors: Vec::with_capacity(streams),
    };
    let mut end = 0;
    chunk.offsets.push(0);
    for part in parts {
        chunk.payload.extend_from_slice(&part.payload);
        chunk.selectors.extend_from_slice(&part.selectors);
        chunk.offsets.extend(part.lengths.iter().map(|len| {
            end += len;
            end
        }));
    }
    Ok(chunk)
}

fn encode_piece<S: QemSample>(rows: &[S], pixels: usize, piece: Range<usize>) -> Part {
    let mut part = Part::default();
    let mut tile = Tile::new();
    let mut encoder = Encoder::new();
    for start in piece.clone().step_by(TILE) {
        tile.encode(rows, pixels, start..(start + TILE).min(piece.end), &mut encoder, &mut part);
    }
    part
}

/// The columns of some neighbouring pixels as symbols, one column after the other.
struct Tile {
    /// A little longer than a block, so that columns do not fall on the same cache sets.
    symbols: Box<[[u8; BLOCK_SCANS + 64]; TILE]>,
    entropy: Vec<u8>,
}

impl Tile {
    fn new() -> Self {
        Tile { symbols: Box::new([[0; BLOCK_SCANS + 64]; TILE]), entropy: Vec::new() }
    }

    fn encode<S: QemSample>(
        &mut self,
        rows: &[S],
        pixels: usize,
        range: Range<usize>,
        encoder: &mut Encoder,
        part: &mut Part,
    ) {
        let len = rows.len() / pixels;
        let max = self.gather(rows, pixels, range.clone());
        let value = |k: usize, at: usize| rows[at * pixels + range.start + k].into();
        let column = |k: usize| rows[range.start + k..].iter().step_by(pixels).map(|&v| -> u16 { v.into() });
        let mut plans = [Plan::Direct(ZERO); TILE];
        let mut models = [0; TILE];
        let mut modelled = 0;
        for k in 0..range.len() {
            if max[k] == 0 {
                continue;
            }
            let histogram = histogram(&self.symbols[k][..len], max[k]);
            let first: u16 = value(k, 0);
            plans[k] = if usize::from(histogram[usize::from(first.min(ESCAPE))]) == len
                && (first < ESCAPE || column(k).all(|v| v == first))
            {
                Plan::Direct(CONSTANT)
            } else {
                Summary { histogram, max: max[k] }.plan(len)
            };
            if let Plan::ModelUnless(..) = plans[k] {
                models[modelled] = k;
                modelled += 1;
            }
        }
        // Streams of the entropy coder, in the order of their pixels.
        self.entropy.clear();
        let mut lengths = [0; TILE];
        for batch in models[..modelled].chunks(LANES) {
            let mut jobs: [(u8, &[u8]); LANES] = [(0, &[]); LANES];
            for (job, &k) in jobs.iter_mut().zip(batch) {
                if let Plan::ModelUnless(model, ..) = plans[k] {
                    *job = (model, &self.symbols[k][..len]);
                }
            }
            // A mean up to a quarter: a byte in more than four values.
            let rare = batch.iter().all(|&k| matches!(plans[k], Plan::ModelUnless(0..=33, ..)));
            let streams = encoder.encode(&jobs[..batch.len()], rare, |lane, at| value(batch[lane], at));
            for (&k, stream) in batch.iter().zip(streams) {
                lengths[k] = stream.len();
                self.entropy.extend_from_slice(stream);
            }
        }
        let mut entropy = &self.entropy[..];
        for k in 0..range.len() {
            let before = part.payload.len();
            let selector = match plans[k] {
                Plan::Direct(selector) => selector,
                Plan::ModelUnless(model, other, bytes) => {
                    let (stream, rest) = entropy.split_at(lengths[k]);
                    entropy = rest;
                    if stream.len() < bytes {
                        part.payload.extend_from_slice(stream);
                        model
                    } else {
                        other
                    }
                }
            };
            match selector {
                SPARSE => stream::append_events(column(k), &mut part.payload),
                CONSTANT => part.payload.extend(value(k, 0).to_le_bytes()),
                stream::LITERAL => part.payload.extend(column(k).flat_map(u16::to_le_bytes)),
                _ => {}
            }
            part.selectors.push(selector);
            part.lengths.push((part.payload.len() - before) as u32);
        }
    }

    /// Turns rows into columns of symbols and returns each column's largest count.
    fn gather<S: QemSample>(&mut self, rows: &[S], pixels: usize, range: Range<usize>) -> [u16; TILE] {
        let mut max = [0; TILE];
        for (at, rows) in rows.chunks(8 * pixels).enumerate() {
            let mut eight = [[0u8; TILE]; 8];
            for (symbols, row) in eight.iter_mut().zip(rows.chunks_exact(pixels)) {
                let mut counts = [0u16; TILE];
                match row[range.clone()].first_chunk::<TILE>() {
                    Some(samples) => counts = samples.map(Into::into),
                    None => {
                        counts.iter_mut().zip(&row[range.clone()]).for_each(|(count, &s)| *count = s.into());
                    }
                }
                for k in 0..TILE {
                    max[k] = max[k].max(counts[k]);
                    symbols[k] = counts[k].min(ESCAPE) as u8;
                }
            }
            for first in (0..TILE).step_by(8) {
                let square =
                    eight.map(|row| u64::from_le_bytes(row[first..].first_chunk().map_or([0; 8], |&b| b)));
                for (k, column) in transpose(square).into_iter().enumerate() {
                    self.symbols[first + k][8 * at..8 * at + 8].copy_from_slice(&column.to_le_bytes());
                }
            }
        }
        max
    }
}

/// Swaps rows and columns of a square of bytes, the first column in each word's lowest byte.
fn transpose(mut rows: [u64; 8]) -> [u64; 8] {
    // Exchanges the off-diagonal quarters of ever smaller squares: 4×4, 2×2, single bytes.
    for (step, mask) in
        [(4, 0x0000_0000_ffff_ffff), (2, 0x0000_ffff_0000_ffff), (1, 0x00ff_00ff_00ff_00ff_u64)]
    {
        for k in 0..8 {
            if k & step == 0 {
                let (upper, lower) = (rows[k], rows[k + step]);
                rows[k] = upper & mask | (lower & mask) << (8 * step);
                rows[k + step] = upper >> (8 * step) & mask | lower & !mask;
            }
        }
    }
    rows
}

/// The largest count up to which comparing a whole column with each count is faster than counting one by one.
const FEW: u16 = 10;

/// How often each symbol occurs in a column whose largest count is `max`.
fn histogram(symbols: &[u8], max: u16) -> [u16; SYMBOLS] {
    let mut histogram = [0; SYMBOLS];
    if max <= FEW {
        let mut rest = symbols.len() as u16;
        for count in 1..=max {
            let often = occurrences(symbols, count as u8);
            histogram[usize::from(count)] = often;
            rest -= often;
        }
        histogram[0] = rest;
    } else {
        // Two counters of each symbol, so that equal neighbours do not wait for each other.
        let mut twice = [[0u16; SYMBOLS]; 2];
        for pair in symbols.chunks(2) {
            for (histogram, &symbol) in twice.iter_mut().zip(pair) {
                histogram[usize::from(symbol)] += 1;
            }
        }
        for (symbol, sum) in histogram.iter_mut().enumerate() {
            *sum = twice[0][symbol] + twice[1][symbol];
        }
    }
    histogram
}

/// How often `wanted` occurs, sixteen bytes at a time; a column is too short for the byte counters to overflow.
fn occurrences(symbols: &[u8], wanted: u8) -> u16 {
    let mut counters = [0u8; 16];
    let (whole, rest) = symbols.as_chunks::<16>();
    for sixteen in whole {
        for (counter, &symbol) in counters.iter_mut().zip(sixteen) {
            *counter += u8::from(symbol == wanted);
        }
    }
    let rest = rest.iter().filter(|&&symbol| symbol == wanted).count() as u16;
    rest + counters.iter().map(|&c| u16::from(c)).sum::<u16>()
}
