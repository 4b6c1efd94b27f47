//! Raw LZ4 blocks in safe Rust: what a block decodes to, and a small greedy encoder.
//!
//! A block is a chain of sequences: a token byte (literal count in the high nibble, match length − 4 in the low
//! one, 15 meaning that bytes follow which are added until one is not 255), the literals, a little-endian 16-bit
//! distance. The last sequence usually stops after its literals. The decoder needs the exact output length, as every
//! user of raw blocks in this workspace knows it.

use std::fmt;

/// Why a raw LZ4 block does not decode to the expected length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lz4Error {
    /// The input ends where a token or a length byte is needed.
    TruncatedToken,
    /// The input ends within literals.
    TruncatedLiterals,
    /// The input ends within a match distance.
    TruncatedOffset,
    /// A match distance is zero or points before the start of the output.
    BadOffset,
    /// The block holds more than the expected output.
    OutputOverrun,
    /// The block ends before the expected output is complete.
    ShortOutput,
    /// The output is complete but input remains.
    LeftoverInput,
}

impl fmt::Display for Lz4Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lz4Error::TruncatedToken => "the block ends where a token or length is expected",
            Lz4Error::TruncatedLiterals => "the block ends within literals",
            Lz4Error::TruncatedOffset => "the block ends within a match distance",
            Lz4Error::BadOffset => "a match distance is zero or reaches before the start of the output",
            Lz4Error::OutputOverrun => "the block decodes to more than the expected length",
            Lz4Error::ShortOutput => "the block decodes to less than the expected length",
            Lz4Error::LeftoverInput => "bytes remain after the expected length is decoded",
        })
    }
}

impl std::error::Error for Lz4Error {}

/// The shortest match the format can express.
const MIN_MATCH: usize = 4;
/// The format's end rules: the last bytes of a block that must be literals …
const LAST_LITERALS: usize = 5;
/// … and the distance from the end within which no match may start.
const MATCH_START_LIMIT: usize = 12;
/// The farthest a match may reach back.
const MAX_DISTANCE: usize = 65_535;

/// Decodes one raw block whose decoded length is exactly `dst.len()`.
///
/// # Errors
/// The first violation met. `dst` then holds unspecified bytes.
pub fn decode_block(src: &[u8], dst: &mut [u8]) -> Result<(), Lz4Error> {
    let mut ip = 0usize;
    let mut op = 0usize;
    loop {
        let token = *src.get(ip).ok_or(Lz4Error::TruncatedToken)?;
        ip += 1;

        let mut literals = (token >> 4) as usize;
        if literals < 15 && ip + 16 <= src.len() && op + 16 <= dst.len() {
            // Fixed-size copy with slack; what it writes too much is overwritten or refused below.
            copy16(&src[ip..ip + 16], &mut dst[op..op + 16]);
        } else {
            if literals == 15 {
                literals += read_length(src, &mut ip)?;
            }
            let from = src.get(ip..).and_then(|s| s.get(..literals)).ok_or(Lz4Error::TruncatedLiterals)?;
            let to = dst.get_mut(op..).and_then(|d| d.get_mut(..literals)).ok_or(Lz4Error::OutputOverrun)?;
            to.copy_from_slice(from);
        }
        ip += literals;
        op += literals;

        if ip == src.len() {
            return if op == dst.len() { Ok(()) } else { Err(Lz4Error::ShortOutput) };
        }
        if op == dst.len() {
            return Err(Lz4Error::LeftoverInput);
        }

        let distance = match src.get(ip..ip + 2) {
            Some(b) => u16::from_le_bytes([b[0], b[1]]) as usize,
            None => return Err(Lz4Error::TruncatedOffset),
        };
        ip += 2;
        let mut length = (token & 15) as usize;
        if length == 15 {
            length += read_length(src, &mut ip)?;
        }
        length += MIN_MATCH;
        if distance == 0 || distance > op {
            return Err(Lz4Error::BadOffset);
        }
        if length > dst.len() - op {
            return Err(Lz4Error::OutputOverrun);
        }
        copy_match(dst, op, distance, length);
        op += length;

        // A block may end in a match, although usual encoders never end one there.
        if ip == src.len() {
            return if op == dst.len() { Ok(()) } else { Err(Lz4Error::ShortOutput) };
        }
    }
}

