//! Writing a `.qem` file from any source: encoded chunk by chunk into a draft that appears complete or not at all.
//!
//! The header stands in front of the body but is known last. Its place is reserved for the longest it can become, and
//! the blanks that remain stand after its closing brace, where JSON allows them: no byte of the body is moved.

use super::background::Background;
use super::calibration::overrides_section;
use super::envelope::{PREFIX_BYTES, prefix};
use super::header::BLOCK_BYTES;
use super::layout::{Chunk, Span, addressable, lane_scans, spatial_fields};
use super::narrow::Narrowing;
use super::resave::{OverrideChange, resave};
use super::write_header::{Facts, Finished};
use super::{INTERVAL, QemCodec, QemFile};
use crate::digest::{Digest, Hasher, sha256_file};
use crate::publish::{Draft, refuse_existing};
use crate::{ContainerCode, identity};
use std::borrow::Cow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stempack_codecs::qem::{columns, lanes};
use stempack_model::{
    Acquisition, Error, FrameSource, MemberDigest, ModelCode, Result, SampleType, Samples, SamplesRef,
    Shape4, Task,
};

/// How to write.
#[derive(Clone, Debug, Default)]
pub struct QemOptions {
    /// Replace an existing destination.
    pub force: bool,
    /// Calibration that a person states over what is recorded.
    pub overrides: OverrideChange,
    /// A mean dark frame that products of the copy subtract; float32 samples only, which are saved as they are.
    pub background: Option<Background>,
}

/// What a write did.
#[derive(Clone, Debug)]
pub struct QemReport {
    /// How the body is coded.
    pub codec: QemCodec,
    /// Type of the stored samples.
    pub stored: SampleType,
    /// Type of the source's samples, where it is another one.
    pub narrowed_from: Option<SampleType>,
    /// Size of the file.
    pub output_bytes: u64,
    /// SHA-256 of the file: its seal.
    pub output_sha256: Digest,
    /// SHA-256 of the dense little-endian array as stored; `None` for a copy whose source does not record it.
    pub logical_sha256: Option<Digest>,
    /// Content identity of the source.
    pub source_identity: Digest,
    /// Chunks of the body.
    pub chunks: usize,
    /// Most memory the buffers took.
    pub peak_bytes: u64,
}

/// What writing will take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemPlan {
    /// How the body will be coded.
    pub codec: QemCodec,
    /// Type of the stored samples.
    pub stored: SampleType,
    /// Chunks of the body.
    pub chunks: u64,
    /// Scan positions of every chunk but the last.
    pub scans_per_chunk: usize,
    /// Most memory the buffers take.
    pub peak_bytes: u64,
    /// No file is larger.
    pub output_maximum_bytes: u64,
}

/// Plans without reading a frame.
///
/// # Errors
/// As [`write()`], as far as it can be known.
pub fn plan(acquisition: &Acquisition, task: &Task) -> Result<QemPlan> {
    let plan = Plan::of(acquisition, task)?;
    Ok(QemPlan {
        codec: plan.codec,
        stored: plan.narrowing.stored,
        chunks: plan.chunks(),
        scans_per_chunk: plan.chunk_scans,
        peak_bytes: plan.peak_bytes,
        output_maximum_bytes: plan.most_body_bytes() + super::envelope::MOST_HEADER_BYTES + PREFIX_BYTES,
    })
}

/// Refuses a name that readers of this format would not take for one.
pub(super) fn check_name(destination: &Path) -> Result<()> {
    let extension = destination.extension().and_then(|e| e.to_str());
    if extension.is_some_and(|e| e.eq_ignore_ascii_case("qem")) {
        return Ok(());
    }
    Err(Error::new(ContainerCode::QemName, format!("`{}` does not end in `.qem`", destination.display()))
        .with("path", destination.display().to_string()))
}

