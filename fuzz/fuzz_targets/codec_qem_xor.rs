//! Any bytes as a chunk of XOR rows: refused or decoded.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("codec_qem_xor", data));
