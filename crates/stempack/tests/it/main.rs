//! The façade as a whole: exports by the rules of their formats.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exports;
mod float_residents;
mod original_residents;
