//! Quantities of EMPAD XML, and files that others wrote.

use crate::common::*;
use crate::empad::{G1, G2, Pairs, g1, g2};
use serde_json::Value as Json;
use stempack_model::{Acquisition, Quantity};

fn value(a: &Acquisition, quantity: Quantity) -> Option<f64> {
    a.quantities.get(&quantity).map(|r| r.value)
}

fn close(found: Option<f64>, expected: Option<f64>) {
    match (found, expected) {
        (Some(f), Some(e)) => assert!((f - e).abs() <= 1e-12 * e.abs(), "{f}, expected {e}"),
        (f, e) => assert_eq!(f, e),
    }
}

fn codes(a: &Acquisition) -> Vec<&'static str> {
    a.warnings.iter().map(|w| w.code).collect()
}

fn iom(inside: &str) -> String {
    format!("<iom_measurements>{inside}</iom_measurements>")
}

/// A 2×3 scan of the first generation with something in its measurements.
fn first(inside: &str) -> Acquisition {
    let pairs = Pairs::new();
    pairs.zeros("r.raw", 6 * G1);
    let xml = pairs.file("a.xml", g1("r.raw", &format!("<pix_y>2</pix_y><pix_x>3</pix_x>{inside}")));
    open(&xml).acquisition().clone()
}

fn second(inside: &str) -> Acquisition {
    let pairs = Pairs::new();
    pairs.zeros("r.raw", 6 * G2);
    open(&pairs.file("a.xml", g2("r.raw", "2,3", inside))).acquisition().clone()
}

use Quantity::*;
const STEPS: [Quantity; 2] = [ScanStepRow, ScanStepCol];
const ANGLES: [Quantity; 2] = [DetectorAngleRow, DetectorAngleCol];
const RECIPROCAL: [Quantity; 2] = [DetectorReciprocalRow, DetectorReciprocalCol];

#[test]
fn quantities_of_the_first_generation() {
    let a = first(&format!(
        "<timestamp isoformat=\"2020-01-02T03:04:05.5\"/><software_version> 1.2.2 (x) </software_version>\
         <exposure_time>1</exposure_time>{}",
        iom("<high_voltage>300000.0</high_voltage><nominal_camera_length>0.369</nominal_camera_length>\
             <calibrated_pixelsize>1.826537060227288e-10</calibrated_pixelsize>")
    ));
    close(value(&a, BeamEnergy), Some(300.0));
    close(value(&a, CameraLength), Some(369.0));
    close(value(&a, DwellTime), Some(1000.0));
    for q in RECIPROCAL {
        close(value(&a, q), Some(0.018_265_370_602_272_88));
    }
    assert!(ANGLES.iter().chain(&STEPS).all(|q| value(&a, *q).is_none()));
    assert_eq!(a.quantities[&BeamEnergy].origin.to_string(), "a.xml:iom_measurements/high_voltage");
    assert_eq!(a.identity["acquisition_date"], "2020-01-02T03:04:05.5");
    assert_eq!(a.identity["software_version"], "1.2.2 (x)");
    assert_eq!(a.provenance["microscope_metadata_source"], "a.xml");
    assert_eq!(a.signal_unit, None);
    for bad in ["nan", "0", "-1", "inf", "", "300000 V", "1e400", "1e-400", "0x10"] {
        let fields = ["high_voltage", "nominal_camera_length", "calibrated_pixelsize"];
        let inside: String = fields.iter().map(|f| format!("<{f}>{bad}</{f}>")).collect();
        let a = first(&format!("<exposure_time>{bad}</exposure_time>{}", iom(&inside)));
        assert!(a.quantities.is_empty(), "{bad}: {:?}", a.quantities);
    }
}

