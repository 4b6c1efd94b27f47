//! Every file of the pack corpus: valid ones decode to their arrays, faulty ones are refused.

use serde_json::Value;
use std::path::Path;
use stempack_codecs::shard::Profile;
use stempack_containers::pack::{Evidence, FrameKind, PackFile, RawAccess, plan, verify};
use stempack_model::{Kind, Member, MemberRole, Result, SampleType, Samples, Task};
use stempack_testkit::{corpus, count, expectations, read_npy};

fn decode(pack: &PackFile, kind: FrameKind) -> Result<Vec<u64>> {
    let decoder = pack.decoder(kind)?;
    let pixels = pack.shape().detector.pixels();
    let mut all = Vec::new();
    for ordinal in 0..pack.shards().len() {
        let loaded = pack.load_shard(ordinal)?;
        let mut frames = Samples::zeroed(decoder.sample_type(), pack.scans_per_shard() * pixels);
        decoder.decode(&loaded.shard, 0, frames.as_mut());
        // The same frames one by one, and from an odd offset on.
        for scan in [0, 1, pack.scans_per_shard() - 1] {
            let mut one = Samples::zeroed(decoder.sample_type(), pixels);
            decoder.decode(&loaded.shard, scan, one.as_mut());
            (0..pixels).for_each(|p| assert_eq!(count(&one, p), count(&frames, scan * pixels + p)));
        }
        let rest = pack.scans_per_shard() - 1;
        let mut tail = Samples::zeroed(decoder.sample_type(), rest * pixels);
        decoder.decode(&loaded.shard, 1, tail.as_mut());
        (0..tail.len()).for_each(|i| assert_eq!(count(&tail, i), count(&frames, pixels + i)));
        all.extend((0..frames.len()).map(|i| count(&frames, i)));
    }
    Ok(all)
}

#[test]
fn valid_files_decode_to_their_arrays() {
    let Some(dir) = corpus("pack") else { return };
    let fixtures = expectations(&dir.join("fixtures.json"));
    let valid = fixtures["valid"].as_object().unwrap();
    assert_eq!(valid.len(), 20);
    for (name, f) in valid {
        let pack =
            PackFile::open(&dir.join(f["file"].as_str().unwrap())).unwrap_or_else(|e| panic!("{name}: {e}"));
        let dims: Vec<Value> = pack.shape().dims().iter().map(|&d| d.into()).collect();
        assert_eq!(Value::Array(dims), f["shape"], "{name}");
        assert_eq!(pack.manifest().raw_access.as_str(), f["raw_access_mode_as_swift_names_it"], "{name}");
        let excluded: Vec<Value> = pack.excluded().iter().map(|&p| p.into()).collect();
        assert_eq!(Value::Array(excluded), f["excluded"], "{name}");
        let working = decode(&pack, FrameKind::Working).unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected = read_npy(&dir.join(f["working"].as_str().unwrap()));
        assert_eq!(working, expected.values, "{name} working");
        match f["raw"].as_str() {
            Some(raw) => {
                let found = decode(&pack, FrameKind::Raw).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!(found, read_npy(&dir.join(raw)).values, "{name} raw");
            }
            None => {
                assert!(!pack.manifest().raw_access.is_exact(), "{name}");
                assert_eq!(decode(&pack, FrameKind::Raw).unwrap_err().code(), "raw_not_available", "{name}");
            }
        }
        let evidence = Evidence { raw_digest: true, ..Evidence::default() };
        let report = verify(&pack, &evidence, &Task::new()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(report.ok() && !report.sealed, "{name}: {report:?}");
        let sealed = Evidence {
            sha256: stempack_containers::Digest::from_hex(f["sha256"].as_str().unwrap()),
            ..Evidence::default()
        };
        assert!(verify(&pack, &sealed, &Task::new()).unwrap().sealed, "{name}");
    }
}

/// Opens and verifies everything; `None` means accepted.
fn refusal(path: &Path) -> Option<(Kind, &'static str, String)> {
    let attempt = || -> Result<Option<(Kind, &'static str, String)>> {
        let pack = PackFile::open(path)?;
        let report = verify(&pack, &Evidence::default(), &Task::new())?;
        Ok(report.checks.iter().find(|c| !c.ok).map(|c| (Kind::Integrity, c.name, c.detail.clone())))
    };
    attempt().unwrap_or_else(|e| Some((e.kind(), e.code(), e.message().to_owned())))
}

#[test]
fn faulty_files_are_refused() {
    let Some(dir) = corpus("pack") else { return };
    let fixtures = expectations(&dir.join("fixtures.json"));
    for (name, f) in fixtures["malformed"].as_object().unwrap() {
        let path = dir.join(f["file"].as_str().unwrap());
        let Some((kind, code, message)) = refusal(&path) else { panic!("{name} was accepted") };
        println!("{name}: {kind:?} {code}: {message}");
        let at = f["detectable_at"].as_str().unwrap();
        let fits = match at {
            "prelude" => {
                matches!(
                    code,
                    "not_a_pack"
                        | "unsupported_revision"
                        | "prelude_range"
                        | "metadata_too_large"
                        | "index_malformed"
                )
            }
            "manifest" => matches!(code, "manifest_crc" | "manifest_json"),
            "index" => matches!(code, "index_malformed" | "unsupported_revision"),
            "ranges" => matches!(code, "shard_record" | "data_range"),
            "agreement" => {
                code.starts_with("manifest_")
                    || matches!(
                        code,
                        "index_manifest_disagree"
                            | "detector_calibration"
                            | "digest_mismatch"
                            | "index_malformed"
                    )
            }
            "shard" | "decode" => kind == Kind::Malformed,
            "auth" => kind == Kind::Integrity,
            other => panic!("unknown stage {other}"),
        };
        assert!(fits, "{name} is detectable at {at}, refused as {code}: {message}");
    }
}

#[test]
fn judgement_cases_go_as_documented() {
    let Some(dir) = corpus("pack") else { return };
    let fixtures = expectations(&dir.join("fixtures.json"));
    for (name, f) in fixtures["judgement"].as_object().unwrap() {
        let refused = refusal(&dir.join(f["file"].as_str().unwrap()));
        assert_eq!(refused.is_none(), f["recommended"] == "accept", "{name}: {refused:?}");
    }
}

#[test]
fn legacy_files_are_not_raw_sources() {
    let Some(dir) = corpus("pack") else { return };
    let pack = PackFile::open(&dir.join("valid/u8_mask_only_legacy.h5")).unwrap();
    assert_eq!(pack.manifest().raw_access, RawAccess::MaskAppliedOnly);
}

#[test]
fn every_truncation_of_a_file_is_refused() {
    let Some(dir) = corpus("pack") else { return };
    let scratch = tempfile::tempdir().unwrap();
    for name in ["valid/u8_plain.h5", "valid/u16_six_scans.h5"] {
        let bytes = std::fs::read(dir.join(name)).unwrap();
        for cut in (0..bytes.len()).filter(|c| c % 97 == 0 || bytes.len() - c < 64) {
            let path = scratch.path().join("cut.h5");
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(refusal(&path).is_some(), "{name} cut at {cut}");
        }
    }
}

#[test]
fn no_flipped_byte_panics() {
    let Some(dir) = corpus("pack") else { return };
    let scratch = tempfile::tempdir().unwrap();
    for name in ["valid/u8_plain.h5", "valid/u16_six_scans.h5", "valid/ext_direct_u16_encoding2.h5"] {
        let bytes = std::fs::read(dir.join(name)).unwrap();
        let path = scratch.path().join("flipped.h5");
        for at in 0..bytes.len() {
            if bytes[at] == 0 && !(16..1300).contains(&at) {
                continue;
            }
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&path, &flipped).unwrap();
            let _ = refusal(&path);
        }
    }
}

