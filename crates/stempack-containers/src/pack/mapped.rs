//! A pack whose file the system maps into memory: what is stored as it is used need not be copied to be used.
//!
//! For those who ask for it. Nothing keeps others from writing to a mapped file: counts would change under the reader,
//! and a file cut short ends the process (SIGBUS) when what is gone is asked for.

#![expect(unsafe_code, reason = "mapping a file is unsafe: its bytes are others' to change")]

use super::{LoadedShard, PackFile};
use bytes::Bytes;
use memmap2::MmapOptions;
use std::sync::Arc;
use stempack_model::{Error, Result, Task};

/// A pack and the map of its file. Bitstreams of the u8 profile, which are stored as they are used, are taken from the
/// map; tables, and everything of the u16 profile, are read as ever.
#[derive(Debug)]
pub struct MappedPack {
    pack: Arc<PackFile>,
    bytes: Bytes,
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
        let bytes = Bytes::from_owner(map.map_err(|e| Error::io("map", pack.path(), e))?);
        let mapped = MappedPack { pack, bytes };
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
        self.pack.load_shards_from(Some(&self.bytes), ordinals, task)
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
