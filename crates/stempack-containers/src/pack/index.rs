//! The binary index: geometry, exclusions, source identity and one 96-byte record per shard.

use super::prepared::Stored;
use crate::{ContainerCode, Digest};
use stempack_codecs::pack_u8::{NibbleWidths, header_words_per_pixel};
use stempack_codecs::shard::{MAX_PAYLOAD_WORDS, Profile};
use stempack_codecs::{pack_u16::BLOCK_BYTES, tile::U8_SCANS};
use stempack_model::{DetectorShape, Error, Result, ScanShape, Shape4};

const MAGIC_U16: [u8; 8] = *b"QGIX\0\0\0\x01";
const MAGIC_U8: [u8; 8] = *b"QGIX\0\0\0\x03";
const RECORD_BYTES: usize = 96;

/// One shard's ranges (absolute file offsets) and payload digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecord {
    /// Stored payload: LZ4 blocks (u16) or the bitstream itself (u8).
    pub payload_offset: u64,
    /// Stored payload bytes.
    pub payload_bytes: u64,
    /// u16: one byte per block. u8: zero.
    pub lengths_offset: u64,
    /// u16: number of blocks. u8: zero.
    pub lengths_bytes: u64,
    /// u16: width bytes. u8: compact header words.
    pub widths_offset: u64,
    /// Bytes of the widths or headers.
    pub widths_bytes: u64,
    /// Bytes of the bitstream.
    pub decoded_bytes: u64,
    /// u16: width count. u8: header word count.
    pub descriptor_count: u32,
    /// u16: number of blocks. u8: zero.
    pub chunk_count: u32,
    /// SHA-256 of the bitstream.
    pub decoded_sha256: Digest,
}

/// The parsed and validated index.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) profile: Profile,
    pub(super) nibbles: NibbleWidths,
    pub(super) shape: Shape4,
    pub(super) scans_per_shard: usize,
    /// In file order.
    pub(super) excluded: Vec<u32>,
    pub(super) source_identity: Digest,
    pub(super) shards: Vec<ShardRecord>,
}

/// Bytes of an index.
pub(super) fn index_bytes(profile: Profile, excluded: usize, shards: usize) -> u64 {
    let fixed = match profile {
        Profile::U16 => 72,
        Profile::U8 => 80,
    };
    fixed + 4 * excluded as u64 + (RECORD_BYTES as u64) * shards as u64
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        if n > self.bytes.len() {
            return Err(Error::new(
                ContainerCode::Index,
                format!("index is cut: {n} bytes expected, {} left", self.bytes.len()),
            ));
        }
        let (head, tail) = self.bytes.split_at(n);
        self.bytes = tail;
        Ok(head)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }
    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

fn refuse(why: String) -> Error {
    Error::new(ContainerCode::Index, why)
}

