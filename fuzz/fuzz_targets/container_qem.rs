//! Any bytes as a `.qem` file.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("container_qem", data));
