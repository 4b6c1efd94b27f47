//! Any bytes as a chunk of float halves: refused or decoded, the same from every start.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("codec_qem_lanes", data));
