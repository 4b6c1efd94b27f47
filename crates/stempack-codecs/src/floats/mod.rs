//! Floats in memory: the form in which a resident keeps `float32` samples, every bit of them.
//!
//! 512 consecutive scans of one detector pixel make a *stretch*, which is written in the cheaper of two ways:
//!
//! * [`Coding::Steps`]: all samples are whole multiples of one power of two, the step (counts are multiples of 1), and
//!   none is −0. Each is written as its number of steps above the smallest.
//! * [`Coding::Bits`]: anything, signed zeros, subnormals, infinities and NaN payloads included. The bits of each sample
//!   are rotated so that the sign comes last; what is above the smallest is written, less the zeros at its end that all of
//!   them share. So a stretch of one sign pays no sign, one of coarse samples no empty digits, and one whose magnitudes lie
//!   close together little for the exponent.
//!
//! Either way numbers of one width of 0 to 32 bits remain; a constant stretch has none. They lie in 16 lanes: scan `s`
//! belongs to lane `s % 16`, and word `k` of all lanes is followed by word `k + 1` of all lanes. So 16 neighbouring scans are
//! unpacked by the same shifts of one vector.
//!
//! The head of a stretch also says how fine and how large its samples are ([`Range`]): from that a sum may be proved
//! exact, and then its order does not matter.

mod decode;
mod encode;
mod frames;
mod range;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use decode::Means;
pub use frames::block_of_frames;
pub use range::Range;

pub use crate::planes::BLOCK_SCANS;

/// Scans that lie side by side.
pub const LANES: usize = 16;
/// Words behind the last stretch, so that whatever follows a word of a stretch may be loaded.
const SLACK: usize = LANES;

/// Samples of one pixel in a block.
pub type Stretch = [f32; BLOCK_SCANS];

/// How a stretch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Number of steps above the smallest.
    Steps,
    /// Rotated bits above the smallest.
    Bits,
}

/// Where a stretch lies, and what turns its numbers into samples.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// First group of [`LANES`] words.
    first: u32,
    /// What is added to every number: steps (signed), or rotated bits.
    base: u32,
    low: i16,
    high: i16,
    /// The step's exponent, or the shift of bits.
    shift: i16,
    width: u8,
    coding: Coding,
}

/// Up to 512 consecutive scans of every detector pixel.
#[derive(Debug)]
pub struct FloatBlock {
    scans: usize,
    heads: Vec<Head>,
    words: Vec<u32>,
}

impl FloatBlock {
    /// Scan positions in the block.
    pub fn scans(&self) -> usize {
        self.scans
    }
    /// Detector pixels.
    pub fn pixels(&self) -> usize {
        self.heads.len()
    }
    /// Groups of [`LANES`] scans, the last of which may be partly beyond the block.
    pub fn rows(&self) -> usize {
        self.scans.div_ceil(LANES)
    }
    /// Bytes held in memory.
    pub fn resident_bytes(&self) -> u64 {
        (size_of::<Head>() * self.heads.len() + 4 * self.words.len()) as u64
    }
    /// The most bytes that a block of so many scans and pixels takes.
    pub fn bound_bytes(scans: usize, pixels: usize) -> u64 {
        let row = (4 * LANES) as u64;
        let each = size_of::<Head>() as u64 + scans.div_ceil(LANES) as u64 * row;
        (pixels as u64).saturating_mul(each).saturating_add(4 * SLACK as u64)
    }
    /// Bytes that hold the samples of one pixel.
    ///
    /// # Panics
    /// When `pixel` is out of range.
    pub fn pixel_bytes(&self, pixel: usize) -> u64 {
        let words = LANES * self.lane_words(self.heads[pixel].width);
        (size_of::<Head>() + 4 * words) as u64
    }
    /// How fine and how large the samples of a pixel are.
    ///
    /// # Panics
    /// When `pixel` is out of range.
    #[inline]
    pub fn range(&self, pixel: usize) -> Range {
        let head = &self.heads[pixel];
        Range::new(head.low, head.high)
    }
    /// How a pixel is written, and in how many bits for each sample.
    ///
    /// # Panics
    /// When `pixel` is out of range.
    pub fn coding(&self, pixel: usize) -> (Coding, u8) {
        (self.heads[pixel].coding, self.heads[pixel].width)
    }
    /// Words of one lane of a stretch of this width.
    #[inline(always)]
    fn lane_words(&self, width: u8) -> usize {
        lane_words(self.rows(), width.into())
    }
}

#[inline(always)]
fn lane_words(rows: usize, width: usize) -> usize {
    (rows * width).div_ceil(32)
}

/// 2 to the power of `exponent`, −149 to 127, as a float.
#[inline(always)]
fn power(exponent: i16) -> f32 {
    let e = i32::from(exponent);
    f32::from_bits(if e >= -126 { ((e + 127) as u32) << 23 } else { 1 << (e + 149) })
}

#[cfg(test)]
mod tests;
