//! Opening anything: a pack, a `.qem` file or an original, told apart by their first bytes.

use crate::{
    Acquisition, Dark, DarkProducts, Error, FrameSource, FrameSourceProducts, OpenOptions, PackFile,
    PackSource, Products, QemFile, QemProducts, Resident, Result, Samples, Shape4, ShardReader, Task, Values,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a path turned out to be.
pub enum Opened {
    /// A Lossless Pack Format v1 container.
    Pack(Arc<PackFile>),
    /// A portable saved copy.
    Qem(Arc<QemFile>),
    /// An acquisition as the instrument wrote it.
    Original(Arc<dyn FrameSource>),
}

/// The most asked-for facts of a pack.
#[derive(Clone, Debug)]
pub struct PackInfo {
    /// The four axes.
    pub shape: Shape4,
    /// Bytes it takes in memory after loading.
    pub resident_bytes: u64,
    /// Bytes of the dense raw array divided by the file size.
    pub ratio: f64,
}

/// Opens a pack, a `.qem` file or an original by its contents.
///
/// # Errors
/// Those of [`PackFile::open`], [`QemFile::open`] and [`open_original`].
pub fn open(path: &Path, options: &OpenOptions) -> Result<Opened> {
    if !path.is_dir() {
        if PackFile::probe(path)? {
            return PackFile::open(path).map(|pack| Opened::Pack(Arc::new(pack)));
        }
        if is_qem(path)? {
            return QemFile::open(path).map(|file| Opened::Qem(Arc::new(file)));
        }
    }
    open_original(path, options).map(Opened::Original).map_err(neither_container)
}

/// What a reader of originals says of a file that was looked at as a container first: of one in no known format, that it
/// is none of these either.
#[must_use]
pub fn neither_container(error: Error) -> Error {
    match (error.code(), error.advice()) {
        ("unknown_format", None) => error
            .hint("a packed file or a `.qem` file is told by its first bytes, which are those of neither"),
        _ => error,
    }
}

/// Whether a file is a `.qem` file by its first bytes, or at least by its name: then its refusal says more than that no
/// reader knows the contents.
///
/// # Errors
/// `io`.
pub fn is_qem(path: &Path) -> Result<bool> {
    let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("qem"));
    // Opening a pipe would wait for a writer.
    let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file());
    Ok(!special && (QemFile::probe(path)? || named))
}

/// The packs and `.qem` files in a folder and everything below it, in the order of a [`catalog`](crate::catalog), which
/// lists originals. They are told by their first bytes, or by the name of a `.qem` file; what cannot be read and is not
/// named so is left out.
///
/// # Errors
/// `io` when the folder cannot be listed; `cancelled`.
pub fn containers_below(folder: &Path, task: &Task) -> Result<Vec<PathBuf>> {
    let mut found = stempack_sources::files_below(folder, task)?;
    let named = |path: &Path| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("qem"));
    found.retain(|path| named(path) || is_container(path).unwrap_or(false));
    Ok(found)
}

fn is_container(path: &Path) -> Result<bool> {
    Ok(PackFile::probe(path)? || is_qem(path)?)
}

/// Opens anything as raw frames: to write it in another container, or to compare it.
///
/// # Errors
/// Those of [`open`], and `raw_not_available` for packs that cannot prove their raw values.
pub fn open_source(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    Ok(match open(path, options)? {
        Opened::Pack(pack) => Arc::new(PackSource::new(pack)?),
        Opened::Qem(file) => file,
        Opened::Original(source) => source,
    })
}

/// Opens an original acquisition.
///
/// # Errors
/// `unknown_format` and the readers' own codes.
pub fn open_original(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    stempack_sources::open(path, options)
}

/// Products straight from an original. Fails with `missing_scan_shape` when neither the source nor the caller says how
/// its frames lie in the scan.
///
/// # Errors
/// `missing_scan_shape`, and those of [`FrameSourceProducts::new`]. When the scan shape is missing and one of the first
/// frames is damaged, the damage is reported, with the missing shape as the hint: it is the graver fault, and stating
/// a shape would only lead to it.
pub fn original_products(source: Arc<dyn FrameSource>) -> Result<FrameSourceProducts> {
    if let Err(missing) = stempack_sources::require_shape(source.acquisition()) {
        return Err(match read_first_frames(source.as_ref()) {
            Ok(()) => missing,
            Err(damage) => damage.hint(format!("{}; the scan shape must be stated too", missing.message())),
        });
    }
    FrameSourceProducts::new(source)
}

