//! Any bytes as an HDF5 file.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("source_hdf5", data));
