//! The JSON manifest: what both profiles require of it, and how raw values may be reconstructed.

use super::calibration::DetectorCalibration;
use super::index::Index;
use crate::json::{Keys, Object};
use crate::{ContainerCode, Digest};
use serde_json::Value;
use stempack_codecs::pack_u8::NibbleWidths;
use stempack_codecs::shard::Profile;
use stempack_model::{Error, Result, SampleType};

pub(super) const SCHEMA_U16: &str = "quantem.gpu.packed-detector-h5/v1";
pub(super) const SCHEMA_U8: &str = "quantem.gpu.packed-detector-h5/v3";
pub(super) const POLICY_RETAINED: &str = "retained_exactly_in_payload";
pub(super) const WORKING_U8: &str =
    "all admitted source counts exactly; authenticated dead pixels set to zero";
pub(super) const WORKING_U16: &str =
    "all source counts exactly; authenticated detector-mask pixels are excluded from scientific products";
pub(super) const SOURCE_NOTE_SCHEMA: &str = "stempack.source/1";

/// How exactly the detector's own values can be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawAccess {
    /// No pixel is excluded.
    NoExclusions,
    /// Excluded pixels are in the payload.
    RetainedPayload,
    /// Excluded pixels have recorded, producer-proven constants.
    ExclusionConstants,
    /// Excluded pixels have constants wider than 16 bits in this project's own manifest key.
    ExtensionConstants,
    /// Only the working array exists.
    MaskAppliedOnly,
    /// The file does not say what it was made from.
    ExternalAudit,
}

impl RawAccess {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            RawAccess::NoExclusions => "exact_no_exclusions",
            RawAccess::RetainedPayload => "exact_retained_payload",
            RawAccess::ExclusionConstants => "exact_exclusion_constants",
            RawAccess::ExtensionConstants => "exact_extension_constants",
            RawAccess::MaskAppliedOnly => "mask_applied_only_legacy",
            RawAccess::ExternalAudit => "external_audit_required",
        }
    }
    /// Whether raw values can be read.
    pub fn is_exact(self) -> bool {
        !matches!(self, RawAccess::MaskAppliedOnly | RawAccess::ExternalAudit)
    }
}

/// The sample type of the working array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkingType {
    /// Every admitted count fits eight bits.
    U8,
    /// Counts up to 16 bits.
    U16,
}

impl WorkingType {
    /// The same as a sample type.
    pub fn sample_type(self) -> SampleType {
        match self {
            WorkingType::U8 => SampleType::U8,
            WorkingType::U16 => SampleType::U16,
        }
    }
}

/// What a source of another width than u16 was, recorded in this project's own key `stempack_source`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceNote {
    /// The source's sample type.
    pub sample: SampleType,
    /// SHA-256 of the source's little-endian sample stream.
    pub logical_sha256: Digest,
    /// Constants of the excluded pixels, in index order, when they do not fit 16 bits.
    pub excluded_raw_values: Option<Vec<u32>>,
}

/// What the optional shard table of the u16 profile records beyond the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardClaims {
    /// SHA-256 of all stored bytes of the shard, gaps included.
    pub envelope_sha256: Option<Digest>,
    /// SHA-256 of the stored payload.
    pub payload_sha256: Option<Digest>,
    /// SHA-256 of the widths.
    pub widths_sha256: Option<Digest>,
    /// Largest width.
    pub maximum_width: Option<u64>,
}

/// The validated manifest.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Sample type of the working array.
    pub working: WorkingType,
    /// How raw values can be read back.
    pub raw_access: RawAccess,
    /// Constants of the excluded pixels, in index order.
    pub raw_values: Option<Vec<u16>>,
    /// SHA-256 of the raw u16 stream.
    pub source_raw_logical_sha256: Option<Digest>,
    /// SHA-256 of the working stream in [`Manifest::working`] samples.
    pub working_sha256: Option<Digest>,
    /// SHA-256 of the source's whole mask.
    pub detector_mask_sha256: Option<Digest>,
    /// Sample type of the stream that [`Self::working_sha256`] is the digest of.
    pub working_hashed_as: SampleType,
    /// What the shard table says beyond the index, for every shard; empty without a table.
    pub shards: Vec<ShardClaims>,
    /// Bright-field disk and rotation.
    pub calibration: Option<DetectorCalibration>,
    /// What the source was, when it was not u16.
    pub source_note: Option<SourceNote>,
    /// The manifest as stored.
    pub object: Object,
}

