//! Containers: any bytes are refused, or everything in them can be read.

use std::io::Write;
use stempack_containers::pack::{Evidence, PackFile, verify};
use stempack_model::Task;

/// A pack is refused, or every shard loads or is refused. The checksum of the manifest is repaired first, so that
/// mutations reach what lies behind it.
pub(crate) fn pack(data: &[u8]) {
    let mut bytes = data.to_vec();
    if bytes.len() > 24 {
        let json = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        if let Some(text) = bytes.get(24..24usize.saturating_add(json)) {
            let crc = crc32fast::hash(text);
            bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        }
    }
    let mut file = tempfile::NamedTempFile::new().expect("scratch file");
    file.write_all(&bytes).expect("scratch file");
    if let Ok(pack) = PackFile::open(file.path()) {
        let _ = verify(&pack, &Evidence::default(), &Task::new());
    }
}