/// Saves `source` losslessly as a new `.qem` file.
///
/// A `.qem` file is copied: what is encoded byte for byte, and its header with every key, overrides and unknown ones
/// included; only a retired `QGPUSTRM` file is written anew.
///
/// The file appears complete or not at all; after an error or cancellation the destination is as it was. The same source
/// gives the same bytes wherever the memory budget holds a chunk of 512 scan positions.
///
/// # Errors
/// `destination_exists`, `not_a_qem_name`, `missing_scan_shape`; `not_representable` for samples that the format cannot
/// hold bit for bit; `invalid_override`; the source's own errors; `io`; `cancelled`.
pub fn write(
    source: &dyn FrameSource,
    destination: &Path,
    options: &QemOptions,
    task: &Task,
) -> Result<QemReport> {
    check_name(destination)?;
    refuse_existing(destination, options.force)?;
    if let Some(file) = source.as_container().and_then(|any| any.downcast_ref::<QemFile>())
        && !file.header.legacy
    {
        return resave(file, destination, options, task);
    }
    let overrides = match &options.overrides {
        OverrideChange::Set(overrides) => overrides_section(overrides)?,
        OverrideChange::Keep | OverrideChange::Clear => Default::default(),
    };
    let acquisition = source.acquisition();
    let plan = Plan::of(acquisition, task)?;
    let valid = admitted(acquisition)?;
    if let Some(background) = &options.background {
        background.check_fits(acquisition)?;
    }
    let facts = Facts {
        acquisition,
        shape: plan.shape,
        codec: plan.codec,
        narrowing: plan.narrowing,
        valid: &valid,
        overrides,
        background: options.background.as_ref(),
    };
    let draft = Draft::create(destination)?;
    // The digests are as long as these whatever they turn out to be.
    let stand_in: Vec<MemberDigest> = (acquisition.members.iter().enumerate())
        .map(|(member, m)| MemberDigest { member, role: m.role, sha256: [0; 32] })
        .collect();
    let reserved = facts.most_bytes(plan.chunks(), plan.most_body_bytes(), &stand_in)?;
    let body = BodyWriter::new(&draft, PREFIX_BYTES + reserved);
    let (body, members) = beside_digests(source, task, || encode_body(source, &plan, &valid, body, task))?;
    identity::as_recorded(source, Some(body.source_sha256))?;
    let finished = Finished {
        chunks: &body.chunks,
        body_bytes: body.bytes,
        checksums: &body.checksums,
        logical_sha256: body.logical_sha256,
        members: &members,
    };
    write_front(&draft, facts.header(&finished), reserved)?;
    source.check_unchanged()?;
    let (output_bytes, output_sha256) = seal(&draft, task)?;
    task.check()?;
    draft.publish(options.force)?;
    Ok(QemReport {
        codec: plan.codec,
        stored: plan.narrowing.stored,
        narrowed_from: plan.narrowing.operation().map(|_| plan.narrowing.source),
        output_bytes,
        output_sha256,
        logical_sha256: Some(body.logical_sha256),
        source_identity: identity::source_identity(&members),
        chunks: body.chunks.len(),
        peak_bytes: plan.peak_bytes,
    })
}

/// One flag for every pixel: whether it enters spatial sums and products.
fn admitted(acquisition: &Acquisition) -> Result<Vec<bool>> {
    let mut valid = vec![true; acquisition.detector.pixels()];
    for &pixel in &acquisition.excluded.pixels {
        match valid.get_mut(pixel as usize) {
            Some(flag) => *flag = false,
            None => {
                return Err(Error::new(
                    ContainerCode::Calibration,
                    format!("excluded pixel {pixel} lies outside the {} detector", acquisition.detector),
                ));
            }
        }
    }
    Ok(valid)
}

/// How the samples are cut into chunks.
pub(super) struct Plan {
    pub(super) shape: Shape4,
    pub(super) codec: QemCodec,
    pub(super) narrowing: Narrowing,
    pub(super) chunk_scans: usize,
    pub(super) peak_bytes: u64,
}

