//! Bit-transposed chunks (HDF5 filter 32008): their framing, and the transposition itself.
//!
//! A block of `n` elements of `E` bytes, `n` a multiple of 8, is stored as `8 E` planes of `n / 8` bytes: plane
//! `8 b + k` holds bit `k` of byte `b` of every element, the first element in the lowest bit. A chunk is
//!
//! | bytes | meaning |
//! |---|---|
//! | 0–7 | decoded byte count, big-endian |
//! | 8–11 | block size in bytes, big-endian |
//! | per block: 4 | length of the LZ4 block that follows, big-endian |
//! | rest | the elements that do not fill a group of 8, verbatim |
//!
//! where the last block holds what remains, rounded down to a multiple of 8 elements.

mod simd;

use crate::lz4::{self, Lz4Error};
use std::fmt;

/// Bytes before the first block of a chunk.
pub const HEADER_BYTES: usize = 12;

/// The widest element this module takes; HDF5 itself stores nothing wider as one number.
pub const MAX_ELEMENT_BYTES: usize = 16;

/// Why a chunk is not the bit-transposed data it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitshuffleError {
    /// Elements of this many bytes are not supported, or the output is no whole number of them.
    ElementBytes {
        /// The element size asked for.
        element_bytes: usize,
        /// The output size asked for.
        decoded: usize,
    },
    /// Fewer bytes than the header has.
    HeaderTruncated,
    /// The header declares another decoded size.
    DecodedSize {
        /// What the header says.
        declared: u64,
        /// What the caller knows the chunk decodes to.
        expected: u64,
    },
    /// The block size is zero, no multiple of eight elements, or beyond what LZ4 can hold.
    BlockBytes(u32),
    /// The chunk ends within a block or before it.
    BlockTruncated(usize),
    /// A block does not decode.
    Block(usize, Lz4Error),
    /// The bytes after the last block are not exactly the verbatim elements.
    TailLength {
        /// Bytes that remain.
        found: usize,
        /// Bytes of the verbatim elements.
        expected: usize,
    },
}

impl fmt::Display for BitshuffleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BitshuffleError::ElementBytes { element_bytes, decoded } => {
                write!(f, "{decoded} bytes cannot be bitshuffled as elements of {element_bytes} bytes")
            }
            BitshuffleError::HeaderTruncated => {
                write!(f, "the chunk is shorter than its {HEADER_BYTES}-byte header")
            }
            BitshuffleError::DecodedSize { declared, expected } => {
                write!(f, "the chunk header declares {declared} decoded bytes, expected {expected}")
            }
            BitshuffleError::BlockBytes(n) => {
                write!(f, "the chunk header declares blocks of {n} bytes, which is not a legal block size")
            }
            BitshuffleError::BlockTruncated(index) => write!(f, "the chunk ends within block {index}"),
            BitshuffleError::Block(index, error) => write!(f, "block {index}: {error}"),
            BitshuffleError::TailLength { found, expected } => {
                write!(f, "{found} bytes follow the last block, expected {expected}")
            }
        }
    }
}

impl std::error::Error for BitshuffleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BitshuffleError::Block(_, error) => Some(error),
            _ => None,
        }
    }
}

/// Block size in elements that encoders choose when nobody states one: 8 KiB, a multiple of 8, at least 128.
pub const fn default_block_elements(element_bytes: usize) -> usize {
    let n = 8192 / element_bytes / 8 * 8;
    if n < 128 { 128 } else { n }
}

fn check_elements(element_bytes: usize, decoded: usize) -> Result<(), BitshuffleError> {
    if element_bytes == 0 || element_bytes > MAX_ELEMENT_BYTES || !decoded.is_multiple_of(element_bytes) {
        return Err(BitshuffleError::ElementBytes { element_bytes, decoded });
    }
    Ok(())
}

/// Decodes one chunk of filter 32008 with LZ4 into exactly `out.len()` bytes.
///
/// `scratch` is reused between calls and grows to one block.
///
/// # Errors
/// The first violation met; `out` then holds unspecified bytes.
pub fn decode_chunk(
    src: &[u8],
    element_bytes: usize,
    out: &mut [u8],
    scratch: &mut Vec<u8>,
) -> Result<(), BitshuffleError> {
    let untranspose = Untranspose::best(element_bytes);
    each_block(src, element_bytes, out, |coded, block| {
        if scratch.len() < block.len() {
            scratch.resize(block.len(), 0);
        }
        // The last block is shorter, so only its own part of the scratch takes part.
        let planes = &mut scratch[..block.len()];
        lz4::decode_block(coded, planes)?;
        untranspose.run(planes, block);
        Ok(())
    })
}

