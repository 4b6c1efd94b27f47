//! Acquisitions and datasets written out of process by h5py and hdf5plugin, when a Python that has them is named by
//! `STEMPACK_PYTHON`.

use crate::common::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use stempack_model::Task;

pub(crate) fn python() -> Option<PathBuf> {
    let found = std::env::var_os("STEMPACK_PYTHON").map(PathBuf::from);
    if found.is_none() {
        println!("skipped: STEMPACK_PYTHON does not name a Python with h5py and hdf5plugin");
    }
    found
}

pub(crate) fn run(python: &Path, arguments: &[&str]) {
    let out = Command::new(python).args(arguments).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn generated_acquisitions_decode_to_their_digest() {
    let Some(python) = python() else { return };
    let Some(tool) = tool("make_acquisition.py") else {
        println!("skipped: make_acquisition.py does not lie beside the corpus");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    for (name, arguments) in [
        ("u16", &["--scan", "7", "9", "--detector", "100", "101", "--frames-per-file", "10"][..]),
        ("u8", &["--scan", "5", "6", "--dtype", "uint8", "--companion"]),
        ("u32", &["--scan", "3", "4", "--dtype", "uint32", "--detector", "33", "47"]),
        ("block", &["--scan", "6", "5", "--block", "512", "--frames-per-file", "7", "--dead", "0"]),
        ("tiny", &["--scan", "2", "2", "--detector", "3", "5", "--block", "8", "--bright", "1"]),
    ] {
        let out = dir.path().join(name);
        let mut all = vec![tool.to_str().unwrap(), out.to_str().unwrap()];
        all.extend(arguments);
        run(&python, &all);
        let t = json(&out.join("truth.json"));
        let shape = numbers(&t["shape"]);
        let source = open_with(&out.join("scan_master.h5"), &stated(shape[0], shape[1]));
        let a = source.acquisition();
        assert_eq!(a.shape().unwrap().dims().map(|n| n as u64).to_vec(), shape, "{name}");
        assert_eq!(a.sample.as_str(), t["dtype"].as_str().unwrap());
        assert_eq!(logical_sha256(&*source, 4), t["logical_sha256"].as_str().unwrap(), "{name}");
        let dead: Vec<u64> = a.excluded.pixels.iter().map(|&p| p.into()).collect();
        assert_eq!(dead, numbers(&t["dead_pixels"]), "{name}");
        if name == "u8" {
            assert!(
                open(&out.join("scan_master.h5")).acquisition().scan.is_some(),
                "its companion records the shape"
            );
        }
    }
}

/// One dataset for each way of storing a stack, beside its plain bytes.
const DATASETS: &str = r#"
import sys, json, hashlib, pathlib
import numpy as np, h5py, hdf5plugin
out = pathlib.Path(sys.argv[1]); rng = np.random.default_rng(3); truth = {}
def keep(name, a):
    truth[name] = {"shape": list(a.shape), "sha256": hashlib.sha256(np.ascontiguousarray(a.astype(a.dtype.newbyteorder("<"))).tobytes()).hexdigest()}
def stack(dtype, shape=(11, 13, 17)): return rng.poisson(3, shape).astype(dtype)
bs = lambda **k: dict(hdf5plugin.Bitshuffle(**k))
with h5py.File(out / "all.h5", "w", userblock_size=4096) as f:
    def put(name, a, **k): f.create_dataset(name, data=a, **k); keep(name, a)
    put("contiguous", stack("<u2"))
    put("big_endian", stack(">u4"))
    put("big_endian_chunked", stack(">u2"), chunks=(2, 13, 17), compression="gzip", shuffle=True)
    put("unfiltered", stack("<u2"), chunks=(1, 13, 17))
    put("gzip", stack("<u2"), chunks=(1, 13, 17), compression="gzip")
    put("gzip_shuffle_sum", stack("<u4"), chunks=(3, 13, 17), compression="gzip", shuffle=True, fletcher32=True)
    put("sum_only", stack("u1"), chunks=(3, 13, 17), fletcher32=True)
    put("shuffle_only", stack("<u4"), chunks=(3, 5, 17), shuffle=True)
    put("multi_frame", stack("<u2"), chunks=(4, 13, 17), **bs())
    put("parts_of_frames", stack("<u2"), chunks=(1, 5, 7), **bs())
    put("everything_cut", stack("u1"), chunks=(4, 5, 7), **bs(nelems=8))
    put("rows", stack("<u4"), chunks=(2, 1, 17), **bs())
    put("no_compression", stack("<u2"), chunks=(1, 13, 17), **bs(cname="none"))
    put("bslz4_and_sum", stack("<u2"), chunks=(2, 13, 17), fletcher32=True, **bs())
    put("lz4", stack("<u2"), chunks=(2, 13, 17), **hdf5plugin.LZ4())
    put("lz4_small_blocks", stack("<u2"), chunks=(2, 13, 17), **hdf5plugin.LZ4(nbytes=100))
    put("lzf", stack("<u2"), chunks=(2, 13, 17), compression="lzf", shuffle=True)
    put("float32", stack("<f4"), chunks=(1, 13, 17), **bs())
    put("rank4", stack("<u2", (3, 4, 5, 6)), chunks=(2, 3, 2, 4), compression="gzip")
    a = stack("<u2"); d = f.create_dataset("masked", a.shape, a.dtype, chunks=(1, 13, 17), compression="gzip", shuffle=True)
    for i in range(11):
        if i % 3 == 0: d.id.write_direct_chunk((i, 0, 0), a[i].tobytes(), filter_mask=3)
        else: d[i] = a[i]
    keep("masked", a)
    a = stack("<u2", (2, 3, 4)); plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE); plist.set_layout(h5py.h5d.COMPACT)
    h5py.h5d.create(f.id, b"compact", h5py.h5t.py_create(a.dtype), h5py.h5s.create_simple(a.shape), plist).write(h5py.h5s.ALL, h5py.h5s.ALL, a); keep("compact", a)
    # what must be refused, by the word its message has to contain
    f.create_dataset("refuse/32015", data=stack("<u2"), chunks=(1, 13, 17), **hdf5plugin.Zstd())
    f.create_dataset("refuse/Zstandard", data=stack("<u2"), chunks=(1, 13, 17), **hdf5plugin.Bitshuffle(cname="zstd"))
    d = f.create_dataset("refuse/row 6", (11, 13, 17), "<u2", chunks=(1, 13, 17))
    for i in range(11):
        if i != 5: d[i] = a[0, 0, 0]
    f.create_dataset("refuse/never written", (11, 13, 17), "<u2")
    v = h5py.VirtualLayout((11, 13, 17), "<u2"); v[:] = h5py.VirtualSource(f["unfiltered"]); f.create_virtual_dataset("refuse/virtual", v)
    f.create_dataset("refuse/external raw", (2, 3), "<u2", external=[("raw.bin", 0, 12)])
    t = h5py.h5t.STD_U16LE.copy(); t.set_precision(12)
    h5py.h5d.create(f["refuse"].id, b"only some of their bits", t, h5py.h5s.create_simple((2, 2, 2)))
    f.create_dataset("refuse/variable length", data=["a", "bc"], dtype=h5py.string_dtype())
(out / "raw.bin").write_bytes(bytes(12))
json.dump(truth, open(out / "truth.json", "w"))
"#;

fn datasets(python: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    run(python, &["-c", DATASETS, dir.path().to_str().unwrap()]);
    dir
}

#[test]
fn every_way_of_storing_a_stack_decodes() {
    let Some(python) = python() else { return };
    let dir = datasets(&python);
    let path = dir.path().join("all.h5");
    let truth = json(&dir.path().join("truth.json"));
    for (name, t) in truth.as_object().unwrap() {
        let index = crate::corpus_hdf5::index(&path, name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(index.shape(), numbers(&t["shape"]), "{name}");
        let all = index.read_all(&Task::new()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(sha256(&all), t["sha256"].as_str().unwrap(), "{name}");
        // Any window of rows is a window of the whole.
        let file = std::fs::File::open(&path).unwrap();
        let (row, rows) = (index.row_bytes() as usize, index.shape()[0]);
        for first in 0..rows {
            for count in 1..=rows - first {
                let mut out = vec![0; count as usize * row];
                index.read_rows(&file, first, &mut out, &Task::new()).unwrap();
                assert_eq!(out, all[first as usize * row..][..out.len()], "{name}, rows {first} and {count}");
            }
        }
    }
    assert!(truth.as_object().unwrap().len() >= 20);
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    let Some(python) = python() else { return };
    let dir = datasets(&python);
    let path = dir.path().join("all.h5");
    let file = stempack_sources::hdf5::File::open(&path).unwrap();
    let stempack_sources::hdf5::Found::Group(group) = file.find("/refuse").unwrap() else {
        panic!("no group")
    };
    let names = file.links(&group).unwrap();
    assert_eq!(names.len(), 8);
    for (name, _) in names {
        let error = crate::corpus_hdf5::index(&path, &format!("/refuse/{name}")).unwrap_err();
        assert!(error.message().contains(&name), "{name}: {error}");
        assert!(error.message().contains("all.h5"), "{error}");
        let expected = match name.as_str() {
            "32015" | "Zstandard" => "unsupported_filter",
            "row 6" | "never written" => "missing_chunk",
            _ => "unsupported_layout",
        };
        assert_eq!(error.code(), expected, "{error}");
    }
}

/// A master with a virtual dataset over its shards, as newer firmware writes: the shards are read.
const VIRTUAL: &str = r#"
import sys, pathlib, numpy as np, h5py
out = pathlib.Path(sys.argv[1])
for n in (1, 2):
    with h5py.File(out / f"run_data_{n:06d}.h5", "w") as f: f["entry/data/data"] = np.full((2, 3, 4), n, "<u2")
for name, links in (("run_master.h5", True), ("alone_master.h5", False)):
    with h5py.File(out / name, "w") as m:
        g = m.create_group("entry/data")
        if links:
            for n in (1, 2): g[f"data_{n:06d}"] = h5py.ExternalLink(f"run_data_{n:06d}.h5", "/entry/data/data")
        v = h5py.VirtualLayout((4, 3, 4), "<u2")
        for n in (1, 2): v[2 * n - 2:2 * n] = h5py.VirtualSource(f"run_data_{n:06d}.h5", "/entry/data/data", (2, 3, 4))
        g.create_virtual_dataset("data", v)
"#;

#[test]
fn a_virtual_dataset_beside_its_shards_adds_nothing() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    run(&python, &["-c", VIRTUAL, dir.path().to_str().unwrap()]);
    let source = open(&dir.path().join("run_master.h5"));
    assert_eq!(source.acquisition().frame_count, 4);
    assert!(source.acquisition().warnings.iter().any(|w| w.code == "virtual_dataset_ignored"));
    let error = refusal(&dir.path().join("alone_master.h5"));
    assert!(error.code() == "unsupported_layout" && error.message().contains("virtual"), "{error}");
}
