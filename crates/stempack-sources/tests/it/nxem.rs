//! The NXem companion: dimensions, steps and microscope values stand and fall apart from each other.

use crate::common::*;
use crate::writer::{Companion, Folder, groups, numbers_attribute, scalar, text};
use hdf5_metno::File;
use stempack_model::{Acquisition, Quantity};

const SCAN: &str = "/electron_microscope/scan_controller/regular_scan";
const DETECTOR: &str = "/entry/instrument/detector";

fn value(a: &Acquisition, quantity: Quantity) -> Option<f64> {
    a.quantities.get(&quantity).map(|r| r.value)
}

/// Six frames of 2 × 3 with a companion.
fn with(master: impl FnOnce(&File), companion: impl FnOnce(&File)) -> Acquisition {
    let folder = Folder::new();
    let file = folder.run(6);
    master(&file);
    drop(file);
    let file = folder.file("run_em_metadata.h5");
    companion(&file);
    drop(file);
    open(&folder.at("run_master.h5")).acquisition().clone()
}

fn shape(a: &Acquisition) -> Option<(usize, usize)> {
    a.scan.as_ref().map(|s| (s.shape.rows(), s.shape.cols()))
}

/// Format facts, § 2: an incomplete block with a `scan_shape` attribute that matches gives everything but the step.
#[test]
fn an_incomplete_block_beside_an_attribute() {
    for missing in ["scan_type", "n_pixels_y", "n_pixels_x", "n_frames"] {
        let block = |f: &File| {
            if missing != "scan_type" {
                text(f, "/electron_microscope/scan_controller/scan_type", "regular");
            }
            for (name, n) in [("n_pixels_y", 2), ("n_pixels_x", 3), ("n_frames", 1)] {
                if name != missing {
                    scalar(f, &format!("{SCAN}/{name}"), n, None);
                }
            }
            for axis in ["pixel_size_y", "pixel_size_x"] {
                scalar(f, &format!("{SCAN}/{axis}"), 0.4, Some("nm"));
            }
            scalar(f, "/electron_microscope/electron_source/accelerating_voltage", 200.0, Some("kV"));
        };
        let a = with(
            |_| {},
            |f| {
                block(f);
                numbers_attribute(&groups(f, "/entry/data"), "scan_shape", &[2i64, 3]);
            },
        );
        assert_eq!(shape(&a), Some((2, 3)), "{missing}");
        assert_eq!(value(&a, Quantity::BeamEnergy), Some(200.0), "{missing}");
        assert_eq!(value(&a, Quantity::ScanStepRow), None, "{missing}");
        assert_eq!(a.provenance["microscope_metadata_source"], "run_em_metadata.h5");
        assert_eq!(a.format, "ARINA HDF5 + NXem metadata");
        assert!(a.warnings.is_empty(), "{missing}: {:?}", a.warnings);
        // Without the attribute nothing is established, and that is said by its key.
        let a = with(|_| {}, block);
        assert!(a.scan.is_none() && a.quantities.is_empty(), "{missing}");
        assert!(a.provenance.contains_key("microscope_metadata_warning"));
        assert!(a.warnings.iter().any(|w| w.code == "microscope_metadata_warning"));
    }
}

/// Only a regular scan of one frame for each position has a step, in the master's own block as well.
#[test]
fn no_step_without_a_regular_scan() {
    for block in [
        Companion { frames: 2, ..Companion::default() },
        Companion { kind: "spiral", ..Companion::default() },
        Companion { rows: 0, ..Companion::default() },
    ] {
        let folder = Folder::new();
        let file = folder.run(6);
        numbers_attribute(&groups(&file, "/entry/data"), "scan_shape", &[2i64, 3]);
        block.write(&file);
        drop(file);
        match stempack_sources::open(&folder.at("run_master.h5"), &Default::default()) {
            Ok(source) => assert_eq!(value(source.acquisition(), Quantity::ScanStepRow), None),
            Err(error) => panic!("{error}"),
        }
    }
}

