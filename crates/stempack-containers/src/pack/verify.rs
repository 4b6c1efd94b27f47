//! Verification: which evidence was checked, by name, and whether it agrees.

use super::decoder::{FrameDecoder, FrameKind};
use super::load::LoadedShard;
use super::manifest::ShardClaims;
use super::open::PackFile;
use super::receipt::{Receipt, receipt_path};
use crate::digest::{Hasher, sha256_file};
use crate::{ContainerCode, Digest};
use rayon::prelude::*;
use std::path::PathBuf;
use stempack_model::{
    Error, FrameSource, Kind, ModelCode, Result, SampleType, Samples, SamplesRef, Task, with_samples,
};

/// What the caller brings. Only this seals a file; a receipt that merely lies beside it does not.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Expected SHA-256 of the whole file.
    pub sha256: Option<Digest>,
    /// A receipt the caller vouches for.
    pub receipt: Option<PathBuf>,
    /// Also recompute the digest of the raw stream.
    pub raw_digest: bool,
}

/// One named check.
#[derive(Clone, Debug)]
pub struct Check {
    /// Stable name: `structure`, `decoded`, `working`, `raw`, `envelope`, `prepared`, `whole-file`, `receipt`, `receipt-headers`,
    /// `receipt-beside`, `against-identity`, `against-values`, `against-logical`.
    pub name: &'static str,
    /// Whether it agrees.
    pub ok: bool,
    /// What was compared with what.
    pub detail: String,
}

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// In the order they were made.
    pub checks: Vec<Check>,
    /// Whether the caller's evidence covers every byte of the file and agrees.
    pub sealed: bool,
    /// What no check covered, in words.
    pub not_authenticated: Vec<&'static str>,
}

impl VerifyReport {
    /// Whether every check agrees.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(|c| c.ok)
    }
    /// Adds a check.
    pub fn push(&mut self, name: &'static str, ok: bool, detail: impl Into<String>) {
        self.checks.push(Check { name, ok, detail: detail.into() });
    }
    fn compare(&mut self, name: &'static str, what: &str, found: Digest, expected: Digest) {
        let detail = if found == expected {
            format!("{what} is {found}")
        } else {
            format!("{what} is {found}, expected {expected}")
        };
        self.push(name, found == expected, detail);
    }
}

/// Authenticates a whole pack. A digest that does not agree is a failed check; a structure that is not valid is an
/// error.
///
/// # Errors
/// The codes of [`PackFile::load_shard`] that are not of kind `Integrity`; `io`; `cancelled`.
pub fn verify(pack: &PackFile, evidence: &Evidence, task: &Task) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    report.push(
        "structure",
        true,
        format!(
            "{} profile, {} shards of {} scans",
            pack.profile().as_str(),
            pack.shards().len(),
            pack.scans_per_shard()
        ),
    );
    let receipt = evidence.receipt.as_deref().map(Receipt::read).transpose()?;
    whole_file(pack, evidence, receipt.as_ref(), &mut report, task)?;
    shards(pack, evidence, receipt.as_ref(), &mut report, task)?;
    if report.ok()
        && let Some(outcome) = pack.check_prepared(task)?
    {
        let detail = outcome.as_ref().err().cloned();
        let agree = "prepared moments and images are those of the shards";
        report.push("prepared", outcome.is_ok(), detail.unwrap_or_else(|| agree.to_owned()));
    }
    if !report.sealed {
        report.not_authenticated.push(match pack.profile() {
            stempack_codecs::shard::Profile::U8 => {
                "prelude, index and compact headers (no expected SHA-256 and no receipt were given)"
            }
            stempack_codecs::shard::Profile::U16 => {
                "prelude, index, widths and block lengths (no expected SHA-256 and no receipt were given)"
            }
        });
    }
    Ok(report)
}

fn whole_file(
    pack: &PackFile,
    evidence: &Evidence,
    receipt: Option<&Receipt>,
    report: &mut VerifyReport,
    task: &Task,
) -> Result<()> {
    let beside_path = receipt_path(pack.path());
    let beside = beside_path.exists().then(|| Receipt::read(&beside_path));
    if evidence.sha256.is_none() && receipt.is_none() && !matches!(beside, Some(Ok(_))) {
        beside_check(pack, beside, None, report);
        return Ok(());
    }
    task.begin("hash container", pack.bytes());
    let digest = sha256_file(pack.path(), task)?;
    task.finish();
    let mut agrees = Vec::new();
    if let Some(expected) = evidence.sha256 {
        report.compare("whole-file", "SHA-256 of the file", digest, expected);
        agrees.push(digest == expected);
    }
    if let Some(receipt) = receipt {
        report.compare("receipt", "SHA-256 of the file", digest, receipt.output_sha256);
        let contradiction = receipt.contradiction(pack);
        agrees.push(digest == receipt.output_sha256 && contradiction.is_none());
        if let Some(contradiction) = contradiction {
            report.push("receipt", false, format!("the receipt {contradiction}"));
        }
    }
    report.sealed = !agrees.is_empty() && agrees.iter().all(|&a| a);
    beside_check(pack, beside, Some(digest), report);
    Ok(())
}

