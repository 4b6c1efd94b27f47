//! The u16 profile's tables: one width byte per pixel and tile, and independent 128-byte raw-LZ4 blocks.
//!
//! Layout: pack format, "Exact uint16/LZ4 descriptor and payload layout".

use crate::error::CodecCode;
use crate::lz4;
use crate::shard::MAX_PAYLOAD_WORDS;
use rayon::prelude::*;
use std::ops::Range;
use stempack_model::{Error, Result};

/// Decoded bytes of every block but the last.
pub const BLOCK_BYTES: usize = 128;
/// Payload words that one unit of width takes in a 128-scan tile.
pub const WORDS_PER_WIDTH: u64 = 4;

/// Checks every width of a shard; returns each pixel's first payload word and its largest width.
///
/// # Errors
/// `width_out_of_range`, `word_offset_limit`, `payload_not_covered`, naming pixel and tile.
pub fn validate_widths(widths: &[u8], tiles: usize, payload_words: u64) -> Result<(Vec<u32>, Vec<u8>)> {
    let pixels = widths.len() / tiles;
    let (mut bases, mut maxima) = (Vec::with_capacity(pixels), Vec::with_capacity(pixels));
    let mut word = 0u64;
    for (pixel, own) in widths.chunks_exact(tiles).enumerate() {
        let mut max = 0;
        for (t, &width) in own.iter().enumerate() {
            if width > 16 {
                return Err(Error::new(
                    CodecCode::WidthOutOfRange,
                    format!("pixel {pixel}, tile {t}: width {width}, expected at most 16"),
                )
                .with("pixel", pixel));
            }
            if word >= MAX_PAYLOAD_WORDS {
                return Err(Error::new(
                    CodecCode::OffsetLimit,
                    format!("pixel {pixel}, tile {t}: payload word {word} does not fit 27 bits"),
                ));
            }
            if t == 0 {
                bases.push(word as u32);
            }
            word += WORDS_PER_WIDTH * u64::from(width);
            max = max.max(width);
        }
        maxima.push(max);
    }
    if word != payload_words {
        return Err(Error::new(
            CodecCode::PayloadCoverage,
            format!("widths describe {word} payload words, the shard has {payload_words}"),
        ));
    }
    Ok((bases, maxima))
}

/// Compresses a bitstream into independent blocks: appends their bytes to `payload` and their lengths minus one to
/// `lengths`. All blocks but the last of a shard must be whole, so call it with multiples of [`BLOCK_BYTES`] until then.
pub fn compress_blocks(decoded: &[u8], payload: &mut Vec<u8>, lengths: &mut Vec<u8>) {
    for block in decoded.chunks(BLOCK_BYTES) {
        let start = payload.len();
        lz4::encode_block(block, payload);
        // An incompressible block takes 130 bytes, far below the 256 that the length byte can say.
        lengths.push((payload.len() - start - 1) as u8);
    }
}

/// Decoded bytes of a [`Run`] but the last.
pub const RUN_BYTES: usize = 2048 * BLOCK_BYTES;

/// Blocks are tiny: a run of them is what is read and decoded at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// Where its compressed bytes lie in the payload.
    pub compressed: Range<u64>,
    /// Its first block.
    first: usize,
    lengths: &'a [u8],
}

/// Cuts the blocks of a shard into runs of [`RUN_BYTES`] decoded bytes.
///
/// # Errors
/// `block_lengths_not_covered`.
pub fn runs(payload_bytes: u64, lengths: &[u8], decoded_bytes: usize) -> Result<Vec<Run<'_>>> {
    if lengths.len() != decoded_bytes.div_ceil(BLOCK_BYTES) {
        return Err(Error::new(
            CodecCode::LengthsCoverage,
            format!("{} block lengths for {decoded_bytes} decoded bytes", lengths.len()),
        ));
    }
    let mut at = 0;
    let runs = lengths.chunks(RUN_BYTES / BLOCK_BYTES).enumerate().map(|(run, lengths)| {
        let start = at;
        at += lengths.iter().map(|&l| u64::from(l) + 1).sum::<u64>();
        Run { compressed: start..at, first: run * (RUN_BYTES / BLOCK_BYTES), lengths }
    });
    let runs = runs.collect();
    if at != payload_bytes {
        return Err(Error::new(
            CodecCode::LengthsCoverage,
            format!("block lengths describe {at} compressed bytes, the payload has {payload_bytes}"),
        ));
    }
    Ok(runs)
}

