//! EMD 1 files written through the HDF5 library, one behaviour each: which array is read, and what calibrates it.

use crate::common::*;
use crate::writer::{Folder, groups, numbers_attribute, scalar, text, text_attribute};
use hdf5_metno::types::{FixedAscii, VarLenUnicode};
use hdf5_metno::{Dataset, File, H5Type};
use std::path::PathBuf;
use stempack_model::{Acquisition, BackgroundSubtraction, Detail, Quantity, SampleType};
use stempack_sources::explain;

const CALIBRATION: &str = "/datacube_root/metadatabundle/calibration";
pub(crate) const CUBE: &str = "/datacube_root/datacube";
use Quantity::*;

/// A file of the family with the attributes that make it EMD 1.
pub(crate) fn emdfile(folder: &Folder) -> File {
    let file = folder.file("cube.h5");
    let root = file.group("/").unwrap();
    text_attribute(&root, "authoring_program", "emdfile");
    root.new_attr::<i64>().create("version_major").unwrap().write_scalar(&1i64).unwrap();
    file
}

/// An array of zeros with this shape.
pub(crate) fn array<T: H5Type + Default + Clone>(file: &File, group: &str, shape: &[usize]) -> Dataset {
    let data = groups(file, group).new_dataset::<T>().shape(shape).create("data").unwrap();
    data.write_raw(&vec![T::default(); shape.iter().product()]).unwrap();
    data
}

/// A datacube of 3 × 4 frames of 5 × 6 at the usual place, to which `add` adds.
pub(crate) fn with(add: impl FnOnce(&File)) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let file = emdfile(&folder);
    array::<f32>(&file, CUBE, &[3, 4, 5, 6]);
    add(&file);
    drop(file);
    let path = folder.at("cube.h5");
    (folder, path)
}

fn described(add: impl FnOnce(&File)) -> Acquisition {
    let (_folder, path) = with(add);
    open(&path).acquisition().clone()
}

fn value(a: &Acquisition, quantity: Quantity) -> Option<f64> {
    a.quantities.get(&quantity).map(|r| r.value)
}

fn close(found: Option<f64>, expected: Option<f64>, what: &str) {
    match (found, expected) {
        (Some(f), Some(e)) => assert!((f - e).abs() <= 1e-12 * e, "{what}: {f}, expected {e}"),
        (found, expected) => assert_eq!(found, expected, "{what}"),
    }
}

fn codes(a: &Acquisition) -> Vec<&str> {
    a.warnings.iter().map(|w| w.code).collect()
}

pub(crate) fn vector(file: &File, group: &str, name: &str, values: &[f64], units: &str) {
    let dim = groups(file, group).new_dataset::<f64>().shape([values.len()]).create(name).unwrap();
    dim.write_raw(values).unwrap();
    text_attribute(&dim, "units", units);
}

pub(crate) fn size(file: &File, letter: char, size: f64, units: &str) {
    scalar(file, &format!("{CALIBRATION}/{letter}_pixel_size"), size, None);
    text(file, &format!("{CALIBRATION}/{letter}_pixel_units"), units);
}

