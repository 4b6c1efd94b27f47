//! DigitalMicrograph documents: shapes, orders of axes, sample types, calibration, identity.
//!
//! The files are written by `dm_writer.rs`; what is expected is worked out from the format facts.

use crate::common::*;
use crate::dm_writer::*;
use stempack_model::{Acquisition, Quantity, SampleType, Samples, Task};
use stempack_sources::OpenOptions;

/// The usual order: the detector is fastest.
const UNITS: [&str; 4] = ["1/nm", "1/nm", "nm", "nm"];
const ALLOW: OpenOptions = OpenOptions { scan: None, allow_outside_links: false, allow_uncalibrated: true };

fn small() -> Image {
    Image::u16(&[5, 4, 3, 2], &UNITS)
}

fn with_units(units: [&str; 4]) -> Image {
    Image::u16(&[5, 4, 3, 2], &units)
}

fn opened(image: &Image) -> Acquisition {
    let file = Written::new();
    open(&file.write(&image.document())).acquisition().clone()
}

fn opened_anyway(image: &Image) -> Acquisition {
    let file = Written::new();
    open_with(&file.write(&image.document()), &ALLOW).acquisition().clone()
}

fn refused(document: &[u8]) -> (&'static str, String) {
    let file = Written::new();
    let error = refusal(&file.write(document));
    (error.code(), error.message().to_owned())
}

fn steps(a: &Acquisition, names: [Quantity; 2]) -> Option<[f64; 2]> {
    let [row, col] = names.map(|n| a.quantities.get(&n).map(|r| r.value));
    assert_eq!(row.is_some(), col.is_some(), "row and column stand together");
    row.zip(col).map(|(r, c)| [r, c])
}

const SCAN: [Quantity; 2] = [Quantity::ScanStepRow, Quantity::ScanStepCol];
const RECIPROCAL: [Quantity; 2] = [Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol];
const ANGLE: [Quantity; 2] = [Quantity::DetectorAngleRow, Quantity::DetectorAngleCol];

fn dims(a: &Acquisition) -> [usize; 4] {
    a.shape().unwrap().dims()
}

fn warned(a: &Acquisition, code: &str) -> bool {
    a.warnings.iter().any(|w| w.code == code)
}

/// Facts § 5.2: dimensions stored 65, 64, 3, 2, every scale 0.25.
#[test]
fn the_worked_document() {
    let file = Written::new();
    let path = file.write(&Image::u16(&[65, 64, 3, 2], &UNITS).document());
    let source = open(&path);
    let a = source.acquisition();
    assert_eq!(dims(a), [2, 3, 64, 65]);
    assert_eq!((a.sample, a.frame_count), (SampleType::U16, 6));
    assert_eq!(steps(a, SCAN), Some([2.5, 2.5]));
    assert_eq!(steps(a, RECIPROCAL), Some([0.025, 0.025]));
    assert_eq!(a.provenance["sourceBytes"], std::fs::metadata(&path).unwrap().len().to_string());
    assert_eq!(a.provenance["sourceFormatVersion"], "digitalmicrograph/native-counts-v1");
    assert_eq!(a.provenance["sourceDataset"], "ImageList.1.ImageData.Data");
    assert_eq!((a.reader.as_str(), a.format.as_str()), ("digitalmicrograph-dm4/v1", "DigitalMicrograph DM4"));
    assert_eq!((a.label.as_str(), a.members.len()), ("scan", 1));
    assert!(a.warnings.is_empty(), "{:?}", a.warnings);
    let step = &a.quantities[&Quantity::DetectorReciprocalRow];
    assert_eq!(step.origin.to_string(), "scan.dm4:ImageList.1.ImageData.Calibrations.Dimension.2.Scale");
    assert_eq!(step.conversion, "0.25 1/nm ÷ 10");
    let digests = source.digest_members(&Task::new()).unwrap();
    assert_eq!(hex::encode(digests[0].sha256), sha256(&std::fs::read(&path).unwrap()));
}

/// Frames are the stored samples in their order, whatever the window.
#[test]
fn frames_in_windows_of_every_size() {
    let file = Written::new();
    let source = open(&file.write(&small().document()));
    let expected: Vec<u8> = (0..120u16).flat_map(u16::to_le_bytes).collect();
    for window in 1..=6 {
        assert_eq!(logical_sha256(&*source, window), sha256(&expected), "windows of {window}");
    }
    assert_eq!(read(&*source, 4, 1).unwrap(), Samples::U16((80..100).collect()));
    assert_eq!(read(&*source, 5, 2).unwrap_err().code(), "out_of_range");
}

