//! Any text as the XML of an EMPAD acquisition.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stempack_fuzz::run("source_empad_xml", data));
