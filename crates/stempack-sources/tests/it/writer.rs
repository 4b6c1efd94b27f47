//! Writes small acquisitions through the HDF5 library itself, one behaviour at a time.

use hdf5_metno::types::VarLenUnicode;
use hdf5_metno::{File, Group, H5Type, Location};
use std::path::{Path, PathBuf};

/// A folder in which acquisitions are put together.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    /// A new file.
    pub(crate) fn file(&self, name: &str) -> File {
        File::create(self.at(name)).unwrap()
    }
    /// A shard of `frames` frames of `rows` × `cols` samples counting up from `first`.
    pub(crate) fn shard(&self, name: &str, frames: usize, rows: usize, cols: usize, first: u16) {
        stack(&groups(&self.file(name), "/entry/data"), "data", frames, rows, cols, first);
    }
    /// A master that links shards by name, as `data_000001` and so on.
    pub(crate) fn master(&self, name: &str, shards: &[&str]) -> File {
        let file = self.file(name);
        let data = groups(&file, "/entry/data");
        for (i, shard) in shards.iter().enumerate() {
            data.link_external(shard, "/entry/data/data", &format!("data_{:06}", i + 1)).unwrap();
        }
        file
    }
    /// `run_master.h5` with one shard of `frames` frames of 2 × 3, and the open master to add to.
    pub(crate) fn run(&self, frames: usize) -> File {
        self.shard("run_data_000001.h5", frames, 2, 3, 0);
        self.master("run_master.h5", &["run_data_000001.h5"])
    }
}

/// The group at `path`, with everything above it.
pub(crate) fn groups(file: &File, path: &str) -> Group {
    let mut here = file.group("/").unwrap();
    for name in path.split('/').filter(|c| !c.is_empty()) {
        here =
            if here.link_exists(name) { here.group(name).unwrap() } else { here.create_group(name).unwrap() };
    }
    here
}

pub(crate) fn stack(group: &Group, name: &str, frames: usize, rows: usize, cols: usize, first: u16) {
    let samples: Vec<u16> = (0..frames * rows * cols).map(|i| first.wrapping_add(i as u16)).collect();
    let dataset = group.new_dataset::<u16>().shape([frames, rows, cols]).create(name).unwrap();
    dataset.write_raw(&samples).unwrap();
}

/// A scalar dataset, with units where there are some.
pub(crate) fn scalar<T: H5Type>(file: &File, path: &str, value: T, units: Option<&str>) {
    let (folder, name) = path.rsplit_once('/').unwrap();
    let dataset = groups(file, folder).new_dataset::<T>().create(name).unwrap();
    dataset.write_scalar(&value).unwrap();
    if let Some(units) = units {
        text_attribute(&dataset, "units", units);
    }
}

pub(crate) fn text(file: &File, path: &str, value: &str) {
    let value: VarLenUnicode = value.parse().unwrap();
    scalar(file, path, value, None);
}

pub(crate) fn text_attribute(of: &Location, name: &str, value: &str) {
    let value: VarLenUnicode = value.parse().unwrap();
    of.new_attr::<VarLenUnicode>().create(name).unwrap().write_scalar(&value).unwrap();
}

pub(crate) fn numbers_attribute<T: H5Type>(of: &Location, name: &str, values: &[T]) {
    of.new_attr::<T>().shape([values.len()]).create(name).unwrap().write_raw(values).unwrap();
}

/// An NXem block as the companion of `run_master.h5` carries it.
pub(crate) struct Companion {
    pub(crate) rows: i64,
    pub(crate) cols: i64,
    pub(crate) frames: i64,
    pub(crate) kind: &'static str,
    pub(crate) step: f64,
    pub(crate) step_units: Option<&'static str>,
}

impl Default for Companion {
    fn default() -> Self {
        Companion { rows: 2, cols: 3, frames: 1, kind: "regular", step: 0.4, step_units: Some("nm") }
    }
}

impl Companion {
    pub(crate) fn write(&self, file: &File) {
        let scan = "/electron_microscope/scan_controller/regular_scan";
        text(file, "/electron_microscope/scan_controller/scan_type", self.kind);
        scalar(file, &format!("{scan}/n_pixels_y"), self.rows, None);
        scalar(file, &format!("{scan}/n_pixels_x"), self.cols, None);
        scalar(file, &format!("{scan}/n_frames"), self.frames, None);
        for axis in ["pixel_size_y", "pixel_size_x"] {
            scalar(file, &format!("{scan}/{axis}"), self.step, self.step_units);
        }
        scalar(file, "/electron_microscope/electron_source/accelerating_voltage", 200_000.0f64, Some("V"));
    }
}
