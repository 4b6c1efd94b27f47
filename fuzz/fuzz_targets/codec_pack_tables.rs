//! Any bytes as a shard's headers or widths.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("codec_pack_tables", data));