impl Manifest {
    /// Validates a manifest against its index.
    pub(super) fn parse(object: Object, index: &Index) -> Result<Self> {
        let keys = Keys::new(&object);
        let schema = match index.profile {
            Profile::U16 => SCHEMA_U16,
            Profile::U8 => SCHEMA_U8,
        };
        let found = keys.string("schema")?;
        if found != schema {
            return Err(Error::new(
                ContainerCode::Disagreement,
                format!("manifest schema is `{found}`, the index is of `{schema}`"),
            ));
        }
        keys.exactly("status", "complete")?;
        let dims = keys.integers("source_shape", u64::from(u32::MAX))?;
        let expected = index.shape.dims().map(|d| d as u64);
        if dims != expected {
            return Err(Error::new(
                ContainerCode::Disagreement,
                format!("manifest shape is {dims:?}, the index says {expected:?}"),
            ));
        }
        let identity = keys.digest("source_identity_sha256")?;
        if identity != index.source_identity {
            return Err(Error::new(
                ContainerCode::Disagreement,
                format!("manifest source identity is {identity}, the index says {}", index.source_identity),
            ));
        }
        keys.exactly_u64("shard_count", index.shards.len() as u64, ContainerCode::Disagreement)?;
        match index.profile {
            Profile::U16 => Self::parse_u16(&object, index),
            Profile::U8 if is_minimal(&keys, index) => Self::parse_minimal(&object, index),
            Profile::U8 => Self::parse_u8(&object, index),
        }
    }

    fn parse_common(object: &Object, index: &Index) -> Result<Self> {
        let keys = Keys::new(object);
        Ok(Manifest {
            working: WorkingType::U16,
            raw_access: RawAccess::NoExclusions,
            raw_values: raw_values(&keys, index)?,
            source_raw_logical_sha256: keys.optional_digest("source_raw_logical_sha256")?,
            working_sha256: keys.optional_digest("working_logical_sha256")?,
            detector_mask_sha256: keys.optional_digest("detector_mask_sha256")?,
            working_hashed_as: SampleType::U16,
            shards: Vec::new(),
            calibration: DetectorCalibration::parse(object, index.source_identity, index.shape.detector)?,
            source_note: source_note(&keys, index)?,
            object: object.clone(),
        })
    }

    fn parse_u16(object: &Object, index: &Index) -> Result<Self> {
        let keys = Keys::new(object);
        keys.exactly("source_dtype", "uint16")?;
        let mut manifest = Self::parse_common(object, index)?;
        manifest.working = match keys.string("working_dtype")? {
            "uint8" => WorkingType::U8,
            "uint16" => WorkingType::U16,
            other => return Err(value_error("working_dtype", other, "uint8` or `uint16")),
        };
        unbinned(&keys)?;
        keys.exactly_u64("scans_per_shard", index.scans_per_shard as u64, ContainerCode::Disagreement)?;
        keys.exactly_u64("payload_chunk_bytes", 128, ContainerCode::Disagreement)?;
        keys.exactly("payload_chunk_codec", "independent raw LZ4 blocks")?;
        keys.exactly("payload_chunk_length_codec", "uint8 encoded_bytes_minus_one")?;
        keys.exactly("descriptor_codec", "uint8 five-bit widths")?;
        let cols = index.shape.detector.cols() as u64;
        let listed: Vec<u64> = keys
            .list("masked_detector_pixels")?
            .iter()
            .map(|pair| match pair.as_array().map(|p| (p.len(), p.first()?.as_u64(), p.get(1)?.as_u64()).into()) {
                Some(Some((2, Some(row), Some(col)))) if row <= u64::from(u32::MAX) && col < cols => Ok(row * cols + col),
                _ => Err(Error::new(
                    ContainerCode::ManifestKey,
                    "manifest key `masked_detector_pixels` holds something else than [row, column] pairs inside the \
                     detector",
                )),
            })
            .collect::<Result<_>>()?;
        same_exclusions(&listed, index)?;
        let policy = match keys.get("masked_detector_payload_policy") {
            None | Some(Value::Null) => None,
            Some(_) => Some(keys.string("masked_detector_payload_policy")?),
        };
        let constants = manifest.source_note.as_ref().is_some_and(|n| n.excluded_raw_values.is_some());
        manifest.raw_access = match policy {
            _ if index.excluded.is_empty() => RawAccess::NoExclusions,
            Some(POLICY_RETAINED) => RawAccess::RetainedPayload,
            Some(other) => return Err(value_error("masked_detector_payload_policy", other, POLICY_RETAINED)),
            None if constants => RawAccess::ExtensionConstants,
            None => RawAccess::MaskAppliedOnly,
        };
        manifest.shards = shard_table(&keys, index)?;
        Ok(manifest)
    }

