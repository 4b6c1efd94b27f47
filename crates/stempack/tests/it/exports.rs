//! Files: published whole, never over another file, with the bytes their formats ask for.

use sha2::{Digest, Sha256};
use std::sync::Arc;
use stempack::display::{ColourMap, Contrast, Picture};
use stempack::export::{
    NamedImage, NpyWriter, Output, npy, png::write_png, tiff::write_tiff, unpack_npy, write_hdf5,
};
use stempack::{
    DetectorShape, FrameSourceProducts, SampleType, Samples, SamplesRef, ScanRegion, ScanShape, Task, Values,
};
use stempack_testkit::MemorySource;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn nothing_is_visible_before_publication_and_nothing_is_overwritten() {
    let dir = folder();
    let path = dir.path().join("a.npy");
    let mut first = Output::create(&path, false).unwrap();
    first.write(b"one").unwrap();
    assert!(!path.exists());
    let mut rival = Output::create(&path, false).unwrap();
    rival.write(b"two").unwrap();
    assert_eq!(first.publish().unwrap(), 3);
    // The rival began while the name was free and must still lose.
    assert_eq!(rival.publish().unwrap_err().code(), "destination_exists");
    assert_eq!(Output::create(&path, false).unwrap_err().code(), "destination_exists");
    assert_eq!(std::fs::read(&path).unwrap(), b"one");

    let mut dropped = Output::create(&path, true).unwrap();
    dropped.write(b"three").unwrap();
    drop(dropped);
    assert_eq!(std::fs::read(&path).unwrap(), b"one");
    let mut replacing = Output::create(&path, true).unwrap();
    replacing.write(b"four").unwrap();
    replacing.publish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"four");
    assert_eq!(names(&dir), ["a.npy"]);

    assert_eq!(Output::create(dir.path(), true).unwrap_err().code(), "invalid_destination");
    assert_eq!(Output::create(&dir.path().join("none/a"), true).unwrap_err().code(), "io");
}

#[cfg(unix)]
#[test]
fn published_files_have_ordinary_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let dir = folder();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    Output::create(&ours, false).unwrap().publish().unwrap();
    std::fs::write(&theirs, b"").unwrap();
    let mode = |p: &std::path::Path| p.metadata().unwrap().permissions().mode();
    assert_eq!(mode(&ours), mode(&theirs));
}

#[test]
fn an_incomplete_array_is_not_published() {
    let dir = folder();
    let path = dir.path().join("a.npy");
    let mut w = NpyWriter::create(&path, false, SampleType::U64, &[2, 2]).unwrap();
    w.write(SamplesRef::U64(&[1, 2, 3])).unwrap();
    assert_eq!(w.publish().unwrap_err().code(), "invalid_destination");
    let mut w = NpyWriter::create(&path, false, SampleType::U32, &[1]).unwrap();
    assert!(w.write(SamplesRef::U32(&[1, 2])).is_err());
    drop(w);
    assert_eq!(names(&dir), Vec::<String>::new());
    assert!(NpyWriter::create(&path, false, SampleType::F64, &[u64::MAX, 2]).is_err());
}

#[test]
fn arrays_hold_little_endian_elements_after_the_header() {
    let dir = folder();
    let path = dir.path().join("a.npy");
    let mut w = NpyWriter::create(&path, false, SampleType::U32, &[1, 2]).unwrap();
    w.write(SamplesRef::U32(&[0x0102_0304, 5])).unwrap();
    w.publish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[128..], [4, 3, 2, 1, 5, 0, 0, 0]);
    assert_eq!(bytes[..128], npy::header(SampleType::U32, &[1, 2])[..]);
    let mut w = NpyWriter::create(&path, true, SampleType::F64, &[1]).unwrap();
    w.write(SamplesRef::F64(&[1.0])).unwrap();
    w.publish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[128..], [0, 0, 0, 0, 0, 0, 0xF0, 0x3F]);
}

