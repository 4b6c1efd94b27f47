//! Loading, rearranging and giving up: nothing partial is ever visible.

use crate::{counts, u16s};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stempack_containers::pack::{PackFile, PackOptions, ProfileChoice, pack};
use stempack_engine::Resident;
use stempack_model::{FrameSource, Progress, Task};
use stempack_products::{DetectorMask, Products};
use stempack_testkit::MemorySource;

/// Cancels once `after` bytes of a phase are done.
struct CancelAfter {
    after: u64,
    done: AtomicU64,
    flag: Arc<AtomicBool>,
}

impl Progress for CancelAfter {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, bytes: u64) {
        if self.done.fetch_add(bytes, Ordering::Relaxed) + bytes >= self.after {
            self.flag.store(true, Ordering::Relaxed);
        }
    }
    fn finish(&self) {}
}

pub(crate) fn cancelled_after(after: u64) -> Task {
    let flag = Arc::new(AtomicBool::new(false));
    let progress = CancelAfter { after, done: AtomicU64::new(0), flag: flag.clone() };
    Task::new().with_cancel(flag).with_progress(Arc::new(progress))
}

/// A pack of several shards.
pub(crate) fn several_shards() -> (tempfile::TempDir, std::path::PathBuf, MemorySource) {
    let source = MemorySource::new((96, 128), (5, 7), u16s(&counts(96 * 128, 35, 255)));
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    let options = PackOptions { profile: ProfileChoice::U8, ..PackOptions::default() };
    pack(&source, &to, &options, &Task::new()).unwrap();
    assert!(PackFile::open(&to).unwrap().shards().len() > 2);
    (dir, to, source)
}

pub(crate) fn total(resident: &Resident) -> Vec<u64> {
    let mask = DetectorMask::all(resident.shape().detector, resident.exclusions()).unwrap();
    resident.virtual_image(&mask, &Task::new()).unwrap().values.to_u64().unwrap()
}

#[test]
fn a_cancelled_load_returns_nothing() {
    let (_dir, path, _) = several_shards();
    let file = PackFile::open(&path).unwrap();
    let error = Resident::load(&file, &cancelled_after(1)).unwrap_err();
    assert_eq!(error.code(), "cancelled");
}

#[test]
fn a_damaged_shard_is_named_and_nothing_is_returned() {
    let (_dir, path, _) = several_shards();
    let file = PackFile::open(&path).unwrap();
    let at = file.shards()[1].payload_offset as usize + 3;
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = Resident::load(&PackFile::open(&path).unwrap(), &Task::new()).unwrap_err();
    assert_eq!(error.code(), "digest_mismatch");
    assert!(error.to_string().contains("shard 1"), "{error}");
}

#[test]
fn rearranging_can_stop_and_go_on_and_answers_stay_the_same() {
    let (_dir, path, source) = several_shards();
    let resident = Resident::load(&PackFile::open(&path).unwrap(), &Task::new()).unwrap();
    let expected = total(&resident);
    assert_eq!(resident.arrange(&cancelled_after(1)).unwrap_err().code(), "cancelled");
    assert_eq!(resident.report().layout, "mixed");
    assert_eq!(total(&resident), expected);
    resident.check_against(&source, &Task::new()).unwrap();
    resident.arrange(&Task::new()).unwrap();
    assert_eq!(resident.report().layout, "bit-planes");
    assert_eq!(total(&resident), expected);
    // Once more is nothing to do.
    resident.arrange(&Task::new().with_memory_budget(resident.report().resident_bytes)).unwrap();
}

#[test]
fn rearranging_over_budget_is_refused_before_a_shard_is_touched() {
    let (_dir, path, _) = several_shards();
    let resident = Resident::load(&PackFile::open(&path).unwrap(), &Task::new()).unwrap();
    let held = resident.report().resident_bytes;
    let error = resident.arrange(&Task::new().with_memory_budget(held)).unwrap_err();
    assert_eq!(error.code(), "resident_over_budget");
    assert_eq!((resident.report().layout, resident.report().resident_bytes), ("packed", held));
}

#[test]
fn an_original_that_fails_or_is_cancelled_becomes_nothing() {
    let source: Arc<dyn FrameSource> =
        Arc::new(MemorySource::new((40, 50), (6, 5), u16s(&counts(2000, 30, 65_535))));
    let error = Resident::from_source(&source, &cancelled_after(1)).map(drop).unwrap_err();
    assert_eq!(error.code(), "cancelled");
}

#[test]
fn many_ask_while_one_rearranges() {
    let (_dir, path, _) = several_shards();
    let resident = Resident::load(&PackFile::open(&path).unwrap(), &Task::new()).unwrap();
    let expected = total(&resident);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(total(&resident), expected)));
        }
        resident.arrange(&Task::new()).unwrap();
    });
    assert_eq!(resident.report().layout, "bit-planes");
}
