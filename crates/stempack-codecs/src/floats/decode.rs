//! Numbers → samples: 16 scans at once, or one sample anywhere.

use super::{BLOCK_SCANS, Coding, FloatBlock, LANES, Stretch, power};

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
    /// Inlined, so that it is compiled for the instructions of its caller.
    ///
    /// # Panics
    /// When `pixel` is out of range.
    #[inline(always)]
    pub fn unpack(&self, pixel: usize, out: &mut Stretch) {
        let head = &self.heads[pixel];
        let (rows, width) = (self.rows(), u32::from(head.width));
        let base = head.base;
        match head.coding {
            Coding::Steps => {
                let step = power(head.shift);
                if width == 0 {
                    out[..LANES * rows].fill(base as i32 as f32 * step);
                    return;
                }
                self.each_row(head.first, width, out, |number| {
                    base.wrapping_add(number) as i32 as f32 * step
                });
            }
            Coding::Bits => {
                let shift = (head.shift & 31) as u32;
                if width == 0 {
                    out[..LANES * rows].fill(f32::from_bits(base.rotate_right(1)));
                    return;
                }
                self.each_row(head.first, width, out, |number| {
                    f32::from_bits(base.wrapping_add(number << shift).rotate_right(1))
                });
            }
        }
    }

    #[inline(always)]
    fn each_row(&self, first: u32, width: u32, out: &mut Stretch, sample: impl Fn(u32) -> f32) {
        let rows = self.rows();
        let words = &self.words[first as usize * LANES..];
        let words = &words[..(super::lane_words(rows, width as usize) + 1) * LANES];
        let mask = u32::MAX >> (32 - width);
        let mut digit = 0;
        for out in out[..(LANES * rows).min(BLOCK_SCANS)].chunks_exact_mut(LANES) {
            let at = (digit / 32) as usize * LANES;
            let shift = digit % 32;
            let low: &[u32; LANES] = words[at..].first_chunk().expect("words of a stretch");
            let next: &[u32; LANES] = words[at + LANES..].first_chunk().expect("words behind a stretch");
            for (out, (low, next)) in out.iter_mut().zip(low.iter().zip(next)) {
                // Shifted twice, for a word cannot be shifted by 32.
                *out = sample((low >> shift | next << 1 << (31 - shift)) & mask);
            }
            digit += width;
        }
    }
}
