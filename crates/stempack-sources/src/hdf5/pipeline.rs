//! Stored bytes of one chunk → its elements: the filters that are read, and what each of them checks.

use super::lzf;
use super::raw::RawFilter;
use crate::error::SourceCode;
use std::io::Read;
use stempack_codecs::{bitshuffle, lz4};
use stempack_model::{Error, Result};

/// One filter of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// zlib.
    Deflate,
    /// First bytes of all elements, then second bytes, ….
    Shuffle {
        /// Bytes of one element.
        element_bytes: usize,
    },
    /// A checksum behind the data.
    Fletcher32,
    /// Bit transposition and LZ4.
    BitshuffleLz4 {
        /// Bytes of one element.
        element_bytes: usize,
    },
    /// Bit transposition alone.
    Bitshuffle {
        /// Bytes of one element.
        element_bytes: usize,
        /// Elements of one block; 0 is the default size.
        block_elements: usize,
    },
    /// LZ4 blocks.
    Lz4,
    /// LZF.
    Lzf,
}

impl Filter {
    /// Whether what it makes has another length than what it was given.
    fn compresses(self) -> bool {
        matches!(self, Filter::Deflate | Filter::Lz4 | Filter::Lzf | Filter::BitshuffleLz4 { .. })
    }
}

/// Registered name of a filter that is not read, for the refusal.
fn known_name(id: i32) -> &'static str {
    match id {
        4 => "szip",
        5 => "n-bit",
        6 => "scale-offset",
        32_001 => "Blosc",
        32_013 => "ZFP",
        32_015 => "Zstandard",
        32_026 => "Blosc2",
        _ => "unknown",
    }
}

/// The filters of a dataset in the order they were applied when writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pipeline {
    filters: Vec<Filter>,
}

/// Buffers reused between chunks.
#[derive(Default)]
pub(super) struct Buffers {
    planes: Vec<u8>,
    a: Vec<u8>,
    b: Vec<u8>,
}

fn unsupported(message: String) -> Error {
    Error::new(SourceCode::UnsupportedFilter, message)
}

impl Pipeline {
    pub(super) fn new(raw: &[RawFilter], element_bytes: usize) -> Result<Self> {
        // Per-chunk masks have 32 bits.
        if raw.len() > 32 {
            return Err(unsupported(format!("a pipeline of {} filters is not read", raw.len())));
        }
        let element = |recorded: Option<&u32>| recorded.map_or(element_bytes, |&n| n as usize);
        let filters = raw.iter().map(|filter| match filter.id {
            1 => Ok(Filter::Deflate),
            2 => match element(filter.data.first()) {
                0 => Err(unsupported("byte shuffling of elements of 0 bytes".to_owned())),
                element_bytes => Ok(Filter::Shuffle { element_bytes }),
            },
            3 => Ok(Filter::Fletcher32),
            32_008 => {
                let element_bytes = element(filter.data.get(2));
                if element_bytes == 0 || element_bytes > bitshuffle::MAX_ELEMENT_BYTES {
                    return Err(unsupported(format!(
                        "bitshuffle (32008) of elements of {element_bytes} bytes"
                    )));
                }
                let block_elements = filter.data.get(3).map_or(0, |&n| n as usize);
                match filter.data.get(4).copied().unwrap_or(0) {
                    0 => Ok(Filter::Bitshuffle { element_bytes, block_elements }),
                    2 => Ok(Filter::BitshuffleLz4 { element_bytes }),
                    3 => Err(unsupported("bitshuffle (32008) with Zstandard is not read".to_owned())),
                    n => {
                        Err(unsupported(format!("bitshuffle (32008) with compression code {n} is not read")))
                    }
                }
            }
            32_004 => Ok(Filter::Lz4),
            32_000 => Ok(Filter::Lzf),
            id => Err(unsupported(format!("filter {id} ({}) is not read", known_name(id)))
                .hint("read are: bitshuffle with LZ4 (32008), LZ4 (32004), LZF (32000), deflate, shuffle, fletcher32")),
        });
        Ok(Pipeline { filters: filters.collect::<Result<_>>()? })
    }

