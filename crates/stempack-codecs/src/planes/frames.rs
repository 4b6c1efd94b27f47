//! Frames → a block of planes: 512 frames are turned pixel by pixel, eight at a time.

use super::{BLOCK_SCANS, BlockBuilder, BlockCounts, PlaneBlock, SLACK_WORDS};
use rayon::prelude::*;

/// Pixels whose streams one thread makes at once.
const PART: usize = 1024;

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
        let mut counts = [[0u16; BLOCK_SCANS]; 8];
        for pixel in (first..first + count).step_by(8) {
            let columns = 8.min(first + count - pixel);
            turn(frames, pixels, pixel, columns, &mut counts);
            counts[..columns].iter().for_each(|counts| builder.push(counts));
        }
        builder.finish(scans)
    });
    join(parts.collect())
}

/// The counts of pixels `first..first + columns` at every scan. Counts past the last scan stay as they are.
fn turn(frames: &[u16], pixels: usize, first: usize, columns: usize, counts: &mut [BlockCounts; 8]) {
    let mut done = 0;
    if columns == 8 {
        for (e, eight) in frames.chunks_exact(8 * pixels).enumerate() {
            let rows: [&[u16; 8]; 8] = std::array::from_fn(|s| {
                eight[s * pixels + first..].first_chunk().expect("eight pixels from there lie in the frame")
            });
            for (turned, counts) in transpose(rows).iter().zip(counts.iter_mut()) {
                counts[8 * e..8 * e + 8].copy_from_slice(turned);
            }
            done += 8;
        }
    }
    for (s, frame) in frames.chunks_exact(pixels).enumerate().skip(done) {
        for (counts, &count) in counts.iter_mut().zip(&frame[first..first + columns]) {
            counts[s] = count;
        }
    }
}

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
