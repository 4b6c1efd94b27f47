//! Productions from sources in memory: exact, bounded, refused by name, and clean after failure.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stempack_codecs::shard::Profile;
use stempack_containers::Digest;
use stempack_containers::pack::{
    Evidence, FrameKind, PackFile, PackOptions, PackReport, ProfileChoice, RawAccess, Receipt, compare, pack,
    verify,
};
use stempack_model::{FrameSource, Recorded, Result, Samples, Task};
use stempack_testkit::{MemorySource, corpus, count, expectations};

/// Counts below `max`, different at each pixel and scan.
fn counts(scans: usize, pixels: usize, max: u64) -> Vec<u64> {
    let mut state = 11u64;
    (0..scans * pixels)
        .map(|i| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % (max + 1)) >> (i % 7)
        })
        .collect()
}

fn u16s(values: &[u64]) -> Samples {
    Samples::U16(values.iter().map(|&v| v as u16).collect())
}

fn run(source: &MemorySource, to: &Path, profile: ProfileChoice, task: &Task) -> Result<PackReport> {
    let options =
        PackOptions { profile, completed_utc: "2026-01-01T00:00:00Z".into(), ..PackOptions::default() };
    pack(source, to, &options, task)
}

fn names(folder: &Path) -> Vec<String> {
    let mut all: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

fn all_frames(pack: &PackFile, kind: FrameKind) -> Vec<u64> {
    let decoder = pack.decoder(kind).unwrap();
    let mut all = Vec::new();
    for ordinal in 0..pack.shards().len() {
        let loaded = pack.load_shard(ordinal).unwrap();
        let mut frames =
            Samples::zeroed(decoder.sample_type(), pack.scans_per_shard() * pack.shape().detector.pixels());
        decoder.decode(&loaded.shard, 0, frames.as_mut());
        all.extend((0..frames.len()).map(|i| count(&frames, i)));
    }
    all
}

fn check(source: &MemorySource, profile: ProfileChoice, expected: Profile, access: RawAccess) {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    let report = run(source, &to, profile, &Task::new()).unwrap();
    assert_eq!(report.profile, expected, "{}", report.reason);
    let packed = PackFile::open(&to).unwrap();
    assert_eq!(packed.manifest().raw_access, access);
    let raw: Vec<u64> = (0..source.frames().len()).map(|i| count(source.frames(), i)).collect();
    assert_eq!(all_frames(&packed, FrameKind::Raw), raw);
    assert_eq!(packed.decoder(FrameKind::Raw).unwrap().sample_type(), source.frames().sample_type());
    let mut working = raw;
    for frame in working.chunks_mut(packed.shape().detector.pixels()) {
        source.acquisition().excluded.pixels.iter().for_each(|&p| frame[p as usize] = 0);
    }
    assert_eq!(all_frames(&packed, FrameKind::Working), working);
    let receipt = Receipt::read(&report.receipt).unwrap();
    assert_eq!(receipt.output_sha256, report.output_sha256);
    assert_eq!(Digest::of(&std::fs::read(&to).unwrap()), report.output_sha256);
    let evidence =
        Evidence { receipt: Some(report.receipt.clone()), raw_digest: true, ..Evidence::default() };
    let verified = verify(&packed, &evidence, &Task::new()).unwrap();
    assert!(verified.ok() && verified.sealed, "{verified:?}");
    assert!(
        verified.checks.iter().any(|c| c.name == "raw")
            && verified.checks.iter().any(|c| c.name == "working")
    );
    assert_eq!(compare(&packed, source, &Task::new()).unwrap().first_difference, None);
    assert_eq!(names(dir.path()), ["out.h5", "out.h5.receipt.json"]);
}

#[test]
fn u16_sources() {
    let auto = ProfileChoice::Auto;
    let small = counts(64, 30, 255);
    check(&MemorySource::new((8, 8), (5, 6), u16s(&small)), auto, Profile::U8, RawAccess::ExclusionConstants);
    let mut dead = small.clone();
    dead.chunks_mut(30).for_each(|f| (f[4], f[29]) = (65535, 0));
    let source = || MemorySource::new((8, 8), (5, 6), u16s(&dead)).excluding(&[4, 29]);
    check(&source(), auto, Profile::U8, RawAccess::ExclusionConstants);
    check(&source(), ProfileChoice::U16, Profile::U16, RawAccess::RetainedPayload);
    let large = counts(64, 30, 40_000);
    check(&MemorySource::new((8, 8), (5, 6), u16s(&large)), auto, Profile::U16, RawAccess::NoExclusions);
    // An excluded pixel that is not constant is kept in the u16 payload.
    let source = MemorySource::new((8, 8), (5, 6), u16s(&small)).excluding(&[7]);
    check(&source, auto, Profile::U16, RawAccess::RetainedPayload);
}

#[test]
fn odd_scan_counts_and_several_shards() {
    for (scan, detector) in [((7, 9), (10, 11)), ((1, 1), (3, 3)), ((127, 131), (2, 3)), ((96, 128), (3, 5))]
    {
        let values = counts(scan.0 * scan.1, detector.0 * detector.1, 900);
        let source = MemorySource::new(scan, detector, u16s(&values));
        check(&source, ProfileChoice::Auto, Profile::U16, RawAccess::NoExclusions);
    }
    let values = counts(96 * 128, 15, 200);
    let source = MemorySource::new((96, 128), (3, 5), u16s(&values));
    check(&source, ProfileChoice::Auto, Profile::U8, RawAccess::ExclusionConstants);
}

#[test]
fn sources_of_other_widths() {
    let values = counts(64, 30, 255);
    let u8s = Samples::U8(values.iter().map(|&v| v as u8).collect());
    check(
        &MemorySource::new((8, 8), (5, 6), u8s.clone()),
        ProfileChoice::Auto,
        Profile::U8,
        RawAccess::ExclusionConstants,
    );
    check(&MemorySource::new((8, 8), (5, 6), u8s), ProfileChoice::U16, Profile::U16, RawAccess::NoExclusions);
    let u32s = |values: &[u64]| Samples::U32(values.iter().map(|&v| v as u32).collect());
    let source = MemorySource::new((8, 8), (5, 6), u32s(&values));
    check(&source, ProfileChoice::Auto, Profile::U8, RawAccess::ExclusionConstants);
    let mut dead = values.clone();
    dead.chunks_mut(30).for_each(|f| (f[0], f[17]) = (u64::from(u32::MAX), 70_000));
    let source = MemorySource::new((8, 8), (5, 6), u32s(&dead)).excluding(&[0, 17]);
    check(&source, ProfileChoice::Auto, Profile::U16, RawAccess::ExtensionConstants);
    check(&source, ProfileChoice::U16, Profile::U16, RawAccess::ExtensionConstants);
}

#[test]
fn shards_of_zeros_are_readable() {
    // Positions 64..128 of 128 are one shard of zeros under a budget that allows only small shards.
    let mut values = counts(4096 * 2, 6, 3);
    values[4096 * 6..].fill(0);
    let source = MemorySource::new((64, 128), (2, 3), u16s(&values));
    check(&source, ProfileChoice::Auto, Profile::U8, RawAccess::ExclusionConstants);
    check(&source, ProfileChoice::U16, Profile::U16, RawAccess::NoExclusions);
    let source = MemorySource::new((8, 8), (2, 3), u16s(&[0; 64 * 6])).excluding(&[0, 1]);
    check(&source, ProfileChoice::Auto, Profile::U8, RawAccess::ExclusionConstants);
}

#[test]
fn what_no_profile_holds_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    let refused = |source: &MemorySource, profile| {
        let e = run(source, &to, profile, &Task::new()).unwrap_err();
        assert_eq!(names(dir.path()), Vec::<String>::new());
        assert!(e.advice().is_some(), "{e}");
        (e.code(), e.message().to_owned())
    };
    let mut values = counts(64, 30, 255);
    values[37 * 30 + 11] = 70_000;
    let u32s = Samples::U32(values.iter().map(|&v| v as u32).collect());
    let (code, message) = refused(&MemorySource::new((8, 8), (5, 6), u32s.clone()), ProfileChoice::Auto);
    assert_eq!(code, "count_too_large");
    assert!(message.contains("70000") && message.contains("37") && message.contains("pixel 11"), "{message}");
    // Excluded, but neither 16-bit nor constant.
    let (code, message) =
        refused(&MemorySource::new((8, 8), (5, 6), u32s).excluding(&[11]), ProfileChoice::Auto);
    assert_eq!(code, "excluded_pixel_not_constant");
    assert!(message.contains("70000"), "{message}");
    let source = MemorySource::new((8, 8), (5, 6), u16s(&counts(64, 30, 300)));
    assert_eq!(refused(&source, ProfileChoice::U8).0, "count_too_large");
    let source = MemorySource::new((7, 9), (5, 6), u16s(&counts(63, 30, 3)));
    assert_eq!(refused(&source, ProfileChoice::U8).0, "scan_count_not_supported");
    let e = run(&source, &to, ProfileChoice::Auto, &Task::new().with_memory_budget(1 << 20)).unwrap_err();
    assert_eq!(e.code(), "over_budget");
    let source = source.describe(|a| a.scan = None);
    assert_eq!(refused(&source, ProfileChoice::Auto).0, "missing_scan_shape");
}

