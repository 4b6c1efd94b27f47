//! DigitalMicrograph documents that others wrote, against the truth other readers computed.

use crate::common::*;
use serde_json::Value as Json;
use stempack_model::Quantity;
use stempack_sources::OpenOptions;

fn angstrom(unit: &str) -> f64 {
    match unit {
        "nm" => 10.0,
        "um" | "\u{b5}m" => 1e4,
        "A" | "\u{c5}" => 1.0,
        other => panic!("{other}"),
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-12 * expected, "{found}, expected {expected}");
}

#[test]
fn written_documents_have_their_truth() {
    let Some(base) = corpus("real") else { return };
    let mut read_some = 0;
    for (file, truth) in truth(&base, &["written/dm4/"]) {
        let path = base.join(&file);
        if truth["images_of_rank_4"] != 1 {
            assert_eq!(refusal(&path).code(), "ambiguous_source", "{file}");
            continue;
        }
        let source = open(&path);
        let a = source.acquisition();
        let image = truth["rosettasciio"]
            .as_array()
            .unwrap()
            .iter()
            .find(|i| numbers(&i["shape"]).len() == 4)
            .unwrap();
        assert_eq!(a.shape().unwrap().dims().map(|n| n as u64).to_vec(), numbers(&image["shape"]), "{file}");
        assert_eq!(numpy_dtype(a), image["dtype"], "{file}");
        for window in [1, 5, 1000] {
            assert_eq!(
                logical_sha256(&*source, window),
                image["sha256_le_c_order"].as_str().unwrap(),
                "{file}"
            );
        }
        if !truth["virtual"].is_null() {
            assert_eq!(totals(&*source), numbers(&truth["virtual"]["total_sums"]), "{file}");
        }
        let axes = truth["written_calibration_scan_row_col_det_row_col"].as_array().unwrap();
        let names = [
            Quantity::ScanStepRow,
            Quantity::ScanStepCol,
            Quantity::DetectorReciprocalRow,
            Quantity::DetectorReciprocalCol,
        ];
        for (name, axis) in names.into_iter().zip(axes) {
            let (scale, unit) = (axis["scale"].as_f64().unwrap(), axis["units"].as_str().unwrap());
            let expected = if unit == "1/nm" { scale / 10.0 } else { scale * angstrom(unit) };
            close(a.quantities[&name].value, expected);
            let name = ["scan_row", "scan_col", "det_row", "det_col"]
                [names.iter().position(|&n| n == name).unwrap()];
            let origin = format!("{name} {}", axis["origin_pixels"].as_f64().unwrap());
            assert!(a.provenance["axis_origins"].split(", ").any(|o| o == origin), "{file} {origin}");
        }
        let model = truth["camera_tag"].as_str().unwrap();
        assert_eq!(a.identity["camera_model"], model);
        assert_eq!(a.format, if model == "K3" { "K3 DM4" } else { "DigitalMicrograph DM4" });
        // The float image is beyond the seed, whose identifier it does not get.
        assert_eq!(a.provenance.contains_key("sourceFormatVersion"), image["dtype"] != "<f4", "{file}");
        close(a.quantities[&Quantity::BeamEnergy].value, if model == "K3" { 300.0 } else { 200.0 });
        read_some += 1;
    }
    assert!(read_some >= 4);
}

/// None of these is an acquisition; what they hold is said, with the shape and type other readers found.
#[test]
fn documents_of_something_else_are_refused_by_what_they_hold() {
    let Some(base) = corpus("real") else { return };
    for (file, truth) in truth(&base, &["dm/"]) {
        let error = refusal_with(
            &base.join(&file),
            &OpenOptions { allow_uncalibrated: true, ..OpenOptions::default() },
        );
        assert_eq!(error.code(), "unsupported_layout", "{file}");
        let image = &truth["rosettasciio"][0];
        let mut shape = numbers(&image["shape"]);
        // Squeezed by that reader.
        let squeezed = |text: &str| {
            let sizes = text.split(' ').next().unwrap().split('×').map(|n| n.parse::<u64>().unwrap_or(0));
            sizes.filter(|&n| n != 1).collect::<Vec<_>>()
        };
        shape.retain(|&n| n != 1);
        let dtype = match image["dtype"].as_str().unwrap() {
            "<i2" => "int16",
            "<u2" => "uint16",
            "<u4" => "uint32",
            "<f4" => "float32",
            "<f8" => "float64",
            "|u1" => "uint8",
            other => panic!("{other}"),
        };
        let mut listed = error.message().split('(').skip(1).map(|s| s.split(')').next().unwrap());
        assert!(listed.any(|text| squeezed(text) == shape && text.ends_with(dtype)), "{file} {error}");
    }
}

fn case(name: &str) -> Option<(std::path::PathBuf, Json)> {
    let folder = corpus(&format!("cases/{name}"))?;
    let expect = json(&folder.join("case.json"))["expect"].clone();
    Some((folder.join("scan.dm4"), expect))
}

#[test]
fn c05_and_c06_the_survey_and_the_micrometres() {
    for name in ["c05-dm4-survey-first", "c06-dm4-micro-units"] {
        let Some((path, expect)) = case(name) else { return };
        let source = open(&path);
        let a = source.acquisition();
        assert_eq!(a.shape().unwrap().dims().map(|n| n as u64).to_vec(), numbers(&expect["shape"]));
        assert_eq!(numpy_dtype(a), expect["dtype"]);
        assert_eq!(logical_sha256(&*source, 2), expect["sha256_le_c_order"].as_str().unwrap());
        for (key, names) in [
            ("scan_step_A", [Quantity::ScanStepRow, Quantity::ScanStepCol]),
            ("detector_step_inv_A", [Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol]),
        ] {
            for (i, name) in names.into_iter().enumerate() {
                close(a.quantities[&name].value, expect[key][i].as_f64().unwrap());
            }
        }
        assert_eq!(a.identity["camera_model"], expect["camera_model"]);
        if let Some(volts) = expect["voltage_V"].as_f64() {
            close(a.quantities[&Quantity::BeamEnergy].value, volts / 1e3);
        }
    }
}
