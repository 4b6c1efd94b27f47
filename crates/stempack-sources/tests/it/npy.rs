//! NumPy arrays as acquisitions: files NumPy wrote, with their digests, and headers written byte by byte.

use crate::common::*;
use stempack_model::{Detail, SampleType, Samples};

/// An `.npy` file of version 1.0 with a header as NumPy writes it.
pub(crate) fn file(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    version([1, 0], &format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"), data)
}

pub(crate) fn version(version: [u8; 2], literal: &str, data: &[u8]) -> Vec<u8> {
    let begin = if version[0] == 1 { 10 } else { 12 };
    let padded = (begin + literal.len() + 1).next_multiple_of(64);
    let length = padded - begin;
    let mut out = b"\x93NUMPY".to_vec();
    out.extend(version);
    match version[0] {
        1 => out.extend((length as u16).to_le_bytes()),
        _ => out.extend((length as u32).to_le_bytes()),
    }
    out.extend(literal.as_bytes());
    out.resize(padded - 1, b' ');
    out.push(b'\n');
    out.extend(data);
    out
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }
    fn write(&self, bytes: &[u8]) -> std::path::PathBuf {
        let path = self.0.path().join("a.npy");
        std::fs::write(&path, bytes).unwrap();
        path
    }
    fn refused(&self, bytes: &[u8]) -> (&'static str, String) {
        let error = refusal(&self.write(bytes));
        (error.code(), error.message().to_owned())
    }
}

#[test]
fn arrays_numpy_wrote_have_their_digests() {
    let Some(base) = corpus("real") else { return };
    for (file, truth) in truth(&base, &["written/npy/"]) {
        let path = base.join(&file);
        let shape = numbers(&truth["shape"]);
        let options = if shape.len() == 3 { stated(5, 5) } else { Default::default() };
        let source = open_with(&path, &options);
        let a = source.acquisition();
        let dims = a.shape().unwrap().dims().map(|n| n as u64);
        if shape.len() == 3 {
            assert_eq!(dims.to_vec(), [&[5, 5], &shape[1..]].concat());
        } else {
            assert_eq!(dims.to_vec(), shape);
        }
        assert_eq!(numpy_dtype(a), truth["dtype"], "{file}");
        for window in [1, 3, 1000] {
            assert_eq!(
                logical_sha256(&*source, window),
                truth["sha256_le_c_order"].as_str().unwrap(),
                "{file}"
            );
        }
        if !truth["virtual"].is_null() {
            assert_eq!(totals(&*source), numbers(&truth["virtual"]["total_sums"]), "{file}");
        }
        let [major, minor] = numbers(&truth["on_disk"]["header_version"])[..] else { panic!() };
        assert_eq!(a.provenance["sourceFormatVersion"], format!("{major}.{minor}"));
        assert_eq!(a.provenance["sourceBytes"], std::fs::metadata(&path).unwrap().len().to_string());
        assert_eq!((a.format.as_str(), a.reader.as_str()), ("NumPy", "numpy/v1"));
        assert!(a.quantities.is_empty() && a.warnings.is_empty());
        assert!(a.retained[0].1.starts_with("{'descr'") && a.retained[0].0 == "numpy.header");
    }
}

#[test]
fn a_stack_needs_its_scan() {
    let folder = Folder::new();
    let data: Vec<u8> = (0..24).collect();
    let path = folder.write(&file("'|u1'", false, "(6, 2, 2)", &data));
    let source = open(&path);
    assert_eq!((source.acquisition().frame_count, source.acquisition().shape()), (6, None));
    let error = stempack_sources::require_shape(source.acquisition()).unwrap_err();
    assert_eq!(error.code(), "missing_scan_shape");
    assert!(error.message().contains("6 frames") && error.message().contains("2x3"), "{error}");
    assert_eq!(detail(&error, "frame_count"), Some(&Detail::Number(6)));
    assert_eq!(open_with(&path, &stated(3, 2)).acquisition().shape().unwrap().dims(), [3, 2, 2, 2]);
    assert_eq!(refusal_with(&path, &stated(4, 2)).code(), "conflicting_scan_shape");
    let four = folder.write(&file("'|u1'", false, "(2, 3, 2, 2)", &data));
    assert_eq!(refusal_with(&four, &stated(3, 2)).code(), "conflicting_scan_shape");
    assert!(open_with(&four, &stated(2, 3)).acquisition().shape().is_some());
}

