//! Residents in the map of a file: the same answers, and none from a file that has changed.

#![expect(unsafe_code, reason = "maps files that nothing else writes to, or that are changed on purpose")]

use crate::residency::{several_shards, total};
use crate::{counts, u16s};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use stempack_containers::pack::{MappedPack, PackFile, PackOptions, ProfileChoice, pack};
use stempack_engine::{DetectorSession, Resident};
use stempack_model::{Result, Samples, Task};
use stempack_products::{DetectorMask, Products, ScanSelection};
use stempack_testkit::MemorySource;

pub(crate) fn load_mapped(path: &Path) -> Result<Resident> {
    let pack = Arc::new(PackFile::open(path)?);
    // SAFETY: tests write to their own files only, and what they change then are counts.
    let map = unsafe { MappedPack::new(pack) }?;
    Resident::load_mapped(&Arc::new(map), &Task::new())
}

/// Changes one byte of the first bitstream, as another program would.
fn change(path: &Path) {
    let at = PackFile::open(path).unwrap().shards()[0].payload_offset;
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    // The clock of file times is coarse.
    std::thread::sleep(std::time::Duration::from_millis(20));
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn bitstreams_stay_in_the_map_until_they_are_arranged() {
    let (_dir, path, source) = several_shards();
    let copied = Resident::load(&PackFile::open(&path).unwrap(), &Task::new()).unwrap();
    let resident = load_mapped(&path).unwrap();
    let (report, without) = (resident.report(), copied.report());
    assert_eq!(report.resident_bytes, without.resident_bytes);
    assert_eq!(without.mapped_bytes, 0);
    // All but the last, which has too little behind it, or all.
    let shards = PackFile::open(&path).unwrap().shards().to_vec();
    let payload = |n: usize| shards[..n].iter().map(|s| s.payload_bytes).sum::<u64>();
    assert!(report.mapped_bytes >= payload(shards.len() - 1) && report.mapped_bytes <= payload(shards.len()));
    resident.check_against(&source, &Task::new()).unwrap();
    assert_eq!(total(&resident), total(&copied));
    // Whoever removes or replaces the file does not change what is mapped.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, b"another").unwrap();
    assert_eq!(total(&resident), total(&copied));
    resident.arrange(&Task::new()).unwrap();
    assert_eq!((resident.report().layout, resident.report().mapped_bytes), ("bit-planes", 0));
    resident.check_against(&source, &Task::new()).unwrap();
}

#[test]
fn a_damaged_bitstream_in_the_map_is_refused() {
    let (_dir, path, _) = several_shards();
    change(&path);
    let error = load_mapped(&path).unwrap_err();
    assert_eq!(error.code(), "digest_mismatch");
    assert!(error.to_string().contains("shard 0"), "{error}");
}

#[test]
fn a_file_that_changed_after_it_was_opened_is_not_loaded() {
    let (_dir, path, _) = several_shards();
    let pack = Arc::new(PackFile::open(&path).unwrap());
    change(&path);
    // SAFETY: it is no longer written to.
    let error = unsafe { MappedPack::new(pack) }.unwrap_err();
    assert_eq!(error.code(), "container_changed");
}

#[test]
fn no_answer_is_given_from_a_file_that_changed() {
    let (_dir, path, _) = several_shards();
    let resident = Arc::new(load_mapped(&path).unwrap());
    let arranged = load_mapped(&path).unwrap();
    arranged.arrange(&Task::new()).unwrap();
    let expected = total(&arranged);
    let shape = resident.shape();
    let all = DetectorMask::all(shape.detector, resident.exclusions()).unwrap();
    let mut session = DetectorSession::new(resident.clone());
    session.update(&all, false, &Task::new()).unwrap();
    let shown = session.image().values.clone();
    change(&path);
    let task = Task::new();
    let few = DetectorMask::disk(shape.detector, resident.exclusions(), 1.0, 2.0, 1.2).unwrap();
    let region = ScanSelection::rectangle(shape.scan, 0..2, 0..3).unwrap();
    let mut frame = Samples::zeroed(resident.sample_type(), shape.detector.pixels());
    let answers = [
        ("image", resident.virtual_image(&all, &task).map(drop)),
        ("sum", resident.pattern_sum(&task).map(drop)),
        ("moments", resident.moments(&task).map(drop)),
        ("selection", resident.selection_sum(&region, &task).map(drop)),
        ("frame", resident.working_frame(0, 0).map(drop)),
        ("raw frame", resident.raw_frame(0, 0).map(drop)),
        ("frames", resident.raw_positions(0, frame.as_mut(), &task)),
        ("session", session.update(&few, false, &task).map(drop)),
        ("arrange", resident.arrange(&task)),
    ];
    for (name, answer) in answers {
        let error = answer.expect_err(name);
        assert_eq!(error.code(), "container_changed", "{name}: {error}");
        assert!(error.to_string().contains("out.h5"), "{error}");
    }
    assert_eq!(session.image().values, shown, "the image is what it was");
    assert_eq!(resident.report().layout, "packed", "no shard was replaced");
    // What had left the map does not depend on the file any more.
    assert_eq!(total(&arranged), expected);
}

#[test]
fn what_is_decompressed_is_not_in_the_map() {
    let source = MemorySource::new((16, 128), (5, 7), u16s(&counts(16 * 128, 35, 1000)));
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    let options = PackOptions { profile: ProfileChoice::U16, ..PackOptions::default() };
    pack(&source, &to, &options, &Task::new()).unwrap();
    let resident = load_mapped(&to).unwrap();
    assert_eq!(resident.report().mapped_bytes, 0);
    let expected = total(&resident);
    change(&to);
    assert_eq!(total(&resident), expected);
}