/// One step of the two with a bad unit: no step at all, everything else stays.
#[test]
fn both_axes_need_their_unit() {
    let a = with(
        |_| {},
        |f| {
            Companion { step_units: None, ..Companion::default() }.write(f);
            let row = f.dataset(&format!("{SCAN}/pixel_size_y")).unwrap();
            crate::writer::text_attribute(&row, "units", "nm");
            scalar(f, "/electron_microscope/illumination_system/semi_convergence_angle", 0.0215, Some("rad"));
            scalar(f, &format!("{SCAN}/dwell_time"), 50.0, Some("\u{3bc}s"));
            scalar(f, "/electron_microscope/imaging_system/camera_length", 14.5, Some("cm"));
        },
    );
    assert_eq!((value(&a, Quantity::ScanStepRow), value(&a, Quantity::ScanStepCol)), (None, None));
    assert_eq!(shape(&a), Some((2, 3)));
    for (quantity, expected) in [
        (Quantity::BeamEnergy, 200.0),
        (Quantity::SemiConvergenceAngle, 21.5),
        (Quantity::DwellTime, 50.0),
        (Quantity::CameraLength, 145.0),
    ] {
        assert!((value(&a, quantity).unwrap() - expected).abs() < 1e-9, "{}", quantity.as_str());
    }
    assert_eq!(unusable(&a), [format!("{SCAN}/pixel_size_x")]);
}

/// The places that are named as unusable, one for each warning there is.
fn unusable(a: &Acquisition) -> Vec<String> {
    a.warnings
        .iter()
        .map(|w| {
            assert_eq!(w.code, "unusable_calibration", "{}", w.message);
            w.message.split('`').nth(3).unwrap().to_owned()
        })
        .collect()
}

/// What is recorded and no positive number in a known unit is left out and said, one remark for each; what is not
/// recorded, or empty, is nothing to remark on.
#[test]
fn what_is_left_out_is_said() {
    let voltage = "/electron_microscope/electron_source/accelerating_voltage";
    for (recorded, units) in [
        (f64::NAN, Some("kV")),
        (-300.0, Some("kV")),
        (0.0, Some("kV")),
        (f64::INFINITY, Some("V")),
        (300.0, Some("KV")),
        (300.0, None),
    ] {
        let a = with(
            |_| {},
            |f| {
                Companion::default().write(f);
                f.unlink(voltage).unwrap();
                scalar(f, voltage, recorded, units);
            },
        );
        assert_eq!((value(&a, Quantity::BeamEnergy), unusable(&a)), (None, vec![voltage.to_owned()]));
        assert_eq!(value(&a, Quantity::ScanStepRow), Some(4.0), "the rest stays");
    }
    // In the master: the fallbacks of the detector, one after the other, and the geometry.
    let incident = format!("{DETECTOR}/incident_energy");
    let time = format!("{DETECTOR}/count_time");
    let distance = format!("{DETECTOR}/detector_distance");
    let pitch = format!("{DETECTOR}/y_pixel_size");
    let a = with(
        |f| {
            text(f, &format!("{DETECTOR}/description"), "Dectris ARINA");
            scalar(f, &incident, 300.0, Some("KeV"));
            scalar(f, &format!("{DETECTOR}/detectorSpecific/photon_energy"), 200_000.0, None);
            scalar(f, &time, -1.0, Some("s"));
            scalar(f, &format!("{DETECTOR}/frame_time"), 2e-4, Some("s"));
            scalar(f, &distance, 145.0, Some("inch"));
            scalar(f, &pitch, f64::NAN, Some("m"));
            scalar(f, &format!("{DETECTOR}/x_pixel_size"), 1e-4, Some("m"));
            scalar(f, "/entry/scan/y_pixel_size", 0.4, Some("nm"));
            numbers_attribute(&groups(f, "/entry/data"), "scan_shape", &[2i64, 3]);
        },
        |f| drop(groups(f, "/electron_microscope")),
    );
    assert_eq!((value(&a, Quantity::BeamEnergy), value(&a, Quantity::DwellTime)), (Some(200.0), Some(200.0)));
    let mut rest = a.clone();
    rest.warnings.retain(|w| w.code != "microscope_metadata_warning");
    assert_eq!(unusable(&rest), [incident, time, distance, pitch, "/entry/scan/y_pixel_size".to_owned()]);
    // A distance of zero is how a detector says that nobody told it.
    let a = with(
        |f| {
            scalar(f, &format!("{DETECTOR}/detector_distance"), 0.0, Some("m"));
            for axis in ["y_pixel_size", "x_pixel_size"] {
                scalar(f, &format!("{DETECTOR}/{axis}"), 1e-4, Some("m"));
            }
        },
        |f| Companion::default().write(f),
    );
    assert!(a.warnings.is_empty(), "{:?}", a.warnings);
}

