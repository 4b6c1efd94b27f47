//! What every fuzz target does with its bytes: anything is refused or read, nothing panics, and what is encoded comes
//! back.
//!
//! The programs in `fuzz/fuzz_targets` only pass bytes on. The bodies are here so that ordinary tests replay, without
//! a fuzzer, every input that once failed: `fuzz/regressions/TARGET/*`.

mod codecs;
mod containers;
mod qem;
mod sources;

/// A target and its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("codec_lz4", codecs::lz4),
    ("codec_bitshuffle", codecs::bitshuffle),
    ("codec_pack_tables", codecs::pack_tables),
    ("codec_qem_columns", qem::columns),
    ("codec_qem_lanes", qem::lane_streams),
    ("codec_qem_round_trip", qem::round_trip),
    ("codec_qem_spatial", qem::spatial),
    ("codec_qem_xor", qem::xor_rows),
    ("container_pack", containers::pack),
    ("container_qem", containers::qem),
    ("roundtrip_qem", containers::qem_round_trip),
    ("source_hdf5", sources::hdf5),
    ("source_empad_xml", sources::empad_xml),
    ("source_dm", stempack_sources::fuzzing::dm),
    ("source_npy", stempack_sources::fuzzing::npy),
];

/// Runs a target by its name.
///
/// # Panics
/// When there is no such target, or when the target finds a fault.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(n, _)| *n == name).expect("a target of the list");
    target(data);
}
