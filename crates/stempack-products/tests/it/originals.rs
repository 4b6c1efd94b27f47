//! Streamed products against the scalar references, at every sample type, odd shape and tight budget.

use crate::excluding;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use stempack_model::{DetectorShape, Progress, SampleType, Samples, ScanShape, Shape4, Task};
use stempack_products::{
    DetectorMask, FrameSourceProducts, Products, ScanRegion, ScanSelection, Sums, Total, Values, reference,
    stream_region,
};
use stempack_testkit::MemorySource;

#[derive(Debug, Clone)]
struct Case {
    scan: (usize, usize),
    detector: (usize, usize),
    excluded: Vec<u32>,
    mask: Vec<u8>,
    frames: Samples,
    frames_in_budget: u64,
}

/// Samples of a type from random bits: small, extreme, and for floats special and any.
fn samples(sample: SampleType, bits: &[(u8, u64)]) -> Samples {
    macro_rules! integers {
        ($name:ident, $t:ty) => {
            Samples::$name(
                bits.iter()
                    .map(|&(kind, b)| match kind {
                        0..=4 => (b % 5) as $t,
                        5 => <$t>::MAX,
                        6 => <$t>::MIN,
                        _ => b as $t,
                    })
                    .collect(),
            )
        };
    }
    macro_rules! floats {
        ($name:ident, $t:ty, $any:expr) => {
            Samples::$name(
                bits.iter()
                    .map(|&(kind, b)| match kind {
                        0..=4 => (b % 1000) as $t * 0.1 - 20.0,
                        5 => [-0.0, <$t>::MIN_POSITIVE / 8.0, 3e30, -3e30][b as usize % 4],
                        6 => [<$t>::NAN, <$t>::INFINITY, <$t>::NEG_INFINITY, <$t>::MAX, 1.0]
                            [(b % 100).min(4) as usize],
                        _ => Some($any(b)).filter(|v: &$t| v.is_finite()).unwrap_or_default(),
                    })
                    .collect(),
            )
        };
    }
    match sample {
        SampleType::U8 => integers!(U8, u8),
        SampleType::U16 => integers!(U16, u16),
        SampleType::U32 => integers!(U32, u32),
        // Sums of eight bits less fit, whatever the case; the others test what does not.
        SampleType::U64 if bits[0].1.is_multiple_of(2) => {
            Samples::U64(bits.iter().map(|&(k, b)| if k < 5 { b % 5 } else { b >> 16 }).collect())
        }
        SampleType::I64 if bits[0].1.is_multiple_of(2) => Samples::I64(
            bits.iter().map(|&(k, b)| if k < 5 { b as i64 % 5 } else { b as i64 >> 16 }).collect(),
        ),
        SampleType::U64 => integers!(U64, u64),
        SampleType::I8 => integers!(I8, i8),
        SampleType::I16 => integers!(I16, i16),
        SampleType::I32 => integers!(I32, i32),
        SampleType::I64 => integers!(I64, i64),
        SampleType::F32 => floats!(F32, f32, |b| f32::from_bits(b as u32)),
        SampleType::F64 => floats!(F64, f64, f64::from_bits),
    }
}

fn case() -> impl Strategy<Value = Case> {
    let sample = proptest::sample::select(SampleType::ALL);
    (1usize..6, 1usize..7, 1usize..9, 1usize..9, sample, 0u64..9).prop_flat_map(
        |(rows, cols, h, w, sample, frames_in_budget)| {
            let (pixels, n) = (h * w, rows * cols);
            (
                proptest::collection::btree_set(0..pixels as u32, 0..3.min(pixels + 1)),
                proptest::collection::vec(0u8..2, pixels),
                proptest::collection::vec((0u8..9, any::<u64>()), pixels * n),
            )
                .prop_map(move |(excluded, mask, bits)| Case {
                    scan: (rows, cols),
                    detector: (h, w),
                    excluded: excluded.into_iter().collect(),
                    mask,
                    frames: samples(sample, &bits),
                    frames_in_budget,
                })
        },
    )
}

impl Case {
    fn open(&self) -> (Arc<MemorySource>, FrameSourceProducts) {
        let source = MemorySource::new(self.scan, self.detector, self.frames.clone());
        let source = Arc::new(source.excluding(&self.excluded));
        (source.clone(), FrameSourceProducts::new(source).unwrap())
    }
    fn shape(&self) -> Shape4 {
        Shape4 {
            scan: ScanShape::new(self.scan.0 as u64, self.scan.1 as u64).unwrap(),
            detector: DetectorShape::new(self.detector.0 as u64, self.detector.1 as u64).unwrap(),
        }
    }
    /// A budget of so many frames beyond the two windows every product needs, and its results.
    fn task(&self) -> Task {
        let shape = self.shape();
        let frame = (shape.detector.pixels() * self.frames.sample_type().bytes()) as u64;
        let results = (24 * shape.scan.positions() + 40 * shape.detector.pixels()) as u64;
        Task::new().with_memory_budget(results + (2 + 4 * self.frames_in_budget) * frame)
    }
}