/// A side file: volts and metres are meant unless a text says otherwise, and what cannot be used is said.
#[test]
fn the_units_of_a_side_file() {
    let side = |write: &dyn Fn(&hdf5_metno::Group)| {
        let folder = Folder::new();
        drop(folder.run(6));
        let file = folder.file("run.h5");
        let group = groups(&file, "/STEM Metadata");
        for (name, n) in [("NumPixelsY", 2), ("NumPixelsX", 3), ("IsPixelSizeCalibrated", 1)] {
            numbers_attribute(&group, name, &[n]);
        }
        write(&group);
        drop((group, file));
        open(&folder.at("run_master.h5")).acquisition().clone()
    };
    for (text, kev) in [("300 kV", Some(300.0)), ("300000", Some(300.0)), ("300 kV nominal", None)] {
        let a = side(&|group| crate::writer::text_attribute(group, "High Tension", text));
        assert_eq!(value(&a, Quantity::BeamEnergy), kev, "{text}");
        assert_eq!(a.warnings.len(), usize::from(kev.is_none()), "{:?}", a.warnings);
    }
    let a = side(&|group| crate::writer::text_attribute(group, "Pixel Size", "0.4 nm"));
    assert_eq!((value(&a, Quantity::ScanStepRow), value(&a, Quantity::ScanStepCol)), (Some(4.0), Some(4.0)));
    let names = ["Pixel Size", "High Tension", "Camera Length"];
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let a = side(&|group| names.iter().for_each(|name| numbers_attribute(group, name, &[bad])));
        assert!(a.quantities.is_empty());
        assert_eq!(unusable(&a), names.map(|name| format!("/STEM Metadata@{name}")), "{bad}");
    }
}

/// atan(0.1 mm / 145 mm) is 0.6896550630749148 mrad; what was calibrated outranks it, and a difference is said.
#[test]
fn an_explicit_angle_outranks_the_geometry() {
    let geometry = |f: &File| {
        scalar(f, &format!("{DETECTOR}/detector_distance"), 145.0, Some("mm"));
        for axis in ["y_pixel_size", "x_pixel_size"] {
            scalar(f, &format!("{DETECTOR}/{axis}"), 0.1, Some("mm"));
        }
    };
    let explicit = |row: f64| {
        move |f: &File| {
            Companion::default().write(f);
            let imaging = "/electron_microscope/imaging_system/reciprocal_pixel_size_";
            scalar(f, &format!("{imaging}y"), row, Some("mrad"));
            scalar(f, &format!("{imaging}x"), 0.00069, Some("rad"));
        }
    };
    let a = with(geometry, explicit(0.75));
    assert_eq!(value(&a, Quantity::DetectorAngleRow), Some(0.75));
    assert_eq!(value(&a, Quantity::DetectorAngleCol), Some(0.69));
    let origin = &a.quantities[&Quantity::DetectorAngleRow].origin;
    assert_eq!(origin.file, "run_em_metadata.h5");
    let warnings: Vec<&str> = a.warnings.iter().map(|w| w.code).collect();
    assert_eq!(warnings, ["detector_angle_disagreement"], "only the row differs by more than a hundredth");
    assert!(a.warnings[0].message.contains("0.75") && a.warnings[0].message.contains("0.689655"));
    assert!(with(geometry, explicit(0.69)).warnings.is_empty());
    // A companion that does not belong leaves the geometry.
    let a = with(geometry, |f| {
        explicit(0.75)(f);
        f.dataset(&format!("{SCAN}/n_pixels_y")).unwrap().write_scalar(&7i64).unwrap();
    });
    assert!((value(&a, Quantity::DetectorAngleRow).unwrap() - 0.6896550630749148).abs() < 1e-12);
    assert_eq!(value(&a, Quantity::BeamEnergy), None);
}
