//! The mean of dark frames: its values, its identity, and what is no dark of the data.

use crate::common::*;
use crate::empad::{G1, Pairs, g1};
use std::path::PathBuf;
use std::sync::Arc;
use stempack_model::{FrameSource, Kind, Samples, Task};
use stempack_sources::{MeanDark, mean_dark};

/// A dark of three frames with values that are sums of powers of two.
fn sample(frame: usize, pixel: usize) -> f32 {
    [0.5, -0.25, 2.75][frame] + (pixel % 64) as f32
}

/// Data and dark of one exposure each.
fn pair(data_ms: &str, dark_ms: &str) -> (Pairs, Arc<dyn FrameSource>, Arc<dyn FrameSource>) {
    let pairs = Pairs::new();
    let exposed = |ms: &str| format!("<exposure_time>{ms}</exposure_time>");
    pairs.zeros("data.raw", 2 * G1);
    pairs.file("data.xml", g1("data.raw", &exposed(data_ms)));
    let mut raw = Vec::new();
    for f in 0..3 {
        raw.extend((0..16_384).flat_map(|p| sample(f, p).to_le_bytes()));
        raw.extend([0x7f; 1024]);
    }
    pairs.file("dark.raw", raw);
    pairs.file("dark.xml", g1("dark.raw", &exposed(dark_ms)));
    let (data, dark) = (open(&pairs.at("data.xml")), open(&pairs.at("dark.raw")));
    (pairs, data, dark)
}

fn mean(data: &dyn FrameSource, dark: &dyn FrameSource) -> stempack_model::Result<MeanDark> {
    mean_dark(data, dark, &Task::new())
}

#[test]
fn values_and_identity() {
    let (_pairs, data, dark) = pair("1", "1.0000001");
    let found = mean(&*data, &*dark).unwrap();
    let expected: Vec<f32> = (0..16_384).map(|p| 1.0 + (p % 64) as f32).collect();
    assert_eq!((found.frames, found.exposure_compared, &found.values), (3, true, &expected));
    let mut hashed = b"empad-mean-dark/v1\0".to_vec();
    for f in 0..3 {
        hashed.extend((0..16_384).flat_map(|p| sample(f, p).to_le_bytes()));
    }
    hashed.extend(expected.iter().flat_map(|v| v.to_le_bytes()));
    assert_eq!(hex::encode(found.identity), sha256(&hashed));
    // The size of the window changes nothing; too little memory is said.
    let frame = 65_536;
    for frames in [1, 2, 3] {
        let task = Task::new().with_memory_budget(16_384 * 12 + frames * frame);
        assert_eq!(mean_dark(&*data, &*dark, &task).unwrap(), found);
    }
    let task = Task::new().with_memory_budget(16_384 * 12 + frame - 1);
    assert_eq!(mean_dark(&*data, &*dark, &task).unwrap_err().code(), "over_budget");
    // Subtracting is a step of its own: frames stay what they are.
    let Samples::F32(mut frames) = read(&*data, 0, 2).unwrap() else { panic!("not f32") };
    found.subtract(&mut frames).unwrap();
    assert!(frames.iter().enumerate().all(|(i, x)| *x == -expected[i % 16_384]));
    assert_eq!(found.subtract(&mut frames[1..]).unwrap_err().code(), "wrong_buffer");
    assert!(little_endian(&read(&*data, 0, 2).unwrap()).iter().all(|b| *b == 0));
}

#[test]
fn what_is_no_dark_of_the_data() {
    let (pairs, data, dark) = pair("1", "1.00001");
    let refused = |found: stempack_model::Result<MeanDark>, code: &str, named: &str| {
        let error = found.unwrap_err();
        assert_eq!((error.code(), error.message().contains(named)), (code, true), "{error}");
    };
    refused(mean(&*data, &*dark), "dark_mismatch", "its dark `dark`");
    refused(mean(&*dark, &*dark), "dark_mismatch", "itself");
    std::fs::hard_link(pairs.at("dark.raw"), pairs.at("same.raw")).unwrap();
    refused(mean(&*dark, &*open(&pairs.at("same.raw"))), "dark_mismatch", "itself");
    // Without an exposure there is nothing to compare, and the result says so.
    let alone = open(&pairs.zeros("alone.raw", G1));
    assert!(!mean(&*alone, &*open(&pairs.at("dark.raw"))).unwrap().exposure_compared);
    for word in [f32::NAN, f32::INFINITY] {
        let mut raw = vec![0; G1 as usize];
        raw[4 * 130..4 * 131].copy_from_slice(&word.to_le_bytes());
        let dark = open(&pairs.file("bad.raw", raw));
        refused(mean(&*alone, &*dark), "dark_mismatch", "row 1, column 2");
    }
    let xml = crate::empad::g2("g2.raw", "1,1", "");
    pairs.zeros("g2.raw", 65_536);
    refused(mean(&*alone, &*open(&pairs.file("g2.xml", xml))), "dark_mismatch", "EMPAD-G2");
}

#[test]
fn nothing_is_subtracted_twice() {
    let (pairs, _, _) = pair("1", "1");
    let folder: PathBuf = pairs.at("");
    let open = |name: &str| open(&folder.join(name));
    for named in ["data.raw", "dark.raw"] {
        pairs.file("README", format!("{named}\n\tAlready background-subtracted.\n"));
        let error = mean(&*open("data.xml"), &*open("dark.xml")).unwrap_err();
        assert_eq!((error.code(), error.kind()), ("background_already_subtracted", Kind::Conflict));
        for part in ["README", "Already background-subtracted", &named[..4]] {
            assert!(error.message().contains(part), "{error}");
        }
    }
    // An uncertain README leaves the step to the caller.
    pairs.file("README", "data.raw\n\tMaybe already background subtracted.\n");
    mean(&*open("data.xml"), &*open("dark.xml")).unwrap();
}

#[test]
fn a_dark_that_changes_or_a_cancelled_task_gives_nothing() {
    let (pairs, data, dark) = pair("1", "1");
    let cancelled = Task::new().with_cancel(Arc::new(true.into()));
    assert_eq!(mean_dark(&*data, &*dark, &cancelled).unwrap_err().kind(), Kind::Cancelled);
    mean(&*data, &*dark).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    pairs.file("dark.xml", std::fs::read(pairs.at("dark.xml")).unwrap());
    assert_eq!(mean(&*data, &*dark).unwrap_err().code(), "source_changed");
}
