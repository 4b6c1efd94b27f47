//! Velox files written through the HDF5 library: what makes a scalar image, and what one lends to its neighbours.

use crate::common::*;
use crate::writer::{Folder, groups, numbers_attribute};
use hdf5_metno::H5Type;
use serde_json::{Value as Json, json};
use stempack_model::{Acquisition, Detail, Error, Quantity, Samples, Task};
use stempack_sources::{catalog, explain, scalar_image};

/// Metadata of an image of 2 × 3 with steps of 1e-10 and 2e-10 m, as the program writes them: numbers as texts.
fn document() -> Json {
    json!({
        "BinaryResult": {
            "Detector": "HAADF", "PixelUnitX": "m", "PixelUnitY": "m",
            "PixelSize": {"height": "1e-10", "width": "2e-10"}
        },
        "Scan": {"ScanSize": {"height": "2", "width": "3"}},
        "Optics": {"FullScanFieldOfView": {"y": "2e-10", "x": "6e-10"}}
    })
}

/// The document with one value replaced, or taken out by null.
fn but(path: &str, value: Json) -> Json {
    let mut all = document();
    let (parent, name) = path.rsplit_once('/').unwrap();
    let object = all.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        object.remove(name);
    } else {
        object.insert(name.to_owned(), value);
    }
    all
}

pub(crate) fn image<T: H5Type>(
    file: &hdf5_metno::File,
    id: &str,
    shape: &[usize],
    samples: &[T],
    text: &[u8],
) {
    let group = groups(file, &format!("/Data/Image/{id}"));
    group.new_dataset::<T>().shape(shape).create("Data").unwrap().write_raw(samples).unwrap();
    let mut padded = text.to_vec();
    padded.resize(text.len() + 700, 0);
    // What follows the padding is of no interest.
    padded.extend(b"{rest");
    let metadata = group.new_dataset::<u8>().shape([padded.len(), 1]).create("Metadata").unwrap();
    metadata.write_raw(&padded).unwrap();
}

pub(crate) const COUNTS: [u16; 6] = [1, 2, 3, 4, 5, 60_000];

fn one(folder: &Folder, name: &str, document: &Json) {
    let file = folder.file(name);
    image(&file, "0123abc", &[2, 3, 1], &COUNTS, document.to_string().as_bytes());
}

pub(crate) fn value(a: &Acquisition, quantity: Quantity) -> Option<f64> {
    a.quantities.get(&quantity).map(|r| r.value)
}

#[test]
fn a_scalar_image_is_described_and_has_no_frames() {
    let folder = Folder::new();
    one(&folder, "image.emd", &document());
    let path = folder.at("image.emd");
    let source = open(&path);
    let a = source.acquisition();
    assert_eq!(a.shape().unwrap().dims(), [2, 3, 1, 1]);
    assert_eq!((a.frame_count, a.format.as_str()), (6, "Velox EMD scalar image"));
    assert_eq!(a.reader, "velox-scalar-image/v1");
    assert_eq!((value(a, Quantity::ScanStepRow), value(a, Quantity::ScanStepCol)), (Some(1.0), Some(2.0)));
    let origin = &a.quantities[&Quantity::ScanStepCol].origin;
    assert_eq!(origin.path, "/Data/Image/0123abc/Metadata: BinaryResult.PixelSize.width");
    assert_eq!(a.provenance["metadataEvidence"], "Data/Image/0123abc/Metadata");
    assert_eq!(a.documents[0].content, document().to_string());
    assert!(a.warnings.is_empty());

    let error = read(&*source, 0, 6).unwrap_err();
    assert_eq!(error.code(), "not_4d");
    assert!(
        error.message().contains("image") && error.message().contains("not a 4-D acquisition"),
        "{error}"
    );
    let exact = scalar_image(&path, &Task::new()).unwrap();
    assert_eq!(exact.samples, Samples::U16(COUNTS.to_vec()));
    assert_eq!((exact.scan.rows(), exact.scan.cols()), (2, 3));
    assert_eq!(source.digest_members(&Task::new()).unwrap().len(), 1);
}

