//! The list of formats: one line each.

use crate::error::SourceCode;
use crate::{OpenOptions, arina};
use std::path::Path;
use std::sync::Arc;
use stempack_model::{Error, FrameSource, Result};

/// An opened acquisition, or `None` when the contents are of another format.
pub(crate) type Opened = Option<Arc<dyn FrameSource>>;

/// How one format is recognised and opened.
pub(crate) struct Format {
    /// What is looked for, for the message when nothing is found.
    pub(crate) looks_for: &'static str,
    /// Whether a file of this name is where an acquisition is entered, when a folder is searched.
    pub(crate) is_entry: fn(&str) -> bool,
    /// Opens the acquisition a file belongs to.
    pub(crate) open: fn(&Path, &OpenOptions) -> Result<Opened>,
}

pub(crate) static FORMATS: &[Format] = &[arina::FORMAT];

/// Opens the acquisition that a file belongs to: its master, one of its data files or a companion.
///
/// # Errors
/// `unknown_format` when no reader recognises the contents; otherwise what the reader says.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    let found = std::fs::metadata(path).map_err(|e| Error::io("open", path, e))?;
    if found.is_dir() {
        return Err(unknown(path, "is a folder").hint("name the file to open, for example its `*_master.h5`"));
    }
    for format in FORMATS {
        if let Some(source) = (format.open)(path, options)? {
            return Ok(source);
        }
    }
    Err(unknown(path, "is of no known format"))
}

fn unknown(path: &Path, what: &str) -> Error {
    let looked: Vec<&str> = FORMATS.iter().map(|f| f.looks_for).collect();
    Error::new(
        SourceCode::UnknownFormat,
        format!("`{}` {what}; looked for {}", path.display(), looked.join("; ")),
    )
    .with("path", path.display().to_string())
}