/// The sum of the bytes that continue a length of 15; bounded by 255 × the input length, so it cannot wrap.
#[inline]
fn read_length(src: &[u8], ip: &mut usize) -> Result<usize, Lz4Error> {
    let mut sum = 0usize;
    loop {
        let byte = *src.get(*ip).ok_or(Lz4Error::TruncatedToken)?;
        *ip += 1;
        sum += byte as usize;
        if byte != 255 {
            return Ok(sum);
        }
    }
}

/// Copies 16 bytes; both slices have exactly that length, which lets the compiler use one register.
#[inline(always)]
fn copy16(from: &[u8], to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<16>(), to.first_chunk_mut::<16>()) {
        *to = *from;
    }
}

/// Copies 8 bytes from `from` to `to`, which is at least 8 bytes behind it.
#[inline(always)]
fn copy8_within(dst: &mut [u8], from: usize, to: usize) {
    if let Some(chunk) = dst[from..].first_chunk::<8>().copied() {
        dst[to..to + 8].copy_from_slice(&chunk);
    }
}

/// Copies `length` bytes from `distance` back, byte-wise semantics. Distance and length are already checked.
#[inline(always)]
fn copy_match(dst: &mut [u8], op: usize, distance: usize, length: usize) {
    let end = op + length;
    if distance >= 16 && length <= 64 && end + 16 <= dst.len() {
        // Every 16 bytes read lie wholly before the 16 bytes written.
        let mut at = op;
        while at < end {
            let mut chunk = [0u8; 16];
            copy16(&dst[at - distance..at - distance + 16], &mut chunk);
            copy16(&chunk, &mut dst[at..at + 16]);
            at += 16;
        }
    } else if distance == 1 && (length > 32 || op + 32 <= dst.len()) {
        // Runs are what bitshuffled sparse counts mostly consist of.
        let byte = dst[op - 1];
        if length <= 32 {
            let run = [byte; 16];
            copy16(&run, &mut dst[op..op + 16]);
            copy16(&run, &mut dst[op + 16..op + 32]);
        } else {
            dst[op..end].fill(byte);
        }
    } else if length <= 64 {
        copy_short(dst, op, distance, length);
    } else {
        copy_long(dst, op, distance, length);
    }
}

/// `REPEAT[d]` times the first `d` bytes of a little-endian word repeats them through the word.
const REPEAT: [u64; 8] = [
    0,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0001_0000_0100_0001,
    0x0000_0001_0000_0001,
    0x0000_0100_0000_0001,
    0x0001_0000_0000_0001,
    0x0100_0000_0000_0001,
];
/// The whole periods of `d` bytes that fit a word, in bytes.
const WHOLE_PERIODS: [usize; 8] = [0, 8, 8, 6, 8, 5, 6, 7];

/// Matches of at most 64 bytes: short periods, and whatever is too close to the end of the output for 16-byte copies.
#[inline]
fn copy_short(dst: &mut [u8], op: usize, distance: usize, length: usize) {
    let end = op + length;
    let mut at = op;
    if distance >= 8 {
        while at < end && at + 8 <= dst.len() {
            copy8_within(dst, at - distance, at);
            at += 8;
        }
    } else if let Some(word) = dst[op - distance..].first_chunk::<8>() {
        let period = u64::from_le_bytes(*word) & ((1 << (8 * distance)) - 1);
        let pattern = period.wrapping_mul(REPEAT[distance]).to_le_bytes();
        while at < end && at + 8 <= dst.len() {
            dst[at..at + 8].copy_from_slice(&pattern);
            at += WHOLE_PERIODS[distance];
        }
    }
    while at < end {
        dst[at] = dst[at - distance];
        at += 1;
    }
}

