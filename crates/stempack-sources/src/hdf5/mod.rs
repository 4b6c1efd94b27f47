//! HDF5 as an index: links, attributes, small values and where each dataset's bytes lie. Nothing hot goes through the
//! library; payload is read by position and decoded here.
//!
//! Links are followed by this module, one component at a time, never by the library, so that no recorded name can
//! lead out of the file unnoticed.

mod frames;
mod index;
mod lzf;
mod pipeline;
mod raw;
mod read;
mod value;
mod watch;

pub use frames::FrameFailure;
pub use index::{Chunk, Chunks, DatasetIndex, Element, ElementClass, MAX_CHUNK_BYTES, Order, Storage};
pub use pipeline::{Filter, Pipeline};
pub use read::{ReadCause, ReadFailure};
pub use value::{MAX_NUMBERS, MAX_TEXT, Value};
pub use watch::set_patience;
pub(crate) use watch::watched;

pub(crate) use value::shortest;

use crate::error::SourceCode;
use hdf5_metno as h5;
use raw::RawLink;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use stempack_model::{Error, Result};

/// Most soft links followed on the way to one object.
const MAX_HOPS: u32 = 32;
/// Most path components walked on the way to one object, soft link targets included.
const MAX_COMPONENTS: u32 = 1024;
/// Most links listed of one group.
const MAX_LINKS: usize = 1 << 17;
const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// Whether a file carries the HDF5 signature, at its start or after a user block.
///
/// # Errors
/// `io` when the file cannot be read.
pub fn has_signature(path: &Path) -> Result<bool> {
    Ok(superblock(path)?.is_some())
}

/// Where the signature of a file stands.
fn superblock(path: &Path) -> Result<Option<u64>> {
    let failed = |e| Error::io("read", path, e);
    // A directory or a pipe is not opened at all: reading a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Ok(None);
    }
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut at = 0u64;
    while at + 8 <= length {
        let mut found = [0; 8];
        file.seek(SeekFrom::Start(at)).map_err(failed)?;
        match file.read_exact(&mut found) {
            Ok(()) if found == *SIGNATURE => return Ok(Some(at)),
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => return Err(failed(e)),
        }
        at = if at == 0 { 512 } else { at * 2 };
    }
    Ok(None)
}

/// Whether a file of the latest format is marked as open for writing; older formats have no such mark.
fn marked_as_being_written(path: &Path) -> bool {
    use std::os::unix::fs::FileExt;
    let Ok(Some(at)) = superblock(path) else { return false };
    let mut head = [0; 12];
    let read = std::fs::File::open(path).and_then(|file| file.read_exact_at(&mut head, at));
    // Version 3 of the superblock, its sizes of offsets and lengths, and flags of consistency: 1 for writing, 4 for a
    // reader beside the writer.
    read.is_ok() && matches!(head[8..], [3, 2 | 4 | 8, 2 | 4 | 8, 1 | 4 | 5])
}

fn cannot_open(path: &Path, name: &str, error: &h5::Error) -> Error {
    if marked_as_being_written(path) {
        let message = format!(
            "`{name}` is marked as being written: another program has it open, or ended without closing it"
        );
        return Error::new(SourceCode::BeingWritten, message).with("path", path.display().to_string()).hint(
            "close it there and try again; if no program writes it any more, clear the mark on a copy with `h5clear -s`",
        );
    }
    let said = said(error);
    if said.contains("unable to lock file") {
        // Files are opened without locks, but a setting of the environment outranks what a program asks for.
        let message = format!("`{name}` is locked by another program, or its disk has no locks");
        return Error::new(SourceCode::FileLocked, message).with("path", path.display().to_string()).hint(
            "close it there, or take HDF5_USE_FILE_LOCKING out of the environment: reading needs no lock",
        );
    }
    let message = format!("cannot open `{name}` as HDF5: {said}");
    Error::new(SourceCode::UnreadableHdf5, message)
        .with("path", path.display().to_string())
        .hint("it is damaged, cut short, or not written to its end: close it in the program that writes it, or copy it anew")
}

