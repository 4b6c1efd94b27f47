//! Encoded and decoded blocks of scan positions: loaded from authenticated bytes, kept within the memory budget.

use super::layout::{Block, Span, spatial_fields};
use super::{QemCodec, QemFile};
use crate::ContainerCode;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stempack_codecs::qem::{columns, lanes, xor};
use stempack_model::{Error, Result, SampleType, Samples, SamplesMut, Task};

/// Values by block, the least recently used of which go first.
#[derive(Debug)]
struct Lru<T> {
    entries: Vec<(Block, Arc<T>, u64)>,
}

impl<T> Default for Lru<T> {
    fn default() -> Self {
        Lru { entries: Vec::new() }
    }
}

impl<T> Lru<T> {
    fn get(&mut self, block: Block) -> Option<Arc<T>> {
        let at = self.entries.iter().rposition(|e| e.0 == block)?;
        let entry = self.entries.remove(at);
        let value = entry.1.clone();
        self.entries.push(entry);
        Some(value)
    }
    fn put(&mut self, block: Block, value: Arc<T>, bytes: u64, room: u64) {
        if bytes > room {
            return;
        }
        self.entries.retain(|e| e.0 != block);
        self.make_room(bytes, room);
        self.entries.push((block, value, bytes));
    }
    /// Lets values go until `bytes` more fit, and gives the last of them, whose memory may serve again.
    fn make_room(&mut self, bytes: u64, room: u64) -> Option<Arc<T>> {
        let mut held: u64 = self.entries.iter().map(|e| e.2).sum::<u64>() + bytes;
        let mut gone = None;
        while held > room && !self.entries.is_empty() {
            let entry = self.entries.remove(0);
            held -= entry.2;
            gone = Some(entry.1);
        }
        gone
    }
}

/// What has been loaded and decoded. At most half of the budget of whoever asked last.
#[derive(Debug, Default)]
pub(super) struct Cache {
    encoded: Mutex<Lru<Encoded>>,
    spatial: Mutex<Lru<EncodedSpatial>>,
    frames: Mutex<Lru<Samples>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The streams of one block as a chunk of their own.
#[derive(Debug)]
pub(super) struct Encoded {
    scans: usize,
    payload: Vec<u8>,
    offsets: Vec<u8>,
    selectors: Vec<u8>,
}

/// The tile sums of one block as an index of their own.
#[derive(Debug)]
pub(super) struct EncodedSpatial {
    scans: usize,
    words: Vec<u8>,
    offsets: Vec<u8>,
    widths: Vec<u8>,
}

impl QemFile {
    /// Says in which block something is wrong.
    fn in_block(&self, block: Block) -> impl Fn(Error) -> Error + '_ {
        move |e| match e.kind() {
            stempack_model::Kind::Malformed => e
                .at(format_args!("chunk {}, scan positions {} to {}", block.chunk, block.first, block.stop()))
                .with("chunk", block.chunk),
            _ => e,
        }
    }

    /// The encoded streams of a block.
    pub(super) fn encoded(&self, block: Block, task: &Task) -> Result<Arc<Encoded>> {
        if let Some(kept) = locked(&self.cache.encoded).get(block) {
            return Ok(kept);
        }
        let encoded = Arc::new(self.load(block, task).map_err(self.in_block(block))?);
        let bytes = encoded.payload.len() + encoded.offsets.len() + encoded.selectors.len();
        locked(&self.cache.encoded).put(block, encoded.clone(), bytes as u64, task.memory_budget() / 8);
        Ok(encoded)
    }

