//! The documents of a production: manifest and receipt, from what was planned, proven and written.

use super::encode::Mode;
use super::hashing::Streams;
use super::index::Index;
use super::manifest::{POLICY_RETAINED, SCHEMA_U8, SCHEMA_U16, SOURCE_NOTE_SCHEMA, WORKING_U8, WORKING_U16};
use super::plan::Plan;
use super::receipt::{FORMAT_SCHEMA, ReceiptShard, SCHEMA as RECEIPT_SCHEMA};
use crate::Digest;
use serde_json::{Map, Value, json};
use stempack_codecs::shard::Profile;
use stempack_model::{Acquisition, MaskOrigin, MemberDigest, Quantity};

/// The backend named in manifests and receipts.
const BACKEND: &str = "cpu";

pub(super) struct Facts<'a> {
    pub(super) acquisition: &'a Acquisition,
    pub(super) members: &'a [MemberDigest],
    pub(super) plan: &'a Plan,
    pub(super) mode: Mode,
    pub(super) index: &'a Index,
    pub(super) streams: &'a Streams,
    /// Values of the excluded pixels.
    pub(super) constants: &'a [u32],
    pub(super) shards: &'a [ReceiptShard],
}

/// What only the finished file tells.
pub(super) struct Finished {
    pub(super) destination: String,
    pub(super) completed_utc: String,
    pub(super) output_bytes: u64,
    pub(super) output_sha256: Digest,
    pub(super) peak_bytes: u64,
    /// Milliseconds: source authentication, decoding and packing, container, stability and output hash, total.
    pub(super) timing: [f64; 5],
}