    fn parse_u8(object: &Object, index: &Index) -> Result<Self> {
        let keys = Keys::new(object);
        keys.exactly("source_dtype", "uint16")?;
        let mut manifest = Self::parse_common(object, index)?;
        let digest_key = match index.nibbles {
            NibbleWidths::Literal => {
                keys.exactly("working_dtype", "uint8")?;
                (manifest.working, manifest.working_hashed_as) = (WorkingType::U8, SampleType::U8);
                "prepared_uint8_sha256"
            }
            NibbleWidths::Escape16 => {
                keys.exactly("working_dtype", "uint16")?;
                "working_logical_sha256"
            }
        };
        manifest.working_sha256 = Some(keys.digest(digest_key)?);
        manifest.source_raw_logical_sha256 = Some(keys.digest("source_raw_logical_sha256")?);
        manifest.detector_mask_sha256 = Some(keys.digest("detector_mask_sha256")?);
        keys.exactly("working_value_definition", WORKING_U8)?;
        unbinned(&keys)?;
        keys.exactly_u64("scan_tile", 32, ContainerCode::Disagreement)?;
        keys.exactly("payload_codec", "direct-bitpacked-u32")?;
        if keys.get("scans_per_shard").is_some() {
            keys.exactly_u64("scans_per_shard", index.scans_per_shard as u64, ContainerCode::Disagreement)?;
        }
        same_exclusions(&keys.integers("masked_detector_pixels", u64::from(u32::MAX))?, index)?;
        manifest.raw_access = match (&manifest.raw_values, index.excluded.is_empty()) {
            (Some(_), _) => RawAccess::ExclusionConstants,
            (None, true) => RawAccess::NoExclusions,
            (None, false) => RawAccess::MaskAppliedOnly,
        };
        Ok(manifest)
    }

    /// The pre-release form without embedded provenance: readable as working values, never a raw source.
    fn parse_minimal(object: &Object, index: &Index) -> Result<Self> {
        let keys = Keys::new(object);
        keys.digest("parent_hdf5_sha256")?;
        let working_sha256 = Some(keys.digest("prepared_uint8_sha256")?);
        keys.exactly("working_dtype", "uint8")?;
        keys.exactly_u64("scan_tile", 32, ContainerCode::Disagreement)?;
        keys.exactly("payload_codec", "direct-bitpacked-u32")?;
        // Not required of this form, but what is there must not contradict.
        for key in ["scan_bin", "detector_bin"].into_iter().filter(|key| keys.get(key).is_some()) {
            keys.exactly_u64(key, 1, ContainerCode::ManifestValue)?;
        }
        if keys.get("crop").is_some() {
            keys.null("crop")?;
        }
        if keys.get("working_value_definition").is_some() {
            keys.exactly("working_value_definition", WORKING_U8)?;
        }
        Ok(Manifest {
            working: WorkingType::U8,
            working_hashed_as: SampleType::U8,
            raw_access: RawAccess::ExternalAudit,
            raw_values: None,
            working_sha256,
            source_note: None,
            ..Self::parse_common(object, index)?
        })
    }
}

