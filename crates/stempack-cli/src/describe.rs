//! How an acquisition is described: the JSON keys of `inspect` and the same for people.

use crate::printer::{hex, human_bytes};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use stempack::{Acquisition, Member, MemberDigest, Quantity, Recorded};

/// Axis names in order, and the quantity that is the step along each, the first one recorded.
const AXES: [(&str, &[Quantity]); 4] = [
    ("scan_row", &[Quantity::ScanStepRow]),
    ("scan_col", &[Quantity::ScanStepCol]),
    ("det_row", &[Quantity::DetectorAngleRow, Quantity::DetectorReciprocalRow]),
    ("det_col", &[Quantity::DetectorAngleCol, Quantity::DetectorReciprocalCol]),
];

/// One entry of `acquisitions[]`.
pub(crate) fn document(acquisition: &Acquisition, path: &str, digests: Option<&[MemberDigest]>) -> Value {
    let a = acquisition;
    let detector = [a.detector.rows(), a.detector.cols()];
    let mut doc = json!({
        "path": path,
        "label": a.label,
        "format": a.format,
        "reader": a.reader,
        "shape": a.shape().map(|s| s.dims()),
        "frame_count": a.frame_count,
        "detector_shape": detector,
        "dtype": a.sample.as_str(),
        "scan": a.scan.as_ref().map(|s| json!({
            "shape": [s.shape.rows(), s.shape.cols()], "evidence": s.evidence, "stated": s.stated,
        })),
        "axes": axes(a),
        "quantities": quantities(&a.quantities),
        "identity": a.identity,
        "provenance": a.provenance,
        "excluded_pixels": {
            "count": a.excluded.pixels.len(),
            "indices": a.excluded.pixels,
            "mask_sha256": hex(&a.excluded.mask_sha256),
        },
        "members": members(a, digests),
        "warnings": a.warnings.iter().map(|w| json!({ "code": w.code, "message": w.message })).collect::<Vec<_>>(),
        "retained": a.retained.iter().map(|(k, v)| json!({ "key": k, "value": v })).collect::<Vec<_>>(),
        "retained_left_out": a.retained_left_out,
    });
    if let Some(scan) = a.scan.as_ref().filter(|s| s.stated) {
        doc["overrides"] = json!({ "scan_shape": [scan.shape.rows(), scan.shape.cols()] });
    }
    doc
}

fn axes(a: &Acquisition) -> Vec<Value> {
    let scan = a.scan.as_ref().map(|s| s.shape);
    let sizes =
        [scan.map(|s| s.rows()), scan.map(|s| s.cols()), Some(a.detector.rows()), Some(a.detector.cols())];
    let axis = |((name, steps), size): ((&str, &[Quantity]), Option<usize>)| {
        let mut axis = json!({ "name": name, "size": size });
        if let Some((quantity, step)) = steps.iter().find_map(|q| Some((q, a.quantities.get(q)?))) {
            axis["step"] = step.value.into();
            axis["unit"] = quantity.unit().into();
        }
        axis
    };
    AXES.into_iter().zip(sizes).map(axis).collect()
}

/// Quantities in the order of their names, each with its unit and origin.
pub(crate) fn quantities(recorded: &BTreeMap<Quantity, Recorded<f64>>) -> Value {
    let mut all = Map::new();
    for quantity in Quantity::ALL {
        if let Some(recorded) = recorded.get(&quantity) {
            let mut entry = json!({
                "value": recorded.value, "unit": quantity.unit(), "origin": recorded.origin.to_string(),
                "conversion": recorded.conversion,
            });
            if let Some(flag) = &recorded.flag {
                entry["flag"] = flag.as_str().into();
            }
            all.insert(quantity.as_str().to_owned(), entry);
        }
    }
    Value::Object(all)
}

fn members(a: &Acquisition, digests: Option<&[MemberDigest]>) -> Vec<Value> {
    let member = |(index, m): (usize, &Member)| {
        let mut entry =
            json!({ "path": m.path.display().to_string(), "role": m.role.as_str(), "bytes": m.bytes });
        if let Some(digest) = digests.into_iter().flatten().find(|d| d.member == index) {
            entry["sha256"] = hex(&digest.sha256).into();
        }
        entry
    };
    a.members.iter().enumerate().map(member).collect()
}

