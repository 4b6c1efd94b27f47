//! `.qem` files that are written here: what comes back, what is refused, and what is left behind.

use crate::qem_corpus::{array, npy_bytes};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stempack_containers::Digest;
use stempack_containers::qem::{Background, Override, OverrideChange, QemCodec, QemFile, QemOptions, write};
use stempack_model::{
    Acquisition, FrameSource, MaskOrigin, Member, MemberDigest, MemberRole, Origin, Quantity, Recorded,
    Result, SampleType, Samples, SamplesMut, SourceDocument, Task,
};
use stempack_testkit::{MemorySource, corpus};

/// Counts that use every way to code a column: zero, constant, rare, entropy coded, and large.
pub(crate) fn counts(scans: usize, pixels: usize, most: u64) -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..scans * pixels)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = state >> 33;
            let value = match i % pixels % 5 {
                0 => 0,
                1 => 7,
                2 => u64::from(random.is_multiple_of(97)) * 3,
                3 => random % 9,
                _ => random,
            };
            value % (most + 1)
        })
        .collect()
}

fn source(scan: (usize, usize), detector: (usize, usize), frames: Samples) -> MemorySource {
    MemorySource::new(scan, detector, frames)
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut all: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

fn header(path: &Path) -> serde_json::Value {
    let bytes = std::fs::read(path).unwrap();
    let n = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
    serde_json::from_slice(&bytes[56..56 + n]).unwrap()
}

/// Writes, opens, verifies strictly, and compares every sample as it is stored with `expected`.
fn round_trip(source: &MemorySource, expected: &Samples) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.qem");
    let report = write(source, &path, &QemOptions::default(), &Task::new()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(report.output_bytes, bytes.len() as u64);
    assert_eq!(report.output_sha256, Digest::of(&bytes));
    let stored = expected.as_ref().little_endian();
    assert_eq!(report.logical_sha256, Some(Digest::of(&stored)));
    let file = QemFile::open(&path).unwrap();
    assert_eq!(file.acquisition().sample, expected.sample_type());
    assert_eq!(file.acquisition().excluded.pixels, source.acquisition().excluded.pixels);
    assert_eq!(file.acquisition().excluded.mask_sha256, source.acquisition().excluded.mask_sha256);
    assert!(array(&file, 3, &Task::new()).unwrap() == *stored);
    assert!(array(&file, 700, &Task::new()).unwrap() == *stored);
    let verified = file.verify(Some(report.output_sha256), true, &Task::new()).unwrap();
    assert!(verified.ok() && verified.sealed, "{verified:?}");
    assert!(verified.checks.iter().any(|c| c.name == "logical"));
    // The same source gives the same bytes.
    let again = dir.path().join("again.qem");
    write(source, &again, &QemOptions::default(), &Task::new()).unwrap();
    assert!(std::fs::read(&again).unwrap() == bytes);
    std::fs::remove_file(again).unwrap();
    assert_eq!(names(dir.path()), ["out.qem"]);
    (dir, path)
}

#[test]
fn counts_of_every_shape_come_back() {
    for (scan, detector) in
        [((1, 1), (1, 1)), ((5, 7), (3, 40)), ((30, 18), (9, 33)), ((3, 400), (2, 2)), ((1, 513), (32, 8))]
    {
        let (scans, pixels) = (scan.0 * scan.1, detector.0 * detector.1);
        let all = counts(scans, pixels, 255);
        let bytes = Samples::U8(all.iter().map(|&v| v as u8).collect());
        round_trip(&source(scan, detector, bytes.clone()), &bytes);
        let all = counts(scans, pixels, 65535);
        let words = Samples::U16(all.iter().map(|&v| v as u16).collect());
        let last = pixels as u32 - 1;
        round_trip(&source(scan, detector, words.clone()).excluding(&[last]), &words);
    }
}

#[test]
fn nothing_but_zeros_and_nothing_but_excluded_pixels_come_back() {
    let zeros = Samples::U16(vec![0; 6 * 64]);
    round_trip(&source((2, 3), (8, 8), zeros.clone()), &zeros);
    let full = Samples::U8(vec![255; 6 * 9]);
    round_trip(&source((2, 3), (3, 3), full.clone()).excluding(&(0..9).collect::<Vec<_>>()), &full);
}

#[test]
fn wider_integers_are_narrowed_and_that_is_declared() {
    let all = counts(10, 12, 65535);
    let words = Samples::U16(all.iter().map(|&v| v as u16).collect());
    for wide in [
        Samples::U32(all.iter().map(|&v| v as u32).collect()),
        Samples::I32(all.iter().map(|&v| v as i32).collect()),
        Samples::U64(all.clone()),
        Samples::I64(all.iter().map(|&v| v as i64).collect()),
    ] {
        let name = wide.sample_type().as_str();
        let (_dir, path) = round_trip(&source((2, 5), (3, 4), wide), &words);
        let header = header(&path);
        let processing = &header["scientific_metadata"]["processing"];
        assert_eq!(processing[0]["operation"], "lossless_storage");
        assert_eq!(processing[1]["operation"], "exact_integer_narrowing");
        assert_eq!(processing[1]["source_dtype"], name);
        assert_eq!(processing[1]["stored_dtype"], "uint16");
        assert_eq!(processing[1]["changes_measurements"], false);
        assert_eq!(header["metadata"]["source_dtype"], name);
    }
    let small: Vec<i8> = all.iter().map(|&v| (v % 128) as i8).collect();
    let bytes = Samples::U8(small.iter().map(|&v| v as u8).collect());
    round_trip(&source((2, 5), (3, 4), Samples::I8(small)), &bytes);
}

#[test]
fn floats_come_back_bit_for_bit() {
    let special =
        [0u32, 0x8000_0000, 1, 0x7f80_0000, 0xff80_0000, 0x7fc0_0001, 0x7f80_0001, 0xffff_ffff, 0x3f80_0000];
    let pixels = 6 * 7;
    let bits: Vec<u32> = (0..600 * pixels)
        .map(|i| match i % 11 {
            k if k < special.len() => special[k],
            _ => (i as u32).wrapping_mul(2_654_435_761),
        })
        .collect();
    let floats = Samples::F32(bits.iter().map(|&b| f32::from_bits(b)).collect());
    let (_dir, path) = round_trip(&source((30, 20), (6, 7), floats.clone()), &floats);
    assert_eq!(QemFile::open(&path).unwrap().codec(), QemCodec::Lanes);
    let zeros = Samples::F32(vec![0.0; 18]);
    round_trip(&source((1, 2), (3, 3), zeros.clone()), &zeros);

    let halves: Vec<f64> = (0..60).map(|i| f64::from(i) * 0.25 - 3.0).collect();
    let narrow = Samples::F32(halves.iter().map(|&v| v as f32).collect());
    let (_dir, path) = round_trip(&source((2, 5), (2, 3), Samples::F64(halves)), &narrow);
    assert_eq!(header(&path)["scientific_metadata"]["processing"][1]["operation"], "exact_float_narrowing");
}

#[test]
fn what_the_format_cannot_hold_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.qem");
    let refuse = |source: &MemorySource, to: &Path, options: &QemOptions| {
        let code = write(source, to, options, &Task::new()).unwrap_err().code();
        assert_eq!(names(dir.path()), Vec::<String>::new());
        code
    };
    let plain = QemOptions::default();
    let late = || {
        let mut all = vec![1u32; 1200 * 4];
        all[1100 * 4 + 2] = 65536;
        source((30, 40), (2, 2), Samples::U32(all))
    };
    assert_eq!(refuse(&late(), &to, &plain), "not_representable");
    let third = source((1, 1), (1, 2), Samples::F64(vec![1.0, 1.0 / 3.0]));
    assert_eq!(refuse(&third, &to, &plain), "not_representable");
    let masked = source((1, 1), (1, 2), Samples::F32(vec![1.0, 2.0])).excluding(&[1]);
    assert_eq!(refuse(&masked, &to, &plain), "not_representable");
    let fine = || source((1, 2), (1, 2), Samples::U8(vec![1, 2, 3, 4]));
    assert_eq!(refuse(&fine(), &dir.path().join("out.h5"), &plain), "not_a_qem_name");
    assert_eq!(refuse(&fine().describe(|a| a.scan = None), &to, &plain), "missing_scan_shape");
    let mut changed = fine();
    changed.changed = true.into();
    assert_eq!(refuse(&changed, &to, &plain), "io");
    let mut faulty = source((30, 40), (2, 2), Samples::U8(vec![1; 4800]));
    faulty.fail_at = Some(700);
    assert_eq!(refuse(&faulty, &to, &plain), "io");
    let only_row = Override { quantity: Quantity::ScanStepRow, value: 1.0, evidence: "logbook".into() };
    let options = QemOptions { overrides: OverrideChange::Set(vec![only_row]), ..QemOptions::default() };
    assert_eq!(refuse(&fine(), &to, &options), "invalid_override");
    let cancelled = Task::new().with_cancel(Arc::new(AtomicBool::new(true)));
    assert_eq!(write(&fine(), &to, &plain, &cancelled).unwrap_err().code(), "cancelled");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

/// A source that sets a flag once it has been read so far.
struct CancelsAt<'a>(&'a MemorySource, u64, Arc<AtomicBool>);

