//! The first 24 bytes: where the manifest and the index are.

use crate::ContainerCode;
use stempack_model::{Error, Result};

/// `QGPUH5\0\x01`.
pub(super) const MAGIC: [u8; 8] = *b"QGPUH5\0\x01";
/// Bytes of the prelude.
pub(super) const BYTES: u64 = 24;
/// No real manifest comes near: about 700 bytes per shard and 30 per excluded pixel.
const MAX_JSON_BYTES: u32 = 64 << 20;
/// No real index comes near: 96 bytes per shard and 4 per excluded pixel.
const MAX_INDEX_BYTES: u32 = 256 << 20;

/// Validated ranges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prelude {
    pub(super) json_bytes: u32,
    pub(super) json_crc32: u32,
    pub(super) index_offset: u32,
    pub(super) index_bytes: u32,
}

impl Prelude {
    pub(super) fn parse(bytes: &[u8; BYTES as usize], file_bytes: u64) -> Result<Self> {
        let (magic, fields) = bytes.split_at(8);
        if magic != MAGIC {
            return Err(if magic[..6] == MAGIC[..6] {
                Error::new(
                    ContainerCode::UnsupportedRevision,
                    format!("prelude revision is {:02x} {:02x}, expected 00 01", magic[6], magic[7]),
                )
            } else {
                Error::new(ContainerCode::NotAPack, "file does not begin with the pack prelude `QGPUH5`")
            });
        }
        let word = |i: usize| u32::from_le_bytes([fields[i], fields[i + 1], fields[i + 2], fields[i + 3]]);
        let p = Prelude {
            json_bytes: word(0),
            json_crc32: word(4),
            index_offset: word(8),
            index_bytes: word(12),
        };
        let refuse = |why: String| Err(Error::new(ContainerCode::Prelude, why));
        if p.json_bytes == 0 {
            return refuse("manifest has 0 bytes".into());
        }
        if p.json_bytes > MAX_JSON_BYTES || p.index_bytes > MAX_INDEX_BYTES {
            return Err(Error::new(
                ContainerCode::TooLarge,
                format!(
                    "manifest of {} and index of {} bytes, limits are {MAX_JSON_BYTES} and {MAX_INDEX_BYTES}",
                    p.json_bytes, p.index_bytes
                ),
            ));
        }
        let json_end = BYTES + u64::from(p.json_bytes);
        if u64::from(p.index_offset) < json_end {
            return refuse(format!(
                "index begins at {}, inside the manifest that ends at {json_end}",
                p.index_offset
            ));
        }
        if p.index_end() > file_bytes {
            return refuse(format!("index ends at {}, the file at {file_bytes}", p.index_end()));
        }
        Ok(p)
    }
    pub(super) fn index_end(&self) -> u64 {
        u64::from(self.index_offset) + u64::from(self.index_bytes)
    }
    fn to_bytes(self) -> [u8; BYTES as usize] {
        let mut out = [0; BYTES as usize];
        out[..8].copy_from_slice(&MAGIC);
        let words = [self.json_bytes, self.json_crc32, self.index_offset, self.index_bytes];
        for (slot, word) in out[8..].chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        out
    }
}

/// Prelude, manifest and index, padded to the reserved size.
pub(super) fn user_block(manifest: &str, index: &[u8], reserved: u64) -> Result<Vec<u8>> {
    let index_offset = (BYTES as usize + manifest.len()).next_multiple_of(8);
    let used = (index_offset + index.len()) as u64;
    if used > reserved {
        return Err(Error::new(
            ContainerCode::TooLarge,
            format!("manifest and index take {used} bytes, the user block has {reserved}"),
        )
        .hint("pack the original acquisition again"));
    }
    let prelude = Prelude {
        json_bytes: manifest.len() as u32,
        json_crc32: crc32fast::hash(manifest.as_bytes()),
        index_offset: index_offset as u32,
        index_bytes: index.len() as u32,
    };
    let mut block = vec![0; reserved as usize];
    block[..BYTES as usize].copy_from_slice(&prelude.to_bytes());
    block[BYTES as usize..][..manifest.len()].copy_from_slice(manifest.as_bytes());
    block[index_offset..][..index.len()].copy_from_slice(index);
    Ok(block)
}
