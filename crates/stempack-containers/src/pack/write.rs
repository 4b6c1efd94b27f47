//! The HDF5 skeleton of a pack: a user block and contiguous datasets whose bytes are written directly.
//!
//! The library lays out groups and datasets; nothing of the payload passes through it.

use crate::ContainerCode;
use hdf5::plist::dataset_create::{AllocTime, FillTime};
use hdf5_metno as hdf5;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use stempack_model::{Error, Result};

/// The group above all shards.
const ROOT: &str = "quantem_gpu";

pub(super) struct Skeleton {
    hdf5: hdf5::File,
    file: std::fs::File,
    path: PathBuf,
}

/// Element type of a dataset.
#[derive(Clone, Copy)]
pub(super) enum Element {
    U8,
    U32,
}

fn failed(what: &str) -> impl Fn(hdf5::Error) -> Error {
    move |e| Error::new(ContainerCode::Hdf5Write, format!("cannot {what}: {e}"))
}

/// Without object times the same source gives the same bytes.
fn create_group(hdf5: &hdf5::File, path: &str) -> Result<()> {
    let builder = hdf5.create_group_builder().obj_track_times(false);
    builder.create(path).map(drop).map_err(failed("create a group"))
}

impl Skeleton {
    /// Truncates `path` and lays out an empty file behind a user block of `user_block` bytes.
    pub(super) fn create(path: &Path, user_block: u64) -> Result<Self> {
        let hdf5 = hdf5::File::with_options()
            .with_fcpl(|p| p.userblock(user_block).obj_track_times(false))
            // Pages of their own make payloads mappable; default library bounds let every HDF5 1.8 tool open the file.
            .with_fapl(|p| p.alignment(4096, 4096).file_locking(false))
            .create(path)
            .map_err(failed("create the container"))?;
        for group in [ROOT.to_owned(), format!("{ROOT}/shards")] {
            create_group(&hdf5, &group)?;
        }
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|e| Error::io("open", path, e))?;
        Ok(Skeleton { hdf5, file, path: path.to_owned() })
    }

    /// Allocates a contiguous dataset of a shard and returns its absolute file offset.
    pub(super) fn dataset(&self, shard: usize, name: &str, element: Element, len: usize) -> Result<u64> {
        let group = format!("{ROOT}/shards/{shard:03}");
        if !self.hdf5.link_exists(&group) {
            create_group(&self.hdf5, &group)?;
        }
        let path = format!("{group}/{name}");
        let dataset = match element {
            Element::U8 => self.contiguous::<u8>(&path, len)?,
            Element::U32 => self.contiguous::<u32>(&path, len)?,
        };
        dataset.offset().ok_or_else(|| {
            Error::new(ContainerCode::Hdf5Write, format!("dataset `{path}` was given no place in the file"))
        })
    }

    /// A dataset whose bytes have their place at once and are written by nobody yet.
    fn contiguous<T: hdf5::H5Type>(&self, path: &str, len: usize) -> Result<hdf5::Dataset> {
        self.hdf5
            .new_dataset_builder()
            .empty::<T>()
            .shape(len)
            .no_chunk()
            .alloc_time(Some(AllocTime::Early))
            .fill_time(FillTime::Never)
            .obj_track_times(false)
            .create(path)
            .map_err(failed("create a dataset"))
    }

    /// Writes bytes at an absolute file offset.
    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|e| Error::io("write", &self.path, e))
    }

    /// Makes what has been written durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io("sync", &self.path, e))
    }

    /// Closes the HDF5 part and writes the user block over the reserved bytes.
    pub(super) fn finish(self, user_block: &[u8]) -> Result<()> {
        self.hdf5.flush().map_err(failed("flush the container"))?;
        self.hdf5.close().map_err(failed("close the container"))?;
        self.file.write_all_at(user_block, 0).map_err(|e| Error::io("write", &self.path, e))
    }
}
