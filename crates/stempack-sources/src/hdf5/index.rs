//! Where the bytes of one dataset lie: shape, element type, layout, filters and a checked chunk table.
//!
//! Everything the library reports is held against the file length before it is believed, so that reading later needs
//! no library and no further checks of the table.

use super::pipeline::Pipeline;
use super::{Dataset, File, raw, said};
use crate::error::SourceCode;
use hdf5_metno::datatype::ByteOrder;
use hdf5_metno::plist::dataset_create::Layout;
use hdf5_metno::types::TypeDescriptor;
use std::path::{Path, PathBuf};
use stempack_model::{Error, Result};

/// Largest decoded chunk that is read; HDF5 itself ends at 4 GiB.
pub const MAX_CHUNK_BYTES: u64 = 1 << 30;

/// Class of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementClass {
    /// Unsigned integers.
    Unsigned,
    /// Signed integers.
    Signed,
    /// Floating-point numbers.
    Float,
    /// Anything else of a fixed size; its bytes are passed on as they are.
    Other,
}

/// Byte order of stored elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first, or single bytes.
    Little,
    /// Most significant byte first.
    Big,
}

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Class.
    pub class: ElementClass,
    /// Bytes of one element.
    pub bytes: usize,
    /// Stored byte order.
    pub order: Order,
}

/// One stored chunk; its place in the table is its place in the chunk grid, row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Absolute position in the file.
    pub address: u64,
    /// Stored bytes.
    pub bytes: u64,
    /// Bit `i` set: filter `i` of the pipeline was not applied to this chunk.
    pub skipped_filters: u32,
}

/// A chunked layout.
#[derive(Clone, Debug)]
pub struct Chunks {
    /// Extent of one chunk along each axis.
    pub dims: Vec<u64>,
    /// Number of chunks along each axis.
    pub grid: Vec<u64>,
    /// How stored bytes become elements.
    pub pipeline: Pipeline,
    /// Every chunk of the grid.
    pub table: Vec<Chunk>,
    /// Decoded bytes of one chunk.
    pub decoded_bytes: usize,
}

/// How the elements are stored.
#[derive(Clone, Debug)]
pub enum Storage {
    /// One run of bytes at this position.
    Contiguous(u64),
    /// In chunks.
    Chunked(Chunks),
    /// Small enough to stand in the object header; the bytes themselves, numbers little-endian.
    Compact(Vec<u8>),
}

/// A dataset that can be read without the library.
#[derive(Clone, Debug)]
pub struct DatasetIndex {
    pub(super) file: PathBuf,
    pub(super) file_name: String,
    pub(super) object: String,
    /// Extent along each axis; a scalar has one axis of one element.
    pub(super) shape: Vec<u64>,
    pub(super) element: Element,
    pub(super) storage: Storage,
}

impl DatasetIndex {
    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }
    /// The file's name, for people.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }
    /// Path of the dataset in the file.
    pub fn object(&self) -> &str {
        &self.object
    }
    /// Extent along each axis.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }
    /// Type of the elements.
    pub fn element(&self) -> Element {
        self.element
    }
    /// How the elements are stored.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }
    /// Decoded size of the whole dataset.
    pub fn decoded_bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.element.bytes as u64
    }

    /// Indexes a dataset: every chunk present exactly once and inside the file, every filter known.
    ///
    /// # Errors
    /// `unsupported_layout`, `unsupported_filter`, `too_large`, `missing_chunk`, `corrupt_payload`,
    /// `unreadable_hdf5`; the message names file and dataset.
    pub fn build(file: &File, dataset: &Dataset) -> Result<Self> {
        super::watch::step();
        Builder { file, dataset, user_block: file.user_block() }
            .build()
            .map_err(|e| e.at(format_args!("`{}` of `{}`", dataset.path(), file.name())))
            .map_err(|e| e.with("path", file.path().display().to_string()))
    }
}

struct Builder<'a> {
    file: &'a File,
    dataset: &'a Dataset,
    user_block: u64,
}

