//! Faults by which readers of acquisitions give wrong numbers without a word, one by one; none of them can happen here.
//!
//! * Counts of 32 bits are narrowed to 16.
//! * A shard is missing and the frames behind it move up, or the rest passes for a smaller scan.
//! * Linked stacks are read in the order of their names as text: 1, 10, 2.
//! * A number of frames that is a square is folded into a square scan that nobody recorded.
//! * The only file of another program in the folder calibrates whatever lies beside it.
//! * A value is taken although its file says that it is not calibrated.
//! * One step of two that differ is given to both axes.
//! * A damaged chunk takes the program down, or all frames with it.

use crate::common::*;
use crate::dm_writer::{DM4, Image, Written};
use crate::emd::{CUBE, emdfile, vector, with};
use crate::empad::{G1, G2, Pairs, g1, g2};
use crate::layout::first_values;
use crate::scan::dims;
use crate::velox::{COUNTS, image, value};
use crate::writer::{Companion, Folder, groups, numbers_attribute, scalar, stack};
use serde_json::json;
use stempack_model::{Acquisition, Detail, Kind, Quantity, SampleType, Samples};
use stempack_sources::{OpenOptions, require_shape};

const WIDE: [u32; 6] = [0, 65_535, 65_536, 70_000, 1 << 31, u32::MAX];

/// Counts beyond 16 bits come back as what they are, from every format that can hold them.
#[test]
fn wide_counts_are_not_narrowed() {
    let folder = Folder::new();
    for (name, chunk) in [("run_master.h5", None), ("chunked_master.h5", Some([1, 1, 2]))] {
        let file = folder.file(name);
        let builder = groups(&file, "/entry/data").new_dataset::<u32>();
        let data = match chunk {
            None => builder.shape([3, 1, 2]).create("data"),
            Some(chunk) => builder.chunk(chunk).shuffle().shape([3, 1, 2]).create("data"),
        };
        data.unwrap().write_raw(&WIDE).unwrap();
    }
    let file = emdfile(&folder);
    let data = groups(&file, CUBE).new_dataset::<u32>().shape([3, 1, 1, 2]).create("data").unwrap();
    data.write_raw(&WIDE).unwrap();
    drop((data, file));
    let bytes: Vec<u8> = WIDE.iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.at("a.npy"), crate::npy::file("'<u4'", false, "(3, 1, 1, 2)", &bytes)).unwrap();
    let mut image = Image::u16(&[2, 1, 1, 3], &["1/nm", "1/nm", "nm", "nm"]);
    (image.data_type, image.element) = (11, 5);
    image.samples = WIDE.iter().map(|v| v.to_le_bytes().to_vec()).collect();
    std::fs::write(folder.at("a.dm4"), image.document()).unwrap();
    for name in ["run_master.h5", "chunked_master.h5", "cube.h5", "a.npy", "a.dm4"] {
        let source = open(&folder.at(name));
        assert_eq!(source.acquisition().sample, SampleType::U32, "{name}");
        assert_eq!(read(&*source, 0, 3).unwrap(), Samples::U32(WIDE.to_vec()), "{name}");
        // A destination of 16 bits is refused and not filled with what fits.
        let mut narrow = Samples::zeroed(SampleType::U16, 6);
        let error = source.read(0, narrow.as_mut(), &stempack_model::Task::new()).unwrap_err();
        assert_eq!(error.code(), "wrong_buffer", "{name}");
    }
}

/// Detectors mark pixels with the largest count; a reader that narrows gives 65535 for both kinds.
#[test]
fn wide_sentinels_are_values_and_only_the_mask_excludes() {
    let Some(case) = corpus("cases/c07-eiger-u32-sentinel") else { return };
    let expect = json(&case.join("case.json"))["expect"].clone();
    let source = open_with(&case.join("run_master.h5"), &stated(2, 2));
    let a = source.acquisition();
    assert_eq!(a.shape().unwrap().dims().map(|n| n as u64).to_vec(), numbers(&expect["shape"]));
    assert_eq!(numpy_dtype(a), "<u4");
    assert_eq!(logical_sha256(&*source, 1), expect["sha256_le_c_order"].as_str().unwrap());
    assert_eq!(a.excluded.pixels.len() as u64, expect["masked_pixels"].as_u64().unwrap());
    assert_eq!(totals(&*source), numbers(&expect["unmasked_sums"]));
}

