//! The u8 profile's compact headers: per pixel a base, checkpoints every 32 tiles, and four-bit widths.
//!
//! Layout: pack format, "Exact uint8/bitpacked binary index". For `T` tiles each pixel has `ceil(T/32)` checkpoint
//! words (word 0 is the pixel's payload base, the others hold the words since that base) and `ceil(T/8)` nibble words.
//!
//! A public experimental extension ("header encoding 2") keeps the layout for 16-bit samples; see [`NibbleWidths`].

use crate::error::CodecCode;
use crate::shard::MAX_PAYLOAD_WORDS;
use stempack_model::{Error, Result};

/// What a width nibble means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NibbleWidths {
    /// The width itself, 0 to 8: header encoding 1, the only one of the seed.
    Literal,
    /// 0 to 14 literally and 15 for 16: header encoding 2, read but never written.
    Escape16,
}

/// Checkpoint and nibble words of one pixel.
pub fn header_words_per_pixel(tiles: usize) -> usize {
    tiles.div_ceil(32) + tiles.div_ceil(8)
}

/// Headers of consecutive pixels whose widths are given pixel-major, the first starting at payload word `base`.
/// Returns the payload word after the last pixel.
pub fn append_headers(widths: &[u8], tiles: usize, mut base: u64, headers: &mut Vec<u32>) -> u64 {
    headers.reserve(widths.len() / tiles * header_words_per_pixel(tiles));
    for pixel in widths.chunks_exact(tiles) {
        let mut words = 0u64;
        for (t, &w) in pixel.iter().enumerate() {
            if t % 32 == 0 {
                headers.push(if t == 0 { base as u32 } else { words as u32 });
            }
            words += u64::from(w);
        }
        for eight in pixel.chunks(8) {
            headers.push(eight.iter().rev().fold(0, |word, &w| word << 4 | u32::from(w)));
        }
        base += words;
    }
    base
}

/// Checks every header word of a shard and returns the largest width of each pixel.
///
/// # Errors
/// `width_out_of_range`, `header_chain`, `unused_nibbles_not_zero`, `excluded_pixel_has_payload`,
/// `payload_not_covered`, `word_offset_limit`, each naming pixel and tile.
pub fn validate_headers(
    headers: &[u32],
    meaning: NibbleWidths,
    tiles: usize,
    payload_words: u64,
    excluded: &[u32],
) -> Result<Vec<u8>> {
    let per_pixel = header_words_per_pixel(tiles);
    let checkpoints = tiles.div_ceil(32);
    let mut maxima = Vec::with_capacity(headers.len() / per_pixel);
    let mut base = 0u64;
    let mut excluded = excluded.iter().peekable();
    for (pixel, words) in headers.chunks_exact(per_pixel).enumerate() {
        let (chain, nibbles) = words.split_at(checkpoints);
        if u64::from(chain[0]) != base {
            return Err(Error::new(
                CodecCode::HeaderChain,
                format!("pixel {pixel}: payload base is word {}, expected {base}", chain[0]),
            )
            .with("pixel", pixel));
        }
        let (mut sum, mut max) = (0u64, 0u8);
        let sound = if meaning == NibbleWidths::Literal { sound_pixel(chain, nibbles, tiles) } else { None };
        if let Some(found) = sound {
            (sum, max) = found;
        }
        // Otherwise nibble by nibble, which finds out what is wrong and where.
        for t in if sound.is_some() { 0..0 } else { 0..tiles.next_multiple_of(8) } {
            let nibble = (nibbles[t / 8] >> (4 * (t % 8)) & 15) as u8;
            let width = if meaning == NibbleWidths::Escape16 && nibble == 15 { 16 } else { nibble };
            if t >= tiles {
                if width != 0 {
                    return Err(Error::new(
                        CodecCode::UnusedNibbles,
                        format!(
                            "pixel {pixel}: unused nibble {t} past the last tile holds {width}, expected 0"
                        ),
                    )
                    .with("pixel", pixel));
                }
                continue;
            }
            if t % 32 == 0 && t > 0 && u64::from(chain[t / 32]) != sum {
                return Err(Error::new(
                    CodecCode::HeaderChain,
                    format!("pixel {pixel}, tile {t}: checkpoint is {}, expected {sum} words", chain[t / 32]),
                )
                .with("pixel", pixel));
            }
            if width > 8 && meaning == NibbleWidths::Literal {
                return Err(Error::new(
                    CodecCode::WidthOutOfRange,
                    format!("pixel {pixel}, tile {t}: width {width}, expected at most 8"),
                )
                .with("pixel", pixel));
            }
            sum += u64::from(width);
            max = max.max(width);
        }
        if excluded.next_if(|&&e| e as usize == pixel).is_some() && max > 0 {
            return Err(Error::new(
                CodecCode::ExcludedHasPayload,
                format!("excluded pixel {pixel} has width {max}, expected 0 in every tile"),
            )
            .with("pixel", pixel));
        }
        if base >= MAX_PAYLOAD_WORDS {
            return Err(Error::new(
                CodecCode::OffsetLimit,
                format!("pixel {pixel}: payload base {base} does not fit 27 bits"),
            ));
        }
        base += sum;
        maxima.push(max);
    }
    if base != payload_words {
        return Err(Error::new(
            CodecCode::PayloadCoverage,
            format!("headers describe {base} payload words, the shard has {payload_words}"),
        ));
    }
    Ok(maxima)
}