impl Dataset {
    /// Type of the elements.
    ///
    /// # Errors
    /// `unsupported_layout` for a type whose stored bytes are not its values.
    pub fn element(&self) -> Result<Element> {
        let broken = |e| refuse(SourceCode::UnreadableHdf5, format!("its type cannot be read: {}", said(&e)));
        let datatype = self.inner.dtype().map_err(broken)?;
        let class = match datatype.to_descriptor() {
            Ok(TypeDescriptor::Unsigned(_)) => ElementClass::Unsigned,
            Ok(TypeDescriptor::Integer(_)) => ElementClass::Signed,
            Ok(TypeDescriptor::Float(_)) => ElementClass::Float,
            // Bytes in the file of these are references to elsewhere.
            Ok(
                TypeDescriptor::VarLenArray(_) | TypeDescriptor::VarLenAscii | TypeDescriptor::VarLenUnicode,
            ) => {
                return Err(refuse(
                    SourceCode::UnsupportedLayout,
                    "elements of variable length are not read",
                ));
            }
            _ => ElementClass::Other,
        };
        let bytes = datatype.size();
        if bytes == 0 || bytes > 1 << 16 {
            return Err(refuse(
                SourceCode::UnsupportedLayout,
                format!("elements of {bytes} bytes are not read"),
            ));
        }
        let number = class != ElementClass::Other;
        if number && !raw::uses_all_bits(datatype.id()) {
            return Err(refuse(
                SourceCode::UnsupportedLayout,
                "numbers that use only some of their bits are not read",
            ));
        }
        if class == ElementClass::Float && !raw::is_ieee(datatype.id()) {
            return Err(refuse(
                SourceCode::UnsupportedLayout,
                format!("floats of {bytes} bytes that are not IEEE numbers are not read"),
            ));
        }
        let order = match datatype.byte_order() {
            ByteOrder::LittleEndian => Order::Little,
            ByteOrder::BigEndian if bytes == 1 || !number => Order::Little,
            ByteOrder::BigEndian => Order::Big,
            _ if !number => Order::Little,
            _ => {
                return Err(refuse(
                    SourceCode::UnsupportedLayout,
                    "its byte order is neither little nor big",
                ));
            }
        };
        Ok(Element { class, bytes, order })
    }
}

fn refuse(code: SourceCode, message: impl Into<String>) -> Error {
    Error::new(code, message)
}