#[test]
fn calibrations_are_reversed_with_the_dimensions() {
    let mut image = small().scales(&[0.04, 0.05, 2.5, 1.5]);
    image.axes[0].2 = 9.0;
    image.axes[1].2 = 8.0;
    let a = opened(&image);
    assert_eq!(dims(&a), [2, 3, 4, 5]);
    assert_eq!(steps(&a, SCAN), Some([15.0, 25.0]));
    assert_eq!(steps(&a, RECIPROCAL), Some([0.005, 0.004]));
    assert_eq!(a.provenance["axis_origins"], "scan_row 0, scan_col 0, det_row 8, det_col 9");
}

/// Facts § 5.2 for the units of the seed; the others are worth what they say.
#[test]
fn units_of_scan_axes() {
    let table = [
        ("nm", Some(2.5), true),
        ("um", Some(2500.0), true),
        ("\u{b5}m", Some(2500.0), true),
        ("\u{3bc}m", Some(2500.0), false),
        ("A", Some(0.25), true),
        ("\u{c5}", Some(0.25), true),
        ("pm", Some(0.0025), false),
        ("mm", Some(2.5e6), false),
        ("m", Some(2.5e9), false),
        ("", None, true),
        ("px", None, true),
        ("1/nm", None, true),
    ];
    for (unit, step, in_seed) in table {
        let a = opened(
            &with_units(["1/nm", "1/nm", unit, unit]).tag(&["Meta Data", "Data Order Swapped"], DM4.u32(1)),
        );
        assert_eq!(steps(&a, SCAN), step.map(|s| [s, s]), "{unit}");
        assert_eq!(steps(&a, RECIPROCAL), Some([0.025, 0.025]), "{unit}");
        assert_eq!(a.provenance.contains_key("sourceFormatVersion"), in_seed, "{unit}");
        assert_eq!(warned(&a, "uncalibrated_scan_step"), step.is_none() && !unit.is_empty(), "{unit}");
    }
    // One good and one bad is none.
    let a = opened(&with_units(["1/nm", "1/nm", "nm", "px"]));
    assert_eq!(steps(&a, SCAN), None);
    // Axes in different units are converted each by its own factor.
    let a = opened(&with_units(["1/nm", "1/nm", "nm", "A"]));
    assert_eq!(steps(&a, SCAN), Some([0.25, 2.5]));
}

#[test]
fn units_of_detector_axes() {
    for (unit, worth) in [
        ("1/nm", 0.025),
        ("1/\u{c5}", 0.25),
        ("1/A", 0.25),
        ("A^-1", 0.25),
        ("nm^-1", 0.025),
        ("1/um", 2.5e-5),
    ] {
        let a = opened(&with_units([unit, unit, "nm", "nm"]));
        assert_eq!(steps(&a, RECIPROCAL), Some([worth, worth]), "{unit}");
        assert_eq!(steps(&a, ANGLE), None);
        assert_eq!(a.provenance.contains_key("sourceFormatVersion"), unit == "1/nm", "{unit}");
    }
    for (unit, worth) in [("mrad", 0.25), ("rad", 250.0)] {
        let a = opened(&with_units([unit, unit, "nm", "nm"]));
        assert_eq!((steps(&a, ANGLE), steps(&a, RECIPROCAL)), (Some([worth, worth]), None), "{unit}");
    }
}

#[test]
fn a_detector_without_steps_is_refused_unless_that_is_allowed() {
    for units in [
        ["", "", "nm", "nm"],
        ["px", "px", "nm", "nm"],
        ["1/nm", "", "nm", "nm"],
        ["1/nm", "mrad", "nm", "nm"],
    ] {
        let image = with_units(units);
        let (code, message) = refused(&image.document());
        assert_eq!(code, "missing_calibration", "{units:?}");
        assert!(message.contains("no reciprocal or angular step") && message.contains(units[0]), "{message}");
        let a = opened_anyway(&image);
        assert_eq!((steps(&a, RECIPROCAL), steps(&a, ANGLE)), (None, None));
        assert_eq!((dims(&a), steps(&a, SCAN)), ([2, 3, 4, 5], Some([2.5, 2.5])), "{units:?}");
        assert!(warned(&a, "uncalibrated_detector"));
        assert!(!a.provenance.contains_key("sourceFormatVersion"));
    }
    let file = Written::new();
    let error = refusal(&file.write(&with_units(["", "", "nm", "nm"]).document()));
    assert!(error.advice().unwrap().contains("--allow-uncalibrated"));
}

