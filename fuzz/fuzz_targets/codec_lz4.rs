//! Any bytes as a raw LZ4 block.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("codec_lz4", data));