/// One HDF5 file, open for indexing; clones share the open file.
#[derive(Clone)]
pub struct File {
    inner: h5::File,
    path: PathBuf,
    name: String,
    bytes: u64,
}

/// What a path leads to.
pub enum Found {
    /// Nothing: a component does not exist, or a soft link dangles.
    Nothing,
    /// A group.
    Group(Group),
    /// A dataset.
    Dataset(Dataset),
    /// An external link is in the way.
    Elsewhere {
        /// Name of the other file, as recorded.
        file: Vec<u8>,
        /// Path to look up in that file.
        path: String,
    },
    /// A named datatype, or a link that cannot be read.
    Other,
}

/// A link as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// An object of the same file.
    Hard,
    /// A path in the same file.
    Soft(String),
    /// A path in another file.
    External {
        /// Name of the file, as recorded.
        file: Vec<u8>,
        /// Path in that file.
        path: String,
    },
    /// A link of a user-defined class, or one that is not text.
    Unreadable,
}

impl From<RawLink> for Link {
    fn from(link: RawLink) -> Self {
        match link {
            RawLink::Hard => Link::Hard,
            RawLink::Soft(target) => String::from_utf8(target).map_or(Link::Unreadable, Link::Soft),
            RawLink::External { file, path } => match String::from_utf8(path) {
                Ok(path) => Link::External { file, path },
                Err(_) => Link::Unreadable,
            },
            RawLink::Unreadable => Link::Unreadable,
        }
    }
}

/// A group of an open file.
pub struct Group {
    inner: h5::Group,
    path: String,
}

/// A dataset of an open file, whose storage stays inside the file.
pub struct Dataset {
    inner: h5::Dataset,
    path: String,
}

/// Identity of an object within its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectId(h5::LocationToken);

/// What the library said, in one line.
fn said(error: &h5::Error) -> String {
    match error {
        h5::Error::Internal(text) => text.clone(),
        h5::Error::HDF5(_) => match error.stack() {
            Some(stack) => stack.description().to_owned(),
            None => "unknown library error".to_owned(),
        },
    }
}

/// A path that is text, which is all that the binding takes: a name that is none is reached through its descriptor,
/// which has to stay open for as long.
fn as_text(path: &Path) -> Result<(PathBuf, Option<std::fs::File>)> {
    use std::os::fd::AsRawFd;
    if path.to_str().is_some() {
        return Ok((path.to_owned(), None));
    }
    let file = std::fs::File::open(path).map_err(|e| Error::io("open", path, e))?;
    Ok((PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd())), Some(file)))
}

impl File {
    /// Opens a file for reading, without locks.
    ///
    /// # Errors
    /// `io`, `not_hdf5`, `unreadable_hdf5`.
    pub fn open(path: &Path) -> Result<Self> {
        let name =
            path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        if !has_signature(path)? {
            return Err(Error::new(SourceCode::NotHdf5, format!("`{name}` has no HDF5 signature"))
                .with("path", path.display().to_string()));
        }
        let bytes = std::fs::metadata(path).map_err(|e| Error::io("stat", path, e))?.len();
        watch::check(path)?;
        let (reachable, _open) = as_text(path)?;
        let inner = h5::File::with_options()
            .with_fapl(|access| access.file_locking(false))
            .open(&reachable)
            .map_err(|e| cannot_open(path, &name, &e))?;
        watch::step();
        Ok(File { inner, path: path.to_owned(), name, bytes })
    }

    /// Path as opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// File name without its folder, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Size when opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes before the HDF5 signature.
    fn user_block(&self) -> u64 {
        self.inner.userblock()
    }

    fn broken(&self, what: &str, at: &str, error: &h5::Error) -> Error {
        Error::new(
            SourceCode::UnreadableHdf5,
            format!("cannot {what} `{at}` of `{}`: {}", self.name, said(error)),
        )
        .with("path", self.path.display().to_string())
    }

