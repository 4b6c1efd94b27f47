//! The algorithm, over whatever 512 bits are on a machine. Everything is inlined into functions that enable the
//! processor features which [`Plane`] needs.
#![expect(unsafe_code, reason = "streams are read through pointers whose bounds a block guarantees")]

use super::{BlockSums, Chosen, Next, Signed};
use stempack_codecs::planes::{BLOCK_SCANS, PLANE_WORDS, PlaneBlock, header_words};

/// One bit for each of 512 scans.
///
/// # Safety
/// An implementation is nothing but the `PLANE_WORDS` words, in their order. Methods may only be called where the
/// processor features of the implementation are enabled.
pub(super) unsafe trait Plane: Copy {
    unsafe fn zero() -> Self;
    /// The plane whose words not left out by `mask` begin at `words`. Reads up to a whole plane from there.
    unsafe fn expand(words: *const u32, mask: u16) -> Self;
    /// Sum and carry of three planes.
    unsafe fn add(self, b: Self, c: Self) -> (Self, Self);
    /// Zeros for ones and ones for zeros.
    unsafe fn flip(self) -> Self;
    unsafe fn is_zero(self) -> bool;
    /// Begins to fetch what will be read soon.
    unsafe fn prefetch(words: *const u32);
    /// Turns digits into numbers, and takes `less` from each.
    #[inline(always)]
    unsafe fn numbers(digits: &[[u32; PLANE_WORDS]], less: u32, out: &mut BlockSums) {
        for (t, out) in out.chunks_exact_mut(32).enumerate() {
            out.fill(0);
            for (k, plane) in digits.iter().enumerate() {
                for (s, number) in out.iter_mut().enumerate() {
                    *number |= (plane[t] >> s & 1) << k;
                }
            }
            out.iter_mut().for_each(|number| *number = number.wrapping_sub(less));
        }
    }
}

const GROUP: usize = 8;
/// Groups between a prefetch and its use.
const AHEAD: usize = 3;

/// Digits waiting for their partners, by weight.
struct Counter<P> {
    ones: [P; 16],
    twos: [P; 16],
    fours: [P; 16],
}

/// A pixel's stream, read plane by plane.
#[derive(Clone, Copy)]
struct Stream {
    masks: *const u16,
    words: *const u32,
    width: usize,
}

impl Stream {
    /// Plane `k`, which is the next one.
    ///
    /// # Safety
    /// The features of `P` are enabled; the stream holds the words that its masks announce, and room for one more load
    /// behind them.
    #[inline(always)]
    unsafe fn next<P: Plane>(&mut self, k: usize) -> P {
        // SAFETY: see above. Masks beyond the stream's width are loaded from what follows and count as zero.
        unsafe {
            let there = if k < self.width { u16::MAX } else { 0 };
            let mask = self.masks.add(k).read() & there;
            let plane = P::expand(self.words, mask);
            self.words = self.words.add(mask.count_ones() as usize);
            plane
        }
    }
}

/// See [`super::Kernel::sum_block`]; `planes` digits hold what is added, and what is taken away.
///
/// What is taken away is summed first and its digits flipped, which makes `2^planes - 1 - sum` of it; what is added comes on
/// top, and the numbers are less by that.
///
/// # Safety
/// The features of `P` are enabled.
#[inline(always)]
pub(super) unsafe fn sum_block<P: Plane>(
    block: &PlaneBlock,
    Signed { add, take }: Signed<'_>,
    planes: usize,
    next: Next<'_>,
    out: &mut BlockSums,
) {
    // SAFETY: as the caller says; a digit is nothing but its words.
    unsafe {
        let mut sum = [P::zero(); 32];
        let (mut digits, mut less) = (planes, 0);
        for (taken, pixels, next) in [(true, take, (block, add)), (false, add, next)] {
            if pixels.is_empty() {
                continue;
            }
            count(block, pixels, next, &mut sum[..digits]);
            if taken {
                sum[..planes].iter_mut().for_each(|digit| *digit = digit.flip());
                (digits, less) = (planes + 1, (1 << planes) - 1);
            }
        }
        const { assert!(size_of::<P>() == 4 * PLANE_WORDS) };
        let digits = &sum[..digits];
        P::numbers(std::slice::from_raw_parts(digits.as_ptr().cast(), digits.len()), less, out);
    }
}

