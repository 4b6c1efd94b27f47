//! Recorded values: which source wins, in which unit, and when a value stays absent.

use crate::common::*;
use crate::writer::{Companion, Folder, groups, numbers_attribute, scalar, text};
use stempack_model::{Acquisition, MaskOrigin, Quantity};

const DETECTOR: &str = "/entry/instrument/detector";

fn value(a: &Acquisition, quantity: Quantity) -> Option<f64> {
    a.quantities.get(&quantity).map(|r| r.value)
}

fn close(found: Option<f64>, expected: f64) {
    let found = found.unwrap_or_else(|| panic!("absent, expected {expected}"));
    assert!((found - expected).abs() <= 1e-12 * expected, "{found}, expected {expected}");
}

#[test]
fn scan_steps_prefer_the_source_over_everything_beside_it() {
    let folder = Folder::new();
    let file = folder.run(6);
    // The second place of the row axis, and the third of the column axis: each axis takes its first usable place.
    scalar(&file, "/entry/instrument/scan/y_pixel_size", 1.0, None);
    scalar(&file, "/entry/instrument/scan/step_y", 2.0, Some("nm"));
    scalar(&file, "/entry/measurement/scan_step_x", 3e-10, Some("m"));
    drop(file);
    Companion::default().write(&folder.file("run_em_metadata.h5"));
    let source = open(&folder.at("run_master.h5"));
    let a = source.acquisition();
    close(value(a, Quantity::ScanStepRow), 20.0);
    close(value(a, Quantity::ScanStepCol), 3.0);
    assert_eq!(a.provenance["spatial_calibration_source"], "HDF5 metadata");
    let origin = &a.quantities[&Quantity::ScanStepRow].origin;
    assert_eq!(
        (origin.file.as_str(), origin.path.as_str()),
        ("run_master.h5", "/entry/instrument/scan/step_y")
    );
    assert!(a.quantities[&Quantity::ScanStepRow].conversion.contains("2 nm"));
    assert_eq!(a.format, "ARINA HDF5 + NXem metadata");
    close(value(a, Quantity::BeamEnergy), 200.0);
}

#[test]
fn one_axis_alone_is_no_scan_step() {
    let folder = Folder::new();
    let file = folder.run(6);
    scalar(&file, "/entry/scan/y_pixel_size", 2.0, Some("nm"));
    scalar(&file, &format!("{DETECTOR}/y_pixel_size"), 1e-4, Some("m"));
    scalar(&file, &format!("{DETECTOR}/x_pixel_size"), 1e-4, Some("m"));
    drop(file);
    let source = open(&folder.at("run_master.h5"));
    assert!(
        source.acquisition().quantities.is_empty(),
        "detector pitch is no scan step, and without a distance no angle"
    );
}

#[test]
fn an_nxem_block_in_the_master_counts_as_the_source() {
    let folder = Folder::new();
    let file = folder.run(6);
    Companion { step: 0.7, ..Companion::default() }.write(&file);
    drop(file);
    let source = open(&folder.at("run_master.h5"));
    let a = source.acquisition();
    assert_eq!(a.shape().unwrap().dims(), [2, 3, 2, 3]);
    close(value(a, Quantity::ScanStepRow), 7.0);
    close(value(a, Quantity::BeamEnergy), 200.0);
    assert_eq!(a.provenance["spatial_calibration_source"], "HDF5 metadata");
    assert_eq!(a.format, "ARINA HDF5");
}

/// Matching dimensions import the voltage even where the step has no unit.
#[test]
fn a_step_without_unit_costs_only_the_step() {
    for units in [None, Some("mrad"), Some("")] {
        let folder = Folder::new();
        drop(folder.run(6));
        Companion { step_units: units, ..Companion::default() }.write(&folder.file("run_em_metadata.h5"));
        let source = open(&folder.at("run_master.h5"));
        let a = source.acquisition();
        assert_eq!(value(a, Quantity::ScanStepRow), None);
        close(value(a, Quantity::BeamEnergy), 200.0);
        assert!(!a.provenance.contains_key("spatial_calibration_source"));
        assert_eq!(a.provenance["microscope_metadata_source"], "run_em_metadata.h5");
    }
    for step in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let folder = Folder::new();
        drop(folder.run(6));
        Companion { step, ..Companion::default() }.write(&folder.file("run_em_metadata.h5"));
        assert_eq!(value(open(&folder.at("run_master.h5")).acquisition(), Quantity::ScanStepRow), None);
    }
}