#[test]
fn scales_that_are_no_steps() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let a = opened(&small().scales(&[0.25, 0.25, bad, 0.25]));
        assert_eq!(steps(&a, SCAN), None, "{bad}");
        assert_eq!(steps(&a, RECIPROCAL), Some([0.025, 0.025]));
        let image = small().scales(&[0.25, bad, 0.25, 0.25]);
        assert_eq!(refused(&image.document()).0, "missing_calibration", "{bad}");
        let a = opened_anyway(&image);
        assert_eq!((steps(&a, RECIPROCAL), steps(&a, SCAN)), (None, Some([2.5, 2.5])));
    }
    // Outside what is usual: kept and flagged.
    let a = opened(&small().scales(&[0.25, 0.25, 1140.0, 0.25]));
    assert!(
        a.quantities[&Quantity::ScanStepCol].flag.is_some()
            && a.quantities[&Quantity::ScanStepRow].flag.is_none()
    );
    assert_eq!(steps(&a, SCAN), Some([2.5, 11_400.0]));
    // Scales may be stored as any number.
    let mut image = small();
    image.axes[2].0 = DM4.i32(2);
    image.axes[3].0 = DM4.f32(0.5);
    image.axes[0].0 = DM4.f32(0.04);
    let a = opened(&image);
    assert_eq!(steps(&a, SCAN), Some([5.0, 20.0]));
    let step = &a.quantities[&Quantity::DetectorReciprocalCol];
    assert_eq!((step.value, step.conversion.as_str()), (f64::from(0.04f32) / 10.0, "0.04 1/nm ÷ 10"));
}

/// Sample types, in both byte orders and both versions: the extreme values come back with every bit.
#[test]
fn every_sample_type_in_both_byte_orders_and_versions() {
    let nan = f32::from_bits(0x7fa0_1234).to_le_bytes();
    let table: [(i32, u64, SampleType, Vec<Vec<u8>>); 10] = [
        (1, 2, SampleType::I16, vec![i16::MIN.to_le_bytes().into(), 1i16.to_le_bytes().into()]),
        (2, 6, SampleType::F32, vec![nan.into(), (-0.0f32).to_le_bytes().into()]),
        (6, 10, SampleType::U8, vec![vec![255], vec![1]]),
        (7, 3, SampleType::I32, vec![i32::MIN.to_le_bytes().into(), (-2i32).to_le_bytes().into()]),
        (9, 9, SampleType::I8, vec![vec![0x80], vec![1]]),
        (10, 4, SampleType::U16, vec![0xfffe_u16.to_le_bytes().into(), 258u16.to_le_bytes().into()]),
        (11, 5, SampleType::U32, vec![u32::MAX.to_le_bytes().into(), 0x0102_0304_u32.to_le_bytes().into()]),
        (12, 7, SampleType::F64, vec![f64::MIN_POSITIVE.to_le_bytes().into(), 0.1f64.to_le_bytes().into()]),
        (39, 11, SampleType::I64, vec![i64::MIN.to_le_bytes().into(), 3i64.to_le_bytes().into()]),
        (40, 12, SampleType::U64, vec![u64::MAX.to_le_bytes().into(), 3u64.to_le_bytes().into()]),
    ];
    let file = Written::new();
    for (data_type, element, sample, values) in table {
        for version in [3, 4] {
            for big_endian in [false, true] {
                let style = Style { version, big_endian };
                let mut image = Image::u16(&[1, 1, 2, 1], &UNITS).scales(&[0.25; 4]);
                image.style = style;
                image.axes.iter_mut().for_each(|a| a.0 = style.f64(0.25));
                (image.data_type, image.element, image.samples) = (data_type, element, values.clone());
                let source = open(&file.write(&image.document()));
                let a = source.acquisition();
                assert_eq!((a.sample, dims(a)), (sample, [1, 2, 1, 1]));
                assert_eq!(
                    little_endian(&read(&*source, 0, 2).unwrap()),
                    values.concat(),
                    "{sample} {version} {big_endian}"
                );
                assert_eq!(steps(a, SCAN), Some([2.5, 2.5]));
                assert_eq!(a.reader, format!("digitalmicrograph-dm{version}/v1"));
                let seed = matches!(sample, SampleType::U8 | SampleType::U16) && version == 4 && !big_endian;
                assert_eq!(a.provenance.contains_key("sourceFormatVersion"), seed);
            }
        }
    }
    // Writers name bytes differently.
    for element in [8, 9, 10] {
        let mut image = Image::u16(&[1, 1, 2, 1], &UNITS);
        (image.data_type, image.element, image.samples) = (6, element, vec![vec![200], vec![7]]);
        let source = open(&file.write(&image.document()));
        assert_eq!(read(&*source, 0, 2).unwrap(), Samples::U8(vec![200, 7]));
    }
}

