//! The suite that every reader passes, on the formats whose frames lie flat in one file and on EMD datacubes.

use crate::dm_writer::{Image, Style};
use crate::emd::emdfile;
use crate::empad::{g1, g2};
use crate::generated::{python, run};
use crate::writer::{Folder, groups, numbers_attribute};
use std::path::Path;
use stempack_sources::hdf5::{DatasetIndex, File, Found, Storage};
use stempack_sources::{OpenOptions, open};
use stempack_testkit::SourceContract;

/// Files by their names, the first of which is opened.
fn check(files: &[(&str, Vec<u8>)], expected: &[u8], boundaries: &[(&str, &[u64])]) {
    SourceContract {
        write: &|to| {
            for (name, bytes) in files {
                std::fs::write(to.join(name), bytes).unwrap();
            }
            to.join(files[0].0)
        },
        open: &|path| open(path, &OpenOptions::default()),
        expected,
        boundaries,
    }
    .check();
}

/// Floats of every kind, the bits of which must come back.
fn floats(count: usize) -> Vec<u8> {
    let special = [0x7fa0_1234, 0x8000_0000, 0x0000_0001, 0xff80_0000, 0x3f80_0000u32];
    (0..count)
        .flat_map(|i| match special.get(i % 97) {
            Some(bits) => bits.to_le_bytes(),
            None => (i as f32 * 0.25 - 3.0).to_le_bytes(),
        })
        .collect()
}

const CUBE: &str = "/datacube_root/datacube/data";
const EMPAD_FRAME: usize = 4 * 128 * 128;

#[test]
fn empad_of_the_first_generation() {
    let expected = floats(6 * 128 * 128);
    let raw: Vec<u8> = expected.chunks(EMPAD_FRAME).flat_map(|f| [f, &[0xa5; 1024]].concat()).collect();
    let xml = g1("r.raw", "<pix_x>3</pix_x><pix_y>2</pix_y>");
    let record = EMPAD_FRAME as u64 + 1024;
    let cuts = [0, 1, EMPAD_FRAME as u64, record, 5 * record, 6 * record - 1024, 6 * record - 1];
    check(
        &[("a.xml", xml.into_bytes()), ("r.raw", raw)],
        &expected,
        &[("r.raw", &cuts), ("a.xml", &[0, 5, 40])],
    );
}

#[test]
fn empad_of_the_second_generation() {
    let expected = floats(6 * 128 * 128);
    let xml = g2("r.raw", "(2, 3)", "");
    let frame = EMPAD_FRAME as u64;
    let cuts = [0, 4, frame, 5 * frame, 6 * frame - 1];
    check(
        &[("a.xml", xml.into_bytes()), ("r.raw", expected.clone())],
        &expected,
        &[("r.raw", &cuts), ("a.xml", &[0, 5, 40])],
    );
}

#[test]
fn a_raw_that_only_its_name_describes() {
    let expected = floats(6 * 128 * 128);
    let raw: Vec<u8> = expected.chunks(EMPAD_FRAME).flat_map(|f| [f, &[0; 1024]].concat()).collect();
    let record = EMPAD_FRAME as u64 + 1024;
    check(&[("scan_x3_y2.raw", raw)], &expected, &[("scan_x3_y2.raw", &[0, 1, record, 6 * record - 1])]);
}

fn npy(descr: &str, fortran: bool, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut literal = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (3, 4, 5, 6), }}");
    literal.push_str(&" ".repeat(117 - literal.len()));
    literal.push('\n');
    [b"\x93NUMPY\x01\x00\x76\x00".as_slice(), literal.as_bytes(), data].concat()
}