/// Fortran order: the first axis is the fastest.
#[test]
fn fortran_order_is_laid_out_anew() {
    let folder = Folder::new();
    let (scan_rows, scan_cols, rows, cols) = (2u16, 3, 2, 5);
    let place = |r: u16, c: u16, y: u16, x: u16| r + scan_rows * (c + scan_cols * (y + rows * x));
    let stored: Vec<u8> = (0..60u16).flat_map(u16::to_le_bytes).collect();
    let mut expected = Vec::new();
    for (r, c) in (0..scan_rows).flat_map(|r| (0..scan_cols).map(move |c| (r, c))) {
        for (y, x) in (0..rows).flat_map(|y| (0..cols).map(move |x| (y, x))) {
            expected.extend(place(r, c, y, x).to_le_bytes());
        }
    }
    let source = open(&folder.write(&file("'<u2'", true, "(2, 3, 2, 5)", &stored)));
    for window in 1..=6 {
        assert_eq!(logical_sha256(&*source, window), sha256(&expected), "windows of {window}");
    }
    assert_eq!(source.acquisition().provenance["axis_order"], "Fortran order");
    // A stack: frame, row, column, the frame fastest.
    let mut expected = Vec::new();
    for (n, y, x) in (0..6u16).flat_map(|n| (0..rows).flat_map(move |y| (0..cols).map(move |x| (n, y, x)))) {
        expected.extend((n + 6 * (y + rows * x)).to_le_bytes());
    }
    let path = folder.write(&file("'<u2'", true, "(6, 2, 5)", &stored));
    for options in [Default::default(), stated(2, 3), stated(3, 2)] {
        let source = open_with(&path, &options);
        for window in [1, 4, 6] {
            assert_eq!(logical_sha256(&*source, window), sha256(&expected));
        }
    }
}

#[test]
fn every_sample_type_in_both_byte_orders() {
    let nan = f32::from_bits(0x7fa0_1234);
    let table: [(&str, SampleType, Vec<u8>); 10] = [
        ("u1", SampleType::U8, vec![255]),
        ("i1", SampleType::I8, vec![0x80]),
        ("u2", SampleType::U16, 0xfffe_u16.to_le_bytes().into()),
        ("i2", SampleType::I16, i16::MIN.to_le_bytes().into()),
        ("u4", SampleType::U32, 0xfedc_ba98_u32.to_le_bytes().into()),
        ("i4", SampleType::I32, (-2i32).to_le_bytes().into()),
        ("u8", SampleType::U64, 0xfedc_ba98_7654_3210_u64.to_le_bytes().into()),
        ("i8", SampleType::I64, i64::MIN.to_le_bytes().into()),
        ("f4", SampleType::F32, nan.to_le_bytes().into()),
        ("f8", SampleType::F64, 0.1f64.to_le_bytes().into()),
    ];
    let folder = Folder::new();
    for (name, sample, little) in table {
        let mut big = little.clone();
        big.reverse();
        for (order, stored) in [("<", &little), (">", &big)] {
            for quote in ["'", "\""] {
                let descr = format!("{quote}{order}{name}{quote}");
                let source = open(&folder.write(&file(&descr, false, "(1, 1, 1, 1)", stored)));
                assert_eq!(source.acquisition().sample, sample);
                assert_eq!(little_endian(&read(&*source, 0, 1).unwrap()), little, "{descr}");
            }
        }
    }
    // NumPy's word for the byte order of the machine that wrote it.
    let source = open(&folder.write(&file("'=u2'", false, "(1, 1, 1, 1)", &[1, 2])));
    assert_eq!(read(&*source, 0, 1).unwrap(), Samples::U16(vec![0x0201]));
    assert_eq!(source.acquisition().warnings[0].code, "assumed_byte_order");
}

#[test]
fn elements_that_are_no_plain_numbers() {
    let folder = Folder::new();
    for (descr, named) in [
        ("'|b1'", "truth values"),
        ("'<f2'", "16-bit floats"),
        ("'<f16'", "extended floats"),
        ("'<c8'", "complex numbers"),
        ("'|O'", "Python objects"),
        ("'<U3'", "texts"),
        ("'<M8[ns]'", "dates"),
        ("'|V4'", "untyped bytes"),
        ("'|u2'", "no type that is read"),
        ("'u'", "no type that is read"),
        ("''", "no type that is read"),
        ("'é2'", "no type that is read"),
        ("[('a', '<u2')]", "array of records"),
    ] {
        let (code, message) = folder.refused(&file(descr, false, "(1, 1, 1, 1)", &[0; 8]));
        assert_eq!(code, "unsupported_layout", "{descr}");
        assert!(message.contains(named) && message.contains("a.npy"), "{message}");
    }
}