impl Plan {
    pub(super) fn of(a: &Acquisition, task: &Task) -> Result<Self> {
        let Some(shape) = a.shape().filter(|s| s.scan.positions() as u64 == a.frame_count) else {
            return Err(Error::new(
                ContainerCode::NoScanShape,
                format!("{} frames have no scan shape that covers them", a.frame_count),
            )
            .hint("state it as rows × columns"));
        };
        if let Some(axis) = shape.dims().into_iter().find(|&d| d as u64 >= super::header::AXIS_LIMIT) {
            return Err(Error::new(
                ContainerCode::NotRepresentable,
                format!("an axis of {axis} is longer than {}", super::header::AXIS_LIMIT - 1),
            ));
        }
        let narrowing = Narrowing::of(a.sample);
        let pixels = shape.detector.pixels() as u64;
        let codec = if narrowing.stored.is_float() { QemCodec::Lanes } else { QemCodec::Columns };
        if codec == QemCodec::Lanes && !a.excluded.pixels.is_empty() {
            return Err(Error::new(
                ContainerCode::NotRepresentable,
                format!("floats with {} excluded pixels cannot be stored", a.excluded.pixels.len()),
            )
            .hint("`.qem` has a detector mask for counts only, and leaving it out would let these pixels into products"));
        }
        let most = match codec {
            QemCodec::Lanes => lane_scans(pixels) as usize,
            // Fewer scans where 512 could exceed 32-bit offsets.
            _ => (1..=INTERVAL).rev().find(|&s| addressable(s as u64, pixels)).unwrap_or(0),
        };
        let narrowed = if narrowing.operation().is_some() { narrowing.stored.bytes() } else { 0 };
        // Two windows of the source, one of them narrowed; float halves; streams that are never longer than literals.
        let lanes = if codec == QemCodec::Lanes { 2 } else { 1 };
        let per_scan = pixels * (2 * a.sample.bytes() + narrowed + 4 * lanes + 2) as u64;
        let fixed = pixels * lanes as u64 * 16 + (4 << 20);
        let room = task.memory_budget().saturating_sub(fixed) / per_scan.max(1);
        let mut scans = most.min(room as usize).min(shape.scan.positions());
        if scans == 0 {
            return Err(if most == 0 {
                Error::new(
                    ContainerCode::NotRepresentable,
                    format!("one frame of {pixels} pixels is more than a chunk can hold"),
                )
            } else {
                Error::new(
                    ModelCode::OverBudget,
                    format!("one frame needs {} bytes of buffers", per_scan + fixed),
                )
            });
        }
        // A table of many chunks would outgrow the header; small frames then share one.
        const MOST_CHUNKS: usize = 24_000;
        while codec == QemCodec::Columns
            && shape.scan.positions().div_ceil(scans) > MOST_CHUNKS
            && scans >= INTERVAL
            && addressable(2 * scans as u64, pixels)
            && 2 * scans as u64 <= room
        {
            scans *= 2;
        }
        let peak_bytes = fixed + per_scan * scans as u64;
        Ok(Plan { shape, codec, narrowing, chunk_scans: scans, peak_bytes })
    }

    pub(super) fn chunks(&self) -> u64 {
        self.shape.scan.positions().div_ceil(self.chunk_scans) as u64
    }

    /// No body is longer than this.
    pub(super) fn most_body_bytes(&self) -> u64 {
        let (positions, pixels) = (self.shape.scan.positions() as u64, self.shape.detector.pixels() as u64);
        let blocks = positions.div_ceil(INTERVAL as u64) + self.chunks();
        let lanes = if self.codec == QemCodec::Lanes { 2 } else { 1 };
        let samples = positions.saturating_mul(pixels).saturating_mul(2 * lanes);
        let tables = blocks.saturating_mul(pixels * lanes * 5 + spatial_fields(self.shape) * 13 + 64);
        let sums = positions.saturating_mul(spatial_fields(self.shape) * 4);
        samples.saturating_add(tables).saturating_add(sums)
    }
}

/// Writes arrays one after another and hashes them in blocks of 64 MiB.
pub(super) struct BodyWriter<'a> {
    draft: &'a Draft,
    start: u64,
    cursor: u64,
    hasher: Hasher,
    checksums: Vec<Digest>,
}

/// A body that is written.
pub(super) struct Written {
    pub(super) chunks: Vec<Chunk>,
    pub(super) bytes: u64,
    pub(super) checksums: Vec<Digest>,
    pub(super) logical_sha256: Digest,
    /// Of the samples as the source gives them.
    pub(super) source_sha256: Digest,
}

