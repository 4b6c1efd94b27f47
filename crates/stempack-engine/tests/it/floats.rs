//! Residents of floats: every product bit for bit by the rule, whatever the samples, the kernel and the threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use stempack_containers::Digest;
use stempack_containers::qem::{Background, DarkSubtracted, QemFile, QemOptions, write};
use stempack_engine::cpu::Kernel;
use stempack_engine::{Resident, threads};
use stempack_model::{FrameSource, Samples, Task};
use stempack_products::{
    DetectorMask, FrameSourceProducts, Products, ScanSelection, Sums, Values, reference,
};
use stempack_testkit::MemorySource;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 32
    }
    /// About normal, with 24 random digits.
    pub(crate) fn noise(&mut self) -> f32 {
        let sum: i64 = (0..4).map(|_| (self.next() & 0xff_ffff) as i64 - 0x80_0000).sum();
        sum as f32 / 8_388_608.0
    }
}

/// What samples are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whole numbers, of both signs.
    Counts,
    /// What a calibrated detector gives.
    Noisy,
    /// Over all powers of two, so that order matters.
    Wild,
    /// Noise among which there are NaN, infinities, signed zeros and subnormals.
    Special,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Counts, Kind::Noisy, Kind::Wild, Kind::Special];

pub(crate) fn samples(kind: Kind, count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -f32::MAX];
    (0..count)
        .map(|_| match kind {
            Kind::Counts => (random.next() % 3000) as f32 - 40.0,
            Kind::Noisy => 250.0 * random.noise().max(-0.2) + 0.01 * random.noise(),
            Kind::Wild => random.noise() * 2f32.powi((random.next() % 200) as i32 - 100),
            Kind::Special => match random.next() % 40 {
                k @ 0..7 => special[k as usize],
                7 => f32::from_bits(0x7f80_0001 | random.next() as u32 & 0x807f_ffff),
                8 => f32::from_bits(random.next() as u32 & 0x8000_0fff),
                _ => random.noise(),
            },
        })
        .collect()
}

pub(crate) fn bits(samples: &Samples) -> Vec<u8> {
    samples.as_ref().little_endian().into_owned()
}

fn background(pixels: usize, seed: u64) -> Background {
    let mut random = Random(seed);
    let values = (0..pixels).map(|p| if p % 4 == 1 { 0.0 } else { random.noise() * 3.0 }).collect();
    Background { identity: Digest([7; 32]), values }
}

