//! Where the shared corpus is.

use std::io::Write;
use std::path::{Path, PathBuf};

/// A file or folder of the corpus, or `None` with a plain word on stderr when the corpus is not there.
///
/// The corpus is found through `STEMPACK_CORPUS`, by default `../shared/corpus` beside the project.
pub fn corpus(folder: &str) -> Option<PathBuf> {
    let root = match std::env::var_os("STEMPACK_CORPUS") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
    };
    let folder = root.join(folder);
    if folder.exists() {
        return Some(folder);
    }
    // Directly, because the test harness keeps to itself what passing tests print.
    let _unheard = writeln!(
        std::io::stderr(),
        "SKIPPED: the corpus is not at `{}` (set STEMPACK_CORPUS)",
        folder.display()
    );
    None
}

/// Parses a JSON file of expectations.
///
/// # Panics
/// When it cannot be read: a corpus that is there must be whole.
pub fn expectations(path: &Path) -> serde_json::Value {
    let text = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
