//! Numbers → samples: 16 scans at once, or one sample anywhere.

use super::{Coding, FloatBlock, Head, LANES, Stretch, power};

impl FloatBlock {
    /// One sample; the reference.
    ///
    /// # Panics
    /// When `pixel` or `scan` is out of range.
    #[inline(always)]
    pub fn sample(&self, pixel: usize, scan: usize) -> f32 {
        assert!(scan < self.scans);
        let head = &self.heads[pixel];
        let (width, lane) = (u32::from(head.width), scan % LANES);
        let mut number = 0;
        if width > 0 {
            let digit = (scan / LANES) as u32 * width;
            let at = (head.first as usize + (digit / 32) as usize) * LANES + lane;
            let both = u64::from(self.words[at]) | u64::from(self.words[at + LANES]) << 32;
            number = (both >> (digit % 32) & ((1 << width) - 1)) as u32;
        }
        match head.coding {
            Coding::Steps => head.base.wrapping_add(number) as i32 as f32 * power(head.shift),
            Coding::Bits => {
                f32::from_bits(head.base.wrapping_add(number << (head.shift & 31)).rotate_right(1))
            }
        }
    }

    /// The samples of one pixel at every scan of the block; what is behind the last [row](Self::rows) stays as it is, and
    /// what is in the last row behind the last scan is one of the others. Scalar twin: [`sample`](Self::sample).
    ///
    /// # Panics
    /// When `pixel` is out of range.
    #[inline(always)]
    pub fn unpack(&self, means: Means, pixel: usize, out: &mut Stretch) {
        let packed = self.packed(pixel);
        if packed.width == 0 {
            out[..LANES * packed.rows].fill(match packed.coding {
                Coding::Steps => packed.base as i32 as f32 * power(packed.shift),
                Coding::Bits => f32::from_bits(packed.base.rotate_right(1)),
            });
            return;
        }
        match means.0 {
            Kind::Portable => portable(&packed, out),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => super::x86::unpack_256(&packed, out),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => super::x86::unpack_512(&packed, out),
        }
    }

    #[inline(always)]
    fn packed(&self, pixel: usize) -> Packed<'_> {
        let head = &self.heads[pixel];
        let rows = self.rows();
        // One group more than there are: it is loaded, and not used.
        let groups = super::lane_words(rows, head.width.into()) + 1;
        let words = &self.words[head.first as usize * LANES..][..groups * LANES];
        let Head { base, shift, coding, .. } = *head;
        Packed { words, rows, width: head.width.into(), base, shift, coding }
    }
}

/// A stretch whose width is not 0, with one group of words behind it.
pub(super) struct Packed<'a> {
    pub(super) words: &'a [u32],
    pub(super) rows: usize,
    pub(super) width: u32,
    pub(super) base: u32,
    pub(super) shift: i16,
    pub(super) coding: Coding,
}

impl Packed<'_> {
    pub(super) fn mask(&self) -> u32 {
        u32::MAX >> (32 - self.width)
    }
}

/// 16 scans at a time, in plain code.
fn portable(packed: &Packed<'_>, out: &mut Stretch) {
    let (base, mask, step) = (packed.base, packed.mask(), power(packed.shift));
    let shift = (packed.shift & 31) as u32;
    let mut digit = 0;
    for out in out[..LANES * packed.rows].chunks_exact_mut(LANES) {
        let (at, place) = ((digit / 32) as usize * LANES, digit % 32);
        let low: &[u32; LANES] = packed.words[at..].first_chunk().expect("words of a stretch");
        let next: &[u32; LANES] = packed.words[at + LANES..].first_chunk().expect("words behind them");
        let mut numbers = [0u32; LANES];
        if place + packed.width <= 32 {
            for (number, low) in numbers.iter_mut().zip(low) {
                *number = low >> place & mask;
            }
        } else {
            // Compilers that saw that both shifts make 32 would take an instruction that exists for single words only.
            let up = std::hint::black_box(32 - place) & 31;
            for (number, (low, next)) in numbers.iter_mut().zip(low.iter().zip(next)) {
                *number = (low >> place | next << up) & mask;
            }
        }
        match packed.coding {
            Coding::Steps => {
                for (out, &number) in out.iter_mut().zip(&numbers) {
                    *out = base.wrapping_add(number) as i32 as f32 * step;
                }
            }
            Coding::Bits => {
                for (out, &number) in out.iter_mut().zip(&numbers) {
                    *out = f32::from_bits(base.wrapping_add(number << shift).rotate_right(1));
                }
            }
        }
        digit += packed.width;
    }
}

/// What a machine unpacks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Means {
    /// Plain code.
    pub fn portable() -> Self {
        Means(Kind::Portable)
    }
    /// 256-bit vectors, where the machine has them.
    pub fn wide() -> Self {
        #[cfg(target_arch = "x86_64")]
        if super::x86::avx2() {
            return Means(Kind::Avx2);
        }
        Self::portable()
    }
    /// The fastest of this machine.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if super::x86::avx512() {
            return Means(Kind::Avx512);
        }
        Self::wide()
    }
}
