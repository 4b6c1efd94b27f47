//! A result file in the making: the publication rules of containers, for anything that is written piece by piece.

use super::ExportCode;
use crate::{Draft, Error, Result, refuse_existing};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

/// A file being written beside its destination; dropping it without [`publish`](Output::publish) leaves nothing.
#[derive(Debug)]
pub struct Output {
    file: BufWriter<File>,
    draft: Draft,
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
                ExportCode::InvalidDestination,
                format!("`{}` cannot be written: it is no file name", destination.display()),
            )
            .with("path", destination.display().to_string()));
        }
        // Early, so that no work is done in vain; publication checks again without a gap.
        refuse_existing(destination, replace)?;
        let draft = Draft::create(destination)?;
        let file = draft.file().try_clone().map_err(|e| Error::io("open", destination, e))?;
        Ok(Output { file: BufWriter::with_capacity(1 << 16, file), draft, replace })
    }

    /// Where the file will appear.
    pub fn destination(&self) -> &Path {
        self.draft.destination()
    }

    /// Where the file is until then, for libraries that write files themselves.
    pub(super) fn draft_path(&self) -> &Path {
        self.draft.path()
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// `io`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| Error::io("write", self.draft.destination(), e))
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
        let at = |e| Error::io("write", self.draft.destination(), e);
        let mut file = self.file.into_inner().map_err(|e| at(e.into_error()))?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(at)?;
        self.draft.publish(self.replace)?;
        Ok(bytes)
    }
}
