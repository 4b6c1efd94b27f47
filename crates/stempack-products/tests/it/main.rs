//! Products against their definitions: the scalar references, integer arithmetic and the `.npy`, PNG and TIFF rules.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exports;
mod masks;
mod memory;
mod originals;
