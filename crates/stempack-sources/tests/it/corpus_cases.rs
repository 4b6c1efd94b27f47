//! Public bug reports, as files: what must open and what must be refused by name.

use crate::common::*;
use stempack_model::{Detail, Kind};

#[test]
fn c03_a_missing_shard_in_the_middle_is_named() {
    let Some(case) = corpus("cases/c03-eiger-missing-middle-shard") else { return };
    for member in ["run_master.h5", "run_data_000001.h5", "run_data_000003.h5"] {
        let error = refusal(&case.join(member));
        assert_eq!((error.code(), error.kind()), ("missing_member", Kind::Conflict));
        assert!(error.message().contains("run_data_000002.h5"), "{error}");
        assert!(error.message().contains("/entry/data/data_000002"), "{error}");
        assert!(!error.message().contains("run_data_000003.h5"), "{error}");
        assert_eq!(detail(&error, "missing"), Some(&Detail::List(vec!["run_data_000002.h5".into()])));
    }
}

#[test]
fn c07_sentinels_are_values_and_only_the_mask_excludes() {
    let Some(case) = corpus("cases/c07-eiger-u32-sentinel") else { return };
    let expect = json(&case.join("case.json"))["expect"].clone();
    let source = open_with(&case.join("run_master.h5"), &stated(2, 2));
    let a = source.acquisition();
    assert_eq!(a.shape().unwrap().dims().map(|n| n as u64).to_vec(), numbers(&expect["shape"]));
    assert_eq!(numpy_dtype(a), "<u4");
    assert_eq!(logical_sha256(&*source, 1), expect["sha256_le_c_order"].as_str().unwrap());
    assert_eq!(a.excluded.pixels.len() as u64, expect["masked_pixels"].as_u64().unwrap());
    assert_eq!(totals(&*source), numbers(&expect["unmasked_sums"]));
}

#[test]
fn c11_a_damaged_chunk_is_named_and_the_others_stay_readable() {
    let Some(case) = corpus("cases/c11-bslz4-corrupt-chunk") else { return };
    let expect = json(&case.join("case.json"))["expect"].clone();
    let source = open(&case.join("run_master.h5"));
    let mut good = Vec::new();
    for frame in 0..4 {
        match read(&*source, frame, 1) {
            Ok(samples) => good.extend(little_endian(&samples)),
            Err(error) => {
                assert_eq!(frame, 2);
                assert_eq!((error.code(), error.kind()), ("corrupt_payload", Kind::Malformed));
                for named in ["run_data_000001.h5", "frame 3 (index 2)"] {
                    assert!(error.message().contains(named), "{error}");
                }
                assert_eq!(detail(&error, "frame_index"), Some(&Detail::Number(2)));
            }
        }
    }
    assert_eq!(sha256(&good), expect["good_frames_0_1_3_sha256_le_c_order"].as_str().unwrap());
    let error = read(&*source, 0, 4).unwrap_err();
    assert!(error.message().contains("frame 3 (index 2)"), "{error}");
}