/// Decodes only the compression of such a chunk of elements of one or two bytes: `out` then holds those planes of its
/// blocks that are not zero, and `present` says for each block which these are. Most planes of sparse counts are zero,
/// and memory is spared both their writing and their reading.
///
/// # Errors
/// The first violation met; `out` and `present` then hold anything.
///
/// # Panics
/// When elements are wider, or `present` has fewer entries than the chunk has blocks.
pub fn decode_planes(
    src: &[u8],
    element_bytes: usize,
    out: &mut [u8],
    present: &mut [u16],
    scratch: &mut Vec<u8>,
) -> Result<(), BitshuffleError> {
    assert!(element_bytes <= 2, "a mask of {} planes", 8 * element_bytes);
    let mut blocks = 0;
    each_block(src, element_bytes, out, |coded, block| {
        if scratch.len() < block.len() {
            scratch.resize(block.len(), 0);
        }
        let planes = &mut scratch[..block.len()];
        lz4::decode_block(coded, planes)?;
        let plane_bytes = block.len() / (8 * element_bytes);
        present[blocks] = 0;
        for (k, (to, plane)) in
            block.chunks_exact_mut(plane_bytes).zip(planes.chunks_exact(plane_bytes)).enumerate()
        {
            if plane.iter().fold(0, |or, byte| or | byte) != 0 {
                to.copy_from_slice(plane);
                present[blocks] |= 1 << k;
            }
        }
        blocks += 1;
        Ok(())
    })
}

/// The block size in bytes that a chunk declares.
pub fn declared_block_bytes(src: &[u8]) -> Option<u32> {
    let [.., b0, b1, b2, b3] = *src.first_chunk::<HEADER_BYTES>()?;
    Some(u32::from_be_bytes([b0, b1, b2, b3]))
}

/// Checks the framing of a chunk and has each block decoded to its place.
fn each_block(
    src: &[u8],
    element_bytes: usize,
    out: &mut [u8],
    mut decode: impl FnMut(&[u8], &mut [u8]) -> Result<(), Lz4Error>,
) -> Result<(), BitshuffleError> {
    check_elements(element_bytes, out.len())?;
    let (header, mut rest) =
        src.split_first_chunk::<HEADER_BYTES>().ok_or(BitshuffleError::HeaderTruncated)?;
    let [d0, d1, d2, d3, d4, d5, d6, d7, b0, b1, b2, b3] = *header;
    let declared = u64::from_be_bytes([d0, d1, d2, d3, d4, d5, d6, d7]);
    if declared != out.len() as u64 {
        return Err(BitshuffleError::DecodedSize { declared, expected: out.len() as u64 });
    }
    let declared_block = u32::from_be_bytes([b0, b1, b2, b3]);
    let block_bytes = declared_block as usize;
    let group_bytes = 8 * element_bytes;
    if block_bytes == 0 || !block_bytes.is_multiple_of(group_bytes) || block_bytes > lz4::MAX_INPUT {
        return Err(BitshuffleError::BlockBytes(declared_block));
    }
    let whole_groups = out.len() / group_bytes * group_bytes;
    let (body, tail) = out.split_at_mut(whole_groups);
    for (index, block) in body.chunks_mut(block_bytes).enumerate() {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(BitshuffleError::BlockTruncated(index))?;
        let length = u32::from_be_bytes(*length) as usize;
        let (coded, after) = after.split_at_checked(length).ok_or(BitshuffleError::BlockTruncated(index))?;
        rest = after;
        decode(coded, block).map_err(|e| BitshuffleError::Block(index, e))?;
    }
    if rest.len() != tail.len() {
        return Err(BitshuffleError::TailLength { found: rest.len(), expected: tail.len() });
    }
    tail.copy_from_slice(rest);
    Ok(())
}

/// Decodes a chunk that is bit-transposed but not compressed: it has no header, and its blocks follow one another.
///
/// `block_elements` 0 means [`default_block_elements`].
///
/// # Errors
/// When sizes or the block size are not legal.
pub fn decode_plain(
    src: &[u8],
    element_bytes: usize,
    block_elements: usize,
    out: &mut [u8],
) -> Result<(), BitshuffleError> {
    check_elements(element_bytes, out.len())?;
    if src.len() != out.len() {
        return Err(BitshuffleError::DecodedSize { declared: src.len() as u64, expected: out.len() as u64 });
    }
    let block_elements =
        if block_elements == 0 { default_block_elements(element_bytes) } else { block_elements };
    let block_bytes = block_elements
        .checked_mul(element_bytes)
        .filter(|_| block_elements.is_multiple_of(8))
        .ok_or(BitshuffleError::BlockBytes(block_elements as u32))?;
    let whole_groups = out.len() / (8 * element_bytes) * (8 * element_bytes);
    let (body, tail) = out.split_at_mut(whole_groups);
    let (planes, verbatim) = src.split_at(whole_groups);
    let untranspose = Untranspose::best(element_bytes);
    for (planes, block) in planes.chunks(block_bytes).zip(body.chunks_mut(block_bytes)) {
        untranspose.run(planes, block);
    }
    tail.copy_from_slice(verbatim);
    Ok(())
}

