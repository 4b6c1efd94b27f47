//! Where the corpus is, how frames are read and hashed, and how errors are looked at.

use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stempack_model::{Acquisition, Detail, Error, FrameSource, Samples, ScanShape, Task};
use stempack_sources::OpenOptions;

/// A file or folder of the corpus, or `None` with a plain word about it.
pub(crate) fn corpus(part: &str) -> Option<PathBuf> {
    stempack_testkit::corpus(part)
}

/// A program that lies beside the corpus.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    Some(corpus(".")?.join("../tools").join(name)).filter(|tool| tool.exists())
}

pub(crate) fn json(path: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Entries of the truth of real files whose name starts with one of `prefixes`.
pub(crate) fn truth(base: &Path, prefixes: &[&str]) -> Vec<(String, Json)> {
    let all = json(&base.join("truth.json"));
    let found: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["file"].as_str().unwrap().to_owned(), e["truth"].clone()))
        .filter(|(file, _)| prefixes.iter().any(|p| file.starts_with(p)))
        .collect();
    assert!(!found.is_empty(), "the truth has entries for {prefixes:?}");
    found
}

pub(crate) fn stated(rows: u64, cols: u64) -> OpenOptions {
    OpenOptions { scan: Some(ScanShape::new(rows, cols).unwrap()), ..OpenOptions::default() }
}

pub(crate) fn open(path: &Path) -> Arc<dyn FrameSource> {
    open_with(path, &OpenOptions::default())
}

pub(crate) fn open_with(path: &Path, options: &OpenOptions) -> Arc<dyn FrameSource> {
    stempack_sources::open(path, options).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub(crate) fn refusal(path: &Path) -> Error {
    refusal_with(path, &OpenOptions::default())
}

pub(crate) fn refusal_with(path: &Path, options: &OpenOptions) -> Error {
    match stempack_sources::open(path, options) {
        Ok(source) => panic!("{} opened as {:?}", path.display(), source.acquisition()),
        Err(error) => error,
    }
}

pub(crate) fn little_endian(samples: &Samples) -> Vec<u8> {
    samples.as_ref().little_endian().into_owned()
}

pub(crate) fn read(source: &dyn FrameSource, first: u64, count: u64) -> stempack_model::Result<Samples> {
    let a = source.acquisition();
    let mut samples = Samples::zeroed(a.sample, count as usize * a.detector.pixels());
    source.read(first, samples.as_mut(), &Task::new())?;
    Ok(samples)
}

/// SHA-256 of all frames, little-endian in C order, read in windows of `window` frames.
pub(crate) fn logical_sha256(source: &dyn FrameSource, window: u64) -> String {
    let frames = source.acquisition().frame_count;
    let mut hash = Sha256::new();
    let mut first = 0;
    while first < frames {
        let count = window.min(frames - first);
        hash.update(little_endian(&read(source, first, count).unwrap()));
        first += count;
    }
    hex::encode(hash.finalize())
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// NumPy's name of a sample type.
pub(crate) fn numpy_dtype(a: &Acquisition) -> &'static str {
    use stempack_model::SampleType::*;
    match a.sample {
        U8 => "|u1",
        I8 => "|i1",
        U16 => "<u2",
        I16 => "<i2",
        U32 => "<u4",
        I32 => "<i4",
        U64 => "<u8",
        I64 => "<i8",
        F32 => "<f4",
        F64 => "<f8",
    }
}

/// Sum of each frame over the pixels that are not excluded.
pub(crate) fn totals(source: &dyn FrameSource) -> Vec<u64> {
    let a = source.acquisition();
    let excluded: std::collections::HashSet<u32> = a.excluded.pixels.iter().copied().collect();
    (0..a.frame_count)
        .map(|frame| {
            let samples = read(source, frame, 1).unwrap();
            let counts = samples.as_ref().to_f64();
            // Exact: no frame of the tests reaches 2^53.
            (0..counts.len()).filter(|&p| !excluded.contains(&(p as u32))).map(|p| counts[p] as u64).sum()
        })
        .collect()
}

pub(crate) fn detail<'a>(error: &'a Error, name: &str) -> Option<&'a Detail> {
    error.details().iter().find(|(n, _)| *n == name).map(|(_, d)| d)
}

pub(crate) fn numbers(json: &Json) -> Vec<u64> {
    match json {
        Json::Array(a) => a.iter().flat_map(numbers).collect(),
        other => vec![other.as_u64().unwrap()],
    }
}

/// A copy of every regular file of a folder, to be damaged.
pub(crate) fn copy_folder(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            // Written anew: corpus files may be read-only.
            std::fs::write(to.path().join(entry.file_name()), std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
    to
}
