//! Any counts and floats: encoded as the scalar reference does it, and decoded to themselves.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("codec_qem_round_trip", data));
