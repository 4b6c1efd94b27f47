//! Any bytes as a DigitalMicrograph document.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("source_dm", data));