#[test]
fn a_missing_shard_in_the_middle_is_named() {
    let Some(case) = corpus("cases/c03-eiger-missing-middle-shard") else { return };
    for member in ["run_master.h5", "run_data_000001.h5", "run_data_000003.h5"] {
        let error = refusal(&case.join(member));
        assert_eq!((error.code(), error.kind()), ("missing_member", Kind::Conflict));
        assert!(error.message().contains("run_data_000002.h5"), "{error}");
        assert!(error.message().contains("/entry/data/data_000002"), "{error}");
        assert!(!error.message().contains("run_data_000003.h5"), "{error}");
        assert_eq!(detail(&error, "missing"), Some(&Detail::List(vec!["run_data_000002.h5".into()])));
    }
}

/// What is left when any one of five shards is missing would make a square; it is refused, whatever is stated.
#[test]
fn frames_behind_a_missing_shard_do_not_move_up() {
    let names: Vec<String> = (1..=5).map(|n| format!("run_data_{n:06}.h5")).collect();
    for missing in 0..5 {
        let folder = Folder::new();
        for (n, name) in names.iter().enumerate() {
            folder.shard(name, 1, 2, 3, 100 * n as u16);
        }
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        drop(folder.master("run_master.h5", &all));
        std::fs::remove_file(folder.at(&names[missing])).unwrap();
        let present = names[(missing + 1) % 5].as_str();
        for (entry, options) in [
            ("run_master.h5", OpenOptions::default()),
            ("run_master.h5", stated(2, 2)),
            ("run_master.h5", stated(1, 5)),
            (present, stated(2, 2)),
        ] {
            let error = refusal_with(&folder.at(entry), &options);
            assert_eq!(error.code(), "missing_member", "{entry}: {error}");
            assert!(error.message().contains(&names[missing]), "{entry}: {error}");
            assert!(!error.message().contains(present), "{entry}: {error}");
        }
    }
}

#[test]
fn links_are_followed_in_numeric_order_whatever_the_files_are_called() {
    let folder = Folder::new();
    let master = folder.file("run_master.h5");
    let data = groups(&master, "/entry/data");
    for (number, file) in [(10, "b.h5"), (2, "c.h5"), (1, "a.h5")] {
        let shard = folder.file(file);
        stack(&groups(&shard, "/somewhere/else"), "frames", 1, 2, 3, 100 * number);
        data.link_external(file, "/somewhere/else/frames", &format!("data_{number}")).unwrap();
    }
    // A sibling by name that nothing links.
    folder.shard("run_data_000001.h5", 1, 2, 3, 7);
    drop((data, master));
    assert_eq!(first_values(&folder.at("run_master.h5")), [100, 200, 1000]);
    let source = open(&folder.at("run_master.h5"));
    assert!(source.acquisition().warnings.iter().any(|w| w.code == "link_numbers_skip"));
    // … and that is no way into the acquisition either.
    let error = refusal(&folder.at("run_data_000001.h5"));
    assert_eq!(error.code(), "ambiguous_source");
    assert!(error.message().contains("run_data_000001.h5"));
}

#[test]
fn nothing_recorded_is_recoverable_and_never_square() {
    let folder = Folder::new();
    drop(folder.run(4));
    let source = open(&folder.at("run_master.h5"));
    assert_eq!(source.acquisition().scan, None);
    let error = stempack_sources::require_shape(source.acquisition()).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("missing_scan_shape", Kind::Conflict));
    assert_eq!(detail(&error, "frame_count"), Some(&Detail::Number(4)));
    let likely = ["2x2", "1x4", "4x1"].map(String::from).to_vec();
    assert_eq!(detail(&error, "candidates"), Some(&Detail::List(likely)));
    assert!(error.advice().unwrap().contains("--scan"));
    assert_eq!(dims(&folder.at("run_master.h5"), &stated(4, 1)), Some((4, 1)));
    let error = refusal_with(&folder.at("run_master.h5"), &stated(3, 2));
    assert_eq!(error.code(), "conflicting_scan_shape");
}

