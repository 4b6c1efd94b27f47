//! Scan shapes: recorded, stated, in conflict, or unknown. And the counts a master expects.

use crate::common::*;
use crate::writer::{Companion, Folder, groups, numbers_attribute, scalar};
use stempack_model::{Detail, Kind};

pub(crate) fn dims(
    path: &std::path::Path,
    options: &stempack_sources::OpenOptions,
) -> Option<(usize, usize)> {
    open_with(path, options).acquisition().scan.as_ref().map(|s| (s.shape.rows(), s.shape.cols()))
}

#[test]
fn the_attribute_counts_wherever_it_stands() {
    for place in ["/", "/entry/data", "shard"] {
        let folder = Folder::new();
        let file = folder.run(6);
        if place == "shard" {
            drop(file);
            let shard = hdf5_metno::File::append(folder.at("run_data_000001.h5")).unwrap();
            numbers_attribute(&shard.dataset("/entry/data/data").unwrap(), "scan_shape", &[2i32, 3]);
        } else {
            numbers_attribute(&groups(&file, place), "scan_shape", &[2i32, 3]);
            drop(file);
        }
        let path = folder.at("run_master.h5");
        assert_eq!(dims(&path, &Default::default()), Some((2, 3)), "{place}");
        assert_eq!(dims(&path, &stated(2, 3)), Some((2, 3)), "{place}");
        let error = refusal_with(&path, &stated(3, 2));
        for named in ["2x3", "3x2", "6 frames"] {
            assert!(error.message().contains(named), "{error}");
        }
    }
}

#[test]
fn an_attribute_that_does_not_fit_is_a_conflict() {
    for frames in [8, 9] {
        let folder = Folder::new();
        let file = folder.run(frames);
        numbers_attribute(&groups(&file, "/entry/data"), "scan_shape", &[2u64, 3]);
        drop(file);
        let error = refusal(&folder.at("run_master.h5"));
        assert_eq!((error.code(), error.kind()), ("conflicting_scan_shape", Kind::Conflict));
        assert_eq!(detail(&error, "candidates"), Some(&Detail::List(vec!["2x3".into()])));
    }
}

#[test]
fn an_attribute_must_be_two_positive_integers() {
    let write = |values: &[f64]| {
        let folder = Folder::new();
        let file = folder.run(6);
        numbers_attribute(&groups(&file, "/entry/data"), "scan_shape", values);
        folder
    };
    assert_eq!(dims(&write(&[2.0, 3.0]).at("run_master.h5"), &Default::default()), Some((2, 3)));
    for bad in [&[2.5, 3.0][..], &[6.0], &[0.0, 6.0], &[-2.0, -3.0], &[1.0, 2.0, 3.0]] {
        let folder = write(bad);
        assert_eq!(refusal(&folder.at("run_master.h5")).code(), "invalid_scan_shape", "{bad:?}");
        let source = open_with(&folder.at("run_master.h5"), &stated(2, 3));
        assert!(source.acquisition().warnings.iter().any(|w| w.code == "invalid_scan_shape"));
    }
}

#[test]
fn a_companion_shape_is_used_or_dropped_never_a_conflict() {
    let with = |frames, companion: Companion| {
        let folder = Folder::new();
        drop(folder.run(frames));
        companion.write(&folder.file("run_em_metadata.h5"));
        folder
    };
    let folder = with(6, Companion::default());
    assert_eq!(dims(&folder.at("run_master.h5"), &Default::default()), Some((2, 3)));
    assert_eq!(dims(&folder.at("run_em_metadata.h5"), &Default::default()), Some((2, 3)));
    for (frames, companion) in [
        (8, Companion::default()),
        (6, Companion { frames: 2, ..Companion::default() }),
        (6, Companion { kind: "spiral", ..Companion::default() }),
        (6, Companion { rows: 0, ..Companion::default() }),
    ] {
        let folder = with(frames, companion);
        let source = open(&folder.at("run_master.h5"));
        let a = source.acquisition();
        assert_eq!(a.scan, None);
        assert!(a.quantities.is_empty());
        assert!(a.provenance.contains_key("microscope_metadata_warning"));
        assert_eq!(a.format, "ARINA HDF5");
    }
    // Two shapes that both fit: nobody can know.
    let folder = Folder::new();
    let file = folder.run(6);
    numbers_attribute(&groups(&file, "/entry/data"), "scan_shape", &[3i32, 2]);
    drop(file);
    Companion::default().write(&folder.file("run_em_metadata.h5"));
    let error = refusal(&folder.at("run_master.h5"));
    assert!(error.message().contains("3x2") && error.message().contains("2x3"), "{error}");
    assert_eq!(dims(&folder.at("run_master.h5"), &stated(3, 2)), Some((3, 2)));
}

#[test]
fn a_side_file_counts_when_it_fits() {
    let with = |rows: u32, cols: u32| {
        let folder = Folder::new();
        drop(folder.run(6));
        let side = groups(&folder.file("run.h5"), "/STEM Metadata");
        numbers_attribute(&side, "NumPixelsY", &[rows]);
        numbers_attribute(&side, "NumPixelsX", &[cols]);
        folder
    };
    let folder = with(3, 2);
    for member in ["run_master.h5", "run.h5"] {
        assert_eq!(dims(&folder.at(member), &Default::default()), Some((3, 2)));
    }
    assert_eq!(refusal_with(&folder.at("run_master.h5"), &stated(2, 3)).code(), "conflicting_scan_shape");
    let folder = with(4, 4);
    let error = refusal(&folder.at("run_master.h5"));
    assert!(error.code() == "conflicting_scan_shape" && error.message().contains("4x4"));
    let source = open_with(&folder.at("run_master.h5"), &stated(2, 3));
    assert!(source.acquisition().warnings.iter().any(|w| w.code == "side_file_ignored"));
}

#[test]
fn trigger_counts_must_account_for_the_frames() {
    let with = |triggers: Option<u64>, images: Option<u64>, frames| {
        let folder = Folder::new();
        let file = folder.run(frames);
        for (name, count) in [("ntrigger", triggers), ("nimages", images)] {
            if let Some(count) = count {
                scalar(&file, &format!("/entry/instrument/detector/detectorSpecific/{name}"), count, None);
            }
        }
        folder
    };
    for (triggers, images) in [
        (Some(6), Some(1)),
        (Some(1), Some(6)),
        (Some(2), Some(3)),
        (Some(6), Some(4)),
        (Some(6), None),
        (None, Some(6)),
        (None, None),
    ] {
        let folder = with(triggers, images, 6);
        assert_eq!(open(&folder.at("run_master.h5")).acquisition().frame_count, 6);
    }
    // Facts § 1.6: four images for each of nine triggers are 36 frames, and no scan of 6 × 6.
    let folder = with(Some(9), Some(4), 36);
    let source = open(&folder.at("run_master.h5"));
    assert_eq!((source.acquisition().frame_count, &source.acquisition().scan), (36, &None));
    let error = stempack_sources::require_shape(source.acquisition()).unwrap_err();
    assert_eq!(error.code(), "missing_scan_shape");
    assert!(error.message().contains("6x6"), "suggested, never assumed: {error}");
    for (triggers, images) in [(Some(7), Some(1)), (Some(3), Some(3)), (Some(5), None), (None, Some(12))] {
        let folder = with(triggers, images, 6);
        let error = refusal(&folder.at("run_master.h5"));
        assert_eq!((error.code(), error.kind()), ("inconsistent_members", Kind::Conflict));
        assert!(error.message().contains("6 frames"), "{error}");
    }
}
