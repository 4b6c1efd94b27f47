//! Container files: parse, validate and authenticate what is there; plan, produce and publish what is not.
//!
//! [`pack`] is Lossless Pack Format v1 in both profiles; [`qem`] is the portable saved copy `.qem`. Nothing here knows a
//! vendor: producers take any [`stempack_model::FrameSource`].

mod compare;
mod digest;
mod error;
mod identity;
mod json;
pub mod pack;
mod publish;
pub mod qem;
mod unchanged;

pub use compare::{Difference, compare_sources};
pub use digest::{Digest, sha256_file};
pub use error::ContainerCode;
pub use identity::{source_identity, tensor_identity};
pub use publish::{Draft, refuse_existing};
pub use unchanged::open_regular;
