//! Bytes at a place: what the tag grammar reads from, and how a failure names the file.

use crate::error::SourceCode;
use crate::{refuse, shown};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use stempack_model::{Error, Result};

/// Read at a time while the structure is walked; bodies are skipped, not read.
const BUFFER_BYTES: u64 = 64 << 10;

/// Where the bytes are.
#[derive(Clone, Copy)]
enum Place<'a> {
    File(&'a File),
    Memory(&'a [u8]),
}

/// A file's bytes, or bytes that stand for a file.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    place: Place<'a>,
    bytes: u64,
    path: &'a Path,
}

impl<'a> Input<'a> {
    /// A file of a known size.
    pub(super) fn file(file: &'a File, bytes: u64, path: &'a Path) -> Self {
        Input { place: Place::File(file), bytes, path }
    }

    /// Bytes in memory.
    pub(super) fn memory(bytes: &'a [u8], path: &'a Path) -> Self {
        Input { place: Place::Memory(bytes), bytes: bytes.len() as u64, path }
    }

    /// Size in bytes.
    pub(super) fn bytes(self) -> u64 {
        self.bytes
    }

    /// The path errors name.
    pub(super) fn path(self) -> &'a Path {
        self.path
    }

    /// A refusal that names the file.
    pub(super) fn refuse(self, code: SourceCode, message: impl AsRef<str>) -> Error {
        refuse(code, format!("`{}`: {}", shown(self.path), message.as_ref()), self.path)
    }

    /// Fills `out` with the bytes at `at`.
    pub(super) fn read(self, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at.checked_add(out.len() as u64).filter(|&end| end <= self.bytes).ok_or_else(|| {
            let message = format!("ends at byte {}, {} bytes are needed at byte {at}", self.bytes, out.len());
            self.refuse(SourceCode::LengthMismatch, message)
        })?;
        match self.place {
            Place::File(file) => file.read_exact_at(out, at).map_err(|e| Error::io("read", self.path, e)),
            // Inside: `end` is at most the length of the slice.
            Place::Memory(all) => {
                out.copy_from_slice(&all[at as usize..end as usize]);
                Ok(())
            }
        }
    }
}

/// Reads forward in small steps through a buffer.
pub(super) struct Cursor<'a> {
    input: Input<'a>,
    at: u64,
    buffer: Vec<u8>,
    begin: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(input: Input<'a>, at: u64) -> Self {
        Cursor { input, at, buffer: Vec::new(), begin: 0 }
    }

    /// The byte that is read next.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Goes on elsewhere.
    pub(super) fn go_to(&mut self, at: u64) {
        self.at = at;
    }

    /// The next bytes of a fixed number.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    /// The next bytes, as many as `out` holds.
    pub(super) fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        let wanted = out.len() as u64;
        if wanted > BUFFER_BYTES {
            self.input.read(self.at, out)?;
        } else {
            let have = self.begin..self.begin + self.buffer.len() as u64;
            if self.at < have.start || self.at.saturating_add(wanted) > have.end {
                let n = BUFFER_BYTES.min(self.input.bytes.saturating_sub(self.at)).max(wanted);
                self.buffer.resize(n as usize, 0);
                self.begin = self.at;
                let read = self.input.read(self.at, &mut self.buffer);
                if read.is_err() {
                    self.buffer.clear();
                }
                read?;
            }
            let from = (self.at - self.begin) as usize;
            out.copy_from_slice(&self.buffer[from..from + out.len()]);
        }
        self.at += wanted;
        Ok(())
    }
}