#[test]
fn unpacking_streams_exactly_the_region() {
    let dir = folder();
    let scan = ScanShape::new(4, 5).unwrap();
    let values: Vec<u16> = (0..180).map(|i| i * 257).collect();
    let source = Arc::new(MemorySource::new((4, 5), (3, 3), Samples::U16(values.clone())).excluding(&[4]));
    let products = FrameSourceProducts::new(source).unwrap();
    let region = ScanRegion::new(scan, 1..3, 2..5).unwrap();
    let mut want = Vec::new();
    for row in 1..3 {
        for col in 2..5 {
            let at = (row * 5 + col) * 9;
            want.extend(values[at..at + 9].iter().flat_map(|&v| v.to_le_bytes()));
        }
    }
    let path = dir.path().join("raw.npy");
    // Two frames at a time.
    let task = Task::new().with_memory_budget(160);
    let done = unpack_npy(&products, &region, Values::Raw, None, &path, false, &task).unwrap();
    assert_eq!(done.shape, [2, 3, 3, 3]);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(done.file_bytes, bytes.len() as u64);
    assert_eq!(bytes[..128], npy::header(SampleType::U16, &[2, 3, 3, 3])[..]);
    assert_eq!(bytes[128..], want);
    assert_eq!(done.logical_sha256[..], Sha256::digest(&want)[..]);

    for frame in want.chunks_exact_mut(18) {
        frame[8..10].fill(0);
    }
    let path = dir.path().join("working.npy");
    unpack_npy(&products, &region, Values::Working, None, &path, false, &task).unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[128..], want);
}

#[test]
fn a_failing_source_leaves_no_file() {
    let dir = folder();
    let mut source = MemorySource::new((2, 2), (2, 2), Samples::U8(vec![1; 16]));
    source.fail_at = Some(3);
    let products = FrameSourceProducts::new(Arc::new(source)).unwrap();
    let path = dir.path().join("a.npy");
    let whole = ScanRegion::whole(ScanShape::new(2, 2).unwrap());
    assert!(unpack_npy(&products, &whole, Values::Raw, None, &path, false, &Task::new()).is_err());
    assert_eq!(names(&dir), Vec::<String>::new());
}

#[test]
fn masks_come_from_files() {
    let dir = folder();
    let path = dir.path().join("m.npy");
    let detector = DetectorShape::new(2, 2).unwrap();
    let mut w = NpyWriter::create(&path, false, SampleType::U8, &[2, 2]).unwrap();
    w.write(SamplesRef::U8(&[0, 1, 1, 0])).unwrap();
    w.publish().unwrap();
    assert_eq!(npy::read_mask(&path, detector).unwrap(), [0, 1, 1, 0]);
    let e = npy::read_mask(&path, DetectorShape::new(2, 3).unwrap()).unwrap_err();
    assert_eq!(e.code(), "mask_shape");
    assert!(e.message().contains("m.npy"));
    assert_eq!(npy::read_mask(&dir.path().join("none.npy"), detector).unwrap_err().code(), "io");
}

fn ramp() -> Picture {
    let values: Vec<f64> = (0..12).map(f64::from).collect();
    Picture::of_values(3, 4, &values, Contrast { low: 0.0, high: 11.0 }, ColourMap::Viridis)
}

#[test]
fn pictures_decode_to_their_pixels_and_texts() {
    let dir = folder();
    let path = dir.path().join("a.png");
    let mut out = Output::create(&path, false).unwrap();
    let texts = [("Title".to_owned(), "step 0.5 Å".to_owned())];
    write_png(&mut out, &ramp(), &texts).unwrap();
    out.publish().unwrap();
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height, info.color_type), (4, 3, png::ColorType::Rgb));
    assert_eq!(pixels, ramp().rgb().as_flattened());
    let text = &reader.info().utf8_text[0];
    assert_eq!((text.keyword.as_str(), text.get_text().unwrap().as_str()), ("Title", "step 0.5 Å"));
}

