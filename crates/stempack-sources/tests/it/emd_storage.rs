//! Every way an EMD 1 datacube may be stored, read in windows of every size; damage, truncation and change.

use crate::common::*;
use crate::emd::{size, with};
use crate::generated::{python, run};
use std::path::Path;
use stempack_model::{SampleType, Samples, Task};
use stempack_sources::OpenOptions;
use stempack_sources::hdf5::{DatasetIndex, File, Found, Storage};

/// Random bits in every type, so that all NaN payloads, both zeros and the largest integers are among them.
const CUBES: &str = r#"
import sys, json, pathlib
import numpy as np, h5py, hdf5plugin
out = pathlib.Path(sys.argv[1]); rng = np.random.default_rng(11); truth = {}
def cube(name, a, **how):
    with h5py.File(out / f"{name}.h5", "w") as f:
        f.attrs["authoring_program"] = "emdfile"; f.attrs["version_major"] = 1
        f.create_dataset("datacube_root/datacube/data", data=a, **how)
    (out / f"{name}.bin").write_bytes(np.ascontiguousarray(a).view(a.dtype.newbyteorder("<")).byteswap().tobytes() if a.dtype.byteorder == ">" else np.ascontiguousarray(a).tobytes())
    truth[name] = {"shape": list(a.shape), "dtype": a.dtype.newbyteorder("<").str}
def bits(dtype, shape=(4, 5, 6, 7)):
    d = np.dtype(dtype); return np.frombuffer(rng.bytes(int(np.prod(shape)) * d.itemsize), d).reshape(shape)
def counts(dtype, shape=(4, 5, 6, 7)): return rng.poisson(2, shape).astype(dtype)
for t in ("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f4", "<f8", ">u2", ">i2", ">u4", ">i4", ">u8", ">i8", ">f4", ">f8"):
    n = t.replace("<", "le_").replace(">", "be_")
    cube(f"contiguous_{n}", bits(t)); cube(f"gzip_{n}", bits(t), chunks=(2, 2, 4, 3), compression="gzip", shuffle=True)
for i, c in enumerate([(1, 1, 6, 7), (2, 3, 6, 7), (1, 5, 6, 7), (4, 5, 6, 7), (4, 5, 1, 1), (1, 1, 2, 3), (3, 2, 4, 4), (4, 1, 6, 2)]):
    cube(f"grid{i}_f4", counts("<f4"), chunks=c, compression="gzip"); cube(f"plain_grid{i}_u2", counts(">u2"), chunks=c)
cube("beyond", counts("<f4"), chunks=(8, 16, 8, 8), maxshape=(None,) * 4, compression="lzf")
cube("lzf", counts("<u2"), chunks=(1, 2, 6, 7), compression="lzf"); cube("lzf_shuffle", counts("<f8"), chunks=(2, 2, 6, 7), compression="lzf", shuffle=True)
cube("lzf_long", counts("<u4", (3, 2, 64, 80)), chunks=(1, 2, 64, 80), compression="lzf", shuffle=True); cube("lzf_random", bits("<u4"), chunks=(1, 1, 6, 7), compression="lzf")
cube("lzf_zero", np.zeros((2, 2, 64, 64), "<f4"), chunks=(1, 1, 64, 64), compression="lzf", fletcher32=True)
for t in ("<u2", "<f4", "<f8", "<i8"): cube(f"bslz4_{t[1:]}", counts(t), chunks=(2, 2, 6, 7), **hdf5plugin.Bitshuffle())
cube("bslz4_frame", counts("<f4", (3, 4, 33, 31)), chunks=(1, 1, 33, 31), **hdf5plugin.Bitshuffle(nelems=64)); cube("bs_none", counts("<f4"), chunks=(1, 1, 6, 7), **hdf5plugin.Bitshuffle(cname="none"))
cube("sum", counts("<f4"), chunks=(2, 1, 6, 7), fletcher32=True)
a = bits("<f4", (2, 2, 4, 5))
with h5py.File(out / "compact.h5", "w") as f:
    f.attrs["authoring_program"] = "emdfile"; f.attrs["version_major"] = 1
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE); plist.set_layout(h5py.h5d.COMPACT); g = f.create_group("datacube_root/datacube")
    h5py.h5d.create(g.id, b"data", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple(a.shape), plist).write(h5py.h5s.ALL, h5py.h5s.ALL, a)
