//! Bytes ⇄ counts, without files: packed tiles of both pack profiles, raw LZ4 blocks, bitshuffle, `.qem` streams.
//!
//! Every codec has a slow scalar reference ([`bits`] for packed tiles) and, where it pays, a fast path that names it.

pub mod bits;
pub mod bitshuffle;
pub mod counts;
mod error;
pub mod floats;
pub mod lz4;
pub mod pack_u16;
pub mod pack_u8;
pub mod planes;
pub mod qem;
pub mod shard;
pub mod tile;

pub use error::CodecCode;
