//! Lossless Pack Format v1: an HDF5 file whose user block carries a manifest and a binary index.
//!
//! ```text
//! offset 0   prelude (24 bytes)     prelude.rs
//! offset 24  JSON manifest          manifest.rs, calibration.rs
//! 8-aligned  binary index           index.rs
//! user block HDF5 superblock, then one payload and its tables per shard
//! ```
//!
//! Reading: [`PackFile::open`] parses and validates everything outside the shards; [`PackFile::load_shard`] reads,
//! validates and authenticates one shard. Writing: [`plan`] → [`pack`] → [`Receipt`] → publication.
//! The format is documented in `docs/formats/lossless-pack.md`.

mod calibration;
mod decoder;
mod describe;
mod encode;
mod enrich;
mod hashing;
mod index;
mod load;
mod load_times;
mod manifest;
mod mapped;
mod open;
mod plan;
mod prelude;
mod prepared;
mod produce;
mod receipt;
mod shards;
mod source;
mod verify;
mod write;

pub use calibration::DetectorCalibration;
pub use decoder::{FrameDecoder, FrameKind};
pub use enrich::{EnrichReport, Enrichment, enrich};
pub use index::ShardRecord;
pub use load::LoadedShard;
pub use load_times::{LoadPhase, LoadTimes};
pub use manifest::{Manifest, RawAccess, ShardClaims, SourceNote, WorkingType};
pub use mapped::MappedPack;
pub use open::PackFile;
pub use plan::{PackOptions, Plan, ProfileChoice, plan};
pub use produce::{PackReport, pack, plan_pack};
pub use receipt::{Receipt, ReceiptShard, receipt_path};
pub use source::PackSource;
pub use verify::{Check, Comparison, Evidence, VerifyReport, compare, verify};