/// Words and largest width of one pixel whose literal widths and checkpoints have nothing wrong with them. Scalar twin:
/// the loop of [`validate_headers`].
fn sound_pixel(chain: &[u32], nibbles: &[u32], tiles: usize) -> Option<(u64, u8)> {
    let (mut sum, mut wrong, mut maxima) = (0u64, false, [0; 16]);
    // Four words are the widths between two checkpoints.
    let (whole, rest) = nibbles.as_chunks();
    for (k, words) in whole.iter().enumerate() {
        wrong |= k > 0 && u64::from(chain[k]) != sum;
        sum += add_widths(words, &mut maxima);
    }
    if !rest.is_empty() {
        wrong |= !whole.is_empty() && u64::from(chain[whole.len()]) != sum;
        let mut words = [0; 4];
        words[..rest.len()].copy_from_slice(rest);
        sum += add_widths(&words, &mut maxima);
    }
    let max = maxima.into_iter().max().unwrap_or(0);
    let used = tiles % 8;
    wrong |= used > 0 && nibbles.last().is_some_and(|last| last >> (4 * used) != 0);
    (!wrong && max <= 8).then_some((sum, max))
}

/// Sum of 32 nibbles. `maxima` are raised to the nibbles of each byte, in a loop that becomes vector instructions.
#[inline]
fn add_widths(words: &[u32; 4], maxima: &mut [u8; 16]) -> u64 {
    const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    let bytes = words.map(u32::to_le_bytes);
    for (max, &byte) in maxima.iter_mut().zip(bytes.as_flattened()) {
        *max = (*max).max(byte & 15).max(byte >> 4);
    }
    let sum = |first: u32, second: u32| {
        let pair = u64::from(first) | u64::from(second) << 32;
        // Eight bytes of at most 30: the product's highest byte is their sum.
        ((pair & LOW) + (pair >> 4 & LOW)).wrapping_mul(0x0101_0101_0101_0101) >> 56
    };
    sum(words[0], words[1]) + sum(words[2], words[3])
}