impl FrameSource for CancelsAt<'_> {
    fn acquisition(&self) -> &Acquisition {
        self.0.acquisition()
    }
    fn read(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        if first >= self.1 {
            self.2.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        self.0.read(first, into, &Task::new().with_memory_budget(task.memory_budget()))
    }
    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        self.0.digest_members(task)
    }
    fn check_unchanged(&self) -> Result<()> {
        self.0.check_unchanged()
    }
}

#[test]
fn cancelling_in_the_middle_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let source = source((4, 600), (2, 2), Samples::U8(vec![1; 9600]));
    let flag = Arc::new(AtomicBool::new(false));
    let task = Task::new().with_cancel(flag.clone());
    let cancels = CancelsAt(&source, 1024, flag);
    let e = write(&cancels, &dir.path().join("out.qem"), &QemOptions::default(), &task).unwrap_err();
    assert_eq!(e.code(), "cancelled");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn an_existing_file_stays_unless_it_may_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.QEM");
    std::fs::write(&to, b"precious").unwrap();
    let fine = source((1, 2), (1, 2), Samples::U8(vec![1, 2, 3, 4]));
    let e = write(&fine, &to, &QemOptions::default(), &Task::new()).unwrap_err();
    assert_eq!(e.code(), "destination_exists");
    assert_eq!(std::fs::read(&to).unwrap(), b"precious");
    let options = QemOptions { force: true, ..QemOptions::default() };
    write(&fine, &to, &options, &Task::new()).unwrap();
    QemFile::open(&to).unwrap();
    // As any program would have made it: the umask decides, not a temporary file.
    std::fs::write(dir.path().join("other"), b"").unwrap();
    let mode = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("out.QEM"), mode("other"));
}

