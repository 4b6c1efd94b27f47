//! The header of a new file: scientific metadata, private restoration data, chunk table and checksums.

use super::background::{Background, SUBTRACTION};
use super::calibration::EXTENSION;
use super::documents;
use super::header::mask_digits;
use super::layout::Chunk;
use super::narrow::Narrowing;
use super::processing::LOSSLESS;
use super::scientific::{AXES, SCHEMA_2};
use super::units::{CAMERA_LENGTH, DWELL_TIME, PAIRS, SEMI_ANGLE, VOLTAGE};
use super::{INTERVAL, QemCodec};
use crate::json::Object;
use crate::{ContainerCode, Digest, identity};
use serde_json::{Map, Value, json};
use stempack_model::{
    Acquisition, BackgroundSubtraction, Error, MaskOrigin, MemberDigest, Quantity, Recorded, Result, Shape4,
};

/// What a header is made of.
pub(super) struct Facts<'a> {
    pub(super) acquisition: &'a Acquisition,
    pub(super) shape: Shape4,
    pub(super) codec: QemCodec,
    pub(super) narrowing: Narrowing,
    pub(super) valid: &'a [bool],
    pub(super) overrides: Object,
    /// What products are to be corrected by; the samples stay as they are.
    pub(super) background: Option<&'a Background>,
}

/// What only the finished body tells.
pub(super) struct Finished<'a> {
    pub(super) chunks: &'a [Chunk],
    pub(super) body_bytes: u64,
    pub(super) checksums: &'a [Digest],
    pub(super) logical_sha256: Digest,
    pub(super) members: &'a [MemberDigest],
}

