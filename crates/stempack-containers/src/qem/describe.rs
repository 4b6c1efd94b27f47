//! What a `.qem` file says about the acquisition it was saved from.

use super::calibration::{Calibration, EXTENSION};
use super::header::Header;
use super::values::At;
use super::{QemCodec, READER, documents};
use crate::json::Object;
use crate::{ContainerCode, Digest};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::path::Path;
use stempack_model::{
    Acquisition, BackgroundSubtraction, Exclusions, MaskOrigin, Member, MemberRole, SampleType, ScanEvidence,
    Warning,
};

const K3: &str = "K3 DM4";
const DM4: &str = "DigitalMicrograph DM4";
/// Label of a copy that does not say what it was saved from.
const UNNAMED: &str = "QuantEM data";
/// Texts retained from a header; a real one has a few hundred.
const MOST_RETAINED: usize = 10_000;

/// Where a text about the acquisition may stand, in the order that decides.
struct Texts<'a> {
    tags: [Option<&'a Object>; 2],
    flat: [Option<&'a Object>; 2],
}

impl<'a> Texts<'a> {
    fn of(header: &'a Header) -> Self {
        let inner = |section: &str, key: &str| header.section(section).and_then(|s| s.get(key)?.as_object());
        Texts {
            tags: [inner("scientific_metadata", "source_metadata"), inner("metadata", "source_metadata")],
            flat: [header.section("metadata"), header.section("empad")],
        }
    }
    fn named(&self, names: &[&str]) -> Option<&'a str> {
        let sections = self.tags.iter().chain(&self.flat).flatten();
        sections
            .flat_map(|s| names.iter().filter_map(|name| s.get(*name)?.as_str()))
            .find(|text| !text.trim().is_empty())
    }
    /// A tag of the DM4 file that ends in `path`, whatever separates its parts.
    fn dm4_tag(&self, path: &[&str]) -> Option<&'a str> {
        self.dm4_tags()
            .find(|(key, _)| {
                let parts: Vec<&str> = key.split(['.', '/', ':']).collect();
                parts.ends_with(path)
            })
            .and_then(|(_, v)| v.as_str())
            .filter(|text| !text.trim().is_empty())
    }
    fn dm4_tags(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.tags.into_iter().flatten().flatten().filter(|(key, _)| key.starts_with("dm4."))
    }
}

pub(super) fn acquisition(header: &Header, calibration: &Calibration, path: &Path) -> Acquisition {
    let texts = Texts::of(header);
    let model =
        texts.named(&["camera_model"]).or_else(|| texts.dm4_tag(&["Acquisition", "Device", "Source Model"]));
    let recorded_format = texts
        .named(&["sourceFormat"])
        .or_else(|| header.section("scientific_metadata")?.get("source_format")?.as_str())
        .filter(|f| !f.trim().is_empty() && *f != "unknown");
    let dm4 = match recorded_format {
        Some(format) => format == K3 || format == DM4,
        None => texts.dm4_tags().next().is_some(),
    };
    let is_k3 = model.is_some_and(|m| m.trim().eq_ignore_ascii_case("K3"));
    let format = match (dm4, recorded_format) {
        (true, _) if is_k3 => K3,
        (true, _) => DM4,
        (false, Some(format)) => format,
        (false, None) => UNNAMED,
    };
    let sample = match header.codec {
        QemCodec::Columns => header.stored,
        QemCodec::Lanes | QemCodec::Xor | QemCodec::Scaled => SampleType::F32,
    };
    let shape = header.shape;
    let mut a = Acquisition::new(
        format,
        READER,
        shape.scan.positions() as u64,
        shape.detector,
        sample,
        exclusions(header),
    );
    a.label = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    a.scan = Some(ScanEvidence { shape: shape.scan, evidence: "shape of the header".into(), stated: false });
    a.quantities = calibration.recorded.clone();
    a.provenance.insert("sourceKind", "ans-snapshot".into());
    let schema = if header.legacy { "QGPUSTRM/v1" } else { header.codec.as_str() };
    a.provenance.insert("storageSchema", schema.into());
    if let Some(format) = recorded_format {
        a.provenance.insert("sourceFormat", format.into());
    }
    if let Some(reader) = texts.named(&["sourceFormatVersion", "format_identifier"]) {
        a.provenance.insert("sourceReader", reader.into());
    }
    let identity = [
        ("camera_model", model),
        (
            "camera_id",
            texts.named(&["camera_id"]).or_else(|| texts.dm4_tag(&["Acquisition", "Device", "Source ID"])),
        ),
        (
            "acquisition_processing",
            texts
                .named(&["acquisition_processing"])
                .or_else(|| texts.dm4_tag(&["Acquisition", "Parameters", "High Level", "Processing"])),
        ),
        ("acquisition_date", texts.named(&["acquisition_date", "acquisitionDate"])),
    ];
    for (key, text) in identity {
        if let Some(text) = text {
            a.identity.insert(key, text.to_owned());
        }
    }
    a.signal_unit = texts.named(&["signal_unit"]).map(str::to_owned);
    if let Some(sentence) = texts.named(&["supplier_background_statement"]) {
        let file = texts.named(&["supplier_background_file"]).unwrap_or_default().to_owned();
        a.background = BackgroundSubtraction::AlreadySubtracted { file, sentence: sentence.to_owned() };
    }
    (a.retained, a.retained_left_out) = retained(&texts);
    let list = header.section("scientific_metadata").and_then(|s| s.get("source_documents"));
    let at = At::new("scientific_metadata.source_documents", ContainerCode::QemMetadata);
    // Checked when the header was parsed.
    a.documents = documents::read(&at, list).unwrap_or_default();
    a.members = vec![Member {
        path: path.to_owned(),
        role: MemberRole::Data,
        bytes: header.body_start + header.body_bytes,
    }];
    warnings(header, &mut a, recorded_format == Some(K3) && !is_k3);
    a
}