#[test]
fn numpy_arrays_in_both_orders_and_byte_orders() {
    let counts: Vec<u16> = (0..3 * 4 * 5 * 6).collect();
    let expected: Vec<u8> = counts.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big: Vec<u8> = counts.iter().flat_map(|v| v.to_be_bytes()).collect();
    // The first axis is the fastest; the place of (r, c, y, x) in the usual order is its value.
    let mut fortran = Vec::new();
    for (x, y) in (0..6u16).flat_map(|x| (0..5u16).map(move |y| (x, y))) {
        for (c, r) in (0..4u16).flat_map(|c| (0..3u16).map(move |r| (c, r))) {
            fortran.extend((((r * 4 + c) * 5 + y) * 6 + x).to_le_bytes());
        }
    }
    let cuts = [0, 6, 8, 10, 60, 127, 128, 188, 128 + 719];
    for file in [npy("<u2", false, &expected), npy(">u2", false, &big), npy("<u2", true, &fortran)] {
        check(&[("a.npy", file)], &expected, &[("a.npy", &cuts)]);
    }
    let expected = floats(3 * 4 * 5 * 6);
    check(&[("a.npy", npy("<f4", false, &expected))], &expected, &[("a.npy", &[128, 1567])]);
}

/// The header's words, every frame, the end of the samples, and the closing zeros of a DigitalMicrograph document.
fn boundaries(document: &[u8], samples: &[u8], frame: usize, header: &[u64]) -> Vec<u64> {
    let begin = document.windows(samples.len()).position(|w| w == samples).unwrap();
    let frames = (0..=samples.len() / frame).map(|n| (begin + n * frame) as u64);
    let end = document.len() as u64;
    [0, end / 2, end - 8, end - 4].into_iter().chain(header.iter().copied()).chain(frames).collect()
}

#[test]
fn dm3_in_both_byte_orders() {
    for big_endian in [false, true] {
        let style = Style { version: 3, big_endian };
        let mut image = Image::u16(&[6, 5, 4, 3], &["1/nm", "1/nm", "nm", "nm"]);
        image.style = style;
        image.axes.iter_mut().for_each(|axis| axis.0 = style.f64(0.25));
        let expected: Vec<u8> = (0..360u16).flat_map(u16::to_le_bytes).collect();
        let stored: Vec<u8> =
            (0..360u16).flat_map(|v| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() }).collect();
        let document = image.document();
        let cuts = boundaries(&document, &stored, 2 * 5 * 6, &[4, 8, 12, 13, 14, 18]);
        check(&[("a.dm3", document)], &expected, &[("a.dm3", &cuts)]);
    }
}

#[test]
fn dm4_with_either_axis_fastest() {
    let usual = Image::u16(&[6, 5, 4, 3], &["1/nm", "1/nm", "nm", "nm"]).scales(&[0.04, 0.05, 1.5, 2.5]);
    let expected: Vec<u8> = (0..360u16).flat_map(u16::to_le_bytes).collect();
    let document = usual.document();
    let cuts = boundaries(&document, &expected, 2 * 5 * 6, &[4, 12, 16, 17, 24, 60]);
    check(&[("a.dm4", document)], &expected, &[("a.dm4", &cuts)]);

    let swapped = Image::u16(&[4, 3, 6, 5], &["nm", "nm", "1/nm", "1/nm"]).scales(&[2.5, 1.5, 0.04, 0.05]);
    let mut expected = Vec::new();
    for (r, c) in (0..3u16).flat_map(|r| (0..4u16).map(move |c| (r, c))) {
        for (y, x) in (0..5u16).flat_map(|y| (0..6u16).map(move |x| (y, x))) {
            expected.extend((c + 4 * (r + 3 * (x + 6 * y))).to_le_bytes());
        }
    }
    let document = swapped.document();
    let half = [document.len() as u64 / 2];
    check(&[("a.dm4", document)], &expected, &[("a.dm4", &half)]);
}