#[test]
fn float_pages_decode_to_their_values() {
    let dir = folder();
    let path = dir.path().join("a.tif");
    let mut out = Output::create(&path, false).unwrap();
    write_tiff(&mut out, 2, 3, &[&[0.5, 1.0, 2.0, 3.0, 4.0, 1e9], &[6.0; 6]], r#"{"path": "Å𝄞"}"#).unwrap();
    out.publish().unwrap();
    let mut decoder = tiff::decoder::Decoder::new(std::fs::File::open(&path).unwrap()).unwrap();
    let said = decoder.get_tag_ascii_string(tiff::tags::Tag::ImageDescription).unwrap();
    assert_eq!(said, r#"{"path": "\u00c5\ud834\udd1e"}"#);
    let mut pages = Vec::new();
    loop {
        assert_eq!(decoder.dimensions().unwrap(), (3, 2));
        match decoder.read_image().unwrap() {
            tiff::decoder::DecodingResult::F32(v) => pages.push(v),
            other => panic!("not floats: {other:?}"),
        }
        if !decoder.more_images() {
            break;
        }
        decoder.next_image().unwrap();
    }
    assert_eq!(pages, [vec![0.5, 1.0, 2.0, 3.0, 4.0, 1e9], vec![6.0; 6]]);
    let mut bad = Output::create(&dir.path().join("b.tif"), false).unwrap();
    assert_eq!(write_tiff(&mut bad, 2, 3, &[&[0.5]], "{}").unwrap_err().code(), "picture");
}

#[test]
fn hdf5_images_appear_whole_with_their_metadata_or_not_at_all() {
    let dir = folder();
    let path = dir.path().join("a.h5");
    let floats = [0.5, f64::NAN, -0.0, 4.0, 5.0, 6.0];
    let images = [
        NamedImage { name: "sum_1", values: SamplesRef::U64(&[u64::MAX, 1]), shape: &[1, 2] },
        NamedImage { name: "mean", values: SamplesRef::F64(&floats), shape: &[1, 2, 3] },
    ];
    let write = |images: &[NamedImage<'_>], text: &str| {
        let mut out = Output::create(&path, true).unwrap();
        write_hdf5(&mut out, images, text).map(|()| out.publish().unwrap())
    };
    for name in ["", "A", "a b", "a/b", "å", &"a".repeat(240)] {
        let bad = NamedImage { name, ..images[0] };
        assert_eq!(write(&[bad], "{}").unwrap_err().code(), "image_name", "{name}");
    }
    assert_eq!(write(&[images[0], images[0]], "{}").unwrap_err().code(), "image_name");
    let bad = NamedImage { shape: &[3], ..images[0] };
    assert_eq!(write(&[bad], "{}").unwrap_err().code(), "invalid_destination");
    let bad = NamedImage { shape: &[usize::MAX, 3], ..images[0] };
    assert_eq!(write(&[bad], "{}").unwrap_err().code(), "invalid_destination");
    assert_eq!(write(&images, &" ".repeat(16 << 20)).unwrap_err().code(), "metadata_too_large");
    assert_eq!(names(&dir), Vec::<String>::new());

    let bytes = write(&images, r#"{"step": "0.5 Å"}"#).unwrap();
    assert_eq!(bytes, path.metadata().unwrap().len());
    assert_eq!(names(&dir), ["a.h5"]);
    let whole = std::fs::read(&path).unwrap();
    let file = hdf5_metno::File::open(&path).unwrap();
    let mean = file.dataset("images/mean").unwrap();
    assert_eq!(mean.shape(), [1, 2, 3]);
    let same: Vec<u64> = mean.read_raw::<f64>().unwrap().into_iter().map(f64::to_bits).collect();
    assert_eq!(same, floats.map(f64::to_bits));
    assert_eq!(file.dataset("images/sum_1").unwrap().read_raw::<u64>().unwrap(), [u64::MAX, 1]);
    let text: hdf5_metno::types::VarLenUnicode = file.dataset("metadata").unwrap().read_scalar().unwrap();
    assert_eq!(text.as_str(), r#"{"step": "0.5 Å"}"#);
    file.close().unwrap();
    write(&images, r#"{"step": "0.5 Å"}"#).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole, "the same result gives the same bytes");
}