fn warnings(header: &Header, a: &mut Acquisition, doubtful_k3: bool) {
    let mut warn = |code, message: &str| a.warnings.push(Warning { code, message: message.to_owned() });
    if doubtful_k3 {
        warn("camera_not_recorded", "the file calls itself K3 DM4, but records no K3 as its camera model");
    }
    if header.codec == QemCodec::Scaled {
        warn(
            "derived_intensities",
            "the samples are codes on a scale, restored to floats: derived intensities, not measured counts",
        );
    }
    if header.section("empad").is_some_and(|e| e.contains_key("background")) {
        warn(
            "saved_background",
            "a mean dark frame is saved with the data: products subtract it once, raw frames keep what was measured",
        );
    }
    if header.legacy {
        warn("retired_format", "this is a retired QGPUSTRM file: save it as `.qem` and verify the copy");
    }
}

/// Text tags of the source, numbers and other values as JSON.
fn retained(texts: &Texts<'_>) -> (Vec<(String, String)>, usize) {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut left_out = 0;
    for (section, tags) in texts.tags.iter().enumerate() {
        for (key, value) in tags.iter().flat_map(|t| t.iter()) {
            if section > 0 && texts.tags[0].is_some_and(|t| t.contains_key(key)) {
                continue;
            }
            if all.len() == MOST_RETAINED {
                left_out += 1;
                continue;
            }
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            all.push((key.clone(), text));
        }
    }
    (all, left_out)
}

/// Pixels that the mask says are not valid. The digest is of a mask of ones, unless the file carries the digest of the
/// words it was made from.
fn exclusions(header: &Header) -> Exclusions {
    let detector_pixels = header.shape.detector.pixels();
    let flags = header.valid.as_deref();
    let mut hash = Sha256::new();
    let mut words = Vec::with_capacity(4096);
    let mut pixels = Vec::new();
    for p in 0..detector_pixels {
        let excluded = flags.is_some_and(|f| !f[p]);
        if excluded {
            pixels.push(p as u32);
        }
        words.extend_from_slice(&u32::from(excluded).to_le_bytes());
        if words.len() == 4096 || p + 1 == detector_pixels {
            hash.update(&words);
            words.clear();
        }
    }
    let extension = header.section("scientific_metadata").and_then(|s| s.get("extensions"));
    let own = extension.and_then(|e| e.get(EXTENSION)?.get("detector_mask"));
    let recorded = own.and_then(|m| Digest::from_hex(m.get("sha256")?.as_str()?));
    let implicit = own.and_then(|m| m.get("origin")?.as_str()) == Some("implicit");
    Exclusions {
        mask_sha256: recorded.map_or_else(|| hash.finalize().into(), |d| d.0),
        origin: match flags {
            Some(_) if !(implicit && pixels.is_empty()) => MaskOrigin::SourceMask,
            _ => MaskOrigin::ImplicitAllAdmitted,
        },
        pixels,
    }
}
