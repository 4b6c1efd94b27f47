//! Opening a file to be read, and whether it is still the file that was opened.

use crate::ContainerCode;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use stempack_model::{Error, Result};

/// What the system says about a file; any later difference means that it changed. No lock and no content hash: the
/// change time catches edits after which the modification time was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    pub(crate) bytes: u64,
    pub(crate) modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    pub(crate) fn of(m: &Metadata) -> Self {
        Identity {
            device: m.dev(),
            inode: m.ino(),
            bytes: m.size(),
            modified: (m.mtime(), m.mtime_nsec()),
            changed: (m.ctime(), m.ctime_nsec()),
        }
    }
    /// Fails when `path` no longer leads to this file as it was.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        match std::fs::metadata(path).map(|m| Identity::of(&m)) {
            Ok(now) if now == *self => Ok(()),
            Ok(_) => Err(changed(path, "is no longer the file that was opened")),
            Err(e) => Err(changed(path, &format!("can no longer be read ({e})"))),
        }
    }
    /// The same for the open file alone, which is all that a read depends on: removing its name or giving it to another
    /// file changes the change time, but not one byte of what is open here.
    pub(crate) fn check_open(&self, file: &File, path: &Path) -> Result<()> {
        let now = Identity::of(&file.metadata().map_err(|e| Error::io("stat", path, e))?);
        if now.bytes == self.bytes && now.modified == self.modified {
            return Ok(());
        }
        Err(changed(path, "changed while it was in use"))
    }
}

/// The refusal of a file that changed.
pub(crate) fn changed(path: &Path, how: &str) -> Error {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Error::new(ContainerCode::ContainerChanged, format!("`{name}` {how}"))
        .with("path", path.display().to_string())
        .hint("open it again once nothing writes to it any more")
}

/// Opens a file to be read. Pipes and devices are refused: opening a pipe would wait for a writer.
///
/// # Errors
/// `io`.
pub fn open_regular(path: &Path) -> Result<File> {
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file");
        return Err(Error::io("open", path, error));
    }
    File::open(path).map_err(|e| Error::io("open", path, e))
}