/// What lies further off is not more likely to belong than a companion that does not.
#[test]
fn an_unusable_companion_ends_the_search_for_a_step() {
    let side = |folder: &Folder| {
        let group = groups(&folder.file("run.h5"), "/STEM Metadata");
        numbers_attribute(&group, "Pixel Size", &[0.5f64]);
        numbers_attribute(&group, "IsPixelSizeCalibrated", &[1u8]);
        numbers_attribute(&group, "High Tension", &[300_000.0f64]);
    };
    let folder = Folder::new();
    drop(folder.run(6));
    side(&folder);
    let source = open(&folder.at("run_master.h5"));
    close(value(source.acquisition(), Quantity::ScanStepRow), 5.0);
    close(value(source.acquisition(), Quantity::BeamEnergy), 300.0);
    assert!(source.acquisition().provenance["spatial_calibration_source"].contains("run.h5"));
    std::fs::write(folder.at("run_em_metadata.h5"), "not HDF5").unwrap();
    let source = open(&folder.at("run_master.h5"));
    assert_eq!(value(source.acquisition(), Quantity::ScanStepRow), None);
    assert!(source.acquisition().provenance.contains_key("microscope_metadata_warning"));
    // Nor does a companion of another stem matter, whatever it says.
    let folder = Folder::new();
    drop(folder.run(6));
    Companion::default().write(&folder.file("other_em_metadata.h5"));
    let source = open(&folder.at("run_master.h5"));
    assert!(source.acquisition().quantities.is_empty() && source.acquisition().warnings.is_empty());
}

#[test]
fn detector_fields_stand_in_for_a_companion() {
    let describe = |description: &str| {
        let folder = Folder::new();
        let file = folder.run(6);
        text(&file, &format!("{DETECTOR}/description"), description);
        scalar(&file, &format!("{DETECTOR}/detectorSpecific/photon_energy"), 300_000.0, None);
        scalar(&file, &format!("{DETECTOR}/count_time"), 0.00019950000569224358, Some("s"));
        scalar(&file, &format!("{DETECTOR}/frame_time"), 1.0, Some("ms"));
        drop(file);
        open(&folder.at("run_master.h5"))
    };
    let source = describe("Dectris arina CZT");
    close(value(source.acquisition(), Quantity::BeamEnergy), 300.0);
    close(value(source.acquisition(), Quantity::DwellTime), 199.50000569224358);
    assert_eq!(source.acquisition().identity["camera_model"], "Dectris arina CZT");
    assert!(describe("Dectris EIGER2").acquisition().quantities.is_empty());

    let folder = Folder::new();
    let file = folder.run(6);
    text(&file, &format!("{DETECTOR}/description"), "ARINA");
    scalar(&file, &format!("{DETECTOR}/detectorSpecific/photon_energy"), 300_000.0, Some("eV"));
    scalar(&file, &format!("{DETECTOR}/incident_energy"), 80.0, Some("keV"));
    scalar(&file, &format!("{DETECTOR}/frame_time"), 1.0, Some("ms"));
    text(&file, "/entry/start_time", " 2026-01-01 ");
    drop(file);
    let source = open(&folder.at("run_master.h5"));
    close(value(source.acquisition(), Quantity::BeamEnergy), 80.0);
    close(value(source.acquisition(), Quantity::DwellTime), 1000.0);
    assert_eq!(source.acquisition().identity["acquisition_date"], " 2026-01-01 ", "verbatim");
}

/// Facts § 1.8: the first place that is not empty, its text as it stands.
#[test]
fn the_date_is_read_in_three_places() {
    let places = [
        "/entry/instrument/detector/detectorSpecific/data_collection_date",
        "/entry/start_time",
        "/entry/instrument/start_time",
    ];
    let date = |texts: [Option<&str>; 3]| {
        let folder = Folder::new();
        let file = folder.run(6);
        for (place, written) in places.iter().zip(texts) {
            written.iter().for_each(|written| text(&file, place, written));
        }
        drop(file);
        open(&folder.at("run_master.h5")).acquisition().identity.get("acquisition_date").cloned()
    };
    let found = |text: &str| Some(text.to_owned());
    assert_eq!(
        date([Some("2025-08-06T02:52:43.741+02:00"), Some("b"), Some("c")]),
        found("2025-08-06T02:52:43.741+02:00")
    );
    assert_eq!(date([None, Some("b"), Some("c")]), found("b"));
    assert_eq!(date([Some(""), None, Some("c")]), found("c"));
    assert_eq!(date([None, None, None]), None);
}

#[test]
fn detector_angles_from_geometry() {
    let with = |distance: f64, units: Option<&str>| {
        let folder = Folder::new();
        let file = folder.run(6);
        scalar(&file, &format!("{DETECTOR}/detector_distance"), distance, units);
        scalar(&file, &format!("{DETECTOR}/y_pixel_size"), 0.1, Some("mm"));
        scalar(&file, &format!("{DETECTOR}/x_pixel_size"), 75.0, Some("\u{b5}m"));
        drop(file);
        let source = open(&folder.at("run_master.h5"));
        let a = source.acquisition();
        (value(a, Quantity::DetectorAngleRow), value(a, Quantity::DetectorAngleCol))
    };
    let (row, col) = with(0.145, None);
    close(row, 0.6896550630749148);
    close(col, (75e-6f64 / 0.145).atan() * 1e3);
    close(with(300.0, Some("mm")).1, 0.2499999947916669);
    for (distance, units) in [(0.0, Some("m")), (-1.0, Some("m")), (0.145, Some("inch")), (f64::NAN, None)] {
        assert_eq!(with(distance, units), (None, None));
    }
}

