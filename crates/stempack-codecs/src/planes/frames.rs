//! Frames → blocks of planes: 64 frames are turned at a time, while the caches hold them.
//!
//! Turning 64 frames gives each pixel one word of 64 bits for each plane. The words are kept until the eight windows of a
//! block are there, and then written as the pixels' streams.

use super::transposed::{self, Transposed};
use super::{BLOCK_SCANS, BlockBuilder, MAX_PLANES, PLANE_WORDS, Plane, PlaneBlock, SLACK_WORDS};
#[cfg(target_arch = "x86_64")]
use super::{turn_avx2, turn_avx512};
use crate::bits::bit_length;
use crate::tile::TileSample;
use rayon::prelude::*;

/// Frames turned at once.
pub const TURN_SCANS: usize = 64;
/// Windows of a block.
pub(super) const TURNS: usize = BLOCK_SCANS / TURN_SCANS;
/// Pixels of a group: two lines of the cache hold their counts in a frame.
pub(super) const GROUP: usize = 64;
/// Groups turned together: each frame lies on other pages of memory, so there should be much to be read there.
pub(super) const STRIP: usize = 8;
/// Groups whose streams one thread makes at once.
const PART: usize = 16;

/// One binary digit of 64 pixels: for each window of the block, the words of all pixels.
pub(super) type GroupPlane = [[u64; GROUP]; TURNS];
/// Words of a plane of a group.
const PLANE: usize = TURNS * GROUP;
/// Where one group is turned to.
pub(super) struct Turned<'a> {
    pub(super) planes: &'a mut [GroupPlane],
    /// How many planes are written in this window; zero before.
    pub(super) width: &'a mut u8,
}
/// The planes of 64 pixels.
type GroupPixels = [[Plane; MAX_PLANES]; GROUP];

/// Makes one block after another of frames that come in windows.
#[derive(Debug)]
pub struct FrameTurner {
    pixels: usize,
    scans: usize,
    /// The most planes of a pixel.
    depth: usize,
    /// The planes of each group of pixels. Planes that no count has are never touched, so that the system need not give
    /// pages for them; that is why these are plain numbers, which a new vector takes as they come.
    words: Vec<u64>,
    /// Planes of each group in each window; what `words` holds beyond is from another block.
    widths: Vec<[u8; TURNS]>,
    /// Where the streams of consecutive groups are written before it is known how long all are.
    parts: Vec<BlockBuilder>,
    turn: Turn,
}

impl FrameTurner {
    /// No frames yet, of `pixels` counts of at most `max_width` bits each.
    ///
    /// # Panics
    /// When there are no pixels or widths beyond 16.
    pub fn new(pixels: usize, max_width: u8) -> Self {
        Self::with(pixels, max_width, Turn::detect())
    }
    fn with(pixels: usize, max_width: u8, turn: Turn) -> Self {
        let (groups, depth) = (pixels.div_ceil(GROUP), usize::from(max_width).next_multiple_of(8));
        assert!(groups > 0 && depth <= MAX_PLANES);
        FrameTurner {
            pixels,
            scans: 0,
            depth,
            words: vec![0; groups * depth * PLANE],
            widths: vec![[0; TURNS]; groups],
            parts: (0..groups.div_ceil(PART)).map(|_| BlockBuilder::new(GROUP * PART)).collect(),
            turn,
        }
    }
    /// Bytes held in memory at most.
    pub fn held_bytes(pixels: usize, max_width: u8) -> u64 {
        let groups = pixels.div_ceil(GROUP);
        let planes = usize::from(max_width).next_multiple_of(8) * size_of::<GroupPlane>() + TURNS;
        let room = BlockBuilder::ROOM_BYTES * groups.div_ceil(PART);
        (groups * planes + room) as u64 + PlaneBlock::bound_bytes(pixels, max_width)
    }
    /// Scans of the block that is being made.
    pub fn scans(&self) -> usize {
        self.scans
    }