#[test]
fn failures_leave_the_destination_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    let make = || MemorySource::new((64, 64), (4, 4), u16s(&counts(4096, 16, 200)));
    let mut failing = make();
    failing.fail_at = Some(3000);
    assert_eq!(run(&failing, &to, ProfileChoice::Auto, &Task::new()).unwrap_err().code(), "io");
    assert_eq!(names(dir.path()), Vec::<String>::new());
    let changing = make();
    changing.changed.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(run(&changing, &to, ProfileChoice::Auto, &Task::new()).is_err());
    assert_eq!(names(dir.path()), Vec::<String>::new());
    let cancelled = Task::new().with_cancel(Arc::new(AtomicBool::new(true)));
    assert_eq!(run(&make(), &to, ProfileChoice::Auto, &cancelled).unwrap_err().code(), "cancelled");
    assert_eq!(names(dir.path()), Vec::<String>::new());
    std::fs::write(&to, b"precious").unwrap();
    assert_eq!(
        run(&make(), &to, ProfileChoice::Auto, &Task::new()).unwrap_err().code(),
        "destination_exists"
    );
    assert_eq!(std::fs::read(&to).unwrap(), b"precious");
    assert_eq!(names(dir.path()), ["out.h5"]);
    let options = PackOptions { force: true, ..PackOptions::default() };
    assert!(pack(&failing, &to, &options, &Task::new()).is_err());
    assert_eq!(std::fs::read(&to).unwrap(), b"precious");
    pack(&make(), &to, &options, &Task::new()).unwrap();
    assert_eq!(names(dir.path()), ["out.h5", "out.h5.receipt.json"]);
    assert!(PackFile::open(&to).is_ok());
}

