//! Enriched copies: proven before they are sealed, and the input untouched.

use stempack_containers::Digest;
use stempack_containers::pack::{
    DetectorCalibration, Enrichment, Evidence, FrameKind, PackFile, RawAccess, enrich, verify,
};
use stempack_model::{Samples, Task};
use stempack_testkit::{corpus, count, expectations};

fn calibration() -> DetectorCalibration {
    DetectorCalibration {
        centre_px: [0.5, 1.0],
        bright_field_radius_px: 1.25,
        dpc: Some((12.5, true)),
        method: "test".into(),
    }
}

/// The corpus file, its digest, and the constant that its excluded pixel has in every frame of the corpus's formula.
fn legacy() -> Option<(PackFile, Digest, Vec<u8>)> {
    let dir = corpus("pack")?;
    let path = dir.join("valid/u8_mask_only_legacy.h5");
    let sha = &expectations(&dir.join("fixtures.json"))["valid"]["u8_mask_only_legacy"]["sha256"];
    let bytes = std::fs::read(&path).unwrap();
    Some((PackFile::open(&path).unwrap(), Digest::from_hex(sha.as_str().unwrap()).unwrap(), bytes))
}

#[test]
fn a_calibration_is_attached_and_the_shards_stay() {
    let Some((pack, sha, before)) = legacy() else { return };
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("enriched.h5");
    let enrichment = Enrichment { calibration: Some(calibration()), ..Enrichment::default() };
    let report = enrich(&pack, sha, &enrichment, &to, &Task::new()).unwrap();
    let copy = PackFile::open(&to).unwrap();
    assert_eq!(copy.manifest().calibration, Some(calibration()));
    assert_eq!(copy.shards(), pack.shards());
    let evidence = Evidence { receipt: Some(report.receipt), ..Evidence::default() };
    let verified = verify(&copy, &evidence, &Task::new()).unwrap();
    assert!(verified.ok() && verified.sealed, "{verified:?}");
    assert_eq!(std::fs::read(pack.path()).unwrap(), before);
}

#[test]
fn what_is_not_proven_is_refused_and_leaves_nothing() {
    let Some((pack, sha, _)) = legacy() else { return };
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("enriched.h5");
    let code = |sha, enrichment: Enrichment| {
        let e = enrich(&pack, sha, &enrichment, &to, &Task::new()).unwrap_err();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{e}");
        e.code()
    };
    let plain = Enrichment { calibration: Some(calibration()), ..Enrichment::default() };
    assert_eq!(code(Digest([1; 32]), plain), "digest_mismatch");
    let outside = DetectorCalibration { centre_px: [7.0, 0.0], ..calibration() };
    assert_eq!(
        code(sha, Enrichment { calibration: Some(outside), ..Enrichment::default() }),
        "detector_calibration"
    );
    let two = Enrichment { raw_values: Some(vec![1, 2]), ..Enrichment::default() };
    assert_eq!(code(sha, two), "index_manifest_disagree");
    assert_eq!(code(sha, Enrichment { envelopes: true, ..Enrichment::default() }), "manifest_value");
}

/// Only the true constants give the recorded raw stream: all but one of the 65,536 are refused.
#[test]
fn constants_must_give_the_recorded_raw_stream() {
    let Some((pack, sha, _)) = legacy() else { return };
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("enriched.h5");
    let recorded = pack.manifest().source_raw_logical_sha256.unwrap();
    // The true constant, found here by hashing the working frames with each candidate in place.
    let decoder = pack.decoder(FrameKind::Working).unwrap();
    let loaded = pack.load_shard(0).unwrap();
    let mut frames = Samples::zeroed(decoder.sample_type(), pack.scans_per_shard() * 4);
    decoder.decode(&loaded.shard, 0, frames.as_mut());
    let excluded = pack.excluded()[0] as usize;
    let with = |constant: u16| {
        let word = |i: usize| if i % 4 == excluded { constant } else { count(&frames, i) as u16 };
        Digest::of(&(0..frames.len()).flat_map(|i| word(i).to_le_bytes()).collect::<Vec<u8>>())
    };
    let truth =
        (0..=u16::MAX).find(|&c| with(c) == recorded).expect("one constant gives the recorded stream");
    let attempt = |constant: u16| {
        let enrichment = Enrichment { raw_values: Some(vec![constant]), ..Enrichment::default() };
        enrich(&pack, sha, &enrichment, &to, &Task::new())
    };
    assert_eq!(attempt(truth ^ 1).unwrap_err().code(), "digest_mismatch");
    assert!(!to.exists());
    attempt(truth).unwrap();
    let copy = PackFile::open(&to).unwrap();
    assert_eq!(copy.manifest().raw_access, RawAccess::ExclusionConstants);
    let evidence = Evidence { raw_digest: true, ..Evidence::default() };
    assert!(verify(&copy, &evidence, &Task::new()).unwrap().checks.iter().any(|c| c.name == "raw" && c.ok));
}

#[test]
fn envelopes_are_added_to_u16_files() {
    let Some(dir) = corpus("pack") else { return };
    let path = dir.join("valid/u16_two_shards_retained.h5");
    let pack = PackFile::open(&path).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("enriched.h5");
    let sha = Digest::of(&std::fs::read(&path).unwrap());
    enrich(&pack, sha, &Enrichment { envelopes: true, ..Enrichment::default() }, &to, &Task::new()).unwrap();
    let copy = PackFile::open(&to).unwrap();
    assert_eq!(copy.manifest().shards.len(), copy.shards().len());
    assert!(copy.manifest().shards.iter().all(|s| s.envelope_sha256.is_some()));
    let verified = verify(&copy, &Evidence::default(), &Task::new()).unwrap();
    assert!(verified.checks.iter().any(|c| c.name == "envelope" && c.ok), "{verified:?}");
}
