//! What a sample looks like to a program that knows nothing about the writer.
#![expect(clippy::unwrap_used, reason = "a test fails where an unwrap does")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stempack_model::{DetectorShape, Kind, SampleType, ScanShape, Task};
use stempack_sample::{SampleSpec, write_acquisition};

fn spec() -> SampleSpec {
    SampleSpec {
        scan: ScanShape::new(6, 5).unwrap(),
        detector: DetectorShape::new(12, 13).unwrap(),
        frames_per_file: 11,
        ..SampleSpec::default()
    }
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_layout_is_a_master_its_stacks_and_a_companion() {
    let dir = tempfile::tempdir().unwrap();
    let paths = write_acquisition(dir.path(), &spec(), &Task::new()).unwrap();
    assert_eq!(
        files(dir.path()),
        [
            "scan_data_000001.h5",
            "scan_data_000002.h5",
            "scan_data_000003.h5",
            "scan_em_metadata.h5",
            "scan_master.h5"
        ]
    );
    for (path, frames) in paths.data.iter().zip([11usize, 11, 8]) {
        let file = hdf5_metno::File::open(path).unwrap();
        let stack = file.dataset("entry/data/data").unwrap();
        assert_eq!(stack.shape(), [frames, 12, 13]);
        assert_eq!(stack.chunk().unwrap(), [1, 12, 13]);
        assert_eq!(stack.num_chunks(), Some(frames));
        let filters = stack.filters();
        assert_eq!(filters.len(), 1);
        assert_eq!(filters[0].id(), 32008);
    }
    let master = hdf5_metno::File::open(&paths.master).unwrap();
    let mask: Vec<u32> =
        master.dataset("entry/instrument/detector/detectorSpecific/pixel_mask").unwrap().read_raw().unwrap();
    let flagged: Vec<u32> = (0..mask.len() as u32).filter(|&p| mask[p as usize] != 0).collect();
    assert_eq!(flagged, spec().excluded_pixels());
    assert_eq!(flagged.len(), 3);
    // The links lead to the stacks.
    assert_eq!(master.dataset("entry/data/data_000003").unwrap().shape(), [8, 12, 13]);
}

#[test]
fn every_type_is_stored_as_itself() {
    for sample in [SampleType::U8, SampleType::U16, SampleType::U32] {
        let dir = tempfile::tempdir().unwrap();
        let paths = write_acquisition(dir.path(), &SampleSpec { sample, ..spec() }, &Task::new()).unwrap();
        let file = hdf5_metno::File::open(&paths.data[0]).unwrap();
        assert_eq!(file.dataset("entry/data/data").unwrap().dtype().unwrap().size(), sample.bytes());
    }
}

#[test]
fn the_counts_follow_from_the_seed_and_not_from_the_threads() {
    let bytes = |threads: usize, seed: u64| {
        let dir = tempfile::tempdir().unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let paths = pool
            .install(|| write_acquisition(dir.path(), &SampleSpec { seed, ..spec() }, &Task::new()))
            .unwrap();
        paths.data.iter().map(|p| std::fs::read(p).unwrap()).collect::<Vec<_>>()
    };
    let one = bytes(1, 7);
    assert_eq!(one, bytes(3, 7));
    assert_ne!(one, bytes(1, 8));
}

#[test]
fn a_taken_name_is_refused_and_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("scan_data_000002.h5");
    std::fs::write(&taken, b"mine").unwrap();
    let error = write_acquisition(dir.path(), &spec(), &Task::new()).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("sample_exists", Kind::Usage));
    assert_eq!(std::fs::read(&taken).unwrap(), b"mine");
    assert_eq!(files(dir.path()), ["scan_data_000002.h5"]);
}

#[test]
fn a_cancelled_sample_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let task = Task::new().with_cancel(Arc::new(AtomicBool::new(true)));
    let error = write_acquisition(dir.path(), &spec(), &task).unwrap_err();
    assert_eq!(error.kind(), Kind::Cancelled);
    assert!(files(dir.path()).is_empty());
}

#[test]
fn specifications_that_cannot_be_written_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for bad in [
        SampleSpec { frames_per_file: 0, ..spec() },
        SampleSpec { excluded: 12 * 13, ..spec() },
        SampleSpec { block_bytes: 24, ..spec() },
        SampleSpec { detector: DetectorShape::new(2048, 2048).unwrap(), ..spec() },
    ] {
        assert_eq!(
            write_acquisition(dir.path(), &bad, &Task::new()).unwrap_err().code(),
            "invalid_sample_spec"
        );
    }
    assert!(files(dir.path()).is_empty());
}