#[test]
fn the_same_source_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let source = MemorySource::new((64, 64), (4, 4), u16s(&counts(4096, 16, 200))).excluding(&[3]);
    for profile in [ProfileChoice::U16, ProfileChoice::Auto] {
        let digests: Vec<_> = ["a.h5", "b.h5"]
            .iter()
            .map(|n| {
                std::thread::sleep(std::time::Duration::from_millis(1100));
                let to = dir.path().join(format!("{profile:?}-{n}"));
                run(&source, &to, profile, &Task::new()).unwrap().output_sha256
            })
            .collect();
        assert_eq!(digests[0], digests[1]);
    }
}

#[test]
fn a_changed_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    let source = MemorySource::new((8, 8), (5, 6), u16s(&counts(64, 30, 200)));
    let report = run(&source, &to, ProfileChoice::Auto, &Task::new()).unwrap();
    let good = std::fs::read(&to).unwrap();
    let pack = PackFile::open(&to).unwrap();
    let record = pack.shards()[0].clone();
    let failed = |at: u64, evidence: &Evidence| {
        let mut bad = good.clone();
        bad[at as usize] ^= 4;
        let path = dir.path().join("bad.h5");
        std::fs::write(&path, &bad).unwrap();
        match PackFile::open(&path).and_then(|p| verify(&p, evidence, &Task::new())) {
            Ok(report) => report.checks.iter().filter(|c| !c.ok).map(|c| c.name).collect::<Vec<_>>(),
            Err(e) => vec![e.code()],
        }
    };
    let none = Evidence::default();
    assert_eq!(failed(record.payload_offset + 3, &none), ["decoded"]);
    let sealed = Evidence { receipt: Some(report.receipt.clone()), ..Evidence::default() };
    // A byte of HDF5 structure that no digest inside the file covers.
    let gap = 65_536 + 60;
    assert!(failed(gap, &none).is_empty(), "padding is nobody's data");
    assert_eq!(failed(gap, &sealed), ["receipt"]);
    let wrong = Evidence { sha256: Some(Digest([0; 32])), ..Evidence::default() };
    let verified = verify(&pack, &wrong, &Task::new()).unwrap();
    assert!(!verified.ok() && !verified.sealed);
}

