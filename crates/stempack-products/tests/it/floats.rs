//! Sums of floats: the same bits whatever the threads and windows, exact where plain addition is not, and what is not
//! finite shows where it belongs.

use std::sync::Arc;
use stempack_model::{Samples, Task};
use stempack_products::{DetectorMask, FrameSourceProducts, Moments, PatternSum, Products, SumImage, Sums};
use stempack_testkit::MemorySource;

/// Floats of all magnitudes and both signs, whose order of addition matters in plain arithmetic.
fn wild(count: usize) -> Vec<f64> {
    let mut state = 9u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    (0..count).map(|_| (next() as f64 - 1e9) * 2f64.powi((next() % 60) as i32 - 30)).collect()
}

fn everything(products: &FrameSourceProducts, task: &Task) -> (SumImage, PatternSum, Moments) {
    let all = DetectorMask::all(products.shape().detector, products.exclusions()).unwrap();
    (
        products.virtual_image(&all, task).unwrap(),
        products.pattern_sum(task).unwrap(),
        products.moments(task).unwrap(),
    )
}

#[test]
fn threads_and_windows_change_no_bit() {
    let (scan, detector) = ((7, 9), (24, 31));
    let values = wild(7 * 9 * 24 * 31);
    let narrow = values.iter().map(|&v| v as f32).collect();
    for frames in [Samples::F64(values), Samples::F32(narrow)] {
        let frame = 24 * 31 * frames.sample_type().bytes() as u64;
        let source = Arc::new(MemorySource::new(scan, detector, frames).excluding(&[0, 100, 743]));
        let products = FrameSourceProducts::new(source.clone()).unwrap();
        let mut answers = Vec::new();
        let mut largest = Vec::new();
        for threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for windows in [2, 9, 40, 10_000] {
                source.largest.store(0, std::sync::atomic::Ordering::Relaxed);
                let task = Task::new().with_memory_budget(40 * 24 * 31 + 24 * 63 + windows * frame);
                answers.push(pool.install(|| everything(&products, &task)));
                largest.push(source.largest.load(std::sync::atomic::Ordering::Relaxed));
            }
        }
        assert!(answers.windows(2).all(|w| w[0] == w[1]));
        // The windows did differ.
        assert!(largest.iter().max() > largest.iter().min());
    }
}

#[test]
fn what_is_not_finite_shows_where_it_was_and_nowhere_else() {
    let mut values = vec![1.0f32; 4 * 6];
    // Frame 0: pixel 0 is excluded and NaN. Frame 1: infinite. Frame 2: both infinities. Frame 3: cancels.
    (values[0], values[7], values[13], values[14]) =
        (f32::NAN, f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY);
    values[18..].copy_from_slice(&[1e9, 3e30, 0.25, -3e30, -0.125, -0.125]);
    let source = MemorySource::new((2, 2), (2, 3), Samples::F32(values)).excluding(&[0]);
    let products = FrameSourceProducts::new(Arc::new(source)).unwrap();
    let (image, pattern, moments) = everything(&products, &Task::new());
    assert_eq!(image.values, Sums::F64(vec![5.0, f64::INFINITY, f64::NAN, 0.0]));
    let big = f64::from(3e30f32);
    assert_eq!(
        pattern.sums,
        Sums::F64(vec![0.0, f64::INFINITY, f64::NEG_INFINITY, 3.0 - big, 3.0 - 0.125, 3.0 - 0.125])
    );
    assert_eq!(moments.defined(), [true, false, false, false]);
    let com = moments.center_of_mass();
    // Pixels (0, 1), (0, 2), (1, 0), (1, 1), (1, 2).
    assert_eq!((com.rows()[0], com.cols()[0]), (3.0 / 5.0, 6.0 / 5.0));
    assert!(com.rows()[1..].iter().chain(&com.cols()[1..]).all(|v| v.is_nan()));
}