#[test]
fn a_small_budget_makes_smaller_chunks_of_the_same_array() {
    let all: Vec<u16> = counts(600, 32 * 33, 65535).iter().map(|&v| v as u16).collect();
    let source = source((20, 30), (32, 33), Samples::U16(all));
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.qem");
    let tight = Task::new().with_memory_budget(5 << 20);
    let report = write(&source, &to, &QemOptions::default(), &tight).unwrap();
    assert!(report.chunks > 2 && report.peak_bytes <= 5 << 20, "{report:?}");
    let file = QemFile::open(&to).unwrap();
    assert!(file.verify(None, true, &tight).unwrap().ok());
    assert!(array(&file, 11, &tight).unwrap() == *source.frames().as_ref().little_endian());
    let tiny = Task::new().with_memory_budget(1 << 20);
    let none = dir.path().join("none.qem");
    assert_eq!(write(&source, &none, &QemOptions::default(), &tiny).unwrap_err().code(), "over_budget");
}

fn recorded(value: f64) -> Recorded<f64> {
    let origin = Origin { file: "scan_master.h5".into(), path: "/entry/x".into() };
    Recorded { value, origin, conversion: "as it stands".into(), flag: None }
}

fn described() -> MemorySource {
    source((1, 2), (1, 2), Samples::U16(vec![1, 2, 3, 4])).excluding(&[1]).describe(|a| {
        a.format = "K3 DM4".into();
        a.reader = "digitalmicrograph/native-counts-v1".into();
        a.members =
            vec![Member { path: "/home/someone/secret/scan.dm4".into(), role: MemberRole::Data, bytes: 9 }];
        let mut energy = recorded(300.0);
        energy.flag = Some("outside the usual range".into());
        energy.origin.path = "/home/someone/secret/scan.dm4:tag".into();
        a.quantities = BTreeMap::from([
            (Quantity::ScanStepRow, recorded(0.1)),
            (Quantity::ScanStepCol, recorded(0.2)),
            (Quantity::DetectorAngleRow, recorded(0.8)),
            (Quantity::DetectorAngleCol, recorded(0.9)),
            (Quantity::DetectorReciprocalRow, recorded(0.04)),
            (Quantity::DetectorReciprocalCol, recorded(0.05)),
            (Quantity::BeamEnergy, energy),
            (Quantity::DwellTime, recorded(1.0 / 3.0)),
        ]);
        a.identity =
            BTreeMap::from([("camera_model", "K3".to_owned()), ("acquisition_date", "2026-01-02".into())]);
        a.retained = vec![
            ("dm4.ImageTags.Größe".into(), "3 µm \u{1f52c}".into()),
            ("camera_model".into(), "other".into()),
        ];
        let content = "<a unit='m'/>".to_owned();
        a.documents = vec![SourceDocument {
            filename: "scan.xml".into(),
            media_type: "application/xml",
            sha256: Digest::of(content.as_bytes()).0,
            content,
        }];
        a.signal_unit = Some("counts".into());
    })
}

