//! One shard: read, validated, authenticated; and frames out of it.

use super::load_times::{LoadPhase, LoadTimes};
use super::manifest::{Manifest, RawAccess, WorkingType};
use super::open::PackFile;
use crate::digest::Hasher;
use crate::{ContainerCode, Digest};
use rayon::prelude::*;
use stempack_codecs::counts::{Counts, expand_tile};
use stempack_codecs::shard::{PackedShard, Profile, TileIndex};
use stempack_codecs::tile::{READ_SLACK, Unpack};
use stempack_codecs::{pack_u8, pack_u16};
use stempack_model::{Error, Result, SampleType, SamplesMut};

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

impl PackFile {
    /// Reads, validates and authenticates one shard.
    ///
    /// # Errors
    /// `digest_mismatch`, `uint8_label_conflict`, the codecs' codes, each naming the shard; `io`.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn load_shard(&self, ordinal: usize) -> Result<LoadedShard> {
        self.load(ordinal).map_err(|e| {
            e.at(format_args!("`{}`, shard {ordinal}", self.path().display())).with("shard", ordinal)
        })
    }

    fn load(&self, ordinal: usize) -> Result<LoadedShard> {
        let index = &self.index;
        let record = &index.shards[ordinal];
        let pixels = index.shape.detector.pixels();
        // Every size was checked against the file and against the others when the index was parsed.
        let decoded = record.decoded_bytes as usize;
        let times = &self.times;
        let mut payload = vec![0; decoded + READ_SLACK];
        let (tables_sha256, digest, tile_index, max_widths) = match index.profile {
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
                let digest = self.hashed(record.payload_offset, &mut payload[..decoded])?;
                (tables, digest, TileIndex::Nibbles { words, meaning: index.nibbles }, maxima)
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
                let digest = times.take(LoadPhase::Integrity, || Digest::of(&payload[..decoded]));
                (tables, digest, TileIndex::Widths { widths, bases }, maxima)
            }
        };
        if digest != record.decoded_sha256 {
            return Err(Error::new(
                ContainerCode::DigestMismatch,
                format!("bitstream hashes to {digest}, the index says {}", record.decoded_sha256),
            ));
        }
        if index.profile == Profile::U16 && self.manifest().working == WorkingType::U8 {
            self.check_label(&max_widths)?;
        }
        let shard = PackedShard::new(index.profile, index.scans_per_shard, pixels, payload, tile_index);
        Ok(LoadedShard { shard, max_widths, tables_sha256 })
    }

    /// Reads and hashes piece by piece, each while it is still in the cache.
    fn hashed(&self, offset: u64, into: &mut [u8]) -> Result<Digest> {
        const PIECE: usize = 1 << 18;
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
        match max_widths
            .iter()
            .enumerate()
            .find(|(pixel, width)| **width > 8 && !self.index.excluded.contains(&(*pixel as u32)))
        {
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