/// Adds the counts of pixels to the digits of `sum`.
///
/// # Safety
/// The features of `P` are enabled.
#[inline(always)]
unsafe fn count<P: Plane>(block: &PlaneBlock, pixels: &[u32], next: Next<'_>, sum: &mut [P]) {
    let (offsets, words) = (block.offsets(), block.words());
    let groups = pixels.len().div_ceil(GROUP);
    let from_eights = sum.len().min(3);
    // SAFETY: an empty stream is never read: its width is zero, so each of its masks counts as zero, and masks and a
    // plane can be loaded from the first word because of the slack at the end of `words`.
    let empty = Stream { masks: words.as_ptr().cast(), words: words.as_ptr(), width: 0 };
    let stream = |pixel: u32| {
        let (from, to) = (offsets[pixel as usize], offsets[pixel as usize + 1]);
        let header = &words[from as usize..];
        let width = if from < to { header[0] as u8 as usize } else { 0 };
        // SAFETY: the number of planes and the masks lie in front of the words of the planes.
        unsafe {
            Stream {
                masks: header.as_ptr().cast::<u16>().add(1),
                words: header.as_ptr().add(header_words(width)),
                width,
            }
        }
    };
    // SAFETY: the caller enabled the features. A stream holds the words that its masks announce, and behind the last
    // stream lies room for one more load; masks beyond a stream's width are loaded from there too and not used.
    unsafe {
        let mut c = Counter { ones: [P::zero(); 16], twos: [P::zero(); 16], fours: [P::zero(); 16] };
        let mut eights = [P::zero(); 16];
        for (g, group) in pixels.chunks(GROUP).enumerate() {
            // First where the streams are, then the streams.
            let group_at = |g: usize| {
                let (block, pixels, g) =
                    if g < groups { (block, pixels, g) } else { (next.0, next.1, g - groups) };
                let first = (g * GROUP).min(pixels.len());
                (block, &pixels[first..(first + GROUP).min(pixels.len())])
            };
            let (block, later) = group_at(g + 2 * AHEAD);
            for &pixel in later {
                P::prefetch(block.offsets().as_ptr().wrapping_add(pixel as usize));
            }
            let (block, soon) = group_at(g + AHEAD);
            for &pixel in soon {
                let stream = block.offsets()[pixel as usize]..block.offsets()[pixel as usize + 1];
                for word in stream.step_by(PLANE_WORDS) {
                    P::prefetch(block.words().as_ptr().wrapping_add(word as usize));
                }
            }
            let mut streams = [empty; GROUP];
            let mut width = 0;
            for (slot, &pixel) in streams.iter_mut().zip(group) {
                *slot = stream(pixel);
                width = width.max(slot.width);
            }
            for (k, eights) in eights.iter_mut().enumerate().take(width) {
                let [a, b, d, e, f, g, h, i] = &mut streams;
                let (ones, twos_a) = c.ones[k].add(a.next(k), b.next(k));
                let (ones, twos_b) = ones.add(d.next(k), e.next(k));
                let (twos, fours_a) = c.twos[k].add(twos_a, twos_b);
                if group.len() <= GROUP / 2 {
                    (c.fours[k], *eights) = c.fours[k].add(fours_a, P::zero());
                    (c.ones[k], c.twos[k]) = (ones, twos);
                    continue;
                }
                let (ones, twos_a) = ones.add(f.next(k), g.next(k));
                let (ones, twos_b) = ones.add(h.next(k), i.next(k));
                let (twos, fours_b) = twos.add(twos_a, twos_b);
                (c.fours[k], *eights) = c.fours[k].add(fours_a, fours_b);
                (c.ones[k], c.twos[k]) = (ones, twos);
            }
            add_number(&mut sum[from_eights..], &eights[..width]);
        }
        for (weight, digits) in [&c.ones, &c.twos, &c.fours].into_iter().enumerate() {
            let at = weight.min(sum.len());
            add_number(&mut sum[at..], digits);
        }
    }
}

/// Adds one number of digits to another. What does not fit is zero, as the caller has proved.
///
/// # Safety
/// The features of `P` are enabled.
#[inline(always)]
unsafe fn add_number<P: Plane>(sum: &mut [P], number: &[P]) {
    // SAFETY: see above.
    unsafe {
        let mut carry = P::zero();
        for (k, digit) in sum.iter_mut().enumerate() {
            if let Some(&n) = number.get(k) {
                (*digit, carry) = digit.add(n, carry);
            } else if carry.is_zero() {
                break;
            } else {
                (*digit, carry) = digit.add(carry, P::zero());
            }
        }
    }
}

/// See [`super::Kernel::sum_pixels`].
#[inline(always)]
pub(super) fn sum_pixels(block: &PlaneBlock, first: usize, chosen: Chosen<'_>, out: &mut [u64]) {
    let offsets = &block.offsets()[first..][..out.len() + 1];
    for (sum, ends) in out.iter_mut().zip(offsets.windows(2)) {
        if ends[0] == ends[1] {
            continue;
        }
        let stream = &block.words()[ends[0] as usize..];
        let width = stream[0] as u8 as usize;
        let mut words = &stream[header_words(width)..];
        let mut total = 0u64;
        for k in 0..width {
            let half = k + 1;
            let mask = (stream[half / 2] >> (16 * (half % 2))) as u16;
            let (own, rest) = words.split_at(mask.count_ones() as usize);
            let ones: u64 = match chosen {
                None => own.iter().map(|w| u64::from(w.count_ones())).sum(),
                Some(bits) => {
                    let mut left = mask;
                    let chosen = own.iter().map(|word| {
                        let place = left.trailing_zeros() as usize % PLANE_WORDS;
                        left &= left.wrapping_sub(1);
                        u64::from((word & bits[place]).count_ones())
                    });
                    chosen.sum()
                }
            };
            total += ones << k;
            words = rest;
        }
        *sum += total;
    }
}

/// See [`super::Kernel::add_weighted`].
#[inline(always)]
pub(super) fn add_weighted(sums: &BlockSums, weight: u32, out: &mut [u64; BLOCK_SCANS]) {
    out.iter_mut().zip(sums).for_each(|(o, &s)| *o += u64::from(s) * u64::from(weight));
}

/// See [`super::Kernel::add_signed`].
#[inline(always)]
pub(super) fn add_signed(before: Option<&[u64]>, sums: &[u32], out: &mut [u64]) {
    let add = |to: u64, sum: u32| to.wrapping_add_signed(i64::from(sum as i32));
    match before {
        None => out.iter_mut().zip(sums).for_each(|(out, &sum)| *out = add(*out, sum)),
        Some(before) => {
            out.iter_mut()
                .zip(before.iter().zip(sums))
                .for_each(|(out, (&before, &sum))| *out = add(before, sum));
        }
    }
}