/// The rows of the format facts, § 4.1, and what goes beyond them.
#[test]
fn calibration_by_unit() {
    for (units, recorded, angstrom) in [
        ("A", 0.5, Some(0.5)),
        ("\u{c5}", 0.5, Some(0.5)),
        ("\u{212b}", 0.5, Some(0.5)),
        ("A\u{30a}", 0.5, Some(0.5)),
        ("angstrom", 0.5, Some(0.5)),
        ("nm", 0.05, Some(0.5)),
        ("pm", 50.0, Some(0.5)),
        ("\u{b5}m", 5e-5, Some(0.5)),
        ("\u{3bc}m", 5e-5, Some(0.5)),
        ("m", 5e-11, Some(0.5)),
        ("a", 0.5, None),
        ("NM", 0.5, None),
        ("mrad", 0.5, None),
        ("A^-1", 0.5, None),
        ("pixels", 1.0, None),
        ("A", 0.0, None),
        ("A", -1.0, None),
        ("A", f64::NAN, None),
        ("A", f64::INFINITY, None),
    ] {
        let a = described(|f| size(f, 'R', recorded, units));
        for quantity in [ScanStepRow, ScanStepCol] {
            close(value(&a, quantity), angstrom, units);
        }
        // What is recorded but cannot be used is said; a unit of pixels is no record.
        let silent = angstrom.is_some() || units == "pixels";
        assert_eq!(
            codes(&a),
            if silent { vec![] } else { vec!["unusable_calibration"] },
            "{units} {recorded}"
        );
        assert_eq!(a.provenance.contains_key("spatial_calibration_source"), angstrom.is_some());
    }
    for (units, recorded, mrad, reciprocal) in [
        ("mrad", 2.0, Some(2.0), None),
        ("rad", 0.002, Some(2.0), None),
        ("A^-1", 0.02, None, Some(0.02)),
        ("1/\u{c5}", 0.02, None, Some(0.02)),
        ("\u{c5}\u{207b}\u{b9}", 0.02, None, Some(0.02)),
        ("1/nm", 0.2, None, Some(0.02)),
        ("nm^-1", 0.2, None, Some(0.02)),
        ("1/m", 2e8, None, Some(0.02)),
        ("A", 0.02, None, None),
        ("pixels", 1.0, None, None),
    ] {
        let a = described(|f| size(f, 'Q', recorded, units));
        for quantity in [DetectorAngleRow, DetectorAngleCol] {
            close(value(&a, quantity), mrad, units);
        }
        for quantity in [DetectorReciprocalRow, DetectorReciprocalCol] {
            close(value(&a, quantity), reciprocal, units);
        }
    }
}

#[test]
fn a_step_outside_the_usual_range_is_kept_and_flagged() {
    let a = described(|f| size(f, 'R', 2.0, "mm"));
    close(value(&a, ScanStepRow), Some(2e7), "2 mm");
    assert!(a.quantities[&ScanStepRow].flag.is_some());
    assert!(described(|f| size(f, 'R', 2.0, "nm")).quantities[&ScanStepRow].flag.is_none());
}

/// Attributes of the group instead of datasets, bytes instead of text, single precision, one-element arrays.
#[test]
fn calibration_in_every_spelling_of_storage() {
    let a = described(|f| {
        let group = groups(f, CALIBRATION);
        numbers_attribute(&group, "R_pixel_size", &[0.25f32]);
        let bytes = FixedAscii::<8>::from_ascii(b"nm").unwrap();
        group.new_attr::<FixedAscii<8>>().create("R_pixel_units").unwrap().write_scalar(&bytes).unwrap();
        group.new_attr::<u16>().create("Q_pixel_size").unwrap().write_scalar(&2u16).unwrap();
        scalar(
            f,
            &format!("{CALIBRATION}/Q_pixel_units"),
            FixedAscii::<4>::from_ascii(b"mrad").unwrap(),
            None,
        );
        group.new_attr::<f64>().create("convergence_semiangle_mrad").unwrap().write_scalar(&21.5).unwrap();
        let som2k = groups(f, &format!("{CUBE}/metadatabundle/SoM2k"));
        som2k.new_attr::<f64>().create("high tension").unwrap().write_scalar(&300_000.0).unwrap();
        scalar(f, &format!("{CUBE}/metadatabundle/SoM2k/camera length"), 0.115f32, None);
    });
    close(value(&a, ScanStepRow), Some(2.5), "R");
    close(value(&a, DetectorAngleCol), Some(2.0), "Q");
    close(value(&a, SemiConvergenceAngle), Some(21.5), "semi-angle");
    close(value(&a, BeamEnergy), Some(300.0), "high tension");
    close(value(&a, CameraLength), Some(f64::from(0.115f32) * 1e3), "camera length");
    assert_eq!(a.quantities[&ScanStepRow].origin.path, format!("{CALIBRATION}@R_pixel_size"));
    assert!(a.warnings.is_empty(), "{:?}", a.warnings);
}

