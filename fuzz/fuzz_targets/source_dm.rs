//! Any bytes as a DigitalMicrograph document: described or refused.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_sources::fuzzing::dm(data));