/// The scan may be stored fastest: the frames are what they would be in the usual order.
#[test]
fn scan_fastest_storage_is_laid_out_anew() {
    // Stored 3 (scan column), 2 (scan row), 5 (detector column), 4 (detector row), the value is its own place.
    let stored = Image::u16(&[3, 2, 5, 4], &["nm", "nm", "1/nm", "1/nm"]).scales(&[2.5, 1.5, 0.04, 0.05]);
    let mut expected = Vec::new();
    for (row, col) in (0..2).flat_map(|r| (0..3).map(move |c| (r, c))) {
        for (y, x) in (0..4).flat_map(|y| (0..5).map(move |x| (y, x))) {
            expected.extend((col + 3 * (row + 2 * (x + 5 * y)) as u16).to_le_bytes());
        }
    }
    let order = ["Meta Data", "Data Order Swapped"];
    let by_tag = stored.clone().tag(&order, Tag::Data(vec![8], vec![0]));
    let mut without_units = by_tag.clone();
    without_units.axes[2].1.clear();
    without_units.axes[3].1.clear();
    for (image, evidence) in [(&stored, "units"), (&by_tag, "false"), (&without_units, "false")] {
        let file = Written::new();
        let path = file.write(&image.document());
        let source = open_with(&path, &ALLOW);
        let a = source.acquisition();
        assert_eq!(dims(a), [2, 3, 4, 5]);
        for window in 1..=6 {
            assert_eq!(
                logical_sha256(&*source, window),
                sha256(&expected),
                "{evidence}, windows of {window}"
            );
        }
        assert_eq!(steps(a, SCAN), Some([15.0, 25.0]));
        assert!(a.provenance["axis_order"].contains(evidence), "{:?}", a.provenance);
        assert!(!warned(a, "assumed_axis_order"));
        assert!(!a.provenance.contains_key("sourceFormatVersion"));
    }
    assert_eq!(steps(&opened(&stored), RECIPROCAL), Some([0.005, 0.004]));
}

#[test]
fn orders_that_contradict_each_other_are_refused_and_an_assumed_one_is_stated() {
    let tag = ["Meta Data", "Data Order Swapped"];
    for (units, swapped) in [(UNITS, 0), (["nm", "nm", "1/nm", "1/nm"], 1)] {
        let (code, message) = refused(&with_units(units).tag(&tag, DM4.u32(swapped)).document());
        assert_eq!(code, "ambiguous_source");
        assert!(message.contains("Data Order Swapped") && message.contains("`1/nm`"), "{message}");
    }
    for (value, swapped) in [
        (DM4.u32(1), true),
        (DM4.text("true"), true),
        (DM4.text("0"), false),
        (Tag::Data(vec![8], vec![1]), true),
    ] {
        let a = opened_anyway(&with_units(["", "", "", ""]).tag(&tag, value));
        assert_eq!(dims(&a), if swapped { [2, 3, 4, 5] } else { [4, 5, 2, 3] });
        assert!(!warned(&a, "assumed_axis_order"));
    }
    // Nothing at all: the order of the seed, as an assumption; lengths of the fastest axes alone speak for the other.
    let a = opened_anyway(&with_units(["", "", "", ""]));
    assert_eq!(dims(&a), [2, 3, 4, 5]);
    assert!(warned(&a, "assumed_axis_order") && a.provenance["axis_order"].starts_with("assumed"));
    let a = opened_anyway(&with_units(["nm", "nm", "", ""]));
    assert_eq!((dims(&a), steps(&a, SCAN)), ([4, 5, 2, 3], Some([2.5, 2.5])));
    assert!(warned(&a, "assumed_axis_order"));
}

