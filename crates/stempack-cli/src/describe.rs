//! How an acquisition is described: the JSON keys of `inspect` and the same for people.

use crate::printer::{hex, human_bytes};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use stempack::{
    Acquisition, BackgroundSubtraction, LAYOUT_PROTOCOL, Member, MemberDigest, Overrides, Quantity, Recorded,
    derived, layout_of, source_identity,
};

/// Axis names in order, and the quantity that is the step along each, the first one recorded.
const AXES: [(&str, &[Quantity]); 4] = [
    ("scan_row", &[Quantity::ScanStepRow]),
    ("scan_col", &[Quantity::ScanStepCol]),
    ("det_row", &[Quantity::DetectorAngleRow, Quantity::DetectorReciprocalRow]),
    ("det_col", &[Quantity::DetectorAngleCol, Quantity::DetectorReciprocalCol]),
];

/// What is shown besides what the files say.
pub(crate) struct View<'a> {
    /// Digests of the members, when they were asked for.
    pub(crate) digests: Option<&'a [MemberDigest]>,
    /// What the user states.
    pub(crate) overrides: &'a Overrides,
    /// Whether everything retained is shown.
    pub(crate) metadata: bool,
}

/// One entry of `acquisitions[]`.
pub(crate) fn document(acquisition: &Acquisition, path: &str, view: &View<'_>) -> Value {
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
        "members": members(a, view.digests),
        "warnings": a.warnings.iter().map(|w| json!({ "code": w.code, "message": w.message })).collect::<Vec<_>>(),
        "retained": a.retained.iter().map(|(k, v)| json!({ "key": k, "value": v })).collect::<Vec<_>>(),
        "retained_left_out": a.retained_left_out,
    });
    let mut add = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            doc[key] = value;
        }
    };
    add("background_subtraction", Some(background(a)));
    add("signal_unit", a.signal_unit.as_deref().map(Value::from));
    add("field_of_view", field_of_view(a, view.overrides));
    add("derived", derived_values(a, view.overrides));
    add("overrides", overrides(a, view.overrides));
    add("layout_protocol", layout_of(a).map(|l| json!({ "version": LAYOUT_PROTOCOL, "layout": l })));
    add("source_identity_sha256", view.digests.map(|d| source_identity(d).to_hex().into()));
    add("metadata", view.metadata.then(|| metadata(a)));
    doc
}

/// What the supplier declared about background subtraction.
pub(crate) fn background(a: &Acquisition) -> Value {
    match &a.background {
        BackgroundSubtraction::Unknown => json!({ "state": "unknown" }),
        BackgroundSubtraction::AlreadySubtracted { file, sentence } => {
            json!({ "state": "already_subtracted", "file": file, "sentence": sentence })
        }
    }
}

fn field_of_view(a: &Acquisition, overrides: &Overrides) -> Option<Value> {
    let [row, col] = derived::field_of_view(a, overrides)?;
    let from: Vec<&String> = row.from.iter().chain(&col.from).collect();
    Some(json!({ "row": row.value, "col": col.value, "unit": row.unit, "derived": true, "from": from }))
}

fn derived_values(a: &Acquisition, overrides: &Overrides) -> Option<Value> {
    let one = |d: derived::Derived| {
        let value = json!({ "value": d.value, "unit": d.unit, "from": d.from, "formula": d.formula });
        (d.name.to_owned(), value)
    };
    let all: Map<_, _> = derived::derive(a, overrides).into_iter().map(one).collect();
    (!all.is_empty()).then_some(Value::Object(all))
}

/// What the user states, which is never among the recorded quantities.
fn overrides(a: &Acquisition, overrides: &Overrides) -> Option<Value> {
    let mut all = Map::new();
    if let Some(scan) = a.scan.as_ref().filter(|s| s.stated) {
        all.insert("scan_shape".into(), json!([scan.shape.rows(), scan.shape.cols()]));
    }
    for (quantity, stated) in overrides.iter() {
        let mut entry = json!({
            "value": stated.value, "unit": quantity.unit(), "statement": stated.statement,
            "evidence": stated.evidence,
        });
        if let Some(flag) = &stated.flag {
            entry["flag"] = flag.as_str().into();
        }
        all.insert(quantity.as_str().to_owned(), entry);
    }
    (!all.is_empty()).then_some(Value::Object(all))
}