/// Where the samples of a dataset begin and end.
fn places(path: &Path, dataset: &str) -> Vec<u64> {
    let file = File::open(path).unwrap();
    let Found::Dataset(dataset) = file.find(dataset).unwrap() else { panic!("no array") };
    let index = DatasetIndex::build(&file, &dataset).unwrap();
    let mut at = vec![8, 48, 96];
    match index.storage() {
        Storage::Chunked(chunks) => {
            at.extend(chunks.table.iter().flat_map(|c| [c.address, c.address + c.bytes / 2]));
        }
        Storage::Contiguous(address) => at.extend([*address, address + 8]),
        Storage::Compact(_) => {}
    }
    at
}

#[test]
fn datacubes_contiguous_and_in_chunks_that_cross_frames() {
    let expected: Vec<u8> = (0..3 * 4 * 5 * 6u16).flat_map(u16::to_le_bytes).collect();
    let samples: Vec<u16> = (0..3 * 4 * 5 * 6).collect();
    for (chunk, together) in
        [(None, 1), (Some([1, 1, 5, 6]), 1), (Some([1, 3, 5, 6]), 3), (Some([2, 3, 2, 4]), 8)]
    {
        let folder = Folder::new();
        let file = emdfile(&folder);
        let group = groups(&file, "/datacube_root/datacube");
        let builder = group.new_dataset::<u16>();
        let data = match chunk {
            None => builder.shape([3, 4, 5, 6]).create("data"),
            Some(chunk) => builder.chunk(chunk).shuffle().shape([3, 4, 5, 6]).create("data"),
        };
        data.unwrap().write_raw(&samples).unwrap();
        // Open groups keep the file open.
        drop((group, file));
        let path = folder.at("cube.h5");
        let source = open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(source.frames_together(), together, "{chunk:?}");
        let at = places(&path, CUBE);
        check(&[("cube.h5", std::fs::read(&path).unwrap())], &expected, &[("cube.h5", &at)]);
    }
}

#[test]
fn the_bare_stack_of_floats() {
    let expected = floats(3 * 128 * 128);
    let folder = Folder::new();
    let file = folder.file("sim.h5");
    let data = file.new_dataset::<f32>().shape([3, 128, 128]).create("dp").unwrap();
    let samples: Vec<f32> =
        expected.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    data.write_raw(&samples).unwrap();
    numbers_attribute(&data, "scan_shape", &[1u32, 3]);
    drop((data, file));
    let path = folder.at("sim.h5");
    let mut at = places(&path, "/dp");
    let begin = at[3];
    at.extend((1..=3).map(|n| begin + n * EMPAD_FRAME as u64));
    check(&[("sim.h5", std::fs::read(&path).unwrap())], &expected, &[("sim.h5", &at)]);
}

/// Chunks as zlib packs them, one frame each, several, and parts of several, with and without a checksum.
const PACKED: &str = r#"
import sys, pathlib, numpy as np, h5py
out = pathlib.Path(sys.argv[1])
a = np.arange(360, dtype="<u2").reshape(3, 4, 5, 6)
for i, (chunks, how) in enumerate([((1, 1, 5, 6), {}), ((2, 3, 5, 6), {"shuffle": True}), ((2, 3, 2, 4), {"fletcher32": True})]):
    with h5py.File(out / f"{i}.h5", "w") as f:
        f.attrs["authoring_program"] = "emdfile"; f.attrs["version_major"] = 1
        f.create_dataset("datacube_root/datacube/data", data=a, chunks=chunks, compression="gzip", **how)
"#;

#[test]
fn datacubes_in_chunks_packed_by_zlib() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    run(&python, &["-c", PACKED, dir.path().to_str().unwrap()]);
    let expected: Vec<u8> = (0..360u16).flat_map(u16::to_le_bytes).collect();
    for number in 0..3 {
        let path = dir.path().join(format!("{number}.h5"));
        let at = places(&path, CUBE);
        assert!(at.len() > 8, "chunks are stored: {at:?}");
        check(&[("cube.h5", std::fs::read(&path).unwrap())], &expected, &[("cube.h5", &at)]);
    }
}
