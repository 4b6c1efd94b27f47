//! Any bytes as a pack: refused, or every shard loads or is refused.
//!
//! The CRC of the manifest is repaired first, so that mutations reach what lies behind it.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::io::Write;
use stempack_containers::pack::{Evidence, PackFile, verify};
use stempack_model::Task;

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    if bytes.len() > 24 {
        let json = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        if let Some(text) = bytes.get(24..24usize.saturating_add(json)) {
            let crc = crc32(text);
            bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        }
    }
    let mut file = tempfile::NamedTempFile::new().expect("scratch file");
    file.write_all(&bytes).expect("scratch file");
    if let Ok(pack) = PackFile::open(file.path()) {
        let _ = verify(&pack, &Evidence::default(), &Task::new());
    }
});

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 })
    };
    !bytes.iter().fold(u32::MAX, step)
}
