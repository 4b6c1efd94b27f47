//! Opening a `.qem` file: the header decides everything that can be known without the body.

use super::blocks::Cache;
use super::body::Body;
use super::calibration::Calibration;
use super::header::Header;
use super::{QemCodec, describe, envelope};
use crate::Digest;
use crate::json::Object;
use crate::unchanged::{Identity, open_regular};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use stempack_model::{Acquisition, Error, Quantity, Recorded, Result, Shape4};

/// An opened `.qem` file whose header is valid. Nothing of the body has been read.
pub struct QemFile {
    pub(super) header: Header,
    pub(super) body: Body,
    pub(super) cache: Cache,
    calibration: Calibration,
    acquisition: Acquisition,
}

impl std::fmt::Debug for QemFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QemFile").field("path", &self.body.path).finish_non_exhaustive()
    }
}

/// The most asked-for facts of a `.qem` file.
#[derive(Clone, Debug, PartialEq)]
pub struct QemInfo {
    /// How the body is coded.
    pub codec: QemCodec,
    /// The four axes.
    pub shape: Shape4,
    /// Size of the file.
    pub file_bytes: u64,
    /// Size of the header.
    pub header_bytes: u64,
    /// Chunks of the body.
    pub chunks: usize,
    /// Blocks of at most 512 scan positions, each of which is decoded as a whole.
    pub blocks: u64,
    /// Checksums over 64 MiB of the body each.
    pub checksums: usize,
    /// Bytes of the dense stored array divided by the file size.
    pub ratio: f64,
    /// Whether it is a retired `QGPUSTRM` file.
    pub legacy: bool,
}

impl QemFile {
    /// Whether the file begins like a `.qem` file or one of its predecessors.
    ///
    /// # Errors
    /// `io`.
    pub fn probe(path: &Path) -> Result<bool> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let mut magic = [0; 8];
        match file.read_exact_at(&mut magic, 0) {
            Ok(()) => Ok(envelope::recognised(&magic)),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(Error::io("read", path, e)),
        }
    }

    /// Reads and validates the header.
    ///
    /// # Errors
    /// `not_a_qem`, `qem_envelope`, `qem_header_digest`, `qem_header`, `qem_metadata`, `qem_layout` for what contradicts
    /// the format; `qem_unsupported` and `qem_retired` for what is not read; `io`.
    pub fn open(path: &Path) -> Result<Self> {
        Self::parse(path)
            .map_err(|e| e.at(format_args!("`{}`", path.display())).with("path", path.display().to_string()))
    }

    fn parse(path: &Path) -> Result<Self> {
        let file = open_regular(path)?;
        let identity = Identity::of(&file.metadata().map_err(|e| Error::io("stat", path, e))?);
        let header = Header::parse(envelope::read(&file, identity.bytes)?, identity.bytes)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let calibration = Calibration::of(&header, &name);
        let acquisition = describe::acquisition(&header, &calibration, path);
        let body = Body::new(path, file, identity, &header);
        Ok(QemFile { header, body, cache: Cache::default(), calibration, acquisition })
    }

    /// Path as opened.
    pub fn path(&self) -> &Path {
        &self.body.path
    }
    /// How the body is coded.
    pub fn codec(&self) -> QemCodec {
        self.header.codec
    }
    /// The four axes.
    pub fn shape(&self) -> Shape4 {
        self.header.shape
    }
    /// The header's text, byte for byte.
    pub(super) fn header_text(&self) -> Result<String> {
        self.body.header_text(self.header.body_start)
    }
    /// The header as it stands in the file.
    pub fn header(&self) -> &Object {
        &self.header.object
    }
    /// SHA-256 of the dense little-endian array, where the file records it.
    pub fn logical_sha256(&self) -> Option<Digest> {
        self.header.logical_sha256.or_else(|| self.own("logical_sha256"))
    }
    /// The public identity of an array of floats: its digest bound to its shape. A saved dark frame is no part of it.
    pub fn tensor_identity(&self) -> Option<Digest> {
        self.header.logical_sha256.map(|logical| crate::tensor_identity(self.header.shape, &logical))
    }
    /// A digest in this library's own extension.
    fn own(&self, key: &str) -> Option<Digest> {
        let scientific = self.header.section("scientific_metadata")?;
        Digest::from_hex(
            scientific.get("extensions")?.get(super::calibration::EXTENSION)?.get(key)?.as_str()?,
        )
    }
    /// Quantities that a person stated over the recorded ones.
    pub fn overrides(&self) -> &BTreeMap<Quantity, Recorded<f64>> {
        &self.calibration.overrides
    }
    /// The calibration that holds: recorded quantities with the overrides over them. What the acquisition lists are the
    /// recorded ones alone.
    pub fn effective_calibration(&self) -> BTreeMap<Quantity, Recorded<f64>> {
        self.calibration.effective()
    }
    /// Scan positions of the largest chunk.
    pub fn scans_per_chunk(&self) -> u64 {
        self.header.layout.chunks.iter().map(|c| c.scans).max().unwrap_or(0)
    }
    pub(super) fn described(&self) -> &Acquisition {
        &self.acquisition
    }
    /// Facts for people.
    pub fn info(&self) -> QemInfo {
        let header = &self.header;
        let file_bytes = self.body.file_bytes();
        let dense = header.shape.samples().unwrap_or(u64::MAX).saturating_mul(header.stored.bytes() as u64);
        QemInfo {
            codec: header.codec,
            shape: header.shape,
            file_bytes,
            header_bytes: header.body_start - envelope::PREFIX_BYTES,
            chunks: header.layout.chunks.len(),
            blocks: header.layout.block_count(),
            checksums: header.checksums.len(),
            ratio: dense as f64 / file_bytes as f64,
            legacy: header.legacy,
        }
    }
}