/// Numbers as numbers, as texts, and wrapped; units in other letters.
#[test]
fn spellings_of_the_metadata() {
    for document in [
        but("/BinaryResult/PixelSize/height", json!(1e-10)),
        but("/BinaryResult/PixelSize/height", json!({"value": "1e-10"})),
        but("/BinaryResult/PixelSize/height", json!("1.0000000000000000e-010")),
        but("/Scan/ScanSize/width", json!(3)),
        but("/BinaryResult/PixelUnitX", json!(" M ")),
        but("/BinaryResult/Detector", Json::Null),
        // Within a millionth of the field of view.
        but("/Optics/FullScanFieldOfView/y", json!("2.0000001e-10")),
    ] {
        let folder = Folder::new();
        one(&folder, "image.emd", &document);
        assert_eq!(value(open(&folder.at("image.emd")).acquisition(), Quantity::ScanStepRow), Some(1.0));
    }
}

/// Every row of the format facts, § 6.3.
#[test]
fn every_recorded_size_must_agree() {
    for (document, named) in [
        (but("/BinaryResult/PixelUnitX", json!("1/m")), "PixelUnitX is `1/m`"),
        (but("/BinaryResult/PixelUnitY", json!("nm")), "PixelUnitY is `nm`"),
        (but("/BinaryResult/PixelUnitY", Json::Null), "PixelUnitY is ``"),
        (but("/BinaryResult/PixelSize/height", Json::Null), "PixelSize.height is missing"),
        (but("/BinaryResult/PixelSize/width", json!("0")), "PixelSize.width is 0"),
        (but("/BinaryResult/PixelSize/width", json!("-2e-10")), "PixelSize.width is -2e-10"),
        (but("/BinaryResult/PixelSize/width", json!("nan")), "PixelSize.width is missing or no number"),
        (but("/Scan/ScanSize/height", json!("3")), "ScanSize.height is 3, the image has 2"),
        (but("/Scan/ScanSize/width", json!("2")), "ScanSize.width is 2, the image has 3"),
        (but("/Scan/ScanSize", Json::Null), "ScanSize.height is missing"),
        (but("/Optics/FullScanFieldOfView/y", Json::Null), "FullScanFieldOfView.y is missing"),
        (but("/Optics/FullScanFieldOfView/x", json!("-1")), "FullScanFieldOfView.x is -1"),
        (
            but("/Optics/FullScanFieldOfView/x", json!("6.00001e-10")),
            "FullScanFieldOfView.x is 6.00001e-10 m",
        ),
    ] {
        let folder = Folder::new();
        one(&folder, "image.emd", &document);
        let error = refusal(&folder.at("image.emd"));
        assert_eq!(error.code(), "invalid_metadata", "{named}: {error}");
        for named in [named, "image.emd", "/Data/Image/0123abc"] {
            assert!(error.message().contains(named), "{named}: {error}");
        }
    }
    for text in [&b"no JSON"[..], b"", b"{\"a\": \xff}"] {
        let folder = Folder::new();
        image(&folder.file("image.emd"), "0", &[2, 3, 1], &COUNTS, text);
        assert_eq!(refusal(&folder.at("image.emd")).code(), "invalid_metadata");
    }
}

#[test]
fn layouts_that_are_no_scalar_image() {
    fn refused<T: H5Type + Default + Clone>(shape: &[usize]) -> Error {
        let folder = Folder::new();
        let samples = vec![T::default(); shape.iter().product()];
        image(&folder.file("a.emd"), "0", shape, &samples, document().to_string().as_bytes());
        refusal(&folder.at("a.emd"))
    }
    for (error, named) in [
        (refused::<i16>(&[2, 3, 1]), "signed with 2 bytes"),
        (refused::<u32>(&[2, 3, 1]), "unsigned with 4 bytes"),
        (refused::<f32>(&[2, 3, 1]), "float with 4 bytes"),
        (refused::<u16>(&[2, 3, 2]), "stack of 2 frames"),
        (refused::<u16>(&[2, 3]), "2 axes"),
        (refused::<u16>(&[2, 3, 1, 1]), "4 axes"),
    ] {
        assert_eq!(error.code(), "unsupported_layout");
        assert!(error.message().contains(named), "{named}: {error}");
    }
    let folder = Folder::new();
    image(&folder.file("b.emd"), "0", &[2, 3, 1], &[1u8, 2, 3, 4, 5, 255], document().to_string().as_bytes());
    let exact = scalar_image(&folder.at("b.emd"), &Task::new()).unwrap();
    assert_eq!(exact.samples, Samples::U8(vec![1, 2, 3, 4, 5, 255]));
}

