//! One shard: read, validated, authenticated; and frames out of it.

use super::index::ShardRecord;
use super::load_times::{LoadPhase, LoadTimes};
use super::manifest::{Manifest, RawAccess, WorkingType};
use super::open::PackFile;
use crate::digest::Hasher;
use crate::{ContainerCode, Digest};
use rayon::prelude::*;
use std::ops::Range;
use stempack_codecs::counts::{Counts, expand_tile};
use stempack_codecs::shard::{PackedShard, Profile, TileIndex};
use stempack_codecs::tile::{READ_SLACK, Unpack};
use stempack_codecs::{pack_u8, pack_u16};
use stempack_model::{Error, Result, SampleType, SamplesMut, Task};

/// Bytes read and hashed at a time: a pair of pieces stays in a core's cache.
const PIECE: usize = 1 << 18;

/// A shard whose structure is valid and whose bitstream has the digest the index gives.
#[derive(Debug)]
pub struct LoadedShard {
    /// The packed shard.
    pub shard: PackedShard,
    /// Largest width of each pixel, excluded ones included.
    pub max_widths: Vec<u8>,
    /// SHA-256 of the width bytes or compact headers, which the file itself does not authenticate.
    pub tables_sha256: Digest,
}

/// A shard on the way: its tables are valid, its bitstream is not authenticated.
struct Opened<'a> {
    ordinal: usize,
    record: &'a ShardRecord,
    index: TileIndex,
    max_widths: Vec<u8>,
    tables_sha256: Digest,
    payload: Vec<u8>,
    hasher: Hasher,
}