impl Index {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut c = Cursor { bytes };
        let magic: [u8; 8] = c.array()?;
        let profile = match magic {
            MAGIC_U16 => Profile::U16,
            MAGIC_U8 => Profile::U8,
            _ if magic[..4] == *b"QGIX" => {
                return Err(Error::new(
                    ContainerCode::UnsupportedRevision,
                    format!("index revision is {:02x?}, expected 1 or 3", &magic[4..]),
                ));
            }
            _ => return Err(refuse(format!("index begins with {magic:02x?}, expected `QGIX`"))),
        };
        let shard_count = c.u32()?;
        let chunk_or_reserved = c.u32()?;
        let expected = if profile == Profile::U16 { BLOCK_BYTES as u32 } else { 0 };
        if chunk_or_reserved != expected {
            return Err(refuse(format!(
                "payload block size field is {chunk_or_reserved}, expected {expected}"
            )));
        }
        let [sr, sc, dr, dc] = [c.u32()?, c.u32()?, c.u32()?, c.u32()?];
        let shape = Shape4 {
            scan: ScanShape::new(sr.into(), sc.into()).map_err(|e| refuse(e.message().into()))?,
            detector: DetectorShape::new(dr.into(), dc.into()).map_err(|e| refuse(e.message().into()))?,
        };
        let scans_per_shard = c.u32()?;
        let mut nibbles = NibbleWidths::Literal;
        if profile == Profile::U8 {
            let (tile, encoding) = (c.u32()?, c.u32()?);
            if tile != U8_SCANS as u32 {
                return Err(refuse(format!("scan tile is {tile}, expected {U8_SCANS}")));
            }
            nibbles = match encoding {
                1 => NibbleWidths::Literal,
                2 => NibbleWidths::Escape16,
                other => {
                    return Err(Error::new(
                        ContainerCode::UnsupportedRevision,
                        format!("header encoding is {other}, expected 1"),
                    ));
                }
            };
        }
        if shard_count == 0 || scans_per_shard == 0 {
            return Err(refuse(format!(
                "{shard_count} shards of {scans_per_shard} scans, both must be positive"
            )));
        }
        if profile == Profile::U8 && !scans_per_shard.is_multiple_of(U8_SCANS as u32) {
            return Err(refuse(format!(
                "{scans_per_shard} scans per shard, expected a multiple of {U8_SCANS}"
            )));
        }
        let covered = u64::from(shard_count) * u64::from(scans_per_shard);
        if covered != shape.scan.positions() as u64 {
            return Err(refuse(format!(
                "{shard_count} shards of {scans_per_shard} scans cover {covered} positions, the scan {} has {}",
                shape.scan,
                shape.scan.positions()
            )));
        }
        let excluded_count = c.u32()?;
        if u64::from(excluded_count) > shape.detector.pixels() as u64 {
            return Err(refuse(format!(
                "{excluded_count} excluded pixels, the detector {} has {}",
                shape.detector,
                shape.detector.pixels()
            )));
        }
        let exact = index_bytes(profile, excluded_count as usize, shard_count as usize);
        if exact != bytes.len() as u64 {
            return Err(refuse(format!("index has {} bytes, its counts ask for {exact}", bytes.len())));
        }
        let mut excluded = Vec::with_capacity(excluded_count as usize);
        for _ in 0..excluded_count {
            excluded.push(c.u32()?);
        }
        check_exclusions(profile, &excluded, shape.detector)?;
        let source_identity = Digest(c.array()?);
        let mut shards = Vec::with_capacity(shard_count as usize);
        for _ in 0..shard_count {
            shards.push(ShardRecord {
                payload_offset: c.u64()?,
                payload_bytes: c.u64()?,
                lengths_offset: c.u64()?,
                lengths_bytes: c.u64()?,
                widths_offset: c.u64()?,
                widths_bytes: c.u64()?,
                decoded_bytes: c.u64()?,
                descriptor_count: c.u32()?,
                chunk_count: c.u32()?,
                decoded_sha256: Digest(c.array()?),
            });
        }
        let index = Index {
            profile,
            nibbles,
            shape,
            scans_per_shard: scans_per_shard as usize,
            excluded,
            source_identity,
            shards,
        };
        for (ordinal, record) in index.shards.iter().enumerate() {
            index
                .check_record(record)
                .map_err(|e| e.at(format_args!("shard {ordinal}")).with("shard", ordinal))?;
        }
        Ok(index)
    }

    pub(super) fn tiles(&self) -> usize {
        self.scans_per_shard.div_ceil(self.profile.tile_scans())
    }

    /// The record rules of the facts sheet, section 3, for both profiles.
    fn check_record(&self, r: &ShardRecord) -> Result<()> {
        let rule = |name: &str, found: u64, expected: u64| {
            if found == expected {
                return Ok(());
            }
            Err(Error::new(ContainerCode::Record, format!("{name} is {found}, expected {expected}")))
        };
        let pixels = self.shape.detector.pixels() as u64;
        if r.payload_bytes == 0 || r.decoded_bytes == 0 || !r.decoded_bytes.is_multiple_of(4) {
            return Err(Error::new(
                ContainerCode::Record,
                format!(
                    "payload of {} bytes decoding to {}: both must be positive and the latter whole u32 words",
                    r.payload_bytes, r.decoded_bytes
                ),
            ));
        }
        if r.decoded_bytes / 4 > MAX_PAYLOAD_WORDS {
            return Err(Error::new(
                ContainerCode::Record,
                format!("{} payload words, word offsets allow {MAX_PAYLOAD_WORDS}", r.decoded_bytes / 4),
            ));
        }
        match self.profile {
            Profile::U16 => {
                rule(
                    "descriptor count",
                    r.descriptor_count.into(),
                    pixels.saturating_mul(self.tiles() as u64),
                )?;
                rule("width bytes", r.widths_bytes, r.descriptor_count.into())?;
                rule("block count", r.chunk_count.into(), r.decoded_bytes.div_ceil(BLOCK_BYTES as u64))?;
                rule("length bytes", r.lengths_bytes, r.chunk_count.into())
            }
            Profile::U8 => {
                let words = pixels.saturating_mul(header_words_per_pixel(self.tiles()) as u64);
                rule("header word count", r.descriptor_count.into(), words)?;
                rule("header bytes", r.widths_bytes, words.saturating_mul(4))?;
                rule("decoded bytes", r.decoded_bytes, r.payload_bytes)?;
                rule("lengths offset", r.lengths_offset, 0)?;
                rule("length bytes", r.lengths_bytes, 0)?;
                rule("block count", r.chunk_count.into(), 0)
            }
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut words = |list: &[u32]| list.iter().for_each(|w| out.extend_from_slice(&w.to_le_bytes()));
        let [sr, sc, dr, dc] = self.shape.dims().map(|d| d as u32);
        let (k, s) = (self.shards.len() as u32, self.scans_per_shard as u32);
        match self.profile {
            Profile::U16 => words(&[k, BLOCK_BYTES as u32, sr, sc, dr, dc, s]),
            Profile::U8 => words(&[k, 0, sr, sc, dr, dc, s, U8_SCANS as u32, 1]),
        }
        words(&[self.excluded.len() as u32]);
        words(&self.excluded);
        let magic = if self.profile == Profile::U16 { MAGIC_U16 } else { MAGIC_U8 };
        out.splice(0..0, magic);
        out.extend_from_slice(&self.source_identity.0);
        for r in &self.shards {
            for v in [
                r.payload_offset,
                r.payload_bytes,
                r.lengths_offset,
                r.lengths_bytes,
                r.widths_offset,
                r.widths_bytes,
                r.decoded_bytes,
            ] {
                out.extend_from_slice(&v.to_le_bytes());
            }
            out.extend_from_slice(&r.descriptor_count.to_le_bytes());
            out.extend_from_slice(&r.chunk_count.to_le_bytes());
            out.extend_from_slice(&r.decoded_sha256.0);
        }
        out
    }
}