#[test]
fn only_a_recorded_model_makes_a_k3() {
    let model = ["Acquisition", "Device", "Source Model"];
    for (text, format) in [
        ("K3", "K3 DM4"),
        (" k3 ", "K3 DM4"),
        ("K3 IS", "DigitalMicrograph DM4"),
        ("Other camera", "DigitalMicrograph DM4"),
    ] {
        let a = opened(&small().tag(&model, DM4.text(text)));
        assert_eq!((a.format.as_str(), a.identity["camera_model"].as_str()), (format, text));
    }
    // Texts only, and only the tag of the image itself.
    let a = opened(&small().tag(&model, DM4.u32(3)).tag(&["Name"], DM4.text("K3")));
    assert_eq!(
        (a.format.as_str(), a.identity.contains_key("camera_model")),
        ("DigitalMicrograph DM4", false)
    );
    let mut image = small().tag(&model, DM4.text("K3"));
    image.style.version = 3;
    assert_eq!(opened(&image).format, "K3 DM3");
}

#[test]
fn texts_and_the_voltage() {
    let voltage = ["Microscope Info", "Voltage"];
    let image = small()
        .tag(&["Acquisition", "Device", "Source ID"], DM4.text("K3-1"))
        .tag(&["Acquisition", "Parameters", "High Level", "Processing"], DM4.text("Gain Normalized"))
        .tag(&["SI", "Acquisition", "Date"], DM4.text("1/2/2024"))
        .tag(&voltage, DM4.f32(300_000.0));
    let a = opened(&image);
    assert_eq!(a.identity["camera_id"], "K3-1");
    assert_eq!(a.identity["acquisition_processing"], "Gain Normalized");
    assert_eq!(a.identity["acquisition_date"], "1/2/2024");
    let energy = &a.quantities[&Quantity::BeamEnergy];
    assert_eq!((energy.value, energy.conversion.as_str()), (300.0, "300000 V ÷ 1000"));
    assert_eq!(energy.origin.path, "ImageList.1.ImageTags.Microscope Info.Voltage");
    for bad in [DM4.f64(0.0), DM4.f64(-3e5), DM4.f64(f64::NAN), DM4.text("300 kV"), DM4.f64(f64::INFINITY)] {
        let a = opened(&small().tag(&voltage, bad));
        assert!(!a.quantities.contains_key(&Quantity::BeamEnergy));
        assert!(warned(&a, "unusable_calibration"), "{:?}", a.warnings);
    }
    // No date but the recorded one.
    assert!(opened(&small()).identity.is_empty());
}

#[test]
fn retained_tags_are_bounded_and_the_interpreted_ones_come_first() {
    let mut image = small().tag(&["SI", "Acquisition", "Date"], DM4.text("1/2/2024"));
    for i in 0..150 {
        image = image.tag(&["A", &format!("t{i:03}")], DM4.u32(i));
    }
    let a = opened(&image);
    let kept = |name: &str| a.retained.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    assert_eq!(a.retained.len(), 100);
    // 12 of the axes, 4 dimensions, the data type and the date: 82 of the others fit.
    assert_eq!(a.retained_left_out, 68);
    assert_eq!(kept("dm4.ImageTags.SI.Acquisition.Date"), Some("1/2/2024"));
    assert_eq!(kept("dm4.ImageData.Dimensions.1"), Some("5"));
    assert_eq!(kept("dm4.ImageData.Calibrations.Dimension.4.Units"), Some("nm"));
    assert_eq!(kept("dm4.ImageTags.A.t081"), Some("81"));
    assert_eq!(kept("dm4.ImageTags.A.t082"), None);
    assert_eq!(kept("dm4.ImageData.Data"), None);
}