#[test]
fn what_is_known_of_an_acquisition_comes_back() {
    let source = described();
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.qem");
    let stated = |quantity, value| Override { quantity, value, evidence: "lattice of gold".into() };
    let overrides = OverrideChange::Set(vec![
        stated(Quantity::ScanStepRow, 0.11),
        stated(Quantity::ScanStepCol, 0.22),
        stated(Quantity::BeamEnergy, 80.0),
    ]);
    write(&source, &to, &QemOptions { overrides, ..QemOptions::default() }, &Task::new()).unwrap();
    let bytes = std::fs::read(&to).unwrap();
    let contains = |needle: &[u8]| bytes.windows(needle.len()).any(|w| w == needle);
    assert!(!contains(b"someone") && !contains(b"secret"), "a local path was written");
    assert!(contains(b"scan.dm4"));
    let file = QemFile::open(&to).unwrap();
    let (found, given) = (file.acquisition(), source.acquisition());
    assert_eq!(found.format, "K3 DM4");
    assert_eq!(found.provenance["sourceReader"], given.reader);
    let values = |a: &Acquisition| -> Vec<(Quantity, u64, Option<String>)> {
        a.quantities.iter().map(|(&q, r)| (q, r.value.to_bits(), r.flag.clone())).collect()
    };
    assert_eq!(values(found), values(given));
    assert!(found.quantities[&Quantity::ScanStepRow].conversion.contains("scan_master.h5:/entry/x"));
    assert_eq!(found.identity, given.identity);
    assert_eq!(found.documents, given.documents);
    assert_eq!(found.signal_unit, given.signal_unit);
    assert_eq!(found.excluded.mask_sha256, given.excluded.mask_sha256);
    assert_eq!(found.excluded.origin, MaskOrigin::SourceMask);
    assert!(found.retained.contains(&given.retained[0]));
    let effective = file.effective_calibration();
    assert_eq!(effective[&Quantity::ScanStepCol].value, 0.22);
    assert_eq!(effective[&Quantity::BeamEnergy].value, 80.0);
    assert_eq!(effective[&Quantity::DwellTime].value, 1.0 / 3.0);
    assert_eq!(file.overrides().len(), 3);
    // A copy of the copy loses nothing either.
    let again = dir.path().join("again.qem");
    write(&file, &again, &QemOptions::default(), &Task::new()).unwrap();
    let second = QemFile::open(&again).unwrap();
    assert_eq!(values(second.acquisition()), values(given));
    assert_eq!(second.acquisition().format, "K3 DM4");
    assert_eq!(second.acquisition().provenance["sourceReader"], given.reader);
    assert_eq!(second.acquisition().identity, given.identity);
    assert_eq!(second.overrides()[&Quantity::BeamEnergy].value, 80.0);
    // Not as good as new, but the very same: an unread key cannot have been lost.
    assert!(std::fs::read(&again).unwrap() == bytes);
}

