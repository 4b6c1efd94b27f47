//! Publication: a file appears complete under its name or not at all, and never replaces another unless told.

use crate::ContainerCode;
use std::fs::{File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use stempack_model::{Error, Result};
use tempfile::NamedTempFile;

/// Refuses a destination that exists, unless it may be replaced; a folder never is.
///
/// # Errors
/// `destination_exists`.
pub fn refuse_existing(destination: &Path, force: bool) -> Result<()> {
    if !force && destination.symlink_metadata().is_ok() {
        return Err(exists(destination));
    }
    // Whether it may be replaced or not; without a name there is nothing to write beside.
    if destination.is_dir() || destination.file_name().is_none() {
        return Err(Error::new(
            ContainerCode::DestinationExists,
            format!("`{}` is a folder, or no file name at all", destination.display()),
        )
        .hint("name a file")
        .with("path", destination.display().to_string()));
    }
    Ok(())
}

fn exists(destination: &Path) -> Error {
    Error::new(ContainerCode::DestinationExists, format!("`{}` exists", destination.display()))
        .hint("choose another name, or pass --force to replace it")
        .with("path", destination.display().to_string())
}

/// A file in the making beside its destination, named `.NAME.XXXXXX.partial`.
///
/// Dropping it removes it; only a kill leaves it, and the next draft for the same destination then removes it.
#[derive(Debug)]
pub struct Draft {
    temp: NamedTempFile,
    destination: PathBuf,
}

impl Draft {
    /// Creates an empty draft and locks it, so that others know it is alive.
    ///
    /// # Errors
    /// `io`.
    pub fn create(destination: &Path) -> Result<Self> {
        let folder = folder_of(destination);
        let prefix = prefix_of(destination);
        remove_stale(destination);
        let temp = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(SUFFIX)
            // The umask takes away what it should; tempfile alone would give 0600.
            .permissions(std::fs::Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(|e| Error::io("create a draft in", folder, e))?;
        // Some file systems have no locks; the draft is then merely not recognisable as alive.
        let _ = temp.as_file().try_lock();
        Ok(Draft { temp, destination: destination.to_owned() })
    }
    /// Where the draft is now.
    pub fn path(&self) -> &Path {
        self.temp.path()
    }
    /// The open draft.
    pub fn file(&self) -> &File {
        self.temp.as_file()
    }
    /// Where it will be.
    pub fn destination(&self) -> &Path {
        &self.destination
    }
    /// Makes the content durable.
    ///
    /// # Errors
    /// `io`.
    pub fn sync(&self) -> Result<()> {
        self.temp.as_file().sync_all().map_err(|e| Error::io("sync", self.path(), e))
    }
    /// Gives the draft its name and makes the folder entry durable.
    ///
    /// # Errors
    /// `destination_exists`, `io`; the draft is then gone, and so is its name unless it replaced another file.
    pub fn publish(self, force: bool) -> Result<()> {
        self.sync()?;
        let destination = self.destination.clone();
        self.rename(force)?;
        sync_folder(&destination).inspect_err(|_| take_back(&destination, force))
    }
    /// Gives the draft its name, which lasts only once [`sync_folder`] has succeeded.
    pub(crate) fn rename(self, force: bool) -> Result<()> {
        let destination = self.destination;
        // renameat2 where the kernel knows it: no hard link is needed, and nothing is replaced by a race.
        let done =
            if force { self.temp.persist(&destination) } else { self.temp.persist_noclobber(&destination) };
        match done {
            Ok(_) => Ok(()),
            Err(e) if e.error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(&destination)),
            Err(e) => Err(Error::io("publish", &destination, e.error)),
        }
    }
}

/// Makes the folder entries beside `destination` durable.
pub(crate) fn sync_folder(destination: &Path) -> Result<()> {
    let folder = folder_of(destination);
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| Error::io("sync folder", folder, e))
}

/// Removes what was just published, unless it stands for a file that it replaced: that one cannot come back.
pub(crate) fn take_back(destination: &Path, replaced: bool) {
    if !replaced {
        // Best effort: the failure that led here is what the caller must hear of.
        let _ = std::fs::remove_file(destination);
    }
}

const SUFFIX: &str = ".partial";

fn folder_of(destination: &Path) -> &Path {
    match destination.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

fn prefix_of(destination: &Path) -> String {
    format!(".{}.", destination.file_name().unwrap_or_default().to_string_lossy())
}

/// Removes drafts of the same destination whose maker is gone.
fn remove_stale(destination: &Path) {
    stale_drafts(destination).into_iter().for_each(|(path, _lock)| drop(std::fs::remove_file(path)));
}

/// Drafts of `destination` whose maker is gone: their lock was free, and is now held by the files returned.
pub(crate) fn stale_drafts(destination: &Path) -> Vec<(PathBuf, File)> {
    let prefix = prefix_of(destination);
    let Ok(entries) = std::fs::read_dir(folder_of(destination)) else { return Vec::new() };
    let mut stale = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(middle) = name.to_str().and_then(|n| n.strip_prefix(&prefix)?.strip_suffix(SUFFIX)) else {
            continue;
        };
        if middle.len() != 6 || !middle.bytes().all(|b| b.is_ascii_alphanumeric()) {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        match file.try_lock() {
            Ok(()) => stale.push((entry.path(), file)),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
    stale
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(folder: &Path) -> Vec<String> {
        let mut all: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_draft_appears_complete_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("out.bin");
        let draft = Draft::create(&to).unwrap();
        draft.file().write_all(b"new").unwrap();
        drop(draft);
        assert_eq!(names(dir.path()), Vec::<String>::new());
        let draft = Draft::create(&to).unwrap();
        draft.file().write_all(b"new").unwrap();
        draft.publish(false).unwrap();
        assert_eq!(names(dir.path()), ["out.bin"]);
        let other = Draft::create(&to).unwrap();
        other.file().write_all(b"newer").unwrap();
        assert_eq!(other.publish(false).unwrap_err().code(), "destination_exists");
        assert_eq!(std::fs::read(&to).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["out.bin"]);
        let other = Draft::create(&to).unwrap();
        other.file().write_all(b"newer").unwrap();
        other.publish(true).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), b"newer");
    }

    #[test]
    fn stale_drafts_go_and_living_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("out.bin");
        std::fs::write(dir.path().join(".out.bin.abc123.partial"), b"left by a kill").unwrap();
        std::fs::write(dir.path().join(".other.abc123.partial"), b"somebody else's").unwrap();
        let alive = Draft::create(&to).unwrap();
        let second = Draft::create(&to).unwrap();
        assert!(alive.path().exists() && second.path().exists());
        assert_eq!(names(dir.path()).len(), 3);
        assert!(dir.path().join(".other.abc123.partial").exists());
    }
}