impl Facts<'_> {
    fn masked_pixels_sha256(&self) -> Digest {
        let words: Vec<u8> = self.index.excluded.iter().flat_map(|p| p.to_le_bytes()).collect();
        Digest::of(&words)
    }
    fn mask_origin(&self) -> &'static str {
        match self.acquisition.excluded.origin {
            MaskOrigin::SourceMask => "source-little-endian-u32-mask",
            MaskOrigin::ImplicitAllAdmitted => "implicit-all-admitted-u32-mask",
        }
    }

    /// Compact JSON with sorted keys, as public producers write it.
    pub(super) fn manifest(&self) -> String {
        let mut m = Map::new();
        let mut put = |key: &str, value: Value| m.insert(key.to_owned(), value);
        let profile = self.mode.profile();
        put("status", "complete".into());
        put("source_shape", json!(self.index.shape.dims()));
        put("source_identity_sha256", self.index.source_identity.to_hex().into());
        put("source_dtype", "uint16".into());
        put("scan_bin", 1.into());
        put("detector_bin", 1.into());
        put("crop", Value::Null);
        put("shard_count", self.index.shards.len().into());
        put("detector_mask_sha256", Digest(self.acquisition.excluded.mask_sha256).to_hex().into());
        put("detector_mask_identity_origin", self.mask_origin().into());
        put("encoding_profile", profile.encoding_profile().into());
        put("format_schema", FORMAT_SCHEMA.into());
        put("producer_execution_backend", BACKEND.into());
        put("producer_gpu_accelerated", false.into());
        put("producer_receipt_schema", RECEIPT_SCHEMA.into());
        put("source_calibration", self.calibration(false));
        if let Some(raw) = self.streams.raw {
            put("source_raw_logical_sha256", raw.to_hex().into());
        }
        match profile {
            Profile::U8 => {
                put("schema", SCHEMA_U8.into());
                put("scan_tile", 32.into());
                put("payload_codec", "direct-bitpacked-u32".into());
                put("working_dtype", "uint8".into());
                put("working_value_definition", WORKING_U8.into());
                put("prepared_uint8_sha256", self.streams.working.to_hex().into());
                put("masked_detector_pixels", json!(self.index.excluded));
                put("masked_detector_pixels_sha256", self.masked_pixels_sha256().to_hex().into());
                put("masked_detector_raw_values", json!(self.constants));
            }
            Profile::U16 => {
                let cols = self.index.shape.detector.cols() as u32;
                let pairs: Vec<[u32; 2]> = self.index.excluded.iter().map(|p| [p / cols, p % cols]).collect();
                put("schema", SCHEMA_U16.into());
                put("scans_per_shard", self.index.scans_per_shard.into());
                put("payload_chunk_bytes", 128.into());
                put("payload_chunk_codec", "independent raw LZ4 blocks".into());
                put("payload_chunk_length_codec", "uint8 encoded_bytes_minus_one".into());
                put("descriptor_codec", "uint8 five-bit widths".into());
                put("working_dtype", "uint16".into());
                put("working_value_definition", WORKING_U16.into());
                put("working_logical_sha256", self.streams.working.to_hex().into());
                put("masked_detector_pixels", json!(pairs));
                put("shards", self.shard_table());
                if self.mode == Mode::U16Retained {
                    put("masked_detector_payload_policy", POLICY_RETAINED.into());
                }
            }
        }
        if let Some(original) = self.streams.original {
            let mut note = json!({
                "schema": SOURCE_NOTE_SCHEMA,
                "dtype": self.acquisition.sample.as_str(),
                "logical_sha256": original.to_hex(),
            });
            if self.mode == Mode::U16Constants {
                note["excluded_raw_values"] = json!(self.constants);
            }
            put("stempack_source", note);
        }
        sorted(Value::Object(m)).to_string()
    }

    fn shard_table(&self) -> Value {
        self.index
            .shards
            .iter()
            .zip(self.shards)
            .map(|(r, s)| {
                json!({
                    "ordinal": s.ordinal,
                    "scan_count": s.scan_count,
                    "payload_file_offset": r.payload_offset,
                    "payload_file_bytes": r.payload_bytes,
                    "lengths_file_offset": r.lengths_offset,
                    "lengths_file_bytes": r.lengths_bytes,
                    "descriptor_widths_file_offset": r.widths_offset,
                    "descriptor_widths_file_bytes": r.widths_bytes,
                    "payload_decoded_bytes": r.decoded_bytes,
                    "descriptor_count": r.descriptor_count,
                    "payload_chunk_count": r.chunk_count,
                    "payload_decoded_sha256": r.decoded_sha256.to_hex(),
                    "descriptor_widths_sha256": s.header_sha256,
                    "maximum_width": s.maximum_bit_width,
                })
            })
            .collect()
    }

    /// Samplings that are recorded, and the digest of the compact sorted JSON of them under their manifest names.
    fn calibration(&self, camel: bool) -> Value {
        let q = |quantity| self.acquisition.quantities.get(&quantity).map(|r| r.value);
        let nm = |quantity| q(quantity).map(|angstrom| angstrom / 10.0);
        let (row, col) = (q(Quantity::DetectorAngleRow), q(Quantity::DetectorAngleCol));
        let (row, col, unit) = if row.is_some() || col.is_some() {
            (row, col, Some("mrad"))
        } else {
            let (row, col) = (q(Quantity::DetectorReciprocalRow), q(Quantity::DetectorReciprocalCol));
            (row, col, (row.is_some() || col.is_some()).then_some("1/angstrom"))
        };
        let fields = [
            ("detector_column_sampling", "detectorColumnSampling", col.map(Value::from)),
            ("detector_row_sampling", "detectorRowSampling", row.map(Value::from)),
            ("detector_sampling_unit", "detectorSamplingUnit", unit.map(Value::from)),
            (
                "scan_column_sampling_nm",
                "scanColumnSamplingNanometer",
                nm(Quantity::ScanStepCol).map(Value::from),
            ),
            ("scan_row_sampling_nm", "scanRowSamplingNanometer", nm(Quantity::ScanStepRow).map(Value::from)),
        ];
        let present = || fields.iter().filter_map(|(snake, camel, v)| Some((snake, camel, v.clone()?)));
        let canonical: Map<String, Value> = present().map(|(snake, _, v)| ((*snake).to_owned(), v)).collect();
        let digest = Digest::of(Value::Object(canonical).to_string().as_bytes());
        let mut out: Map<String, Value> =
            present().map(|(snake, name, v)| ((if camel { *name } else { *snake }).to_owned(), v)).collect();
        out.insert("sha256".into(), digest.to_hex().into());
        Value::Object(out)
    }

    pub(super) fn receipt(&self, finished: &Finished) -> String {
        let members: Vec<Value> = self
            .members
            .iter()
            .filter_map(|d| {
                let member = self.acquisition.members.get(d.member)?;
                Some(json!({
                    "role": d.role.as_str(),
                    "path": member.path.display().to_string(),
                    "bytes": member.bytes,
                    "sha256": Digest(d.sha256).to_hex(),
                }))
            })
            .collect();
        let resident: u64 = self.index.shards.iter().map(|s| s.decoded_bytes + s.widths_bytes).sum();
        let working = if self.mode == Mode::U8 { "uint8" } else { "uint16" };
        let [authentication, packing, container, hashing, total] = finished.timing;
        let fields = json!({
            "schema": RECEIPT_SCHEMA,
            "formatSchema": FORMAT_SCHEMA,
            "encodingProfile": self.mode.profile().encoding_profile(),
            "completedUTC": finished.completed_utc,
            "destination": finished.destination,
            "outputBytes": finished.output_bytes,
            "outputSHA256": finished.output_sha256.to_hex(),
            "sourceMembers": members,
            "sourceIdentitySHA256": self.index.source_identity.to_hex(),
            "sourceRawLogicalSHA256": self.streams.raw.map(Digest::to_hex),
            "sourceLogicalSHA256": self.streams.original.map(Digest::to_hex),
            "workingLogicalSHA256": self.streams.working.to_hex(),
            "sourceShape": self.index.shape.dims(),
            "sourceDtype": self.acquisition.sample.as_str(),
            "workingDtype": working,
            "executionBackend": BACKEND,
            "gpuAccelerated": false,
            "scanTile": self.mode.profile().tile_scans(),
            "scansPerShard": self.index.scans_per_shard,
            "shardCount": self.index.shards.len(),
            "scanBin": 1,
            "detectorBin": 1,
            "badPixelIndices": self.index.excluded,
            "badPixelIdentitySHA256": self.masked_pixels_sha256().to_hex(),
            "detectorMaskIdentitySHA256": Digest(self.acquisition.excluded.mask_sha256).to_hex(),
            "detectorMaskIdentityOrigin": self.mask_origin(),
            "badPixelRawValues": if self.mode == Mode::U16Retained { Value::Null } else { json!(self.constants) },
            "calibration": self.calibration(true),
            "predictedPackedResidentMaximumBytes": self.plan.packed_maximum_bytes,
            "observedPackedResidentBytes": resident,
            "predictedPeakTransientBytes": self.plan.peak_bytes,
            "accountedPeakTransientBytes": finished.peak_bytes,
            "predictedOutputFileMaximumBytes": self.plan.output_maximum_bytes,
            "predictedReceiptFileMaximumBytes": self.plan.receipt_maximum_bytes,
            "predictedOutputDiskMaximumBytes": self.plan.disk_maximum_bytes(),
            "timing": {
                "sourceAuthenticationMilliseconds": authentication,
                "decodeAndPackingMilliseconds": packing,
                "containerWriteMilliseconds": container,
                "stabilityAndOutputHashMilliseconds": hashing,
                "totalBeforeAtomicPublicationMilliseconds": total,
            },
            "shards": self.shards,
        });
        super::receipt::to_text(fields)
    }
}

/// Objects with sorted keys at every depth.
pub(super) fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut pairs: Vec<_> = object.into_iter().collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(pairs.into_iter().map(|(k, v)| (k, sorted(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