    /// Adds up to 64 frames; fewer only at the end of a block.
    ///
    /// # Panics
    /// When `frames` is no whole number of frames, or more than fit, or counts may be wider than announced.
    pub fn push<S: TileSample>(&mut self, frames: &[S]) {
        let (pixels, turn) = (self.pixels, self.turn);
        let scans = frames.len() / pixels;
        assert!(frames.len() == scans * pixels);
        self.each_strip(scans, S::MAX_WIDTH, |first, window, groups| {
            let whole = GROUP * groups.len();
            if first + whole <= pixels && scans == TURN_SCANS {
                return turn.turn(&frames[first..], pixels, window, groups);
            }
            let mut padded = vec![S::default(); TURN_SCANS * whole];
            for (to, from) in padded.chunks_exact_mut(whole).zip(frames.chunks_exact(pixels)) {
                let own = whole.min(pixels - first);
                to[..own].copy_from_slice(&from[first..first + own]);
            }
            turn.turn(&padded, whole, window, groups);
        });
    }

    /// The same from frames whose bits files keep transposed, of counts of one or two bytes: blocks of
    /// [`TRANSPOSED_BLOCK_BYTES`](super::TRANSPOSED_BLOCK_BYTES), the last one shorter, hold the lowest bit of all their
    /// counts, then the next; the bit of the first count is the lowest of its byte. `present` says for each frame and block
    /// which bits are there at all.
    ///
    /// # Panics
    /// As for [`FrameTurner::push`], and when pixels do not come in eights.
    pub fn push_transposed(&mut self, frames: &[u8], sample_bytes: usize, present: &[u16]) {
        let (pixels, turn) = (self.pixels, self.turn);
        let scans = frames.len() / (pixels * sample_bytes);
        assert!(frames.len() == scans * pixels * sample_bytes && pixels.is_multiple_of(8));
        let of = Transposed { frames, pixels, sample_bytes, present };
        assert_eq!(present.len(), scans * of.blocks());
        self.each_strip(scans, 8 * sample_bytes as u8, |first, window, groups| {
            turn.transposed(of, first, window, groups);
        });
    }

    /// Has `scans` more frames turned: `turn` is given the first pixel of a strip, the window, and the strip's groups.
    fn each_strip(
        &mut self,
        scans: usize,
        max_width: u8,
        turn: impl Fn(usize, usize, &mut [Turned<'_>]) + Sync,
    ) {
        let depth = self.depth;
        assert!(scans > 0 && scans <= TURN_SCANS && usize::from(max_width) <= depth);
        assert!(self.scans.is_multiple_of(TURN_SCANS) && self.scans < BLOCK_SCANS);
        let window = self.scans / TURN_SCANS;
        let strips = self.words.par_chunks_mut(STRIP * depth * PLANE).zip(self.widths.par_chunks_mut(STRIP));
        strips.enumerate().for_each(|(strip, (words, widths))| {
            let planes = words.as_chunks_mut().0.as_chunks_mut().0;
            let groups = planes.chunks_exact_mut(depth).zip(widths);
            let mut groups: Vec<_> =
                groups.map(|(planes, widths)| Turned { planes, width: &mut widths[window] }).collect();
            turn(STRIP * GROUP * strip, window, &mut groups);
        });
        self.scans += scans;
    }

    /// The block of the frames that were added since the last one.
    ///
    /// # Panics
    /// When there are none, or the block grows beyond 16 GiB.
    pub fn finish(&mut self) -> PlaneBlock {
        assert!(self.scans > 0);
        let groups = self.words.par_chunks(PART * self.depth * PLANE).zip(self.widths.par_chunks(PART));
        let parts = self.parts.par_iter_mut().zip(groups).enumerate();
        parts.for_each_init(
            || Box::new([[[0; PLANE_WORDS]; MAX_PLANES]; GROUP]),
            |own, (part, (builder, (words, widths)))| {
                builder.clear();
                let pixels = (PART * GROUP).min(self.pixels - part * PART * GROUP);
                write_part(self.turn, words.as_chunks().0.as_chunks().0, widths, pixels, own, builder);
            },
        );
        let block = join(self.scans, &self.parts);
        self.scans = 0;
        self.widths.fill([0; TURNS]);
        block
    }
}

/// Appends the streams of consecutive groups, `pixels` in all; `own` may hold anything.
fn write_part(
    turn: Turn,
    planes: &[GroupPlane],
    widths: &[[u8; TURNS]],
    pixels: usize,
    own: &mut GroupPixels,
    to: &mut BlockBuilder,
) {
    let mut rest = pixels;
    for (planes, widths) in planes.chunks_exact(planes.len() / widths.len()).zip(widths) {
        let width = widths.iter().copied().max().unwrap_or(0).into();
        for (k, plane) in planes.iter().enumerate().take(width) {
            let windows = std::array::from_fn(|t| if k < widths[t].into() { &plane[t] } else { &[0; GROUP] });
            turn.gather(windows, k, own);
        }
        for planes in own.iter().take(rest) {
            to.push_planes(&planes[..width]);
        }
        rest = rest.saturating_sub(GROUP);
    }
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Turn {
    /// All that this machine has, the fastest last.
    fn available() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "others need features"))]
        let mut all = vec![Turn::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(turn_avx2::detected().then_some(Turn::Avx2));
            all.extend(turn_avx512::detected().then_some(Turn::Avx512));
        }
        all
    }
    fn detect() -> Self {
        Self::available().pop().unwrap_or(Turn::Scalar)
    }
    /// Turns 64 frames, the `window`th of the block, of as many pixels as `groups` have.
    fn turn<S: TileSample>(self, frames: &[S], stride: usize, window: usize, groups: &mut [Turned<'_>]) {
        match self {
            Turn::Scalar => turn_scalar(frames, stride, window, groups),
            #[cfg(target_arch = "x86_64")]
            Turn::Avx2 => turn_avx2::turn(frames, stride, window, groups),
            #[cfg(target_arch = "x86_64")]
            Turn::Avx512 => turn_avx512::turn(frames, stride, window, groups),
        }
    }
    /// The same of frames whose bits are transposed.
    fn transposed(self, of: Transposed<'_>, first: usize, window: usize, groups: &mut [Turned<'_>]) {
        match self {
            Turn::Scalar => transposed::turn(of, first, window, groups),
            #[cfg(target_arch = "x86_64")]
            Turn::Avx2 => transposed::x86::avx2(of, first, window, groups),
            #[cfg(target_arch = "x86_64")]
            Turn::Avx512 => transposed::x86::avx512(of, first, window, groups),
        }
    }
    /// Plane `k` of 64 pixels from its words of 64 scans.
    fn gather(self, turns: [&[u64; GROUP]; TURNS], k: usize, pixels: &mut GroupPixels) {
        match self {
            Turn::Scalar => gather_scalar(turns, k, pixels),
            #[cfg(target_arch = "x86_64")]
            Turn::Avx2 => turn_avx2::gather(turns, k, pixels),
            #[cfg(target_arch = "x86_64")]
            Turn::Avx512 => turn_avx512::gather(turns, k, pixels),
        }
    }
}