#[test]
fn microscope_values_that_are_none() {
    for bad in [0.0, -300_000.0, f64::NAN, f64::INFINITY] {
        let a = described(|f| {
            scalar(f, &format!("{CUBE}/metadatabundle/SoM2k/high tension"), bad, None);
            scalar(f, &format!("{CALIBRATION}/convergence_semiangle_mrad"), bad, None);
        });
        assert!(a.quantities.is_empty(), "{bad}: {:?}", a.quantities);
        assert_eq!(codes(&a), ["unusable_calibration", "unusable_calibration"]);
        assert!(a.warnings[0].message.contains("convergence_semiangle_mrad"), "{:?}", a.warnings);
        assert!(a.warnings[1].message.contains("high tension"), "{:?}", a.warnings);
    }
    // Another array's metadata are not those of this one.
    let a = described(|f| scalar(f, "/datacube_root/other/metadatabundle/SoM2k/high tension", 3e5, None));
    assert!(a.quantities.is_empty());
}

#[test]
fn a_size_that_is_no_single_number_or_has_no_unit() {
    let a = described(|f| {
        numbers_attribute(&groups(f, CALIBRATION), "R_pixel_size", &[0.5, 0.25]);
        text(f, &format!("{CALIBRATION}/R_pixel_units"), "A");
        scalar(f, &format!("{CALIBRATION}/Q_pixel_size"), 0.5, None);
    });
    assert!(a.quantities.is_empty());
    assert_eq!(codes(&a), ["unusable_calibration", "unusable_calibration"]);
    assert!(a.warnings[0].message.contains("R_pixel_size") && a.warnings[1].message.contains("Q_pixel_size"));
}

/// Two values extend linearly, a full vector must be regular, and each axis keeps its own step.
#[test]
fn dimension_vectors_calibrate_where_nothing_else_does() {
    for first in [0, 1] {
        let a = described(|f| {
            let name = |n: usize| format!("dim{}", n + first);
            vector(f, CUBE, &name(0), &[0.0, 2.0], "nm");
            vector(f, CUBE, &name(1), &[0.0, 3.0, 6.0, 9.0], "A");
            vector(f, CUBE, &name(2), &[-0.2, -0.1, 0.0, 0.1, 0.2], "A^-1");
            vector(f, CUBE, &name(3), &[0.0, 0.5], "1/nm");
        });
        assert!(a.warnings.is_empty(), "{:?}", a.warnings);
        close(value(&a, ScanStepRow), Some(20.0), "dim0");
        close(value(&a, ScanStepCol), Some(3.0), "dim1");
        close(value(&a, DetectorReciprocalRow), Some(0.1), "dim2");
        close(value(&a, DetectorReciprocalCol), Some(0.05), "dim3");
        assert_eq!(a.quantities[&ScanStepCol].origin.path, format!("{CUBE}/dim{}", 1 + first));
        assert_eq!(a.provenance["spatial_calibration_source"], "EMD dimension vectors · cube.h5");
    }
}