(out / "compact.bin").write_bytes(a.tobytes()); truth["compact"] = {"shape": list(a.shape), "dtype": "<f4"}
# what must be refused, by code and the word its message has to contain
refuse = {}
def refused(name, code, word, write):
    with h5py.File(out / f"no_{name}.h5", "w") as f:
        f.attrs["authoring_program"] = b"emdfile"; f.attrs["version_major"] = np.uint8(1); write(f, "datacube_root/datacube/data")
    refuse[f"no_{name}"] = [code, word]
refused("external", "unsupported_layout", "external raw files", lambda f, p: f.create_dataset(p, (2, 2, 4, 5), "<f4", external=[(str(out / "raw.bin"), 0, 320)]))
def virtual(f, p):
    f.create_dataset("store", data=counts("<f4")); v = h5py.VirtualLayout((4, 5, 6, 7), "<f4"); v[:] = h5py.VirtualSource(f["store"]); f.create_virtual_dataset(p, v)
refused("virtual", "unsupported_layout", "virtual", virtual)
refused("half", "unsupported_layout", "neither integers nor floats", lambda f, p: f.create_dataset(p, data=counts("<f2")))
refused("complex", "unsupported_layout", "neither integers nor floats", lambda f, p: f.create_dataset(p, data=counts("<c8")))
def odd(f, p):
    t = h5py.h5t.IEEE_F32LE.copy(); t.set_ebias(126); g = f.create_group("datacube_root/datacube"); h5py.h5d.create(g.id, b"data", t, h5py.h5s.create_simple((1, 1, 2, 2)))
refused("not_ieee", "unsupported_layout", "not IEEE", odd)
refused("zstd", "unsupported_filter", "Zstandard", lambda f, p: f.create_dataset(p, data=counts("<f4"), chunks=(1, 1, 6, 7), **hdf5plugin.Zstd()))
def holes(f, p):
    d = f.create_dataset(p, (4, 5, 6, 7), "<f4", chunks=(1, 1, 6, 7)); d[0] = 1
refused("holes", "missing_chunk", "never written", holes)
(out / "raw.bin").write_bytes(bytes(320))
json.dump({"truth": truth, "refuse": refuse}, open(out / "truth.json", "w"))
"#;

fn cubes(python: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    run(python, &["-c", CUBES, dir.path().to_str().unwrap()]);
    dir
}

#[test]
fn every_storage_gives_the_same_bits_in_every_window() {
    let Some(python) = python() else { return };
    let dir = cubes(&python);
    let all = json(&dir.path().join("truth.json"));
    let mut types = std::collections::BTreeSet::new();
    for (name, t) in all["truth"].as_object().unwrap() {
        let expected = std::fs::read(dir.path().join(format!("{name}.bin"))).unwrap();
        let source = open(&dir.path().join(format!("{name}.h5")));
        let a = source.acquisition();
        assert_eq!(a.shape().unwrap().dims().map(|n| n as u64).to_vec(), numbers(&t["shape"]), "{name}");
        assert_eq!(numpy_dtype(a), t["dtype"].as_str().unwrap(), "{name}");
        assert_eq!(a.reader, "emd1-datacube/v1", "{name}");
        types.insert(numpy_dtype(a));
        let frame = a.detector.pixels() * a.sample.bytes();
        for first in 0..a.frame_count {
            for count in 1..=a.frame_count - first {
                let found = little_endian(&read(&*source, first, count).unwrap());
                let from = first as usize * frame;
                assert_eq!(found, expected[from..from + found.len()], "{name}, frames {first} and {count}");
            }
        }
    }
    assert_eq!(types.len(), 10, "every sample type");
    assert!(all["truth"].as_object().unwrap().len() >= 65);
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    let Some(python) = python() else { return };
    let dir = cubes(&python);
    let all = json(&dir.path().join("truth.json"));
    for (name, expected) in all["refuse"].as_object().unwrap() {
        let error = refusal(&dir.path().join(format!("{name}.h5")));
        assert_eq!(error.code(), expected[0].as_str().unwrap(), "{name}: {error}");
        assert!(error.message().contains(expected[1].as_str().unwrap()), "{name}: {error}");
        assert!(error.message().contains(&format!("{name}.h5")), "{name}: {error}");
    }
    assert!(all["refuse"].as_object().unwrap().len() >= 7);
}