#[test]
fn tags_are_shown_as_what_they_are() {
    let bytes = |info: Vec<u64>, le: &[u8]| Tag::Data(info, le.to_vec());
    let table = [
        ("i8", bytes(vec![9], &[0xfb]), "-5"),
        ("i64", bytes(vec![11], &(-7i64).to_le_bytes()), "-7"),
        ("u64", bytes(vec![12], &u64::MAX.to_le_bytes()), "18446744073709551615"),
        ("i16", bytes(vec![2], &(-3i16).to_le_bytes()), "-3"),
        ("bool", bytes(vec![8], &[1]), "true"),
        ("f32", DM4.f32(0.04), "0.04"),
        ("f64", DM4.f64(1e-5), "1e-5"),
        ("point", bytes(vec![15, 0, 2, 0, 6, 0, 3], &[0, 0, 0x80, 0x3f, 0xff, 0xff, 0xff, 0xff]), "1, -1"),
        ("few", bytes(vec![20, 10, 3], &[1, 2, 3]), "1, 2, 3"),
        ("many", bytes(vec![20, 10, 60], &[0; 60]), "60 × uint8"),
        ("table", bytes(vec![20, 15, 0, 1, 0, 10, 5], &[0; 5]), "5 structures of 1 fields"),
        ("string", bytes(vec![18, 3], b"a\xb5b"), "a\u{b5}b"),
        ("strange", bytes(vec![99, 1], &[1, 2, 3]), "3 bytes of the unknown type [99, 1]"),
        ("\u{1}\u{b5}name", DM4.text("\u{3bc}"), "\u{3bc}"),
    ];
    let mut image = small();
    for (name, tag, _) in &table {
        image = image.tag(&[name], tag.clone());
    }
    let a = opened(&image);
    for (name, _, shown) in table {
        let key = format!("dm4.ImageTags.{}", name.trim_start_matches('\u{1}'));
        let kept = a.retained.iter().find(|(n, _)| *n == key).map(|(_, v)| v.as_str());
        assert_eq!(kept, Some(shown), "{name}");
    }
}

#[test]
fn a_stated_scan_must_be_the_recorded_one() {
    let file = Written::new();
    let path = file.write(&small().document());
    assert_eq!(dims(open_with(&path, &stated(2, 3)).acquisition()), [2, 3, 4, 5]);
    let error = refusal_with(&path, &stated(3, 2));
    assert_eq!(error.code(), "conflicting_scan_shape");
    assert!(error.message().contains("2x3") && error.message().contains("3x2"));
}

#[test]
fn a_stack_opens_with_the_tags_of_its_scan() {
    let tags = |x: i32, y: i32| {
        Image::u16(&[5, 4, 6], &["1/nm", "1/nm", ""])
            .tag(&["4D STEM Tags", "Scan shape X"], DM4.i32(x))
            .tag(&["4D STEM Tags", "Scan shape Y"], DM4.i32(y))
    };
    let file = Written::new();
    let source = open(&file.write(&tags(3, 2).document()));
    let a = source.acquisition();
    assert_eq!((dims(a), steps(a, SCAN)), ([2, 3, 4, 5], None));
    assert_eq!(steps(a, RECIPROCAL), Some([0.025, 0.025]));
    assert!(warned(a, "stack_as_scan"));
    assert_eq!(read(&*source, 1, 1).unwrap(), Samples::U16((20..40).collect()));
    assert_eq!(refused(&tags(3, 3).document()).0, "conflicting_scan_shape");
    assert_eq!(refused(&tags(0, 3).document()).0, "invalid_scan_shape");
    assert_eq!(refused(&tags(-3, -2).document()).0, "invalid_scan_shape");
    let (code, message) = refused(&Image::u16(&[5, 4, 6], &["1/nm", "1/nm", ""]).document());
    assert_eq!(code, "unsupported_layout");
    assert!(message.contains("`ImageList.1` (6×4×5 uint16)"), "{message}");
}

#[test]
fn a_file_that_changes_is_noticed() {
    let file = Written::new();
    let path = file.write(&small().document());
    let source = open(&path);
    source.check_unchanged().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    std::fs::write(&path, small().document()).unwrap();
    assert_eq!(source.check_unchanged().unwrap_err().code(), "source_changed");
    assert_eq!(read(&*source, 0, 1).unwrap_err().code(), "source_changed");
}

#[test]
fn contents_decide_and_the_name_does_not() {
    let file = Written::new();
    let other = file.folder().join("données.bin");
    std::fs::write(&other, small().document()).unwrap();
    assert_eq!(dims(open(&other).acquisition()), [2, 3, 4, 5]);
    let link = file.folder().join("link");
    std::os::unix::fs::symlink(&other, &link).unwrap();
    assert_eq!(dims(open(&link).acquisition()), [2, 3, 4, 5]);
    let named = file.write(b"this is no document of tags at all");
    assert_eq!(refusal(&named).code(), "unknown_format");
    let found = stempack_sources::explain(&other).unwrap();
    assert_eq!((found[0].format, found[0].score), ("dm", Some(90)));
}
