//! Every file of the `.qem` corpus: accepted ones decode to their arrays bit for bit, faulty ones are refused.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stempack_containers::Digest;
use stempack_containers::qem::QemFile;
use stempack_model::{FrameSource, Kind, MaskOrigin, Quantity, Result, SampleType, Samples, Task};
use stempack_testkit::{SourceContract, corpus, expectations};

/// The bytes of a `.npy` array behind its header: floats are compared by their bits.
pub(crate) fn npy_bytes(path: &Path) -> (String, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..7], b"\x93NUMPY\x01");
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..start]).unwrap();
    assert!(header.contains("'fortran_order': False"));
    let descr = header.split("'descr': '").nth(1).unwrap().split('\'').next().unwrap();
    (descr.to_owned(), bytes[start..].to_vec())
}

/// The whole array, read in windows of `window` frames.
pub(crate) fn array(source: &dyn FrameSource, window: usize, task: &Task) -> Result<Vec<u8>> {
    let a = source.acquisition();
    let pixels = a.detector.pixels();
    let mut samples = Samples::zeroed(a.sample, window * pixels);
    let mut all = Vec::new();
    for first in (0..a.frame_count as usize).step_by(window) {
        let n = window.min(a.frame_count as usize - first) * pixels;
        source.read(first as u64, samples.head_mut(n), task)?;
        all.extend_from_slice(&samples.head(n).little_endian());
    }
    Ok(all)
}

fn cases(list: &str) -> Option<(PathBuf, Vec<Value>)> {
    let dir = corpus("qem")?;
    let manifest = expectations(&dir.join("manifest.json"));
    Some((dir, manifest[list].as_array().unwrap().clone()))
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap()
}

