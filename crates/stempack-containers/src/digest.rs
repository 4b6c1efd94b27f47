//! SHA-256 digests as values, and of whole files.

use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use stempack_model::{Error, Result, Task};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Digest(Sha256::digest(bytes).into())
    }
    /// From 64 lower-case hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 || text.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        let mut out = [0; 32];
        hex::decode_to_slice(text, &mut out).ok()?;
        Some(Digest(out))
    }
    /// 64 lower-case hexadecimal digits.
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// Hashes a stream that arrives in pieces.
#[derive(Clone, Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    /// Hashes samples as little-endian words.
    pub(crate) fn update_u16(&mut self, samples: &[u16]) {
        if cfg!(target_endian = "little") {
            self.0.update(bytemuck::cast_slice::<u16, u8>(samples));
        } else {
            samples.iter().for_each(|s| self.0.update(s.to_le_bytes()));
        }
    }
    pub(crate) fn update_u32(&mut self, samples: &[u32]) {
        if cfg!(target_endian = "little") {
            self.0.update(bytemuck::cast_slice::<u32, u8>(samples));
        } else {
            samples.iter().for_each(|s| self.0.update(s.to_le_bytes()));
        }
    }
    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// Hashes a whole file, reporting and checking `task` on the way.
///
/// # Errors
/// `io`, `cancelled`.
pub fn sha256_file(path: &Path, task: &Task) -> Result<Digest> {
    let mut file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let mut buffer = vec![0; 1 << 20];
    let mut hasher = Hasher::default();
    loop {
        task.check()?;
        let n = file.read(&mut buffer).map_err(|e| Error::io("read", path, e))?;
        if n == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..n]);
        task.advance(n as u64);
    }
}