/// What was interpreted, what was kept as it stands, and how much was not kept.
fn metadata(a: &Acquisition) -> Value {
    let quantities = a.quantities.iter().map(|(quantity, r)| {
        json!({ "name": quantity.as_str(), "value": format!("{} {}", r.value, quantity.unit()),
                "origin": r.origin.to_string() })
    });
    let scan = a.scan.iter().filter(|s| !s.stated);
    let scan =
        scan.map(|s| json!({ "name": "scan_shape", "value": s.shape.to_string(), "origin": s.evidence }));
    let identity = a.identity.iter().map(|(name, value)| json!({ "name": name, "value": value }));
    let documents = a.documents.iter().map(|d| {
        json!({ "filename": d.filename, "media_type": d.media_type, "bytes": d.content.len(),
                "sha256": hex(&d.sha256), "content": d.content })
    });
    json!({
        "interpreted": scan.chain(quantities).chain(identity).collect::<Vec<_>>(),
        "retained": a.retained.iter().map(|(k, v)| json!({ "key": k, "value": v })).collect::<Vec<_>>(),
        "left_out": a.retained_left_out,
        "documents": documents.collect::<Vec<_>>(),
    })
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

/// Member files, with their digests where there are some.
pub(crate) fn members(a: &Acquisition, digests: Option<&[MemberDigest]>) -> Vec<Value> {
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
pub(crate) fn text(acquisition: &Acquisition, path: &str, view: &View<'_>) -> String {
    let (a, digests) = (acquisition, view.digests);
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
    for (quantity, stated) in view.overrides.iter() {
        let flag = stated.flag.as_ref().map(|f| format!(", {f}")).unwrap_or_default();
        let text = format!("{} {} (stated: {}{flag})", stated.value, quantity.unit(), stated.evidence);
        line(&format!("override {}", quantity.as_str()), text);
    }
    if let Some([row, col]) = derived::field_of_view(a, view.overrides) {
        line("field of view", format!("{} × {} {} (derived)", row.value, col.value, row.unit));
    }
    for d in derived::derive(a, view.overrides) {
        line(d.name, format!("{} {} (derived: {})", d.value, d.unit, d.formula));
    }
    if let BackgroundSubtraction::AlreadySubtracted { file, sentence } = &a.background {
        line("background subtracted", format!("Yes · supplier README ({file}: “{sentence}”)"));
    }
    if let Some(unit) = &a.signal_unit {
        line("signal unit", unit.clone());
    }
    if let Some(layout) = layout_of(a) {
        line("layout protocol", format!("{LAYOUT_PROTOCOL}, {layout}"));
    }
    if let Some(digests) = digests {
        line("content identity", source_identity(digests).to_hex());
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
    if view.metadata {
        for document in &a.documents {
            let text = format!(
                "{}, {} bytes, SHA-256 {}",
                document.filename,
                document.content.len(),
                hex(&document.sha256)
            );
            line("document", text);
        }
        lines.push(format!(
            "  retained without interpretation: {} entries, {} left out",
            a.retained.len(),
            a.retained_left_out
        ));
        lines.extend(a.retained.iter().map(|(key, value)| format!("    {key} = {value}")));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// One acquisition among several.
pub(crate) fn row(a: &Acquisition, path: &str) -> [String; 5] {
    let shape = a.shape().map_or_else(|| format!("{} of {}", a.frame_count, a.detector), |s| s.to_string());
    let bytes: u64 = a.members.iter().map(|m| m.bytes).sum();
    let remarks = match a.warnings.len() {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        n => format!(", {n} warnings"),
    };
    [
        path.to_owned(),
        a.format.clone(),
        shape,
        a.sample.to_string(),
        format!("{}{remarks}", human_bytes(bytes)),
    ]
}

/// Rows below their headings, in columns.
pub(crate) fn table(rows: &[[String; 5]]) -> String {
    let head = ["path", "format", "shape", "dtype", "on disk"].map(str::to_owned);
    let width =
        |column: usize| rows.iter().chain([&head]).map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for row in [&head].into_iter().chain(rows) {
        for (cell, width) in row.iter().zip(widths) {
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        text.push_str(&row[4]);
        text.push('\n');
    }
    text
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

    fn view(overrides: &Overrides) -> View<'_> {
        View { digests: None, overrides, metadata: false }
    }

    #[test]
    fn unknown_scan_shapes_stay_unknown() {
        let doc = document(&acquisition(), "p", &view(&Overrides::default()));
        assert_eq!(doc["shape"], Value::Null);
        assert_eq!((&doc["frame_count"], &doc["detector_shape"]), (&6.into(), &json!([4, 5])));
        assert_eq!(doc["axes"][0], json!({ "name": "scan_row", "size": null }));
        assert!(text(&acquisition(), "p", &view(&Overrides::default())).contains("not recorded"));
    }

    #[test]
    fn quantities_have_value_unit_origin_and_doubt() {
        let mut a = acquisition();
        a.scan =
            Some(ScanEvidence { shape: ScanShape::new(2, 3).unwrap(), evidence: "e".into(), stated: true });
        let doc = document(&a, "p", &view(&Overrides::default()));
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

    #[test]
    fn what_is_stated_and_what_follows_stand_apart() {
        let mut a = acquisition();
        a.scan =
            Some(ScanEvidence { shape: ScanShape::new(2, 3).unwrap(), evidence: "e".into(), stated: false });
        let stated =
            stempack::parse_overrides(&["scan_step=2angstrom", "beam_energy=300kV"], "lattice").unwrap();
        let doc = document(&a, "p", &View { digests: None, overrides: &stated, metadata: true });
        assert_eq!(doc["quantities"].as_object().unwrap().len(), 1);
        assert_eq!(doc["overrides"]["scan_step_row"]["evidence"], "lattice");
        assert_eq!(
            doc["field_of_view"],
            json!({ "row": 4.0, "col": 6.0, "unit": "angstrom", "derived": true,
                    "from": ["overrides.scan_step_row", "overrides.scan_step_col"] })
        );
        assert_eq!(doc["derived"]["wavelength"]["unit"], "angstrom");
        assert_eq!(doc["background_subtraction"], json!({ "state": "unknown" }));
        assert!(doc.get("signal_unit").is_none() && doc.get("layout_protocol").is_none());
        assert_eq!(doc["metadata"]["left_out"], 0);
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let row = |path: &str| [path, "µ", "2×3", "uint8", "x"].map(str::to_owned);
        let text = table(&[row("a"), row("longer path")]);
        let lines: Vec<Vec<char>> = text.lines().map(|l| l.chars().collect()).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|l| l[11..13] == [' ', ' '] && l[13] != ' '));
    }
}
