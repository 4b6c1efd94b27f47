//! Bytes of the body, none of which is handed out before the digest of its 64 MiB block has been compared.

use super::header::{BLOCK_BYTES, Header};
use super::layout::Span;
use crate::ContainerCode;
use crate::digest::{Digest, Hasher};
use crate::unchanged::{Identity, changed};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use stempack_model::{Error, ModelCode, Result, Task};

/// Read at a time while hashing; also how often cancellation is looked at.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Body {
    pub(super) path: PathBuf,
    file: File,
    identity: Identity,
    start: u64,
    bytes: u64,
    checksums: Vec<Digest>,
    /// Whether a block's digest has been compared. Held while it is, so that nobody hashes it twice.
    verified: Vec<Mutex<bool>>,
}

impl Body {
    pub(super) fn new(path: &Path, file: File, identity: Identity, header: &Header) -> Self {
        Body {
            path: path.to_owned(),
            file,
            identity,
            start: header.body_start,
            bytes: header.body_bytes,
            verified: header.checksums.iter().map(|_| Mutex::new(false)).collect(),
            checksums: header.checksums.clone(),
        }
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.identity.bytes
    }
    pub(super) fn blocks(&self) -> usize {
        self.checksums.len()
    }

    /// Fails when the path no longer leads to the file that was opened, or that file has changed.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        self.identity.check(&self.path)
    }

    fn check_open_file(&self) -> Result<()> {
        self.identity.check_open(&self.file, &self.path)
    }

    fn changed(&self, how: &str) -> Error {
        changed(&self.path, how)
    }

    /// The bytes of a span, from blocks whose digests agree.
    pub(super) fn read(&self, span: Span, task: &Task) -> Result<Vec<u8>> {
        if span.bytes > task.memory_budget() {
            return Err(Error::new(
                ModelCode::OverBudget,
                format!(
                    "an array of {} bytes exceeds the memory budget of {}",
                    span.bytes,
                    task.memory_budget()
                ),
            ));
        }
        let mut out = vec![0; span.bytes as usize];
        if out.is_empty() {
            return Ok(out);
        }
        for block in span.offset / BLOCK_BYTES..=(span.end() - 1) / BLOCK_BYTES {
            let from = span.offset.max(block * BLOCK_BYTES);
            let to = span.end().min((block + 1) * BLOCK_BYTES);
            let part = &mut out[(from - span.offset) as usize..(to - span.offset) as usize];
            self.block_part(block as usize, from, part, task)?;
        }
        self.check_open_file()?;
        Ok(out)
    }

    /// Fills `out` with the bytes from `from` on, all of which lie in one block.
    fn block_part(&self, block: usize, from: u64, out: &mut [u8], task: &Task) -> Result<()> {
        {
            let mut verified = self.verified[block].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if !*verified {
                // What is copied out is what was hashed, not what a second read might give.
                self.hash(block, Some((from, out)), task)?;
                *verified = true;
                return Ok(());
            }
        }
        self.pread(from, out)
    }

    fn pread(&self, from: u64, out: &mut [u8]) -> Result<()> {
        match self.file.read_exact_at(out, self.start + from) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.changed("has become shorter"))
            }
            done => done.map_err(|e| Error::io("read", &self.path, e)),
        }
    }

    /// The text between the prefix and the body; fails when it no longer has the digest it was opened with.
    pub(super) fn header_text(&self, body_start: u64) -> Result<String> {
        let again = super::envelope::read(&self.file, self.identity.bytes)?;
        let mut text = vec![0; (body_start - super::envelope::PREFIX_BYTES) as usize];
        let from = super::envelope::PREFIX_BYTES;
        self.file.read_exact_at(&mut text, from).map_err(|e| Error::io("read", &self.path, e))?;
        self.check_open_file()?;
        match String::from_utf8(text) {
            Ok(text) if again.body_start == body_start => Ok(text),
            _ => Err(self.changed("changed while it was being read")),
        }
    }

    /// Compares a block's digest, however often it was compared before.
    pub(super) fn verify(&self, block: usize, task: &Task) -> Result<()> {
        let mut verified = self.verified[block].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.hash(block, None, task)?;
        *verified = true;
        Ok(())
    }

    fn hash(&self, block: usize, mut keep: Option<(u64, &mut [u8])>, task: &Task) -> Result<()> {
        let begin = block as u64 * BLOCK_BYTES;
        let end = self.bytes.min(begin + BLOCK_BYTES);
        let mut hasher = Hasher::default();
        let mut piece = vec![0; PIECE_BYTES.min((end - begin) as usize)];
        let mut at = begin;
        while at < end {
            task.check()?;
            let n = piece.len().min((end - at) as usize);
            self.pread(at, &mut piece[..n])?;
            hasher.update(&piece[..n]);
            if let Some((from, out)) = &mut keep {
                let (low, high) = ((*from).max(at), (*from + out.len() as u64).min(at + n as u64));
                if low < high {
                    out[(low - *from) as usize..(high - *from) as usize]
                        .copy_from_slice(&piece[(low - at) as usize..(high - at) as usize]);
                }
            }
            at += n as u64;
        }
        let (digest, expected) = (hasher.finish(), self.checksums[block]);
        if digest == expected {
            return Ok(());
        }
        Err(Error::new(
            ContainerCode::DigestMismatch,
            format!("SHA-256 of body block {block} is {digest}, the header says {expected}"),
        )
        .with("block", block))
    }
}
