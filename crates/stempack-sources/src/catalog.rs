//! What acquisitions a set of files and folders holds, by their headers alone.
//!
//! The order is that of the inputs and, within a folder, of the names, so that the same files always give the same
//! catalog. What is found in a folder and cannot be opened is an issue beside the rest.

use crate::error::SourceCode;
use crate::registry::{self, Candidate, Entry, FORMATS, open, open_met};
use crate::{OpenOptions, refuse};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use stempack_model::{Acquisition, Error, Kind, MemberRole, Result, Task};

/// Most names looked at below one folder, and how deep.
const MAX_NAMES: usize = 1 << 20;
const MAX_DEPTH: usize = 64;

/// Acquisitions, and what could not be opened.
#[derive(Debug, Default)]
pub struct Catalog {
    /// In the order of the inputs, sorted by path within a folder, each acquisition once.
    pub acquisitions: Vec<Acquisition>,
    /// The file by which each of them was opened, and opens again.
    pub entries: Vec<PathBuf>,
    /// Files and folders inside folders that could not be opened.
    pub issues: Vec<Issue>,
}

/// Something in a folder that could not be opened.
#[derive(Debug)]
pub struct Issue {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub error: Error,
}

/// What every format says of one file.
#[derive(Debug)]
pub struct Explanation {
    /// The file.
    pub path: PathBuf,
    /// The likeliest format first.
    pub candidates: Vec<Candidate>,
}

/// Describes every acquisition of `paths` without reading frames.
///
/// A file must open; in a folder, searched with everything below it, failures become issues. Hidden names are skipped
/// and folders behind symbolic links are not entered. Files whose names are those of many others (`.h5`, `.xml`, `.raw`, `.npy`) and that no format
/// recognises are passed over. An acquisition that is reached through several of its members, or
/// from several inputs, is listed where it was met first.
///
/// # Errors
/// Those of [`open`] for files; `no_acquisition` for a folder without any; `io`; `cancelled`.
pub fn catalog(paths: &[PathBuf], options: &OpenOptions, task: &Task) -> Result<Catalog> {
    let mut catalog = Catalog::default();
    let mut seen = BTreeSet::new();
    for path in paths {
        task.check()?;
        if !is_folder(path)? {
            catalog.add(open(path, options)?.acquisition(), path, &mut seen);
            continue;
        }
        let found = search(path, |name| Entry::of(name) > Entry::No, task)?;
        let mut issues = found.issues;
        let mut opened = 0;
        for candidate in found.files {
            task.check()?;
            match open_met(&candidate, options) {
                Ok(None) => {}
                Ok(Some(source)) => {
                    opened += 1;
                    catalog.add(source.acquisition(), &candidate, &mut seen);
                }
                Err(error) if error.kind() == Kind::Cancelled => return Err(error),
                Err(error) => issues.push(Issue { path: candidate, error }),
            }
        }
        if opened == 0 && issues.is_empty() {
            let looked: Vec<&str> = FORMATS.iter().map(|f| f.looks_for).collect();
            let message =
                format!("`{}` holds no acquisition; looked for {}", path.display(), looked.join("; "));
            return Err(refuse(SourceCode::NoAcquisition, message, path));
        }
        issues.sort_by(|a, b| a.path.cmp(&b.path));
        issues.into_iter().for_each(|issue| catalog.add_issue(issue));
    }
    Ok(catalog)
}

/// What every format says of every file of `paths`, whatever it is named; folders are searched as for [`catalog`].
///
/// # Errors
/// `io` for inputs that cannot be read; `cancelled`.
pub fn explain_all(paths: &[PathBuf], task: &Task) -> Result<Vec<Explanation>> {
    let mut all = Vec::new();
    for path in paths {
        let files = if is_folder(path)? { files_below(path, task)? } else { vec![path.clone()] };
        for path in files {
            task.check()?;
            let candidates = registry::explain(&path)?;
            all.push(Explanation { path, candidates });
        }
    }
    Ok(all)
}

