//! SHA-256 of whole files, in parallel, the same physical file only once.

use super::{FileId, Fingerprints};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use stempack_model::{Error, Result, Task};

/// Read at a time; also how often cancellation is looked at.
const BUFFER_BYTES: usize = 1 << 20;

/// The digest of each path, all of which `files` knows. Reports every byte hashed.
pub(crate) fn digest_files(files: &Fingerprints, paths: &[&Path], task: &Task) -> Result<Vec<[u8; 32]>> {
    let mut unique: BTreeMap<FileId, &Path> = BTreeMap::new();
    let mut ids = Vec::with_capacity(paths.len());
    for &path in paths {
        let id = match files.get(path) {
            Some(taken) => taken.id(),
            None => super::Fingerprint::of(path)?.id(),
        };
        unique.entry(id).or_insert(path);
        ids.push(id);
    }
    let digests: BTreeMap<FileId, [u8; 32]> = unique
        .into_par_iter()
        .map(|(id, path)| digest(files, path, task).map(|d| (id, d)))
        .collect::<Result<_>>()?;
    // Nothing that changed while it was being hashed has a digest worth reporting.
    files.check()?;
    Ok(ids.iter().filter_map(|id| digests.get(id).copied()).collect())
}

fn digest(files: &Fingerprints, path: &Path, task: &Task) -> Result<[u8; 32]> {
    let mut file = files.open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        task.check()?;
        let n = file.read(&mut buffer).map_err(|e| Error::io("read", path, e))?;
        if n == 0 {
            return Ok(hash.finalize().into());
        }
        hash.update(&buffer[..n]);
        task.advance(n as u64);
    }
}
