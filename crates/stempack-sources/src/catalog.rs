//! What acquisitions a set of files and folders holds.

use crate::OpenOptions;
use crate::error::SourceCode;
use crate::registry::{FORMATS, open};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use stempack_model::{Acquisition, Error, Result};

/// Most files looked at below one folder, and how deep.
const MAX_ENTRIES: usize = 1 << 20;
const MAX_DEPTH: usize = 64;

/// Acquisitions, and what could not be opened.
#[derive(Debug, Default)]
pub struct Catalog {
    /// In the order of the inputs, sorted by path within a folder, each acquisition once.
    pub acquisitions: Vec<Acquisition>,
    /// Candidates inside folders that could not be opened.
    pub issues: Vec<Issue>,
}

/// A candidate that could not be opened.
#[derive(Debug)]
pub struct Issue {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub error: Error,
}

/// Describes every acquisition of `paths` without reading frames.
///
/// A file must open; in a folder, searched with everything below it, failures become issues. Hidden names are skipped
/// and folders behind symbolic links are not entered.
///
/// # Errors
/// Those of [`open`] for files; `no_acquisition` for a folder without any candidate; `io`.
pub fn catalog(paths: &[PathBuf], options: &OpenOptions) -> Result<Catalog> {
    let mut catalog = Catalog::default();
    let mut seen = BTreeSet::new();
    for path in paths {
        let found = std::fs::metadata(path).map_err(|e| Error::io("open", path, e))?;
        if !found.is_dir() {
            catalog.add(open(path, options)?.acquisition(), &mut seen);
            continue;
        }
        let mut candidates = Vec::new();
        search(path, 0, &mut candidates)?;
        if candidates.is_empty() {
            return Err(Error::new(
                SourceCode::NoAcquisition,
                format!("`{}` holds no file named like an acquisition (`*_master.h5`)", path.display()),
            )
            .with("path", path.display().to_string()));
        }
        candidates.sort();
        for candidate in candidates {
            match open(&candidate, options) {
                Ok(source) => catalog.add(source.acquisition(), &mut seen),
                Err(error) => catalog.issues.push(Issue { path: candidate, error }),
            }
        }
    }
    Ok(catalog)
}

impl Catalog {
    /// The same acquisition is listed once, by whichever member it was found.
    fn add(&mut self, acquisition: &Acquisition, seen: &mut BTreeSet<PathBuf>) {
        let first = acquisition.members.first().map(|m| m.path.clone()).unwrap_or_default();
        let key = std::fs::canonicalize(&first).unwrap_or(first);
        if seen.insert(key) {
            self.acquisitions.push(acquisition.clone());
        }
    }
}

fn search(folder: &Path, depth: usize, candidates: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("list", folder, e))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let path = entry.path();
        // Not following links: a link to a parent folder would never end.
        let kind = entry.file_type().map_err(|e| Error::io("stat", &path, e))?;
        if kind.is_dir() {
            if depth < MAX_DEPTH {
                search(&path, depth + 1, candidates)?;
            }
        } else if FORMATS.iter().any(|f| (f.is_entry)(name)) {
            if candidates.len() >= MAX_ENTRIES {
                return Err(Error::new(
                    SourceCode::TooLarge,
                    format!("`{}` holds more than {MAX_ENTRIES} candidates", folder.display()),
                ));
            }
            candidates.push(path);
        }
    }
    Ok(())
}
