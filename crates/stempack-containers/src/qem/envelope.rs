//! The 56 bytes in front of the header, and the header's digest.

use crate::digest::Digest;
use crate::{ContainerCode, json};
use std::fs::File;
use std::os::unix::fs::FileExt;
use stempack_model::{Error, Result};

/// Bytes before the header.
pub(super) const PREFIX_BYTES: u64 = 56;
pub(super) const MAGIC: [u8; 8] = *b"QEMDATA1";
/// Magic of the predecessor, whose body is the same.
pub(super) const LEGACY_MAGIC: [u8; 8] = *b"QGPUSTRM";
/// Beginning of another, unrelated predecessor.
const RETIRED_MAGIC: [u8; 5] = *b"QGANS";
/// Header bytes that no file may exceed.
pub(super) const MOST_HEADER_BYTES: u64 = 16 << 20;

/// A header that its digest vouches for.
pub(super) struct Envelope {
    pub(super) legacy: bool,
    /// Where the body begins.
    pub(super) body_start: u64,
    pub(super) header: json::Object,
}

/// Whether these are the first bytes of a `.qem` file or of one of its predecessors.
pub(super) fn recognised(first: &[u8; 8]) -> bool {
    *first == MAGIC || *first == LEGACY_MAGIC || first[..5] == RETIRED_MAGIC
}

/// Steps 1 to 4 of the documented order. Reads the prefix and the header, and nothing of the body.
pub(super) fn read(file: &File, file_bytes: u64) -> Result<Envelope> {
    let io =
        |e: std::io::Error| Error::new(stempack_model::ModelCode::Io, format!("cannot read the header: {e}"));
    let mut magic = [0; 8];
    if file_bytes < 8 {
        return Err(not_a_qem(format!("file has {file_bytes} bytes, the prefix alone has {PREFIX_BYTES}")));
    }
    file.read_exact_at(&mut magic, 0).map_err(io)?;
    let legacy = magic == LEGACY_MAGIC;
    if magic[..5] == RETIRED_MAGIC {
        return Err(Error::new(ContainerCode::QemRetired, "this is a QGANS file, a retired format")
            .hint("pack the original acquisition again; keep this file until the new one is verified"));
    }
    if !legacy && magic != MAGIC {
        return Err(not_a_qem("the first bytes are not `QEMDATA1`".into()));
    }
    let fault = |what: String| Error::new(ContainerCode::QemEnvelope, what);
    if file_bytes < PREFIX_BYTES {
        return Err(fault(format!("file has {file_bytes} bytes, the prefix alone has {PREFIX_BYTES}")));
    }
    let mut prefix = [0; PREFIX_BYTES as usize];
    file.read_exact_at(&mut prefix, 0).map_err(io)?;
    let word = |at: usize| u64::from_le_bytes(prefix[at..at + 8].try_into().unwrap_or_default());
    let (header_bytes, body_start) = (word(8), word(16));
    if header_bytes == 0 || header_bytes > MOST_HEADER_BYTES {
        return Err(fault(format!("header length is {header_bytes}, expected 1 to {MOST_HEADER_BYTES}")));
    }
    if body_start != PREFIX_BYTES + header_bytes {
        let expected = PREFIX_BYTES + header_bytes;
        return Err(fault(format!("the body begins at {body_start}, expected {expected} after the header")));
    }
    if body_start > file_bytes {
        return Err(fault(format!("the header ends at {body_start}, the file at {file_bytes}")));
    }
    let mut text = vec![0; header_bytes as usize];
    file.read_exact_at(&mut text, PREFIX_BYTES).map_err(io)?;
    let digest = Digest::of(&text);
    if digest.0 != prefix[24..56] {
        let expected = hex::encode(&prefix[24..56]);
        return Err(Error::new(
            ContainerCode::QemHeaderDigest,
            format!("SHA-256 of the header is {digest}, the prefix says {expected}"),
        ));
    }
    let header = json::parse_named(&text, "header", ContainerCode::QemHeader)?;
    Ok(Envelope { legacy, body_start, header })
}

fn not_a_qem(why: String) -> Error {
    Error::new(ContainerCode::NotAQem, why)
}

/// The prefix of a file with this header.
pub(super) fn prefix(header: &[u8]) -> Result<[u8; PREFIX_BYTES as usize]> {
    let bytes = header.len() as u64;
    if bytes == 0 || bytes > MOST_HEADER_BYTES {
        return Err(Error::new(
            ContainerCode::TooLarge,
            format!("the header would have {bytes} bytes, at most {MOST_HEADER_BYTES} are allowed"),
        ));
    }
    let mut prefix = [0; PREFIX_BYTES as usize];
    prefix[..8].copy_from_slice(&MAGIC);
    prefix[8..16].copy_from_slice(&bytes.to_le_bytes());
    prefix[16..24].copy_from_slice(&(PREFIX_BYTES + bytes).to_le_bytes());
    prefix[24..].copy_from_slice(&Digest::of(header).0);
    Ok(prefix)
}
