//! Residents against the slow references: every product, both profiles, every kernel.

#![expect(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod float_sessions;
mod floats;
mod mapped;
mod originals;
mod residency;
mod selections;
mod sessions;

use std::sync::Arc;
use stempack_containers::pack::{PackFile, PackOptions, ProfileChoice, pack};
use stempack_engine::cpu::Kernel;
use stempack_engine::{Resident, ShardReader};
use stempack_model::{FrameSource, Samples, Task};
use stempack_products::{DetectorMask, Products, Sums, reference};
use stempack_testkit::{MemorySource, corpus, count, expectations, read_npy};

fn counts(scans: usize, pixels: usize, max: u64) -> Vec<u64> {
    let mut state = 5u64;
    (0..scans * pixels)
        .map(|i| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % (max + 1)) >> (i % 11)
        })
        .collect()
}

fn check(source: &MemorySource, profile: ProfileChoice) {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    let options = PackOptions { profile, ..PackOptions::default() };
    pack(source, &to, &options, &Task::new()).unwrap();
    let a = source.acquisition();
    let shape = a.shape().unwrap();
    let pixels = shape.detector.pixels();
    let frames = reference::dense(source.frames().as_ref(), shape);
    let bytes: Vec<u8> = (0..pixels).map(|p| u8::from(p % 3 != 1)).collect();
    let masks = [
        DetectorMask::all(shape.detector, &a.excluded).unwrap(),
        DetectorMask::from_array(shape.detector, &a.excluded, &bytes).unwrap(),
        DetectorMask::disk(shape.detector, &a.excluded, 1.5, 2.0, 1.9).unwrap(),
        DetectorMask::from_array(shape.detector, &a.excluded, &vec![0; pixels]).unwrap(),
    ];
    let forms = Kernel::available().into_iter().flat_map(|k| [(k, false), (k, true)]);
    for (kernel, arranged) in forms {
        // Two of them are the reference and slow.
        if kernel == Kernel::Scalar && arranged && pixels * shape.scan.positions() > 20_000 {
            continue;
        }
        let resident =
            Resident::load(&PackFile::open(&to).unwrap(), &Task::new()).unwrap().with_kernel(kernel);
        assert_eq!(resident.report().layout, "packed");
        if arranged {
            resident.arrange(&Task::new()).unwrap();
            assert_eq!(resident.report().layout, "bit-planes");
        }
        for mask in &masks {
            let cols = shape.detector.cols();
            let member = |row: usize, col: usize| mask.members()[row * cols + col];
            let expected = reference::virtual_image(shape, &frames, &a.excluded, &member).unwrap();
            let found = resident.virtual_image(mask, &Task::new()).unwrap();
            assert_eq!(found.values.to_u64(), expected.to_u64(), "{kernel:?}");
        }
        assert_eq!(
            resident.pattern_sum(&Task::new()).unwrap(),
            reference::pattern_sum(shape, &frames, &a.excluded).unwrap()
        );
        assert_eq!(
            resident.moments(&Task::new()).unwrap(),
            reference::moments(shape, &frames, &a.excluded).unwrap()
        );
        for position in [0, shape.scan.positions() / 2, shape.scan.positions() - 1] {
            let (row, col) = (position / shape.scan.cols(), position % shape.scan.cols());
            let raw = resident.raw_frame(row, col).unwrap();
            let working = resident.working_frame(row, col).unwrap();
            let expected = reference::working_frame(&frames, &a.excluded, position);
            for p in 0..pixels {
                assert_eq!(count(&raw, p), count(source.frames(), position * pixels + p));
                assert_eq!(count(&working, p), count(&expected, p));
            }
        }
        assert!(resident.raw_frame(shape.scan.rows(), 0).is_err());
        let mut all = Samples::zeroed(resident.sample_type(), source.frames().len());
        resident.raw_positions(0, all.as_mut(), &Task::new()).unwrap();
        assert_eq!(&all, source.frames(), "{kernel:?} {arranged}");
    }
    let resident = Resident::load(&PackFile::open(&to).unwrap(), &Task::new()).unwrap();
    let reader = ShardReader::new(Arc::new(PackFile::open(&to).unwrap()), &Task::new()).unwrap();
    let task = Task::new();
    let in_map = mapped::load_mapped(&to).unwrap();
    for mask in &masks {
        assert_eq!(in_map.virtual_image(mask, &task).unwrap(), resident.virtual_image(mask, &task).unwrap());
    }
    assert_eq!(in_map.pattern_sum(&task).unwrap(), resident.pattern_sum(&task).unwrap());
    assert_eq!(in_map.moments(&task).unwrap(), resident.moments(&task).unwrap());
    let mut all = Samples::zeroed(in_map.sample_type(), source.frames().len());
    in_map.raw_positions(0, all.as_mut(), &task).unwrap();
    assert_eq!(&all, source.frames());
    for mask in &masks {
        assert_eq!(reader.virtual_image(mask, &task).unwrap(), resident.virtual_image(mask, &task).unwrap());
    }
    assert_eq!(reader.pattern_sum(&task).unwrap(), resident.pattern_sum(&task).unwrap());
    assert_eq!(reader.moments(&task).unwrap(), resident.moments(&task).unwrap());
    let mut all = Samples::zeroed(reader.sample_type(), source.frames().len());
    reader.raw_positions(0, all.as_mut(), &task).unwrap();
    assert_eq!(&all, source.frames());
}

