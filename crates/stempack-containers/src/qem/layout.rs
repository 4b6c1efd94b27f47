//! Where the arrays of every chunk lie in the body: one running cursor, and counts that follow from the shape.

use super::header::Region;
use super::values::At;
use super::{INTERVAL, QemCodec};
use crate::json::Object;
use serde_json::Value;
use std::ops::Range;
use stempack_model::{Result, Shape4};

/// Largest frame of the float codec, and what bounds its chunks.
pub(super) const LANE_BYTES: u64 = 32 << 20;
/// Pixels, columns and rows of the one detector that the row-packed codec knows.
const XOR_DETECTOR: usize = 128;

/// A range of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Span {
    pub(super) fn end(self) -> u64 {
        self.offset + self.bytes
    }
    /// A part, relative to the beginning.
    pub(super) fn part(self, range: Range<u64>) -> Span {
        debug_assert!(range.end <= self.bytes);
        Span { offset: self.offset + range.start, bytes: range.end - range.start }
    }
}

/// Scan positions that are encoded together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) first: u64,
    pub(super) scans: u64,
    pub(super) payload: Span,
    /// Stream offsets; for the row-packed codec its descriptors.
    pub(super) offsets: Span,
    pub(super) selectors: Span,
    /// Words, offsets and widths of the spatial index.
    pub(super) spatial: Option<[Span; 3]>,
    pub(super) region: usize,
}

impl Chunk {
    pub(super) fn blocks(&self) -> u64 {
        self.scans.div_ceil(INTERVAL as u64)
    }
}

/// The chunk table, checked against shape and body.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) chunks: Vec<Chunk>,
}

/// At most 512 scan positions of one chunk: what is decoded at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Block {
    pub(super) chunk: usize,
    /// Within the chunk.
    pub(super) index: u64,
    pub(super) first: u64,
    pub(super) scans: usize,
}

impl Block {
    pub(super) fn stop(&self) -> u64 {
        self.first + self.scans as u64
    }
}

pub(super) struct LayoutInput<'a> {
    pub(super) codec: QemCodec,
    pub(super) shape: Shape4,
    pub(super) body_bytes: u64,
    pub(super) regions: &'a [Region],
}

/// Number of spatial fields: tiles of 8×8 and of 32×32 pixels.
pub(super) fn spatial_fields(shape: Shape4) -> u64 {
    let (rows, cols) = (shape.detector.rows() as u64, shape.detector.cols() as u64);
    [8, 32].iter().map(|t| rows.div_ceil(*t) * cols.div_ceil(*t)).sum()
}

/// Whether offsets of 32 bits can address every stream of a chunk, whatever is in it.
pub(super) fn addressable(scans: u64, pixels: u64) -> bool {
    let longest = 2 * scans.min(INTERVAL as u64) + 4;
    let streams = scans.div_ceil(INTERVAL as u64).checked_mul(pixels);
    streams.and_then(|s| s.checked_mul(longest)).is_some_and(|bytes| bytes < 1 << 32)
}

/// Most scan positions of a chunk of the float codec; 0 when not even one frame fits.
pub(super) fn lane_scans(pixels: u64) -> u64 {
    (LANE_BYTES / (4 * pixels)).min(INTERVAL as u64)
}

impl Layout {
    pub(super) fn parse(at: &At, chunks: Option<&Value>, input: &LayoutInput<'_>) -> Result<Self> {
        let list = at.list(chunks)?;
        let total = input.shape.scan.positions() as u64;
        let (mut first, mut cursor) = (0, 0);
        let mut found = Vec::with_capacity(list.len());
        for (i, value) in list.iter().enumerate() {
            let at = at.item(i);
            let object = at.object(Some(value))?;
            at.key("first").exactly(object.get("first"), first)?;
            let scans = at.key("scans").integer(object.get("scans"))?;
            if scans == 0 || scans > total - first {
                return Err(at
                    .key("scans")
                    .fault(format_args!("is {scans}, expected 1 to the {} that remain", total - first)));
            }
            let chunk = one(&at, object, input, first, scans, &mut cursor)?;
            first += scans;
            found.push(chunk);
        }
        if first != total {
            return Err(at.fault(format_args!("cover {first} scan positions, the scan has {total}")));
        }
        if cursor != input.body_bytes {
            let bytes = input.body_bytes;
            return Err(at.fault(format_args!("end at byte {cursor} of the body, which has {bytes}")));
        }
        Ok(Layout { chunks: found })
    }