/// The output so far repeats with the distance, so each copy may be as long as everything already laid out.
fn copy_long(dst: &mut [u8], op: usize, distance: usize, length: usize) {
    let start = op - distance;
    let mut have = distance;
    let total = distance + length;
    while have < total {
        let n = have.min(total - have);
        dst.copy_within(start..start + n, start + have);
        have += n;
    }
}

/// Positions remembered by the hash of the four bytes found there; zero-initialised, so that position 0 is a
/// valid candidate from the start and no entry means "nothing".
trait Table {
    const BITS: u32;
    fn get(&self, slot: usize) -> usize;
    fn set(&mut self, slot: usize, position: usize);
}

/// For inputs up to 256 bytes: half a kilobyte would cost more to clear than such inputs take to encode.
struct TinyTable([u8; 256]);
/// For inputs up to 64 KiB.
struct SmallTable([u16; 4096]);
/// For everything else.
struct LargeTable(Vec<u32>);

impl Table for TinyTable {
    const BITS: u32 = 8;
    #[inline(always)]
    fn get(&self, slot: usize) -> usize {
        self.0[slot & 255] as usize
    }
    #[inline(always)]
    fn set(&mut self, slot: usize, position: usize) {
        self.0[slot & 255] = position as u8;
    }
}
impl Table for SmallTable {
    const BITS: u32 = 12;
    #[inline(always)]
    fn get(&self, slot: usize) -> usize {
        self.0[slot & 4095] as usize
    }
    #[inline(always)]
    fn set(&mut self, slot: usize, position: usize) {
        self.0[slot & 4095] = position as u16;
    }
}
impl Table for LargeTable {
    const BITS: u32 = 14;
    #[inline(always)]
    fn get(&self, slot: usize) -> usize {
        self.0[slot] as usize
    }
    #[inline(always)]
    fn set(&mut self, slot: usize, position: usize) {
        self.0[slot] = position as u32;
    }
}

/// The longest input [`encode_block`] takes, the limit of the format's usual implementations.
pub const MAX_INPUT: usize = 0x7e00_0000;

/// Appends `src` as one raw block to `dst`. Never longer than [`literal_block_len`].
///
/// # Panics
/// When `src` is longer than [`MAX_INPUT`].
pub fn encode_block(src: &[u8], dst: &mut Vec<u8>) {
    assert!(src.len() <= MAX_INPUT, "an LZ4 block takes at most {MAX_INPUT} bytes, not {}", src.len());
    let base = dst.len();
    let literal_len = literal_block_len(src.len());
    // A sequence never costs more than it stores: 15 literals and a match of 4 take 19 bytes. What exceeds the
    // literal block are the further length bytes of long literal runs (1 in 255) and the fixed-size copies' slack.
    dst.resize(base + literal_len + src.len() / 255 + 64, 0);
    let out = &mut dst[base..];
    let written = if src.len() <= MATCH_START_LIMIT {
        emit_last(out, 0, src)
    } else if src.len() <= 256 {
        encode_with(src, out, &mut TinyTable([0; 256]))
    } else if src.len() <= 1 << 16 {
        encode_with(src, out, &mut SmallTable([0; 4096]))
    } else {
        encode_with(src, out, &mut LargeTable(vec![0; 1 << LargeTable::BITS]))
    };
    let written = if written > literal_len { emit_last(out, 0, src) } else { written };
    dst.truncate(base + written);
}

/// Bytes of a block that holds `n` bytes as literals only: the most [`encode_block`] writes.
pub const fn literal_block_len(n: usize) -> usize {
    1 + n + if n >= 15 { (n - 15) / 255 + 1 } else { 0 }
}

#[inline(always)]
fn four(src: &[u8], at: usize) -> u32 {
    match src[at..].first_chunk::<4>() {
        Some(b) => u32::from_le_bytes(*b),
        None => 0,
    }
}

