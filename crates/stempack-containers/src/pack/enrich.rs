//! Enriching: a new sealed copy of a pack with more in its manifest and the same shards, byte for byte.
//!
//! The input is never touched. What is added has to be proven: constants of excluded pixels by the digest of the raw
//! stream that the manifest already carries, a calibration by the rules every reader applies, envelope digests by the
//! bytes themselves.

use super::calibration::DetectorCalibration;
use super::decoder::FrameKind;
use super::load::LoadedShard;
use super::manifest::Manifest;
use super::open::PackFile;
use super::prelude;
use super::receipt::{self, receipt_path};
use super::verify::{Evidence, verify};
use crate::digest::{Hasher, sha256_file};
use crate::publish::{Draft, refuse_existing};
use crate::{ContainerCode, Digest};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use stempack_codecs::shard::Profile;
use stempack_model::{Error, Result, Samples, Task};

/// What to add.
#[derive(Clone, Debug, Default)]
pub struct Enrichment {
    /// Constants of the excluded pixels, in the file's own order, for a u8 file that lacks them.
    pub raw_values: Option<Vec<u16>>,
    /// A detector calibration, attached or replacing the one that is there.
    pub calibration: Option<DetectorCalibration>,
    /// A digest of all stored bytes of every shard, in the u16 profile's shard table.
    pub envelopes: bool,
    /// Time of completion for the receipt (ISO 8601, UTC).
    pub completed_utc: String,
    /// Replace an existing destination.
    pub force: bool,
}

/// What was made.
#[derive(Clone, Debug)]
pub struct EnrichReport {
    /// SHA-256 of the copy: its seal.
    pub output_sha256: Digest,
    /// Size of the copy.
    pub output_bytes: u64,
    /// Where its receipt is.
    pub receipt: PathBuf,
}

/// Writes an enriched copy of `pack`, whose bytes must have the digest `expected`, to `destination`.
///
/// # Errors
/// `digest_mismatch` when the input is not the expected one or the constants do not give the recorded raw stream;
/// `manifest_value` for constants where none are missing or envelope digests without a shard table; the codes of
/// opening for a calibration that is not valid; `metadata_too_large` when the user block has no room;
/// `destination_exists`; `io`; `cancelled`.
pub fn enrich(
    pack: &PackFile,
    expected: Digest,
    enrichment: &Enrichment,
    destination: &Path,
    task: &Task,
) -> Result<EnrichReport> {
    let receipt_file = receipt_path(destination);
    refuse_existing(destination, enrichment.force)?;
    refuse_existing(&receipt_file, enrichment.force)?;
    task.begin("hash container", pack.bytes());
    let found = sha256_file(pack.path(), task)?;
    task.finish();
    if found != expected {
        return Err(Error::new(
            ContainerCode::DigestMismatch,
            format!("`{}` hashes to {found}, expected {expected}", pack.path().display()),
        ));
    }
    // A sealed copy of damaged data would be worse than none.
    let evidence = Evidence { raw_digest: true, ..Evidence::default() };
    let report = verify(pack, &evidence, task)?;
    let of_samples = |name| ["decoded", "working", "raw", "envelope"].contains(&name);
    if let Some(check) = report.checks.iter().find(|c| !c.ok && of_samples(c.name)) {
        return Err(Error::new(
            ContainerCode::DigestMismatch,
            format!("`{}`: {}", pack.path().display(), check.detail),
        ));
    }
    let mut object = pack.manifest().object.clone();
    if let Some(values) = &enrichment.raw_values {
        add_raw_values(pack, values, &mut object)?;
    }
    if let Some(calibration) = &enrichment.calibration {
        object.insert("detector_calibration".into(), calibration.to_json(pack.source_identity()));
    }
    let proof = Manifest::parse(object.clone(), &pack.index)?;
    let decoder = match enrichment.raw_values {
        Some(_) => Some(pack.decoder_of(&proof, FrameKind::Raw)?),
        None => None,
    };
    let mut raw = Hasher::default();
    let mut shards = Vec::with_capacity(pack.shards().len());
    task.begin("authenticate shards", pack.resident_bytes());
    for (ordinal, record) in pack.shards().iter().enumerate() {
        task.check()?;
        let loaded = pack.load_shard(ordinal)?;
        if let Some(decoder) = &decoder {
            hash_raw(&loaded, decoder, &mut raw);
        }
        if enrichment.envelopes {
            add_envelope(pack, ordinal, &mut object)?;
        }
        shards.push(json!({
            "ordinal": ordinal,
            "firstScan": ordinal * pack.scans_per_shard(),
            "scanCount": pack.scans_per_shard(),
            "payloadBytes": record.payload_bytes,
            "payloadSHA256": record.decoded_sha256.to_hex(),
            "headerBytes": record.widths_bytes,
            "headerSHA256": loaded.tables_sha256.to_hex(),
            "maximumBitWidth": loaded.max_widths.iter().max(),
        }));
        task.advance(record.decoded_bytes + record.widths_bytes);
    }
    task.finish();
    if decoder.is_some() {
        let found = raw.finish();
        if Some(found) != proof.source_raw_logical_sha256 {
            return Err(Error::new(
                ContainerCode::DigestMismatch,
                format!(
                    "with these constants the raw stream hashes to {found}, the manifest records {}",
                    proof.source_raw_logical_sha256.map_or("nothing".into(), Digest::to_hex)
                ),
            )
            .hint("the constants must be what the source holds at the excluded pixels, in the order of the file's list"));
        }
    }
    let manifest = super::describe::sorted(Value::Object(object)).to_string();
    let block = prelude::user_block(&manifest, &pack.index.to_bytes(), pack.user_block_bytes)?;
    let draft = copy(pack, &block, destination, task)?;
    // The copy is opened like any other file before it gets its name.
    PackFile::open(draft.path())?;
    let output_bytes = pack.bytes();
    let output_sha256 = sha256_file(draft.path(), task)?;
    if sha256_file(pack.path(), task)? != expected {
        return Err(Error::new(
            ContainerCode::DigestMismatch,
            format!("`{}` changed while it was copied", pack.path().display()),
        ));
    }
    let text = receipt::to_text(json!({
        "schema": receipt::SCHEMA,
        "formatSchema": receipt::FORMAT_SCHEMA,
        "encodingProfile": pack.profile().encoding_profile(),
        "completedUTC": enrichment.completed_utc,
        "destination": destination.display().to_string(),
        "outputBytes": output_bytes,
        "outputSHA256": output_sha256.to_hex(),
        "enrichedFromSHA256": expected.to_hex(),
        "sourceIdentitySHA256": pack.source_identity().to_hex(),
        "sourceRawLogicalSHA256": proof.source_raw_logical_sha256.map(Digest::to_hex),
        "workingLogicalSHA256": proof.working_sha256.map(Digest::to_hex),
        "sourceShape": pack.shape().dims(),
        "scansPerShard": pack.scans_per_shard(),
        "shardCount": pack.shards().len(),
        "badPixelIndices": pack.excluded(),
        "badPixelRawValues": proof.raw_values,
        "executionBackend": "cpu",
        "gpuAccelerated": false,
        "shards": shards,
    }));
    let receipt = Draft::create(&receipt_file)?;
    receipt.file().write_all(text.as_bytes()).map_err(|e| Error::io("write", receipt.path(), e))?;
    super::produce::publish_pair(draft, receipt, enrichment.force)?;
    Ok(EnrichReport { output_sha256, output_bytes, receipt: receipt_file })
}