/// The bits of samples: a NaN equals itself.
fn bits(samples: &Samples) -> Vec<u8> {
    samples.as_ref().little_endian().into_owned()
}

/// What a product says: its answer, or that a sum does not fit.
fn answer<T>(result: stempack_model::Result<T>) -> Option<T> {
    result.map_err(|e| assert_eq!(e.code(), "sum_overflow")).ok()
}

/// Sums as 64 bits wide.
fn widened(sums: &Sums) -> Sums {
    sums.to_u64().map_or_else(|| sums.clone(), Sums::U64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]
    #[test]
    fn products_equal_their_references(case in case()) {
        let (_, products) = case.open();
        let (shape, task, excluded) = (case.shape(), case.task(), excluding(&case.excluded));
        let frames = reference::dense(case.frames.as_ref(), shape);

        let mask = DetectorMask::from_array(shape.detector, &excluded, &case.mask).unwrap();
        let image = answer(products.virtual_image(&mask, &task));
        let member = |r: usize, c: usize| case.mask[r * shape.detector.cols() + c] == 1;
        let want = reference::virtual_image(shape, &frames, &excluded, &member);
        prop_assert_eq!(image.as_ref().map(|i| widened(&i.values)), want);
        if let Some(image) = image {
            let largest = case.frames.sample_type().max_unsigned();
            let narrow = largest.is_some_and(|l| mask.count() as u128 * u128::from(l) <= 0xFFFF_FFFF);
            prop_assert_eq!(matches!(image.values, Sums::U32(_)), narrow);
        }
        prop_assert_eq!(answer(products.pattern_sum(&task)), reference::pattern_sum(shape, &frames, &excluded));
        prop_assert_eq!(answer(products.moments(&task)), reference::moments(shape, &frames, &excluded));

        for position in 0..shape.scan.positions() {
            let (row, col) = (position / shape.scan.cols(), position % shape.scan.cols());
            prop_assert_eq!(bits(&products.raw_frame(row, col).unwrap()), bits(&frames(position)));
            let working = products.working_frame(row, col).unwrap();
            prop_assert_eq!(working.sample_type(), case.frames.sample_type());
            prop_assert_eq!(bits(&working), bits(&reference::working_frame(&frames, &excluded, position)));
        }
    }

    #[test]
    fn chosen_frames_are_summed_and_gathered_as_the_reference_does(case in case(), scan_mask in 0u64..1 << 30, list in proptest::collection::vec((0usize..5, 0usize..6), 1..9)) {
        let (source, products) = case.open();
        let (shape, excluded) = (case.shape(), excluding(&case.excluded));
        let frames = reference::dense(case.frames.as_ref(), shape);
        let bytes: Vec<u8> = (0..shape.scan.positions()).map(|p| (scan_mask >> p & 1) as u8).collect();
        let selection = ScanSelection::from_array(shape.scan, &bytes);
        prop_assert_eq!(selection.as_ref().err().map(|e| e.code()), bytes.iter().all(|&b| b == 0).then_some("region_empty"));
        if let Ok(selection) = selection {
            let chosen = |r: usize, c: usize| bytes[r * shape.scan.cols() + c] == 1;
            let want = reference::selection_sum(shape, &frames, &excluded, &chosen);
            prop_assert_eq!(answer(products.selection_sum(&selection, &case.task())), want);
            prop_assert!(source.largest.load(Ordering::Relaxed) <= case.task().memory_budget() / 2);
        }
        let whole = ScanSelection::whole(shape.scan);
        let of_all = answer(products.selection_sum(&whole, &case.task()));
        prop_assert_eq!(of_all, answer(products.pattern_sum(&case.task())));

        let list: Vec<_> = list.iter().map(|&(r, c)| (r % shape.scan.rows(), c % shape.scan.cols())).collect();
        for values in [Values::Raw, Values::Working] {
            let got = products.frames(&list, values, &Task::new()).unwrap();
            let mut want = Vec::new();
            for &(row, col) in &list {
                let position = row * shape.scan.cols() + col;
                want.extend(bits(&match values {
                    Values::Raw => frames(position),
                    Values::Working => reference::working_frame(&frames, &excluded, position),
                }));
            }
            prop_assert_eq!(bits(&got), want);
        }
    }

    #[test]
    fn regions_stream_their_own_positions_in_order(case in case(), cut in (0usize..6, 1usize..6, 0usize..7, 1usize..7)) {
        let (source, products) = case.open();
        let (scan, excluded) = (case.shape().scan, excluding(&case.excluded));
        let rows = cut.0.min(scan.rows() - 1)..(cut.0 + cut.1).min(scan.rows()).max(cut.0.min(scan.rows() - 1) + 1);
        let cols = cut.2.min(scan.cols() - 1)..(cut.2 + cut.3).min(scan.cols()).max(cut.2.min(scan.cols() - 1) + 1);
        let region = ScanRegion::new(scan, rows.clone(), cols.clone()).unwrap();
        let frames = reference::dense(case.frames.as_ref(), case.shape());
        let frame_bytes = case.shape().detector.pixels() * case.frames.sample_type().bytes();
        for values in [Values::Raw, Values::Working] {
            let mut want = Vec::new();
            for row in rows.clone() {
                for col in cols.clone() {
                    let position = row * scan.cols() + col;
                    want.extend(bits(&match values {
                        Values::Raw => frames(position),
                        Values::Working => reference::working_frame(&frames, &excluded, position),
                    }));
                }
            }
            let (mut got, mut announced) = (Vec::<u8>::new(), Vec::new());
            stream_region(&products, &region, values, &case.task(), |passed, samples| {
                announced.push(passed as usize * frame_bytes == got.len());
                got.extend(samples.little_endian().iter());
                Ok(())
            }).unwrap();
            prop_assert_eq!(&got, &want);
            prop_assert!(announced.iter().all(|&a| a));
        }
        prop_assert!(source.largest.load(Ordering::Relaxed) <= case.task().memory_budget() / 2);
    }
}