#[test]
fn quantities_of_the_second_generation() {
    let inside = iom("<ColumnSourceHighVoltage>300000.0</ColumnSourceHighVoltage>\
         <ColumnOpticsGetCameraLengthNominalCameraLength>0.369</ColumnOpticsGetCameraLengthNominalCameraLength>\
         <calibrated_diffraction_angle>0.00042906574394463665</calibrated_diffraction_angle>\
         <calibrated_pixelsize>1.2e-10</calibrated_pixelsize>");
    let a = second(&format!("<scan><exposure_time>0.0001</exposure_time></scan>{inside}"));
    close(value(&a, BeamEnergy), Some(300.0));
    close(value(&a, CameraLength), Some(369.0));
    close(value(&a, DwellTime), Some(100.0));
    for q in ANGLES {
        close(value(&a, q), Some(0.429_065_743_944_636_65));
    }
    assert!(RECIPROCAL.iter().all(|q| value(&a, *q).is_none()));
    // Each generation has its own fields.
    let other = iom("<high_voltage>300000.0</high_voltage><nominal_camera_length>1</nominal_camera_length>");
    assert!(second(&format!("<exposure_time>1</exposure_time>{other}")).quantities.is_empty());
    let other = "<ColumnSourceHighVoltage>300000.0</ColumnSourceHighVoltage>\
                 <calibrated_diffraction_angle>0.0004</calibrated_diffraction_angle>";
    assert!(
        first(&format!("<scan><exposure_time>1</exposure_time></scan>{}", iom(other))).quantities.is_empty()
    );
}

fn field(x: &str, y: &str, factor: &str) -> String {
    format!(
        "<full_scan_field_of_view><x>{x}</x><y>{y}</y><scale_factor>{factor}</scale_factor></full_scan_field_of_view>"
    )
}
fn legacy(text: &str) -> String {
    format!("<optics.get_full_scan_field_of_view>{text}</optics.get_full_scan_field_of_view>")
}

#[test]
fn scan_steps_by_the_two_rules() {
    let steps = |inside: &str| {
        let a = first(&iom(inside));
        STEPS.map(|q| value(&a, q))
    };
    let expect = |inside: &str, row: f64, col: f64| {
        let [r, c] = steps(inside);
        close(r, Some(row));
        close(c, Some(col));
    };
    expect(&field("2.16e-9", "2.16e-9", "0.72"), 10.0, 10.0);
    expect(&legacy("[2e-9, 6e-9]"), 10.0, 20.0);
    // The newer rule first; where it does not hold, the older.
    expect(&format!("{}{}", field("2.16e-9", "2.16e-9", "0.72"), legacy("[2e-9, 6e-9]")), 10.0, 10.0);
    for not_modern in
        [field("2.16e-9", "2.17e-9", "0.72"), field("2.16e-9", "2.16e-9", "0"), field("-1", "-1", "1")]
    {
        assert_eq!(steps(&not_modern), [None, None]);
        expect(&format!("{not_modern}{}", legacy("[2e-9, 6e-9]")), 10.0, 20.0);
    }
    for bad in [
        "[2e-9]",
        "[2e-9, 6e-9, 1e-9]",
        "[2e-9, 0]",
        "[2e-9, -1]",
        "2e-9",
        "(2e-9, 6e-9)",
        "None",
        "[2e-9, NaN]",
    ] {
        assert_eq!(steps(&legacy(bad)), [None, None], "{bad}");
    }
    let a = first(&iom(&legacy("[2e-9, 6e-9]")));
    assert_eq!(a.provenance["spatial_calibration_source"], "EMPAD XML · a.xml");
    let origin = a.quantities[&ScanStepCol].origin.to_string();
    assert!(origin.contains("optics.get_full_scan_field_of_view[1] / scan columns"), "{origin}");
    // A real record: a scan of 64 × 32.
    let pairs = Pairs::new();
    let real = iom(&field("1.272412341559544e-06", "1.272412341559544e-06", "0.72"));
    pairs.zeros("scan_x32_y64.raw", 2048 * G1);
    let source = open(&pairs.file("a.xml", g1("scan_x32_y64.raw", &real)));
    for q in STEPS {
        close(value(source.acquisition(), q), Some(276.131_150_512_053_8));
    }
    // Without a scan shape there is nothing to divide by.
    let source = open(&pairs.first(6, &real));
    assert!(source.acquisition().quantities.is_empty());
}