impl PackFile {
    /// Reads, validates and authenticates one shard.
    ///
    /// # Errors
    /// `digest_mismatch`, `uint8_label_conflict`, the codecs' codes, each naming the shard; `io`.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn load_shard(&self, ordinal: usize) -> Result<LoadedShard> {
        let mut one = self.load_shards(&[ordinal], &Task::new())?;
        Ok(one.remove(0))
    }

    /// Reads, validates and authenticates shards side by side: two are hashed in less time than one after the other.
    ///
    /// # Errors
    /// As [`PackFile::load_shard`]; `cancelled`.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn load_shards(&self, ordinals: &[usize], task: &Task) -> Result<Vec<LoadedShard>> {
        let named = |ordinal: usize| {
            move |e: Error| {
                e.at(format_args!("`{}`, shard {ordinal}", self.path().display())).with("shard", ordinal)
            }
        };
        let mut loaded = Vec::with_capacity(ordinals.len());
        for ordinals in ordinals.chunks(2) {
            let open = |&ordinal: &usize| self.open_shard(ordinal).map_err(named(ordinal));
            let mut shards = ordinals.iter().map(open).collect::<Result<Vec<_>>>()?;
            self.fill_and_hash(&mut shards, task)?;
            for shard in shards {
                let ordinal = shard.ordinal;
                loaded.push(self.authenticated(shard).map_err(named(ordinal))?);
            }
        }
        Ok(loaded)
    }

    /// Tables of a shard; of the u16 profile, its decoded bitstream too.
    fn open_shard(&self, ordinal: usize) -> Result<Opened<'_>> {
        let index = &self.index;
        let record = &index.shards[ordinal];
        // Every size was checked against the file and against the others when the index was parsed.
        let decoded = record.decoded_bytes as usize;
        let times = &self.times;
        let mut payload = vec![0; decoded + READ_SLACK];
        let (tables_sha256, tile_index, max_widths) = match index.profile {
            Profile::U8 => {
                // Read as words at once; sizes of the u8 profile's tables are whole words.
                let mut words = vec![0u32; record.widths_bytes as usize / 4];
                let tables = self.hashed(record.widths_offset, bytemuck::cast_slice_mut(&mut words))?;
                times.take(LoadPhase::Descriptors, || {
                    words.iter_mut().for_each(|word| *word = u32::from_le(*word));
                });
                let maxima = times.take(LoadPhase::Headers, || {
                    pack_u8::validate_headers(
                        &words,
                        index.nibbles,
                        index.tiles(),
                        record.decoded_bytes / 4,
                        &index.excluded,
                    )
                })?;
                (tables, TileIndex::Nibbles { words, meaning: index.nibbles }, maxima)
            }
            Profile::U16 => {
                let mut widths = vec![0; record.widths_bytes as usize];
                let tables = self.hashed(record.widths_offset, &mut widths)?;
                let (bases, maxima) = times.take(LoadPhase::Headers, || {
                    pack_u16::validate_widths(&widths, index.tiles(), record.decoded_bytes / 4)
                })?;
                let mut lengths = vec![0; record.lengths_bytes as usize];
                let mut encoded = vec![0; record.payload_bytes as usize];
                times.take(LoadPhase::Read, || {
                    self.read(record.lengths_offset, &mut lengths)?;
                    self.read(record.payload_offset, &mut encoded)
                })?;
                times.take(LoadPhase::Decode, || {
                    pack_u16::decompress_blocks(&encoded, &lengths, &mut payload[..decoded])
                })?;
                (tables, TileIndex::Widths { widths, bases }, maxima)
            }
        };
        let hasher = Hasher::default();
        Ok(Opened { ordinal, record, index: tile_index, max_widths, tables_sha256, payload, hasher })
    }

    /// Reads what is not there yet of one or two bitstreams, and hashes each piece while it is in the cache.
    fn fill_and_hash(&self, shards: &mut [Opened<'_>], task: &Task) -> Result<()> {
        let longest = shards.iter().map(|s| s.record.decoded_bytes as usize).max().unwrap_or(0);
        for at in (0..longest).step_by(PIECE) {
            task.check()?;
            for shard in shards.iter_mut().filter(|_| self.index.profile == Profile::U8) {
                let offset = shard.record.payload_offset + at as u64;
                let piece = piece_of(shard.record, at);
                self.times.take(LoadPhase::Read, || self.read(offset, &mut shard.payload[piece]))?;
            }
            self.times.take(LoadPhase::Integrity, || match &mut *shards {
                [one, two] => one.hasher.update_both(
                    &one.payload[piece_of(one.record, at)],
                    &mut two.hasher,
                    &two.payload[piece_of(two.record, at)],
                ),
                shards => {
                    shards.iter_mut().for_each(|s| s.hasher.update(&s.payload[piece_of(s.record, at)]));
                }
            });
        }
        Ok(())
    }

    fn authenticated(&self, shard: Opened<'_>) -> Result<LoadedShard> {
        let (index, digest) = (&self.index, shard.hasher.finish());
        if digest != shard.record.decoded_sha256 {
            return Err(Error::new(
                ContainerCode::DigestMismatch,
                format!("bitstream hashes to {digest}, the index says {}", shard.record.decoded_sha256),
            ));
        }
        let Opened { ordinal, max_widths, tables_sha256, .. } = shard;
        let claims = self.manifest().shards.get(ordinal).cloned().unwrap_or_default();
        if let Some(expected) = claims.widths_sha256.filter(|&expected| expected != tables_sha256) {
            return Err(Error::new(
                ContainerCode::DigestMismatch,
                format!("widths hash to {tables_sha256}, the manifest says {expected}"),
            ));
        }
        let widest = u64::from(max_widths.iter().copied().max().unwrap_or(0));
        if let Some(expected) = claims.maximum_width.filter(|&expected| expected != widest) {
            return Err(Error::new(
                ContainerCode::Disagreement,
                format!("the largest width is {widest}, the manifest says {expected}"),
            ));
        }
        if index.profile == Profile::U16 && self.manifest().working == WorkingType::U8 {
            self.check_label(&max_widths)?;
        }
        let pixels = index.shape.detector.pixels();
        let shard =
            PackedShard::new(index.profile, index.scans_per_shard, pixels, shard.payload, shard.index);
        Ok(LoadedShard { shard, max_widths, tables_sha256 })
    }

    /// Reads and hashes piece by piece, each while it is still in the cache.
    fn hashed(&self, offset: u64, into: &mut [u8]) -> Result<Digest> {
        let mut hasher = Hasher::default();
        for (k, piece) in into.chunks_mut(PIECE).enumerate() {
            self.times.take(LoadPhase::Read, || self.read(offset + (k * PIECE) as u64, piece))?;
            self.times.take(LoadPhase::Integrity, || hasher.update(piece));
        }
        Ok(hasher.finish())
    }

    /// What loading shards of this file has taken so far.
    pub fn load_times(&self) -> &LoadTimes {
        &self.times
    }

    /// A u16-profile file labelled `uint8` may exceed eight bits only at excluded pixels.
    fn check_label(&self, max_widths: &[u8]) -> Result<()> {
        let mut excluded = vec![false; max_widths.len()];
        self.index.excluded.iter().for_each(|&pixel| excluded[pixel as usize] = true);
        match max_widths.iter().enumerate().find(|&(pixel, &width)| width > 8 && !excluded[pixel]) {
            None => Ok(()),
            Some((pixel, width)) => Err(Error::new(
                ContainerCode::LabelConflict,
                format!("admitted pixel {pixel} has width {width} in a file labelled uint8"),
            )
            .with("pixel", pixel)),
        }
    }

    /// How to decode frames of this file.
    ///
    /// # Errors
    /// `raw_not_available` for raw frames of a file that cannot prove them.
    pub fn decoder(&self, kind: FrameKind) -> Result<FrameDecoder> {
        self.decoder_of(self.manifest(), kind)
    }

    /// The same under another manifest of this file.
    pub(super) fn decoder_of(&self, m: &Manifest, kind: FrameKind) -> Result<FrameDecoder> {
        let excluded = self.index.excluded.clone();
        let (sample, fill) = match kind {
            FrameKind::Working => (m.working.sample_type(), Fill::Zero),
            FrameKind::Raw => {
                let sample = m.source_note.as_ref().map_or(SampleType::U16, |n| n.sample);
                let fill = match m.raw_access {
                    RawAccess::NoExclusions | RawAccess::RetainedPayload => Fill::Keep,
                    RawAccess::ExclusionConstants => {
                        Fill::Values(m.raw_values.iter().flatten().map(|&v| v.into()).collect())
                    }
                    RawAccess::ExtensionConstants => Fill::Values(
                        m.source_note
                            .iter()
                            .flat_map(|n| n.excluded_raw_values.iter().flatten())
                            .copied()
                            .collect(),
                    ),
                    RawAccess::MaskAppliedOnly | RawAccess::ExternalAudit => {
                        return Err(Error::new(
                            ContainerCode::RawNotAvailable,
                            format!(
                                "`{}` cannot prove the detector's own values (raw access is {})",
                                self.path().display(),
                                m.raw_access.as_str()
                            ),
                        )
                        .hint("read the working array, or pack the original acquisition again"));
                    }
                };
                (sample, fill)
            }
        };
        Ok(FrameDecoder { kind, sample, excluded, fill, unpack: Unpack::detect() })
    }
}

