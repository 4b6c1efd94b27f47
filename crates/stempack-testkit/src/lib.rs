//! For tests only: a frame source in memory, the shared corpus, `.npy` arrays, and what every reader must do.

mod corpus;
mod memory;
mod npy;
mod source_contract;

pub use corpus::{corpus, expectations};
pub use memory::{MemorySource, count, quiet_acquisition};
pub use npy::{Array, read_npy};
pub use source_contract::SourceContract;
