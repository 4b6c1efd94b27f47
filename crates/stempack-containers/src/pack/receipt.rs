//! The receipt of a production: what was packed from what, and the digests that seal the result.

use super::open::PackFile;
use crate::json::{Keys, Object};
use crate::unchanged::open_regular;
use crate::{ContainerCode, Digest};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use stempack_model::{Error, Result};

/// Schema of every receipt, for both profiles.
pub(super) const SCHEMA: &str = "quantem.gpu.lossless-pack-production/v1";
/// Schema of the format a receipt speaks of.
pub(super) const FORMAT_SCHEMA: &str = "quantem.gpu.lossless-pack-format/v1";
const MAX_BYTES: u64 = 64 << 20;

/// `FILE.receipt.json` beside `FILE`.
pub fn receipt_path(container: &Path) -> PathBuf {
    let mut name = container.file_name().unwrap_or_default().to_owned();
    name.push(".receipt.json");
    container.with_file_name(name)
}

/// What a receipt says about one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptShard {
    /// Position in the file.
    pub ordinal: u64,
    /// First scan position.
    pub first_scan: u64,
    /// Scan positions.
    pub scan_count: u64,
    /// Stored payload bytes.
    pub payload_bytes: u64,
    /// SHA-256 of the bitstream.
    #[serde(rename = "payloadSHA256")]
    pub payload_sha256: String,
    /// Bytes of headers or widths.
    pub header_bytes: u64,
    /// SHA-256 of headers or widths, which the container itself does not carry.
    #[serde(rename = "headerSHA256")]
    pub header_sha256: String,
    /// Largest width.
    pub maximum_bit_width: u8,
}

/// The parts of a receipt that a reader checks.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// Size of the container.
    pub output_bytes: u64,
    /// SHA-256 of the whole container.
    pub output_sha256: Digest,
    /// Content identity of the source.
    pub source_identity: Digest,
    /// Header digest per shard.
    pub header_sha256: Vec<Digest>,
    /// The document as read.
    pub object: Object,
}

impl Receipt {
    /// Reads and validates a receipt.
    ///
    /// # Errors
    /// `receipt_malformed`, `io`.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::metadata(path).map_err(|e| Error::io("stat", path, e))?.len();
        if bytes > MAX_BYTES {
            return Err(Error::new(
                ContainerCode::TooLarge,
                format!("receipt `{}` has {bytes} bytes, limit is {MAX_BYTES}", path.display()),
            ));
        }
        let mut text = Vec::new();
        open_regular(path)?.take(MAX_BYTES).read_to_end(&mut text).map_err(|e| Error::io("read", path, e))?;
        Self::parse(&text).map_err(|e| {
            Error::new(ContainerCode::Receipt, format!("receipt `{}`: {}", path.display(), e.message()))
                .with("path", path.display().to_string())
        })
    }

    /// What the receipt says of the container that the container contradicts. A key that is missing says nothing.
    pub(super) fn contradiction(&self, pack: &PackFile) -> Option<String> {
        let (manifest, per_shard) = (pack.manifest(), pack.scans_per_shard());
        let hex = |digest: Option<Digest>| digest.map_or(Value::Null, |d| d.to_hex().into());
        let facts = [
            ("outputBytes", json!(pack.bytes())),
            ("sourceIdentitySHA256", hex(Some(pack.source_identity()))),
            ("formatSchema", json!(FORMAT_SCHEMA)),
            ("encodingProfile", json!(pack.profile().encoding_profile())),
            ("sourceShape", json!(pack.shape().dims())),
            ("workingDtype", json!(manifest.working.sample_type().as_str())),
            ("scanTile", json!(pack.profile().tile_scans())),
            ("scansPerShard", json!(per_shard)),
            ("shardCount", json!(pack.shards().len())),
            ("scanBin", json!(1)),
            ("detectorBin", json!(1)),
            ("badPixelIndices", json!(pack.excluded())),
            ("sourceRawLogicalSHA256", hex(manifest.source_raw_logical_sha256)),
            ("workingLogicalSHA256", hex(manifest.working_sha256)),
            ("detectorMaskIdentitySHA256", hex(manifest.detector_mask_sha256)),
        ];
        let wrong = |object: &Object, facts: &[(&str, Value)]| {
            facts.iter().find_map(|(key, expected)| match object.get(*key) {
                Some(found) if !expected.is_null() && found != expected => {
                    Some(format!("says that {key} is {found}, it is {expected}"))
                }
                _ => None,
            })
        };
        if let Some(wrong) = wrong(&self.object, &facts) {
            return Some(wrong);
        }
        let shards = self.object.get("shards").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if shards.len() != pack.shards().len() {
            return Some(format!("lists {} shards, there are {}", shards.len(), pack.shards().len()));
        }
        shards.iter().zip(pack.shards()).enumerate().find_map(|(ordinal, (shard, record))| {
            let facts = [
                ("ordinal", json!(ordinal)),
                ("firstScan", json!(ordinal * per_shard)),
                ("scanCount", json!(per_shard)),
                ("payloadBytes", json!(record.payload_bytes)),
                ("payloadSHA256", hex(Some(record.decoded_sha256))),
                ("headerBytes", json!(record.widths_bytes)),
            ];
            let wrong = wrong(shard.as_object()?, &facts)?;
            Some(format!("{wrong}, of shard {ordinal}"))
        })
    }

    fn parse(text: &[u8]) -> Result<Self> {
        let object = crate::json::parse_object(text)?;
        let keys = Keys::new(&object);
        keys.exactly("schema", SCHEMA)?;
        let header_sha256 = keys
            .list("shards")?
            .iter()
            .map(|shard| match shard {
                Value::Object(object) => Keys { object, prefix: "shards[]." }.digest("headerSHA256"),
                other => Err(Error::new(
                    ContainerCode::Receipt,
                    format!("a shard is {}, expected an object", crate::json::type_name(other)),
                )),
            })
            .collect::<Result<_>>()?;
        Ok(Receipt {
            output_bytes: keys.u64("outputBytes")?,
            output_sha256: keys.digest("outputSHA256")?,
            source_identity: keys.digest("sourceIdentitySHA256")?,
            header_sha256,
            object: object.clone(),
        })
    }
}

/// Pretty JSON with sorted keys and a trailing newline, as the public producer writes it.
pub(super) fn to_text(fields: Value) -> String {
    let mut text = format!("{:#}", super::describe::sorted(without_nulls(fields)));
    text.push('\n');
    text
}

/// Absent optionals are left out.
fn without_nulls(fields: Value) -> Value {
    match fields {
        Value::Object(object) => Value::Object(object.into_iter().filter(|(_, v)| !v.is_null()).collect()),
        other => other,
    }
}
