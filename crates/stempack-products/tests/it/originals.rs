//! Streamed products against the scalar references, at every sample type, odd shape and tight budget.

use crate::memory::{Memory, excluding, shape4};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use stempack_model::{Progress, SampleType, Samples, Shape4, Task};
use stempack_products::region::SamplesRef;
use stempack_products::{
    DetectorMask, FrameSourceProducts, Products, ScanRegion, Sums, Values, reference, stream_region,
};

#[derive(Debug, Clone)]
struct Case {
    shape: Shape4,
    sample: SampleType,
    excluded: Vec<u32>,
    mask: Vec<u8>,
    values: Vec<u32>,
    frames_in_budget: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let sample = prop_oneof![Just(SampleType::U8), Just(SampleType::U16), Just(SampleType::U32)];
    (1u64..6, 1u64..7, 1u64..9, 1u64..9, sample, 0u64..9).prop_flat_map(
        |(rows, cols, h, w, sample, frames_in_budget)| {
            let (pixels, n) = ((h * w) as usize, (rows * cols) as usize);
            let max = sample.max_value() as u32;
            let value = prop_oneof![4 => 0..=3u32.min(max), 1 => 0..=max, 1 => Just(max)];
            (
                proptest::collection::btree_set(0..pixels as u32, 0..3.min(pixels + 1)),
                proptest::collection::vec(0u8..2, pixels),
                proptest::collection::vec(value, pixels * n),
            )
                .prop_map(move |(excluded, mask, values)| Case {
                    shape: shape4((rows, cols), (h, w)),
                    sample,
                    excluded: excluded.into_iter().collect(),
                    mask,
                    values,
                    frames_in_budget,
                })
        },
    )
}

impl Case {
    fn open(&self) -> (Arc<Memory>, FrameSourceProducts) {
        let source = Memory::new(self.shape, self.sample, &self.excluded, self.values.clone()).shared();
        (source.clone(), FrameSourceProducts::new(source).unwrap())
    }
    /// A budget of so many frames beyond the two windows every product needs, and its results.
    fn task(&self) -> Task {
        let frame = (self.shape.detector.pixels() * self.sample.bytes()) as u64;
        let results = (24 * self.shape.scan.positions() + 16 * self.shape.detector.pixels()) as u64;
        Task::new().with_memory_budget(results + (2 + 4 * self.frames_in_budget) * frame)
    }
}