#[test]
fn dimension_vectors_that_calibrate_nothing() {
    let scan = |row: &[f64], row_unit: &str, col: &[f64], col_unit: &str| {
        described(|f| {
            vector(f, CUBE, "dim0", row, row_unit);
            vector(f, CUBE, "dim1", col, col_unit);
        })
    };
    for (a, why) in [
        (scan(&[0.0, 1.0, 2.5], "nm", &[0.0, 1.0], "nm"), "not regularly spaced"),
        (scan(&[0.0, 1.0, 2.0, 3.0], "nm", &[0.0, 1.0], "nm"), "4 values for an axis of 3"),
        (scan(&[1.0, 0.0], "nm", &[0.0, 1.0], "nm"), "not positive"),
        (scan(&[0.0, 1.0], "mrad", &[0.0, 1.0], "mrad"), "`mrad`"),
        (scan(&[0.0, 1.0], "parsec", &[0.0, 1.0], "parsec"), "`parsec`"),
    ] {
        assert!(a.quantities.is_empty() && codes(&a) == ["unusable_calibration"], "{:?}", a.warnings);
        assert!(a.warnings[0].message.contains(why), "{:?}", a.warnings);
    }
    // One calibrated axis is no calibration of the scan, and pixels are none at all.
    for a in
        [scan(&[0.0, 1.0], "pixels", &[0.0, 1.0], "nm"), scan(&[0.0, 1.0], "pixels", &[0.0, 1.0], "pixels")]
    {
        assert!(a.quantities.is_empty() && a.warnings.is_empty(), "{:?}", a.warnings);
    }
    // Neither counted from 0 nor from 1.
    let a = described(|f| {
        for n in 1..=3 {
            vector(f, CUBE, &format!("dim{n}"), &[0.0, 1.0], "nm");
        }
    });
    assert!(a.quantities.is_empty());
    assert!(a.warnings[0].message.contains("dim1, dim2, dim3"), "{:?}", a.warnings);
    // The detector axes must be of one kind.
    let a = described(|f| {
        vector(f, CUBE, "dim0", &[0.0, 1.0], "pixels");
        vector(f, CUBE, "dim2", &[0.0, 1.0], "mrad");
        vector(f, CUBE, "dim3", &[0.0, 1.0], "1/nm");
    });
    assert!(a.quantities.is_empty() && a.warnings[0].message.contains("one kind"), "{:?}", a.warnings);
}

#[test]
fn the_bundle_outranks_the_vectors_and_a_disagreement_is_said() {
    let both = |r: (f64, &str), dims: (f64, f64, &str)| {
        described(|f| {
            size(f, 'R', r.0, r.1);
            vector(f, CUBE, "dim0", &[0.0, dims.0], dims.2);
            vector(f, CUBE, "dim1", &[0.0, dims.1], dims.2);
        })
    };
    // The same in another unit is no disagreement.
    let a = both((0.25, "nm"), (2.5, 2.5, "A"));
    close(value(&a, ScanStepRow), Some(2.5), "agreed");
    assert!(a.warnings.is_empty(), "{:?}", a.warnings);
    // Anisotropic vectors beside an isotropic size: never reduced silently.
    for dims in [(2.5, 5.0, "A"), (5.0, 5.0, "A"), (2.500_01, 2.5, "A")] {
        let a = both((0.25, "nm"), dims);
        assert_eq!((value(&a, ScanStepRow), value(&a, ScanStepCol)), (Some(2.5), Some(2.5)));
        assert_eq!(codes(&a), ["calibration_disagreement"]);
        let message = &a.warnings[0].message;
        assert!(
            message.contains("R_pixel_size") && message.contains("dim0") && message.contains("2.5"),
            "{message}"
        );
    }
    // Where the bundle says pixels, or nothing that can be used, the vectors speak.
    let a = both((1.0, "pixels"), (2.5, 5.0, "A"));
    assert_eq!((value(&a, ScanStepRow), value(&a, ScanStepCol)), (Some(2.5), Some(5.0)));
    assert!(a.warnings.is_empty());
    let a = both((1.0, "parsec"), (2.5, 5.0, "A"));
    assert_eq!(value(&a, ScanStepRow), Some(2.5));
    assert_eq!(codes(&a), ["unusable_calibration"]);
    // An angle and a reciprocal length are not converted into each other.
    let a = described(|f| {
        size(f, 'Q', 0.5, "mrad");
        vector(f, CUBE, "dim0", &[0.0, 1.0], "pixels");
        vector(f, CUBE, "dim2", &[0.0, 0.02], "A^-1");
        vector(f, CUBE, "dim3", &[0.0, 0.02], "A^-1");
    });
    assert_eq!((value(&a, DetectorAngleRow), value(&a, DetectorReciprocalRow)), (Some(0.5), None));
    assert_eq!(codes(&a), ["calibration_disagreement"]);
}

