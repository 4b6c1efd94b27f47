//! Residents: an acquisition kept compressed in memory, and exact products from there on all cores.
//!
//! [`Resident::load`] authenticates every shard of a pack before it returns anything. The kernels in [`cpu`] unpack
//! and accumulate in one go; each has a scalar twin.

pub mod cpu;
mod error;
mod reduce;
mod resident;

pub use error::EngineCode;
pub use resident::{Capability, Resident, ResidentReport};

/// Threads that products use.
pub fn threads() -> usize {
    rayon::current_num_threads()
}