/// Everything that can be asked, of a resident and of the frames that its products are made of.
fn check(source: MemorySource, dark: Option<Background>) {
    let source = Arc::new(source);
    let shared: Arc<dyn FrameSource> = source.clone();
    let task = Task::new();
    let (shape, excluded) = (source.acquisition().shape().unwrap(), source.acquisition().excluded.clone());
    let pixels = shape.detector.pixels();
    let made = |kernel: Option<Kernel>| {
        let resident = match &dark {
            Some(dark) => Resident::from_source_less(&shared, dark.clone(), &task).unwrap(),
            None => Resident::from_source(&shared, &task).unwrap(),
        };
        match kernel {
            Some(kernel) => resident.with_kernel(kernel),
            None => resident,
        }
    };
    // Frames as products see them, taken by code that knows nothing of residents.
    let working = match &dark {
        Some(dark) => {
            let less = DarkSubtracted::new(shared.clone(), dark.clone()).unwrap();
            let mut frames = Samples::zeroed(source.acquisition().sample, source.frames().len());
            less.read(0, frames.as_mut(), &task).unwrap();
            frames
        }
        None => source.frames().clone(),
    };
    let frames = reference::dense(working.as_ref(), shape);
    let mut random = Random(pixels as u64);
    let bytes: Vec<u8> = (0..pixels).map(|_| random.next().is_multiple_of(3).into()).collect();
    let masks = [
        DetectorMask::all(shape.detector, &excluded).unwrap(),
        DetectorMask::from_array(shape.detector, &excluded, &bytes).unwrap(),
        DetectorMask::from_array(shape.detector, &excluded, &vec![0; pixels]).unwrap(),
    ];
    let scan = shape.scan;
    let selections = [
        ScanSelection::whole(scan),
        ScanSelection::rectangle(scan, scan.rows() / 2..scan.rows(), 0..scan.cols().div_ceil(2)).unwrap(),
        ScanSelection::circle(scan, [scan.rows() as f64 / 2.0, scan.cols() as f64 / 2.0], 4.0).unwrap(),
        ScanSelection::from_array(scan, &{
            let mut some: Vec<u8> =
                (0..scan.positions()).map(|_| random.next().is_multiple_of(5).into()).collect();
            some[0] = 1;
            some
        })
        .unwrap(),
    ];
    let cols = shape.detector.cols();
    let images: Vec<Sums> = masks
        .iter()
        .map(|mask| {
            let member = |row: usize, col: usize| mask.members()[row * cols + col];
            reference::virtual_image(shape, &frames, &excluded, &member).unwrap()
        })
        .collect();
    let pattern = reference::pattern_sum(shape, &frames, &excluded).unwrap();
    let moments = reference::moments(shape, &frames, &excluded).unwrap();
    for kernel in Kernel::available().into_iter().map(Some).chain([None]) {
        let resident = made(kernel);
        assert_eq!(resident.sample_type(), source.acquisition().sample);
        for (mask, expected) in masks.iter().zip(&images) {
            assert_eq!(&resident.virtual_image(mask, &task).unwrap().values, expected, "{kernel:?}");
        }
        assert_eq!(resident.pattern_sum(&task).unwrap(), pattern, "{kernel:?}");
        assert_eq!(resident.moments(&task).unwrap(), moments, "{kernel:?}");
        for selection in &selections {
            let chosen = |row: usize, col: usize| selection.contains(row, col);
            let expected = reference::selection_sum(shape, &frames, &excluded, &chosen).unwrap();
            assert_eq!(resident.selection_sum(selection, &task).unwrap(), expected, "{kernel:?}");
        }
    }
    let resident = made(None);
    resident.check_against(source.as_ref(), &task).unwrap();
    let mut all = Samples::zeroed(resident.sample_type(), source.frames().len());
    resident.raw_positions(0, all.as_mut(), &task).unwrap();
    assert_eq!(bits(&all), bits(source.frames()));
    let last = scan.positions() - 1;
    for position in [0, scan.positions() / 2, last] {
        let (row, col) = (position / scan.cols(), position % scan.cols());
        assert_eq!(
            bits(&resident.raw_frame(row, col).unwrap()),
            bits(&(reference::dense(source.frames().as_ref(), shape))(position))
        );
        let expected = reference::working_frame(&frames, &excluded, position);
        assert_eq!(bits(&resident.working_frame(row, col).unwrap()), bits(&expected));
    }
    let list = [(scan.rows() - 1, scan.cols() - 1), (0, 0), (scan.rows() / 2, 0), (0, 0)];
    let some = resident.frames(&list, Values::Working, &task).unwrap();
    for (slot, (row, col)) in list.into_iter().enumerate() {
        let expected = reference::working_frame(&frames, &excluded, row * scan.cols() + col);
        assert_eq!(bits(&some)[slot * 4 * pixels..][..4 * pixels], bits(&expected));
    }
}

#[test]
fn residents_follow_the_rule_over_all_shapes_and_samples() {
    let shapes = [
        ((1, 1), (1, 1)),
        ((1, 2), (3, 1)),
        ((3, 5), (1, 7)),
        ((16, 32), (5, 3)),
        ((27, 19), (6, 7)),
        ((30, 35), (3, 5)),
    ];
    for (round, (scan, detector)) in shapes.into_iter().enumerate() {
        let (positions, pixels) = (scan.0 * scan.1, detector.0 * detector.1);
        for kind in KINDS {
            let frames = Samples::F32(samples(kind, positions * pixels, round as u64 * 9 + 1));
            let source = || MemorySource::new(scan, detector, frames.clone());
            check(source(), None);
            check(source(), Some(background(pixels, 3)));
            if pixels > 12 {
                check(source().excluding(&[0, 5, 11]), Some(background(pixels, 4)));
            }
        }
    }
}

#[test]
fn random_small_acquisitions_follow_the_rule() {
    let mut random = Random(77);
    for _ in 0..60 {
        let mut up_to = |n: u64| 1 + (random.next() % n) as usize;
        let (scan, detector) = ((up_to(9), up_to(9)), (up_to(6), up_to(6)));
        let (positions, pixels) = (scan.0 * scan.1, detector.0 * detector.1);
        let kind = KINDS[up_to(4) - 1];
        let frames = Samples::F32(samples(kind, positions * pixels, random.next()));
        let dark = random.next().is_multiple_of(2).then(|| background(pixels, random.next()));
        check(MemorySource::new(scan, detector, frames), dark);
    }
}