#[test]
fn a_recorded_scan_size_that_gives_another_step_is_said() {
    let size =
        |s: &str| format!("<scan_parameters mode=\"acquire\"><scan_size>{s}</scan_size></scan_parameters>");
    let a = first(&format!("{}{}", size("0.5"), iom(&field("2.16e-9", "2.16e-9", "0.72"))));
    assert_eq!(codes(&a), ["scan_step_rules_differ"]);
    let message = &a.warnings[0].message;
    // 2.16e-9 m × 0.5 / 3 is 3.6 angstrom.
    assert!(
        message.contains("scan_size") && message.contains("scale_factor") && message.contains("3.6"),
        "{message}"
    );
    close(value(&a, ScanStepRow), Some(10.0));
    assert!(a.quantities[&ScanStepRow].origin.path.contains("scale_factor"));
    let a = first(&format!("{}{}", size("0.5"), iom(&legacy("[2e-9, 6e-9]"))));
    assert_eq!(codes(&a), ["scan_step_rules_differ"]);
    for same in [iom(&field("3e-9", "3e-9", "1.0")), iom(&legacy("[2e-9, 6e-9]")), String::new()] {
        assert!(codes(&first(&format!("{}{same}", size("1.0")))).is_empty());
    }
}

#[test]
fn retained_texts_are_bounded_and_the_interpreted_ones_come_first() {
    let many: String = (0..150).map(|i| format!("<e{i} a=\"v\">t{i}</e{i}>")).collect();
    let a = first(&format!(
        "{many}<long>{}</long>{}",
        "x".repeat(5000),
        iom("<high_voltage>300000.0</high_voltage>")
    ));
    assert_eq!(a.retained.len(), 100);
    // 301 texts here besides the four that are interpreted: RAW, rows, columns, voltage.
    assert_eq!(a.retained_left_out, 301 + 4 - 100);
    let has = |key: &str, text: &str| a.retained.contains(&(key.to_owned(), text.to_owned()));
    assert!(has("iom_measurements/high_voltage", "300000.0") && has("raw_file@filename", "r.raw"));
    assert!(has("e0@a", "v") && has("e0", "t0"));
}

#[test]
fn a_real_record_of_the_oldest_software() {
    let Some(base) = corpus("real/empad") else { return };
    let truth = truth(&base.join(".."), &["empad/map4x4", "empad/scan_x4_y4"]);
    let of = |name: &str| truth.iter().find(|(file, _)| file.ends_with(name)).unwrap().1.clone();
    let (xml, raw) = (of("map4x4.xml"), of("scan_x4_y4.raw"));
    // The XML was cut by its origin: two shapes are recorded, and only the caller can say which.
    for name in ["map4x4.xml", "scan_x4_y4.raw"] {
        let path = base.join(name);
        let error = refusal(&path);
        assert_eq!(error.code(), "conflicting_scan_shape");
        for named in ["4x4", "128x128", "64x64", "[acquire]", "[search]", "pix_y", "records in the file: 16"]
        {
            assert!(error.message().contains(named), "{error}");
        }
        let source = open_with(&path, &stated(4, 4));
        let a = source.acquisition();
        assert_eq!(a.reader, "empad-g1-float32-xml/v1");
        let expected = raw["pixels_only"]["sha256_le_c_order"].as_str().unwrap();
        for window in [1, 5, 16] {
            assert_eq!(logical_sha256(&*source, window), expected);
        }
        let number = |key: &str| xml["iom"][key].as_str().unwrap().parse::<f64>().unwrap();
        close(value(a, BeamEnergy), Some(number("source.get_voltage") / 1e3));
        close(value(a, CameraLength), Some(number("optics.get_cameralength") * 1e3));
        close(value(a, DetectorReciprocalCol), Some(number("calibrated_pixelsize") * 1e8));
        close(value(a, DetectorAngleCol), None);
        close(value(a, DwellTime), Some(1000.0));
        assert_eq!(a.identity["acquisition_date"], xml["iso_time"].as_str().unwrap());
        // Beyond what is usual: kept, and flagged.
        for q in STEPS {
            close(value(a, q), Some(11_415.856_626_420_55));
            assert!(a.quantities[&q].flag.is_some());
        }
        for code in ["conflicting_scan_shape", "scan_step_rules_differ", "detector_sampling_disagreement"] {
            assert!(codes(a).contains(&code), "{:?}", a.warnings);
        }
    }
}