/// Decodes the first frames, about 64 MiB of them.
fn read_first_frames(source: &dyn FrameSource) -> Result<()> {
    let acquisition = source.acquisition();
    let pixels = acquisition.detector.pixels();
    let mut frame = Samples::zeroed(acquisition.sample, pixels);
    let frames = (64 << 20) / (pixels * acquisition.sample.bytes()).max(1);
    (0..acquisition.frame_count.min(frames as u64))
        .try_for_each(|index| source.read(index, frame.as_mut(), &Task::new()))
}

impl Opened {
    /// Something that answers many questions: for a pack a resident, loaded and authenticated, or, where the memory
    /// budget does not hold it, a reader that loads shard after shard for every question; for an original a stream.
    ///
    /// # Errors
    /// Those of [`Resident::load`], [`ShardReader::new`] and [`original_products`].
    pub fn products(&self, task: &Task) -> Result<Box<dyn Products>> {
        match self {
            Opened::Pack(pack) if Resident::needed_bytes(pack) <= task.memory_budget() => {
                Ok(Box::new(Resident::load(pack, task)?))
            }
            _ => self.frames(task),
        }
    }
    /// Something that answers one question or gives frames: shard after shard of a pack, each authenticated before it
    /// is used; the blocks of a `.qem` file; a stream of an original.
    ///
    /// # Errors
    /// Those of [`ShardReader::new`] and [`original_products`].
    pub fn frames(&self, task: &Task) -> Result<Box<dyn Products>> {
        Ok(match self {
            Opened::Pack(pack) => Box::new(ShardReader::new(pack.clone(), task)?),
            Opened::Qem(file) => Box::new(QemProducts::new(file.clone())?),
            Opened::Original(source) => Box::new(original_products(source.clone())?),
        })
    }
    /// Something that answers questions and gives frames less a mean dark frame; raw frames stay as they are.
    ///
    /// # Errors
    /// Those of [`DarkProducts::new`], and `raw_not_available` for packs that cannot prove their raw values.
    pub fn less_dark(&self, dark: &Dark) -> Result<Box<dyn Products>> {
        let source: Arc<dyn FrameSource> = match self {
            Opened::Pack(pack) => Arc::new(PackSource::new(pack.clone())?),
            Opened::Qem(file) => file.clone(),
            Opened::Original(source) => source.clone(),
        };
        Ok(Box::new(DarkProducts::new(source, dark.background.clone())?))
    }
    /// SHA-256 of the little-endian stream of all frames, raw or working, where the file records one.
    pub fn recorded_sha256(&self, values: Values) -> Option<[u8; 32]> {
        match (self, values) {
            (Opened::Pack(pack), Values::Raw) => pack.manifest().raw_digest().map(|d| d.0),
            (Opened::Pack(pack), Values::Working) => pack.manifest().working_digest().map(|d| d.0),
            (Opened::Qem(file), Values::Raw) => file.recorded_sha256(),
            (Opened::Original(source), Values::Raw) => source.recorded_sha256(),
            (Opened::Qem(_) | Opened::Original(_), Values::Working) => None,
        }
    }
    /// What the original is, or what a `.qem` file says of it; `None` for a pack.
    pub fn acquisition(&self) -> Option<&Acquisition> {
        match self {
            Opened::Pack(_) => None,
            Opened::Qem(file) => Some(file.acquisition()),
            Opened::Original(source) => Some(source.acquisition()),
        }
    }
}

impl PackInfo {
    /// Facts of an opened pack.
    pub fn of(pack: &PackFile) -> Self {
        let sample = pack.manifest().source_note.as_ref().map_or(2, |n| n.sample.bytes() as u64);
        let logical = pack.shape().samples().unwrap_or(u64::MAX).saturating_mul(sample);
        PackInfo {
            shape: pack.shape(),
            resident_bytes: pack.resident_bytes(),
            ratio: logical as f64 / pack.bytes() as f64,
        }
    }
}