impl Builder<'_> {
    fn build(&self) -> Result<DatasetIndex> {
        let broken = |e| refuse(SourceCode::UnreadableHdf5, format!("cannot be read: {}", said(&e)));
        let inner = &self.dataset.inner;
        let properties = inner.create_plist().map_err(broken)?;
        let layout = properties.get_layout().map_err(broken)?;
        // Asked first: even the shape of a virtual dataset may open other files.
        if layout == Layout::Virtual {
            return Err(refuse(
                SourceCode::UnsupportedLayout,
                "a virtual dataset, which only points into other datasets, is not read",
            )
            .hint("open the master that links the stored datasets"));
        }
        if !properties.get_external().map_err(broken)?.is_empty() {
            return Err(refuse(
                SourceCode::UnsupportedLayout,
                "samples stored in external raw files are not read",
            ));
        }
        let mut element = self.dataset.element()?;
        let mut shape: Vec<u64> = inner.get_shape().map_err(broken)?.into_iter().map(|n| n as u64).collect();
        if shape.is_empty() {
            shape.push(1);
        }
        let decoded = shape
            .iter()
            .try_fold(element.bytes as u64, |n, &d| n.checked_mul(d))
            .filter(|&n| n <= i64::MAX as u64)
            .ok_or_else(|| refuse(SourceCode::TooLarge, format!("the size of {shape:?} elements wraps")))?;
        let storage = match layout {
            Layout::Contiguous => Storage::Contiguous(self.contiguous(decoded)?),
            Layout::Compact => {
                let bytes = self.compact(element, decoded)?;
                // The library has turned the numbers already.
                element.order = Order::Little;
                Storage::Compact(bytes)
            }
            Layout::Chunked => {
                let dims = properties.get_chunk().map_err(broken)?.unwrap_or_default();
                let filters = raw::pipeline(properties.id()).ok_or_else(|| {
                    refuse(SourceCode::UnreadableHdf5, "its filter pipeline cannot be read")
                })?;
                let pipeline = Pipeline::new(&filters, element.bytes)?;
                Storage::Chunked(self.chunked(&shape, dims, pipeline, element.bytes)?)
            }
            Layout::Virtual => {
                return Err(refuse(SourceCode::UnsupportedLayout, "a virtual dataset is not read"));
            }
        };
        Ok(DatasetIndex {
            file: self.file.path().to_owned(),
            file_name: self.file.name().to_owned(),
            object: self.dataset.path().to_owned(),
            shape,
            element,
            storage,
        })
    }

    fn contiguous(&self, decoded: u64) -> Result<u64> {
        let Some(address) = self.dataset.inner.offset().filter(|&a| !self.undefined(a)) else {
            return if decoded == 0 {
                Ok(0)
            } else {
                Err(refuse(SourceCode::MissingChunk, "its samples were never written"))
            };
        };
        self.inside(address, decoded)?;
        let allocated = raw::storage_bytes(self.dataset.inner.id());
        if allocated != decoded {
            return Err(refuse(
                SourceCode::LengthMismatch,
                format!("{allocated} bytes are allocated for samples of {decoded} bytes"),
            ));
        }
        Ok(address)
    }

    /// The library adds the size of the user block even to the address that means "nowhere".
    fn undefined(&self, address: u64) -> bool {
        address.wrapping_sub(self.user_block) == u64::MAX || address == u64::MAX
    }

    fn inside(&self, address: u64, bytes: u64) -> Result<()> {
        match address.checked_add(bytes) {
            Some(end) if end <= self.file.bytes() && address >= self.user_block => Ok(()),
            _ => Err(refuse(
                SourceCode::CorruptPayload,
                format!("{bytes} bytes at {address} lie outside the {} bytes of the file", self.file.bytes()),
            )),
        }
    }

    /// Compact storage lives in the object header, which only the library reads; it is at most 64 KiB.
    fn compact(&self, element: Element, decoded: u64) -> Result<Vec<u8>> {
        if decoded > 1 << 16 {
            return Err(refuse(SourceCode::CorruptPayload, "compact storage of more than 64 KiB"));
        }
        let inner = &self.dataset.inner;
        macro_rules! read {
            ($($class:ident $bytes:literal $kind:ty),*) => {
                match (element.class, element.bytes) {
                    $((ElementClass::$class, $bytes) => inner
                        .read_raw::<$kind>()
                        .ok()
                        .map(|v| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()),)*
                    _ => None,
                }
            };
        }
        let bytes = read!(
            Unsigned 1 u8, Unsigned 2 u16, Unsigned 4 u32, Unsigned 8 u64, Signed 1 i8, Signed 2 i16,
            Signed 4 i32, Signed 8 i64, Float 4 f32, Float 8 f64
        );
        bytes.filter(|b| b.len() as u64 == decoded).ok_or_else(|| {
            refuse(SourceCode::UnsupportedLayout, "compact storage is read for integers and floats only")
        })
    }

    fn chunked(
        &self,
        shape: &[u64],
        dims: Vec<usize>,
        pipeline: Pipeline,
        element_bytes: usize,
    ) -> Result<Chunks> {
        let dims: Vec<u64> = dims.into_iter().map(|d| d as u64).collect();
        if dims.len() != shape.len() || dims.contains(&0) {
            return Err(refuse(
                SourceCode::UnsupportedLayout,
                format!("chunks of {dims:?} do not tile a shape of {shape:?}"),
            ));
        }
        let decoded_bytes = dims
            .iter()
            .try_fold(element_bytes as u64, |n, &d| n.checked_mul(d))
            .filter(|&n| n <= MAX_CHUNK_BYTES)
            .ok_or_else(|| {
                refuse(
                    SourceCode::TooLarge,
                    format!("chunks of {dims:?} elements exceed {MAX_CHUNK_BYTES} bytes"),
                )
            })?;
        let grid: Vec<u64> = shape.iter().zip(&dims).map(|(&n, &d)| n.div_ceil(d)).collect();
        let expected = grid.iter().product::<u64>();
        let table = self.table(&grid, &dims, expected)?;
        Ok(Chunks { dims, grid, pipeline, table, decoded_bytes: decoded_bytes as usize })
    }

    /// The chunk table, dense. Memory follows what the file really holds, never what its shape promises.
    fn table(&self, grid: &[u64], dims: &[u64], expected: u64) -> Result<Vec<Chunk>> {
        let mut found: Vec<(u64, Chunk)> = Vec::new();
        let mut misplaced: Option<Vec<u64>> = None;
        self.dataset
            .inner
            .chunks_visit(|info| {
                super::watch::step();
                match place(info.offset, dims, grid) {
                    Some(index) => {
                        let chunk =
                            Chunk { address: info.addr, bytes: info.size, skipped_filters: info.filter_mask };
                        found.push((index, chunk));
                        // More entries than the grid has places can only be a damaged index.
                        i32::from(found.len() as u64 > expected)
                    }
                    None => {
                        misplaced = Some(info.offset.to_vec());
                        1
                    }
                }
            })
            .map_err(|e| {
                refuse(SourceCode::UnreadableHdf5, format!("its chunk index cannot be read: {}", said(&e)))
            })?;
        if let Some(offset) = misplaced {
            return Err(refuse(
                SourceCode::CorruptPayload,
                format!("a chunk at {offset:?} is not in the chunk grid"),
            ));
        }
        // The library visits in index order, which usually is the order wanted already.
        if !found.is_sorted_by_key(|&(index, _)| index) {
            found.sort_by_key(|&(index, _)| index);
        }
        for (place, &(index, chunk)) in found.iter().enumerate() {
            let place = place as u64;
            let named = |index| chunk_name(index, grid, dims);
            if index < place {
                return Err(refuse(
                    SourceCode::CorruptPayload,
                    format!("the chunk of {} is stored twice", named(index)),
                ));
            }
            if index > place {
                return Err(missing(&named(place)));
            }
            if self.undefined(chunk.address) || chunk.bytes == 0 {
                return Err(missing(&named(index)));
            }
            self.inside(chunk.address, chunk.bytes)
                .map_err(|e| e.at(format_args!("the chunk of {}", named(index))))?;
        }
        if (found.len() as u64) < expected {
            return Err(missing(&chunk_name(found.len() as u64, grid, dims)));
        }
        Ok(found.into_iter().map(|(_, chunk)| chunk).collect())
    }
}

