//! Sessions: the public corpus' steps, and long random drags against summing anew.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stempack_containers::pack::{PackFile, PackOptions, ProfileChoice, pack};
use stempack_engine::{DetectorSession, Resident, Series, UpdateMode};
use stempack_model::{Samples, Task};
use stempack_products::{Deflections, DetectorMask, DpcRounding, Products};
use stempack_testkit::{MemorySource, corpus, expectations};

fn mask_of(resident: &Resident, pixels: impl IntoIterator<Item = usize>) -> DetectorMask {
    let detector = resident.shape().detector;
    let mut bytes = vec![0; detector.pixels()];
    pixels.into_iter().for_each(|p| bytes[p] = 1);
    DetectorMask::from_array(detector, resident.exclusions(), &bytes).unwrap()
}

/// The corpus calls an unchanged mask a delta of no pixels.
fn corpus_name(mode: UpdateMode) -> &'static str {
    match mode {
        UpdateMode::Unchanged => "delta",
        other => other.as_str(),
    }
}

#[test]
fn corpus_sessions_take_the_expected_steps() {
    let Some(folder) = corpus("pack") else { return };
    let all = expectations(&folder.join("fixtures.json"));
    for (name, steps) in all["sessions"].as_object().unwrap() {
        let pack = PackFile::open(&folder.join("valid").join(format!("{name}.h5"))).unwrap();
        let resident = Arc::new(Resident::load(&pack, &Task::new()).unwrap());
        let mut session = DetectorSession::new(resident.clone());
        for step in steps.as_array().unwrap() {
            let pixels =
                step["requested_pixels"].as_array().unwrap().iter().map(|p| p.as_u64().unwrap() as usize);
            let mask = mask_of(&resident, pixels);
            let report =
                session.update(&mask, step["force_rebase"].as_bool().unwrap(), &Task::new()).unwrap();
            let place = format!("{name}, {}", step["step"]);
            assert_eq!(corpus_name(report.mode), step["mode"], "{place}");
            assert_eq!(report.processed_pixels as u64, step["changed_detector_pixels"], "{place}");
            assert_eq!(report.fft_transforms, step["fft_dispatch_count"], "{place}");
            let words: Vec<u8> =
                session.sums().unwrap().iter().flat_map(|&s| (s as u32).to_le_bytes()).collect();
            assert_eq!(sha256(&words), step["sum_u32_le_sha256"], "{place}");
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    hex::encode(Sha256::digest(bytes))
}

#[test]
fn corpus_moments_and_deflections_are_bit_exact() {
    let Some(folder) = corpus("pack") else { return };
    let all = expectations(&folder.join("fixtures.json"));
    for name in all["sessions"].as_object().unwrap().keys() {
        let pack = PackFile::open(&folder.join("valid").join(format!("{name}.h5"))).unwrap();
        let resident = Resident::load(&pack, &Task::new()).unwrap();
        let expected =
            |what: &str| std::fs::read(folder.join(format!("expected/{name}.{what}.npy"))).unwrap();
        let ends_with = |file: Vec<u8>, values: Vec<u8>, what: &str| {
            assert!(file.ends_with(&values) && file.len() - values.len() <= 256, "{name} {what}");
        };
        let moments = resident.moments(&Task::new()).unwrap();
        let words = |values: &[u64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        for (what, found) in [
            ("total_u64", &moments.total),
            ("row_moment_u64", &moments.row),
            ("column_moment_u64", &moments.col),
        ] {
            let found = found.to_u64().unwrap();
            ends_with(expected(what), words(&found), what);
        }
        let sums = resident.pattern_sum(&Task::new()).unwrap().sums.to_u64().unwrap();
        ends_with(expected("detector_sum_u64"), words(&sums), "detector_sum_u64");
        for (rounding, suffix) in [(DpcRounding::Once, "from_f64"), (DpcRounding::Prepared, "prepared")] {
            let field = Deflections::of(&moments.center_of_mass(), rounding);
            for (component, values) in [("row", &field.row), ("column", &field.col)] {
                let what = format!("dpc_{component}_f32_{suffix}");
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                ends_with(expected(&what), bytes, &what);
            }
        }
    }
}

fn packed(seed: u64, detector: (usize, usize), profile: ProfileChoice, excluded: &[u32]) -> Arc<Resident> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let frames =
        (0..8 * 12 * detector.0 * detector.1).map(|_| ((next() % 256) >> (next() % 9)) as u16).collect();
    let source = MemorySource::new((8, 12), detector, Samples::U16(frames)).excluding(excluded);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    pack(&source, &to, &PackOptions { profile, ..PackOptions::default() }, &Task::new()).unwrap_or_else(
        |e| {
            panic!("{e}");
        },
    );
    Arc::new(Resident::load(&PackFile::open(&to).unwrap(), &Task::new()).unwrap())
}

#[test]
fn long_drags_equal_summing_anew_in_every_mode() {
    for profile in [ProfileChoice::U8, ProfileChoice::U16] {
        let resident = packed(11, (9, 11), ProfileChoice::U16, &[]);
        let resident = if profile == ProfileChoice::U8 {
            packed(12, (9, 11), ProfileChoice::U16, &[3, 50])
        } else {
            resident
        };
        let mut session = DetectorSession::new(resident.clone());
        let mut modes = std::collections::BTreeSet::new();
        let mut state = 7u64;
        for step in 0..400 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let pick = |shift: u32, n: u64| ((state >> shift) % n) as f64;
            let (row, col, radius) = (pick(20, 9), pick(30, 11), pick(40, 80) / 6.0);
            let mask = DetectorMask::disk(resident.shape().detector, resident.exclusions(), row, col, radius)
                .unwrap();
            if step == 100 {
                session.prepare_total(&Task::new()).unwrap();
            }
            if step == 250 {
                resident.arrange(&Task::new()).unwrap();
            }
            let report = session.update(&mask, step % 37 == 36, &Task::new()).unwrap();
            assert_eq!(report.generation, step + 1);
            modes.insert(report.mode.as_str());
            assert_eq!(session.image(), resident.virtual_image(&mask, &Task::new()).unwrap(), "step {step}");
        }
        assert!(modes.is_superset(&["complement", "delta", "rebase"].into()), "{modes:?}");
    }
}

#[test]
fn a_cancelled_update_leaves_the_image_as_it_was() {
    let resident = packed(5, (6, 6), ProfileChoice::U16, &[]);
    let mut session = DetectorSession::new(resident.clone());
    let first = mask_of(&resident, 3..20);
    session.update(&first, false, &Task::new()).unwrap();
    let before = session.image();
    let cancelled = Task::new().with_cancel(Arc::new(AtomicBool::new(true)));
    let second = mask_of(&resident, 5..36);
    assert_eq!(session.update(&second, false, &cancelled).unwrap_err().code(), "cancelled");
    assert_eq!(session.image(), before);
    session.update(&second, false, &Task::new()).unwrap();
    assert_eq!(session.image(), resident.virtual_image(&second, &Task::new()).unwrap());
}

#[test]
fn a_series_updates_all_or_none() {
    let (one, two) =
        (packed(1, (5, 7), ProfileChoice::U16, &[]), packed(2, (5, 7), ProfileChoice::U16, &[4]));
    let other = packed(3, (7, 5), ProfileChoice::U16, &[]);
    assert_eq!(Series::new(Vec::new()).err().unwrap().code(), "series_empty");
    assert_eq!(Series::new(vec![one.clone(), one.clone()]).err().unwrap().code(), "series_twice");
    assert_eq!(Series::new(vec![one.clone(), other]).err().unwrap().code(), "series_detectors");
    let mut series = Series::new(vec![one.clone(), two.clone()]).unwrap();
    assert_eq!(series.resident_bytes(), one.report().resident_bytes + two.report().resident_bytes);
    // Made without exclusions: the second acquisition must still not count its excluded pixel.
    let mask = mask_of(&one, 0..20);
    let reports = series.update(&mask, false, &Task::new()).unwrap();
    assert_eq!(reports.len(), 2);
    for (session, resident) in series.sessions().iter().zip([&one, &two]) {
        assert_eq!(session.image(), resident.virtual_image(&mask, &Task::new()).unwrap());
    }
    let before: Vec<_> = series.sessions().iter().map(DetectorSession::image).collect();
    let wrong =
        DetectorMask::all(stempack_model::DetectorShape::new(7, 5).unwrap(), one.exclusions()).unwrap();
    assert_eq!(series.update(&wrong, false, &Task::new()).unwrap_err().code(), "mask_shape");
    let after: Vec<_> = series.sessions().iter().map(DetectorSession::image).collect();
    assert_eq!(before, after);
}