#[test]
fn accepted_files_decode_bit_for_bit() {
    let Some((dir, cases)) = cases("valid") else { return };
    assert_eq!(cases.len(), 27);
    for case in &cases {
        let name = text(case, "name");
        let path = dir.join(text(case, "file"));
        assert!(QemFile::probe(&path).unwrap(), "{name}");
        let file = QemFile::open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(file.codec().as_str(), text(case, "codec"), "{name}");
        let dims: Vec<Value> = file.shape().dims().iter().map(|&d| d.into()).collect();
        assert_eq!(Value::Array(dims), case["shape"], "{name}");
        assert_eq!(file.acquisition().sample.as_str(), text(case, "decoded_dtype"), "{name}");
        let (_, expected) = npy_bytes(&dir.join(text(case, "npy")));
        let frames = file.acquisition().frame_count as usize;
        let tight = Task::new().with_memory_budget(1 << 20);
        for (window, task) in [(frames, &Task::new()), (1, &Task::new()), (7, &Task::new()), (5, &tight)] {
            // A fresh file each time: nothing that another window left in a cache helps.
            let file = QemFile::open(&path).unwrap();
            let found = array(&file, window, task).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(found == expected, "{name} in windows of {window}");
        }
        assert_eq!(Digest::of(&expected).to_hex(), text(case, "logical_sha256"), "{name}");
        for strict in [false, true] {
            let report = file.verify(None, strict, &Task::new()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(report.ok() && !report.sealed, "{name}: {report:?}");
        }
        let seal = Digest::from_hex(text(case, "file_sha256"));
        assert!(file.verify(seal, false, &Task::new()).unwrap().sealed, "{name}");
        let wrong = file.verify(Some(Digest([0; 32])), false, &Task::new()).unwrap();
        assert!(!wrong.ok() && !wrong.sealed, "{name}");
    }
}

#[test]
fn metadata_are_those_of_the_manifest() {
    let Some((dir, cases)) = cases("valid") else { return };
    for case in &cases {
        let name = text(case, "name");
        let file = QemFile::open(&dir.join(text(case, "file"))).unwrap();
        let cols = file.shape().detector.cols() as u64;
        if let Some(invalid) = case["invalid_pixels"].as_array() {
            let expected: Vec<u32> = invalid
                .iter()
                .map(|p| (p[0].as_u64().unwrap() * cols + p[1].as_u64().unwrap()) as u32)
                .collect();
            assert_eq!(file.acquisition().excluded.pixels, expected, "{name}");
            assert_eq!(file.acquisition().excluded.origin, MaskOrigin::SourceMask, "{name}");
        }
        let effective = file.effective_calibration();
        let expected = &case["expected_effective"];
        let mut wanted: Vec<(Quantity, f64)> = Vec::new();
        let mut both = |key: &str, row: Quantity, col: Quantity| {
            if let Some([r, c]) = expected[key].as_array().map(Vec::as_slice) {
                wanted.extend([(row, r.as_f64().unwrap()), (col, c.as_f64().unwrap())]);
            }
        };
        both("scan_sampling_A", Quantity::ScanStepRow, Quantity::ScanStepCol);
        match expected["detector_sampling_unit"].as_str() {
            Some("mrad") => both("detector_sampling", Quantity::DetectorAngleRow, Quantity::DetectorAngleCol),
            _ => both("detector_sampling", Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol),
        }
        for (key, quantity) in [
            ("voltage_kV", Quantity::BeamEnergy),
            ("semiangle_mrad", Quantity::SemiConvergenceAngle),
            ("dwell_time_us", Quantity::DwellTime),
            ("camera_length_mm", Quantity::CameraLength),
        ] {
            wanted.extend(expected[key].as_f64().map(|v| (quantity, v)));
        }
        for &(quantity, value) in &wanted {
            let found = effective.get(&quantity).unwrap_or_else(|| panic!("{name}: no {quantity:?}"));
            assert!((found.value - value).abs() <= 1e-12 * value, "{name} {quantity:?}: {found:?}");
            assert!(!found.origin.path.is_empty());
        }
        if text(case, "schema").ends_with("/2") {
            assert_eq!(effective.len(), wanted.len(), "{name}: {effective:?}");
        }
        assert_eq!(file.overrides().is_empty(), case["override_fields"].as_array().unwrap().is_empty());
        // What is recorded stays what is recorded, whatever a person puts over it.
        if name == "u16-rich-metadata" {
            assert_eq!(file.acquisition().quantities[&Quantity::BeamEnergy].value, 300.0);
            assert_eq!(file.acquisition().identity["camera_model"], "SYN-1");
            assert_eq!(file.acquisition().identity["acquisition_date"], "2026-01-02T03:04:05");
            // It calls itself K3, and its camera is none.
            assert_eq!(file.acquisition().format, "DigitalMicrograph DM4");
            assert_eq!(file.acquisition().documents.len(), 2);
            assert!(file.acquisition().retained.iter().any(|(k, v)| k == "dm4.ImageTags.x" && v == "1"));
        }
        let storage = &file.acquisition().provenance["storageSchema"];
        assert_eq!(storage, text(case, "codec"), "{name}");
        assert_eq!(file.acquisition().provenance["sourceKind"], "ans-snapshot");
        assert_eq!(file.acquisition().reader, "quantem-qem/v1");
    }
}

/// Opens and verifies everything; `None` means accepted.
fn refusal(path: &Path, strict: bool) -> Option<(Kind, String, String)> {
    let attempt = || -> Result<Option<(Kind, String, String)>> {
        let report = QemFile::open(path)?.verify(None, strict, &Task::new())?;
        let failed = report.checks.into_iter().find(|c| !c.ok);
        Ok(failed.map(|c| (Kind::Integrity, c.name.to_owned(), c.detail)))
    };
    attempt().unwrap_or_else(|e| Some((e.kind(), e.code().to_owned(), e.message().to_owned())))
}

#[test]
fn faulty_files_are_refused_for_what_is_wrong() {
    let Some((dir, cases)) = cases("malformed") else { return };
    assert_eq!(cases.len(), 173);
    let mut surprises = Vec::new();
    for case in &cases {
        let (name, group) = (text(case, "name"), text(case, "group"));
        let found = refusal(&dir.join(text(case, "file")), true);
        let Some((kind, code, message)) = found else {
            surprises.push(format!("{name} was accepted"));
            continue;
        };
        println!("{name}: {kind:?} {code}: {message}");
        let fits = match (group, name) {
            (_, "env-bad-magic" | "env-empty") => code == "not_a_qem",
            (_, "env-legacy-magic") => code == "qem_retired",
            (_, "env-header-sha" | "env-header-byte-flipped") => code == "qem_header_digest",
            ("envelope", _) => code == "qem_envelope",
            (
                _,
                "hdr-container_version-2"
                | "hdr-version-2"
                | "hdr-unknown-codec"
                | "f32-version-2"
                | "md-schema-3",
            ) => kind == Kind::Unsupported,
            ("header" | "ambiguous" | "length", _) => {
                matches!(code.as_str(), "qem_header" | "qem_metadata" | "qem_layout")
            }
            ("chunks", _) => code == "qem_layout",
            (_, "sum-body-byte-flipped") => code == "body",
            ("checksum", _) => code == "qem_header",
            ("metadata" | "overrides" | "documents" | "processing" | "sample", _) => code == "qem_metadata",
            (_, "f32-logical-wrong" | "xor-base-changed") => code == "logical",
            (_, "idx-sum-wrong") => code == "spatial-index",
            _ => kind == Kind::Malformed,
        };
        if !fits {
            surprises.push(format!("{name} ({group}) is refused as {kind:?} {code}: {message}"));
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

#[test]
fn a_wrong_spatial_sum_is_found_by_strict_verification_alone() {
    let Some(dir) = corpus("qem") else { return };
    let path = dir.join("malformed/idx-sum-wrong.qem");
    assert!(refusal(&path, false).is_none());
    assert!(refusal(&path, true).is_some());
    // The bounds of an index are held to always.
    assert!(refusal(&dir.join("malformed/idx-width-33.qem"), false).is_some());
}

#[test]
fn no_byte_is_used_before_its_checksum_agrees() {
    let Some(dir) = corpus("qem") else { return };
    let file = QemFile::open(&dir.join("malformed/sum-body-byte-flipped.qem")).unwrap();
    let mut frame = Samples::zeroed(SampleType::U16, 6);
    assert_eq!(file.read(0, frame.as_mut(), &Task::new()).unwrap_err().code(), "digest_mismatch");
    let all = vec![true; 6];
    assert_eq!(file.virtual_sums(&all, &Task::new()).unwrap_err().code(), "digest_mismatch");
}

#[test]
fn a_saved_dark_frame_is_taken_from_products_and_never_from_raw_frames() {
    let Some(dir) = corpus("qem") else { return };
    let file = Arc::new(QemFile::open(&dir.join("valid/f32-lanes-empad-dark.qem")).unwrap());
    let dark = file.background().unwrap().unwrap();
    assert_eq!(dark.identity.to_hex(), "ab".repeat(32));
    assert_eq!(dark.values[..3], [0.75, 2.1875, 1.1875]);
    let raw = array(file.as_ref(), 2, &Task::new()).unwrap();
    let source = file.clone().product_source().unwrap();
    let less = array(source.as_ref(), 1, &Task::new()).unwrap();
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let (raw, less) = (floats(&raw), floats(&less));
    assert!(raw != less);
    for (i, (v, w)) in raw.iter().zip(&less).enumerate() {
        assert_eq!(v - dark.values[i % dark.values.len()], *w);
    }
    let plain = Arc::new(QemFile::open(&dir.join("valid/u8-odd-alignment.qem")).unwrap());
    assert!(plain.background().unwrap().is_none());
}

#[test]
fn sums_are_those_of_the_decoded_counts() {
    let Some((dir, cases)) = cases("valid") else { return };
    for case in &cases {
        let name = text(case, "name");
        let file = QemFile::open(&dir.join(text(case, "file"))).unwrap();
        let pixels = file.shape().detector.pixels();
        if !file.has_counts() {
            let e = file.virtual_sums(&vec![true; pixels], &Task::new()).unwrap_err();
            assert_eq!(e.code(), "not_counts", "{name}");
            continue;
        }
        let (descr, bytes) = npy_bytes(&dir.join(text(case, "npy")));
        let counts: Vec<u64> = match descr.as_str() {
            "|u1" => bytes.iter().map(|&b| b.into()).collect(),
            _ => bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]).into()).collect(),
        };
        let excluded = &file.acquisition().excluded.pixels;
        let valid = |p: usize| !excluded.contains(&(p as u32));
        let cols = file.shape().detector.cols();
        let masks: [&dyn Fn(usize) -> bool; 4] =
            [&|_| true, &|_| false, &|p| p % 3 == 1, &|p| p / cols > 1 && p % cols != 2];
        for (i, member) in masks.iter().enumerate() {
            let expected: Vec<u64> = counts
                .chunks_exact(pixels)
                .map(|f| (0..pixels).filter(|&p| member(p) && valid(p)).map(|p| f[p]).sum())
                .collect();
            let members: Vec<bool> = (0..pixels).map(member).collect();
            assert_eq!(file.virtual_sums(&members, &Task::new()).unwrap(), expected, "{name} mask {i}");
        }
        let mut pattern = vec![0; pixels];
        for frame in counts.chunks_exact(pixels) {
            (0..pixels).filter(|&p| valid(p)).for_each(|p| pattern[p] += frame[p]);
        }
        assert_eq!(file.pattern_sums(&Task::new()).unwrap(), pattern, "{name}");
        let m = file.moments(&Task::new().with_memory_budget(1 << 20)).unwrap();
        for (scan, frame) in counts.chunks_exact(pixels).enumerate() {
            let weighted = |w: &dyn Fn(usize) -> usize| -> u64 {
                (0..pixels).filter(|&p| valid(p)).map(|p| w(p) as u64 * frame[p]).sum()
            };
            let expected = [weighted(&|_| 1), weighted(&|p| p / cols), weighted(&|p| p % cols)];
            assert_eq!([m.total[scan], m.row[scan], m.col[scan]], expected, "{name} frame {scan}");
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    let Some(dir) = corpus("qem") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("cut.qem");
    for name in ["valid/malformed-base.qem", "valid/f32-lanes-payload-padding.qem"] {
        let bytes = std::fs::read(dir.join(name)).unwrap();
        for cut in (0..bytes.len()).filter(|c| c % 31 == 0 || bytes.len() - c < 64 || *c < 60) {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(refusal(&path, false).is_some(), "{name} cut at {cut}");
        }
    }
}

#[test]
fn a_retired_file_is_read_when_its_header_is_that_of_its_time() {
    let Some(dir) = corpus("qem") else { return };
    let bytes = std::fs::read(dir.join("valid/malformed-base.qem")).unwrap();
    let n = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
    let mut header: serde_json::Map<String, Value> = serde_json::from_slice(&bytes[56..56 + n]).unwrap();
    for key in ["container", "container_version", "codec", "scientific_metadata"] {
        header.remove(key);
    }
    let text = serde_json::to_vec(&header).unwrap();
    let mut old = b"QGPUSTRM".to_vec();
    old.extend_from_slice(&(text.len() as u64).to_le_bytes());
    old.extend_from_slice(&(56 + text.len() as u64).to_le_bytes());
    old.extend_from_slice(&Digest::of(&text).0);
    old.extend_from_slice(&text);
    old.extend_from_slice(&bytes[56 + n..]);
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("old.qem");
    std::fs::write(&path, old).unwrap();
    let file = QemFile::open(&path).unwrap();
    let (_, expected) = npy_bytes(&dir.join("valid/malformed-base.npy"));
    assert_eq!(array(&file, 3, &Task::new()).unwrap(), expected);
    assert_eq!(file.acquisition().provenance["storageSchema"], "QGPUSTRM/v1");
    // Its calibration stands where its time put it.
    let effective = file.effective_calibration();
    assert_eq!(effective[&Quantity::ScanStepCol].value, 0.6);
    assert_eq!(effective[&Quantity::DetectorReciprocalRow].value, 0.02);
    assert_eq!(effective[&Quantity::BeamEnergy].value, 300.0);
    assert!(file.acquisition().warnings.iter().any(|w| w.code == "retired_format"));
}

#[test]
fn a_saved_copy_keeps_the_contract_of_sources() {
    let Some((dir, cases)) = cases("valid") else { return };
    let names = ["u8-mixed-two-blocks", "u16-rich-metadata", "f32-lanes-special-5x7", "f32-xor-widths"];
    for case in cases.iter().filter(|c| names.contains(&text(c, "name"))) {
        let from = dir.join(text(case, "file"));
        let (_, expected) = npy_bytes(&dir.join(text(case, "npy")));
        let contract = SourceContract {
            write: &|folder: &Path| {
                let to = folder.join("copy.qem");
                std::fs::copy(&from, &to).unwrap();
                to
            },
            open: &|path: &Path| QemFile::open(path).map(|f| Arc::new(f) as Arc<dyn FrameSource>),
            expected: &expected,
            boundaries: &[("copy.qem", &[8, 16, 24, 56])],
        };
        contract.check();
    }
}

#[test]
fn a_pack_keeps_the_contract_of_sources() {
    use stempack_containers::pack::{PackFile, PackOptions, PackSource, pack};
    let Some(dir) = corpus("qem") else { return };
    let (_, expected) = npy_bytes(&dir.join("valid/u16-partial-tiles-33x40.npy"));
    let contract = SourceContract {
        write: &|folder: &Path| {
            let (to, source) = (folder.join("pack.h5"), dir.join("valid/u16-partial-tiles-33x40.qem"));
            pack(&QemFile::open(&source).unwrap(), &to, &PackOptions::default(), &Task::new()).unwrap();
            to
        },
        open: &|path: &Path| {
            let source = PackSource::new(Arc::new(PackFile::open(path)?))?;
            Ok(Arc::new(source) as Arc<dyn FrameSource>)
        },
        expected: &expected,
        boundaries: &[],
    };
    contract.check();
}