#[test]
fn the_family_of_the_corpus_is_packed_as_public_producers_do() {
    let Some(dir) = corpus("pack") else { return };
    let family = &expectations(&dir.join("fixtures.json"))["family"];
    // The values are those of the corpus's formula; the members' digests come from its files.
    let values: Vec<u16> = (0..64usize)
        .flat_map(|frame| {
            (0..4096usize).map(move |pixel| match pixel {
                2080 => 4 * frame as u16,
                2081 => 255,
                196 => 65535,
                777 => 4242,
                _ => ((pixel / 64 + frame) % 5) as u16,
            })
        })
        .collect();
    let quantity = |value| Recorded {
        value,
        origin: stempack_model::Origin { file: String::new(), path: String::new() },
        conversion: String::new(),
        flag: None,
    };
    use stempack_model::Quantity as Q;
    let source =
        MemorySource::new((8, 8), (64, 64), Samples::U16(values)).excluding(&[196, 777]).describe(|a| {
            a.quantities.insert(Q::ScanStepRow, quantity(8.0));
            a.quantities.insert(Q::ScanStepCol, quantity(12.0));
            a.quantities.insert(Q::DetectorAngleRow, quantity(0.7499998593750473));
            a.quantities.insert(Q::DetectorAngleCol, quantity(1.4999988750015185));
        });
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("small.pack.h5");
    let report = run(&source, &to, ProfileChoice::Auto, &Task::new()).unwrap();
    let ours = PackFile::open(&to).unwrap();
    let theirs = PackFile::open(&dir.join(family["expected_pack"].as_str().unwrap())).unwrap();
    let (a, b) = (&ours.shards()[0], &theirs.shards()[0]);
    assert_eq!(a.decoded_sha256.to_hex(), family["payload_sha256"]);
    assert_eq!(
        (a.payload_bytes, a.widths_bytes, a.descriptor_count),
        (b.payload_bytes, b.widths_bytes, b.descriptor_count)
    );
    let text = std::fs::read_to_string(&report.receipt).unwrap();
    let receipt: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(receipt["shards"][0]["headerSHA256"], family["headers_sha256"]);
    assert_eq!(receipt["shards"][0]["maximumBitWidth"], family["maximum_bit_width"]);
    for key in [
        "masked_detector_raw_values",
        "masked_detector_pixels",
        "masked_detector_pixels_sha256",
        "source_calibration",
        "source_raw_logical_sha256",
        "prepared_uint8_sha256",
        "schema",
        "format_schema",
        "encoding_profile",
        "crop",
    ] {
        assert_eq!(ours.manifest().object[key], theirs.manifest().object[key], "{key}");
    }
    let example = expectations(&dir.join("family/example_receipt.json"));
    for key in [
        "badPixelIdentitySHA256",
        "badPixelIndices",
        "badPixelRawValues",
        "calibration",
        "scansPerShard",
        "shardCount",
        "sourceRawLogicalSHA256",
        "workingLogicalSHA256",
        "schema",
        "formatSchema",
        "observedPackedResidentBytes",
    ] {
        assert_eq!(receipt[key], example[key], "{key}");
    }
    for key in example.as_object().unwrap().keys() {
        // Figures of the public producer's own block index and block buffers have no counterpart here.
        let own = [
            "maximumCompressedBlockBytes",
            "preparedIndexBytes",
            "predictedOutputDiskMaximumBytes",
            "predictedReceiptFileMaximumBytes",
        ];
        assert!(own.contains(&key.as_str()) || receipt.get(key).is_some(), "receipt lacks {key}");
    }
}

#[test]
fn a_scan_of_2048_by_2048_positions_packs() {
    // 1,024 shards: manifest and index exceed the usual user block.
    let values: Vec<u8> =
        (0..(1u64 << 22) * 6).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 29) as u8 & 3).collect();
    let source = MemorySource::new((2048, 2048), (2, 3), Samples::U8(values));
    for profile in [ProfileChoice::Auto, ProfileChoice::U16] {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("large.h5");
        let report = run(&source, &to, profile, &Task::new()).unwrap();
        assert_eq!(report.plan.shard_count, 1024);
        assert!(report.plan.user_block_bytes > 1 << 16);
        let packed = PackFile::open(&to).unwrap();
        let evidence = Evidence { receipt: Some(report.receipt), ..Evidence::default() };
        let verified = verify(&packed, &evidence, &Task::new()).unwrap();
        assert!(verified.ok() && verified.sealed);
        assert_eq!(compare(&packed, &source, &Task::new()).unwrap().first_difference, None);
    }
}
