//! For tests only: a frame source in memory, the shared corpus, and `.npy` arrays.

mod corpus;
mod memory;
mod npy;

pub use corpus::{corpus, expectations};
pub use memory::{MemorySource, count, quiet_acquisition};
pub use npy::{Array, read_npy};