    pub(super) fn block_count(&self) -> u64 {
        self.chunks.iter().map(Chunk::blocks).sum()
    }

    /// The block that holds a scan position, which must exist.
    pub(super) fn block_at(&self, scan: u64) -> Block {
        let chunk = self.chunks.partition_point(|c| c.first <= scan).saturating_sub(1);
        let c = &self.chunks[chunk];
        let index = (scan - c.first) / INTERVAL as u64;
        let start = index * INTERVAL as u64;
        Block { chunk, index, first: c.first + start, scans: (c.scans - start).min(INTERVAL as u64) as usize }
    }

    /// All blocks in scan order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        let total = self.chunks.last().map_or(0, |c| c.first + c.scans);
        let mut next = 0;
        std::iter::from_fn(move || {
            (next < total).then(|| {
                let block = self.block_at(next);
                next = block.stop();
                block
            })
        })
    }
}

fn one(
    at: &At,
    object: &Object,
    input: &LayoutInput<'_>,
    first: u64,
    scans: u64,
    cursor: &mut u64,
) -> Result<Chunk> {
    let pixels = input.shape.detector.pixels() as u64;
    let mut chunk = Chunk {
        first,
        scans,
        payload: Span::default(),
        offsets: Span::default(),
        selectors: Span::default(),
        spatial: None,
        region: 0,
    };
    match input.codec {
        QemCodec::Columns | QemCodec::Scaled => {
            if !addressable(scans, pixels) {
                return Err(at.fault(format_args!("{scans} scans of {pixels} pixels exceed 32-bit offsets")));
            }
            let streams = scans.div_ceil(INTERVAL as u64) * pixels;
            let fields = scans.div_ceil(INTERVAL as u64) * spatial_fields(input.shape);
            // Element size, and the count where the shape decides it.
            let arrays: &[(u64, Option<u64>)] = &[
                (1, None),
                (4, Some(streams + 1)),
                (1, Some(streams)),
                (4, None),
                (8, Some(fields + 1)),
                (1, Some(fields)),
            ];
            let arrays = if input.codec == QemCodec::Columns { arrays } else { &arrays[..3] };
            let spans = aligned_arrays(&at.key("arrays"), object.get("arrays"), arrays, input, cursor)?;
            (chunk.payload, chunk.offsets, chunk.selectors) = (spans[0], spans[1], spans[2]);
            chunk.spatial = spans.get(3..6).map(|s| [s[0], s[1], s[2]]);
            if input.codec == QemCodec::Scaled {
                chunk.region = region_of(&at.key("region"), object, input, first, scans)?;
            }
        }
        QemCodec::Lanes => {
            if pixels * 4 > LANE_BYTES || scans > lane_scans(pixels) {
                let most = lane_scans(pixels);
                return Err(at.key("scans").fault(format_args!("is {scans}, at most {most} are allowed")));
            }
            chunk.payload = packed(at, object, "payload", input, cursor)?;
            chunk.offsets = packed(at, object, "offset", input, cursor)?;
            chunk.selectors = packed(at, object, "model", input, cursor)?;
            if chunk.payload.bytes > LANE_BYTES {
                return Err(at.key("payload_bytes").fault(format_args!("exceeds {LANE_BYTES}")));
            }
            at.key("offset_bytes").exactly(object.get("offset_bytes"), 4 * (2 * pixels + 1))?;
            at.key("model_bytes").exactly(object.get("model_bytes"), 2 * pixels)?;
        }
        QemCodec::Xor => {
            let detector = input.shape.detector;
            if (detector.rows(), detector.cols()) != (XOR_DETECTOR, XOR_DETECTOR) {
                return Err(
                    at.fault(format_args!("is of a {detector} detector, this codec knows 128×128 only"))
                );
            }
            if scans > INTERVAL as u64 {
                return Err(at
                    .key("scans")
                    .fault(format_args!("is {scans}, at most {INTERVAL} are allowed")));
            }
            chunk.payload = packed(at, object, "payload", input, cursor)?;
            chunk.offsets = packed(at, object, "descriptor", input, cursor)?;
            if !chunk.payload.bytes.is_multiple_of(4) {
                return Err(at.key("payload_bytes").fault("is no multiple of 4"));
            }
            let descriptors = scans * XOR_DETECTOR as u64 * 16;
            at.key("descriptor_bytes").exactly(object.get("descriptor_bytes"), descriptors)?;
        }
    }
    Ok(chunk)
}

