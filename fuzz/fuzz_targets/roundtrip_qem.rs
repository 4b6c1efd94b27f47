//! Any array as a `.qem` file and back.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("roundtrip_qem", data));