/// A receipt found beside the file is information: consistent or not, never a seal.
fn beside_check(
    pack: &PackFile,
    beside: Option<Result<Receipt>>,
    digest: Option<Digest>,
    report: &mut VerifyReport,
) {
    match (beside, digest) {
        (None, _) => report.not_authenticated.push("production (no receipt lies beside the file)"),
        (Some(Err(e)), _) => report.push("receipt-beside", false, e.message().to_owned()),
        (Some(Ok(receipt)), digest) => {
            let contradiction = match digest {
                Some(digest) if digest != receipt.output_sha256 => Some("is of another file".to_owned()),
                _ => receipt.contradiction(pack),
            };
            let detail = contradiction.as_ref().map(|c| format!("contradicts the file: it {c}"));
            report.push(
                "receipt-beside",
                detail.is_none(),
                detail.unwrap_or_else(|| "consistent with the file".to_owned()),
            );
        }
    }
}

fn shards(
    pack: &PackFile,
    evidence: &Evidence,
    receipt: Option<&Receipt>,
    report: &mut VerifyReport,
    task: &Task,
) -> Result<()> {
    let manifest = pack.manifest();
    let mut streams = streams(pack, evidence, report)?;
    let room = pack.room_beside_a_shard(task)? / streams.len().max(1) as u64;
    let mut headers_differ = Vec::new();
    task.begin("verify shards", pack.resident_bytes());
    for (ordinal, record) in pack.shards().iter().enumerate() {
        task.check()?;
        let loaded = match pack.load_shard(ordinal) {
            Ok(loaded) => loaded,
            Err(e) if e.kind() == Kind::Integrity => {
                report.push("decoded", false, e.message().to_owned());
                task.finish();
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        if let Some(receipt) = receipt
            && receipt.header_sha256.get(ordinal) != Some(&loaded.tables_sha256)
        {
            headers_differ.push(ordinal);
        }
        streams
            .par_iter_mut()
            .try_for_each(|s| hash_frames(&loaded, &s.decoder, &mut s.hasher, room, task))?;
        let claims = manifest.shards.get(ordinal).cloned().unwrap_or_default();
        for (what, expected, payload) in
            [("", claims.envelope_sha256, false), ("payload ", claims.payload_sha256, true)]
        {
            let Some(expected) = expected else { continue };
            let found = if payload { pack.stored_payload(ordinal)? } else { pack.envelope(ordinal)? };
            if found != expected {
                report.push(
                    "envelope",
                    false,
                    format!("shard {ordinal}: {what}{found}, the manifest says {expected}"),
                );
            }
        }
        task.advance(record.decoded_bytes + record.widths_bytes);
    }
    task.finish();
    report.push("decoded", true, format!("{} bitstream digests", pack.shards().len()));
    let claimed = |c: &ShardClaims| c.envelope_sha256.is_some() || c.payload_sha256.is_some();
    if manifest.shards.iter().any(claimed) && report.checks.iter().all(|c| c.name != "envelope") {
        report.push("envelope", true, "stored bytes of every shard that records a digest");
    }
    if receipt.is_some() {
        let detail = match headers_differ.first() {
            None => "headers of every shard".to_owned(),
            Some(first) => format!("headers of {} shards differ, first shard {first}", headers_differ.len()),
        };
        report.push("receipt-headers", headers_differ.is_empty(), detail);
        // A receipt that is wrong in one thing vouches for nothing.
        report.sealed &= headers_differ.is_empty();
    }
    for Stream { name, what, hasher, expected, .. } in streams {
        report.compare(name, what, hasher.finish(), expected);
    }
    Ok(())
}

/// A stream of samples with the digest that the manifest records of it.
struct Stream {
    name: &'static str,
    what: &'static str,
    decoder: FrameDecoder,
    hasher: Hasher,
    expected: Digest,
}

/// The streams whose digests are recorded; of the others the report says that they are not authenticated.
fn streams(pack: &PackFile, evidence: &Evidence, report: &mut VerifyReport) -> Result<Vec<Stream>> {
    let manifest = pack.manifest();
    let stream =
        |name, what, decoder, expected| Stream { name, what, decoder, hasher: Hasher::default(), expected };
    let mut streams = Vec::new();
    match manifest.working_sha256 {
        Some(expected) => {
            let decoder = FrameDecoder::working(manifest.working_hashed_as, pack.excluded().to_vec());
            streams.push(stream("working", "working array", decoder, expected));
        }
        None => report.not_authenticated.push("working array (the manifest has no digest of it)"),
    }
    if !evidence.raw_digest || !manifest.raw_access.is_exact() {
        return Ok(streams);
    }
    match manifest.raw_digest() {
        Some(expected) => streams.push(stream("raw", "raw array", pack.decoder(FrameKind::Raw)?, expected)),
        None => report.not_authenticated.push("raw array (the manifest has no digest of it)"),
    }
    // Sources of another width carry the digest of their own stream and that of the same values as u16.
    if let (Some(_), Some(expected)) = (&manifest.source_note, manifest.source_raw_logical_sha256) {
        let decoder = pack.decoder(FrameKind::Raw)?.giving(SampleType::U16);
        streams.push(stream("raw", "raw array as uint16", decoder, expected));
    }
    Ok(streams)
}

impl PackFile {
    /// Reads every raw sample where the file can prove them and records their digest, and compares it.
    ///
    /// # Errors
    /// `digest_mismatch`, and those of [`PackFile::load_shard`]; `cancelled`.
    pub fn check_raw(&self, task: &Task) -> Result<()> {
        let manifest = self.manifest();
        let Some(expected) = manifest.raw_digest().filter(|_| manifest.raw_access.is_exact()) else {
            return Ok(());
        };
        let room = self.room_beside_a_shard(task)?;
        let (decoder, mut hasher) = (self.decoder(FrameKind::Raw)?, Hasher::default());
        for ordinal in 0..self.shards().len() {
            hash_frames(&self.load_shard(ordinal)?, &decoder, &mut hasher, room, task)?;
        }
        let found = hasher.finish();
        if found == expected {
            return Ok(());
        }
        Err(Error::new(
            ContainerCode::DigestMismatch,
            format!(
                "`{}`: the raw samples hash to {found}, the manifest says {expected}",
                self.path().display()
            ),
        ))
    }
}

fn hash_frames(
    loaded: &LoadedShard,
    decoder: &FrameDecoder,
    hasher: &mut Hasher,
    room: u64,
    task: &Task,
) -> Result<()> {
    let pixels = loaded.shard.pixels();
    let window = window_scans(&loaded.shard, decoder.sample_type().bytes(), room)?;
    let mut buffer = Samples::zeroed(decoder.sample_type(), window * pixels);
    for first in (0..loaded.shard.scans()).step_by(window) {
        task.check()?;
        let n = window.min(loaded.shard.scans() - first) * pixels;
        decoder.decode(&loaded.shard, first, buffer.head_mut(n));
        hasher.update(&buffer.head(n).little_endian());
    }
    Ok(())
}

/// Whole tiles that take about 16 MiB and no more than `room`, and no more than the shard has.
fn window_scans(
    shard: &stempack_codecs::shard::PackedShard,
    sample_bytes: usize,
    room: u64,
) -> Result<usize> {
    let per_tile = shard.profile().tile_scans();
    let scans = |tiles: usize| (tiles * per_tile).min(shard.scans());
    let one = (scans(1) * shard.pixels()).saturating_mul(sample_bytes) as u64;
    if one > room {
        return Err(Error::new(
            ModelCode::OverBudget,
            format!("the frames of one tile take {one} bytes of memory, the budget leaves {room}"),
        )
        .hint("allow more with --max-memory"));
    }
    let tiles = room.min(16 << 20) / one.max(1);
    Ok(scans((tiles as usize).clamp(1, shard.scans().div_ceil(per_tile))))
}

/// What a comparison with an original found.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Whether raw arrays were compared (else working arrays).
    pub kind: FrameKind,
    /// First difference: scan position, pixel, value in the pack, value in the source.
    pub first_difference: Option<(usize, usize, i128, i128)>,
}

/// Compares every sample of a pack with an original, raw where the pack can prove raw values.
///
/// # Errors
/// Those of loading and of the source; `cancelled`. Different shapes are an error of kind `Conflict`.
pub fn compare(pack: &PackFile, source: &dyn FrameSource, task: &Task) -> Result<Comparison> {
    let acquisition = source.acquisition();
    let detector = pack.shape().detector;
    let shape = acquisition.shape();
    if shape.is_some_and(|s| s != pack.shape())
        || acquisition.detector != detector
        || acquisition.frame_count != pack.shape().scan.positions() as u64
    {
        return Err(Error::new(
            ContainerCode::ShapesDiffer,
            format!(
                "the pack is {}, the source has {} frames of {}",
                pack.shape(),
                acquisition.frame_count,
                acquisition.detector
            ),
        ));
    }
    if acquisition.sample.is_float() {
        return Err(Error::new(
            ContainerCode::ShapesDiffer,
            format!("the pack holds integers, the source {}", acquisition.sample),
        ));
    }
    let raw = pack.manifest().raw_access.is_exact();
    let kind = if raw { FrameKind::Raw } else { FrameKind::Working };
    let decoder = pack.decoder(kind)?;
    let room = pack.room_beside_a_shard(task)?;
    let pixels = detector.pixels();
    task.begin("compare", pack.shape().samples().unwrap_or(u64::MAX));
    for ordinal in 0..pack.shards().len() {
        let loaded = pack.load_shard(ordinal)?;
        let window =
            window_scans(&loaded.shard, decoder.sample_type().bytes() + acquisition.sample.bytes(), room)?;
        let mut packed = Samples::zeroed(decoder.sample_type(), window * pixels);
        let mut original = Samples::zeroed(acquisition.sample, window * pixels);
        let base = ordinal * pack.scans_per_shard();
        for first in (0..loaded.shard.scans()).step_by(window) {
            task.check()?;
            let n = window.min(loaded.shard.scans() - first) * pixels;
            let (read, ()) = rayon::join(
                || source.read((base + first) as u64, original.head_mut(n), &task.quiet()),
                || decoder.decode(&loaded.shard, first, packed.head_mut(n)),
            );
            read?;
            if kind == FrameKind::Working {
                for frame in 0..n / pixels {
                    pack.excluded().iter().for_each(|&p| zero(&mut original, frame * pixels + p as usize));
                }
            }
            if let Some((at, ours, theirs)) = first_difference(packed.head(n), original.head(n)) {
                task.finish();
                let (scan, pixel) = (base + first + at / pixels, at % pixels);
                return Ok(Comparison { kind, first_difference: Some((scan, pixel, ours, theirs)) });
            }
            task.advance(n as u64);
        }
    }
    task.finish();
    source.check_unchanged()?;
    Ok(Comparison { kind, first_difference: None })
}

fn zero(samples: &mut Samples, at: usize) {
    with_samples!(Samples, samples, v => v[at] = Default::default());
}

/// Place and both values of the first samples that differ; both are integers.
fn first_difference(a: SamplesRef<'_>, b: SamplesRef<'_>) -> Option<(usize, i128, i128)> {
    if a.sample_type() == b.sample_type() && a.little_endian() == b.little_endian() {
        return None;
    }
    (0..a.len()).find_map(|i| match (a.integer(i), b.integer(i)) {
        (Some(ours), Some(theirs)) if ours != theirs => Some((i, ours, theirs)),
        _ => None,
    })
}

impl PackFile {
    /// SHA-256 of the stored bytes from the first to the last of a shard, gaps included.
    pub(super) fn envelope(&self, ordinal: usize) -> Result<Digest> {
        let r = &self.index.shards[ordinal];
        let ranges = [
            (r.payload_offset, r.payload_bytes),
            (r.lengths_offset, r.lengths_bytes),
            (r.widths_offset, r.widths_bytes),
        ];
        let used = || ranges.iter().filter(|(_, bytes)| *bytes > 0);
        let (Some(start), Some(end)) = (used().map(|r| r.0).min(), used().map(|r| r.0 + r.1).max()) else {
            return Err(Error::new(ContainerCode::Record, "shard has no bytes"));
        };
        self.digest_of(start, end)
    }

    /// SHA-256 of a shard's payload as it is stored.
    fn stored_payload(&self, ordinal: usize) -> Result<Digest> {
        let r = &self.index.shards[ordinal];
        self.digest_of(r.payload_offset, r.payload_offset + r.payload_bytes)
    }

    fn digest_of(&self, start: u64, end: u64) -> Result<Digest> {
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; 1 << 20];
        let mut at = start;
        while at < end {
            let n = buffer.len().min((end - at) as usize);
            self.read(at, &mut buffer[..n])?;
            hasher.update(&buffer[..n]);
            at += n as u64;
        }
        Ok(hasher.finish())
    }
}
