//! Opening a pack: everything outside the shards is parsed, validated and cross-checked before anything is returned.

use super::index::{Index, ShardRecord, check_ranges};
use super::load_times::LoadTimes;
use super::manifest::Manifest;
use super::prelude::{self, Prelude};
use super::prepared::Prepared;
use crate::json;
use crate::unchanged::{Identity, open_regular};
use crate::{ContainerCode, Digest};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use stempack_codecs::pack_u16;
use stempack_codecs::shard::Profile;
use stempack_model::{Error, Exclusions, MaskOrigin, ModelCode, Result, Shape4, Task};

/// An opened pack whose metadata is valid. Shards are validated and authenticated when they are loaded.
#[derive(Debug)]
pub struct PackFile {
    path: PathBuf,
    file: File,
    identity: Identity,
    pub(super) index: Index,
    manifest: Manifest,
    pub(super) prepared: Prepared,
    pub(super) times: LoadTimes,
    /// End of the user block, before which no data lies.
    pub(super) user_block_bytes: u64,
}

impl PackFile {
    /// Whether the file begins like a pack.
    ///
    /// # Errors
    /// `io`.
    pub fn probe(path: &Path) -> Result<bool> {
        // Opening a pipe would wait for a writer.
        if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
            return Ok(false);
        }
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let mut magic = [0; 6];
        match file.read_exact_at(&mut magic, 0) {
            Ok(()) => Ok(magic == prelude::MAGIC[..6]),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(Error::io("read", path, e)),
        }
    }

    /// Parses and validates prelude, manifest, index and all ranges.
    ///
    /// # Errors
    /// `not_a_pack`, and the codes of [`ContainerCode`] that say what contradicts what.
    pub fn open(path: &Path) -> Result<Self> {
        let file = open_regular(path)?;
        let identity = Identity::of(&file.metadata().map_err(|e| Error::io("stat", path, e))?);
        let in_file =
            |e: Error| e.at(format_args!("`{}`", path.display())).with("path", path.display().to_string());
        Self::parse(path, file, identity).map_err(in_file)
    }

    fn parse(path: &Path, file: File, identity: Identity) -> Result<Self> {
        let bytes = identity.bytes;
        if bytes < prelude::BYTES {
            return Err(Error::new(
                ContainerCode::NotAPack,
                format!("file has {bytes} bytes, the prelude alone has {}", prelude::BYTES),
            ));
        }
        let read = |offset: u64, len: usize| {
            let mut buffer = vec![0; len];
            file.read_exact_at(&mut buffer, offset).map_err(|e| Error::io("read", path, e))?;
            Ok::<_, Error>(buffer)
        };
        let mut first = [0; prelude::BYTES as usize];
        file.read_exact_at(&mut first, 0).map_err(|e| Error::io("read", path, e))?;
        let prelude = Prelude::parse(&first, bytes)?;
        let text = read(prelude::BYTES, prelude.json_bytes as usize)?;
        let crc = crc32fast::hash(&text);
        if crc != prelude.json_crc32 {
            return Err(Error::new(
                ContainerCode::ManifestCrc,
                format!("manifest CRC-32 is {crc:08x}, the prelude says {:08x}", prelude.json_crc32),
            ));
        }
        let object = json::parse_object(&text)?;
        drop(text);
        let index = Index::parse(&read(prelude.index_offset.into(), prelude.index_bytes as usize)?)?;
        let user_block_bytes = user_block_end(&file, bytes, &prelude, &index);
        check_ranges(&index.shards, &[], user_block_bytes, bytes)?;
        let manifest = Manifest::parse(object, &index)?;
        let prepared = Prepared::parse(&manifest, &index)?;
        let beside: Vec<_> = prepared.ranges().copied().collect();
        check_ranges(&index.shards, &beside, user_block_bytes, bytes)?;
        let times = LoadTimes::default();
        Ok(PackFile {
            path: path.to_owned(),
            file,
            identity,
            index,
            manifest,
            prepared,
            times,
            user_block_bytes,
        })
    }

    /// Path as opened.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// File size.
    pub fn bytes(&self) -> u64 {
        self.identity.bytes
    }
    /// The encoding.
    pub fn profile(&self) -> Profile {
        self.index.profile
    }
    /// The four axes.
    pub fn shape(&self) -> Shape4 {
        self.index.shape
    }
    /// Scan positions of every shard.
    pub fn scans_per_shard(&self) -> usize {
        self.index.scans_per_shard
    }
    /// Shard records in scan order.
    pub fn shards(&self) -> &[ShardRecord] {
        &self.index.shards
    }
    /// Excluded pixels in file order.
    pub fn excluded(&self) -> &[u32] {
        &self.index.excluded
    }
    /// Excluded pixels ascending, with the identity of the mask they came from (all zeros where none is recorded).
    pub fn exclusions(&self) -> Exclusions {
        let mut pixels = self.index.excluded.clone();
        pixels.sort_unstable();
        Exclusions {
            pixels,
            mask_sha256: self.manifest.detector_mask_sha256.map_or([0; 32], |d| d.0),
            origin: MaskOrigin::SourceMask,
        }
    }
    /// Content identity of the source it was made from.
    pub fn source_identity(&self) -> Digest {
        self.index.source_identity
    }
    /// The validated manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    /// Bytes the acquisition takes in memory after loading: bitstreams and their tables.
    pub fn resident_bytes(&self) -> u64 {
        self.kept_bytes().sum()
    }
    /// Bytes that each shard takes in memory.
    fn kept_bytes(&self) -> impl Iterator<Item = u64> {
        let bases = match self.index.profile {
            Profile::U16 => 4 * self.index.shape.detector.pixels() as u64,
            Profile::U8 => 0,
        };
        self.index.shards.iter().map(move |s| s.decoded_bytes + s.widths_bytes + bases)
    }
    /// The most memory that a thread which loads a shard takes beside what is kept of it: the lengths of compressed
    /// blocks, and a few runs of them.
    pub fn staged_bytes(&self) -> u64 {
        match self.index.profile {
            Profile::U16 => {
                let lengths = self.index.shards.iter().map(|s| s.lengths_bytes).max();
                lengths.unwrap_or(0) + 4 * pack_u16::RUN_BYTES as u64
            }
            Profile::U8 => 0,
        }
    }
    /// The most memory that one shard takes, loading it included.
    pub fn shard_bytes(&self) -> u64 {
        self.kept_bytes().max().unwrap_or(0) + self.staged_bytes()
    }

    /// What remains of the task's memory budget while the largest shard is being loaded.
    ///
    /// # Errors
    /// `over_budget` when it does not hold that shard.
    pub(super) fn room_beside_a_shard(&self, task: &Task) -> Result<u64> {
        let needed = self.shard_bytes();
        task.memory_budget().checked_sub(needed).ok_or_else(|| {
            Error::new(
                ModelCode::OverBudget,
                format!(
                    "one shard takes up to {needed} bytes of memory, the budget is {}",
                    task.memory_budget()
                ),
            )
            .hint("allow more with --max-memory")
            .with("needed_bytes", needed)
        })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
    /// Fails when the open file is no longer what it was when it was opened.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        self.identity.check_open(&self.file, &self.path)
    }
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, offset).map_err(|e| Error::io("read", &self.path, e))
    }
}

