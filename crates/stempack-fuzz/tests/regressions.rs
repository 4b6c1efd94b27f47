//! Inputs that once made a target fail, and seeds of every target, pass.

use std::path::Path;
use stempack_fuzz::TARGETS;

fn regressions() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions")
}

#[test]
fn inputs_that_once_failed_pass() {
    for folder in std::fs::read_dir(regressions()).unwrap() {
        let folder = folder.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(TARGETS.iter().any(|(n, _)| *n == name), "`{name}` is no target");
        for input in std::fs::read_dir(&folder).unwrap() {
            let input = input.unwrap().path();
            println!("{}", input.display());
            stempack_fuzz::run(&name, &std::fs::read(&input).unwrap());
        }
    }
}

/// Nothing, little and noise: a body that fails on these would never find anything else.
#[test]
fn every_target_takes_any_bytes() {
    let noise: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (name, _) in TARGETS {
        for len in [0, 1, 7, 64, 4096] {
            stempack_fuzz::run(name, &noise[..len]);
        }
    }
}

#[test]
fn every_target_has_its_program() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let mut found: Vec<String> = std::fs::read_dir(programs)
        .unwrap()
        .map(|e| e.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    let mut named: Vec<&str> = TARGETS.iter().map(|(n, _)| *n).collect();
    named.sort();
    assert_eq!(found, named);
}