/// Shards and largest sizes are those of the public planner. Its transient memory is that of its own way of packing
/// and not compared.
#[test]
fn plans_are_those_of_the_public_planner() {
    let Some(folder) = corpus("pack") else { return };
    for case in expectations(&folder.join("fixtures.json"))["plans"].as_array().unwrap() {
        let size = |value: &Value| value.as_u64().unwrap();
        let shape: Vec<usize> = case["shape"].as_array().unwrap().iter().map(|n| size(n) as usize).collect();
        let inputs = &case["inputs"];
        let mut acquisition =
            stempack_testkit::quiet_acquisition((shape[0], shape[1]), (shape[2], shape[3]), SampleType::U16);
        acquisition.excluded.pixels = (0..size(&inputs["excluded"]) as u32).collect();
        let members = size(&inputs["members"]) as usize;
        let path = "p".repeat(size(&inputs["path_bytes"]) as usize / members);
        acquisition.members = vec![Member { path: path.into(), role: MemberRole::Data, bytes: 1 }; members];
        let task = Task::new().with_memory_budget(64 << 30);
        let found = plan(&acquisition, Profile::U8, "test", &task);
        let Some(expected) = case["plan"].as_object() else {
            assert_eq!(found.unwrap_err().code(), "scan_count_not_supported", "{shape:?}");
            continue;
        };
        let found = found.unwrap();
        let shards = found.shard_count as u64;
        // The public planner's user block is always 64 KiB; ours grows with the number of shards.
        let output = found.output_maximum_bytes - found.user_block_bytes + 65_536;
        for (key, found) in [
            ("scans_per_shard", found.scans_per_shard as u64),
            ("shard_count", shards),
            ("packed_resident_maximum", found.packed_maximum_bytes),
            ("output_file_maximum", output),
            ("receipt_file_maximum", found.receipt_maximum_bytes),
            ("output_disk_maximum", output + found.receipt_maximum_bytes),
        ] {
            assert_eq!(found, size(&expected[key]), "{shape:?} {key}");
        }
        let per_shard =
            size(&expected["header_bytes_per_shard"]) + size(&expected["maximum_payload_bytes_per_shard"]);
        assert_eq!(found.packed_maximum_bytes, per_shard * shards, "{shape:?}");
    }
}
