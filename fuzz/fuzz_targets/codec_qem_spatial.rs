//! Any bytes as a spatial index: refused, or every sum can be read both ways.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("codec_qem_spatial", data));
