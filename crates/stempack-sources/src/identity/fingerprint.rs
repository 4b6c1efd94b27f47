//! A snapshot of what the system says about a file; any later difference means that the source changed.
//!
//! It is no lock and no content hash. The change time catches edits after which the modification time was put back.

use crate::error::SourceCode;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use stempack_model::{Error, Result};

/// The file behind a path, whatever name it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

/// Device, inode, size, modification and change time of the file a path leads to, symbolic links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    id: FileId,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Fingerprint {
    pub(crate) fn of(path: &Path) -> Result<Self> {
        std::fs::metadata(path).map(Self::from).map_err(|e| Error::io("stat", path, e))
    }
    pub(crate) fn id(&self) -> FileId {
        self.id
    }
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl From<Metadata> for Fingerprint {
    fn from(m: Metadata) -> Self {
        Fingerprint {
            id: FileId { device: m.dev(), inode: m.ino() },
            bytes: m.size(),
            modified: (m.mtime(), m.mtime_nsec()),
            changed: (m.ctime(), m.ctime_nsec()),
        }
    }
}

/// The files of one source as they were when it was opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fingerprints {
    files: Vec<(PathBuf, Fingerprint)>,
}

impl Fingerprints {
    /// Takes the fingerprint of one more file, once.
    pub(crate) fn add(&mut self, path: &Path) -> Result<Fingerprint> {
        if let Some(taken) = self.get(path) {
            return Ok(taken);
        }
        let taken = Fingerprint::of(path)?;
        self.files.push((path.to_owned(), taken));
        Ok(taken)
    }

    /// A file that was looked at but contributes nothing may change as it likes.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.files.retain(|(p, _)| p != path);
    }

    pub(crate) fn get(&self, path: &Path) -> Option<Fingerprint> {
        self.files.iter().find(|(p, _)| p == path).map(|&(_, f)| f)
    }

    /// Fails when any file is no longer the one that was opened.
    pub(crate) fn check(&self) -> Result<()> {
        for (path, taken) in &self.files {
            match std::fs::metadata(path).map(Fingerprint::from) {
                Ok(now) if now == *taken => {}
                Ok(_) => return Err(changed(path, "is no longer the file that was opened")),
                Err(e) => return Err(changed(path, &format!("can no longer be read ({e})"))),
            }
        }
        Ok(())
    }

    /// Opens one of the files for reading, provided that it still is the same.
    pub(crate) fn open(&self, path: &Path) -> Result<File> {
        let file = File::open(path).map_err(|e| match e.kind() {
            // It was there when the source was opened.
            std::io::ErrorKind::NotFound => changed(path, "has been removed"),
            _ => Error::io("open", path, e),
        })?;
        let now = Fingerprint::from(file.metadata().map_err(|e| Error::io("stat", path, e))?);
        match self.get(path) {
            Some(taken) if taken == now => Ok(file),
            _ => Err(changed(path, "is no longer the file that was opened")),
        }
    }
}

fn changed(path: &Path, how: &str) -> Error {
    let name =
        path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
    Error::new(SourceCode::SourceChanged, format!("`{name}` {how}"))
        .with("path", path.display().to_string())
        .hint("open the acquisition again once nothing writes to it any more")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn an_edit_is_noticed_even_when_the_modification_time_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, b"one").unwrap();
        let mut files = Fingerprints::default();
        files.add(&path).unwrap();
        files.check().unwrap();
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        // Coarse clocks tick in milliseconds; the edit must fall into another tick.
        std::thread::sleep(std::time::Duration::from_millis(30));
        std::fs::write(&path, b"two").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        let error = files.check().unwrap_err();
        assert_eq!(error.code(), "source_changed");
        assert!(error.message().contains("`a`"));
        assert_eq!(files.open(&path).unwrap_err().code(), "source_changed");
        assert!(before <= SystemTime::now());
    }

    #[test]
    fn a_replaced_or_removed_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&path, b"one").unwrap();
        std::fs::write(&other, b"one").unwrap();
        let mut files = Fingerprints::default();
        files.add(&path).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(files.check().unwrap_err().code(), "source_changed");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(files.check().unwrap_err().code(), "source_changed");
    }
}