    fn load(&self, block: Block, task: &Task) -> Result<Encoded> {
        let chunk = &self.header.layout.chunks[block.chunk];
        let read = |span: Span| self.body.read(span, task);
        let whole = |payload: Span, offsets: Span, selectors: Span| {
            Ok(Encoded {
                scans: block.scans,
                payload: read(payload)?,
                offsets: read(offsets)?,
                selectors: read(selectors)?,
            })
        };
        if !matches!(self.header.codec, QemCodec::Columns | QemCodec::Scaled) || chunk.blocks() == 1 {
            return whole(chunk.payload, chunk.offsets, chunk.selectors);
        }
        let pixels = self.shape().detector.pixels() as u64;
        let first = block.index * pixels;
        let offsets = read(chunk.offsets.part(4 * first..4 * (first + pixels + 1)))?;
        let table: Vec<u32> =
            offsets.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap_or_default())).collect();
        let (begin, end) = (table[0], table[table.len() - 1]);
        let last = block.index + 1 == chunk.blocks();
        let bytes = chunk.payload.bytes;
        let fault = |what: String| Error::new(ContainerCode::QemStreams, what);
        if (block.index == 0 && begin != 0) || begin > end || u64::from(end) > bytes {
            return Err(fault(format!("streams lie at {begin} to {end} of a payload of {bytes} bytes")));
        }
        if last && u64::from(end) != bytes {
            return Err(fault(format!("the last stream ends at {end}, the payload has {bytes} bytes")));
        }
        let mut rebased = Vec::with_capacity(offsets.len());
        for (pixel, offset) in table.iter().enumerate() {
            match offset.checked_sub(begin) {
                Some(offset) => rebased.extend_from_slice(&offset.to_le_bytes()),
                None => return Err(fault(format!("pixel {pixel}: stream offset {offset} decreases"))),
            }
        }
        Ok(Encoded {
            scans: block.scans,
            payload: read(chunk.payload.part(begin.into()..end.into()))?,
            offsets: rebased,
            selectors: read(chunk.selectors.part(first..first + pixels))?,
        })
    }

    /// The spatial index of a block; `None` for codecs without one.
    pub(super) fn encoded_spatial(&self, block: Block, task: &Task) -> Result<Option<Arc<EncodedSpatial>>> {
        let Some(spans) = self.header.layout.chunks[block.chunk].spatial else { return Ok(None) };
        if let Some(kept) = locked(&self.cache.spatial).get(block) {
            return Ok(Some(kept));
        }
        let spatial = Arc::new(self.load_spatial(block, spans, task).map_err(self.in_block(block))?);
        let bytes = spatial.words.len() + spatial.offsets.len() + spatial.widths.len();
        locked(&self.cache.spatial).put(block, spatial.clone(), bytes as u64, task.memory_budget() / 8);
        Ok(Some(spatial))
    }

    fn load_spatial(&self, block: Block, spans: [Span; 3], task: &Task) -> Result<EncodedSpatial> {
        let [words, offsets, widths] = spans;
        let fields = spatial_fields(self.shape());
        let first = block.index * fields;
        let table = self.body.read(offsets.part(8 * first..8 * (first + fields + 1)), task)?;
        let table: Vec<u64> =
            table.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default())).collect();
        let (begin, end) = (table[0], table[table.len() - 1]);
        let stored = words.bytes / 4;
        let last = block.index + 1 == self.header.layout.chunks[block.chunk].blocks();
        let fault = |what: String| Error::new(ContainerCode::QemSpatialIndex, what);
        if (block.index == 0 && begin != 0) || begin > end || end > stored || (last && end != stored) {
            return Err(fault(format!("the spatial index lies at {begin} to {end} of {stored} words")));
        }
        let mut rebased = Vec::with_capacity(8 * table.len());
        for (field, offset) in table.iter().enumerate() {
            match offset.checked_sub(begin) {
                Some(offset) => rebased.extend_from_slice(&offset.to_le_bytes()),
                None => return Err(fault(format!("field {field}: word offset {offset} decreases"))),
            }
        }
        Ok(EncodedSpatial {
            scans: block.scans,
            words: self.body.read(words.part(4 * begin..4 * end), task)?,
            offsets: rebased,
            widths: self.body.read(widths.part(first..first + fields), task)?,
        })
    }

    /// Runs `with` on the checked streams of a block of counts or codes.
    pub(super) fn with_columns<T>(
        &self,
        block: Block,
        encoded: &Encoded,
        with: impl FnOnce(&columns::Chunk<'_>) -> Result<T>,
    ) -> Result<T> {
        let most = self.header.stored.max_unsigned().unwrap_or_default() as u16;
        let pixels = self.shape().detector.pixels();
        columns::Chunk::new(
            encoded.scans,
            pixels,
            most,
            &encoded.payload,
            &encoded.offsets,
            &encoded.selectors,
        )
        .and_then(|chunk| with(&chunk))
        .map_err(self.in_block(block))
    }

    /// Runs `with` on the checked spatial index of a block.
    pub(super) fn with_spatial<T>(
        &self,
        block: Block,
        encoded: &EncodedSpatial,
        with: impl FnOnce(&columns::Spatial<'_>) -> Result<T>,
    ) -> Result<T> {
        let detector = self.shape().detector;
        columns::Spatial::new(encoded.scans, detector, &encoded.words, &encoded.offsets, &encoded.widths)
            .and_then(|spatial| with(&spatial))
            .map_err(self.in_block(block))
    }

    /// Decodes scan positions `range` of a block into `out`, which has the stored type.
    pub(super) fn decode(
        &self,
        block: Block,
        range: Range<usize>,
        out: SamplesMut<'_>,
        task: &Task,
    ) -> Result<()> {
        let encoded = self.encoded(block, task)?;
        let pixels = self.shape().detector.pixels();
        match (self.header.codec, out) {
            (QemCodec::Columns, SamplesMut::U8(out)) => {
                self.with_columns(block, &encoded, |c| c.decode(range, out, task))
            }
            (QemCodec::Columns | QemCodec::Scaled, SamplesMut::U16(out)) => {
                self.with_columns(block, &encoded, |c| c.decode(range, out, task))
            }
            (QemCodec::Scaled, SamplesMut::F32(out)) => {
                let mut codes = vec![0u16; out.len()];
                self.with_columns(block, &encoded, |c| c.decode(range, &mut codes, task))?;
                let region = self.header.regions[self.header.layout.chunks[block.chunk].region];
                // In double precision with one rounding at the end.
                out.iter_mut()
                    .zip(&codes)
                    .for_each(|(v, &code)| *v = (f64::from(code) * region.scale + region.offset) as f32);
                Ok(())
            }
            (QemCodec::Lanes, SamplesMut::F32(out)) => lanes::LaneChunk::new(
                encoded.scans,
                pixels,
                &encoded.payload,
                &encoded.offsets,
                &encoded.selectors,
            )
            .and_then(|chunk| chunk.decode(range, out, task))
            .map_err(self.in_block(block)),
            (QemCodec::Xor, SamplesMut::F32(out)) => {
                xor::XorChunk::new(encoded.scans, &encoded.payload, &encoded.offsets)
                    .and_then(|chunk| chunk.decode(range, out, task))
                    .map_err(self.in_block(block))
            }
            (_, out) => Err(Error::new(
                stempack_model::ModelCode::OutOfRange,
                format!("a buffer of {} cannot take {}", out.sample_type(), self.described().sample),
            )),
        }
    }

    /// Frames of one block, decoded once for many small reads. `None` when the budget does not hold them.
    pub(super) fn block_frames(&self, block: Block, task: &Task) -> Result<Option<Arc<Samples>>> {
        if let Some(kept) = locked(&self.cache.frames).get(block) {
            return Ok(Some(kept));
        }
        let sample = self.described().sample;
        let len = block.scans * self.shape().detector.pixels();
        // Codes and float halves are decoded before they become floats.
        let codes = if sample == SampleType::F32 { sample.bytes() } else { 0 };
        let room = task.memory_budget() / 4;
        if (len * (sample.bytes() + codes)) as u64 > room {
            return Ok(None);
        }
        let bytes = (len * sample.bytes()) as u64;
        // Old frames go before new ones come. Their buffer is used again: thrown away and allocated by one thread after
        // another, the memory of several would stay with the allocator.
        let old = locked(&self.cache.frames).make_room(bytes, room).and_then(Arc::into_inner);
        let fits = |old: &Samples| old.sample_type() == sample && old.len() == len;
        let mut frames = old.filter(fits).unwrap_or_else(|| Samples::zeroed(sample, len));
        self.decode(block, 0..block.scans, frames.as_mut(), task)?;
        let frames = Arc::new(frames);
        locked(&self.cache.frames).put(block, frames.clone(), bytes, room);
        Ok(Some(frames))
    }

    /// Decoded frames that are there already.
    pub(super) fn kept_frames(&self, block: Block) -> Option<Arc<Samples>> {
        locked(&self.cache.frames).get(block)
    }
}