/// Squares of frames without a recorded shape, in every format that can lack one.
#[test]
fn squares_are_not_folded_in_any_format() {
    let pairs = Pairs::new();
    pairs.zeros("plain.raw", 9 * G1);
    pairs.zeros("r.raw", 9 * G1);
    pairs.file("r.xml", g1("r.raw", ""));
    pairs.file("a.npy", crate::npy::file("'|u1'", false, "(9, 2, 2)", &[0; 36]));
    let stack = hdf5_metno::File::create(pairs.at("sim.h5")).unwrap();
    let dp = stack.new_dataset::<f32>().shape([9, 128, 128]).create("dp").unwrap();
    dp.write_raw(&vec![1f32; 9 * 128 * 128]).unwrap();
    drop((dp, stack));
    for name in ["plain.raw", "r.raw", "r.xml", "a.npy", "sim.h5"] {
        let path = pairs.at(name);
        // A format that cannot describe its frames before their shape is known refuses at once.
        let (error, recoverable) = match stempack_sources::open(&path, &OpenOptions::default()) {
            Ok(source) => {
                assert_eq!(source.acquisition().scan, None, "{name}");
                (require_shape(source.acquisition()).unwrap_err(), source.acquisition().frame_count)
            }
            Err(error) => (error, 9),
        };
        assert_eq!((error.code(), recoverable), ("missing_scan_shape", 9), "{name}: {error}");
        assert_eq!(dims(&path, &stated(1, 9)), Some((1, 9)), "{name}");
        assert_eq!(dims(&path, &stated(3, 3)), Some((3, 3)), "{name}");
    }
}

/// Only an image of the same name and the same scan size lends its field of view to the acquisition beside it.
#[test]
fn what_a_sibling_lends() {
    let with = |names: &[(&str, u32, &str)]| {
        let folder = Folder::new();
        let file = folder.run(6);
        numbers_attribute(&groups(&file, "/entry/data"), "scan_shape", &[2, 3]);
        drop(file);
        for &(name, rows, field) in names {
            let json = json!({
                "Scan": {"ScanSize": {"width": "3", "height": rows.to_string()}},
                "Optics": {"FullScanFieldOfView": {"x": field, "y": "4e-9"}}
            });
            let file = folder.file(name);
            image(&file, "0", &[2, 3, 1], &COUNTS, json.to_string().as_bytes());
        }
        let source = open(&folder.at("run_master.h5"));
        let a = source.acquisition();
        (value(a, Quantity::ScanStepRow), value(a, Quantity::ScanStepCol))
    };
    let lent = (Some(20.0), Some(10.0));
    let close = |found: (Option<f64>, Option<f64>), case: &str| {
        let near = |f: Option<f64>, e: Option<f64>| (f.unwrap() - e.unwrap()).abs() < 1e-9;
        assert!(near(found.0, lent.0) && near(found.1, lent.1), "{case}: {found:?}");
    };
    close(with(&[("run.emd", 2, "3e-9")]), "same name");
    close(with(&[("RUN.EMD", 2, "3e-9")]), "same name in capitals");
    close(with(&[("run 1430 HAADF.emd", 2, "3e-9")]), "name that continues");
    close(with(&[("run.emd", 2, "3e-9"), ("run 2.emd", 2, "6e-9")]), "the same name wins");
    close(with(&[("run 2.emd", 2, "3e-9"), ("else.emd", 2, "6e-9")]), "an unrelated one beside it");
    for (case, names) in [
        ("unrelated, alone in the folder", &[("else.emd", 2, "3e-9")][..]),
        ("unrelated, its name within", &[("my run.emd", 2, "3e-9")]),
        ("shorter name", &[("ru.emd", 2, "3e-9")]),
        ("two that continue", &[("run 1.emd", 2, "3e-9"), ("run 2.emd", 2, "3e-9")]),
        ("hidden", &[(".run.emd", 2, "3e-9")]),
        ("another scan size", &[("run.emd", 3, "3e-9")]),
        ("no field of view", &[("run.emd", 2, "-1")]),
        (
            "another scan size under the same name, though a second would fit",
            &[("run.emd", 3, "3e-9"), ("run 2.emd", 2, "3e-9")],
        ),
    ] {
        assert_eq!(with(names), (None, None), "{case}");
    }
}