#[test]
fn only_a_recorded_camera_makes_a_k3() {
    let dir = tempfile::tempdir().unwrap();
    let format = |name: &str, change: &dyn Fn(&mut Acquisition)| {
        let to = dir.path().join(name);
        write(&described().describe(|a| change(a)), &to, &QemOptions::default(), &Task::new()).unwrap();
        QemFile::open(&to).unwrap().acquisition().format.clone()
    };
    assert_eq!(format("a.qem", &|_| {}), "K3 DM4");
    let no_camera = |a: &mut Acquisition| {
        a.identity.remove("camera_model");
        a.retained.clear();
    };
    assert_eq!(format("b.qem", &no_camera), "DigitalMicrograph DM4");
    // The camera's name alone makes nothing of a file that was no DM4.
    assert_eq!(format("c.qem", &|a| a.format = "NumPy".into()), "NumPy");
    let tag = "dm4.ImageTags.Acquisition.Device.Source Model";
    let from_tag = |a: &mut Acquisition| {
        a.identity.remove("camera_model");
        a.retained = vec![(tag.into(), " k3 ".into())];
        a.format = "DigitalMicrograph DM4".into();
    };
    assert_eq!(format("d.qem", &from_tag), "K3 DM4");
}

fn body(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    bytes[u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize..].to_vec()
}

