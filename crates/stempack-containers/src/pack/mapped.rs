//! A pack whose file the system maps into memory: what is stored as it is used need not be copied to be used.
//!
//! For those who ask for it. Nothing keeps others from writing to a mapped file: counts would change under the reader,
//! and a file cut short ends the process (SIGBUS) when what is gone is asked for.

#![expect(unsafe_code, reason = "mapping a file is unsafe: its bytes are others' to change")]

use super::{LoadedShard, PackFile};
use bytes::Bytes;
use memmap2::{Mmap, MmapOptions, UncheckedAdvice};
use std::ops::Range;
use std::sync::Arc;
use stempack_model::{Error, Result, Task};

/// A pack and the map of its file. Bitstreams of the u8 profile, which are stored as they are used, are taken from the
/// map; tables, and everything of the u16 profile, are read as ever.
#[derive(Debug)]
pub struct MappedPack {
    pack: Arc<PackFile>,
    map: FileMap,
}

/// The map of a whole file.
#[derive(Debug)]
pub(super) struct FileMap(Arc<Mmap>);

/// A part of it. When nobody uses it any more its pages no longer count as this process's memory.
struct Part {
    map: Arc<Mmap>,
    range: Range<usize>,
}

impl FileMap {
    /// The bytes of a range, if the file has them.
    pub(super) fn part(&self, range: Range<usize>) -> Option<Bytes> {
        self.0.get(range.clone())?;
        Some(Bytes::from_owner(Part { map: self.0.clone(), range }))
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.map[self.range.clone()]
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: pages of a shared map that was never written come back from the file when they are asked for again, as
        // they may be on the pages that a neighbour shares.
        let gone = unsafe {
            self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, self.range.start, self.range.len())
        };
        // Where the system cannot do it the pages stay until the map goes.
        drop(gone);
    }
}

impl MappedPack {
    /// Maps the file of a pack.
    ///
    /// # Errors
    /// `container_changed` when the file is no longer as it was when it was opened; `io`.
    ///
    /// # Safety
    /// As long as this or any shard loaded through it is in use, nothing may write to the file or cut it short. Removing
    /// it or putting another in its place does no harm.
    pub unsafe fn new(pack: Arc<PackFile>) -> Result<Self> {
        // SAFETY: the caller sees to it that the mapped bytes do not change.
        let map = unsafe { MmapOptions::new().map(pack.file()) };
        let map = FileMap(Arc::new(map.map_err(|e| Error::io("map", pack.path(), e))?));
        let mapped = MappedPack { pack, map };
        mapped.check_unchanged()?;
        Ok(mapped)
    }

    /// The pack.
    pub fn pack(&self) -> &Arc<PackFile> {
        &self.pack
    }

    /// Reads, validates and authenticates shards as [`PackFile::load_shards`] does.
    ///
    /// # Errors
    /// As [`PackFile::load_shards`].
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn load_shards(&self, ordinals: &[usize], task: &Task) -> Result<Vec<LoadedShard>> {
        self.pack.load_shards_from(Some(&self.map), ordinals, task)
    }

    /// Whether the file is what it was when it was opened. To be asked after every use of a shard whose bitstream lies in
    /// the map: what was computed from one that has changed is not what was authenticated. Writes through a map of
    /// somebody else's may show late.
    ///
    /// # Errors
    /// `container_changed`; `io`.
    pub fn check_unchanged(&self) -> Result<()> {
        self.pack.check_unchanged()
    }
}