/// End of the HDF5 user block, inside which no data may lie. The superblock's signature tells it; in a file without
/// one it is taken to be the largest power of two at which the first payload can begin, unless tables that lie before the
/// payload begin at a smaller one or reach across it.
fn user_block_end(file: &File, file_bytes: u64, prelude: &Prelude, index: &Index) -> u64 {
    const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
    // An offset past the end of the file is refused by the range check that follows.
    let first_payload = index.shards.iter().map(|s| s.payload_offset).min().unwrap_or(0).min(file_bytes);
    let mut last = 0;
    let mut at = 512u64;
    while at <= first_payload {
        if at >= prelude.index_end() {
            let mut found = [0; 8];
            if file.read_exact_at(&mut found, at).is_ok() && found == SIGNATURE {
                return at;
            }
            last = at;
        }
        at *= 2;
    }
    let tables = || {
        let of = |s: &ShardRecord| [(s.lengths_offset, s.lengths_bytes), (s.widths_offset, s.widths_bytes)];
        index.shards.iter().flat_map(of).filter(|&(offset, bytes)| bytes > 0 && offset >= prelude.index_end())
    };
    let before = |end: u64, (offset, bytes): (u64, u64)| {
        offset < end && (offset.is_power_of_two() || bytes > end - offset)
    };
    while last > 0 && tables().any(|range| before(last, range)) {
        last /= 2;
    }
    last.max(prelude.index_end())
}
