//! One shard: read, validated, authenticated.

use super::index::ShardRecord;
use super::load_times::{LoadPhase, LoadTimes};
use super::manifest::WorkingType;
use super::mapped::FileMap;
use super::open::PackFile;
use crate::digest::Hasher;
use crate::{ContainerCode, Digest};
use bytes::Bytes;
use rayon::prelude::*;
use std::ops::Range;
use stempack_codecs::shard::{PackedShard, Profile, TileIndex};
use stempack_codecs::tile::READ_SLACK;
use stempack_codecs::{pack_u8, pack_u16};
use stempack_model::{Error, Result, Task};

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
    /// Whether the bitstream lies in the map of the file.
    pub in_map: bool,
}

/// A shard on the way: its tables are valid, its bitstream is not authenticated.
struct Opened<'a> {
    ordinal: usize,
    record: &'a ShardRecord,
    index: TileIndex,
    max_widths: Vec<u8>,
    tables_sha256: Digest,
    payload: Payload,
    hasher: Hasher,
}

/// A bitstream, slack behind it.
enum Payload {
    /// Room for what has yet to be read.
    ToRead(Vec<u8>),
    Decoded(Vec<u8>),
    InMap(Bytes),
}

impl Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Payload::ToRead(bytes) | Payload::Decoded(bytes) => bytes,
            Payload::InMap(bytes) => bytes,
        }
    }
}

impl From<Payload> for Bytes {
    fn from(payload: Payload) -> Bytes {
        match payload {
            Payload::ToRead(bytes) | Payload::Decoded(bytes) => bytes.into(),
            Payload::InMap(bytes) => bytes,
        }
    }
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
        self.load_shards_from(None, ordinals, task)
    }

    /// The same, bitstreams taken from `map`, the whole file in memory, where they are stored as they are used.
    pub(super) fn load_shards_from(
        &self,
        map: Option<&FileMap>,
        ordinals: &[usize],
        task: &Task,
    ) -> Result<Vec<LoadedShard>> {
        let named = |ordinal: usize| {
            move |e: Error| {
                e.at(format_args!("`{}`, shard {ordinal}", self.path().display())).with("shard", ordinal)
            }
        };
        let mut loaded = Vec::with_capacity(ordinals.len());
        for ordinals in ordinals.chunks(2) {
            let open = |&ordinal: &usize| self.open_shard(map, ordinal).map_err(named(ordinal));
            let mut shards = ordinals.iter().map(open).collect::<Result<Vec<_>>>()?;
            self.fill_and_hash(&mut shards, task)?;
            for shard in shards {
                let ordinal = shard.ordinal;
                loaded.push(self.authenticated(shard).map_err(named(ordinal))?);
            }
        }
        Ok(loaded)
    }

    /// Tables of a shard, and its bitstream where there is nothing to read: in the map, or decoded from the u16 profile.
    fn open_shard(&self, map: Option<&FileMap>, ordinal: usize) -> Result<Opened<'_>> {
        let index = &self.index;
        let record = &index.shards[ordinal];
        // Every size was checked against the file and against the others when the index was parsed.
        let decoded = record.decoded_bytes as usize;
        let times = &self.times;
        let (tables_sha256, tile_index, max_widths, payload) = match index.profile {
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
                // What follows the last bitstream may be less than the slack.
                let start = record.payload_offset as usize;
                let end = start + decoded + READ_SLACK;
                let payload = match map.and_then(|map| map.part(start..end)) {
                    Some(bytes) => Payload::InMap(bytes),
                    None => Payload::ToRead(vec![0; decoded + READ_SLACK]),
                };
                (tables, TileIndex::Nibbles { words, meaning: index.nibbles }, maxima, payload)
            }
            Profile::U16 => {
                let mut widths = vec![0; record.widths_bytes as usize];
                let tables = self.hashed(record.widths_offset, &mut widths)?;
                let (bases, maxima) = times.take(LoadPhase::Headers, || {
                    pack_u16::validate_widths(&widths, index.tiles(), record.decoded_bytes / 4)
                })?;
                let mut lengths = vec![0; record.lengths_bytes as usize];
                times.take(LoadPhase::Read, || self.read(record.lengths_offset, &mut lengths))?;
                let runs = pack_u16::runs(record.payload_bytes, &lengths, decoded)?;
                let mut payload = vec![0; decoded + READ_SLACK];
                // What is compressed is read run by run into memory that is used again: new memory costs more than reading.
                payload[..decoded].par_chunks_mut(pack_u16::RUN_BYTES).zip(&runs).try_for_each_init(
                    Vec::new,
                    |compressed, (out, run)| {
                        let Range { start, end } = run.compressed;
                        compressed.resize((end - start) as usize, 0);
                        times
                            .take(LoadPhase::Read, || self.read(record.payload_offset + start, compressed))?;
                        times.take(LoadPhase::Decode, || run.decompress(compressed, out))
                    },
                )?;
                (tables, TileIndex::Widths { widths, bases }, maxima, Payload::Decoded(payload))
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
            for shard in &mut *shards {
                let offset = shard.record.payload_offset + at as u64;
                let piece = piece_of(shard.record, at);
                if let Payload::ToRead(payload) = &mut shard.payload {
                    self.times.take(LoadPhase::Read, || self.read(offset, &mut payload[piece]))?;
                }
            }
            self.times.take(LoadPhase::Integrity, || match &mut *shards {
                [one, two] => one.hasher.update_both(
                    &one.payload.bytes()[piece_of(one.record, at)],
                    &mut two.hasher,
                    &two.payload.bytes()[piece_of(two.record, at)],
                ),
                shards => {
                    shards
                        .iter_mut()
                        .for_each(|s| s.hasher.update(&s.payload.bytes()[piece_of(s.record, at)]));
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
        let in_map = matches!(shard.payload, Payload::InMap(_));
        let shard =
            PackedShard::new(index.profile, index.scans_per_shard, pixels, shard.payload, shard.index);
        Ok(LoadedShard { shard, max_widths, tables_sha256, in_map })
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
}

/// The piece of a bitstream that begins at `at`; empty behind its end.
fn piece_of(record: &ShardRecord, at: usize) -> Range<usize> {
    let end = record.decoded_bytes as usize;
    at.min(end)..(at + PIECE).min(end)
}