fn turn_scalar<S: TileSample>(frames: &[S], stride: usize, window: usize, groups: &mut [Turned<'_>]) {
    for (n, group) in groups.iter_mut().enumerate() {
        let rows = || frames.chunks(stride).map(|row| &row[GROUP * n..][..GROUP]);
        *group.width = bit_length(rows().flatten().fold(0, |or, &count| or | count.into()));
        for (k, plane) in group.planes.iter_mut().enumerate().take((*group.width).into()) {
            plane[window].fill(0);
            for (scan, row) in rows().enumerate() {
                for (word, &count) in plane[window].iter_mut().zip(row) {
                    let count: u16 = count.into();
                    *word |= u64::from(count >> k & 1) << scan;
                }
            }
        }
    }
}

fn gather_scalar(turns: [&[u64; GROUP]; TURNS], k: usize, pixels: &mut GroupPixels) {
    for (t, words) in turns.into_iter().enumerate() {
        for (pixel, word) in pixels.iter_mut().zip(words) {
            pixel[k][2 * t] = *word as u32;
            pixel[k][2 * t + 1] = (word >> 32) as u32;
        }
    }
}

/// One block of the streams of consecutive pixels.
fn join(scans: usize, parts: &[BlockBuilder]) -> PlaneBlock {
    let mut offsets = Vec::with_capacity(parts.iter().map(|p| p.streams().0.len()).sum::<usize>() + 1);
    let mut total = 0;
    for (own, streams) in parts.iter().map(BlockBuilder::streams) {
        offsets.extend(own.iter().map(|o| total as u32 + o));
        total += streams.len();
    }
    offsets.push(u32::try_from(total).expect("a block takes at most 16 GiB"));
    // All threads copy, as most of the time goes to the system's making of fresh pages.
    let mut words = vec![0; total + SLACK_WORDS];
    let mut rest = words.as_mut_slice();
    let copies: Vec<_> = parts
        .iter()
        .map(|part| {
            let (to, behind) = std::mem::take(&mut rest).split_at_mut(part.streams().1.len());
            rest = behind;
            (part, to)
        })
        .collect();
    copies.into_par_iter().for_each(|(part, to)| to.copy_from_slice(part.streams().1));
    PlaneBlock { scans, offsets, words }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of many widths, zero windows among them.
    fn frames(scans: usize, pixels: usize, max_width: u32) -> Vec<u16> {
        let noise =
            |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i as u32 % 61) >> 20;
        (0..scans * pixels)
            .map(|i| {
                let (scan, pixel) = (i / pixels, i % pixels);
                let width = (pixel / 50 * 7 + scan / 64 * 5) as u32 % (max_width + 1);
                (noise(i) & ((1 << width) - 1)) as u16
            })
            .collect()
    }

    /// How frames of counts are added.
    trait Push {
        fn push(turner: &mut FrameTurner, frames: &[u16], pixels: usize);
        const MAX_WIDTH: u32;
    }
    struct Words;
    impl Push for Words {
        fn push(turner: &mut FrameTurner, frames: &[u16], _: usize) {
            turner.push(frames);
        }
        const MAX_WIDTH: u32 = 16;
    }
    struct Bytes;
    impl Push for Bytes {
        fn push(turner: &mut FrameTurner, frames: &[u16], _: usize) {
            turner.push(&frames.iter().map(|&count| count as u8).collect::<Vec<_>>());
        }
        const MAX_WIDTH: u32 = 8;
    }
    /// Counts of so many bytes, transposed as the format of files says.
    struct TransposedBits<const BYTES: usize>;
    impl<const BYTES: usize> Push for TransposedBits<BYTES> {
        fn push(turner: &mut FrameTurner, frames: &[u16], pixels: usize) {
            // Whoever says nothing of zero planes, or all of them.
            let (mut all, mut present) = (Vec::new(), Vec::new());
            for frame in frames.chunks_exact(pixels) {
                let bytes: Vec<u8> =
                    frame.iter().flat_map(|c| c.to_le_bytes().into_iter().take(BYTES)).collect();
                for block in bytes.chunks(super::super::TRANSPOSED_BLOCK_BYTES) {
                    let mut planes = vec![0; block.len()];
                    crate::bitshuffle::transpose_scalar(block, BYTES, &mut planes);
                    let plane_bytes = planes.len() / (8 * BYTES);
                    let mut some = 0;
                    for (k, plane) in planes.chunks_exact_mut(plane_bytes).enumerate() {
                        if present.len() % 3 == 0 || plane.iter().any(|&byte| byte != 0) {
                            some |= 1 << k;
                        } else {
                            plane.fill(0xa5);
                        }
                    }
                    present.push(some);
                    all.extend(planes);
                }
            }
            turner.push_transposed(&all, BYTES, &present);
        }
        const MAX_WIDTH: u32 = 8 * BYTES as u32;
    }

    fn check<P: Push>(mut turner: FrameTurner, scans: usize, pixels: usize) {
        // One turner makes blocks of different counts.
        for max_width in [P::MAX_WIDTH, 3, 0, P::MAX_WIDTH] {
            let frames = frames(scans, pixels, max_width);
            frames.chunks(TURN_SCANS * pixels).for_each(|window| P::push(&mut turner, window, pixels));
            assert_eq!(turner.scans(), scans);
            let block = turner.finish();
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

    #[test]
    fn frames_become_the_block_of_their_counts() {
        for (scans, pixels) in [(1, 1), (512, 64), (512, 1030), (77, 2051), (64, 1024), (8, 65)] {
            for turn in Turn::available() {
                check::<Words>(FrameTurner::with(pixels, 16, turn), scans, pixels);
                check::<Bytes>(FrameTurner::with(pixels, 8, turn), scans, pixels);
                check::<Bytes>(FrameTurner::with(pixels, 16, turn), scans, pixels);
            }
        }
    }

    #[test]
    fn transposed_frames_become_the_block_of_their_counts() {
        // More than a block of each size, whole ones and others.
        for (scans, pixels) in [(1, 8), (512, 64), (77, 4096), (65, 4200), (8, 8192), (30, 8520), (512, 1032)]
        {
            for turn in Turn::available() {
                check::<TransposedBits<2>>(FrameTurner::with(pixels, 16, turn), scans, pixels);
                check::<TransposedBits<1>>(FrameTurner::with(pixels, 8, turn), scans, pixels);
                check::<TransposedBits<1>>(FrameTurner::with(pixels, 16, turn), scans, pixels);
            }
        }
    }
}