impl<'a> BodyWriter<'a> {
    pub(super) fn new(draft: &'a Draft, start: u64) -> Self {
        BodyWriter { draft, start, cursor: 0, hasher: Hasher::default(), checksums: Vec::new() }
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) -> Result<Span> {
        let span = Span { offset: self.cursor, bytes: bytes.len() as u64 };
        let at = self.start + self.cursor;
        self.draft.file().write_all_at(bytes, at).map_err(|e| Error::io("write", self.draft.path(), e))?;
        while !bytes.is_empty() {
            let room = BLOCK_BYTES - self.cursor % BLOCK_BYTES;
            let (now, later) = bytes.split_at(bytes.len().min(room as usize));
            self.hasher.update(now);
            self.cursor += now.len() as u64;
            if self.cursor.is_multiple_of(BLOCK_BYTES) {
                self.checksums.push(std::mem::take(&mut self.hasher).finish());
            }
            bytes = later;
        }
        Ok(span)
    }

    /// The next array begins at a multiple of eight.
    fn aligned(&mut self, bytes: &[u8]) -> Result<Span> {
        let gap = self.cursor.next_multiple_of(8) - self.cursor;
        self.put(&[0; 8][..gap as usize])?;
        self.put(bytes)
    }

    fn finish(mut self, chunks: Vec<Chunk>, logical_sha256: Digest, source_sha256: Digest) -> Written {
        if !self.cursor.is_multiple_of(BLOCK_BYTES) {
            self.checksums.push(self.hasher.finish());
        }
        Written { chunks, bytes: self.cursor, checksums: self.checksums, logical_sha256, source_sha256 }
    }
}

/// Reads, narrows, hashes and encodes every chunk; the next window is read meanwhile.
pub(super) fn encode_body(
    source: &dyn FrameSource,
    plan: &Plan,
    valid: &[bool],
    mut body: BodyWriter<'_>,
    task: &Task,
) -> Result<Written> {
    let pixels = plan.shape.detector.pixels();
    let positions = plan.shape.scan.positions();
    let sample = source.acquisition().sample;
    let len = |first: usize| plan.chunk_scans.min(positions.saturating_sub(first)) * pixels;
    let quiet = task.quiet();
    let read = |first: usize, window: &mut Samples| match len(first) {
        0 => Ok(()),
        n => source.read(first as u64, window.head_mut(n), &quiet),
    };
    let mut now = Samples::zeroed(sample, len(0));
    let mut next = Samples::zeroed(sample, len(plan.chunk_scans));
    let (mut logical, mut original) = (Hasher::default(), Hasher::default());
    // Only what is stored in another type has two digests, of which one may have to be compared.
    let twice = plan.narrowing.operation().is_some() && source.recorded_sha256().is_some();
    let mut chunks = Vec::new();
    task.begin("pack", (positions * pixels) as u64 * sample.bytes() as u64);
    read(0, &mut now)?;
    for first in (0..positions).step_by(plan.chunk_scans) {
        task.check()?;
        let n = len(first);
        let narrowed = plan.narrowing.apply(now.head(n), first as u64, pixels)?;
        let stored = narrowed.as_ref().map_or_else(|| now.head(n), Samples::as_ref);
        let (ahead, ((), encoded)) = rayon::join(
            || read(first + plan.chunk_scans, &mut next),
            || {
                rayon::join(
                    || {
                        logical.update(&stored.little_endian());
                        if twice {
                            original.update(&now.head(n).little_endian());
                        }
                    },
                    || Encoded::of(stored, plan, valid, &quiet),
                )
            },
        );
        chunks.push(encoded?.put(&mut body, first as u64, (n / pixels) as u64)?);
        ahead?;
        task.advance((n * sample.bytes()) as u64);
        std::mem::swap(&mut now, &mut next);
    }
    task.finish();
    let logical = logical.finish();
    Ok(body.finish(chunks, logical, if twice { original.finish() } else { logical }))
}

struct Encoded {
    streams: columns::EncodedChunk,
    spatial: Option<columns::SpatialIndex>,
}