fn small() -> MemorySource {
    let values = (0..4 * 5 * 6 * 7).map(|i| i % 251).collect();
    MemorySource::new((4, 5), (6, 7), Samples::U16(values)).excluding(&[3])
}

fn products_of(source: MemorySource) -> FrameSourceProducts {
    FrameSourceProducts::new(Arc::new(source)).unwrap()
}

/// The bound is selected × 65,535: 65,537 pixels are the most that fit 32 bits.
#[test]
fn the_image_widens_when_the_bound_does() {
    for (pixels, narrow) in [(65_537usize, true), (65_538, false)] {
        let products =
            products_of(MemorySource::new((1, 2), (1, pixels), Samples::U16(vec![65_535; 2 * pixels])));
        let all = DetectorMask::all(products.shape().detector, &excluding(&[])).unwrap();
        let image = products.virtual_image(&all, &Task::new()).unwrap();
        assert_eq!(matches!(image.values, Sums::U32(_)), narrow);
        assert_eq!(image.values.to_u64().unwrap(), [pixels as u64 * 65_535; 2]);
    }
}

/// 64-bit samples are refused only where a sum that is asked for does not fit, and the refusal names the place.
#[test]
fn a_sum_is_refused_only_when_it_does_not_fit() {
    let values = vec![1, 2, u64::MAX, 0, u64::MAX, 1, u64::MAX - 1, 0];
    let source = || MemorySource::new((1, 2), (2, 2), Samples::U64(values.clone()));
    let (products, task) = (products_of(source()), Task::new());
    let detector = products.shape().detector;
    let image = |pixels: &[u8], products: &FrameSourceProducts| {
        let mask = DetectorMask::from_array(detector, products.exclusions(), pixels).unwrap();
        products.virtual_image(&mask, &task)
    };
    assert_eq!(image(&[0, 0, 1, 1], &products).unwrap().values, Sums::U64(vec![u64::MAX, u64::MAX - 1]));
    assert_eq!(image(&[0, 0, 1, 1], &products).unwrap().sum(), Total::Integer(2 * i128::from(u64::MAX) - 1));
    let error = image(&[0, 1, 1, 0], &products).unwrap_err();
    assert_eq!(error.code(), "sum_overflow");
    assert!(error.message().contains("(0, 0)"), "{error}");
    assert!(products.pattern_sum(&task).unwrap_err().message().contains("pixel (0, 0)"));
    // What is excluded cannot overflow.
    let masked = products_of(source().excluding(&[0, 2]));
    assert_eq!(masked.pattern_sum(&task).unwrap().sums, Sums::U64(vec![0, 3, 0, 0]));
    assert_eq!(masked.moments(&task).unwrap().col, Sums::U64(vec![2, 1]));
    let signed = products_of(MemorySource::new((1, 1), (1, 3), Samples::I64(vec![i64::MIN, -1, i64::MAX])));
    let all = DetectorMask::all(signed.shape().detector, signed.exclusions()).unwrap();
    assert_eq!(signed.virtual_image(&all, &task).unwrap().values, Sums::I64(vec![-2]));
    assert_eq!(signed.moments(&task).unwrap_err().code(), "sum_overflow");
}