    /// The filters in the order they were applied when writing.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// Decodes one stored chunk into exactly `out.len()` bytes; the reason, when it does not.
    pub(super) fn decode(
        &self,
        stored: &[u8],
        skipped: u32,
        out: &mut [u8],
        buffers: &mut Buffers,
    ) -> Result<(), String> {
        let applied = |i: usize| skipped >> i & 1 == 0;
        let mut last = None;
        for i in (0..self.filters.len()).filter(|&i| applied(i)) {
            last = Some(match last {
                None => (i, true),
                Some((first, _)) => (first, false),
            });
        }
        match last {
            None => exactly(stored, out),
            // The usual case straight into the destination.
            Some((only, true)) => match self.filters[only] {
                Filter::BitshuffleLz4 { element_bytes } => {
                    bitshuffle::decode_chunk(stored, element_bytes, out, &mut buffers.planes)
                        .map_err(|e| e.to_string())
                }
                filter => {
                    let mut decoded = std::mem::take(&mut buffers.a);
                    let result =
                        undo(filter, stored, out.len(), out.len(), &mut decoded, &mut buffers.planes)
                            .and_then(|()| exactly(&decoded, out));
                    buffers.a = decoded;
                    result
                }
            },
            Some((_, false)) => {
                let (mut a, mut b) = (std::mem::take(&mut buffers.a), std::mem::take(&mut buffers.b));
                a.clear();
                a.extend_from_slice(stored);
                let mut result = Ok(());
                for i in (0..self.filters.len()).rev().filter(|&i| applied(i)) {
                    // What remains after this step is the plain chunk, plus four bytes for each checksum inside, unless
                    // another compressor is still to be undone.
                    let inside = || (0..i).filter(|&k| applied(k)).map(|k| self.filters[k]);
                    let compressed = inside().any(|f| f.compresses());
                    let checksums = inside().filter(|f| matches!(f, Filter::Fletcher32)).count();
                    let expected = out.len() + 4 * checksums;
                    let limit = if compressed { bound(expected) } else { expected };
                    result = undo(self.filters[i], &a, expected, limit, &mut b, &mut buffers.planes);
                    if result.is_err() {
                        break;
                    }
                    std::mem::swap(&mut a, &mut b);
                }
                let result = result.and_then(|()| exactly(&a, out));
                buffers.a = a;
                buffers.b = b;
                result
            }
        }
    }
}

/// What a compressor may at most have made of `n` bytes that did not compress.
fn bound(n: usize) -> usize {
    n + n / 8 + (64 << 10)
}

fn exactly(decoded: &[u8], out: &mut [u8]) -> Result<(), String> {
    if decoded.len() != out.len() {
        return Err(format!("it holds {} bytes, expected {}", decoded.len(), out.len()));
    }
    out.copy_from_slice(decoded);
    Ok(())
}

/// Undoes one filter. `limit` bounds what a compressed stream may expand to.
fn undo(
    filter: Filter,
    from: &[u8],
    expected: usize,
    limit: usize,
    to: &mut Vec<u8>,
    planes: &mut Vec<u8>,
) -> Result<(), String> {
    to.clear();
    match filter {
        Filter::Deflate => inflate(from, limit, to),
        Filter::Shuffle { element_bytes } => {
            to.resize(from.len(), 0);
            unshuffle(from, element_bytes, to);
            Ok(())
        }
        Filter::Fletcher32 => {
            let (data, sum) = from.split_last_chunk::<4>().ok_or("it is shorter than its checksum")?;
            let stored = u32::from_le_bytes(*sum);
            let sum = fletcher32(data);
            // Files of very old libraries carry the bytes of each half swapped.
            let swapped = (sum & 0x00ff_00ff) << 8 | (sum & 0xff00_ff00) >> 8;
            if stored != sum && stored != swapped {
                return Err(format!("its checksum is {stored:08x}, expected {sum:08x}"));
            }
            to.extend_from_slice(data);
            Ok(())
        }
        Filter::BitshuffleLz4 { element_bytes } => {
            let declared = from.first_chunk::<8>().map_or(0, |b| u64::from_be_bytes(*b));
            if declared > limit as u64 {
                return Err(format!(
                    "the chunk header declares {declared} decoded bytes, expected {expected}"
                ));
            }
            to.resize(declared as usize, 0);
            bitshuffle::decode_chunk(from, element_bytes, to, planes).map_err(|e| e.to_string())
        }
        Filter::Bitshuffle { element_bytes, block_elements } => {
            to.resize(from.len(), 0);
            bitshuffle::decode_plain(from, element_bytes, block_elements, to).map_err(|e| e.to_string())
        }
        Filter::Lz4 => unlz4(from, limit, to),
        Filter::Lzf => lzf::decode(from, limit, to),
    }
}