/// Every regular file below a folder in the order of a catalog: no hidden names, no folders behind symbolic links. What
/// cannot be listed is left out.
///
/// # Errors
/// `io` when the folder itself cannot be listed; `cancelled`.
pub fn files_below(folder: &Path, task: &Task) -> Result<Vec<PathBuf>> {
    Ok(search(folder, |_| true, task)?.files)
}

fn is_folder(path: &Path) -> Result<bool> {
    Ok(std::fs::metadata(path).map_err(|e| Error::io("open", path, e))?.is_dir())
}

impl Catalog {
    /// The same acquisition is listed once, by whichever member it was found.
    fn add(&mut self, acquisition: &Acquisition, entry: &Path, seen: &mut BTreeSet<Vec<PathBuf>>) {
        if seen.insert(key(acquisition)) {
            self.acquisitions.push(acquisition.clone());
            self.entries.push(entry.to_owned());
        }
    }

    /// The same complaint about an acquisition, met through another of its members, says nothing new.
    fn add_issue(&mut self, issue: Issue) {
        let same = |other: &Issue| {
            other.error.code() == issue.error.code() && other.error.message() == issue.error.message()
        };
        if !self.issues.iter().any(same) {
            self.issues.push(issue);
        }
    }
}

/// Where the frames lie, whatever the names by which the files were reached.
fn key(acquisition: &Acquisition) -> Vec<PathBuf> {
    let of = |role| acquisition.members.iter().filter(move |m| m.role == role);
    let canonical = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let data: Vec<PathBuf> = of(MemberRole::Data).map(|m| canonical(&m.path)).collect();
    if data.is_empty() { of(MemberRole::Master).map(|m| canonical(&m.path)).collect() } else { data }
}

struct Search<'a> {
    wanted: &'a dyn Fn(&str) -> bool,
    task: &'a Task,
    names: usize,
    files: Vec<PathBuf>,
    issues: Vec<Issue>,
}

/// Files below a folder whose names are wanted.
fn search(folder: &Path, wanted: impl Fn(&str) -> bool, task: &Task) -> Result<Found> {
    let mut search = Search { wanted: &wanted, task, names: 0, files: Vec::new(), issues: Vec::new() };
    search.folder(folder, 0)?;
    Ok(Found { files: search.files, issues: search.issues })
}

struct Found {
    files: Vec<PathBuf>,
    issues: Vec<Issue>,
}

impl Search<'_> {
    /// Fails only for the folder itself; what is wrong below becomes an issue.
    fn folder(&mut self, folder: &Path, depth: usize) -> Result<()> {
        self.task.check()?;
        let failed = |e| Error::io("list", folder, e);
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            self.names += 1;
            if self.names > MAX_NAMES {
                return Err(too_large(folder, &format!("more than {MAX_NAMES} names")));
            }
            entries.push(entry.map_err(failed)?);
        }
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            // A name that is no text can still end like that of an acquisition.
            let name = name.to_string_lossy();
            if name.starts_with('.') {
                continue;
            }
            let path = entry.path();
            if let Err(error) = self.entry(&entry, &name, &path, depth) {
                if error.kind() == Kind::Cancelled {
                    return Err(error);
                }
                self.issues.push(Issue { path, error });
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &std::fs::DirEntry, name: &str, path: &Path, depth: usize) -> Result<()> {
        let failed = |e| Error::io("stat", path, e);
        // Not following links: a link to a parent folder would never end.
        if entry.file_type().map_err(failed)?.is_dir() {
            if depth >= MAX_DEPTH {
                return Err(too_large(path, &format!("more than {MAX_DEPTH} folders in one another")));
            }
            return self.folder(path, depth + 1);
        }
        // Following links: a member may lie elsewhere. Neither a linked folder nor a pipe is one.
        if (self.wanted)(name) && std::fs::metadata(path).map_err(failed)?.is_file() {
            self.files.push(path.to_owned());
        }
        Ok(())
    }
}

fn too_large(path: &Path, what: &str) -> Error {
    refuse(SourceCode::TooLarge, format!("`{}` holds {what}; the rest is not listed", path.display()), path)
}