fn missing(name: &str) -> Error {
    refuse(SourceCode::MissingChunk, format!("the chunk of {name} was never written"))
}

/// Place of a chunk in the row-major grid, or `None` when its offset is not on the grid.
fn place(offset: &[u64], dims: &[u64], grid: &[u64]) -> Option<u64> {
    if offset.len() < dims.len() {
        return None;
    }
    let mut index = 0u64;
    for ((&at, &dim), &count) in offset.iter().zip(dims).zip(grid) {
        if !at.is_multiple_of(dim) || at / dim >= count {
            return None;
        }
        index = index.checked_mul(count)?.checked_add(at / dim)?;
    }
    Some(index)
}

/// A chunk named by the rows along the first axis that it holds (frames, for a stack).
fn chunk_name(index: u64, grid: &[u64], dims: &[u64]) -> String {
    let inner: u64 = grid.iter().skip(1).product::<u64>().max(1);
    let first = index / inner * dims.first().copied().unwrap_or(1);
    format!("row {} (index {first}) of the first axis", first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_row_major_and_on_the_grid() {
        let (dims, grid) = ([1, 4, 5], [3, 2, 2]);
        assert_eq!(place(&[0, 0, 0], &dims, &grid), Some(0));
        assert_eq!(place(&[0, 4, 0], &dims, &grid), Some(2));
        assert_eq!(place(&[2, 4, 5], &dims, &grid), Some(11));
        assert_eq!(place(&[3, 0, 0], &dims, &grid), None);
        assert_eq!(place(&[0, 3, 0], &dims, &grid), None);
        assert_eq!(place(&[0, 0], &dims, &grid), None);
    }
}