impl Run<'_> {
    /// Decodes the blocks of a run.
    ///
    /// # Errors
    /// `damaged_block` naming the block.
    ///
    /// # Panics
    /// When `compressed` has not the bytes of the run.
    pub fn decompress(&self, compressed: &[u8], decoded: &mut [u8]) -> Result<()> {
        let mut rest = compressed;
        for (k, (block, &length)) in decoded.chunks_mut(BLOCK_BYTES).zip(self.lengths).enumerate() {
            let (own, more) = rest.split_at(length as usize + 1);
            rest = more;
            lz4::decode_block(own, block).map_err(|e| {
                let index = self.first + k;
                Error::new(CodecCode::DamagedBlock, format!("LZ4 block {index}: {e}")).with("block", index)
            })?;
        }
        Ok(())
    }
}

/// Decodes all blocks of a shard, whose compressed bytes are at hand, into `decoded`.
///
/// # Errors
/// `block_lengths_not_covered`, `damaged_block` naming the block.
pub fn decompress_blocks(payload: &[u8], lengths: &[u8], decoded: &mut [u8]) -> Result<()> {
    let runs = runs(payload.len() as u64, lengths, decoded.len())?;
    decoded.par_chunks_mut(RUN_BYTES).zip(&runs).try_for_each(|(out, run)| {
        run.decompress(&payload[run.compressed.start as usize..run.compressed.end as usize], out)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(bytes: usize) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let decoded: Vec<u8> = (0..bytes).map(|i| ((i * i) >> 9) as u8 & 7).collect();
        let (mut payload, mut lengths) = (Vec::new(), Vec::new());
        compress_blocks(&decoded, &mut payload, &mut lengths);
        (decoded, payload, lengths)
    }

    #[test]
    fn runs_decode_to_what_was_compressed() {
        for bytes in [0, 1, 128, RUN_BYTES, 3 * RUN_BYTES + 130] {
            let (expected, payload, lengths) = sample(bytes);
            let mut decoded = vec![9; bytes];
            decompress_blocks(&payload, &lengths, &mut decoded).unwrap();
            assert_eq!(decoded, expected);
            let runs = runs(payload.len() as u64, &lengths, bytes).unwrap();
            assert_eq!(runs.len(), bytes.div_ceil(RUN_BYTES));
            let ends = runs.iter().map(|run| run.compressed.end);
            let starts = runs.iter().map(|run| run.compressed.start);
            assert!(starts.eq(std::iter::once(0).chain(ends).take(runs.len())));
        }
    }

    #[test]
    fn a_damaged_block_is_named() {
        let (mut decoded, mut payload, lengths) = sample(2 * RUN_BYTES + 200);
        let block = RUN_BYTES / BLOCK_BYTES + 3;
        let at: usize = lengths[..block].iter().map(|&l| usize::from(l) + 1).sum();
        // Literals beyond the end of the block.
        payload[at] = 0xff;
        let error = decompress_blocks(&payload, &lengths, &mut decoded).unwrap_err();
        assert_eq!(error.code(), "damaged_block");
        assert!(error.to_string().contains(&format!("block {block}:")), "{error}");
    }

    #[test]
    fn lengths_must_describe_the_payload() {
        let (_, payload, lengths) = sample(1000);
        for (payload, lengths, decoded) in [
            (payload.len() as u64 + 1, &lengths[..], 1000),
            (payload.len() as u64, &lengths[1..], 1000),
            (payload.len() as u64, &lengths[..], 1025),
        ] {
            let error = runs(payload, lengths, decoded).unwrap_err();
            assert_eq!(error.code(), "block_lengths_not_covered");
        }
    }
}
