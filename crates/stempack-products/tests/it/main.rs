//! Products against their definitions: the scalar references, and integer arithmetic.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod masks;
mod memory;
mod originals;
