//! Which file it is, whether it still is that file, and what its bytes hash to.

mod digest;
mod fingerprint;

pub(crate) use digest::digest_files;
pub(crate) use fingerprint::{FileId, Fingerprint, Fingerprints};