fn widen(samples: &Samples) -> Vec<u32> {
    (0..samples.len()).map(|i| samples.get(i) as u32).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn products_equal_their_references(case in case()) {
        let (_, products) = case.open();
        let (shape, task, excluded) = (case.shape, case.task(), excluding(&case.excluded));
        let frames = reference::dense(&case.values, shape);

        let mask = DetectorMask::from_array(shape.detector, &excluded, &case.mask).unwrap();
        let image = products.virtual_image(&mask, &task).unwrap();
        let member = |r: usize, c: usize| case.mask[r * shape.detector.cols() + c] == 1;
        let want = reference::virtual_image(shape, &frames, &excluded, &member);
        prop_assert_eq!(image.values.iter().collect::<Vec<_>>(), want.clone());
        prop_assert_eq!(image.sum(), want.iter().map(|&v| u128::from(v)).sum::<u128>());
        let bound = mask.count() as u128 * u128::from(case.sample.max_value());
        prop_assert_eq!(matches!(image.values, Sums::U32(_)), bound <= 0xFFFF_FFFF);

        prop_assert_eq!(products.pattern_sum(&task).unwrap(), reference::pattern_sum(shape, &frames, &excluded));
        prop_assert_eq!(products.moments(&task).unwrap(), reference::moments(shape, &frames, &excluded));

        for position in 0..shape.scan.positions() {
            let (row, col) = (position / shape.scan.cols(), position % shape.scan.cols());
            prop_assert_eq!(widen(&products.raw_frame(row, col).unwrap()), frames(position));
            let working = products.working_frame(row, col).unwrap();
            prop_assert_eq!(working.sample_type(), case.sample);
            prop_assert_eq!(widen(&working), reference::working_frame(&frames, &excluded, position));
        }
    }

    #[test]
    fn regions_stream_their_own_positions_in_order(case in case(), cut in (0usize..6, 1usize..6, 0usize..7, 1usize..7)) {
        let (source, products) = case.open();
        let (scan, excluded) = (case.shape.scan, excluding(&case.excluded));
        let rows = cut.0.min(scan.rows() - 1)..(cut.0 + cut.1).min(scan.rows()).max(cut.0.min(scan.rows() - 1) + 1);
        let cols = cut.2.min(scan.cols() - 1)..(cut.2 + cut.3).min(scan.cols()).max(cut.2.min(scan.cols() - 1) + 1);
        let region = ScanRegion::new(scan, rows.clone(), cols.clone()).unwrap();
        let frames = reference::dense(&case.values, case.shape);
        for values in [Values::Raw, Values::Working] {
            let mut want = Vec::new();
            for row in rows.clone() {
                for col in cols.clone() {
                    let position = row * scan.cols() + col;
                    want.extend(match values {
                        Values::Raw => frames(position),
                        Values::Working => reference::working_frame(&frames, &excluded, position),
                    });
                }
            }
            let (mut got, mut announced) = (Vec::new(), Vec::new());
            stream_region(&products, &region, values, &case.task(), |passed, samples| {
                announced.push(passed as usize * case.shape.detector.pixels() == got.len());
                match samples {
                    SamplesRef::U8(v) => got.extend(v.iter().map(|&x| u32::from(x))),
                    SamplesRef::U16(v) => got.extend(v.iter().map(|&x| u32::from(x))),
                    SamplesRef::U32(v) => got.extend_from_slice(v),
                }
                Ok(())
            }).unwrap();
            prop_assert_eq!(&got, &want);
            prop_assert!(announced.iter().all(|&a| a));
        }
        prop_assert!(source.largest.load(Ordering::Relaxed) <= case.task().memory_budget() / 2);
    }
}

fn small() -> Memory {
    let shape = shape4((4, 5), (6, 7));
    let values = (0..shape.samples().unwrap() as u32).map(|i| i % 251).collect();
    Memory::new(shape, SampleType::U16, &[3], values)
}

/// The bound is selected × 65,535: 65,537 pixels are the most that fit 32 bits.
#[test]
fn the_image_widens_when_the_bound_does() {
    for (pixels, narrow) in [(65_537u64, true), (65_538, false)] {
        let shape = shape4((1, 2), (1, pixels));
        let values = vec![65_535; 2 * pixels as usize];
        let products =
            FrameSourceProducts::new(Memory::new(shape, SampleType::U16, &[], values).shared()).unwrap();
        let all = DetectorMask::all(shape.detector, &excluding(&[])).unwrap();
        let image = products.virtual_image(&all, &Task::new()).unwrap();
        assert_eq!(matches!(image.values, Sums::U32(_)), narrow);
        assert_eq!(image.values.get(1), Some(pixels * 65_535));
    }
}

/// A mask made with another exclusion list cannot let this acquisition's excluded pixels in.
#[test]
fn excluded_pixels_stay_out_whatever_the_mask() {
    let products = FrameSourceProducts::new(small().shared()).unwrap();
    let shape = products.shape().detector;
    let careless = DetectorMask::all(shape, &excluding(&[])).unwrap();
    let proper = DetectorMask::all(shape, products.exclusions()).unwrap();
    let sum = |m: &DetectorMask| products.virtual_image(m, &Task::new()).unwrap().sum();
    assert_eq!(sum(&careless), sum(&proper));
    let other = DetectorMask::all(shape4((1, 1), (7, 6)).detector, &excluding(&[])).unwrap();
    assert_eq!(products.virtual_image(&other, &Task::new()).unwrap_err().code(), "mask_shape");
}