/// The RAW of this real XML would have 1.09 GB; it is made of nothing here, which also shows that opening reads none of it.
#[test]
fn a_real_record_of_version_1_2_0() {
    let Some(base) = corpus("real/empad") else { return };
    let name = "map128x128_version1.2.0.xml";
    let error = refusal(&base.join(name));
    assert_eq!((error.code(), error.message().contains("scan_x128_y128.raw")), ("missing_member", true));
    let pairs = Pairs::new();
    pairs.file(name, std::fs::read(base.join(name)).unwrap());
    let raw = pairs.zeros("scan_x128_y128.raw", 16_384 * G1);
    let source = open(&raw);
    let a = source.acquisition();
    assert_eq!(a.shape().unwrap().dims(), [128, 128, 128, 128]);
    close(value(a, BeamEnergy), Some(300.0));
    close(value(a, CameraLength), Some(115.9));
    close(value(a, DwellTime), Some(1000.0));
    for q in STEPS {
        close(value(a, q), Some(9.266641250196717e-09 / 0.72 / 128.0 * 1e10));
        assert_eq!(a.quantities[&q].flag, None);
    }
    assert_eq!(codes(a), ["scan_step_rules_differ"]);
    assert_eq!(a.identity["acquisition_date"], "2021-05-18T08:39:52.213645");
    assert_eq!(a.identity["software_version"], "1.2.0  (2020-10-29)");
    let samples = read(&*source, 16_383, 1).unwrap();
    assert!(little_endian(&samples).iter().all(|b| *b == 0));
}

fn case(name: &str) -> Option<(std::path::PathBuf, Json)> {
    let folder = corpus(&format!("cases/{name}"))?;
    let expect = json(&folder.join("case.json"))["expect"].clone();
    Some((folder, expect))
}

fn agrees(source: &dyn stempack_model::FrameSource, expect: &Json) {
    let a = source.acquisition();
    assert_eq!(a.shape().unwrap().dims().map(|n| n as u64).to_vec(), numbers(&expect["shape"]));
    assert_eq!(numpy_dtype(a), expect["dtype"].as_str().unwrap());
    assert_eq!(logical_sha256(source, 1), expect["sha256_le_c_order"].as_str().unwrap());
}

#[test]
fn c01_what_was_acquired_is_not_what_was_saved() {
    let Some((folder, expect)) = case("c01-empad-search-not-acquire") else { return };
    for name in ["acq.xml", "scan_x1_y2.raw"] {
        let error = refusal(&folder.join(name));
        assert_eq!(error.code(), "conflicting_scan_shape");
        for named in ["[acquire]", "3x3", "scan_x1_y2", "2x1", "records in the file: 2"] {
            assert!(error.message().contains(named), "{error}");
        }
        agrees(&*open_with(&folder.join(name), &stated(2, 1)), &expect["with_scan_2_1"]);
    }
}

#[test]
fn c02_a_scan_that_is_not_square() {
    let Some((folder, expect)) = case("c02-empad-non-square") else { return };
    for name in ["acq.xml", "scan_x1_y3.raw"] {
        let source = open(&folder.join(name));
        agrees(&*source, &expect);
        let a = source.acquisition();
        close(value(a, BeamEnergy), Some(300.0));
        close(value(a, CameraLength), Some(115.0));
        close(value(a, DwellTime), Some(1000.0));
        assert!(STEPS.iter().all(|q| value(a, *q).is_none()));
    }
}

#[test]
fn c04_an_xml_with_a_name_of_its_own() {
    let Some((folder, expect)) = case("c04-empad-xml-name-differs") else { return };
    agrees(&*open(&folder.join("sample A 12.xml")), &expect["open_xml"]);
    agrees(&*open(&folder.join("scan_x2_y1.raw")), &expect["open_raw"]);
}

#[test]
fn c10_flyback_frames_are_no_positions() {
    let Some((folder, expect)) = case("c10-empad2-flyback-counter") else { return };
    let xml = folder.join("acq.xml");
    assert_eq!(
        refusal(&xml).code(),
        "conflicting_scan_shape",
        "the name and the XML order the numbers differently"
    );
    for shape in expect["shape_is_one_of"].as_array().unwrap() {
        let dims = numbers(shape);
        let source = open_with(&xml, &stated(dims[0], dims[1]));
        let a = source.acquisition();
        assert_eq!(a.shape().unwrap().dims().map(|n| n as u64).to_vec(), dims);
        assert_eq!(logical_sha256(&*source, 2), expect["sha256_le_c_order"].as_str().unwrap());
        close(value(a, DwellTime), Some(100.0));
        for q in ANGLES {
            close(value(a, q), Some(0.5));
        }
        assert!(RECIPROCAL.iter().all(|q| value(a, *q).is_none()));
    }
}