/// Chunks of a stored datacube, in the order of the grid.
fn chunks(path: &Path) -> Vec<(u64, u64)> {
    let file = File::open(path).unwrap();
    let Found::Dataset(dataset) = file.find("/datacube_root/datacube/data").unwrap() else {
        panic!("no datacube")
    };
    let index = DatasetIndex::build(&file, &dataset).unwrap();
    let Storage::Chunked(chunks) = index.storage() else { panic!("not chunked") };
    chunks.table.iter().map(|c| (c.address, c.bytes)).collect()
}

/// A damaged chunk costs the frames it holds and names the first of them; all other frames stay readable.
#[test]
fn a_damaged_chunk_costs_only_its_frames() {
    let Some(python) = python() else { return };
    let dir = cubes(&python);
    // 4 × 5 frames. `gzip`: 2 × 3 blocks of 2 × 2 frames, six chunks to a block. `lzf`: 4 × 3 chunks of 1 × 2 frames.
    // `bslz4`: 2 × 3 of 2 × 2. `sum`: 2 × 5 of 2 × 1.
    for (name, chunk, lost) in [
        ("gzip_le_f4", 5, vec![0u64, 1, 5, 6]),
        ("gzip_be_i8", 18, vec![10, 11, 15, 16]),
        ("lzf", 4, vec![7, 8]),
        ("bslz4_f8", 5, vec![14, 19]),
        ("sum", 6, vec![11, 16]),
    ] {
        let path = dir.path().join(format!("{name}.h5"));
        let expected = std::fs::read(dir.path().join(format!("{name}.bin"))).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let table = chunks(&path);
        let (address, stored) = table[chunk];
        for byte in &mut bytes[address as usize..(address + stored) as usize] {
            *byte ^= 0xa5;
        }
        let damaged = dir.path().join(format!("{name}_damaged.h5"));
        std::fs::write(&damaged, &bytes).unwrap();
        let source = open(&damaged);
        let a = source.acquisition();
        let frame = a.detector.pixels() * a.sample.bytes();
        let mut found = Vec::new();
        for k in 0..a.frame_count {
            match read(&*source, k, 1) {
                Ok(samples) => {
                    let from = k as usize * frame;
                    assert_eq!(little_endian(&samples), expected[from..from + frame], "{name}, frame {k}");
                }
                Err(error) => {
                    assert_eq!(error.code(), "corrupt_payload");
                    for named in [
                        format!("{name}_damaged.h5"),
                        format!("frame {} (index {k})", k + 1),
                        "/datacube_root/datacube/data".to_owned(),
                    ] {
                        assert!(error.message().contains(&named), "{error}");
                    }
                    assert_eq!(detail(&error, "frame_index"), Some(&stempack_model::Detail::Number(k)));
                    found.push(k);
                }
            }
        }
        assert_eq!(found, lost, "{name}");
        // A window over everything names the first frame that is lost.
        let error = read(&*source, 0, a.frame_count).unwrap_err();
        assert_eq!(detail(&error, "frame_index"), Some(&stempack_model::Detail::Number(lost[0])));
        assert!(error.message().contains(&format!("and {} more", lost.len() - 1)), "{error}");
    }
}

