//! Any bytes as a chunk of column streams: refused, or all ways of reading it agree with the scalar reference.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("codec_qem_columns", data));