impl Manifest {
    /// SHA-256 of the stream of working samples of the type [`Self::working`], where one is recorded or follows from
    /// that of the raw stream.
    pub fn working_digest(&self) -> Option<Digest> {
        let sample = self.working.sample_type();
        let raw = (self.raw_access == RawAccess::NoExclusions && sample == SampleType::U16)
            .then_some(self.source_raw_logical_sha256)
            .flatten();
        self.working_sha256.filter(|_| self.working_hashed_as == sample).or(raw)
    }

    /// SHA-256 of the raw stream in the source's own width, where it is recorded.
    pub fn raw_digest(&self) -> Option<Digest> {
        match &self.source_note {
            Some(note) => Some(note.logical_sha256),
            None => self.source_raw_logical_sha256,
        }
    }
}

/// Facts sheet, section 5, "Legacy minimal v3": a parent digest instead of everything that says what was packed.
fn is_minimal(keys: &Keys<'_>, index: &Index) -> bool {
    index.excluded.is_empty()
        && index.nibbles == NibbleWidths::Literal
        && keys.get("parent_hdf5_sha256").is_some()
        && ["source_dtype", "source_raw_logical_sha256", "detector_mask_sha256", "masked_detector_pixels"]
            .iter()
            .all(|key| keys.get(key).is_none())
}

fn value_error(key: &str, found: &str, expected: &str) -> Error {
    Error::new(
        ContainerCode::ManifestValue,
        format!("manifest key `{key}` is `{found}`, expected `{expected}`"),
    )
}

fn unbinned(keys: &Keys<'_>) -> Result<()> {
    keys.exactly_u64("scan_bin", 1, ContainerCode::ManifestValue)?;
    keys.exactly_u64("detector_bin", 1, ContainerCode::ManifestValue)?;
    keys.null("crop")
}

fn same_exclusions(listed: &[u64], index: &Index) -> Result<()> {
    if listed.iter().copied().eq(index.excluded.iter().map(|&p| u64::from(p))) {
        return Ok(());
    }
    Err(Error::new(
        ContainerCode::Disagreement,
        format!(
            "manifest lists {} excluded pixels, the index {}, and they are not the same in the same order",
            listed.len(),
            index.excluded.len()
        ),
    ))
}

/// `masked_detector_raw_values` with its digest. Half of the pair is a fault in the u16 profile and makes a u8 file
/// nonportable (facts sheet, sections 5 and 10).
fn raw_values(keys: &Keys<'_>, index: &Index) -> Result<Option<Vec<u16>>> {
    let digest = keys.optional_digest("masked_detector_pixels_sha256")?;
    if let Some(found) = digest {
        let words: Vec<u8> = index.excluded.iter().flat_map(|p| p.to_le_bytes()).collect();
        let expected = Digest::of(&words);
        if found != expected {
            return Err(Error::new(
                ContainerCode::DigestMismatch,
                format!("masked_detector_pixels_sha256 is {found}, the excluded pixels hash to {expected}"),
            ));
        }
    }
    let values = keys
        .get("masked_detector_raw_values")
        .is_some()
        .then(|| keys.integers("masked_detector_raw_values", u64::from(u16::MAX)))
        .transpose()?;
    if let Some(values) = &values
        && values.len() != index.excluded.len()
    {
        return Err(Error::new(
            ContainerCode::Disagreement,
            format!("{} raw values for {} excluded pixels", values.len(), index.excluded.len()),
        ));
    }
    if index.profile == Profile::U16 && digest.is_some() != values.is_some() {
        return Err(Error::new(
            ContainerCode::ManifestKey,
            "masked_detector_raw_values and masked_detector_pixels_sha256 must be given both or not at all",
        ));
    }
    Ok(match (digest, values) {
        (Some(_), Some(values)) => Some(values.into_iter().map(|v| v as u16).collect()),
        _ => None,
    })
}

