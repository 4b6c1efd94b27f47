//! The u16 profile's tables: one width byte per pixel and tile, and independent 128-byte raw-LZ4 blocks.
//!
//! Layout: pack format, "Exact uint16/LZ4 descriptor and payload layout".

use crate::error::CodecCode;
use crate::lz4;
use crate::shard::MAX_PAYLOAD_WORDS;
use rayon::prelude::*;
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

/// Decodes all blocks of a shard into `decoded`.
///
/// # Errors
/// `block_lengths_not_covered`, `damaged_block` naming the block.
pub fn decompress_blocks(payload: &[u8], lengths: &[u8], decoded: &mut [u8]) -> Result<()> {
    if lengths.len() != decoded.len().div_ceil(BLOCK_BYTES) {
        return Err(Error::new(
            CodecCode::LengthsCoverage,
            format!("{} block lengths for {} decoded bytes", lengths.len(), decoded.len()),
        ));
    }
    let described: u64 = lengths.iter().map(|&l| u64::from(l) + 1).sum();
    if described != payload.len() as u64 {
        return Err(Error::new(
            CodecCode::LengthsCoverage,
            format!("block lengths describe {described} compressed bytes, the payload has {}", payload.len()),
        ));
    }
    // Blocks are tiny: hand out runs of them, each with its own start.
    const RUN: usize = 2048;
    let mut starts = Vec::with_capacity(lengths.len() / RUN + 1);
    let mut at = 0usize;
    for run in lengths.chunks(RUN) {
        starts.push(at);
        at += run.iter().map(|&l| l as usize + 1).sum::<usize>();
    }
    decoded
        .par_chunks_mut(RUN * BLOCK_BYTES)
        .zip(lengths.par_chunks(RUN))
        .zip(&starts)
        .enumerate()
        .try_for_each(|(run, ((out, lengths), &start))| {
            let mut at = start;
            for (k, (block, &length)) in out.chunks_mut(BLOCK_BYTES).zip(lengths).enumerate() {
                let end = at + length as usize + 1;
                lz4::decode_block(&payload[at..end], block).map_err(|e| {
                    let index = run * RUN + k;
                    Error::new(CodecCode::DamagedBlock, format!("LZ4 block {index}: {e}"))
                        .with("block", index)
                })?;
                at = end;
            }
            Ok(())
        })
}
