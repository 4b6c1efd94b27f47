//! The bare stack `/dp` and its scan grid.

use crate::common::*;
use crate::writer::{Folder, numbers_attribute, scalar};
use hdf5_metno::{Dataset, File, H5Type};
use std::path::PathBuf;

const DP: usize = 128 * 128;

fn stack(frames: usize, add: impl FnOnce(&File, &Dataset)) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let file = folder.file("sim.h5");
    let data = file.new_dataset::<f32>().shape([frames, 128, 128]).create("dp").unwrap();
    let samples: Vec<f32> = (0..frames * DP).map(|i| f32::from_bits(0x3f80_0000 + i as u32)).collect();
    data.write_raw(&samples).unwrap();
    add(&file, &data);
    drop((data, file));
    let path = folder.at("sim.h5");
    (folder, path)
}

/// Format facts, § 4.2.
#[test]
fn the_dp_stack() {
    let (_folder, path) = stack(6, |_, d| numbers_attribute(d, "scan_shape", &[2u32, 3]));
    let source = open(&path);
    let a = source.acquisition();
    assert_eq!(a.shape().unwrap().dims(), [2, 3, 128, 128]);
    assert_eq!((a.format.as_str(), a.reader.as_str()), ("HDF5 · float32 dp", "hdf5-contiguous-float32/v1"));
    assert!(a.quantities.is_empty());
    let expected: Vec<u8> = (5 * DP..6 * DP).flat_map(|i| (0x3f80_0000 + i as u32).to_le_bytes()).collect();
    assert_eq!(little_endian(&read(&*source, 5, 1).unwrap()), expected);

    let (_folder, path) = stack(6, |f, _| {
        scalar(f, "/abtem_params/N_scan_slow", 3i64, None);
        scalar(f, "/abtem_params/N_scan_fast", 2i64, None);
    });
    assert_eq!(open(&path).acquisition().shape().unwrap().dims(), [3, 2, 128, 128]);
    // The attribute outranks the parameters, even when it does not fit.
    let (_folder, path) = stack(6, |f, d| {
        numbers_attribute(d, "scan_shape", &[2u32, 2]);
        scalar(f, "/abtem_params/N_scan_slow", 3i64, None);
        scalar(f, "/abtem_params/N_scan_fast", 2i64, None);
    });
    assert_eq!(refusal(&path).code(), "conflicting_scan_shape");
    for bad in [[0i64, 6], [-2, -3]] {
        let (_folder, path) = stack(6, |_, d| numbers_attribute(d, "scan_shape", &bad));
        assert_eq!(refusal(&path).code(), "invalid_scan_shape");
    }
    let (_folder, path) = stack(6, |f, _| scalar(f, "/abtem_params/N_scan_slow", 3i64, None));
    assert_eq!(refusal(&path).code(), "invalid_scan_shape");
    // Nothing recorded: never a square.
    let (_folder, path) = stack(4, |_, _| {});
    let source = open(&path);
    assert!(source.acquisition().scan.is_none());
    assert_eq!(
        stempack_sources::require_shape(source.acquisition()).unwrap_err().code(),
        "missing_scan_shape"
    );
    assert_eq!(open_with(&path, &stated(1, 4)).acquisition().shape().unwrap().dims()[..2], [1, 4]);
}

#[test]
fn stacks_that_are_not_of_the_contract() {
    let folder = Folder::new();
    let write = |add: &dyn Fn(&File)| {
        let file = folder.file("sim.h5");
        add(&file);
        drop(file);
        let error = refusal(&folder.at("sim.h5"));
        assert_eq!(error.code(), "unsupported_layout", "{error}");
        error.message().to_owned()
    };
    fn dp<T: H5Type + Default + Clone>(f: &File, shape: &[usize]) {
        let data = f.new_dataset::<T>().shape(shape).create("dp").unwrap();
        data.write_raw(&vec![T::default(); shape.iter().product()]).unwrap();
    }
    assert!(write(&|f| dp::<f32>(f, &[2, 64, 64])).contains("64×64"));
    assert!(write(&|f| dp::<f64>(f, &[2, 128, 128])).contains("float32"));
    assert!(write(&|f| dp::<f32>(f, &[2, 2, 128, 128])).contains("4 axes"));
    assert!(write(&|f| f.group("/").unwrap().link_soft("/x", "dp").unwrap()).contains("soft link"));
    let chunked = write(&|f| {
        let data = f.new_dataset::<f32>().shape([1, 128, 128]).chunk([1, 128, 128]).create("dp").unwrap();
        data.write_raw(&vec![0f32; DP]).unwrap();
    });
    assert!(chunked.contains("contiguously"));
}

/// A stack that shares the stem of a detector master is still what its contents say.
#[test]
fn a_stack_beside_a_master_of_its_name() {
    let (folder, path) = stack(2, |_, d| numbers_attribute(d, "scan_shape", &[1u32, 2]));
    folder.shard("sim_data_000001.h5", 1, 2, 3, 0);
    drop(folder.master("sim_master.h5", &["sim_data_000001.h5"]));
    assert_eq!(open(&path).acquisition().format, "HDF5 · float32 dp");
    assert_eq!(open(&folder.at("sim_master.h5")).acquisition().format, "ARINA HDF5");
}

/// The attribute outranks the parameters of the simulation; that they say something else is said.
#[test]
fn parameters_that_contradict_the_attribute() {
    for (slow, fast, warned) in [(2u32, 1u32, true), (1, 2, false)] {
        let (_folder, path) = stack(2, |f, d| {
            numbers_attribute(d, "scan_shape", &[1u32, 2]);
            scalar(f, "/abtem_params/N_scan_slow", slow, None);
            scalar(f, "/abtem_params/N_scan_fast", fast, None);
        });
        let source = open(&path);
        let a = source.acquisition();
        assert_eq!(a.shape().unwrap().dims()[..2], [1, 2]);
        let codes: Vec<_> = a.warnings.iter().map(|w| w.code).collect();
        assert_eq!(codes, if warned { vec!["conflicting_scan_shape"] } else { vec![] });
    }
}