#[inline(always)]
fn slot<T: Table>(word: u32) -> usize {
    (word.wrapping_mul(2_654_435_761) >> (32 - T::BITS)) as usize
}

/// How many bytes from `a` and from `b` on agree, not looking at or beyond `end`.
#[inline(always)]
fn common(src: &[u8], mut a: usize, mut b: usize, end: usize) -> usize {
    let from = b;
    while b + 8 <= end {
        match (src[a..].first_chunk::<8>(), src[b..].first_chunk::<8>()) {
            (Some(x), Some(y)) => {
                let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
                if differ != 0 {
                    return b - from + (differ.trailing_zeros() / 8) as usize;
                }
            }
            _ => break,
        }
        a += 8;
        b += 8;
    }
    while b < end && src[a] == src[b] {
        a += 1;
        b += 1;
    }
    b - from
}

/// The greedy search. `src` is longer than [`MATCH_START_LIMIT`].
#[inline(always)]
fn encode_with<T: Table>(src: &[u8], out: &mut [u8], table: &mut T) -> usize {
    let match_start_end = src.len() - MATCH_START_LIMIT;
    let match_end = src.len() - LAST_LITERALS;
    let mut anchor = 0;
    let mut op = 0;
    let mut at = 1;
    let mut misses = 0usize;
    while at <= match_start_end {
        let word = four(src, at);
        let slot_here = slot::<T>(word);
        let candidate = table.get(slot_here);
        table.set(slot_here, at);
        if candidate >= at || four(src, candidate) != word || at - candidate > MAX_DISTANCE {
            misses += 1;
            at += 1 + (misses >> 6);
            continue;
        }
        misses = 0;
        let (mut from, mut start) = (candidate, at);
        while start > anchor && from > 0 && src[from - 1] == src[start - 1] {
            from -= 1;
            start -= 1;
        }
        let length = at - start + MIN_MATCH + common(src, candidate + MIN_MATCH, at + MIN_MATCH, match_end);
        op = emit_sequence(out, op, src, anchor..start, start - from, length);
        at = start + length;
        anchor = at;
        if at <= match_start_end {
            table.set(slot::<T>(four(src, at - 2)), at - 2);
        }
    }
    emit_last(out, op, &src[anchor..])
}

#[inline(always)]
fn emit_sequence(
    out: &mut [u8],
    mut op: usize,
    src: &[u8],
    literals: std::ops::Range<usize>,
    distance: usize,
    length: usize,
) -> usize {
    let count = literals.len();
    let extra = length - MIN_MATCH;
    out[op] = ((count.min(15) as u8) << 4) | extra.min(15) as u8;
    op += 1;
    if count >= 15 {
        op = emit_length(out, op, count - 15);
    }
    if count <= 16 && literals.start + 16 <= src.len() {
        copy16(&src[literals.start..literals.start + 16], &mut out[op..op + 16]);
    } else {
        out[op..op + count].copy_from_slice(&src[literals]);
    }
    op += count;
    out[op..op + 2].copy_from_slice(&(distance as u16).to_le_bytes());
    op += 2;
    if extra >= 15 {
        op = emit_length(out, op, extra - 15);
    }
    op
}

fn emit_last(out: &mut [u8], mut op: usize, literals: &[u8]) -> usize {
    out[op] = (literals.len().min(15) as u8) << 4;
    op += 1;
    if literals.len() >= 15 {
        op = emit_length(out, op, literals.len() - 15);
    }
    out[op..op + literals.len()].copy_from_slice(literals);
    op + literals.len()
}

#[inline(always)]
fn emit_length(out: &mut [u8], mut op: usize, mut rest: usize) -> usize {
    while rest >= 255 {
        out[op] = 255;
        op += 1;
        rest -= 255;
    }
    out[op] = rest as u8;
    op + 1
}

#[cfg(test)]
mod tests;