/// The piece of a bitstream that begins at `at`; empty behind its end.
fn piece_of(record: &ShardRecord, at: usize) -> Range<usize> {
    let end = record.decoded_bytes as usize;
    at.min(end)..(at + PIECE).min(end)
}

/// Which of the two arrays: what the detector wrote, or what products see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The detector's own values.
    Raw,
    /// Zero at excluded pixels.
    Working,
}

#[derive(Clone, Debug)]
enum Fill {
    Keep,
    Zero,
    Values(Vec<u32>),
}

/// Decodes frames of packed shards into samples of one type.
#[derive(Clone, Debug)]
pub struct FrameDecoder {
    kind: FrameKind,
    sample: SampleType,
    excluded: Vec<u32>,
    fill: Fill,
    unpack: Unpack,
}

impl FrameDecoder {
    /// A decoder of working frames from shards that hold no working value wider than their counts.
    pub fn working(sample: SampleType, excluded: Vec<u32>) -> Self {
        let fill = Fill::Zero;
        FrameDecoder { kind: FrameKind::Working, sample, excluded, fill, unpack: Unpack::detect() }
    }
    /// A decoder of raw frames from shards that hold every value but those of the given pixels, which are constants.
    pub fn raw(sample: SampleType, constants: &[(u32, u32)]) -> Self {
        let (excluded, values) = constants.iter().copied().unzip();
        let fill = Fill::Values(values);
        FrameDecoder { kind: FrameKind::Raw, sample, excluded, fill, unpack: Unpack::detect() }
    }
    /// The same frames in samples of another type, which must hold them.
    pub(super) fn giving(self, sample: SampleType) -> Self {
        FrameDecoder { sample, ..self }
    }
    /// Raw or working.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }
    /// The type of the samples it gives.
    pub fn sample_type(&self) -> SampleType {
        self.sample
    }
    /// Decodes consecutive frames of a shard in any form, starting at `first_scan` within it.
    ///
    /// # Panics
    /// When `out` has another type than [`Self::sample_type`], is not a whole number of frames, or asks for scans that
    /// the shard does not have.
    pub fn decode(&self, shard: &impl Counts, first_scan: usize, out: SamplesMut<'_>) {
        assert_eq!(out.sample_type(), self.sample);
        match out {
            SamplesMut::U8(out) => self.typed(shard, first_scan, out, |v| v as u8, |v| v as u8),
            SamplesMut::U16(out) => self.typed(shard, first_scan, out, |v| v, |v| v as u16),
            SamplesMut::U32(out) => self.typed(shard, first_scan, out, u32::from, |v| v),
            SamplesMut::U64(out) => self.typed(shard, first_scan, out, u64::from, u64::from),
            SamplesMut::I8(out) => self.typed(shard, first_scan, out, |v| v as i8, |v| v as i8),
            SamplesMut::I16(out) => self.typed(shard, first_scan, out, |v| v as i16, |v| v as i16),
            SamplesMut::I32(out) => self.typed(shard, first_scan, out, i32::from, |v| v as i32),
            SamplesMut::I64(out) => self.typed(shard, first_scan, out, i64::from, i64::from),
            SamplesMut::F32(_) | SamplesMut::F64(_) => unreachable!("manifests name integer types only"),
        }
    }