/// The same for people.
pub(crate) fn text(acquisition: &Acquisition, path: &str, digests: Option<&[MemberDigest]>) -> String {
    let a = acquisition;
    let mut lines = vec![format!("{path}: {} (reader {})", a.format, a.reader)];
    let mut line = |name: &str, text: String| lines.push(format!("  {name:<22} {text}"));
    let logical =
        a.frame_count.saturating_mul(a.detector.pixels() as u64).saturating_mul(a.sample.bytes() as u64);
    let size = human_bytes(logical);
    match a.shape() {
        Some(shape) => line("shape", format!("{shape} {} (scan × detector), {size}", a.sample)),
        None => line("frames", format!("{} of {} {}, {size}", a.frame_count, a.detector, a.sample)),
    }
    match &a.scan {
        Some(scan) => line("scan shape", format!("{} ({})", scan.shape, scan.evidence)),
        None => line("scan shape", "not recorded; state it with --scan ROWSxCOLS".into()),
    }
    line("excluded pixels", a.excluded.pixels.len().to_string());
    for quantity in Quantity::ALL {
        if let Some(r) = a.quantities.get(&quantity) {
            let mut text = format!("{} {} ({})", r.value, quantity.unit(), r.origin);
            if let Some(flag) = &r.flag {
                // Writing to a String cannot fail.
                let _infallible = write!(text, ", {flag}");
            }
            line(quantity.as_str(), text);
        }
    }
    for (key, value) in &a.identity {
        line(key, value.clone());
    }
    for (key, value) in &a.provenance {
        line(key, value.clone());
    }
    for (index, m) in a.members.iter().enumerate() {
        let digest = digests.into_iter().flatten().find(|d| d.member == index);
        let digest = digest.map(|d| format!(", SHA-256 {}", hex(&d.sha256))).unwrap_or_default();
        line(m.role.as_str(), format!("{} ({}{digest})", m.path.display(), human_bytes(m.bytes)));
    }
    for warning in &a.warnings {
        line("warning", format!("{} [{}]", warning.message, warning.code));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use stempack::{DetectorShape, Exclusions, Origin, Recorded, SampleType, ScanEvidence, ScanShape};
    use stempack_model::MaskOrigin;

    fn acquisition() -> Acquisition {
        let step = Recorded {
            value: 0.5,
            origin: Origin { file: "c.h5".into(), path: "/a/b".into() },
            conversion: "0.05 nm × 10".into(),
            flag: Some("odd".into()),
        };
        let detector = DetectorShape::new(4, 5).unwrap();
        let excluded = Exclusions { pixels: vec![7], mask_sha256: [1; 32], origin: MaskOrigin::SourceMask };
        let mut a = Acquisition::new("ARINA HDF5", "arina/1", 6, detector, SampleType::U8, excluded);
        a.label = "scan".into();
        a.quantities = [(Quantity::ScanStepCol, step)].into();
        a.identity = [("camera_model", "X".to_owned())].into();
        a.provenance = [("microscope_metadata_source", "c.h5".to_owned())].into();
        a
    }

    #[test]
    fn unknown_scan_shapes_stay_unknown() {
        let doc = document(&acquisition(), "p", None);
        assert_eq!(doc["shape"], Value::Null);
        assert_eq!((&doc["frame_count"], &doc["detector_shape"]), (&6.into(), &json!([4, 5])));
        assert_eq!(doc["axes"][0], json!({ "name": "scan_row", "size": null }));
        assert!(text(&acquisition(), "p", None).contains("not recorded"));
    }

    #[test]
    fn quantities_have_value_unit_origin_and_doubt() {
        let mut a = acquisition();
        a.scan =
            Some(ScanEvidence { shape: ScanShape::new(2, 3).unwrap(), evidence: "e".into(), stated: true });
        let doc = document(&a, "p", None);
        assert_eq!(doc["shape"], json!([2, 3, 4, 5]));
        assert_eq!(doc["overrides"], json!({ "scan_shape": [2, 3] }));
        assert_eq!(doc["axes"][1], json!({ "name": "scan_col", "size": 3, "step": 0.5, "unit": "angstrom" }));
        assert_eq!(
            doc["quantities"],
            json!({ "scan_step_col": { "value": 0.5, "unit": "angstrom", "origin": "c.h5:/a/b",
                    "conversion": "0.05 nm × 10", "flag": "odd" } })
        );
        assert_eq!(doc["excluded_pixels"]["count"], 1);
        assert_eq!(doc["excluded_pixels"]["mask_sha256"], "01".repeat(32));
    }
}