#[test]
fn a_chunk_that_does_not_fit_the_memory_budget() {
    let Some(python) = python() else { return };
    let dir = cubes(&python);
    let source = open(&dir.path().join("grid3_f4.h5"));
    let mut samples = Samples::zeroed(SampleType::F32, 42);
    let tight = |bytes| Task::new().with_memory_budget(bytes);
    let error = source.read(0, samples.as_mut(), &tight(4 * 840 * 4 - 1)).unwrap_err();
    assert_eq!(error.code(), "over_budget");
    source.read(0, samples.as_mut(), &tight(4 * 840 * 4)).unwrap();
}
#[test]
fn cancelled_and_changed_reads() {
    let (_folder, path) = with(|_| {});
    let source = open(&path);
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let mut samples = stempack_model::Samples::zeroed(SampleType::F32, 30);
    let task = Task::new().with_cancel(flag);
    assert_eq!(source.read(0, samples.as_mut(), &task).unwrap_err().code(), "cancelled");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(read(&*source, 0, 1).unwrap_err().code(), "source_changed");
    assert_eq!(source.check_unchanged().unwrap_err().code(), "source_changed");
}

/// Cut anywhere, a file is refused or gives the samples it gave before, and never more.
#[test]
fn truncated_files() {
    let (folder, path) = with(|f| size(f, 'R', 2.5, "A"));
    let bytes = std::fs::read(&path).unwrap();
    let whole = logical_sha256(&*open(&path), 12);
    let cut = folder.at("cut.h5");
    let (mut refused, mut opened) = (0, 0);
    for length in (0..bytes.len()).step_by(61).chain([8, 96, 512, bytes.len() - 1]) {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        match stempack_sources::open(&cut, &OpenOptions::default()) {
            Ok(source) => {
                opened += 1;
                assert_eq!(logical_sha256(&*source, 12), whole, "cut at {length}");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 20 && refused > opened, "{refused} refused, {opened} opened");
}

/// Bytes changed one at a time, metadata of the HDF5 library included: samples or a named refusal, never a crash.
#[test]
fn changed_bytes_anywhere() {
    let (folder, path) = with(|f| size(f, 'R', 2.5, "A"));
    let bytes = std::fs::read(&path).unwrap();
    let changed = folder.at("changed.h5");
    // The library never returns from some damaged collections of variable-length texts.
    let heaps: Vec<_> = bytes
        .windows(4)
        .enumerate()
        .filter(|(_, word)| word == b"GCOL")
        .map(|(at, _)| at..at + u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap()) as usize)
        .collect();
    assert_eq!(heaps.len(), 1);
    let (mut state, mut refused, mut read_all) = (0x9e37_79b9_7f4a_7c15_u64, 0, 0);
    for at in (0..bytes.len()).step_by(23) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if heaps.iter().any(|heap| heap.contains(&at)) {
            continue;
        }
        let mut other = bytes.clone();
        other[at] ^= (state >> 32) as u8 | 1;
        std::fs::write(&changed, &other).unwrap();
        let outcome = stempack_sources::open(&changed, &OpenOptions::default()).and_then(|source| {
            let a = source.acquisition();
            // Whatever shape a changed file claims, its frames lie inside it.
            assert!(a.frame_count * (a.detector.pixels() * a.sample.bytes()) as u64 <= bytes.len() as u64);
            let mut samples = Samples::zeroed(a.sample, a.frame_count as usize * a.detector.pixels());
            source.read(0, samples.as_mut(), &Task::new())
        });
        match outcome {
            Ok(()) => read_all += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 20 && read_all > 20, "{refused} refused, {read_all} read");
}