#[test]
fn saving_again_copies_the_body_and_keeps_every_key() {
    let Some(dir) = corpus("qem") else { return };
    let scratch = tempfile::tempdir().unwrap();
    for name in [
        "valid/u16-rich-metadata.qem",
        "valid/u16-schema1-si-units.qem",
        "valid/f32-lanes-empad-dark.qem",
        "valid/scaled-u16-two-regions.qem",
        "tolerated/unknown-keys-pretty-json.qem",
        "tolerated/gap-bytes-nonzero.qem",
    ] {
        let from = dir.join(name);
        let file = QemFile::open(&from).unwrap();
        let stated = |quantity, value| Override { quantity, value, evidence: "aperture".into() };
        let set = OverrideChange::Set(vec![
            stated(Quantity::DetectorReciprocalRow, 0.5),
            stated(Quantity::DetectorReciprocalCol, 0.25),
            stated(Quantity::BeamEnergy, 60.0),
            stated(Quantity::DwellTime, 8.0),
        ]);
        for (i, overrides) in [OverrideChange::Keep, OverrideChange::Clear, set].into_iter().enumerate() {
            let to = scratch.path().join(format!("{i}.qem"));
            let options = QemOptions { force: true, overrides, ..QemOptions::default() };
            write(&file, &to, &options, &Task::new()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(body(&to) == body(&from), "{name}");
            let (mut was, mut is) = (header(&from), header(&to));
            let copy = QemFile::open(&to).unwrap();
            assert!(copy.verify(None, true, &Task::new()).unwrap().ok(), "{name}");
            if i == 0 {
                assert!(std::fs::read(&from).unwrap() == std::fs::read(&to).unwrap(), "{name}");
            } else {
                for h in [&mut was, &mut is] {
                    h["scientific_metadata"].as_object_mut().unwrap().remove("calibration_overrides");
                }
                assert_eq!(was, is, "{name}");
            }
            match i {
                1 => assert!(copy.overrides().is_empty()),
                2 => {
                    let effective = copy.effective_calibration();
                    assert_eq!(effective[&Quantity::DetectorReciprocalCol].value, 0.25, "{name}");
                    assert_eq!(effective[&Quantity::BeamEnergy].value, 60.0, "{name}");
                    assert_eq!(effective[&Quantity::DwellTime].value, 8.0, "{name}");
                    assert!(!effective.contains_key(&Quantity::DetectorAngleRow), "{name}");
                }
                _ => assert_eq!(copy.overrides().len(), file.overrides().len()),
            }
        }
    }
}

fn assembled(header: &str, body: &[u8]) -> Vec<u8> {
    let n = header.len() as u64;
    let digest = Digest::of(header.as_bytes()).0;
    [&b"QEMDATA1"[..], &n.to_le_bytes(), &(56 + n).to_le_bytes(), &digest, header.as_bytes(), body].concat()
}

#[test]
fn an_unrelated_predecessor_is_refused_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("old.qem");
    std::fs::write(&path, [&b"QGANS\0\0\x01"[..], &[0; 100]].concat()).unwrap();
    assert!(QemFile::probe(&path).unwrap());
    let e = QemFile::open(&path).unwrap_err();
    assert_eq!(e.code(), "qem_retired");
    assert!(e.message().contains("QGANS") && e.advice().is_some(), "{e}");
}

#[test]
fn units_of_schema_1_convert_or_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("1.qem"), dir.path().join("2.qem"));
    write(&described(), &one, &QemOptions::default(), &Task::new()).unwrap();
    for (unit, value, expected) in [("ms", 0.25, Some(250.0)), ("s", 2e-6, Some(2.0)), ("mm", 1.0, None)] {
        let mut old = header(&one);
        let scientific = &mut old["scientific_metadata"];
        scientific["schema"] = "quantem.scientific-metadata/1".into();
        scientific["electron_microscope"]["scan_controller/regular_scan/dwell_time"] =
            serde_json::json!({"value": value, "unit": unit, "provenance": "source_metadata"});
        std::fs::write(&two, assembled(&old.to_string(), &body(&one))).unwrap();
        let dwell = QemFile::open(&two).map(|f| f.acquisition().quantities[&Quantity::DwellTime].value);
        match expected {
            Some(expected) => assert!((dwell.unwrap() / expected - 1.0).abs() < 1e-12, "{unit}"),
            None => assert_eq!(dwell.unwrap_err().code(), "qem_metadata", "{unit}"),
        }
    }
}

#[test]
fn a_number_beyond_every_type_survives_a_change_of_overrides() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two, three) = (dir.path().join("1.qem"), dir.path().join("2.qem"), dir.path().join("3.qem"));
    write(&described(), &one, &QemOptions::default(), &Task::new()).unwrap();
    let mut text = header(&one).to_string();
    text.insert_str(1, "\"org.example/big\":123456789012345678901234567890,\"org.example/tail\":1.50,");
    std::fs::write(&two, assembled(&text, &body(&one))).unwrap();
    let options = QemOptions { overrides: OverrideChange::Clear, ..QemOptions::default() };
    write(&QemFile::open(&two).unwrap(), &three, &options, &Task::new()).unwrap();
    let text = String::from_utf8_lossy(&std::fs::read(&three).unwrap()).into_owned();
    assert!(text.contains("\"org.example/big\":123456789012345678901234567890"));
    assert!(text.contains("\"org.example/tail\":1.50"));
}