/// A mask made with another exclusion list cannot let this acquisition's excluded pixels in.
#[test]
fn excluded_pixels_stay_out_whatever_the_mask() {
    let products = products_of(small());
    let shape = products.shape().detector;
    let careless = DetectorMask::all(shape, &excluding(&[])).unwrap();
    let proper = DetectorMask::all(shape, products.exclusions()).unwrap();
    let sum = |m: &DetectorMask| products.virtual_image(m, &Task::new()).unwrap().sum();
    assert_eq!(sum(&careless), sum(&proper));
    let other = DetectorMask::all(DetectorShape::new(7, 6).unwrap(), &excluding(&[])).unwrap();
    assert_eq!(products.virtual_image(&other, &Task::new()).unwrap_err().code(), "mask_shape");
}

#[test]
fn what_cannot_be_answered_is_refused() {
    let code = |m: MemorySource| FrameSourceProducts::new(Arc::new(m)).err().map(|e| e.code());
    assert_eq!(code(small().describe(|a| a.scan = None)), Some("missing_scan_shape"));
    assert_eq!(code(small().describe(|a| a.frame_count = 19)), Some("scan_frame_mismatch"));
    assert_eq!(code(small().describe(|a| a.excluded.pixels = vec![42])), Some("mask_geometry"));

    let products = products_of(small());
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
    let frames = |list: &[(usize, usize)], task: &Task| {
        products.frames(list, Values::Raw, task).err().map(|e| e.code())
    };
    assert_eq!(frames(&[(0, 0), (3, 4)], &task), None);
    assert_eq!(frames(&[(0, 0), (4, 0)], &task), Some("out_of_range"));
    assert_eq!(frames(&[(0, 5)], &task), Some("out_of_range"));
    assert_eq!(frames(&[], &task), Some("region_empty"));
    assert_eq!(frames(&[(0, 0)], &task.quiet().with_memory_budget(84)), None);
    assert_eq!(frames(&[(0, 0), (0, 1)], &task.quiet().with_memory_budget(84)), Some("over_budget"));
    let here = ScanSelection::whole(products.shape().scan);
    assert_eq!(products.selection_sum(&here, &poor).unwrap_err().code(), "over_budget");
    let elsewhere = ScanSelection::whole(ScanShape::new(5, 4).unwrap());
    assert_eq!(products.selection_sum(&elsewhere, &task).unwrap_err().code(), "region_outside");
    assert_eq!(products.pattern_sum(&poor).unwrap_err().code(), "over_budget");
    let cancelled = Task::new().with_cancel(Arc::new(AtomicBool::new(true)));
    assert_eq!(products.moments(&cancelled).unwrap_err().code(), "cancelled");
}

#[test]
fn damage_and_change_are_no_results() {
    let mut damaged = small();
    damaged.fail_at = Some(13);
    let products = products_of(damaged);
    assert!(products.pattern_sum(&Task::new()).is_err());
    assert!(products.raw_frame(2, 3).is_err());
    assert!(products.raw_frame(2, 2).is_ok());
    // Only what is chosen is read.
    let scan = products.shape().scan;
    let above = ScanSelection::rectangle(scan, 0..2, 0..5).unwrap();
    assert!(products.selection_sum(&above, &Task::new()).is_ok());
    let with_damage = ScanSelection::rectangle(scan, 2..3, 3..4).unwrap();
    assert!(products.selection_sum(&with_damage, &Task::new()).is_err());

    let changing = Arc::new(small());
    let products = FrameSourceProducts::new(changing.clone()).unwrap();
    assert!(products.pattern_sum(&Task::new()).is_ok());
    changing.changed.store(true, Ordering::Relaxed);
    assert!(products.pattern_sum(&Task::new()).is_err());
    assert!(products.working_frame(0, 0).is_err());
    assert!(products.selection_sum(&above, &Task::new()).is_err());
    assert!(products.frames(&[(0, 0)], Values::Working, &Task::new()).is_err());
    let whole = ScanRegion::whole(scan);
    assert!(stream_region(&products, &whole, Values::Raw, &Task::new(), |_, _| Ok(())).is_err());
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
    let products = products_of(small());
    let task = Task::new().with_progress(counter.clone()).with_memory_budget(24 * 20 + 16 * 42 + 4 * 84);
    products.moments(&task).unwrap();
    let read = |a: &AtomicUsize| a.load(Ordering::Relaxed);
    assert_eq!((read(&counter.begun), read(&counter.finished)), (1, 1));
    assert_eq!((read(&counter.total), read(&counter.done)), (4 * 5 * 6 * 7 * 2, 4 * 5 * 6 * 7 * 2));
}