#[test]
fn any_name_below_any_root_when_it_is_the_only_one() {
    let folder = Folder::new();
    let file = emdfile(&folder);
    array::<u16>(&file, "/my root/experiment 1/my cube", &[2, 3, 4, 5]);
    array::<u16>(&file, "/my root/image", &[2, 3, 4]);
    let calibration = "/my root/metadatabundle/calibration";
    scalar(&file, &format!("{calibration}/R_pixel_size"), 1.5, None);
    text(&file, &format!("{calibration}/R_pixel_units"), "A");
    drop(file);
    let source = open(&folder.at("cube.h5"));
    let a = source.acquisition();
    assert_eq!(a.shape().unwrap().dims(), [2, 3, 4, 5]);
    assert_eq!((a.sample, a.reader.as_str()), (SampleType::U16, "emd1-datacube/v1"));
    assert_eq!(a.format, "EMD 1 · HDF5 uint16");
    assert_eq!(a.provenance["sourceDataset"], "/my root/experiment 1/my cube/data");
    close(value(a, ScanStepRow), Some(1.5), "root calibration");
}

#[test]
fn several_datacubes_are_ambiguous_unless_one_says_it_is_one() {
    let folder = Folder::new();
    let file = emdfile(&folder);
    array::<u8>(&file, "/root/a", &[1, 2, 3, 4]);
    array::<u8>(&file, "/root/b", &[2, 2, 3, 4]);
    drop(file);
    let error = refusal(&folder.at("cube.h5"));
    assert_eq!(error.code(), "ambiguous_source");
    assert!(error.message().contains("/root/a/data") && error.message().contains("/root/b/data"), "{error}");
    let file = File::open_rw(folder.at("cube.h5")).unwrap();
    text_attribute(&file.group("/root/b").unwrap(), "python_class", "DataCube");
    drop(file);
    let source = open(&folder.at("cube.h5"));
    assert_eq!(source.acquisition().frame_count, 4);
    assert_eq!(codes(source.acquisition()), ["other_datacubes"]);
    // The usual place needs no more words.
    let (_folder, path) = with(|f| drop(array::<u8>(f, "/datacube_root/b", &[2, 2, 3, 4])));
    let source = open(&path);
    assert_eq!(source.acquisition().frame_count, 12);
    assert!(source.acquisition().warnings[0].message.contains("/datacube_root/b/data"));
    // Many are not all listed.
    let folder = Folder::new();
    let file = emdfile(&folder);
    for i in 0..20 {
        array::<u8>(&file, &format!("/root/n{i:02}"), &[1, 2, 3, 4]);
    }
    drop(file);
    let error = refusal(&folder.at("cube.h5"));
    assert!(error.message().contains("n07") && error.message().ends_with("and 12 more"), "{error}");
    // One array under two names is one array.
    let folder = Folder::new();
    let file = emdfile(&folder);
    array::<u8>(&file, "/root/a", &[1, 2, 3, 4]);
    groups(&file, "/root/c").link_hard("/root/a/data", "data").unwrap();
    drop(file);
    assert_eq!(open(&folder.at("cube.h5")).acquisition().frame_count, 2);
}

#[test]
fn what_is_no_emdfile_names_the_attribute() {
    let folder = Folder::new();
    let write = |program: Option<&str>, version: Option<i64>| {
        let file = folder.file("x.h5");
        let root = file.group("/").unwrap();
        text_attribute(&root, "emd_group_type", "file");
        if let Some(program) = program {
            text_attribute(&root, "authoring_program", program);
        }
        if let Some(version) = version {
            root.new_attr::<i64>().create("version_major").unwrap().write_scalar(&version).unwrap();
        }
        array::<f32>(&file, CUBE, &[1, 2, 3, 4]);
        drop((root, file));
        refusal(&folder.at("x.h5"))
    };
    for (program, version, named) in [
        (None, Some(1), "`authoring_program` is missing"),
        (Some("other"), Some(1), "`authoring_program` is `other`"),
        (Some("emdfile "), Some(1), "`authoring_program` is `emdfile `"),
        (Some("emdfile"), None, "`version_major` is missing"),
        (Some("emdfile"), Some(2), "`version_major` is 2"),
        (Some("emdfile"), Some(0), "`version_major` is 0"),
        (Some("emdfile"), Some(-1), "`version_major` is no single integer"),
    ] {
        let error = write(program, version);
        assert_eq!(error.code(), "unsupported_layout", "{error}");
        assert!(error.message().contains(named), "{named}: {error}");
        assert!(error.message().contains("x.h5"));
    }
    let file = folder.file("y.h5");
    array::<f32>(&file, "/entry", &[1, 2, 3, 4]);
    drop(file);
    assert_eq!(refusal(&folder.at("y.h5")).code(), "unknown_format");
    let said = explain(&folder.at("y.h5")).unwrap();
    let emd = said.iter().find(|c| c.format == "emd").unwrap();
    assert!(emd.score.is_none() && emd.why.contains("authoring_program"), "{emd:?}");
}

