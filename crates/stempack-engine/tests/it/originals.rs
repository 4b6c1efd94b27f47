//! Residents made straight from originals.

use crate::{counts, u16s};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stempack_engine::Resident;
use stempack_model::{Detail, FrameSource, Samples, Task};
use stempack_products::{DetectorMask, Products, reference};
use stempack_testkit::{MemorySource, count};

fn check(source: MemorySource) -> Resident {
    let source: Arc<MemorySource> = Arc::new(source);
    let shared: Arc<dyn FrameSource> = source.clone();
    let task = Task::new();
    let resident = Resident::from_source(&shared, &task).unwrap();
    resident.check_against(source.as_ref(), &task).unwrap();
    assert_eq!(resident.report().layout, "bit-planes");
    let a = source.acquisition();
    let shape = a.shape().unwrap();
    let frames = reference::dense(source.frames().as_ref(), shape);
    let mask = DetectorMask::all(shape.detector, &a.excluded).unwrap();
    let expected = reference::virtual_image(shape, &frames, &a.excluded, &|_, _| true).unwrap();
    assert_eq!(resident.virtual_image(&mask, &task).unwrap().values.to_u64(), expected.to_u64());
    assert_eq!(
        resident.pattern_sum(&task).unwrap(),
        reference::pattern_sum(shape, &frames, &a.excluded).unwrap()
    );
    assert_eq!(resident.moments(&task).unwrap(), reference::moments(shape, &frames, &a.excluded).unwrap());
    let mut all = Samples::zeroed(a.sample, source.frames().len());
    resident.raw_positions(0, all.as_mut(), &task).unwrap();
    assert_eq!(&all, source.frames());
    let last = shape.scan.positions() - 1;
    let working = resident.working_frame(last / shape.scan.cols(), last % shape.scan.cols()).unwrap();
    let expected = reference::working_frame(&frames, &a.excluded, last);
    for p in 0..shape.detector.pixels() {
        assert_eq!(count(&working, p), count(&expected, p));
    }
    resident
}

#[test]
fn originals_of_every_integer_type_become_residents() {
    let data = counts(7 * 150, 6 * 5, 65_535);
    let (scan, detector) = ((7, 150), (6, 5));
    check(MemorySource::new(scan, detector, u16s(&data)));
    check(MemorySource::new(scan, detector, u16s(&data)).excluding(&[2, 29]));
    check(MemorySource::new(scan, detector, Samples::U8(data.iter().map(|&v| v as u8).collect())));
    check(MemorySource::new(scan, detector, Samples::U32(data.iter().map(|&v| v as u32).collect())));
    check(MemorySource::new(scan, detector, Samples::U64(data.clone())));
    // Sums of counts of a signed type are unsigned here, as they are of packs.
    let signed = Samples::I32(data.iter().map(|&v| v as i32).collect());
    let source: Arc<dyn FrameSource> = Arc::new(MemorySource::new(scan, detector, signed));
    let resident = Resident::from_source(&source, &Task::new()).unwrap();
    resident.check_against(source.as_ref(), &Task::new()).unwrap();
    check(MemorySource::new((1, 1), (1, 1), Samples::U16(vec![65_535])));
}

#[test]
fn marks_of_excluded_pixels_are_given_back() {
    let mut data: Vec<u32> = counts(600, 30, 300).iter().map(|&v| v as u32).collect();
    for frame in data.chunks_exact_mut(30) {
        frame[3] = u32::MAX;
    }
    let resident = check(MemorySource::new((20, 30), (6, 5), Samples::U32(data.clone())).excluding(&[3, 11]));
    assert_eq!(resident.report().raw_access, stempack_containers::pack::RawAccess::ExclusionConstants);
    data[30 * 599 + 3] = 7;
    let refused = |source: MemorySource| {
        let source: Arc<dyn FrameSource> = Arc::new(source);
        Resident::from_source(&source, &Task::new()).unwrap_err()
    };
    let error = refused(MemorySource::new((20, 30), (6, 5), Samples::U32(data.clone())).excluding(&[3]));
    assert_eq!(error.code(), "excluded_pixel_not_constant");
    let error = refused(MemorySource::new((20, 30), (6, 5), Samples::U32(data)));
    assert_eq!(error.code(), "count_too_large");
    let error = refused(MemorySource::new((1, 2), (1, 1), Samples::I16(vec![0, -1])));
    assert_eq!(error.code(), "count_too_large");
    let error = refused(MemorySource::new((1, 2), (1, 1), Samples::F64(vec![0.0, 1.0])));
    assert_eq!(error.code(), "resident_sample_type");
}