#[test]
fn a_copy_can_be_given_overrides_but_no_dark_frame() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("1.qem"), dir.path().join("2.qem"));
    let floats = source((1, 2), (1, 2), Samples::F32(vec![1.0, 2.0, 3.0, 4.0]));
    write(&floats, &one, &QemOptions::default(), &Task::new()).unwrap();
    let file = QemFile::open(&one).unwrap();
    let background = Background { identity: Digest([7; 32]), values: vec![0.5, 0.25] };
    let options = QemOptions { background: Some(background), ..QemOptions::default() };
    assert_eq!(write(&file, &two, &options, &Task::new()).unwrap_err().code(), "not_representable");
    assert_eq!(names(dir.path()), ["1.qem"]);
    let stated = Override { quantity: Quantity::BeamEnergy, value: 60.0, evidence: "logbook".into() };
    let overrides = OverrideChange::Set(vec![stated]);
    write(&file, &two, &QemOptions { overrides, ..QemOptions::default() }, &Task::new()).unwrap();
    assert_eq!(QemFile::open(&two).unwrap().effective_calibration()[&Quantity::BeamEnergy].value, 60.0);
    assert!(body(&two) == body(&one));
}

#[test]
fn the_retired_float_codec_is_read_and_never_written() {
    let Some(dir) = corpus("qem") else { return };
    let scratch = tempfile::tempdir().unwrap();
    for name in ["f32-xor-widths", "f32-xor-constant", "public-float32-special-bits"] {
        let file = QemFile::open(&dir.join(format!("valid/{name}.qem"))).unwrap();
        let to = scratch.path().join(format!("{name}.qem"));
        let report = write(&file, &to, &QemOptions::default(), &Task::new()).unwrap();
        assert_eq!(report.codec, QemCodec::Lanes);
        let copy = QemFile::open(&to).unwrap();
        assert_eq!(copy.codec(), QemCodec::Lanes);
        assert!(copy.verify(Some(report.output_sha256), true, &Task::new()).unwrap().sealed);
        let (_, expected) = npy_bytes(&dir.join(format!("valid/{name}.npy")));
        assert!(array(&copy, 2, &Task::new()).unwrap() == expected);
        assert_eq!(header(&to)["scientific_metadata"], header(file.path())["scientific_metadata"]);
    }
}

#[test]
fn a_file_that_changes_after_it_was_opened_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.qem");
    let fine = source((1, 2), (1, 2), Samples::U8(vec![1, 2, 3, 4]));
    write(&fine, &to, &QemOptions::default(), &Task::new()).unwrap();
    let file = QemFile::open(&to).unwrap();
    file.check_unchanged().unwrap();
    let bytes = std::fs::read(&to).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    std::fs::write(&to, &bytes).unwrap();
    assert_eq!(file.check_unchanged().unwrap_err().code(), "container_changed");
    let mut frame = Samples::zeroed(SampleType::U8, 2);
    assert_eq!(file.read(0, frame.as_mut(), &Task::new()).unwrap_err().code(), "container_changed");
    std::fs::remove_file(&to).unwrap();
    assert_eq!(file.check_unchanged().unwrap_err().code(), "container_changed");
}

#[test]
fn requests_outside_the_acquisition_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.qem");
    let fine = source((1, 2), (1, 2), Samples::U8(vec![1, 2, 3, 4]));
    write(&fine, &to, &QemOptions::default(), &Task::new()).unwrap();
    let file = QemFile::open(&to).unwrap();
    for (first, len, sample) in [
        (2, 2, SampleType::U8),
        (0, 3, SampleType::U8),
        (1, 4, SampleType::U8),
        (u64::MAX, 2, SampleType::U8),
        (0, 2, SampleType::U16),
    ] {
        let mut buffer = Samples::zeroed(sample, len);
        let code = file.read(first, buffer.as_mut(), &Task::new()).unwrap_err().code();
        let whole = len % 2 == 0 && sample == SampleType::U8;
        assert_eq!(code, if whole { "out_of_range" } else { "wrong_buffer" });
    }
    assert_eq!(file.virtual_sums(&[true], &Task::new()).unwrap_err().code(), "out_of_range");
}