#[test]
fn the_minor_version_is_ignored() {
    let (_folder, path) = with(|f| {
        let root = f.group("/").unwrap();
        root.new_attr::<i64>().create("version_minor").unwrap().write_scalar(&77i64).unwrap();
    });
    open(&path);
}

#[test]
fn links_are_refused_by_name() {
    let other = Folder::new();
    array::<f32>(&other.file("other.h5"), "/datacube_root/datacube", &[1, 2, 3, 4]);
    let outside = other.at("other.h5");
    let outside = outside.to_str().unwrap();
    let linked = |link: &dyn Fn(&File)| {
        let folder = Folder::new();
        let file = emdfile(&folder);
        array::<f32>(&file, "/store/raw", &[1, 2, 3, 4]);
        link(&file);
        drop(file);
        refusal(&folder.at("cube.h5"))
    };
    let soft = |group: &'static str, name: &'static str, target: &'static str| {
        linked(&move |f: &File| groups(f, group).link_soft(target, name).unwrap())
    };
    let external = |group: &'static str, name: &'static str, target: &'static str| {
        linked(&move |f: &File| groups(f, group).link_external(outside, target, name).unwrap())
    };
    for (error, named) in [
        (soft(CUBE, "data", "/store/raw/data"), ["/datacube_root/datacube/data", "soft link"]),
        (soft("/datacube_root", "datacube", "/store/raw"), ["/datacube_root/datacube`", "soft link"]),
        (soft("/", "datacube_root", "/store"), ["/datacube_root`", "soft link"]),
        (
            external(CUBE, "data", "/datacube_root/datacube/data"),
            ["/datacube_root/datacube/data", "external link"],
        ),
        (
            external("/datacube_root", "datacube", "/datacube_root/datacube"),
            ["/datacube_root/datacube`", "other.h5"],
        ),
        (external("/", "datacube_root", "/datacube_root"), ["/datacube_root`", "other.h5"]),
        // Under any other name as well, even where the target could be found by itself.
        (soft("/root/cube", "data", "/store/raw/data"), ["/root/cube/data", "soft link"]),
    ] {
        assert_eq!(error.code(), "unsupported_layout");
        for named in named {
            assert!(error.message().contains(named), "{named}: {error}");
        }
    }
}

#[test]
fn arrays_that_are_no_datacube() {
    let refused = |write: &dyn Fn(&File)| {
        let folder = Folder::new();
        let file = emdfile(&folder);
        write(&file);
        drop(file);
        refusal(&folder.at("cube.h5"))
    };
    let error = refused(&|_| {});
    assert!(error.code() == "unsupported_layout" && error.message().contains("/datacube_root/datacube/data"));
    for shape in [&[2usize, 3, 4][..], &[1, 2, 3, 4, 5]] {
        let error = refused(&|f| drop(array::<f32>(f, CUBE, shape)));
        assert!(error.message().contains(&format!("has {} axes", shape.len())), "{error}");
    }
    let error = refused(&|f| drop(array::<bool>(f, CUBE, &[1, 2, 3, 4])));
    assert!(error.code() == "unsupported_layout" && error.message().contains("neither integers nor floats"));
    let error = refused(&|f| {
        array::<f32>(f, CUBE, &[2, 3, 4, 5]);
        let labels = groups(f, CUBE).new_dataset::<VarLenUnicode>().shape([2]).create("dim3").unwrap();
        text_attribute(&labels, "name", "_labels_");
    });
    assert!(error.message().contains("labelled stack"), "{error}");
    let error =
        refused(&|f| drop(groups(f, CUBE).new_dataset::<f32>().shape([0, 3, 4, 5]).create("data").unwrap()));
    assert_eq!(error.code(), "invalid_scan_shape", "{error}");
    let error =
        refused(&|f| drop(groups(f, CUBE).new_dataset::<f32>().shape([2, 3, 0, 5]).create("data").unwrap()));
    assert_eq!(error.code(), "invalid_shape", "{error}");
    let error =
        refused(&|f| drop(groups(f, CUBE).new_dataset::<f32>().shape([2, 3, 4, 5]).create("data").unwrap()));
    assert_eq!(error.code(), "missing_chunk", "{error}");
}

