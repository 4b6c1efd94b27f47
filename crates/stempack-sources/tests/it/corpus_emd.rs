//! EMD 1 and Velox files of the corpus against what independent readers found in them.

use crate::common::*;
use serde_json::Value as Json;
use stempack_model::{Acquisition, Quantity};

fn value(a: &Acquisition, quantity: Quantity) -> Option<f64> {
    a.quantities.get(&quantity).map(|r| r.value)
}

fn close(a: &Acquisition, quantity: Quantity, expected: f64) {
    let found = value(a, quantity).unwrap_or_else(|| panic!("{}: {} is absent", a.label, quantity.as_str()));
    assert!((found - expected).abs() <= 1e-12 * expected, "{}: {found}, expected {expected}", a.label);
}

/// Shape, type, every bit of every sample in windows of several sizes.
fn bits(base: &std::path::Path, file: &str, t: &Json) -> std::sync::Arc<dyn stempack_model::FrameSource> {
    let source = open(&base.join(file));
    let a = source.acquisition();
    let dims = a.shape().unwrap().dims().map(|n| n as u64);
    assert_eq!(dims.to_vec(), numbers(&t["shape"]), "{file}");
    assert_eq!(numpy_dtype(a), t["dtype"].as_str().unwrap(), "{file}");
    for window in [1, 2, 5, a.frame_count] {
        let found = logical_sha256(&*source, window);
        assert_eq!(found, t["sha256_le_c_order"].as_str().unwrap(), "{file}, windows of {window}");
    }
    source
}

#[test]
fn written_datacubes_with_their_calibration() {
    let Some(base) = corpus("real") else { return };
    let entries = truth(&base, &["written/emd1/"]);
    assert_eq!(entries.len(), 5);
    for (file, t) in entries {
        let source = bits(&base, &file, &t);
        let a = source.acquisition();
        let strict = file.contains("e1_") || file.contains("e2_");
        assert_eq!(
            a.reader,
            if strict { "emd1-contiguous-float32/v1" } else { "emd1-datacube/v1" },
            "{file}"
        );
        assert_eq!(a.format, "EMD 1 · HDF5 float32");
        assert_eq!(a.provenance["sourceDataset"], "/datacube_root/datacube/data");
        assert!(a.warnings.is_empty(), "{file}: {:?}", a.warnings);
        let c = &t["calibration"];
        let number = |key: &str| c[key].as_f64().unwrap();
        let scan = [Quantity::ScanStepRow, Quantity::ScanStepCol];
        let angle = [Quantity::DetectorAngleRow, Quantity::DetectorAngleCol];
        let reciprocal = [Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol];
        for k in 0..2 {
            match c["R_pixel_units"].as_str().unwrap() {
                "A" => close(a, scan[k], number("R_pixel_size")),
                "nm" => close(a, scan[k], number("R_pixel_size") * 10.0),
                _ => assert_eq!(value(a, scan[k]), None, "{file}"),
            }
            let (angle, reciprocal) = (value(a, angle[k]), value(a, reciprocal[k]));
            match c["Q_pixel_units"].as_str().unwrap() {
                "mrad" => assert_eq!((angle, reciprocal), (Some(number("Q_pixel_size")), None), "{file}"),
                "A^-1" => assert_eq!((angle, reciprocal), (None, Some(number("Q_pixel_size"))), "{file}"),
                _ => assert_eq!((angle, reciprocal), (None, None), "{file}"),
            }
        }
        if file.contains("e1_") {
            close(a, Quantity::BeamEnergy, 300.0);
            close(a, Quantity::CameraLength, 115.0);
            close(a, Quantity::SemiConvergenceAngle, 21.4);
            let origin = &a.quantities[&Quantity::BeamEnergy].origin;
            assert_eq!(origin.path, "/datacube_root/datacube/metadatabundle/SoM2k/high tension");
            let origin = &a.quantities[&Quantity::ScanStepRow].origin;
            assert_eq!(origin.path, "/datacube_root/metadatabundle/calibration/R_pixel_size");
            assert_eq!(origin.file, "e1_3x4x128x128.h5");
        }
        // Which rule gave a value that the strict contract would leave out.
        if file.contains("e2_") {
            assert_eq!(a.quantities[&Quantity::ScanStepRow].conversion, "0.25 nm × 10 (emd1-datacube/v1)");
        }
    }
}

