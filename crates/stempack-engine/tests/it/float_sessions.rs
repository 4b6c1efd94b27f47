//! Sessions over floats: every image of a long drag is the one that summing anew gives, bit for bit, and lies where plain
//! arithmetic in double precision puts it.

use crate::floats::{KINDS, Kind, Random, samples};
use std::sync::Arc;
use stempack_containers::Digest;
use stempack_containers::qem::Background;
use stempack_engine::{DetectorSession, Resident, Series};
use stempack_model::{FrameSource, Samples, Task};
use stempack_products::{DetectorMask, Products, Sums};
use stempack_testkit::MemorySource;

const SCAN: (usize, usize) = (25, 41);
const DETECTOR: (usize, usize) = (9, 11);
const PIXELS: usize = 99;
const POSITIONS: usize = 25 * 41;

fn resident_of(frames: &[f32], dark: Option<&[f32]>) -> Arc<Resident> {
    let source: Arc<dyn FrameSource> =
        Arc::new(MemorySource::new(SCAN, DETECTOR, Samples::F32(frames.to_vec())).excluding(&[3, 50]));
    let task = Task::new();
    Arc::new(match dark {
        Some(values) => {
            let background = Background { identity: Digest([1; 32]), values: values.to_vec() };
            Resident::from_source_less(&source, background, &task).unwrap()
        }
        None => Resident::from_source(&source, &task).unwrap(),
    })
}

fn floats(sums: &Sums) -> Vec<f64> {
    sums.to_f64()
}

#[test]
fn long_drags_equal_summing_anew() {
    for kind in KINDS {
        for dark in [None, Some(samples(Kind::Noisy, PIXELS, 40))] {
            let frames = samples(kind, POSITIONS * PIXELS, 12);
            let resident = resident_of(&frames, dark.as_deref());
            let mut session = DetectorSession::new(resident.clone());
            let mut modes = std::collections::BTreeSet::new();
            let mut random = Random(7);
            assert_eq!(session.sums(), None);
            for step in 0..300 {
                let mut pick = |n: u64| (random.next() % n) as f64;
                let (row, col, radius) = (pick(9), pick(11), pick(80) / 6.0);
                let detector = resident.shape().detector;
                let mask = DetectorMask::disk(detector, resident.exclusions(), row, col, radius).unwrap();
                if step == 100 {
                    session.prepare_total(&Task::new()).unwrap();
                }
                let report = session.update(&mask, step % 37 == 36, &Task::new()).unwrap();
                assert_eq!(report.generation, step + 1);
                modes.insert(report.mode.as_str());
                let image = session.image();
                assert_eq!(
                    image,
                    resident.virtual_image(&mask, &Task::new()).unwrap(),
                    "{kind:?} step {step}"
                );
                if kind == Kind::Special || kind == Kind::Wild || step % 10 != 0 {
                    continue;
                }
                for (position, found) in floats(&image.values).into_iter().enumerate() {
                    let (mut plain, mut magnitude) = (0f64, 0f64);
                    for &pixel in mask.selected() {
                        let sample = frames[position * PIXELS + pixel as usize];
                        let term = f64::from(dark.as_ref().map_or(sample, |d| sample - d[pixel as usize]));
                        plain += term;
                        magnitude += term.abs();
                    }
                    assert!((found - plain).abs() <= 1e-6 * magnitude, "{found} {plain}");
                }
            }
            assert!(modes.is_superset(&["complement", "delta", "rebase"].into()), "{kind:?} {modes:?}");
        }
    }
}

#[test]
fn single_pixels_that_come_and_go_leave_nothing() {
    for kind in KINDS {
        let resident = resident_of(&samples(kind, POSITIONS * PIXELS, 3), None);
        let mut session = DetectorSession::new(resident.clone());
        let mut random = Random(11);
        let mut bytes = vec![1u8; PIXELS];
        for step in 0..400 {
            // More than 64 moves of one pixel without summing anew.
            bytes[(random.next() % PIXELS as u64) as usize] ^= 1;
            let detector = resident.shape().detector;
            let mask = DetectorMask::from_array(detector, resident.exclusions(), &bytes).unwrap();
            let report = session.update(&mask, false, &Task::new()).unwrap();
            assert!(step == 0 || report.mode.as_str() != "rebase");
            assert_eq!(
                session.image(),
                resident.virtual_image(&mask, &Task::new()).unwrap(),
                "{kind:?} {step}"
            );
        }
    }
}