fn add_raw_values(pack: &PackFile, values: &[u16], object: &mut crate::json::Object) -> Result<()> {
    if pack.profile() != Profile::U8 || pack.manifest().raw_access.is_exact() {
        return Err(Error::new(
            ContainerCode::ManifestValue,
            format!(
                "constants are for u8 files that lack them; this one is {} with raw access {}",
                pack.profile().as_str(),
                pack.manifest().raw_access.as_str()
            ),
        ));
    }
    let words: Vec<u8> = pack.excluded().iter().flat_map(|p| p.to_le_bytes()).collect();
    object.insert("masked_detector_raw_values".into(), json!(values));
    object.insert("masked_detector_pixels_sha256".into(), Digest::of(&words).to_hex().into());
    Ok(())
}

fn add_envelope(pack: &PackFile, ordinal: usize, object: &mut crate::json::Object) -> Result<()> {
    let entry = object.get_mut("shards").and_then(|s| s.get_mut(ordinal)).and_then(Value::as_object_mut);
    match (pack.profile(), entry) {
        (Profile::U16, Some(entry)) => {
            entry.insert("encoded_envelope_sha256".into(), pack.envelope(ordinal)?.to_hex().into());
            Ok(())
        }
        _ => Err(Error::new(
            ContainerCode::ManifestValue,
            "envelope digests stand in the shard table of the u16 profile, which this file does not have",
        )),
    }
}

fn hash_raw(loaded: &LoadedShard, decoder: &super::FrameDecoder, hasher: &mut Hasher) {
    let pixels = loaded.shard.pixels();
    let tile = loaded.shard.profile().tile_scans();
    let mut window = Samples::zeroed(decoder.sample_type(), tile * pixels);
    for first in (0..loaded.shard.scans()).step_by(tile) {
        let n = tile.min(loaded.shard.scans() - first) * pixels;
        decoder.decode(&loaded.shard, first, window.head_mut(n));
        // The recorded digest is of u16 words, whatever the source's own width.
        match &window {
            Samples::U16(words) => hasher.update_u16(&words[..n]),
            other => {
                let word = |i| other.as_ref().integer(i).unwrap_or_default() as u16;
                hasher.update_u16(&(0..n).map(word).collect::<Vec<_>>());
            }
        }
    }
}

/// Copies the container into a draft, with another user block.
fn copy(pack: &PackFile, block: &[u8], destination: &Path, task: &Task) -> Result<Draft> {
    let draft = Draft::create(destination)?;
    let mut file = draft.file();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    task.begin("copy", pack.bytes());
    while at < pack.bytes() {
        task.check()?;
        let n = buffer.len().min((pack.bytes() - at) as usize);
        pack.read(at, &mut buffer[..n])?;
        file.write_all(&buffer[..n]).map_err(|e| Error::io("write", draft.path(), e))?;
        at += n as u64;
        task.advance(n as u64);
    }
    task.finish();
    file.write_all_at(block, 0).map_err(|e| Error::io("write", draft.path(), e))?;
    Ok(draft)
}