/// Appends `src` as one chunk of filter 32008 with LZ4. `block_bytes` 0 means 8 KiB blocks.
///
/// # Errors
/// When `src` is no whole number of elements, or the block size is not legal.
pub fn encode_chunk(
    src: &[u8],
    element_bytes: usize,
    block_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), BitshuffleError> {
    check_elements(element_bytes, src.len())?;
    let group_bytes = 8 * element_bytes;
    let block_bytes =
        if block_bytes == 0 { default_block_elements(element_bytes) * element_bytes } else { block_bytes };
    if !block_bytes.is_multiple_of(group_bytes) || block_bytes > lz4::MAX_INPUT {
        return Err(BitshuffleError::BlockBytes(block_bytes.min(u32::MAX as usize) as u32));
    }
    out.extend_from_slice(&(src.len() as u64).to_be_bytes());
    out.extend_from_slice(&(block_bytes as u32).to_be_bytes());
    let (body, tail) = src.split_at(src.len() / group_bytes * group_bytes);
    let mut planes = vec![0; block_bytes.min(body.len())];
    for block in body.chunks(block_bytes) {
        let planes = &mut planes[..block.len()];
        transpose_scalar(block, element_bytes, planes);
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        lz4::encode_block(planes, out);
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    out.extend_from_slice(tail);
    Ok(())
}

/// Transposes the 8×8 bits of a word: bit `j` of byte `i` ⇄ bit `i` of byte `j`.
#[inline(always)]
fn transpose_bits(mut x: u64) -> u64 {
    let mut t = (x ^ (x >> 7)) & 0x00aa_00aa_00aa_00aa;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000_cccc_0000_cccc;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x0000_0000_f0f0_f0f0;
    x ^ t ^ (t << 28)
}

/// Planes → elements, one group of eight elements and one byte of them at a time: the meaning of the format.
///
/// # Panics
/// When the slices differ in length or are no whole number of groups.
pub fn untranspose_scalar(planes: &[u8], element_bytes: usize, out: &mut [u8]) {
    assert_eq!(planes.len(), out.len(), "planes and elements take the same space");
    untranspose_groups(planes, element_bytes, 0, out);
}

/// [`untranspose_scalar`] from group `first` on, where a fast path left off.
fn untranspose_groups(planes: &[u8], element_bytes: usize, first: usize, out: &mut [u8]) {
    let group_bytes = 8 * element_bytes;
    assert!(out.len().is_multiple_of(group_bytes), "a block is a whole number of groups of eight");
    let groups = out.len() / group_bytes;
    for (group, elements) in out.chunks_exact_mut(group_bytes).enumerate().skip(first) {
        for byte in 0..element_bytes {
            let mut rows = [0u8; 8];
            for (k, row) in rows.iter_mut().enumerate() {
                *row = planes[(8 * byte + k) * groups + group];
            }
            let columns = transpose_bits(u64::from_le_bytes(rows)).to_le_bytes();
            for (element, column) in elements.chunks_exact_mut(element_bytes).zip(columns) {
                element[byte] = column;
            }
        }
    }
}

/// Elements → planes, the inverse of [`untranspose_scalar`].
///
/// # Panics
/// When the slices differ in length or are no whole number of groups.
pub fn transpose_scalar(elements: &[u8], element_bytes: usize, planes: &mut [u8]) {
    assert_eq!(planes.len(), elements.len(), "planes and elements take the same space");
    let group_bytes = 8 * element_bytes;
    assert!(elements.len().is_multiple_of(group_bytes), "a block is a whole number of groups of eight");
    let groups = elements.len() / group_bytes;
    for (group, elements) in elements.chunks_exact(group_bytes).enumerate() {
        for byte in 0..element_bytes {
            let mut columns = [0u8; 8];
            for (column, element) in columns.iter_mut().zip(elements.chunks_exact(element_bytes)) {
                *column = element[byte];
            }
            for (k, row) in transpose_bits(u64::from_le_bytes(columns)).to_le_bytes().into_iter().enumerate()
            {
                planes[(8 * byte + k) * groups + group] = row;
            }
        }
    }
}

/// The fastest untransposition this machine has for one element size.
#[derive(Clone, Copy, Debug)]
struct Untranspose {
    element_bytes: usize,
    simd: Option<simd::Level>,
}

impl Untranspose {
    fn best(element_bytes: usize) -> Self {
        let simd = if matches!(element_bytes, 1 | 2 | 4) { simd::Level::detect() } else { None };
        Untranspose { element_bytes, simd }
    }

    /// Both slices have the same length, a whole number of groups.
    fn run(self, planes: &[u8], out: &mut [u8]) {
        let done = match self.simd {
            Some(level) => simd::untranspose(level, planes, self.element_bytes, out),
            None => 0,
        };
        untranspose_groups(planes, self.element_bytes, done, out);
    }
}

#[cfg(test)]
mod tests;
