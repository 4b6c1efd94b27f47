//! The index layer on its own: any stored dataset decodes to what independent readers found in it.

use crate::common::*;
use std::path::{Path, PathBuf};
use stempack_model::Task;
use stempack_sources::hdf5::{DatasetIndex, File, Found, Link, Storage};

/// Index of a dataset, following an external link by hand.
pub(crate) fn index(path: &Path, object: &str) -> stempack_model::Result<DatasetIndex> {
    let file = File::open(path)?;
    match file.find(object)? {
        Found::Dataset(dataset) => DatasetIndex::build(&file, &dataset),
        Found::Elsewhere { file: name, path: object } => {
            let other: PathBuf = path.with_file_name(String::from_utf8(name).unwrap());
            index(&other, &object)
        }
        _ => panic!("{object} of {} is no dataset", path.display()),
    }
}

fn decoded(path: &Path, object: &str) -> Vec<u8> {
    index(path, object)
        .and_then(|i| i.read_all(&Task::new()))
        .unwrap_or_else(|e| panic!("{} {object}: {e}", path.display()))
}

#[test]
fn every_layout_version_decodes() {
    let Some(base) = corpus("real") else { return };
    let mut datasets = 0;
    for (file, t) in truth(&base, &["hdf5ver/"]) {
        let path = base.join(&file);
        for (object, d) in t["datasets"].as_object().unwrap() {
            let i = index(&path, object).unwrap();
            assert_eq!(i.shape(), numbers(&d["shape"]), "{file} {object}");
            let contiguous = matches!(i.storage(), Storage::Contiguous(_));
            assert_eq!(contiguous, d["layout"] == "contiguous", "{file} {object}");
            let bytes = i.read_all(&Task::new()).unwrap();
            assert_eq!(sha256(&bytes), d["sha256_le_c_order"].as_str().unwrap(), "{file} {object}");
            datasets += 1;
        }
        let handle = File::open(&path).unwrap();
        let Found::Group(data) = handle.find("/data").unwrap() else { panic!("no /data") };
        let links = handle.links(&data).unwrap();
        for (name, l) in t["links"].as_object().unwrap() {
            let recorded = l.as_str().unwrap();
            let (_, found) = links.iter().find(|(n, _)| n == name).unwrap();
            match found {
                Link::Hard => assert!(recorded.starts_with("HardLink"), "{name}"),
                Link::Soft(target) => assert_eq!(recorded, format!("SoftLink :{target}")),
                Link::External { file, path } => {
                    assert_eq!(recorded, format!("ExternalLink {}:{path}", String::from_utf8_lossy(file)));
                }
                Link::Unreadable => panic!("{name} is unreadable"),
            }
            // Wherever a link to a dataset leads, it leads to the same bytes.
            for kind in ["_soft", "_hard", "_external"] {
                if let Some(of) = name.strip_suffix(kind).filter(|of| *of != "sub") {
                    let expected = t["datasets"][format!("data/{of}")]["sha256_le_c_order"].as_str().unwrap();
                    assert_eq!(sha256(&decoded(&path, &format!("/data/{name}"))), expected, "{name}");
                }
            }
        }
    }
    assert_eq!(datasets, 22);
}

/// Element sizes 1 to 10, blocks of 64 elements, lengths that end anywhere: compressed/X must equal original/X.
#[test]
fn bitshuffle_regression_file() {
    let Some(path) = corpus("real/bitshuffle/regression_0.1.3.h5") else { return };
    let file = File::open(&path).unwrap();
    let Found::Group(group) = file.find("/compressed").unwrap() else { panic!("no /compressed") };
    let names = file.links(&group).unwrap();
    assert_eq!(names.len(), 21);
    for (name, _) in names {
        let compressed = decoded(&path, &format!("/compressed/{name}"));
        assert!(!compressed.is_empty());
        assert_eq!(compressed, decoded(&path, &format!("/original/{name}")), "{name}");
    }
}

#[test]
fn c09_odd_lengths_and_blocks() {
    let Some(case) = corpus("cases/c09-bslz4-odd-lengths") else { return };
    let expect = json(&case.join("case.json"))["expect"]["datasets"].clone();
    for (name, d) in expect.as_object().unwrap() {
        let i = index(&case.join("odd.h5"), name).unwrap();
        assert_eq!(i.shape(), numbers(&d["shape"]), "{name}");
        assert_eq!(
            sha256(&i.read_all(&Task::new()).unwrap()),
            d["sha256_le_c_order"].as_str().unwrap(),
            "{name}"
        );
    }
}

#[test]
fn what_is_no_hdf5_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.h5");
    std::fs::write(&path, b"nothing of the kind").unwrap();
    assert_eq!(File::open(&path).err().unwrap().code(), "not_hdf5");
    // The signature alone is not enough, and the library is asked only about files that have it.
    std::fs::write(&path, b"\x89HDF\r\n\x1a\n and then nothing").unwrap();
    assert_eq!(File::open(&path).err().unwrap().code(), "unreadable_hdf5");
    assert_eq!(File::open(dir.path()).err().unwrap().code(), "not_hdf5");
    assert_eq!(File::open(&dir.path().join("absent.h5")).err().unwrap().code(), "io");
}