fn source_note(keys: &Keys<'_>, index: &Index) -> Result<Option<SourceNote>> {
    let object = match keys.get("stempack_source") {
        None => return Ok(None),
        Some(Value::Object(object)) => object,
        Some(other) => {
            return Err(Error::new(
                ContainerCode::ManifestKey,
                format!(
                    "manifest key `stempack_source` is {}, expected an object",
                    crate::json::type_name(other)
                ),
            ));
        }
    };
    let keys = Keys { object, prefix: "stempack_source." };
    keys.exactly("schema", SOURCE_NOTE_SCHEMA)?;
    let name = keys.string("dtype")?;
    let sample = SampleType::named(name)
        .filter(|&t| !t.is_float() && t != SampleType::U16)
        .ok_or_else(|| value_error("stempack_source.dtype", name, "an integer type other than uint16"))?;
    let excluded_raw_values = keys
        .get("excluded_raw_values")
        .is_some()
        .then(|| keys.integers("excluded_raw_values", u64::from(u32::MAX)))
        .transpose()?
        .map(|values| values.into_iter().map(|v| v as u32).collect::<Vec<_>>());
    if let Some(values) = &excluded_raw_values
        && (values.len() != index.excluded.len()
            || sample != SampleType::U32
            || index.profile != Profile::U16)
    {
        return Err(Error::new(
            ContainerCode::Disagreement,
            format!(
                "stempack_source.excluded_raw_values has {} values for {} excluded pixels of a {} source",
                values.len(),
                index.excluded.len(),
                sample
            ),
        ));
    }
    Ok(Some(SourceNote { sample, logical_sha256: keys.digest("logical_sha256")?, excluded_raw_values }))
}

/// The optional u16 shard table must repeat the binary records; returns what else it says.
fn shard_table(keys: &Keys<'_>, index: &Index) -> Result<Vec<ShardClaims>> {
    if keys.get("shards").is_none() {
        return Ok(Vec::new());
    }
    let table = keys.list("shards")?;
    if table.len() != index.shards.len() {
        return Err(Error::new(
            ContainerCode::Disagreement,
            format!("manifest lists {} shards, the index {}", table.len(), index.shards.len()),
        ));
    }
    table
        .iter()
        .zip(&index.shards)
        .enumerate()
        .map(|(ordinal, (entry, r))| {
            let Value::Object(object) = entry else {
                return Err(Error::new(
                    ContainerCode::ManifestKey,
                    format!(
                        "manifest shard {ordinal} is {}, expected an object",
                        crate::json::type_name(entry)
                    ),
                ));
            };
            let keys = Keys { object, prefix: "shards[]." };
            for (key, expected) in [
                ("ordinal", ordinal as u64),
                ("payload_file_offset", r.payload_offset),
                ("payload_file_bytes", r.payload_bytes),
                ("lengths_file_offset", r.lengths_offset),
                ("lengths_file_bytes", r.lengths_bytes),
                ("descriptor_widths_file_offset", r.widths_offset),
                ("descriptor_widths_file_bytes", r.widths_bytes),
                ("payload_decoded_bytes", r.decoded_bytes),
                ("descriptor_count", r.descriptor_count.into()),
                ("payload_chunk_count", r.chunk_count.into()),
            ] {
                keys.exactly_u64(key, expected, ContainerCode::Disagreement)
                    .map_err(|e| e.at(format_args!("shard {ordinal}")).with("shard", ordinal))?;
            }
            let digest = keys.digest("payload_decoded_sha256")?;
            if digest != r.decoded_sha256 {
                return Err(Error::new(
                    ContainerCode::Disagreement,
                    format!(
                        "shard {ordinal}: manifest digest is {digest}, the index says {}",
                        r.decoded_sha256
                    ),
                )
                .with("shard", ordinal));
            }
            let present = |key: &str| keys.get(key).is_some();
            if present("scan_count") {
                keys.exactly_u64("scan_count", index.scans_per_shard as u64, ContainerCode::Disagreement)
                    .map_err(|e| e.at(format_args!("shard {ordinal}")).with("shard", ordinal))?;
            }
            Ok(ShardClaims {
                envelope_sha256: keys.optional_digest("encoded_envelope_sha256")?,
                payload_sha256: keys.optional_digest("payload_compressed_sha256")?,
                widths_sha256: keys.optional_digest("descriptor_widths_sha256")?,
                maximum_width: present("maximum_width").then(|| keys.u64("maximum_width")).transpose()?,
            })
        })
        .collect()
}