#[test]
fn a_pixel_that_is_no_number_shows_and_goes_without_a_trace() {
    let mut frames = samples(Kind::Noisy, POSITIONS * PIXELS, 6);
    // In the second block of scans, each at a position of its own.
    let (nan, infinite, huge) = (20, 21, 22);
    frames[700 * PIXELS + nan] = f32::NAN;
    frames[800 * PIXELS + infinite] = f32::NEG_INFINITY;
    frames[900 * PIXELS + huge] = f32::MAX;
    let clean: Vec<f32> = frames.iter().map(|&v| if v.is_finite() { v } else { 0.0 }).collect();
    let (resident, without) = (resident_of(&frames, None), resident_of(&clean, None));
    let detector = resident.shape().detector;
    let mask = |pixels: &[usize]| {
        let mut bytes = vec![0u8; PIXELS];
        pixels.iter().for_each(|&p| bytes[p] = 1);
        DetectorMask::from_array(detector, resident.exclusions(), &bytes).unwrap()
    };
    let base: Vec<usize> = (30..70).collect();
    let with = |more: &[usize]| mask(&[&base[..], more].concat());
    let mut session = DetectorSession::new(resident.clone());
    let task = Task::new();
    session.prepare_total(&task).unwrap();
    let plain = floats(&without.virtual_image(&with(&[]), &task).unwrap().values);
    for more in [&[nan][..], &[], &[infinite], &[nan, infinite], &[infinite], &[huge, nan], &[huge], &[]] {
        let report = session.update(&with(more), false, &task).unwrap();
        assert_ne!(report.mode.as_str(), "complement");
        let image = floats(&session.image().values);
        assert_eq!(Sums::F64(image.clone()), resident.virtual_image(&with(more), &task).unwrap().values);
        assert_eq!(image[700].is_nan(), more.contains(&nan));
        assert_eq!(image[800] == f64::NEG_INFINITY, more.contains(&infinite));
        if more.is_empty() {
            assert_eq!(Sums::F64(image), Sums::F64(plain.clone()));
        }
    }
    // From a total that holds both.
    let all_but: Vec<usize> = (0..PIXELS).filter(|&p| p != nan && p != infinite).collect();
    let report = session.update(&mask(&all_but), false, &task).unwrap();
    assert_eq!(report.mode.as_str(), "complement");
    assert_eq!(session.image(), without.virtual_image(&mask(&all_but), &task).unwrap());
}

#[test]
fn a_series_of_floats_and_counts_updates_all_or_none() {
    let floats = resident_of(&samples(Kind::Noisy, POSITIONS * PIXELS, 1), None);
    let counts: Arc<dyn FrameSource> = Arc::new(MemorySource::new(
        (3, 4),
        DETECTOR,
        Samples::U16((0..12 * PIXELS).map(|i| (i % 251) as u16).collect()),
    ));
    let counts = Arc::new(Resident::from_source(&counts, &Task::new()).unwrap());
    let mut series = Series::new(vec![floats.clone(), counts.clone()]).unwrap();
    let detector = floats.shape().detector;
    for (row, radius) in [(4.0, 3.0), (5.0, 3.0), (5.0, 2.0)] {
        let mask = DetectorMask::disk(detector, counts.exclusions(), row, 5.0, radius).unwrap();
        series.update(&mask, false, &Task::new()).unwrap();
        for (session, resident) in series.sessions().iter().zip([&floats, &counts]) {
            assert_eq!(session.image(), resident.virtual_image(&mask, &Task::new()).unwrap());
        }
    }
    let before: Vec<_> = series.sessions().iter().map(DetectorSession::image).collect();
    let cancelled = Task::new().with_cancel(Arc::new(true.into()));
    let mask = DetectorMask::disk(detector, counts.exclusions(), 1.0, 5.0, 2.0).unwrap();
    assert_eq!(series.update(&mask, false, &cancelled).unwrap_err().code(), "cancelled");
    let after: Vec<_> = series.sessions().iter().map(DetectorSession::image).collect();
    assert_eq!(before, after);
}