#[test]
fn what_cannot_be_answered_is_refused() {
    let code = |m: Memory| FrameSourceProducts::new(m.shared()).err().map(|e| e.code());
    assert_eq!(code(small().edit(|a| a.scan = None)), Some("missing_scan_shape"));
    assert_eq!(code(small().edit(|a| a.frame_count = 19)), Some("scan_frame_mismatch"));
    assert_eq!(code(small().edit(|a| a.excluded.pixels = vec![42])), Some("mask_geometry"));

    let products = FrameSourceProducts::new(small().shared()).unwrap();
    assert_eq!(products.raw_frame(4, 0).unwrap_err().code(), "out_of_range");
    assert_eq!(products.working_frame(0, 5).unwrap_err().code(), "out_of_range");
    let mut buffer = Samples::zeroed(SampleType::U16, 2 * 42);
    let task = Task::new();
    assert!(products.raw_positions(18, buffer.as_mut(), &task).is_ok());
    assert_eq!(products.raw_positions(19, buffer.as_mut(), &task).unwrap_err().code(), "out_of_range");
    assert_eq!(products.raw_positions(u64::MAX, buffer.as_mut(), &task).unwrap_err().code(), "out_of_range");
    assert_eq!(products.raw_positions(0, buffer.head_mut(41), &task).unwrap_err().code(), "out_of_range");
    let mut narrow = Samples::zeroed(SampleType::U8, 42);
    assert_eq!(products.raw_positions(0, narrow.as_mut(), &task).unwrap_err().code(), "out_of_range");

    let poor = Task::new().with_memory_budget(100);
    assert_eq!(products.pattern_sum(&poor).unwrap_err().code(), "over_budget");
    let cancelled = Task::new().with_cancel(Arc::new(AtomicBool::new(true)));
    assert_eq!(products.moments(&cancelled).unwrap_err().code(), "cancelled");

    // 8192×8192 counts of 32 bits: Σ det_row is 2^38, so the moments may need 70 bits.
    let wide = small().edit(|a| {
        a.sample = SampleType::U32;
        a.detector = shape4((1, 1), (8192, 8192)).detector;
    });
    let wide = FrameSourceProducts::new(wide.shared()).unwrap();
    assert_eq!(wide.moments(&task).unwrap_err().code(), "sum_overflow");
}

#[test]
fn damage_and_change_are_no_results() {
    let mut damaged = small();
    damaged.damaged = Some(13);
    let products = FrameSourceProducts::new(damaged.shared()).unwrap();
    assert!(products.pattern_sum(&Task::new()).is_err());
    assert!(products.raw_frame(2, 3).is_err());
    assert!(products.raw_frame(2, 2).is_ok());

    let changing = small().shared();
    let products = FrameSourceProducts::new(changing.clone()).unwrap();
    assert!(products.pattern_sum(&Task::new()).is_ok());
    changing.changed.store(true, Ordering::Relaxed);
    assert!(products.pattern_sum(&Task::new()).is_err());
    assert!(products.working_frame(0, 0).is_err());
}

#[derive(Default)]
struct Counter {
    total: AtomicUsize,
    done: AtomicUsize,
    begun: AtomicUsize,
    finished: AtomicUsize,
}
impl Progress for Counter {
    fn begin(&self, _: &str, total: u64) {
        self.total.store(total as usize, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
    }
    fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes as usize, Ordering::Relaxed);
    }
    fn finish(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn progress_ends_where_it_said_it_would() {
    let counter = Arc::new(Counter::default());
    let products = FrameSourceProducts::new(small().shared()).unwrap();
    let task = Task::new().with_progress(counter.clone()).with_memory_budget(24 * 20 + 16 * 42 + 4 * 84);
    products.moments(&task).unwrap();
    let read = |a: &AtomicUsize| a.load(Ordering::Relaxed);
    assert_eq!((read(&counter.begun), read(&counter.finished)), (1, 1));
    assert_eq!((read(&counter.total), read(&counter.done)), (4 * 5 * 6 * 7 * 2, 4 * 5 * 6 * 7 * 2));
}