fn check_exclusions(profile: Profile, excluded: &[u32], detector: DetectorShape) -> Result<()> {
    let bad = |pixel: u32, why: String| refuse(why).with("pixel", u64::from(pixel));
    // A table of the whole detector could be far larger than the file that claims it.
    let mut sorted = excluded.to_vec();
    sorted.sort_unstable();
    if let Some(&pixel) = sorted.last()
        && pixel as usize >= detector.pixels()
    {
        return Err(bad(pixel, format!("excluded pixel {pixel} lies outside the detector {detector}")));
    }
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(bad(pair[0], format!("excluded pixel {} is listed twice", pair[0])));
    }
    if profile == Profile::U8
        && let Some(pair) = excluded.windows(2).find(|pair| pair[0] > pair[1])
    {
        return Err(bad(pair[1], format!("excluded pixels do not ascend: {} before {}", pair[0], pair[1])));
    }
    Ok(())
}

/// Checks that every data range lies in the file behind `metadata_end` and that none overlap, those `beside` the shards
/// included.
pub(super) fn check_ranges(
    shards: &[ShardRecord],
    beside: &[Stored],
    metadata_end: u64,
    file_bytes: u64,
) -> Result<()> {
    let of_shards = shards.iter().enumerate().flat_map(|(ordinal, r)| {
        [
            (Some(ordinal), "payload", r.payload_offset, r.payload_bytes),
            (Some(ordinal), "lengths", r.lengths_offset, r.lengths_bytes),
            (Some(ordinal), "widths", r.widths_offset, r.widths_bytes),
        ]
    });
    let of_file = beside.iter().map(|s| (None, s.what, s.offset, s.bytes));
    let mut ranges = Vec::with_capacity(3 * shards.len() + beside.len());
    for (shard, what, offset, bytes) in of_shards.chain(of_file).filter(|range| range.3 > 0) {
        let bad = |why: String| {
            let error = Error::new(ContainerCode::Range, format!("{what} at {offset}, {bytes} bytes, {why}"));
            match shard {
                Some(ordinal) => error.at(format_args!("shard {ordinal}")).with("shard", ordinal),
                None => error,
            }
        };
        if bytes > file_bytes || offset > file_bytes - bytes {
            return Err(bad(format!("lies outside the file of {file_bytes} bytes")));
        }
        if offset < metadata_end {
            return Err(bad(format!("lies inside the user block that ends at {metadata_end}")));
        }
        ranges.push((offset, bytes, shard, what));
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let [(offset, bytes, a, what_a), (next, _, b, what_b)] = [pair[0], pair[1]];
        if offset + bytes > next {
            let named = |what: &str, shard: Option<usize>| match shard {
                Some(ordinal) => format!("{what} of shard {ordinal}"),
                None => what.to_owned(),
            };
            return Err(Error::new(
                ContainerCode::Range,
                format!(
                    "{} ends at {} and overlaps {} at {next}",
                    named(what_a, a),
                    offset + bytes,
                    named(what_b, b)
                ),
            ));
        }
    }
    Ok(())
}