/// The worked mask of the format facts: 1 at index 4 and 8 at index 7 of 3 × 3.
#[test]
fn the_mask_is_its_own_identity() {
    let with = |place: &str, shape: &[usize], values: &[u64]| {
        let folder = Folder::new();
        folder.shard("run_data_000001.h5", 1, 3, 3, 0);
        let file = folder.master("run_master.h5", &["run_data_000001.h5"]);
        let (group, name) = place.rsplit_once('/').unwrap();
        groups(&file, group)
            .new_dataset::<u64>()
            .shape(shape)
            .create(name)
            .unwrap()
            .write_raw(values)
            .unwrap();
        folder
    };
    let mask = [0, 0, 0, 0, 1, 0, 0, 8, 0];
    for place in ["detectorSpecific/pixel_mask", "pixel_mask"] {
        let folder = with(&format!("{DETECTOR}/{place}"), &[3, 3], &mask);
        let source = open(&folder.at("run_master.h5"));
        let excluded = &source.acquisition().excluded;
        assert_eq!(excluded.pixels, [4, 7]);
        assert_eq!(excluded.origin, MaskOrigin::SourceMask);
        assert_eq!(
            hex::encode(excluded.mask_sha256),
            "148630a5e2241861a8ee96e6c03c86ed4de55be20921faf8335474b6c8636630"
        );
    }
    let place = format!("{DETECTOR}/pixel_mask");
    for (shape, values) in
        [(&[9][..], &mask[..]), (&[3, 4], &[0; 12]), (&[3, 3], &[0, 0, 0, 0, 1 << 32, 0, 0, 0, 0])]
    {
        let folder = with(&place, shape, values);
        assert_eq!(refusal(&folder.at("run_master.h5")).code(), "bad_pixel_mask");
    }
}

#[test]
fn retained_texts_are_bounded_and_keep_what_is_interpreted() {
    let folder = Folder::new();
    let file = folder.run(6);
    for i in 0..150 {
        scalar(&file, &format!("/a/value_{i:03}"), i, Some("mm"));
    }
    scalar(&file, &format!("{DETECTOR}/incident_energy"), 200_000.0, Some("eV"));
    numbers_attribute(&groups(&file, "/z"), "vector", &[-1.0, 0.5]);
    // A group that contains itself must not be walked for ever.
    groups(&file, "/a").link_hard("/a", "again").unwrap();
    drop(file);
    let source = open(&folder.at("run_master.h5"));
    let a = source.acquisition();
    assert_eq!(a.retained.len(), 100);
    assert_eq!(a.retained_left_out, 150 + 1 + 1 - 100);
    assert_eq!(a.retained[0], ("a/value_000".to_owned(), "0 mm".to_owned()));
    assert!(
        a.retained
            .contains(&("entry/instrument/detector/incident_energy".to_owned(), "200000 eV".to_owned()))
    );
    close(value(a, Quantity::BeamEnergy), 200.0);
}

#[test]
fn a_velox_image_of_the_same_scan_gives_the_step() {
    let with = |rows: u32, emd: &str| {
        let folder = Folder::new();
        let file = folder.run(6);
        numbers_attribute(&groups(&file, "/entry/data"), "scan_shape", &[2, 3]);
        drop(file);
        let json = serde_json::json!({
            "Scan": {"ScanSize": {"width": "3", "height": rows.to_string()}},
            "Optics": {"FullScanFieldOfView": {"x": "3e-9", "y": "4e-9"}}
        });
        let mut text = json.to_string().into_bytes();
        text.resize(500, 0);
        let image = folder.file(emd);
        let data = groups(&image, "/Data/Image/0123abc");
        data.new_dataset::<u8>().shape([500, 1]).create("Metadata").unwrap().write_raw(&text).unwrap();
        drop((data, image));
        open(&folder.at("run_master.h5"))
    };
    let source = with(2, "run HAADF.emd");
    let a = source.acquisition();
    close(value(a, Quantity::ScanStepRow), 20.0);
    close(value(a, Quantity::ScanStepCol), 10.0);
    assert_eq!(a.provenance["spatial_calibration_source"], "Velox EMD · run HAADF.emd");
    assert!(a.members.iter().any(|m| m.path.ends_with("run HAADF.emd")));
    let source = with(4, "run HAADF.emd");
    assert_eq!(value(source.acquisition(), Quantity::ScanStepRow), None);
    assert!(source.acquisition().warnings.iter().any(|w| w.code == "velox_sibling_ignored"));
    let source = with(2, "unrelated.emd");
    assert!(source.acquisition().quantities.is_empty() && source.acquisition().warnings.is_empty());
}