impl Facts<'_> {
    /// Compact JSON with sorted keys and ASCII alone: every parser reads it alike.
    pub(super) fn header(&self, finished: &Finished<'_>) -> String {
        let codec = self.codec.as_str();
        let mut h = json!({
            "container": "quantem.qem",
            "container_version": 1,
            "codec": codec,
            "profile": codec,
            "version": 1,
            "shape": self.shape.dims(),
            "dtype": self.narrowing.stored.as_str(),
            "chunks": finished.chunks.iter().map(|c| chunk_entry(self.codec, c)).collect::<Vec<_>>(),
            "bytes": finished.body_bytes,
            "sha256": finished.checksums.iter().map(|d| d.to_hex()).collect::<Vec<_>>(),
            "scientific_metadata": self.scientific(finished),
            "metadata": self.private(finished),
        });
        match self.codec {
            QemCodec::Lanes => {
                h["logical_sha256"] = finished.logical_sha256.to_hex().into();
                h["empad"] = self.empad();
            }
            _ => {
                h["interval"] = INTERVAL.into();
                h["valid"] = mask_digits(self.valid).into();
            }
        }
        serialise(h)
    }

    /// Bytes that no header of these facts exceeds, however its chunks and checksums turn out.
    pub(super) fn most_bytes(&self, chunks: u64, body_bytes: u64, members: &[MemberDigest]) -> Result<u64> {
        let checksums = body_bytes.div_ceil(super::header::BLOCK_BYTES);
        let finished =
            Finished { chunks: &[], body_bytes, checksums: &[], logical_sha256: Digest([0; 32]), members };
        let fixed = self.header(&finished).len() as u64;
        let span = super::layout::Span { offset: body_bytes, bytes: body_bytes };
        let widest = Chunk {
            first: self.shape.scan.positions() as u64,
            scans: self.shape.scan.positions() as u64,
            payload: span,
            offsets: span,
            selectors: span,
            spatial: (self.codec == QemCodec::Columns).then_some([span; 3]),
            region: 0,
        };
        let entry = chunk_entry(self.codec, &widest).to_string().len() as u64 + 1;
        let bytes = fixed + chunks * entry + checksums * 67;
        if bytes > super::envelope::MOST_HEADER_BYTES {
            return Err(Error::new(
                ContainerCode::TooLarge,
                format!("a header for {chunks} chunks may need {bytes} bytes, 16 MiB are allowed"),
            ));
        }
        Ok(bytes)
    }

    fn scientific(&self, finished: &Finished<'_>) -> Value {
        let a = self.acquisition;
        let mut axes: Vec<Value> = (AXES.iter().zip(self.shape.dims()))
            .map(|(name, size)| json!({"name": name, "size": size}))
            .collect();
        let (mut microscope, mut left_over) = (Map::new(), Map::new());
        let detector = self.detector_pair();
        for (&quantity, recorded) in &a.quantities {
            if !(recorded.value.is_finite() && recorded.value > 0.0) {
                continue;
            }
            let axis = match quantity {
                Quantity::ScanStepRow => Some(0),
                Quantity::ScanStepCol => Some(1),
                q if q == detector.0 => Some(2),
                q if q == detector.1 => Some(3),
                _ => None,
            };
            let place = match (axis, quantity) {
                (Some(axis), _) => {
                    axes[axis]["sampling"] = self.quantity(recorded, quantity.unit());
                    true
                }
                (None, Quantity::BeamEnergy) => {
                    microscope.insert(VOLTAGE.into(), self.quantity(recorded, "kV"));
                    true
                }
                (None, quantity) => match quantity {
                    Quantity::SemiConvergenceAngle => Some(SEMI_ANGLE),
                    Quantity::DwellTime => Some(DWELL_TIME),
                    Quantity::CameraLength => Some(CAMERA_LENGTH),
                    _ => None,
                }
                .map(|path| microscope.insert(path.into(), self.quantity(recorded, quantity.unit())))
                .is_some(),
            };
            if !place || recorded.flag.is_some() {
                let mut value = self.quantity(recorded, quantity.unit());
                if let Some(flag) = &recorded.flag {
                    value["flag"] = flag.as_str().into();
                }
                left_over.insert(quantity.as_str().into(), value);
            }
        }
        let mut own = json!({
            "logical_sha256": finished.logical_sha256.to_hex(),
            "detector_mask": {
                "sha256": Digest(a.excluded.mask_sha256).to_hex(),
                "origin": match a.excluded.origin {
                    MaskOrigin::SourceMask => "source",
                    MaskOrigin::ImplicitAllAdmitted => "implicit",
                },
            },
        });
        if !left_over.is_empty() {
            own["quantities"] = Value::Object(left_over);
        }
        json!({
            "schema": SCHEMA_2,
            "axes": axes,
            "electron_microscope": microscope,
            "calibration_overrides": self.overrides,
            "source_metadata": self.source_metadata(),
            "source_metadata_coverage": "reader-retained",
            "source_format": self.source_format(),
            "source_documents": self.documents(),
            "processing": self.processing(),
            "extensions": { EXTENSION: own },
        })
    }

    /// The one pair of detector steps that the axes carry: the angle where it is whole, else the reciprocal length.
    fn detector_pair(&self) -> (Quantity, Quantity) {
        let whole = |(row, col): (Quantity, Quantity)| {
            self.acquisition.quantities.contains_key(&row) && self.acquisition.quantities.contains_key(&col)
        };
        if whole(PAIRS[2]) && !whole(PAIRS[1]) { PAIRS[2] } else { PAIRS[1] }
    }

    fn quantity(&self, recorded: &Recorded<f64>, unit: &str) -> Value {
        let mut evidence = recorded.origin.to_string();
        if !recorded.conversion.is_empty() {
            evidence = format!("{evidence}; {}", recorded.conversion);
        }
        json!({
            "value": recorded.value,
            "unit": unit,
            "provenance": "source_metadata",
            "evidence": self.without_folders(&evidence),
        })
    }

    /// No text of ours tells where on a disk the source lay.
    fn without_folders(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for member in &self.acquisition.members {
            if let Some(folder) = member.path.parent().and_then(|p| p.to_str()).filter(|p| p.len() > 1) {
                text = text.replace(&format!("{folder}/"), "");
            }
        }
        text
    }

    fn source_format(&self) -> &str {
        // A copy of a copy keeps the name of what was saved first.
        self.acquisition.provenance.get("sourceFormat").unwrap_or(&self.acquisition.format)
    }

    fn source_metadata(&self) -> Map<String, Value> {
        let a = self.acquisition;
        let mut tags: Map<String, Value> = Map::new();
        let reader = a.provenance.get("sourceReader").unwrap_or(&a.reader);
        tags.insert("sourceFormat".into(), self.source_format().into());
        tags.insert("sourceFormatVersion".into(), reader.as_str().into());
        for (&key, text) in &a.identity {
            tags.insert(key.into(), text.as_str().into());
        }
        if let Some(unit) = &a.signal_unit {
            tags.insert("signal_unit".into(), unit.as_str().into());
        }
        if let BackgroundSubtraction::AlreadySubtracted { file, sentence } = &a.background {
            tags.insert("supplier_background_statement".into(), sentence.as_str().into());
            tags.insert("supplier_background_file".into(), file.as_str().into());
        }
        for (key, text) in &a.retained {
            tags.entry(key.as_str()).or_insert_with(|| text.as_str().into());
        }
        tags
    }

    /// Documents that the format can carry; a text that is not what it says stays behind.
    fn documents(&self) -> Vec<Value> {
        let mut bytes = 0;
        let mut seen = Vec::new();
        let fits = |d: &&stempack_model::SourceDocument| {
            bytes += d.content.len();
            let fresh = !seen.contains(&d.sha256);
            seen.push(d.sha256);
            fresh
                && bytes <= documents::MOST_BYTES
                && documents::well_formed(d.media_type, &d.content).is_ok()
        };
        let name = |name: &str| {
            name.rsplit(['/', '\\']).next().filter(|n| !n.is_empty()).unwrap_or("document").to_owned()
        };
        (self.acquisition.documents.iter().filter(fits).take(documents::MOST))
            .map(|d| {
                json!({
                    "filename": name(&d.filename),
                    "mediaType": d.media_type,
                    "content": d.content,
                    "sha256": Digest::of(d.content.as_bytes()).to_hex(),
                })
            })
            .collect()
    }

    fn processing(&self) -> Vec<Value> {
        let mut list = vec![json!({"operation": LOSSLESS, "changes_measurements": false})];
        if let Some(operation) = self.narrowing.operation() {
            list.push(json!({
                "operation": operation,
                "changes_measurements": false,
                "source_dtype": self.narrowing.source.as_str(),
                "stored_dtype": self.narrowing.stored.as_str(),
            }));
        }
        if self.background.is_some() {
            list.push(json!({
                "operation": SUBTRACTION,
                "changes_measurements": true,
                "scope": "display_and_products",
                "original_measurements_preserved": true,
            }));
        }
        list
    }

    /// The names that readers of this field look for beside the schema.
    fn private(&self, finished: &Finished<'_>) -> Value {
        let a = self.acquisition;
        let mut p = json!({
            "source_metadata": self.source_metadata(),
            "source_shape": self.shape.dims(),
            "source_dtype": self.narrowing.source.as_str(),
            "dtype": self.narrowing.stored.as_str(),
            "file_counts_exact": true,
            "lossless_exact": true,
            "axis_order": ["scan_row", "scan_col", "detector_row", "detector_col"],
            "original_source_identity_sha256": identity::source_identity(finished.members).to_hex(),
            "source_files": finished.members.iter().map(|m| self.member(m)).collect::<Vec<_>>(),
        });
        let value = |q: Quantity| a.quantities.get(&q).map(|r| r.value).filter(|v| v.is_finite() && *v > 0.0);
        let pair = |(row, col): (Quantity, Quantity)| Some([value(row)?, value(col)?]);
        if let Some(steps) = pair(PAIRS[0]) {
            p["scan_sampling_A"] = json!(steps);
        }
        let detector = self.detector_pair();
        if let Some(steps) = pair(detector) {
            p["detector_sampling"] = json!(steps);
            p["detector_sampling_unit"] = detector.0.unit().into();
            if detector == PAIRS[2] {
                p["detector_sampling_inv_A"] = json!(steps);
            }
        }
        if let Some(energy) = value(Quantity::BeamEnergy) {
            p["voltage_kV"] = json!(energy);
        }
        for (&key, text) in &a.identity {
            p[key] = text.as_str().into();
        }
        p
    }

    fn member(&self, digest: &MemberDigest) -> Value {
        let member = self.acquisition.members.get(digest.member);
        let name = member.and_then(|m| m.path.file_name()).unwrap_or_default().to_string_lossy();
        json!({
            "name": name,
            "role": digest.role.as_str(),
            "bytes": member.map_or(0, |m| m.bytes),
            "sha256": Digest(digest.sha256).to_hex(),
        })
    }

    fn empad(&self) -> Value {
        let a = self.acquisition;
        let reader = a.provenance.get("sourceReader").unwrap_or(&a.reader);
        let mut e = json!({
            "format_identifier": reader,
            "format_name": self.source_format(),
            "microscope_metadata": self.source_metadata(),
            "user_confirmed_background_corrected": false,
        });
        if let Some(date) = a.identity.get("acquisition_date") {
            e["acquisition_date"] = date.as_str().into();
        }
        if let BackgroundSubtraction::AlreadySubtracted { sentence, .. } = &a.background {
            e["supplier_background_statement"] = sentence.as_str().into();
        }
        if let Some(background) = self.background {
            e["background"] = background.object();
        }
        e
    }
}

/// One entry of the chunk table.
pub(super) fn chunk_entry(codec: QemCodec, chunk: &Chunk) -> Value {
    let mut entry = json!({"first": chunk.first, "scans": chunk.scans});
    match codec {
        QemCodec::Columns | QemCodec::Scaled => {
            let spatial = chunk.spatial.unwrap_or_default();
            let spans = [chunk.payload, chunk.offsets, chunk.selectors, spatial[0], spatial[1], spatial[2]];
            let arrays = spans.iter().zip([1, 4, 1, 4, 8, 1]);
            entry["arrays"] =
                arrays.map(|(s, size)| json!({"offset": s.offset, "count": s.bytes / size})).collect();
        }
        QemCodec::Lanes | QemCodec::Xor => {
            for (name, span) in
                [("payload", chunk.payload), ("offset", chunk.offsets), ("model", chunk.selectors)]
            {
                entry[format!("{name}_offset")] = span.offset.into();
                entry[format!("{name}_bytes")] = span.bytes.into();
            }
        }
    }
    entry
}

/// Compact, keys sorted at every depth, everything beyond ASCII escaped.
pub(super) fn serialise(value: Value) -> String {
    let text = sorted(value).to_string();
    if text.is_ascii() {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}
