//! What an original acquisition is: which files belong to it, its shape and recorded values with their origin, and its
//! frames decoded on demand.
//!
//! One folder or file for each format and one line for it in `registry.rs`. Formats are decided by contents;
//! names only say where to look. Nothing recorded is guessed, completed or overruled.

mod arina;
mod background;
mod catalog;
mod dm;
mod emd;
mod empad;
mod error;
mod exclusions;
mod flat;
pub mod hdf5;
mod identity;
pub mod npy;
mod nxem;
mod overrides;
mod protocol;
mod registry;
mod request;
mod scan_shape;
mod stem_sidecar;
mod units;
mod velox;

pub use catalog::{Catalog, Explanation, Issue, catalog, explain_all, files_below};
pub use empad::{MEAN_DARK, MeanDark, mean_dark};
pub use error::SourceCode;
pub use overrides::{OVERRIDES_SCHEMA, parse_overrides, read_overrides};
pub use protocol::{LAYOUT_PROTOCOL, layout_of};
pub use registry::{Candidate, explain, open};
pub use scan_shape::require_shape;
pub use velox::{ScalarImage, is_scalar_image, scalar_image};

use std::path::{Path, PathBuf};
use stempack_model::{Error, ScanShape};

/// What the caller states or permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The scan shape, when the caller states it.
    pub scan: Option<ScanShape>,
    /// Whether links may lead outside the folder of their file.
    pub allow_outside_links: bool,
    /// Whether a file may open whose format demands a calibration that is missing.
    pub allow_uncalibrated: bool,
}

/// Entry points for fuzzing, not part of the interface.
#[doc(hidden)]
pub mod fuzzing {
    /// Any text as the XML of an EMPAD acquisition.
    pub fn empad_xml(text: &str) {
        crate::empad::interpret(text);
    }
    /// Any bytes as a DigitalMicrograph document.
    pub fn dm(bytes: &[u8]) {
        crate::dm::fuzz(bytes);
    }
    /// Any bytes as an `.npy` file.
    pub fn npy(bytes: &[u8]) {
        crate::npy::fuzz(bytes);
    }
}

/// Name of a file without its folder, for people.
fn shown(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
}

/// Where a file really lies, when its path is a symbolic link to another folder or another name.
fn real_place(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.canonicalize().ok()?,
        _ => Path::new(".").canonicalize().ok()?,
    };
    (real.parent() != Some(folder.as_path()) || real.file_name() != path.file_name()).then_some(real)
}

/// A refusal that names the file.
fn refuse(code: SourceCode, message: impl Into<String>, path: &Path) -> Error {
    Error::new(code, message).with("path", path.display().to_string())
}