    fn root(&self) -> Result<Group> {
        let inner = self.inner.group("/").map_err(|e| self.broken("open", "/", &e))?;
        Ok(Group { inner, path: String::new() })
    }

    /// Follows `path` from the root group, hard and soft links only.
    ///
    /// # Errors
    /// `unreadable_hdf5` when an object on the way is damaged or soft links run in a circle.
    pub fn find(&self, path: &str) -> Result<Found> {
        let mut ahead: VecDeque<String> = components(path).collect();
        let mut here = self.root()?;
        let (mut hops, mut steps) = (0, 0);
        while let Some(name) = ahead.pop_front() {
            steps += 1;
            if steps > MAX_COMPONENTS || hops > MAX_HOPS {
                return Err(Error::new(
                    SourceCode::UnreadableHdf5,
                    format!("`{path}` of `{}` leads through too many links", self.name),
                )
                .with("path", self.path.display().to_string()));
            }
            match raw::link(here.inner.id(), &name).map(Link::from) {
                None => return Ok(Found::Nothing),
                Some(Link::Unreadable) => return Ok(Found::Other),
                Some(Link::Soft(target)) => {
                    hops += 1;
                    if target.starts_with('/') {
                        here = self.root()?;
                    }
                    for component in components(&target).collect::<Vec<_>>().into_iter().rev() {
                        ahead.push_front(component);
                    }
                }
                Some(Link::External { file, path }) => {
                    let mut path = path;
                    for rest in ahead {
                        path.push('/');
                        path.push_str(&rest);
                    }
                    return Ok(Found::Elsewhere { file, path });
                }
                Some(Link::Hard) => match self.open_child(&here, &name)? {
                    Found::Group(group) => here = group,
                    found if ahead.is_empty() => return Ok(found),
                    _ => return Ok(Found::Nothing),
                },
            }
        }
        Ok(Found::Group(here))
    }

    fn open_child(&self, group: &Group, name: &str) -> Result<Found> {
        watch::step();
        let path = format!("{}/{name}", group.path);
        let kind = group.inner.loc_type_by_name(name).map_err(|e| self.broken("look at", &path, &e))?;
        match kind {
            h5::LocationType::Group => {
                let inner = group.inner.group(name).map_err(|e| self.broken("open", &path, &e))?;
                Ok(Found::Group(Group { inner, path }))
            }
            h5::LocationType::Dataset => {
                let inner = group.inner.dataset(name).map_err(|e| self.broken("open", &path, &e))?;
                Ok(Found::Dataset(Dataset { inner, path }))
            }
            _ => Ok(Found::Other),
        }
    }

    /// The links of a group in byte order of their names; names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// `unreadable_hdf5`, or `too_large` for a group with more links than any acquisition has.
    pub fn links(&self, group: &Group) -> Result<Vec<(String, Link)>> {
        watch::step();
        let (names, complete) = raw::names(group.inner.id(), MAX_LINKS).ok_or_else(|| {
            Error::new(
                SourceCode::UnreadableHdf5,
                format!("cannot list `{}` of `{}`", group.path(), self.name),
            )
        })?;
        if !complete {
            return Err(Error::new(
                SourceCode::TooLarge,
                format!("`{}` of `{}` has more than {MAX_LINKS} links", group.path(), self.name),
            ));
        }
        Ok(names
            .into_iter()
            .filter_map(|name| String::from_utf8(name).ok())
            .filter_map(|name| raw::link(group.inner.id(), &name).map(|link| (name, link.into())))
            .collect())
    }

    /// The link `name` of a group, or `None` when there is none.
    pub fn link(&self, group: &Group, name: &str) -> Option<Link> {
        raw::link(group.inner.id(), name).map(Link::from)
    }

