//! Chunks of counts: every detector pixel's column as a stream, and the sums of detector tiles beside them.
//!
//! This is `runtime-column-rans-spatial-v2`, and without the index `scaled-uint16-column-rans-v1`. A chunk of `scans`
//! scan positions has ⌈scans/512⌉ blocks; stream `block · pixels + pixel` holds one pixel's counts in one block.

mod chunk;
mod decode;
mod encode;
mod mask;
mod spatial;
mod sums;

pub use chunk::Chunk;
pub use encode::{EncodedChunk, encode};
pub use mask::{MaskPlan, plan_mask, plan_mask_subtracting};
pub use spatial::{Field, Spatial, SpatialIndex, field_count, fields, spatial_index};

/// Detector pixels that are handled together: a cache line of frame each, and a block of them within the first cache.
const TILE: usize = 32;