/// The first by name is no answer when several are meant equally; one that is no scalar image is no rival.
#[test]
fn several_images() {
    let folder = Folder::new();
    let file = folder.file("all.emd");
    let text = document().to_string();
    image(&file, "aaa", &[2, 3, 1], &[-1i16; 6], text.as_bytes());
    image(&file, "bbb", &[2, 3, 1], &COUNTS, text.as_bytes());
    drop(file);
    let source = open(&folder.at("all.emd"));
    assert_eq!(source.acquisition().provenance["sourceDataset"], "/Data/Image/bbb/Data");
    let warnings = &source.acquisition().warnings;
    assert!(
        warnings.len() == 1 && warnings[0].code == "image_ignored" && warnings[0].message.contains("aaa")
    );
    drop(source);
    let file = hdf5_metno::File::open_rw(folder.at("all.emd")).unwrap();
    let other = but("/BinaryResult/Detector", json!("BF"));
    image(&file, "ccc", &[2, 3, 1], &COUNTS, other.to_string().as_bytes());
    drop(file);
    let error = refusal(&folder.at("all.emd"));
    assert_eq!(error.code(), "ambiguous_source");
    let Some(Detail::List(candidates)) = detail(&error, "candidates") else { panic!("no list") };
    assert_eq!(candidates, &["bbb (HAADF)", "ccc (BF)"]);
    assert!(error.message().contains("bbb (HAADF)") && error.message().contains("ccc (BF)"), "{error}");
}

#[test]
fn a_stated_scan_may_only_agree() {
    let folder = Folder::new();
    one(&folder, "image.emd", &document());
    open_with(&folder.at("image.emd"), &stated(2, 3));
    let error = refusal_with(&folder.at("image.emd"), &stated(3, 2));
    assert_eq!(error.code(), "conflicting_scan_shape");
}

/// An `.emd` is told by its contents: a datacube of that name is no image, and an image no datacube.
#[test]
fn contents_decide_between_the_two_kinds_of_emd() {
    let folder = Folder::new();
    one(&folder, "image.emd", &document());
    let (_cube, path) = crate::emd::with(|_| {});
    std::fs::copy(path, folder.at("cube.emd")).unwrap();
    let best = |name: &str| explain(&folder.at(name)).unwrap()[0].format;
    assert_eq!((best("image.emd"), best("cube.emd")), ("velox", "emd"));
    let found = catalog(
        &[folder.path().to_owned()],
        &stempack_sources::OpenOptions::default(),
        &stempack_model::Task::new(),
    )
    .unwrap();
    let formats: Vec<&str> = found.acquisitions.iter().map(|a| a.format.as_str()).collect();
    assert_eq!(formats, ["EMD 1 · HDF5 float32", "Velox EMD scalar image"]);
    assert!(found.issues.is_empty());
}

#[test]
fn an_image_that_changes_is_noticed() {
    let folder = Folder::new();
    one(&folder, "image.emd", &document());
    let path = folder.at("image.emd");
    let source = open(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.push(0);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(source.check_unchanged().unwrap_err().code(), "source_changed");
}

/// A datacube beside an acquisition is no image and lends nothing.
#[test]
fn a_datacube_lends_nothing() {
    let folder = Folder::new();
    let file = folder.run(12);
    numbers_attribute(&groups(&file, "/entry/data"), "scan_shape", &[3, 4]);
    drop(file);
    let (_cube, path) = crate::emd::with(|f| crate::emd::size(f, 'R', 2.5, "A"));
    std::fs::copy(path, folder.at("run.emd")).unwrap();
    let source = open(&folder.at("run_master.h5"));
    let a = source.acquisition();
    assert_eq!(value(a, Quantity::ScanStepRow), None);
    assert_eq!(a.warnings.iter().map(|w| w.code).collect::<Vec<_>>(), ["velox_sibling_ignored"]);
}
