//! Readers of originals: any bytes are refused, or frames and values can be asked for.

use std::path::Path;
use stempack_model::{Samples, Task};
use stempack_sources::hdf5::{DatasetIndex, File, Found, Group};
use stempack_sources::{OpenOptions, open};

/// How far a file is explored: enough to reach every kind of object, little enough to be quick.
const OBJECTS: usize = 64;
const DEPTH: usize = 6;
const ROWS_BYTES: u64 = 1 << 20;

/// The index layer walks a file, reads every value and indexes every dataset; then the readers of acquisitions try.
/// The HDF5 library is C and known to hang on some damaged files: run this target with limits of time and memory.
pub(crate) fn hdf5(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("fuzz_master.h5");
    if std::fs::write(&path, data).is_err() {
        return;
    }
    if let Ok(file) = File::open(&path)
        && let Ok(Found::Group(root)) = file.find("/")
    {
        walk(&file, &root, 0, &mut OBJECTS.clone());
    }
    first_frame(&path);
}

fn walk(file: &File, group: &Group, depth: usize, left: &mut usize) {
    for name in group.attribute_names() {
        group.attribute(&name);
    }
    let Ok(links) = file.links(group) else { return };
    for (name, _) in links {
        if *left == 0 || depth == DEPTH {
            return;
        }
        *left -= 1;
        match file.child(group, &name) {
            Ok(Found::Group(inner)) => walk(file, &inner, depth + 1, left),
            Ok(Found::Dataset(dataset)) => {
                dataset.value();
                for name in dataset.attribute_names() {
                    dataset.attribute(&name);
                }
                if let Ok(index) = DatasetIndex::build(file, &dataset) {
                    first_rows(&index);
                }
            }
            _ => {}
        }
    }
}

fn first_rows(index: &DatasetIndex) {
    let Ok(file) = std::fs::File::open(index.file()) else { return };
    let row = index.row_bytes();
    let rows = index.shape().first().copied().unwrap_or(1);
    if row == 0 || row > ROWS_BYTES {
        return;
    }
    let mut out = vec![0; (row * rows.min(ROWS_BYTES / row)) as usize];
    // Damaged rows are what is looked for; only a panic is a finding.
    let _ = index.read_rows(&file, 0, &mut out, &Task::new());
}

fn first_frame(path: &Path) {
    let Ok(source) = open(path, &OpenOptions::default()) else { return };
    let acquisition = source.acquisition();
    let pixels = acquisition.detector.pixels();
    if (pixels * acquisition.sample.bytes()) as u64 <= ROWS_BYTES {
        let mut frame = Samples::zeroed(acquisition.sample, pixels);
        // As above.
        let _ = source.read(0, frame.as_mut(), &Task::new());
    }
}

/// The XML of an EMPAD acquisition is refused or interpreted.
pub(crate) fn empad_xml(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        stempack_sources::fuzzing::empad_xml(text);
    }
}
