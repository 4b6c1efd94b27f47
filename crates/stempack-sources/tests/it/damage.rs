//! Payload bytes of real shards changed one at a time: every read ends in samples or in a named refusal.
//!
//! Only bytes inside stored chunks are changed, so the HDF5 library sees nothing but intact metadata.

use crate::common::*;
use stempack_model::Task;
use stempack_sources::hdf5::{DatasetIndex, File, Found, Storage};

pub(crate) fn chunks(path: &std::path::Path) -> Vec<(u64, u64)> {
    let file = File::open(path).unwrap();
    let Found::Dataset(dataset) = file.find("/entry/data/data").unwrap() else { panic!("no stack") };
    let index = DatasetIndex::build(&file, &dataset).unwrap();
    let Storage::Chunked(chunks) = index.storage() else { panic!("not chunked") };
    chunks.table.iter().map(|c| (c.address, c.bytes)).collect()
}

fn damage(folder: &str, master: &str, shard: &str, frames: u64) {
    let Some(from) = corpus(folder) else { return };
    let dir = copy_folder(&from);
    let path = dir.path().join(shard);
    let original = std::fs::read(&path).unwrap();
    let (mut state, mut refused, mut accepted) = (0x1234_5678_9abc_def1_u64, 0, 0);
    for (frame, (address, bytes)) in chunks(&path).into_iter().enumerate().take(frames as usize) {
        for round in 0..60u64 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // The header words first, then anywhere.
            let at = if round < 20 { round } else { state % bytes };
            let mut changed = original.clone();
            changed[(address + at) as usize] ^= (state >> 32) as u8 | 1;
            std::fs::write(&path, &changed).unwrap();
            let source = open(&dir.path().join(master));
            match read(&*source, frame as u64, 1) {
                Ok(_) => accepted += 1,
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.code(), "corrupt_payload");
                    assert!(
                        error.message().contains(&format!("frame {} (index {frame})", frame + 1)),
                        "{error}"
                    );
                    assert!(error.message().contains(shard), "{error}");
                }
            }
        }
    }
    // Changed literals decode to other samples; changed lengths, distances and header words must not.
    assert!(refused > accepted / 4 && refused >= 12 * frames, "{refused} refused, {accepted} accepted");
}

#[test]
fn bitshuffled_chunks() {
    damage("cases/c07-eiger-u32-sentinel", "run_master.h5", "run_data_000001.h5", 4);
}

#[test]
fn plain_lz4_chunks() {
    damage("real/eiger", "small_master.h5", "test_data_000001.h5", 3);
}

#[test]
fn a_shard_that_shrinks_after_opening_is_a_changed_source() {
    let Some(from) = corpus("cases/c07-eiger-u32-sentinel") else { return };
    let dir = copy_folder(&from);
    let path = dir.path().join("run_data_000001.h5");
    let source = open(&dir.path().join("run_master.h5"));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(read(&*source, 3, 1).unwrap_err().code(), "source_changed");
    // And an index that outlives its file reads short, not beyond.
    std::fs::write(&path, &bytes).unwrap();
    let file = File::open(&path).unwrap();
    let Found::Dataset(dataset) = file.find("/entry/data/data").unwrap() else { panic!("no stack") };
    let index = DatasetIndex::build(&file, &dataset).unwrap();
    drop((file, dataset));
    std::fs::write(&path, &bytes[..100]).unwrap();
    assert_eq!(index.read_all(&Task::new()).unwrap_err().code(), "source_changed");
}