/// Eight nibbles as eight bytes.
#[inline]
fn spread(word: u32) -> [u8; 8] {
    let mut v = u64::from(word);
    v = (v | v << 16) & 0x0000_ffff_0000_ffff;
    v = (v | v << 8) & 0x00ff_00ff_00ff_00ff;
    v = (v | v << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    v.to_le_bytes()
}

/// Width of tile `t` and payload word where it starts, from one pixel's validated header words.
#[inline]
pub fn locate(pixel: &[u32], meaning: NibbleWidths, checkpoints: usize, t: usize) -> (u8, usize) {
    let nibbles = &pixel[checkpoints..];
    let mut word = pixel[0] as usize;
    if t >= 32 {
        word += pixel[t / 32] as usize;
    }
    let first = t / 32 * 4;
    for &eight in &nibbles[first..t / 8] {
        word += width_sum(eight, meaning) as usize;
    }
    let last = nibbles[t / 8];
    let below = last & ((1u32 << (4 * (t % 8))) - 1);
    let nibble = (last >> (4 * (t % 8)) & 15) as u8;
    let width = if meaning == NibbleWidths::Escape16 && nibble == 15 { 16 } else { nibble };
    (width, word + width_sum(below, meaning) as usize)
}

/// Sum of the widths that eight nibbles mean.
#[inline]
fn width_sum(word: u32, meaning: NibbleWidths) -> u32 {
    let escapes = match meaning {
        NibbleWidths::Literal => 0,
        NibbleWidths::Escape16 => (word & word >> 1 & word >> 2 & word >> 3 & 0x1111_1111).count_ones(),
    };
    nibble_sum(word) + escapes
}

/// Sum of the eight nibbles of a word.
#[inline]
fn nibble_sum(word: u32) -> u32 {
    let pairs = (word & 0x0f0f_0f0f) + (word >> 4 & 0x0f0f_0f0f);
    pairs.wrapping_mul(0x0101_0101) >> 24
}

/// Writes the widths of one pixel's tiles to `out`.
#[inline]
pub fn widths_into(pixel: &[u32], meaning: NibbleWidths, checkpoints: usize, out: &mut [u8]) {
    for (eight, word) in out.chunks_mut(8).zip(&pixel[checkpoints..]) {
        eight.copy_from_slice(&spread(*word)[..eight.len()]);
    }
    if meaning == NibbleWidths::Escape16 {
        out.iter_mut().filter(|w| **w == 15).for_each(|w| *w = 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widths(pixels: usize, tiles: usize) -> Vec<u8> {
        (0..pixels * tiles).map(|i| (i * 7 % 9) as u8).collect()
    }

    #[test]
    fn sound_pixels_are_those_that_pass_nibble_by_nibble() {
        let mut state = 3u64;
        let mut next = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        let (mut sound, mut wrong) = (0, 0);
        for tiles in [1, 7, 8, 31, 33, 64, 100] {
            for _ in 0..200 {
                let w: Vec<u8> = (0..tiles).map(|_| (next() % 9) as u8).collect();
                let mut headers = Vec::new();
                append_headers(&w, tiles, 0, &mut headers);
                let bit = next();
                if bit % 3 > 0 {
                    let at = (bit / 3) as usize % (32 * headers.len());
                    headers[at / 32] ^= 1 << (at % 32);
                }
                let (chain, nibbles) = headers.split_at(tiles.div_ceil(32));
                let expected = {
                    let width = |t: usize| (nibbles[t / 8] >> (4 * (t % 8)) & 15) as u8;
                    let all: Vec<u8> = (0..tiles).map(width).collect();
                    let before = |t: usize| all[..t].iter().map(|&w| u32::from(w)).sum::<u32>();
                    let chained = (1..chain.len()).all(|c| chain[c] == before(32 * c));
                    let unused = (tiles..8 * nibbles.len()).all(|t| width(t) == 0);
                    (chained && unused && all.iter().all(|&w| w <= 8))
                        .then(|| (before(tiles).into(), all.iter().copied().max().unwrap()))
                };
                assert_eq!(sound_pixel(chain, nibbles, tiles), expected);
                if expected.is_some() { sound += 1 } else { wrong += 1 }
            }
        }
        assert!(sound > 300 && wrong > 300, "{sound} {wrong}");
    }

    #[test]
    fn headers_say_what_the_seed_says() {
        for tiles in [1, 7, 8, 31, 32, 33, 64, 65, 128] {
            let w = widths(5, tiles);
            let mut headers = Vec::new();
            let end = append_headers(&w, tiles, 0, &mut headers);
            let per_pixel = tiles.div_ceil(32) + tiles.div_ceil(8);
            assert_eq!(headers.len(), 5 * per_pixel);
            let mut base = 0u64;
            for (pixel, own) in w.chunks(tiles).enumerate() {
                let words = &headers[pixel * per_pixel..][..per_pixel];
                assert_eq!(u64::from(words[0]), base);
                let mut out = vec![9; tiles];
                widths_into(words, NibbleWidths::Literal, tiles.div_ceil(32), &mut out);
                assert_eq!(out, own);
                for t in 0..tiles {
                    let before: u64 = own[..t].iter().map(|&w| u64::from(w)).sum();
                    assert_eq!(
                        locate(words, NibbleWidths::Literal, tiles.div_ceil(32), t),
                        (own[t], (base + before) as usize)
                    );
                    if t > 0 && t % 32 == 0 {
                        assert_eq!(u64::from(words[t / 32]), before);
                    }
                }
                base += own.iter().map(|&w| u64::from(w)).sum::<u64>();
            }
            assert_eq!(end, base);
            let maxima = validate_headers(&headers, NibbleWidths::Literal, tiles, end, &[]).unwrap();
            assert_eq!(maxima, w.chunks(tiles).map(|p| *p.iter().max().unwrap()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_escape_nibble_means_sixteen() {
        // One pixel, ten tiles: widths 16, 1, 16, 0, 14, 3, 16, 2 | 16, 5 as the extension stores them.
        let words = [0, 0x2f3e_0f1f, 0x5f];
        let widths = [16u8, 1, 16, 0, 14, 3, 16, 2, 16, 5];
        let mut out = [0; 10];
        widths_into(&words, NibbleWidths::Escape16, 1, &mut out);
        assert_eq!(out, widths);
        for t in 0..10 {
            let before = widths[..t].iter().map(|&w| w as usize).sum();
            assert_eq!(locate(&words, NibbleWidths::Escape16, 1, t), (widths[t], before));
        }
        assert_eq!(validate_headers(&words, NibbleWidths::Escape16, 10, 89, &[]).unwrap(), [16]);
        let e = validate_headers(&words, NibbleWidths::Literal, 10, 89, &[]).unwrap_err();
        assert_eq!(e.code(), "width_out_of_range");
    }

    #[test]
    fn each_fault_has_its_code() {
        let tiles = 33;
        let mut good = Vec::new();
        let end = append_headers(&widths(3, tiles), tiles, 0, &mut good);
        let per_pixel = header_words_per_pixel(tiles);
        let code = |change: &dyn Fn(&mut Vec<u32>), words, excluded: &[u32]| {
            let mut h = good.clone();
            change(&mut h);
            validate_headers(&h, NibbleWidths::Literal, tiles, words, excluded).unwrap_err().code()
        };
        assert_eq!(code(&|h| h[0] += 1, end, &[]), "header_chain");
        assert_eq!(code(&|h| h[1] += 1, end, &[]), "header_chain");
        assert_eq!(code(&|h| h[per_pixel] += 1, end, &[]), "header_chain");
        assert_eq!(code(&|h| h[2] = h[2] & !15 | 9, end, &[]), "width_out_of_range");
        assert_eq!(code(&|h| h[per_pixel - 1] |= 0x10, end, &[]), "unused_nibbles_not_zero");
        assert_eq!(code(&|_| (), end + 1, &[]), "payload_not_covered");
        assert_eq!(code(&|_| (), end, &[1]), "excluded_pixel_has_payload");
    }
}