fn advance(at: &At, cursor: &mut u64, bytes: u64, input: &LayoutInput<'_>) -> Result<Span> {
    let span = Span { offset: *cursor, bytes };
    match cursor.checked_add(bytes).filter(|&end| end <= input.body_bytes) {
        Some(end) => *cursor = end,
        None => {
            let (start, all) = (span.offset, input.body_bytes);
            return Err(at.fault(format_args!("has {bytes} bytes at {start}, the body has {all}")));
        }
    }
    Ok(span)
}

/// Arrays of the integer codecs: each begins at the next multiple of eight.
fn aligned_arrays(
    at: &At,
    value: Option<&Value>,
    kinds: &[(u64, Option<u64>)],
    input: &LayoutInput<'_>,
    cursor: &mut u64,
) -> Result<Vec<Span>> {
    let list = at.list(value)?;
    if list.len() != kinds.len() {
        return Err(at.fault(format_args!("has {} items, expected {}", list.len(), kinds.len())));
    }
    let mut spans = Vec::with_capacity(kinds.len());
    for (i, (value, &(element, expected))) in list.iter().zip(kinds).enumerate() {
        let at = at.item(i);
        let object = at.object(Some(value))?;
        let count = at.key("count").integer(object.get("count"))?;
        if let Some(expected) = expected {
            at.key("count").exactly(object.get("count"), expected)?;
        }
        *cursor = cursor.next_multiple_of(8);
        at.key("offset").exactly(object.get("offset"), *cursor)?;
        let bytes = count.checked_mul(element).ok_or_else(|| at.key("count").fault("is too large"))?;
        spans.push(advance(&at, cursor, bytes, input)?);
    }
    Ok(spans)
}

/// Arrays of the float codecs: each begins where the one before it ends, and none is empty.
fn packed(at: &At, object: &Object, name: &str, input: &LayoutInput<'_>, cursor: &mut u64) -> Result<Span> {
    let (offset, bytes) = (format!("{name}_offset"), format!("{name}_bytes"));
    at.key(&offset).exactly(object.get(&offset), *cursor)?;
    let here = at.key(&bytes);
    match here.integer(object.get(&bytes))? {
        0 => Err(here.fault("is 0")),
        n => advance(&here, cursor, n, input),
    }
}

fn region_of(at: &At, object: &Object, input: &LayoutInput<'_>, first: u64, scans: u64) -> Result<usize> {
    let index = at.integer(object.get("region"))?;
    let region = usize::try_from(index).ok().and_then(|i| input.regions.get(i));
    match region {
        Some(r) if r.first <= first && first + scans <= r.stop => Ok(index as usize),
        Some(r) => Err(at.fault(format_args!(
            "is {index}, which holds frames {} to {}; the chunk holds {first} to {}",
            r.first,
            r.stop,
            first + scans
        ))),
        None => Err(at.fault(format_args!("is {index}, there are {} regions", input.regions.len()))),
    }
}
