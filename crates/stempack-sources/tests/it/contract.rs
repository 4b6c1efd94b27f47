//! What every reader must do, on acquisitions of every storage that the readers know.

use crate::common::copy_folder;
use crate::writer::{Companion, Folder, groups, scalar};
use std::path::Path;
use stempack_model::ScanShape;
use stempack_sources::hdf5::{DatasetIndex, File, Found, Storage};
use stempack_sources::{OpenOptions, open};
use stempack_testkit::SourceContract;

/// Copies what a test wrote, so that the suite may damage it.
fn check(folder: &Folder, entry: &str, expected: &[u8], boundaries: &[(&str, &[u64])]) {
    SourceContract {
        write: &|to| {
            for file in std::fs::read_dir(folder.path()).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
            }
            to.join(entry)
        },
        open: &|path| open(path, &OpenOptions::default()),
        expected,
        boundaries,
    }
    .check();
}

fn counting(samples: impl Iterator<Item = u16>) -> Vec<u8> {
    samples.flat_map(u16::to_le_bytes).collect()
}

/// The superblock's end, and where the chunks of a stack begin and end.
fn boundaries(path: &Path) -> Vec<u64> {
    let file = File::open(path).unwrap();
    let Found::Dataset(dataset) = file.find("/entry/data/data").unwrap() else { panic!("no stack") };
    let index = DatasetIndex::build(&file, &dataset).unwrap();
    let mut at = vec![8, 48, 96];
    if let Storage::Chunked(chunks) = index.storage() {
        at.extend(chunks.table.iter().flat_map(|c| [c.address, c.address + c.bytes]));
    }
    at
}

#[test]
fn linked_stacks_with_a_companion() {
    let folder = Folder::new();
    for (name, frames, first) in [("a.h5", 2, 0), ("b.h5", 1, 100), ("c.h5", 3, 200)] {
        folder.shard(name, frames, 2, 3, first);
    }
    drop(folder.master("run_master.h5", &["a.h5", "b.h5", "c.h5"]));
    Companion::default().write(&folder.file("run_em_metadata.h5"));
    let superblock: &[u64] = &[8, 48, 96];
    check(
        &folder,
        "run_master.h5",
        &counting((0..12).chain(100..106).chain(200..218)),
        &["a.h5", "b.h5", "c.h5", "run_master.h5", "run_em_metadata.h5"].map(|name| (name, superblock)),
    );
}

#[test]
fn a_shuffled_stack_of_several_frames_in_a_chunk() {
    let folder = Folder::new();
    let file = folder.file("run_data_000001.h5");
    let samples: Vec<u16> = (0..7 * 5 * 9).collect();
    let stack = groups(&file, "/entry/data").new_dataset::<u16>().chunk([2, 5, 9]).shuffle();
    stack.shape([7, 5, 9]).create("data").unwrap().write_raw(&samples).unwrap();
    drop(file);
    let master = folder.master("run_master.h5", &["run_data_000001.h5"]);
    scalar(&master, "/entry/instrument/detector/incident_energy", 200.0f64, Some("keV"));
    drop(master);
    let at = boundaries(&folder.at("run_data_000001.h5"));
    assert!(at.len() > 8, "chunks are stored: {at:?}");
    let options = OpenOptions { scan: Some(ScanShape::new(1, 7).unwrap()), ..OpenOptions::default() };
    assert_eq!(open(&folder.at("run_master.h5"), &options).unwrap().frames_together(), 2);
    check(&folder, "run_master.h5", &counting(0..7 * 5 * 9), &[("run_data_000001.h5", &at)]);
}

/// Bitshuffle with LZ4, as detectors write it; what is in it was established with an independent reader.
#[test]
fn a_stack_as_a_detector_writes_it() {
    let Some(from) = stempack_testkit::corpus("cases/c07-eiger-u32-sentinel") else { return };
    let case = stempack_testkit::expectations(&from.join("case.json"));
    let options = OpenOptions { scan: Some(ScanShape::new(2, 2).unwrap()), ..OpenOptions::default() };
    let source = open(&from.join("run_master.h5"), &options).unwrap();
    let all = crate::common::little_endian(&crate::common::read(&*source, 0, 4).unwrap());
    assert_eq!(case["expect"]["sha256_le_c_order"], crate::common::sha256(&all));
    let at = boundaries(&from.join("run_data_000001.h5"));
    SourceContract {
        write: &|to| {
            let copy = copy_folder(&from);
            for file in std::fs::read_dir(copy.path()).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
            }
            to.join("run_master.h5")
        },
        open: &|path| open(path, &options),
        expected: &all,
        boundaries: &[("run_data_000001.h5", &at)],
    }
    .check();
}