/// Names that lie about each other must not be walked for ever.
#[test]
fn a_group_that_contains_itself() {
    let (_folder, path) = with(|f| {
        groups(f, "/datacube_root").link_hard("/datacube_root", "again").unwrap();
        groups(f, "/datacube_root").link_soft("/datacube_root/loop", "loop").unwrap();
    });
    assert!(open(&path).acquisition().warnings.is_empty());
}

#[test]
fn a_stated_scan_may_only_agree() {
    let (_folder, path) = with(|_| {});
    assert!(open_with(&path, &stated(3, 4)).acquisition().scan.as_ref().unwrap().stated);
    let error = refusal_with(&path, &stated(4, 3));
    assert_eq!(error.code(), "conflicting_scan_shape");
    let Some(Detail::List(candidates)) = detail(&error, "candidates") else { panic!("no list") };
    assert_eq!(candidates, &["3x4", "4x3"]);
}

#[test]
fn retained_texts_hold_what_was_interpreted() {
    let a = described(|f| {
        size(f, 'R', 2.5, "A");
        scalar(f, &format!("{CALIBRATION}/QR_flip"), true, None);
        for i in 0..150 {
            scalar(f, &format!("/aaa/value_{i:03}"), i, None);
        }
    });
    assert_eq!(a.retained.len(), 100);
    assert!(a.retained_left_out > 50);
    let interpreted = "datacube_root/metadatabundle/calibration/R_pixel_size";
    assert!(a.retained.contains(&(interpreted.to_owned(), "2.5".to_owned())));
}

#[test]
fn a_readme_that_declares_background_subtraction_stays_with_the_datacube() {
    let (folder, path) = with(|_| {});
    assert_eq!(open(&path).acquisition().background, BackgroundSubtraction::Unknown);
    std::fs::write(folder.at("README.txt"), "cube.h5\n\tAlready background subtracted.\n").unwrap();
    let source = open(&path);
    let expected = BackgroundSubtraction::AlreadySubtracted {
        file: "README.txt".into(),
        sentence: "Already background subtracted".into(),
    };
    assert_eq!(source.acquisition().background, expected);
    // It belongs to the snapshot.
    std::fs::write(folder.at("README.txt"), "cube.h5\n\tNot background subtracted.\n").unwrap();
    assert_eq!(source.check_unchanged().unwrap_err().code(), "source_changed");
}

#[test]
fn a_folder_lists_datacubes_by_any_name_and_passes_over_strangers() {
    let (folder, _) = with(|_| {});
    // Files that share their ending with acquisitions and are none.
    drop(folder.file("results.h5"));
    std::fs::write(folder.at("settings.xml"), "<settings/>").unwrap();
    std::fs::write(folder.at("photo.raw"), [1u8; 1000]).unwrap();
    let listed = stempack_sources::catalog(
        &[folder.at(".")],
        &stempack_sources::OpenOptions::default(),
        &stempack_model::Task::new(),
    )
    .unwrap();
    let formats: Vec<&str> = listed.acquisitions.iter().map(|a| a.format.as_str()).collect();
    assert_eq!(formats, ["EMD 1 · HDF5 float32"]);
    assert!(listed.issues.is_empty(), "{:?}", listed.issues);
}
