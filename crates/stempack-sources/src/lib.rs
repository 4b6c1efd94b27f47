//! What an original acquisition is: which files belong to it, its shape and recorded values with their origin, and its
//! frames decoded on demand.
//!
//! One folder or file for each format and one line for it in `registry.rs`. Formats are decided by contents;
//! names only say where to look. Nothing recorded is guessed, completed or overruled.

mod arina;
mod catalog;
mod error;
pub mod hdf5;
mod identity;
mod nxem;
mod registry;
mod scan_shape;
mod stem_sidecar;
mod units;
mod velox;

pub use catalog::{Catalog, Issue, catalog};
pub use error::SourceCode;
pub use registry::open;
pub use scan_shape::require_shape;

use stempack_model::ScanShape;

/// What the caller states or permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The scan shape, when the caller states it.
    pub scan: Option<ScanShape>,
    /// Whether links may lead outside the folder of their file.
    pub allow_outside_links: bool,
}
