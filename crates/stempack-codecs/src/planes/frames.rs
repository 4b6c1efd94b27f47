//! Frames → a block of planes: 512 frames are turned in squares of eight by eight counts.

use super::{BLOCK_SCANS, BlockBuilder, PlaneBlock, SLACK_WORDS};
use rayon::prelude::*;

/// Pixels whose streams one thread makes at once.
const PART: usize = 1024;
/// Pixels turned together: each frame lies on another page of memory, so what is read there at once should be more than
/// one line, while the turned counts stay in the cache.
const COLUMNS: usize = 32;
/// Counts from one turned pixel to the next: not a power of two, for pixels would share few sets of the cache.
const STRIDE: usize = BLOCK_SCANS + 32;

/// The block of up to 512 consecutive frames of `pixels` counts each.
///
/// # Panics
/// When `frames` is no whole number of frames, or more than a block holds.
pub fn block_of_frames(frames: &[u16], pixels: usize) -> PlaneBlock {
    let scans = frames.len() / pixels;
    assert!(scans > 0 && scans <= BLOCK_SCANS && frames.len() == scans * pixels);
    let parts = (0..pixels).into_par_iter().step_by(PART).map(|first| {
        let count = PART.min(pixels - first);
        let mut builder = BlockBuilder::new(count);
        let mut counts = vec![0u16; STRIDE * COLUMNS];
        for pixel in (first..first + count).step_by(COLUMNS) {
            let counts = &mut counts[..STRIDE * COLUMNS.min(first + count - pixel)];
            turn(frames, pixels, pixel, counts);
            for counts in counts.chunks_exact(STRIDE) {
                builder.push(counts.first_chunk().expect("a stride holds a block's counts"));
            }
        }
        builder.finish(scans)
    });
    join(parts.collect())
}

/// The counts of the pixels from `first` on at every scan. Counts past the last scan stay as they are.
fn turn(frames: &[u16], pixels: usize, first: usize, counts: &mut [u16]) {
    let scans = frames.len() / pixels;
    let columns = counts.len() / STRIDE;
    let (squares, whole) = (columns / 8, scans / 8 * 8);
    for scan in (0..whole).step_by(8) {
        for (square, counts) in counts.chunks_exact_mut(8 * STRIDE).enumerate() {
            let rows: [&[u16; 8]; 8] = std::array::from_fn(|s| {
                let at = (scan + s) * pixels + first + 8 * square;
                frames[at..].first_chunk().expect("eight pixels from there lie in the frame")
            });
            for (turned, counts) in transpose(rows).iter().zip(counts.chunks_exact_mut(STRIDE)) {
                counts[scan..scan + 8].copy_from_slice(turned);
            }
        }
    }
    for (scan, frame) in frames.chunks_exact(pixels).enumerate() {
        let done = if scan < whole { 8 * squares } else { 0 };
        let own = &frame[first..first + columns];
        for (column, &count) in own.iter().enumerate().skip(done) {
            counts[STRIDE * column + scan] = count;
        }
    }
}

#[inline]
fn transpose(rows: [&[u16; 8]; 8]) -> [[u16; 8]; 8] {
    #[cfg(target_arch = "x86_64")]
    return super::build_x86::transpose(rows);
    #[cfg(not(target_arch = "x86_64"))]
    std::array::from_fn(|c| std::array::from_fn(|r| rows[r][c]))
}

/// One block of blocks of the same scans that hold consecutive pixels.
fn join(parts: Vec<PlaneBlock>) -> PlaneBlock {
    let (pixels, words) = parts
        .iter()
        .fold((0, 0), |(pixels, words), p| (pixels + p.pixels(), words + p.words.len() - SLACK_WORDS));
    let mut all = PlaneBlock {
        scans: parts.first().map_or(0, |p| p.scans),
        offsets: Vec::with_capacity(pixels + 1),
        words: Vec::with_capacity(words + SLACK_WORDS),
    };
    for part in &parts {
        let base = all.words.len() as u32;
        let (_, starts) = part.offsets.split_last().expect("offsets are one more than pixels");
        all.offsets.extend(starts.iter().map(|o| base + o));
        all.words.extend(&part.words[..part.words.len() - SLACK_WORDS]);
    }
    all.offsets.push(u32::try_from(all.words.len()).expect("a block takes at most 16 GiB"));
    all.words.resize(words + SLACK_WORDS, 0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_become_the_block_of_their_counts() {
        for (scans, pixels) in [(1, 1), (512, 8), (512, 1030), (77, 2051), (8, 9)] {
            let frames: Vec<u16> = (0..scans * pixels)
                .map(|i| ((i as u64).wrapping_mul(0x9e37_79b9_7f4a) >> 20) as u16 >> (i % 17).min(15))
                .collect();
            let block = block_of_frames(&frames, pixels);
            let mut builder = BlockBuilder::scalar(pixels);
            for p in 0..pixels {
                let mut counts = [0; BLOCK_SCANS];
                (0..scans).for_each(|s| counts[s] = frames[s * pixels + p]);
                builder.push(&counts);
            }
            let expected = builder.finish(scans);
            assert_eq!(block.offsets(), expected.offsets());
            assert_eq!(block.words(), expected.words());
            assert_eq!(block.scans(), scans);
        }
    }
}