/// A pixel size that its own file calls uncalibrated, or of which nothing says that it is, is reported and not used.
#[test]
fn what_is_marked_as_uncalibrated_is_not_used() {
    for (flag, used) in [(Some(0u8), false), (None, false), (Some(1), true)] {
        let folder = Folder::new();
        drop(folder.run(6));
        let side = groups(&folder.file("run.h5"), "/STEM Metadata");
        numbers_attribute(&side, "Pixel Size", &[0.5f64]);
        flag.iter().for_each(|&flag| numbers_attribute(&side, "IsPixelSizeCalibrated", &[flag]));
        drop(side);
        let source = open(&folder.at("run_master.h5"));
        let a = source.acquisition();
        for axis in [Quantity::ScanStepRow, Quantity::ScanStepCol] {
            assert_eq!(value(a, axis), used.then_some(5.0), "{flag:?}");
        }
        let warning = a.warnings.iter().find(|w| w.code == "uncalibrated_scan_step");
        assert_eq!(warning.is_some(), !used, "{flag:?}");
        assert!(warning.is_none_or(|w| w.message.contains("5 angstrom") && w.message.contains("run.h5")));
    }
    // Units of pixels are how the others say it.
    let (_folder, path) = with(|file| {
        crate::emd::size(file, 'R', 1.0, "pixels");
        crate::emd::size(file, 'Q', 1.0, "pixels");
    });
    assert!(open(&path).acquisition().quantities.is_empty());
    let file = Written::new();
    for units in [["", "", "", ""], ["px", "px", "nm", "nm"]] {
        let path = file.write(&Image::u16(&[2, 1, 1, 3], &units).document());
        assert_eq!(refusal(&path).code(), "missing_calibration", "{units:?}");
        let allowed = OpenOptions { allow_uncalibrated: true, ..OpenOptions::default() };
        let source = open_with(&path, &allowed);
        let detector = |q: &Quantity| q.as_str().starts_with("detector");
        assert!(!source.acquisition().quantities.keys().any(detector), "{units:?}");
    }
}

/// Steps that differ between the axes stay apart, row before column, in every format that records two.
#[test]
fn two_steps_stay_two() {
    let pair = |a: &Acquisition, row, col| value(a, row).zip(value(a, col)).unwrap();
    let scan = |a: &Acquisition| pair(a, Quantity::ScanStepRow, Quantity::ScanStepCol);
    let near = |found: (f64, f64), expected: (f64, f64), case: &str| {
        let close = |f: f64, e: f64| (f - e).abs() <= 1e-12 * e;
        assert!(close(found.0, expected.0) && close(found.1, expected.1), "{case}: {found:?}");
    };
    // A companion, and the detector's pitch: 1 µm and 2 µm in a distance of 1 m.
    let folder = Folder::new();
    let master = folder.run(6);
    let detector = "/entry/instrument/detector";
    for (name, metres) in [("y_pixel_size", 1e-6), ("x_pixel_size", 2e-6), ("detector_distance", 1.0)] {
        scalar(&master, &format!("{detector}/{name}"), metres, Some("m"));
    }
    drop(master);
    let companion = folder.file("run_em_metadata.h5");
    Companion::default().write(&companion);
    let x = companion.dataset("/electron_microscope/scan_controller/regular_scan/pixel_size_x").unwrap();
    x.write_scalar(&0.7f64).unwrap();
    drop((x, companion));
    let source = open(&folder.at("run_master.h5"));
    near(scan(source.acquisition()), (4.0, 7.0), "companion");
    let angles = pair(source.acquisition(), Quantity::DetectorAngleRow, Quantity::DetectorAngleCol);
    near(angles, (1e-6f64.atan() * 1e3, 2e-6f64.atan() * 1e3), "detector pitch");

    let (_folder, path) = with(|file| {
        for (name, step, units) in
            [("dim0", 2.0, "nm"), ("dim1", 3.0, "nm"), ("dim2", 0.1, "A^-1"), ("dim3", 0.2, "A^-1")]
        {
            vector(file, CUBE, name, &[0.0, step], units);
        }
    });
    let source = open(&path);
    near(scan(source.acquisition()), (20.0, 30.0), "EMD vectors");
    let reciprocal =
        pair(source.acquisition(), Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol);
    near(reciprocal, (0.1, 0.2), "EMD vectors");

    let file = Written::new();
    let image = Image::u16(&[5, 4, 3, 2], &["1/nm", "1/nm", "nm", "nm"]).scales(&[0.04, 0.05, 2.5, 1.5]);
    let source = open(&file.write(&image.document()));
    near(scan(source.acquisition()), (15.0, 25.0), "DM4");
    let reciprocal =
        pair(source.acquisition(), Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol);
    near(reciprocal, (0.005, 0.004), "DM4");
    // Of different kinds they are no pair, and none is lent to the other.
    let mut image = Image::u16(&[5, 4, 3, 2], &["1/nm", "1/nm", "nm", "nm"]);
    image.axes[2].0 = DM4.f64(0.0);
    let source = open(&file.write(&image.document()));
    let [row, col] = [Quantity::ScanStepRow, Quantity::ScanStepCol].map(|q| value(source.acquisition(), q));
    assert_eq!((row, col), (None, None), "one step alone");

    let pairs = Pairs::new();
    let field = "<iom_measurements><optics.get_full_scan_field_of_view>[2e-9, 6e-9]\
                 </optics.get_full_scan_field_of_view></iom_measurements>";
    let source = open(&pairs.first(6, &format!("<pix_y>2</pix_y><pix_x>3</pix_x>{field}")));
    near(scan(source.acquisition()), (10.0, 20.0), "EMPAD");
    pairs.zeros("second.raw", 6 * G2);
    let source = open(&pairs.file("second.xml", g2("second.raw", "(2, 3)", field)));
    near(scan(source.acquisition()), (10.0, 20.0), "EMPAD of the second generation");
}