#[test]
fn shapes_and_lengths() {
    let folder = Folder::new();
    for (shape, code) in [
        ("()", "unsupported_layout"),
        ("(4,)", "unsupported_layout"),
        ("(2, 2)", "unsupported_layout"),
        ("(1, 1, 1, 2, 2)", "unsupported_layout"),
        ("(2, 0, 2, 2)", "unsupported_layout"),
        ("(0, 2, 2)", "unsupported_layout"),
        ("(1, 1, 2, 3)", "length_mismatch"),
        ("(1, 1, 1, 3)", "length_mismatch"),
        ("(4294967296, 4294967296, 2, 2)", "too_large"),
        ("(18446744073709551615, 1, 1)", "too_large"),
        ("(9223372036854775807, 1, 1)", "length_mismatch"),
        ("(18446744073709551615, 18446744073709551615, 1)", "too_large"),
        ("(18446744073709551616, 1, 1)", "malformed_header"),
        ("(-1, 1, 2, 2)", "malformed_header"),
        ("(1.0, 1, 2, 2)", "malformed_header"),
    ] {
        let (found, message) = folder.refused(&file("'|u1'", false, shape, &[0; 4]));
        assert_eq!(found, code, "{shape}: {message}");
    }
    let whole = file("'|u1'", false, "(1, 1, 2, 2)", &[0; 4]);
    let (code, message) = folder.refused(&[whole.as_slice(), &[0]].concat());
    assert_eq!(code, "length_mismatch");
    assert!(message.contains("has 133 bytes, its shape 1×1×2×2 of uint8 needs 132"), "{message}");
}

#[test]
fn headers_of_every_version_and_their_faults() {
    let folder = Folder::new();
    let literal = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 2, 2), }";
    for v in [[1, 0], [2, 0], [3, 0]] {
        let source = open(&folder.write(&version(v, literal, &[1, 2, 3, 4])));
        assert_eq!(read(&*source, 0, 1).unwrap(), Samples::U8(vec![1, 2, 3, 4]));
        assert_eq!(source.acquisition().retained[0].1, literal);
    }
    for v in [[4, 0], [0, 0], [1, 1]] {
        assert_eq!(folder.refused(&version(v, literal, &[0; 4])).0, "unsupported_layout");
    }
    for literal in [
        "{'descr': '|u1', 'fortran_order': False}",
        "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 2, 2)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 2, 2)} + {}",
        "__import__('os')",
    ] {
        assert_eq!(folder.refused(&version([1, 0], literal, &[0; 4])).0, "malformed_header", "{literal}");
    }
    // A header longer than is taken, and one that only claims to be long.
    let mut long = version([2, 0], literal, &[0; 4]);
    long[8..12].copy_from_slice(&(1u32 << 20).to_le_bytes());
    assert_eq!(folder.refused(&long).0, "malformed_header");
    long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(folder.refused(&long).0, "malformed_header");
    let padded = format!("{literal}{}", " ".repeat((1 << 20) - 2 - literal.len()));
    let mut most = b"\x93NUMPY\x02\x00".to_vec();
    most.extend((1u32 << 20).to_le_bytes());
    most.extend(padded.as_bytes());
    most.extend(b" \n\x01\x02\x03\x04");
    assert_eq!(read(&*open(&folder.write(&most)), 0, 1).unwrap(), Samples::U8(vec![1, 2, 3, 4]));
}

#[test]
fn cut_short_at_every_byte() {
    let folder = Folder::new();
    let whole = file("'<u2'", false, "(1, 2, 1, 2)", &[0; 8]);
    let mut codes = std::collections::BTreeSet::new();
    for end in 0..whole.len() {
        codes.insert(folder.refused(&whole[..end]).0);
    }
    assert_eq!(Vec::from_iter(codes), ["length_mismatch", "malformed_header", "unknown_format"]);
    for at in 0..whole.len() - 8 {
        for value in [0, b'\'', b'9', b'(', 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            drop(stempack_sources::open(&folder.write(&changed), &Default::default()));
        }
    }
}

#[test]
fn an_archive_of_arrays_is_refused_by_name() {
    let folder = Folder::new();
    // The local header of a zip member: 30 bytes, then its name.
    let mut zip = b"PK\x03\x04".to_vec();
    zip.resize(26, 0);
    zip.extend((8u16).to_le_bytes());
    zip.extend([0, 0]);
    zip.extend(b"data.npy");
    zip.extend([0; 40]);
    let path = folder.write(&zip);
    let error = refusal(&path);
    assert_eq!(error.code(), "unsupported_layout");
    assert!(error.message().contains("archive") && error.message().contains("data.npy"), "{error}");
    assert!(error.advice().unwrap().contains("numpy.save"));
    let at = zip.len() - 41;
    zip[at] = b'z';
    assert_eq!(folder.refused(&zip).0, "unknown_format");
}

#[test]
fn a_file_that_changes_is_noticed() {
    let folder = Folder::new();
    let bytes = file("'|u1'", false, "(1, 1, 2, 2)", &[0; 4]);
    let path = folder.write(&bytes);
    let source = open(&path);
    std::thread::sleep(std::time::Duration::from_millis(30));
    folder.write(&bytes);
    assert_eq!(source.check_unchanged().unwrap_err().code(), "source_changed");
    assert_eq!(read(&*source, 0, 1).unwrap_err().code(), "source_changed");
}
