//! A file that sends the HDF5 library round in circles is refused, and so is every other one meanwhile.
//!
//! A test program of its own: the thread that is given up holds the library's lock until the program ends.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic")]

use hdf5_metno as hdf5;
use std::path::Path;
use std::time::Duration;
use stempack_sources::{OpenOptions, open};

/// A master whose description is a text in a global heap, as everything of variable length is.
fn master(path: &Path) {
    let file = hdf5::File::create(path).unwrap();
    file.create_group("entry").unwrap().create_group("data").unwrap();
    let detector = file.create_group("entry/instrument/detector").unwrap();
    let text: hdf5::types::VarLenUnicode = "a detector".parse().unwrap();
    let dataset = detector.new_dataset::<hdf5::types::VarLenUnicode>().create("description").unwrap();
    dataset.write_scalar(&text).unwrap();
    let scan: hdf5::types::VarLenUnicode = "2x2".parse().unwrap();
    let data = file.group("entry/data").unwrap();
    data.new_attr::<hdf5::types::VarLenUnicode>().create("scan_shape").unwrap().write_scalar(&scan).unwrap();
    let frames = data.new_dataset::<u16>().shape([4, 2, 2]).create("data").unwrap();
    frames.write_raw(&[1u16; 16]).unwrap();
}

/// The free space at the end of a heap collection is an object of its own size; with size zero the library reads it
/// again and again.
fn never_ending_heap(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let mut patched = 0;
    let heaps: Vec<usize> = (0..bytes.len() - 4).filter(|&i| &bytes[i..i + 4] == b"GCOL").collect();
    for heap in heaps {
        let mut at = heap + 16;
        loop {
            let index = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let size = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap()) as usize;
            if index == 0 {
                bytes[at + 8..at + 16].fill(0);
                patched += 1;
                break;
            }
            at += 16 + size.next_multiple_of(8);
        }
    }
    assert!(patched > 0, "the file has a global heap");
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_library_that_does_not_come_back_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good_master.h5"), folder.path().join("bad_master.h5"));
    master(&good);
    std::fs::copy(&good, &bad).unwrap();
    never_ending_heap(&bad);
    stempack_sources::hdf5::set_patience(Duration::from_millis(1500));
    let before = open(&good, &OpenOptions::default()).err().map(|e| e.code());
    assert_ne!(before, Some("hdf5_stuck"), "the undamaged file opens, or is refused for what it says");

    let error = open(&bad, &OpenOptions::default()).err().unwrap();
    assert_eq!(error.code(), "hdf5_stuck");
    assert!(error.message().contains("bad_master.h5"), "{error}");
    let error = open(&good, &OpenOptions::default()).err().unwrap();
    assert_eq!(error.code(), "hdf5_stuck", "waiting for the lock would never end either");
}