#[test]
fn of_several_failures_the_earliest_is_named() {
    // The second block is made beside the first, and fails sooner.
    let mut data: Vec<u32> = counts(1500, 30, 300).iter().map(|&v| v as u32).collect();
    for scan in [511, 512, 1400] {
        data[30 * scan + 4] = 70_000;
    }
    let source: Arc<dyn FrameSource> = Arc::new(MemorySource::new((30, 50), (6, 5), Samples::U32(data)));
    for _ in 0..20 {
        let error = Resident::from_source(&source, &Task::new()).unwrap_err();
        assert!(error.to_string().contains("scan position 511, pixel 4"), "{error}");
    }
}

#[test]
fn frames_that_are_stored_together_are_read_once() {
    let (scan, pixels) = ((20, 67), 30);
    let data: Vec<u64> = (0..20 * 67 * pixels).map(|i| i * 7 % 501 / 3).collect();
    for (together, frames) in [(1, 64), (32, 64), (64, 64), (67, 512), (128, 512)] {
        let source = Arc::new(MemorySource::new(scan, (6, 5), u16s(&data)).stored_together(together));
        let resident =
            Resident::from_source(&(source.clone() as Arc<dyn FrameSource>), &Task::new()).unwrap();
        assert_eq!(source.largest.load(Ordering::Relaxed), frames * pixels * 2);
        assert_eq!(source.read.load(Ordering::Relaxed), 20 * 67);
        resident.check_against(source.as_ref(), &Task::new()).unwrap();
    }
}

#[test]
fn a_difference_is_found_and_named() {
    let data = counts(600, 30, 300);
    let source: Arc<dyn FrameSource> = Arc::new(MemorySource::new((20, 30), (6, 5), u16s(&data)));
    let resident = Resident::from_source(&source, &Task::new()).unwrap();
    let mut other = data;
    other[30 * 571 + 8] += 1;
    let other = MemorySource::new((20, 30), (6, 5), u16s(&other));
    let error = resident.check_against(&other, &Task::new()).unwrap_err();
    assert_eq!(error.code(), "resident_not_equal");
    assert!(error.to_string().contains("pixel 8 of scan position 571"), "{error}");
}

#[test]
fn a_resident_stays_within_its_budget() {
    let source: Arc<dyn FrameSource> =
        Arc::new(MemorySource::new((40, 50), (6, 5), u16s(&counts(2000, 30, 65_535))));
    let refused = |budget: u64| {
        let task = Task::new().with_memory_budget(budget);
        let error = Resident::from_source(&source, &task).map(drop).unwrap_err();
        assert_eq!(error.code(), "resident_over_budget");
        let Detail::Number(needed) = error.details()[0].1 else { panic!("{error}") };
        (error.to_string(), needed)
    };
    let (message, working) = refused(0);
    assert!(message.contains("after 0 of 2000 scan positions"), "{message}");
    // What the first blocks take is known only then.
    let (message, needed) = refused(working + 20_000);
    assert!(message.contains("after 512 of 2000 scan positions"), "{message}");
    assert!(needed > working + 20_000);
    let enough = Task::new().with_memory_budget(working + 200_000);
    let resident = Resident::from_source(&source, &enough).unwrap();
    assert!(resident.report().resident_bytes <= working + 200_000);
}