#[test]
fn threads_change_no_bit() {
    let (scan, detector) = ((40, 45), (9, 11));
    for kind in KINDS {
        let frames = Samples::F32(samples(kind, 40 * 45 * 99, 5));
        let source: Arc<dyn FrameSource> =
            Arc::new(MemorySource::new(scan, detector, frames).excluding(&[40]));
        let answers: Vec<_> = [1, 2, 3, 8]
            .into_iter()
            .map(|n| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
                pool.install(|| {
                    assert_eq!(threads(), n);
                    let resident = Resident::from_source(&source, &Task::new()).unwrap();
                    let mask = DetectorMask::all(resident.shape().detector, resident.exclusions()).unwrap();
                    let task = Task::new();
                    (
                        resident.virtual_image(&mask, &task).unwrap(),
                        resident.pattern_sum(&task).unwrap(),
                        resident.moments(&task).unwrap(),
                        resident.report().resident_bytes,
                    )
                })
            })
            .collect();
        assert!(answers.windows(2).all(|w| w[0] == w[1]), "{kind:?}");
    }
}

#[test]
fn a_dark_frame_is_taken_once() {
    let frames = Samples::F32(samples(Kind::Noisy, 6 * 90 * 35, 8));
    let source: Arc<dyn FrameSource> = Arc::new(MemorySource::new((6, 90), (5, 7), frames.clone()));
    let dark = background(35, 2);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("with-dark.qem");
    let options = QemOptions { background: Some(dark.clone()), ..QemOptions::default() };
    write(source.as_ref(), &path, &options, &Task::new()).unwrap();
    let file = Arc::new(QemFile::open(&path).unwrap());
    let task = Task::new();
    let from_file: Arc<dyn FrameSource> = file.clone();
    let saved = Resident::from_source(&from_file, &task).unwrap();
    let given = Resident::from_source_less(&source, dark.clone(), &task).unwrap();
    // What the file's products are made of, dark taken already, and no dark beside it.
    let less = Resident::from_source(&file.clone().product_source().unwrap(), &task).unwrap();
    let plain = Resident::from_source(&source, &task).unwrap();
    let by_frames = FrameSourceProducts::new(file.product_source().unwrap()).unwrap();
    let mask = DetectorMask::disk(plain.shape().detector, plain.exclusions(), 2.0, 3.0, 2.1).unwrap();
    let image = |products: &dyn Products| products.virtual_image(&mask, &task).unwrap();
    for resident in [&saved, &given, &less] {
        assert_eq!(image(resident), image(&by_frames));
        assert_eq!(resident.pattern_sum(&task).unwrap(), by_frames.pattern_sum(&task).unwrap());
        assert_eq!(
            bits(&resident.working_frame(3, 50).unwrap()),
            bits(&by_frames.working_frame(3, 50).unwrap())
        );
    }
    assert_ne!(image(&plain), image(&by_frames));
    for resident in [&saved, &given] {
        assert_eq!(bits(&resident.raw_frame(3, 50).unwrap()), bits(&plain.raw_frame(3, 50).unwrap()));
        assert_eq!(resident.report().background, Some(dark.identity));
        resident.check_against(source.as_ref(), &task).unwrap();
    }
    assert_eq!(plain.report().background, None);
    let twice = Resident::from_source_less(&from_file, dark.clone(), &task).unwrap_err();
    assert_eq!(twice.code(), "dark_twice");
    let short = Background { values: vec![0.0; 34], ..dark.clone() };
    assert_eq!(Resident::from_source_less(&source, short, &task).unwrap_err().code(), "not_representable");
    let counts: Arc<dyn FrameSource> =
        Arc::new(MemorySource::new((6, 90), (5, 7), Samples::U16(vec![1; 6 * 90 * 35])));
    assert_eq!(Resident::from_source_less(&counts, dark, &task).unwrap_err().code(), "not_representable");
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_read() {
    let source = Arc::new(MemorySource::new((40, 50), (6, 5), Samples::F32(vec![0.5; 2000 * 30])));
    let shared: Arc<dyn FrameSource> = source.clone();
    let window = 512 * 30 * 4;
    let error =
        Resident::from_source(&shared, &Task::new().with_memory_budget(2 * window)).map(drop).unwrap_err();
    assert_eq!(error.code(), "resident_over_budget");
    assert!(error.to_string().contains("after 0 of 2000 scan positions"), "{error}");
    assert_eq!(source.read.load(Ordering::Relaxed), 0);
    // Constant pixels take little: the same budget, and a bit more, does.
    let task = Task::new().with_memory_budget(4 * window + 30 * 16 * 8);
    let resident = Resident::from_source(&shared, &task).unwrap();
    assert!(resident.report().resident_bytes < window / 10);
    // What grows beyond the budget on the way is given up there.
    let noisy: Arc<dyn FrameSource> =
        Arc::new(MemorySource::new((40, 50), (6, 5), Samples::F32(samples(Kind::Wild, 2000 * 30, 1))));
    let error = Resident::from_source(&noisy, &task).map(drop).unwrap_err();
    assert_eq!(error.code(), "resident_over_budget");
    assert!(!error.to_string().contains("after 0 of"), "{error}");
}

#[test]
fn a_source_that_fails_changes_or_is_cancelled_becomes_nothing() {
    let source = || MemorySource::new((40, 50), (6, 5), Samples::F32(vec![0.5; 2000 * 30]));
    let mut damaged = source();
    damaged.fail_at = Some(1200);
    let changing = source();
    changing.changed.store(true, Ordering::Relaxed);
    for (source, message) in [(damaged, "injected fault"), (changing, "injected change")] {
        let source: Arc<dyn FrameSource> = Arc::new(source);
        let error = Resident::from_source(&source, &Task::new()).map(drop).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    let source = Arc::new(source());
    let shared: Arc<dyn FrameSource> = source.clone();
    let error = Resident::from_source(&shared, &crate::residency::cancelled_after(1)).map(drop).unwrap_err();
    assert_eq!(error.code(), "cancelled");
    assert!(source.read.load(Ordering::Relaxed) <= 1024);
}

#[test]
fn a_difference_of_bits_is_found_and_named() {
    let mut data = samples(Kind::Special, 600 * 30, 3);
    (data[30 * 571 + 8], data[30 * 571 + 9]) = (0.0, f32::NAN);
    let source = |data: &[f32]| MemorySource::new((20, 30), (6, 5), Samples::F32(data.to_vec()));
    let shared: Arc<dyn FrameSource> = Arc::new(source(&data));
    let resident = Resident::from_source(&shared, &Task::new()).unwrap();
    resident.check_against(&source(&data), &Task::new()).unwrap();
    for (pixel, other) in [(8, -0.0), (9, f32::from_bits(f32::NAN.to_bits() + 1))] {
        let mut data = data.clone();
        data[30 * 571 + pixel] = other;
        // Little memory, so that it is compared in pieces.
        let task = Task::new().with_memory_budget(30 * 8 * 7);
        let error = resident.check_against(&source(&data), &task).unwrap_err();
        assert_eq!(error.code(), "resident_not_equal");
        assert!(error.to_string().contains(&format!("pixel {pixel} of scan position 571")), "{error}");
    }
    let counts = MemorySource::new((20, 30), (6, 5), Samples::U16(vec![0; 600 * 30]));
    assert_eq!(resident.check_against(&counts, &Task::new()).unwrap_err().code(), "resident_not_equal");
}

#[test]
fn frames_that_do_not_exist_are_refused_and_capabilities_are_told() {
    let source: Arc<dyn FrameSource> =
        Arc::new(MemorySource::new((8, 64), (6, 7), Samples::F32(samples(Kind::Counts, 512 * 42, 1))));
    let resident = Resident::from_source(&source, &Task::new()).unwrap();
    assert!(resident.raw_frame(8, 0).is_err() && resident.working_frame(0, 64).is_err());
    let mut narrow = Samples::zeroed(stempack_model::SampleType::U16, 42);
    assert_eq!(resident.raw_positions(0, narrow.as_mut(), &Task::new()).unwrap_err().code(), "buffer_shape");
    let mut frames = Samples::zeroed(stempack_model::SampleType::F32, 84);
    assert_eq!(
        resident.raw_positions(511, frames.as_mut(), &Task::new()).unwrap_err().code(),
        "outside_scan"
    );
    let other = DetectorMask::all(stempack_model::DetectorShape::new(7, 6).unwrap(), resident.exclusions());
    assert_eq!(resident.virtual_image(&other.unwrap(), &Task::new()).unwrap_err().code(), "mask_shape");
    let report = resident.report();
    assert_eq!((report.layout, report.logical_bytes), ("float-lanes", 512 * 42 * 4));
    // Counts below 4096 take 12 of 32 bits, and their heads 16 bytes for each pixel.
    assert!(report.resident_bytes < 512 * 42 * 12 / 8 + 42 * 24, "{}", report.resident_bytes);
    let numerics: Vec<_> = report.capabilities.iter().map(|c| (c.product, c.numerics)).collect();
    assert!(numerics.contains(&("diffraction-pattern", "exact-float32-bits")));
    assert!(numerics.contains(&("center-of-mass", "float32-compensated")));
    resident.arrange(&Task::new()).unwrap();
}
