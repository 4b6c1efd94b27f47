//! Frames whose bits are transposed as files keep them → words of 64 scans, without making counts of them first.
//!
//! Bit `k` of 512 pixels of a frame is one line of the cache. Sixty-four such lines, one of each frame, are gathered in a
//! square in which 64 × 64 bits of eight groups of pixels are exchanged side by side.
//!
//! Reference: the counts of these frames through [`FrameTurner::push`](super::FrameTurner::push).

use super::frames::{GROUP, STRIP, TURN_SCANS, Turned};

/// Bytes of a whole block of transposed samples.
pub const TRANSPOSED_BLOCK_BYTES: usize = 8192;

/// Up to 64 frames whose samples are in blocks of [`TRANSPOSED_BLOCK_BYTES`], the last one shorter, and in each block
/// plane after plane, of those that are present.
#[derive(Clone, Copy)]
pub(super) struct Transposed<'a> {
    pub(super) frames: &'a [u8],
    pub(super) pixels: usize,
    pub(super) sample_bytes: usize,
    /// Which planes are present, for each frame and block.
    pub(super) present: &'a [u16],
}

impl Transposed<'_> {
    pub(super) fn frame_bytes(&self) -> usize {
        self.pixels * self.sample_bytes
    }
    /// Blocks of a frame.
    pub(super) fn blocks(&self) -> usize {
        self.frame_bytes().div_ceil(TRANSPOSED_BLOCK_BYTES)
    }
}

/// Lines of 64 frames, then of 64 pixels.
type Square = [[u64; STRIP]; TURN_SCANS];

/// Turns these frames, the `window`th of the block, of the groups from pixel `first` on, which begin a strip.
#[inline(always)]
pub(super) fn turn(of: Transposed<'_>, first: usize, window: usize, groups: &mut [Turned<'_>]) {
    let block_pixels = TRANSPOSED_BLOCK_BYTES / of.sample_bytes;
    let (block, within) = (first / block_pixels, first % block_pixels / 8);
    let plane_bytes = block_pixels.min(of.pixels - block * block_pixels) / 8;
    let line_bytes = (plane_bytes - within).min(8 * groups.len());
    let present = || of.present.iter().skip(block).step_by(of.blocks());
    let any = present().fold(0, |any, present| any | present);
    for k in (0..8 * of.sample_bytes).filter(|k| any >> k & 1 == 1) {
        let at = TRANSPOSED_BLOCK_BYTES * block + plane_bytes * k + within;
        let (mut square, mut or) = ([[0; STRIP]; TURN_SCANS], [0; STRIP]);
        let frames = of.frames.chunks_exact(of.frame_bytes()).zip(present());
        for (line, (frame, present)) in square.iter_mut().zip(frames) {
            if present >> k & 1 == 1 {
                *line = line_of(&frame[at..at + line_bytes]);
                or.iter_mut().zip(&*line).for_each(|(or, word)| *or |= word);
            }
        }
        if or == [0; STRIP] {
            continue;
        }
        exchange(&mut square);
        for (n, group) in groups.iter_mut().enumerate().filter(|(n, _)| or[*n] != 0) {
            // Planes that none before needed are zero here.
            for plane in &mut group.planes[usize::from(*group.width)..k] {
                plane[window] = [0; GROUP];
            }
            *group.width = k as u8 + 1;
            group.planes[k][window].iter_mut().zip(&square).for_each(|(word, line)| *word = line[n]);
        }
    }
}

#[inline(always)]
fn line_of(bytes: &[u8]) -> [u64; STRIP] {
    let mut padded = [0; 8 * STRIP];
    let bytes = bytes.as_array().unwrap_or_else(|| {
        padded[..bytes.len()].copy_from_slice(bytes);
        &padded
    });
    let words = bytes.as_chunks().0;
    std::array::from_fn(|n| u64::from_le_bytes(words[n]))
}

/// Exchanges bit `b` of line `l` with bit `l` of line `b`, in each column: halves, quarters and so on of the square.
#[inline(always)]
fn exchange(square: &mut Square) {
    let (mut step, mut low) = (TURN_SCANS / 2, u64::MAX >> (TURN_SCANS / 2));
    while step > 0 {
        for pair in square.chunks_exact_mut(2 * step) {
            let (upper, lower) = pair.split_at_mut(step);
            for (a, b) in upper.iter_mut().zip(lower) {
                for (a, b) in a.iter_mut().zip(b) {
                    let differ = (*a >> step ^ *b) & low;
                    *a ^= differ << step;
                    *b ^= differ;
                }
            }
        }
        step /= 2;
        low ^= low << step;
    }
}

/// [`turn`] with instructions of this machine.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "calls of functions compiled for features that were detected")]
pub(super) mod x86 {
    use super::{Transposed, Turned};

    pub(in super::super) fn avx2(of: Transposed<'_>, first: usize, window: usize, groups: &mut [Turned<'_>]) {
        assert!(is_x86_feature_detected!("avx2"));
        // SAFETY: the feature was asked for just above.
        unsafe { with_avx2(of, first, window, groups) }
    }
    #[target_feature(enable = "avx2")]
    fn with_avx2(of: Transposed<'_>, first: usize, window: usize, groups: &mut [Turned<'_>]) {
        super::turn(of, first, window, groups);
    }

    pub(in super::super) fn avx512(
        of: Transposed<'_>,
        first: usize,
        window: usize,
        groups: &mut [Turned<'_>],
    ) {
        assert!(is_x86_feature_detected!("avx512f"));
        // SAFETY: the feature was asked for just above.
        unsafe { with_avx512(of, first, window, groups) }
    }
    #[target_feature(enable = "avx512f")]
    fn with_avx512(of: Transposed<'_>, first: usize, window: usize, groups: &mut [Turned<'_>]) {
        super::turn(of, first, window, groups);
    }
}