#[test]
fn datacubes_that_others_wrote() {
    let Some(base) = corpus("real") else { return };
    for (file, t) in truth(&base, &["emd1/py4DSTEM", "emd1/real_py4dstem"]) {
        let source = bits(&base, &file, &t["datacube_root/datacube/data"]);
        let a = source.acquisition();
        assert_eq!(a.reader, "emd1-datacube/v1");
        let (scan, detector) =
            if file.contains("py4DSTEM_size") { (1.26796875, 0.044251566616087125) } else { (2.5, 0.0125) };
        for quantity in [Quantity::ScanStepRow, Quantity::ScanStepCol] {
            close(a, quantity, scan);
        }
        for quantity in [Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol] {
            close(a, quantity, detector);
        }
        // Full vectors, two-value vectors and the bundle agree in these files.
        assert!(a.warnings.is_empty(), "{file}: {:?}", a.warnings);
        assert_eq!(a.signal_unit.as_deref(), Some("pixel intensity"));
    }
}

#[test]
fn relatives_are_refused_by_what_they_lack() {
    let Some(base) = corpus("real") else { return };
    for file in ["Si100_4D.emd", "emd_type1_stringDims.h5"] {
        let error = refusal(&base.join("emd1").join(file));
        assert_eq!(error.code(), "unsupported_layout", "{error}");
        for named in [file, "`authoring_program`", "`version_major`"] {
            assert!(error.message().contains(named), "{named}: {error}");
        }
    }
    let error = refusal(&base.join("emd1/emd_type1_stringDims.h5"));
    assert!(error.message().contains("`version_major` is 0, not 1"), "{error}");
}

#[test]
fn c08_attributes_and_units_as_bytes() {
    let Some(case) = corpus("cases/c08-emd1-bytes-attributes") else { return };
    let expect = json(&case.join("case.json"))["expect"].clone();
    let source = bits(&case, "cube.h5", &expect);
    let a = source.acquisition();
    assert_eq!(a.reader, "emd1-contiguous-float32/v1");
    for quantity in [Quantity::ScanStepRow, Quantity::ScanStepCol] {
        close(a, quantity, expect["scan_step_A"].as_f64().unwrap());
    }
    for quantity in [Quantity::DetectorAngleRow, Quantity::DetectorAngleCol] {
        close(a, quantity, expect["detector_step_mrad"].as_f64().unwrap());
    }
}

#[test]
fn velox_images() {
    let Some(base) = corpus("real") else { return };
    let mut images = 0;
    for (file, t) in truth(&base, &["velox/"]) {
        let path = base.join(&file);
        let (id, image) = t["h5py_images"].as_object().unwrap().iter().next().unwrap();
        if !matches!(image["dtype"].as_str().unwrap(), "|u1" | "<u2") || numbers(&image["shape"])[2] != 1 {
            let error = refusal(&path);
            assert_eq!(error.code(), "unsupported_layout", "{error}");
            assert!(error.message().contains(id.as_str()), "{error}");
            continue;
        }
        images += 1;
        let source = open(&path);
        let a = source.acquisition();
        let shape = numbers(&image["shape"]);
        assert_eq!(a.shape().unwrap().dims().map(|n| n as u64), [shape[0], shape[1], 1, 1]);
        assert_eq!(a.format, "Velox EMD scalar image");
        assert_eq!(a.provenance["metadataEvidence"], format!("Data/Image/{id}/Metadata"));
        for (quantity, side) in [(Quantity::ScanStepRow, "height"), (Quantity::ScanStepCol, "width")] {
            let metres: f64 = image["metadata"]["PixelSize"][side].as_str().unwrap().parse().unwrap();
            close(a, quantity, metres * 1e10);
        }
        assert_eq!(read(&*source, 0, 1).unwrap_err().code(), "not_4d");
        let exact = stempack_sources::scalar_image(&path, &stempack_model::Task::new()).unwrap();
        assert_eq!(sha256(&little_endian(&exact.samples)), image["sha256_le_c_order"].as_str().unwrap());
    }
    assert_eq!(images, 2);
    // The worked number of the format facts.
    let source = open(&base.join("velox/STEM_HAADF_Diffraction_Micro.emd"));
    assert_eq!(value(source.acquisition(), Quantity::ScanStepRow), Some(873.7079614225584));
}