impl Encoded {
    fn of(stored: SamplesRef<'_>, plan: &Plan, valid: &[bool], task: &Task) -> Result<Self> {
        let detector = plan.shape.detector;
        let pixels = detector.pixels();
        match stored {
            SamplesRef::U8(v) => Ok(Encoded {
                streams: columns::encode(v, pixels, task)?,
                spatial: Some(columns::spatial_index(v, detector, valid)),
            }),
            SamplesRef::U16(v) => Ok(Encoded {
                streams: columns::encode(v, pixels, task)?,
                spatial: Some(columns::spatial_index(v, detector, valid)),
            }),
            SamplesRef::F32(v) => Ok(Encoded { streams: lanes::encode(v, pixels, task)?, spatial: None }),
            other => Err(Error::new(
                ContainerCode::NotRepresentable,
                format!("{} samples are not stored", other.sample_type()),
            )),
        }
    }

    fn put(self, body: &mut BodyWriter<'_>, first: u64, scans: u64) -> Result<Chunk> {
        let Encoded { streams, spatial } = self;
        let offsets = little_endian(&streams.offsets, |v| v.to_le_bytes());
        let mut chunk = Chunk {
            first,
            scans,
            payload: Span::default(),
            offsets: Span::default(),
            selectors: Span::default(),
            spatial: None,
            region: 0,
        };
        if let Some(index) = spatial {
            chunk.payload = body.aligned(&streams.payload)?;
            chunk.offsets = body.aligned(&offsets)?;
            chunk.selectors = body.aligned(&streams.selectors)?;
            chunk.spatial = Some([
                body.aligned(&little_endian(&index.words, |v| v.to_le_bytes()))?,
                body.aligned(&little_endian(&index.offsets, |v| v.to_le_bytes()))?,
                body.aligned(&index.widths)?,
            ]);
        } else {
            // No array of the float codec may be empty.
            let payload = if streams.payload.is_empty() { &[0][..] } else { &streams.payload };
            chunk.payload = body.put(payload)?;
            chunk.offsets = body.put(&offsets)?;
            chunk.selectors = body.put(&streams.selectors)?;
        }
        Ok(chunk)
    }
}

fn little_endian<T: bytemuck::NoUninit, const N: usize>(v: &[T], le: impl Fn(T) -> [u8; N]) -> Cow<'_, [u8]> {
    stempack_model::little_endian_words(v, le)
}

/// Hashes the members on a thread of its own while `encode` runs; when `encode` fails, the hashing is stopped.
pub(super) fn beside_digests<T>(
    source: &dyn FrameSource,
    task: &Task,
    encode: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<MemberDigest>)> {
    let stop = Arc::new(AtomicBool::new(false));
    let hashing = task.quiet().with_cancel(stop.clone());
    std::thread::scope(|scope| {
        let digests = scope.spawn(move || source.digest_members(&hashing));
        let encoded = encode().inspect_err(|_| stop.store(true, Ordering::Relaxed));
        let digests = match digests.join() {
            Ok(digests) => digests,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok((encoded?, digests?))
    })
}

/// Prefix and header, filled with blanks up to the body.
pub(super) fn write_front(draft: &Draft, mut header: String, reserved: u64) -> Result<()> {
    let Some(blanks) = (reserved as usize).checked_sub(header.len()) else {
        return Err(Error::new(
            ContainerCode::TooLarge,
            format!("the header has {} bytes, {reserved} were reserved", header.len()),
        ));
    };
    header.extend(std::iter::repeat_n(' ', blanks));
    let front = [&prefix(header.as_bytes())?[..], header.as_bytes()].concat();
    draft.file().write_all_at(&front, 0).map_err(|e| Error::io("write", draft.path(), e))
}

/// Size and SHA-256 of a draft, whose bytes the disk takes meanwhile.
pub(super) fn seal(draft: &Draft, task: &Task) -> Result<(u64, Digest)> {
    let bytes = draft.file().metadata().map_err(|e| Error::io("stat", draft.path(), e))?.len();
    task.begin("hash container", bytes);
    let (synced, digest) = rayon::join(|| draft.sync(), || sha256_file(draft.path(), task));
    synced?;
    task.finish();
    Ok((bytes, digest?))
}
