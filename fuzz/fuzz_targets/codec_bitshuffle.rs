//! Any bytes as a bitshuffle/LZ4 chunk.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("codec_bitshuffle", data));
