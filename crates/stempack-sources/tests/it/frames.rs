//! Windows of frames, refusals of the request itself, change and cancellation.

use crate::common::*;
use crate::writer::Folder;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stempack_model::{Kind, Progress, SampleType, Samples, Task};

/// Three shards of 2, 1 and 3 frames.
fn three_shards() -> Folder {
    let folder = Folder::new();
    for (name, frames, first) in [("a.h5", 2, 0), ("b.h5", 1, 100), ("c.h5", 3, 200)] {
        folder.shard(name, frames, 2, 3, first);
    }
    drop(folder.master("run_master.h5", &["a.h5", "b.h5", "c.h5"]));
    folder
}

#[test]
fn every_window_gives_the_same_frames() {
    let folder = three_shards();
    let source = open(&folder.at("run_master.h5"));
    let all: Vec<u16> = (0..12).chain(100..106).chain(200..218).collect();
    for first in 0..6u64 {
        for count in 0..=6 - first {
            let Samples::U16(found) = read(&*source, first, count).unwrap() else { panic!("not u16") };
            assert_eq!(found, all[first as usize * 6..(first + count) as usize * 6], "{first} {count}");
        }
    }
}

#[test]
fn impossible_requests_are_refused() {
    let folder = three_shards();
    let source = open(&folder.at("run_master.h5"));
    let task = Task::new();
    assert_eq!(read(&*source, 6, 1).unwrap_err().code(), "out_of_range");
    assert_eq!(read(&*source, 5, 2).unwrap_err().code(), "out_of_range");
    assert_eq!(read(&*source, u64::MAX, 1).unwrap_err().code(), "out_of_range");
    let mut bytes = Samples::zeroed(SampleType::U8, 6);
    assert_eq!(source.read(0, bytes.as_mut(), &task).unwrap_err().code(), "wrong_buffer");
    let mut part = Samples::zeroed(SampleType::U16, 7);
    assert_eq!(source.read(0, part.as_mut(), &task).unwrap_err().code(), "wrong_buffer");
}

#[test]
fn a_changed_member_is_named() {
    let folder = three_shards();
    let source = open(&folder.at("run_master.h5"));
    source.check_unchanged().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    let bytes = std::fs::read(folder.at("b.h5")).unwrap();
    std::fs::write(folder.at("b.h5"), bytes).unwrap();
    for error in [
        source.check_unchanged().unwrap_err(),
        read(&*source, 2, 1).unwrap_err(),
        source.digest_members(&Task::new()).unwrap_err(),
    ] {
        assert_eq!((error.code(), error.kind()), ("source_changed", Kind::Changed));
        assert!(error.message().contains("b.h5"), "{error}");
    }
    assert!(read(&*source, 0, 2).is_ok(), "the other members are what they were");
}

#[test]
fn cancelling_stops_reading_and_hashing() {
    let folder = three_shards();
    let source = open(&folder.at("run_master.h5"));
    let task = Task::new().with_cancel(Arc::new(AtomicBool::new(true)));
    let mut samples = Samples::zeroed(SampleType::U16, 36);
    assert_eq!(source.read(0, samples.as_mut(), &task).unwrap_err().kind(), Kind::Cancelled);
    assert_eq!(source.digest_members(&task).unwrap_err().kind(), Kind::Cancelled);
    assert!(read(&*source, 0, 6).is_ok());
}

#[derive(Default)]
struct Counter(AtomicU64);

impl Progress for Counter {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
    fn finish(&self) {}
}

#[test]
fn hashing_reports_every_byte_once() {
    let folder = three_shards();
    let source = open(&folder.at("run_master.h5"));
    let counter = Arc::new(Counter::default());
    let digests = source.digest_members(&Task::new().with_progress(counter.clone())).unwrap();
    let members = &source.acquisition().members;
    assert_eq!(counter.0.load(Ordering::Relaxed), members.iter().map(|m| m.bytes).sum::<u64>());
    for d in digests {
        assert_eq!(hex::encode(d.sha256), sha256(&std::fs::read(&members[d.member].path).unwrap()));
    }
}

/// Two names of one physical file are hashed once and reported twice.
#[test]
fn linked_names_of_one_file_are_hashed_once() {
    let folder = Folder::new();
    let file = folder.file("a.h5");
    let data = crate::writer::groups(&file, "/entry/data");
    crate::writer::stack(&data, "one", 1, 2, 3, 0);
    crate::writer::stack(&data, "two", 1, 2, 3, 9);
    drop((data, file));
    std::fs::hard_link(folder.at("a.h5"), folder.at("b.h5")).unwrap();
    let master = folder.file("run_master.h5");
    let data = crate::writer::groups(&master, "/entry/data");
    data.link_external("a.h5", "/entry/data/one", "data_1").unwrap();
    data.link_external("b.h5", "/entry/data/two", "data_2").unwrap();
    drop((data, master));
    let source = open(&folder.at("run_master.h5"));
    let counter = Arc::new(Counter::default());
    let digests = source.digest_members(&Task::new().with_progress(counter.clone())).unwrap();
    assert_eq!(digests.len(), 3);
    assert_eq!(digests[1].sha256, digests[2].sha256);
    let members = &source.acquisition().members;
    assert_eq!(counter.0.load(Ordering::Relaxed), members[0].bytes + members[1].bytes);
}