    /// The object behind a hard link of `group`.
    ///
    /// # Errors
    /// `unreadable_hdf5`.
    pub fn child(&self, group: &Group, name: &str) -> Result<Found> {
        match raw::link(group.inner.id(), name) {
            Some(RawLink::Hard) => self.open_child(group, name),
            _ => Ok(Found::Nothing),
        }
    }

    /// The small value recorded in the dataset at `path`; absent when there is none or it cannot be read.
    pub fn value(&self, path: &str) -> Option<Value> {
        match self.find(path).ok()? {
            Found::Dataset(dataset) => dataset.value(),
            _ => None,
        }
    }

    /// The small value of an attribute of the object at `path`; absent when there is none or it cannot be read.
    pub fn attribute(&self, path: &str, name: &str) -> Option<Value> {
        match self.find(path).ok()? {
            Found::Dataset(dataset) => dataset.attribute(name),
            Found::Group(group) => group.attribute(name),
            _ => None,
        }
    }

    /// Whether the object at `path` has an attribute `name`, readable or not.
    pub fn has_attribute(&self, path: &str, name: &str) -> bool {
        match self.find(path) {
            Ok(Found::Dataset(dataset)) => dataset.inner.attr(name).is_ok(),
            Ok(Found::Group(group)) => group.inner.attr(name).is_ok(),
            _ => false,
        }
    }

    /// Whether `path` leads to a group of this file.
    pub fn has_group(&self, path: &str) -> bool {
        matches!(self.find(path), Ok(Found::Group(_)))
    }
}

fn components(path: &str) -> impl Iterator<Item = String> + '_ {
    path.split('/').filter(|c| !c.is_empty() && *c != ".").map(str::to_owned)
}

fn attribute(of: &h5::Location, name: &str) -> Option<Value> {
    watch::step();
    let found = of.attr(name).ok()?;
    value::read(&found)
}

fn attribute_names(of: &h5::Location) -> Vec<String> {
    watch::step();
    let mut names = of.attr_names().unwrap_or_default();
    names.sort();
    names
}

impl Group {
    /// Absolute path by which it was reached.
    pub fn path(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }
    /// A small attribute.
    pub fn attribute(&self, name: &str) -> Option<Value> {
        attribute(&self.inner, name)
    }
    /// Names of its attributes in order.
    pub fn attribute_names(&self) -> Vec<String> {
        attribute_names(&self.inner)
    }
    /// Identity within the file.
    pub fn id(&self) -> Option<ObjectId> {
        self.inner.loc_info().ok().map(|info| ObjectId(info.token))
    }
}

impl Dataset {
    /// Absolute path by which it was reached.
    pub fn path(&self) -> &str {
        &self.path
    }
    /// A small attribute.
    pub fn attribute(&self, name: &str) -> Option<Value> {
        attribute(&self.inner, name)
    }
    /// Names of its attributes in order.
    pub fn attribute_names(&self) -> Vec<String> {
        attribute_names(&self.inner)
    }
    /// Identity within the file.
    pub fn id(&self) -> Option<ObjectId> {
        self.inner.loc_info().ok().map(|info| ObjectId(info.token))
    }
    /// Its value when it is small enough to be one and stored in this file.
    pub fn value(&self) -> Option<Value> {
        let properties = self.inner.create_plist().ok()?;
        let inside = properties.get_layout().ok()? != h5::plist::dataset_create::Layout::Virtual
            && properties.get_external().ok()?.is_empty();
        if inside { value::read(&self.inner) } else { None }
    }
    /// Number of axes; `None` when it cannot be read or the dataset is virtual.
    pub fn rank(&self) -> Option<usize> {
        if self.is_virtual() { None } else { self.inner.get_shape().ok().map(|s| s.len()) }
    }
    /// Whether its samples are drawn from other datasets.
    pub fn is_virtual(&self) -> bool {
        self.inner
            .create_plist()
            .and_then(|p| p.get_layout())
            .is_ok_and(|layout| layout == h5::plist::dataset_create::Layout::Virtual)
    }
}