    fn typed<T: Copy + Default + Send + Sync>(
        &self,
        shard: &impl Counts,
        first_scan: usize,
        out: &mut [T],
        from_count: impl Fn(u16) -> T + Sync,
        from_constant: impl Fn(u32) -> T + Sync,
    ) {
        let pixels = shard.pixels();
        /// Pixels of a frame that one thread takes.
        const PART: usize = 2048;
        assert!(out.len().is_multiple_of(pixels) && first_scan + out.len() / pixels <= shard.scans());
        let per_tile = shard.tile_scans();
        if out.len() == pixels {
            out.par_chunks_mut(PART).enumerate().for_each(|(k, part)| {
                let mut counts = [0; PART];
                let counts = &mut counts[..part.len()];
                shard.frame(first_scan, k * PART, counts);
                part.iter_mut().zip(counts).for_each(|(sample, count)| *sample = from_count(*count));
            });
        } else {
            // Cut at tile boundaries: a first part up to the next boundary, then whole tiles and a rest.
            let head = (per_tile - first_scan % per_tile).min(out.len() / pixels) * pixels;
            let (head, rest) = out.split_at_mut(head);
            rayon::join(
                || self.tile_part(shard, first_scan, head, &from_count),
                || {
                    let start = first_scan + head_len(first_scan, per_tile);
                    rest.par_chunks_mut(per_tile * pixels).enumerate().for_each(|(t, part)| {
                        self.tile_part(shard, start + t * per_tile, part, &from_count);
                    });
                },
            );
        }
        for frame in out.chunks_exact_mut(pixels) {
            match &self.fill {
                Fill::Keep => break,
                Fill::Zero => self.excluded.iter().for_each(|&p| frame[p as usize] = T::default()),
                Fill::Values(values) => {
                    self.excluded
                        .iter()
                        .zip(values)
                        .for_each(|(&p, &v)| frame[p as usize] = from_constant(v));
                }
            }
        }
    }

    /// Frames that all lie in one tile.
    fn tile_part<T: Copy + Default>(
        &self,
        shard: &impl Counts,
        first_scan: usize,
        out: &mut [T],
        from_count: &impl Fn(u16) -> T,
    ) {
        if out.is_empty() {
            return;
        }
        let per_tile = shard.tile_scans();
        let (tile, skip) = (first_scan / per_tile, first_scan % per_tile);
        if skip == 0 {
            expand_tile(shard, self.unpack, tile, out, from_count);
        } else {
            let pixels = shard.pixels();
            let mut whole = vec![T::default(); skip * pixels + out.len()];
            expand_tile(shard, self.unpack, tile, &mut whole, from_count);
            out.copy_from_slice(&whole[skip * pixels..]);
        }
    }
}

fn head_len(first_scan: usize, per_tile: usize) -> usize {
    per_tile - first_scan % per_tile
}
