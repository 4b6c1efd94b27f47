//! Any bytes as an .npy file.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("source_npy", data));