fn u16s(values: &[u64]) -> Samples {
    Samples::U16(values.iter().map(|&v| v as u16).collect())
}

#[test]
fn residents_equal_the_references() {
    let source = MemorySource::new((8, 12), (5, 7), u16s(&counts(96, 35, 255)));
    check(&source, ProfileChoice::U8);
    check(&source, ProfileChoice::U16);
    let source = MemorySource::new((7, 19), (6, 5), u16s(&counts(133, 30, 65_535))).excluding(&[2, 29]);
    check(&source, ProfileChoice::Auto);
    // Several shards of both profiles, and a detector of one row or one column.
    let source = MemorySource::new((96, 128), (1, 5), u16s(&counts(96 * 128, 5, 255)));
    check(&source, ProfileChoice::U8);
    let source = MemorySource::new((96, 128), (5, 1), u16s(&counts(96 * 128, 5, 1000)));
    check(&source, ProfileChoice::U16);
}

#[test]
fn lanes_are_emptied_before_they_overflow() {
    // Every sample at its maximum: 300 pixels overflow 16-bit lanes many times.
    let source = MemorySource::new((8, 8), (15, 20), Samples::U16(vec![255; 64 * 300]));
    check(&source, ProfileChoice::U8);
    check(&source, ProfileChoice::U16);
    let source = MemorySource::new((4, 8), (15, 20), Samples::U16(vec![511; 32 * 300]));
    check(&source, ProfileChoice::U16);
    let source = MemorySource::new((4, 8), (15, 20), Samples::U16(vec![65_535; 32 * 300]));
    check(&source, ProfileChoice::U16);
}

#[test]
fn sums_beyond_32_bits_are_exact() {
    // 65,538 pixels of 65,535 counts: one pixel more than 32 bits hold.
    let pixels = 65_538;
    let source = MemorySource::new((1, 2), (2, pixels / 2), Samples::U16(vec![65_535; 2 * pixels]));
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    pack(&source, &to, &PackOptions::default(), &Task::new()).unwrap();
    let resident = Resident::load(&PackFile::open(&to).unwrap(), &Task::new()).unwrap();
    let mask = DetectorMask::all(resident.shape().detector, resident.exclusions()).unwrap();
    // One thread sums all pixels in the same lanes, several cut them.
    for threads in [1, 4] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let image = pool.install(|| resident.virtual_image(&mask, &Task::new())).unwrap();
        assert_eq!(image.values, Sums::U64(vec![65_538 * 65_535; 2]));
    }
    let moments = resident.moments(&Task::new()).unwrap();
    let n = pixels as u64 / 2;
    assert_eq!(moments.total, Sums::U64(vec![65_538 * 65_535; 2]));
    assert_eq!(moments.row, Sums::U64(vec![n * 65_535; 2]));
    assert_eq!(moments.col, Sums::U64(vec![2 * (n * (n - 1) / 2) * 65_535; 2]));
}

#[test]
fn a_budget_that_is_too_small_is_refused() {
    let source = MemorySource::new((8, 8), (5, 6), u16s(&counts(64, 30, 255)));
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    pack(&source, &to, &PackOptions::default(), &Task::new()).unwrap();
    let e = Resident::load(&PackFile::open(&to).unwrap(), &Task::new().with_memory_budget(100)).unwrap_err();
    assert_eq!(e.code(), "resident_over_budget");
}

#[test]
fn products_of_the_corpus() {
    let Some(dir) = corpus("pack") else { return };
    let fixtures = expectations(&dir.join("fixtures.json"));
    let mut seen = 0;
    for (name, f) in fixtures["valid"].as_object().unwrap() {
        let expected = |what: &str| {
            let path = dir.join(format!("expected/{name}.{what}.npy"));
            path.exists().then(|| read_npy(&path).values)
        };
        let Some(total) = expected("total_u64") else { continue };
        seen += 1;
        let pack = PackFile::open(&dir.join(f["file"].as_str().unwrap())).unwrap();
        let resident = Resident::load(&pack, &Task::new()).unwrap();
        let moments = resident.moments(&Task::new()).unwrap();
        assert_eq!(moments.total.to_u64().unwrap(), total, "{name}");
        assert_eq!(moments.row.to_u64(), expected("row_moment_u64"), "{name}");
        assert_eq!(moments.col.to_u64(), expected("column_moment_u64"), "{name}");
        assert_eq!(
            resident.pattern_sum(&Task::new()).unwrap().sums.to_u64(),
            expected("detector_sum_u64"),
            "{name}"
        );
        let mask = DetectorMask::all(resident.shape().detector, resident.exclusions()).unwrap();
        assert!(
            resident.virtual_image(&mask, &Task::new()).unwrap().values.to_u64() == Some(total),
            "{name}"
        );
    }
    assert!(seen >= 4);
}
