//! The list of formats: one line each.

use crate::error::SourceCode;
use crate::hdf5::watched;
use crate::{OpenOptions, arina, dm, emd, empad, npy, refuse, velox};
use std::path::Path;
use std::sync::Arc;
use stempack_model::{Error, FrameSource, Result};

/// What a format says about a file after a look at its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Another format, and what is missing for this one.
    No(String),
    /// This format, how strongly (100: the format's own signature and structure; 50: plausible), and why.
    Yes {
        /// The highest score opens the file.
        score: u8,
        /// For people.
        why: String,
    },
}

/// Up to this score a format takes a file only to say what is wrong with it, when someone names it.
pub(crate) const DOUBTFUL: u8 = 9;

/// What the name of a file in a folder promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entry {
    /// Nothing.
    No,
    /// An acquisition may be entered here, but many other files are named alike.
    Possible,
    /// An acquisition is entered here, and when it does not open, something is wrong.
    Certain,
}

impl Entry {
    /// `Certain` or nothing.
    pub(crate) fn certain(is: bool) -> Self {
        if is { Entry::Certain } else { Entry::No }
    }
    /// `Possible` or nothing.
    pub(crate) fn possible(is: bool) -> Self {
        if is { Entry::Possible } else { Entry::No }
    }
    /// The most that any format expects of a name.
    pub(crate) fn of(name: &str) -> Self {
        FORMATS.iter().map(|f| (f.is_entry)(name)).max().unwrap_or(Entry::No)
    }
}

/// How one format is recognised and opened.
pub(crate) struct Format {
    /// Short name, for people.
    pub(crate) name: &'static str,
    /// What is looked for, for the message when nothing is found.
    pub(crate) looks_for: &'static str,
    /// Whether a file of this name is where an acquisition is entered, when a folder is searched.
    pub(crate) is_entry: fn(&str) -> Entry,
    /// Whether the contents of a file are of this format; cheap, never reads frames.
    pub(crate) probe: fn(&Path) -> Result<Probe>,
    /// Opens the acquisition a file belongs to, after the probe said yes.
    pub(crate) open: fn(&Path, &OpenOptions) -> Result<Arc<dyn FrameSource>>,
}

pub(crate) static FORMATS: &[Format] =
    &[arina::FORMAT, emd::FORMAT, velox::FORMAT, empad::FORMAT, dm::FORMAT, npy::FORMAT];

/// What one format said of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Short name of the format.
    pub format: &'static str,
    /// Its score, or `None` when it does not take the file.
    pub score: Option<u8>,
    /// Why.
    pub why: String,
}

/// What every format says of a file, the likeliest first. A format that cannot make sense of the file does not take it,
/// and says so.
///
/// # Errors
/// `io` when the file is not there; `unknown_format` for a folder.
pub fn explain(path: &Path) -> Result<Vec<Candidate>> {
    let owned = path.to_owned();
    let candidates = watched(path, move || candidates(&owned))?;
    Ok(candidates.into_iter().map(|(candidate, _)| candidate).collect())
}

/// What every format says of a file, with the failure of those that could not look.
fn candidates(path: &Path) -> Result<Vec<(Candidate, Option<Error>)>> {
    let found = std::fs::metadata(path).map_err(|e| Error::io("open", path, e))?;
    if found.is_dir() {
        return Err(unknown(path, "is a folder").hint("name the file to open, for example its `*_master.h5`"));
    }
    if !found.is_file() {
        return Err(unknown(path, "is no regular file"));
    }
    let mut candidates = Vec::new();
    for format in FORMATS {
        let (score, why, error) = match (format.probe)(path) {
            Ok(Probe::Yes { score, why }) => (Some(score), why, None),
            Ok(Probe::No(why)) => (None, why, None),
            Err(e) => (None, e.message().to_owned(), Some(e)),
        };
        candidates.push((Candidate { format: format.name, score, why }, error));
    }
    // Stable: formats of equal score keep the order of the list.
    candidates.sort_by_key(|(c, _)| std::cmp::Reverse(c.score));
    Ok(candidates)
}

/// Opens the acquisition that a file belongs to: its master, one of its data files or a companion.
///
/// # Errors
/// `unknown_format` when no reader recognises the contents; otherwise what the reader says.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    let (owned, options) = (path.to_owned(), *options);
    watched(path, move || open_best(&owned, &options))
}

fn open_best(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    open_candidate(path, candidates(path)?, options)
}

/// Opens a file met in a folder; nothing when its name promises too little and its contents are those of another file,
/// or of a member that its acquisition is not entered by.
///
/// # Errors
/// Those of [`open`].
pub(crate) fn open_met(path: &Path, options: &OpenOptions) -> Result<Option<Arc<dyn FrameSource>>> {
    let (owned, options) = (path.to_owned(), *options);
    watched(path, move || {
        let name = owned.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
        let candidates = candidates(&owned)?;
        if Entry::of(&name) < Entry::Certain {
            let stranger = match candidates.first() {
                Some((Candidate { format, score: Some(score), .. }, _)) => {
                    let entered =
                        FORMATS.iter().any(|f| f.name == *format && (f.is_entry)(&name) > Entry::No);
                    *score <= DOUBTFUL || !entered
                }
                _ => candidates.iter().all(|(_, failed)| failed.is_none()),
            };
            if stranger {
                return Ok(None);
            }
        }
        open_candidate(&owned, candidates, &options).map(Some)
    })
}

fn open_candidate(
    path: &Path,
    candidates: Vec<(Candidate, Option<Error>)>,
    options: &OpenOptions,
) -> Result<Arc<dyn FrameSource>> {
    let best = candidates.first().filter(|(c, _)| c.score.is_some());
    if let Some(format) = best.and_then(|(best, _)| FORMATS.iter().find(|f| f.name == best.format)) {
        return (format.open)(path, options);
    }
    // A format that failed to look knows more than those that do not recognise the file.
    let failed = candidates.into_iter().find_map(|(_, error)| error);
    Err(failed.unwrap_or_else(|| unknown(path, "is of no known format")))
}

pub(crate) fn unknown(path: &Path, what: &str) -> Error {
    let looked: Vec<&str> = FORMATS.iter().map(|f| f.looks_for).collect();
    let message = format!("`{}` {what}; looked for {}", path.display(), looked.join("; "));
    refuse(SourceCode::UnknownFormat, message, path)
}