fn inflate(from: &[u8], limit: usize, to: &mut Vec<u8>) -> Result<(), String> {
    let mut decoder = flate2::bufread::ZlibDecoder::new(from);
    let read =
        decoder.by_ref().take(limit as u64 + 1).read_to_end(to).map_err(|e| format!("deflate: {e}"))?;
    if read > limit {
        return Err(format!("deflate: it expands to more than {limit} bytes"));
    }
    if !decoder.into_inner().is_empty() {
        return Err("deflate: bytes follow the end of the stream".to_owned());
    }
    Ok(())
}

/// A trailing part that is no whole element is stored as it is.
fn unshuffle(from: &[u8], element_bytes: usize, to: &mut [u8]) {
    let elements = from.len() / element_bytes;
    let (planes, tail) = from.split_at(elements * element_bytes);
    for (byte, plane) in planes.chunks_exact(elements.max(1)).enumerate() {
        for (element, &b) in plane.iter().enumerate() {
            to[element * element_bytes + byte] = b;
        }
    }
    to[elements * element_bytes..].copy_from_slice(tail);
}

/// Filter 32004: decoded size (u64) and block size (u32) big-endian, then each block behind its stored length; a block
/// whose stored length equals its decoded length is stored as it is.
fn unlz4(from: &[u8], limit: usize, to: &mut Vec<u8>) -> Result<(), String> {
    let cut = || "lz4: the chunk ends early".to_owned();
    let (size, rest) = from.split_first_chunk::<8>().ok_or_else(cut)?;
    let (block, mut rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let (size, block) = (u64::from_be_bytes(*size), u32::from_be_bytes(*block) as usize);
    if size > limit as u64 {
        return Err(format!("lz4: the chunk declares {size} decoded bytes, more than {limit}"));
    }
    if block == 0 && size > 0 {
        return Err("lz4: the chunk declares blocks of 0 bytes".to_owned());
    }
    to.resize(size as usize, 0);
    for (index, part) in to.chunks_mut(block.max(1)).enumerate() {
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let (coded, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(cut)?;
        rest = after;
        if coded.len() == part.len() {
            part.copy_from_slice(coded);
        } else {
            lz4::decode_block(coded, part).map_err(|e| format!("lz4: block {index}: {e}"))?;
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("lz4: {} bytes follow the last block", rest.len())) }
}

/// The checksum of HDF5's filter 3: two running sums of big-endian 16-bit words, an odd last byte as a high byte.
fn fletcher32(data: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut low, mut high) = (0u32, 0u32);
    // 360 words is the most that cannot overflow between two folds.
    for part in data.chunks(720) {
        for word in part.chunks(2) {
            low += u32::from(word[0]) << 8 | word.get(1).map_or(0, |&b| u32::from(b));
            high += low;
        }
        low = fold(low);
        high = fold(high);
    }
    fold(high) << 16 | fold(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(id: i32, data: &[u32]) -> RawFilter {
        RawFilter { id, data: data.to_vec() }
    }

    #[test]
    fn filters_that_are_not_read_are_named() {
        let message = |f: RawFilter| Pipeline::new(&[f], 2).unwrap_err().message().to_owned();
        assert!(message(raw(32_015, &[])).contains("32015 (Zstandard)"));
        assert!(message(raw(32_008, &[0, 4, 2, 0, 3])).contains("Zstandard"));
        assert!(message(raw(32_008, &[0, 4, 0, 0, 2])).contains("0 bytes"));
        assert!(message(raw(4711, &[])).contains("4711"));
    }

    /// 0x01 0x02 0x03: sums of the words 0x0102 and 0x0300.
    #[test]
    fn checksum_by_hand() {
        assert_eq!(fletcher32(&[1, 2, 3]), (0x0102 + 0x0402) << 16 | 0x0402);
        assert_eq!(fletcher32(&[]), 0);
    }

    #[test]
    fn plain_lz4_chunks_may_hold_blocks_as_they_are() {
        let pipeline = Pipeline::new(&[raw(32_004, &[])], 1).unwrap();
        let mut chunk = 10u64.to_be_bytes().to_vec();
        chunk.extend(4u32.to_be_bytes());
        for part in [&b"abcd"[..], b"efgh", b"ij"] {
            chunk.extend((part.len() as u32).to_be_bytes());
            chunk.extend(part);
        }
        let mut out = [0; 10];
        pipeline.decode(&chunk, 0, &mut out, &mut Buffers::default()).unwrap();
        assert_eq!(&out, b"abcdefghij");
        assert!(pipeline.decode(&chunk[..chunk.len() - 1], 0, &mut out, &mut Buffers::default()).is_err());
        chunk.push(0);
        assert!(pipeline.decode(&chunk, 0, &mut out, &mut Buffers::default()).is_err());
    }

    #[test]
    fn masked_filters_are_skipped() {
        let pipeline = Pipeline::new(&[raw(2, &[2]), raw(1, &[4])], 2).unwrap();
        let mut out = [0; 4];
        pipeline.decode(b"abcd", 3, &mut out, &mut Buffers::default()).unwrap();
        assert_eq!(&out, b"abcd");
        pipeline.decode(b"acbd", 2, &mut out, &mut Buffers::default()).unwrap();
        assert_eq!(&out, b"abcd");
        assert!(pipeline.decode(b"abcd", 1, &mut out, &mut Buffers::default()).is_err());
    }

    #[test]
    fn a_deflate_bomb_stops_at_the_chunk_size() {
        let mut stored = Vec::new();
        flate2::read::ZlibEncoder::new(&vec![0u8; 1 << 20][..], flate2::Compression::best())
            .read_to_end(&mut stored)
            .unwrap();
        let pipeline = Pipeline::new(&[raw(1, &[]), raw(1, &[])], 1).unwrap();
        let mut out = vec![0; 100];
        assert!(pipeline.decode(&stored, 1, &mut out, &mut Buffers::default()).is_err());
        assert!(pipeline.decode(&stored, 0, &mut out, &mut Buffers::default()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_any_pipeline_panic(stored in prop::collection::vec(any::<u8>(), 0..200), len in 0usize..300, ids in prop::collection::vec(0usize..7, 0..4), mask in any::<u32>(), honest in any::<bool>()) {
            let mut stored = stored;
            if honest && stored.len() >= 12 {
                stored[..8].copy_from_slice(&(len as u64).to_be_bytes());
                stored[8..12].copy_from_slice(&16u32.to_be_bytes());
            }
            let all = [raw(1, &[]), raw(2, &[2]), raw(3, &[]), raw(32_004, &[]), raw(32_008, &[0, 4, 2, 0, 2]), raw(32_008, &[0, 4, 2, 8, 0]), raw(32_000, &[])];
            let filters: Vec<_> = ids.iter().map(|&i| all[i].clone()).collect();
            let _ = Pipeline::new(&filters, 2).unwrap().decode(&stored, mask, &mut vec![0; len], &mut Buffers::default());
        }
    }
}
