//! Any bytes as an `.npy` file: described or refused.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_sources::fuzzing::npy(data));
