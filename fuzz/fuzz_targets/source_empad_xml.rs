//! Any text as the XML of an EMPAD acquisition: refused, or interpreted.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| stempack_sources::fuzzing::empad_xml(data));