#[test]
fn a_damaged_chunk_is_named_and_the_others_stay_readable() {
    let Some(case) = corpus("cases/c11-bslz4-corrupt-chunk") else { return };
    let expect = json(&case.join("case.json"))["expect"].clone();
    let source = open(&case.join("run_master.h5"));
    let mut good = Vec::new();
    for frame in 0..4 {
        match read(&*source, frame, 1) {
            Ok(samples) => good.extend(little_endian(&samples)),
            Err(error) => {
                assert_eq!(frame, 2);
                assert_eq!((error.code(), error.kind()), ("corrupt_payload", Kind::Malformed));
                for named in ["run_data_000001.h5", "frame 3 (index 2)"] {
                    assert!(error.message().contains(named), "{error}");
                }
                assert_eq!(detail(&error, "frame_index"), Some(&Detail::Number(2)));
            }
        }
    }
    assert_eq!(sha256(&good), expect["good_frames_0_1_3_sha256_le_c_order"].as_str().unwrap());
    let error = read(&*source, 0, 4).unwrap_err();
    assert!(error.message().contains("frame 3 (index 2)"), "{error}");
}

/// The same for chunks of the HDF5 library's own filter, at the beginning, in the middle and at the end.
#[test]
fn damaged_chunks_cost_their_own_frames() {
    let folder = Folder::new();
    let file = folder.file("run_master.h5");
    let samples: Vec<u16> = (0..7 * 64).collect();
    let data = groups(&file, "/entry/data").new_dataset::<u16>().chunk([2, 8, 8]).fletcher32();
    let data = data.shape([7, 8, 8]).create("data").unwrap();
    data.write_raw(&samples).unwrap();
    drop((data, file));
    let path = folder.at("run_master.h5");
    let intact = std::fs::read(&path).unwrap();
    let chunks = crate::damage::chunks(&path);
    assert_eq!(chunks.len(), 4);
    for (chunk, (address, bytes)) in chunks.into_iter().enumerate() {
        let mut damaged = intact.clone();
        damaged[(address + bytes / 2) as usize] ^= 0x10;
        std::fs::write(&path, &damaged).unwrap();
        let source = open(&path);
        for frame in 0..7u64 {
            let found = read(&*source, frame, 1);
            if frame / 2 == chunk as u64 {
                let error = found.unwrap_err();
                assert_eq!(error.code(), "corrupt_payload", "{error}");
                for named in ["run_master.h5".to_owned(), format!("frame {} (index {frame})", frame + 1)] {
                    assert!(error.message().contains(&named), "{error}");
                }
            } else {
                let at = 64 * frame as usize;
                assert_eq!(found.unwrap(), Samples::U16(samples[at..at + 64].to_vec()), "{chunk} {frame}");
            }
        }
        // A window across the damage fails as a whole and names the first lost frame.
        let error = read(&*source, 0, 7).unwrap_err();
        assert_eq!(detail(&error, "frame_index"), Some(&Detail::Number(2 * chunk as u64)), "{error}");
    }
}
