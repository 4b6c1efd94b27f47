//! One tile of scans: consecutive frames ⇄ one run of equally wide samples per detector pixel.
//!
//! A tile holds 32 scans in the u8 profile and 128 in the u16 profile. For each detector pixel its samples are stored
//! with the width of the largest of them, least significant bit first (pack format, "descriptor and payload layout").
//! Eight samples of width `w` fill exactly `w` bytes, which is what the fast paths rely on.

mod decode;
#[cfg(target_arch = "x86_64")]
mod decode_x86;
mod encode;
#[cfg(target_arch = "x86_64")]
mod encode_x86;

pub use decode::{READ_SLACK, Unpack};
#[cfg(target_arch = "x86_64")]
pub use decode_x86::{NARROW, WIDE};
pub use encode::{EncodedTile, TileSample, encode, encode_scalar};

/// Scans of a tile in the u8 profile.
pub const U8_SCANS: usize = 32;
/// Scans of a tile in the u16 profile; the last tile of a shard may hold fewer.
pub const U16_SCANS: usize = 128;
/// Widest sample that lies inside two bytes wherever it starts, so that 16-bit lanes suffice.
pub const NARROW_WIDTH: u8 = 9;
