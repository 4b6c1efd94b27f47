//! Residents: an acquisition kept compressed in memory, and exact products from there on all cores.
//!
//! [`Resident::load`] authenticates every shard of a pack before it returns anything; [`Resident::arrange`] puts it in the
//! form that is summed fastest; [`Resident::from_source`] takes an original, of counts or of `float32`. A [`ShardReader`]
//! gives the same answers with one shard in memory at a time. The kernels in [`cpu`] unpack and accumulate in one go; each
//! has a scalar twin.

mod counted;
pub mod cpu;
mod equality;
mod error;
mod floats;
mod frames;
mod from_source;
mod held;
mod maps;
mod marks;
mod reduce;
mod resident;
mod selected;
mod session;
mod shardwise;

pub use error::EngineCode;
pub use resident::{Capability, Resident, ResidentReport};
pub use session::{DetectorSession, Prepared, Series, UpdateMode, UpdateReport};
pub use shardwise::ShardReader;

/// Threads that products use.
pub fn threads() -> usize {
    rayon::current_num_threads()
}
