//! When a result file becomes visible: complete, synced, and never over an existing file unless that was allowed.

use crate::ProductCode;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use stempack_model::{Error, Result};
use tempfile::NamedTempFile;

/// A file being written beside its destination; dropping it without [`publish`](Output::publish) leaves nothing.
#[derive(Debug)]
pub struct Output {
    file: BufWriter<NamedTempFile>,
    destination: PathBuf,
    replace: bool,
}

impl Output {
    /// Begins a file for `destination`; with `replace` an existing file is replaced atomically on publication.
    ///
    /// # Errors
    /// `destination_exists`, `invalid_destination` for a folder or a path without a file name, `io`.
    pub fn create(destination: &Path, replace: bool) -> Result<Self> {
        if destination.file_name().is_none() || destination.is_dir() {
            return Err(Error::new(
                ProductCode::InvalidDestination,
                format!("`{}` cannot be written: it is no file name", destination.display()),
            )
            .with("path", destination.display().to_string()));
        }
        // Early, so that no work is done in vain; publication checks again without a gap.
        if !replace && destination.symlink_metadata().is_ok() {
            return Err(exists(destination));
        }
        let folder = match destination.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".stempack-").suffix(".partial");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // What File::create asks for; the process's umask takes its part away.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder).map_err(|e| Error::io("create a file in", folder, e))?;
        Ok(Output {
            file: BufWriter::with_capacity(1 << 16, file),
            destination: destination.to_owned(),
            replace,
        })
    }

    /// Where the file will appear.
    pub fn destination(&self) -> &Path {
        &self.destination
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// `io`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| Error::io("write", &self.destination, e))
    }

    /// The file as a standard writer, for encoders.
    pub fn as_writer(&mut self) -> impl Write + Seek + '_ {
        &mut self.file
    }

    /// Syncs the file and makes it visible under its name; returns its size.
    ///
    /// # Errors
    /// `destination_exists` when it appeared meanwhile, `io`.
    pub fn publish(self) -> Result<u64> {
        let at = |e| Error::io("write", &self.destination, e);
        let file = self.file.into_inner().map_err(|e| at(e.into_error()))?;
        file.as_file().sync_all().map_err(at)?;
        let bytes = file.as_file().seek_end().map_err(at)?;
        if self.replace {
            file.persist(&self.destination).map_err(|e| at(e.error))?;
        } else if let Err(e) = file.persist_noclobber(&self.destination) {
            let taken = e.error.kind() == std::io::ErrorKind::AlreadyExists;
            return Err(if taken { exists(&self.destination) } else { at(e.error) });
        }
        sync_folder(&self.destination);
        Ok(bytes)
    }
}

trait SeekEnd {
    fn seek_end(&self) -> std::io::Result<u64>;
}
impl SeekEnd for File {
    fn seek_end(&self) -> std::io::Result<u64> {
        let mut file = self;
        file.seek(SeekFrom::End(0))
    }
}

fn exists(destination: &Path) -> Error {
    Error::new(ProductCode::DestinationExists, format!("`{}` exists", destination.display()))
        .with("path", destination.display().to_string())
        .hint("choose another name, or pass `--force` to replace it")
}

/// Makes the new name durable. The file itself is complete either way, so a folder that cannot be synced (some network
/// file systems) is no failure.
fn sync_folder(destination: &Path) {
    let folder = match destination.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    if let Ok(folder) = File::open(folder) {
        let _unsupported_is_fine = folder.sync_all();
    }
}
