//! What independent readers make of files written here: `tests-python/qem_oracle.py`, and the corpus's own checker.
//! They run out of process with the Python that `STEMPACK_PYTHON` names (it needs numpy).

use crate::qem_corpus::npy_bytes;
use crate::qem_write::{counts, names};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use stempack_containers::qem::{QemFile, QemOptions, write};
use stempack_model::{Samples, Task};
use stempack_testkit::{MemorySource, corpus};

fn python() -> Option<PathBuf> {
    let found = std::env::var_os("STEMPACK_PYTHON").map(PathBuf::from);
    if found.is_none() {
        // Directly, because the test harness keeps to itself what passing tests print.
        let _unheard =
            writeln!(std::io::stderr(), "SKIPPED: STEMPACK_PYTHON does not name a Python with numpy");
    }
    found
}

fn written(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let all = |n: usize, most: u64| counts(n / 6, 6, most);
    let f32s = |n: usize| -> Vec<f32> {
        let special = [0, 0x8000_0000u32, 1, 0x7f80_0001, 0xffff_ffff, 0x4048_f5c3];
        (0..n).map(|i| f32::from_bits(special[i % 6] ^ if i % 7 == 0 { i as u32 } else { 0 })).collect()
    };
    let sources = [
        ((2, 3), (5, 7), Samples::U8(all(210, 255).iter().map(|&v| v as u8).collect()), vec![]),
        (
            (3, 179),
            (9, 6),
            Samples::U16(all(3 * 179 * 54, 65535).iter().map(|&v| v as u16).collect()),
            vec![0, 53],
        ),
        ((1, 1030), (3, 4), Samples::U16(all(1030 * 12, 40).iter().map(|&v| v as u16).collect()), vec![5]),
        ((2, 2), (33, 34), Samples::U8(all(4 * 33 * 34, 3).iter().map(|&v| v as u8).collect()), vec![]),
        ((1, 3), (1, 2), Samples::U32(vec![0, 65535, 3, 4, 5, 6]), vec![]),
        ((30, 20), (6, 6), Samples::F32(f32s(600 * 36)), vec![]),
        ((1, 2), (2, 2), Samples::F32(vec![0.0; 8]), vec![]),
    ];
    let mut files = Vec::new();
    for (i, (scan, detector, frames, excluded)) in sources.into_iter().enumerate() {
        let expected = match &frames {
            Samples::U32(v) => v.iter().flat_map(|&v| (v as u16).to_le_bytes()).collect(),
            other => other.as_ref().little_endian().into_owned(),
        };
        let mut source = MemorySource::new(scan, detector, frames);
        if !excluded.is_empty() {
            source = source.excluding(&excluded);
        }
        let path = folder.join(format!("{i}.qem"));
        write(&source, &path, &QemOptions::default(), &Task::new()).unwrap();
        files.push((path, expected));
    }
    files
}

#[test]
fn the_oracle_reads_what_is_written() {
    let Some(python) = python() else { return };
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests-python/qem_oracle.py");
    let dir = tempfile::tempdir().unwrap();
    let mut files = written(dir.path());
    if let Some(corpus) = corpus("qem") {
        let xor = QemFile::open(&corpus.join("valid/f32-xor-widths.qem")).unwrap();
        let path = dir.path().join("again.qem");
        write(&xor, &path, &QemOptions::default(), &Task::new()).unwrap();
        files.push((path, npy_bytes(&corpus.join("valid/f32-xor-widths.npy")).1));
    }
    let out = dir.path().join("out.npy");
    for (path, expected) in &files {
        let answer = Command::new(&python).arg(&oracle).arg(path).arg("--array").arg(&out).output().unwrap();
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(answer.status.success(), "{}: {said}", path.display());
        assert!(npy_bytes(&out).1 == *expected, "{}", path.display());
    }
    // It is no yes-man.
    let mut damaged = std::fs::read(&files[1].0).unwrap();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    std::fs::write(&files[1].0, damaged).unwrap();
    assert!(!Command::new(&python).arg(&oracle).arg(&files[1].0).output().unwrap().status.success());
    assert!(names(dir.path()).len() > files.len());
}

/// The corpus comes with a checker of its own; its `load` decodes a file and compares every stored tile sum.
#[test]
fn the_checker_of_the_corpus_reads_what_is_written() {
    let (Some(python), Some(corpus)) = (python(), corpus("qem")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let files = written(dir.path());
    let program = "import importlib.util, pathlib, sys\n\
        spec = importlib.util.spec_from_file_location('check', sys.argv[1])\n\
        check = importlib.util.module_from_spec(spec); sys.dont_write_bytecode = True\n\
        spec.loader.exec_module(check)\n\
        sys.stdout.buffer.write(check.load(pathlib.Path(sys.argv[2]))[1].tobytes())\n";
    for (path, expected) in &files {
        let answer = Command::new(&python)
            .args(["-c", program])
            .arg(corpus.join("check_corpus.py"))
            .arg(path)
            .output()
            .unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        assert!(answer.stdout == *expected, "{}", path.display());
    }
}
