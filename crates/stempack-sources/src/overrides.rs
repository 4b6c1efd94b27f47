//! How users state quantities: `scan_step_row=1.5angstrom` in words, or a small JSON document.
//!
//! A unit is always needed, and is spelt exactly: nothing is compared without regard to case.

use serde_json::{Map, Value as Json};
use std::io::Read;
use std::path::Path;
use stempack_model::{Error, ModelCode, Overrides, Quantity, Result};

/// The `schema` of a document of overrides.
pub const OVERRIDES_SCHEMA: &str = "stempack.overrides/1";
/// Largest document that is read.
const MAX_DOCUMENT: u64 = 64 << 10;

/// Names that state both axes at once.
const BOTH_AXES: [(&str, Quantity, Quantity); 3] = [
    ("scan_step", Quantity::ScanStepRow, Quantity::ScanStepCol),
    ("detector_angle", Quantity::DetectorAngleRow, Quantity::DetectorAngleCol),
    ("detector_reciprocal", Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol),
];

/// Spellings of the units that may be stated, and the power of ten that one of each is in the unit of the quantity. Micro
/// and ångström have two code points each.
fn units(quantity: Quantity) -> &'static [(&'static str, i32)] {
    match quantity {
        Quantity::ScanStepRow | Quantity::ScanStepCol => &[
            ("angstrom", 0),
            ("A", 0),
            ("\u{c5}", 0),
            ("\u{212b}", 0),
            ("pm", -2),
            ("nm", 1),
            ("um", 4),
            ("\u{b5}m", 4),
            ("\u{3bc}m", 4),
            ("mm", 7),
            ("m", 10),
        ],
        Quantity::DetectorAngleRow | Quantity::DetectorAngleCol | Quantity::SemiConvergenceAngle => {
            &[("mrad", 0), ("rad", 3), ("urad", -3), ("\u{b5}rad", -3), ("\u{3bc}rad", -3)]
        }
        Quantity::DetectorReciprocalRow | Quantity::DetectorReciprocalCol => &[
            ("1/angstrom", 0),
            ("1/A", 0),
            ("1/\u{c5}", 0),
            ("1/\u{212b}", 0),
            ("angstrom^-1", 0),
            ("A^-1", 0),
            ("\u{c5}^-1", 0),
            ("\u{212b}^-1", 0),
            ("1/nm", -1),
            ("nm^-1", -1),
        ],
        Quantity::BeamEnergy => &[("keV", 0), ("kV", 0), ("eV", -3), ("V", -3), ("MeV", 3), ("MV", 3)],
        Quantity::DwellTime => &[("us", 0), ("\u{b5}s", 0), ("\u{3bc}s", 0), ("ns", -3), ("ms", 3), ("s", 6)],
        Quantity::CameraLength => &[("mm", 0), ("cm", 1), ("m", 3)],
    }
}

/// Takes assignments such as `scan_step_row=1.5angstrom`, `beam_energy=300 kV` or, for both axes, `scan_step=2nm`, and
/// the evidence for all of them.
///
/// # Errors
/// `invalid_override` for unknown names and units, and those of [`Overrides::new`].
pub fn parse_overrides<T: AsRef<str>>(assignments: &[T], evidence: &str) -> Result<Overrides> {
    let mut values = Vec::new();
    for assignment in assignments.iter().map(AsRef::as_ref) {
        let Some((name, text)) = assignment.split_once('=') else {
            return Err(refuse(format!("`{assignment}` states nothing"))
                .hint("write NAME=VALUE, for example `scan_step=1.5angstrom`"));
        };
        let (name, text) = (name.trim(), text.trim());
        let Some((number, unit)) = number_and_unit(text) else {
            return Err(refuse(format!("`{text}` is no number for {name}")));
        };
        add(&mut values, name, number, unit, text)?;
    }
    Overrides::new(values, evidence)
}

/// Reads a JSON document of overrides.
///
/// # Errors
/// `io`; `invalid_override` for anything that is not one, and those of [`Overrides::new`].
pub fn read_overrides(path: &Path) -> Result<Overrides> {
    let failed = |e| Error::io("read", path, e);
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_DOCUMENT + 1).read_to_end(&mut text).map_err(failed)?;
    let at = |error: Error| error.at(format!("`{}`", path.display()));
    if text.len() as u64 > MAX_DOCUMENT {
        return Err(at(refuse(format!("the document is larger than {MAX_DOCUMENT} bytes"))));
    }
    let json =
        serde_json::from_slice(&text).map_err(|e| at(refuse(format!("the document is no JSON: {e}"))))?;
    from_json(&json).map_err(at)
}

fn from_json(json: &Json) -> Result<Overrides> {
    let document = object(json, "the document", &["schema", "evidence", "quantities"])?;
    if document.get("schema").and_then(Json::as_str) != Some(OVERRIDES_SCHEMA) {
        return Err(refuse(format!("the document does not say `\"schema\": \"{OVERRIDES_SCHEMA}\"`")));
    }
    let evidence = document.get("evidence").and_then(Json::as_str).unwrap_or_default();
    let mut values = Vec::new();
    if let Some(quantities) = document.get("quantities") {
        let Json::Object(quantities) = quantities else {
            return Err(refuse("`quantities` is no object".to_owned()));
        };
        for (name, stated) in quantities {
            let stated = object(stated, name, &["value", "unit"])?;
            let number = stated.get("value").and_then(Json::as_f64);
            let unit = stated.get("unit").and_then(Json::as_str);
            let (Some(number), Some(unit)) = (number, unit) else {
                return Err(refuse(format!("{name} has no number `value` and text `unit`")));
            };
            add(&mut values, name, number, unit, &format!("{number} {unit}"))?;
        }
    }
    if values.is_empty() {
        return Err(refuse("the document states no quantity".to_owned()));
    }
    Overrides::new(values, evidence)
}

/// An object with no other keys than these: a word that is not understood must not be passed over.
fn object<'a>(json: &'a Json, what: &str, keys: &[&str]) -> Result<&'a Map<String, Json>> {
    let Json::Object(object) = json else { return Err(refuse(format!("{what} is no object"))) };
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(refuse(format!("{what} has an unknown key `{key}`"))),
        None => Ok(object),
    }
}

fn add(
    values: &mut Vec<(Quantity, f64, String)>,
    name: &str,
    number: f64,
    unit: &str,
    statement: &str,
) -> Result<()> {
    let both = BOTH_AXES.iter().find(|(both, ..)| *both == name).map(|&(_, row, col)| vec![row, col]);
    let Some(quantities) = both.or_else(|| Quantity::named(name).map(|q| vec![q])) else {
        let known: Vec<&str> =
            BOTH_AXES.iter().map(|b| b.0).chain(Quantity::ALL.iter().map(|q| q.as_str())).collect();
        return Err(
            refuse(format!("`{name}` is no quantity")).hint(format!("known are {}", known.join(", ")))
        );
    };
    for quantity in quantities {
        let table = units(quantity);
        let Some(&(_, power)) = table.iter().find(|(spelling, _)| *spelling == unit) else {
            let known: Vec<&str> = table.iter().map(|u| u.0).collect();
            let found = if unit.is_empty() { "no unit".to_owned() } else { format!("the unit `{unit}`") };
            return Err(refuse(format!("{} is stated with {found}", quantity.as_str()))
                .hint(format!("units are {}", known.join(", "))));
        };
        // Exact powers, so that the result is the number that is nearest to what was written.
        let factor = 10f64.powi(power.abs());
        let value = if power < 0 { number / factor } else { number * factor };
        values.push((quantity, value, statement.to_owned()));
    }
    Ok(())
}

/// The longest number that a text begins with, and what follows it.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    // Where the number ends is not where its letters end: `1e3eV`.
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect::<Vec<_>>();
    ends.into_iter().rev().find_map(|at| {
        let (number, unit) = text.split_at(at);
        // Words such as `nan` and `inf` are numbers to the parser, and so is what begins a unit: `in`.
        let digits = number.bytes().any(|b| b.is_ascii_digit());
        let number = number.trim_end().parse::<f64>().ok().filter(|_| digits)?;
        Some((number, unit.trim_start()))
    })
}

fn refuse(message: String) -> Error {
    Error::new(ModelCode::InvalidOverride, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(assignments: &[&str]) -> Vec<(&'static str, f64)> {
        let all = parse_overrides(assignments, "measured").unwrap_or_else(|e| panic!("{assignments:?}: {e}"));
        all.iter().map(|(q, s)| (q.as_str(), s.value)).collect()
    }

    fn refused(assignments: &[&str], says: &str) {
        let error = parse_overrides(assignments, "measured").unwrap_err();
        assert_eq!(error.code(), "invalid_override");
        assert!(error.message().contains(says), "{assignments:?}: {error}");
    }

    #[test]
    fn numbers_with_units() {
        assert_eq!(
            stated(&["scan_step_col=1.5angstrom", "scan_step_row = 0.2 nm"]),
            [("scan_step_row", 2.0), ("scan_step_col", 1.5)]
        );
        assert_eq!(stated(&["scan_step=2nm"]), [("scan_step_row", 20.0), ("scan_step_col", 20.0)]);
        for (text, kev) in [("300kV", 300.0), ("300000 V", 300.0), ("3e5eV", 300.0), ("0.2 MeV", 200.0)] {
            assert_eq!(stated(&[&format!("beam_energy={text}")]), [("beam_energy", kev)], "{text}");
        }
        for text in ["50us", "50 \u{b5}s", "50\u{3bc}s", "0.05 ms"] {
            assert_eq!(stated(&[&format!("dwell_time={text}")]), [("dwell_time", 50.0)], "{text}");
        }
        let reciprocal = [("detector_reciprocal_row", 0.02), ("detector_reciprocal_col", 0.02)];
        for text in ["0.02 1/angstrom", "0.02 1/\u{c5}", "0.02A^-1", "0.2 1/nm", "0.2nm^-1"] {
            assert_eq!(stated(&[&format!("detector_reciprocal={text}")]), reciprocal, "{text}");
        }
        assert_eq!(stated(&["camera_length=14.5cm"]), [("camera_length", 145.0)]);
        assert_eq!(stated(&["semi_convergence_angle=0.0215rad"]), [("semi_convergence_angle", 21.5)]);
        let all = parse_overrides(&["scan_step=2nm"], "lattice").unwrap();
        let step = all.get(Quantity::ScanStepRow).unwrap();
        assert_eq!((step.statement.as_str(), step.evidence.as_str()), ("2nm", "lattice"));
    }

    #[test]
    fn what_is_no_statement() {
        refused(&["scan_step"], "states nothing");
        refused(&["scan_step=wide"], "no number");
        refused(&["scan_step=nan angstrom"], "no number");
        refused(&["scan_step=inf angstrom"], "no number");
        refused(&["scan_step=1.5"], "no unit");
        refused(&["scan_step=1.5 NM"], "the unit `NM`");
        refused(&["scan_step=1.5 mrad"], "the unit `mrad`");
        refused(&["detector_angle=1.5 angstrom"], "the unit `angstrom`");
        // Where the number ends cannot be told: 0.02 per nanometre, or 0.021 of something.
        refused(&["detector_reciprocal=0.021/nm"], "the unit `/nm`");
        refused(&["scan_steps=1.5nm"], "no quantity");
        refused(&["scan_step=-1nm"], "above zero");
        refused(&["scan_step=0nm"], "above zero");
        refused(&["scan_step=1e308m"], "above zero");
        refused(&["scan_step_row=1nm"], "without scan_step_col");
        refused(&["scan_step=1nm", "scan_step_row=1nm"], "twice");
        assert!(parse_overrides(&["scan_step=1nm"], "").unwrap_err().message().contains("evidence"));
        assert!(parse_overrides::<&str>(&[], "").unwrap().is_empty());
    }

    #[test]
    fn documents() {
        let with = |quantities: Json| {
            from_json(&serde_json::json!({
                "schema": "stempack.overrides/1", "evidence": "gold lattice", "quantities": quantities
            }))
        };
        let good = with(serde_json::json!({
            "scan_step": {"value": 0.15, "unit": "nm"}, "beam_energy": {"value": 300, "unit": "kV"}
        }))
        .unwrap();
        let values: Vec<_> = good.iter().map(|(q, s)| (q.as_str(), s.value, s.statement.as_str())).collect();
        let expected = [
            ("scan_step_row", 1.5, "0.15 nm"),
            ("scan_step_col", 1.5, "0.15 nm"),
            ("beam_energy", 300.0, "300 kV"),
        ];
        assert_eq!(values, expected);
        for (bad, says) in [
            (serde_json::json!({"scan_step": {"value": 0.15}}), "text `unit`"),
            (serde_json::json!({"scan_step": {"value": "0.15", "unit": "nm"}}), "number `value`"),
            (
                serde_json::json!({"scan_step": {"value": 1, "unit": "nm", "units": "m"}}),
                "unknown key `units`",
            ),
            (serde_json::json!({"scan_step": 1.5}), "scan_step is no object"),
            (serde_json::json!({"step": {"value": 1, "unit": "nm"}}), "no quantity"),
            (serde_json::json!({}), "states no quantity"),
            (serde_json::json!([]), "no object"),
        ] {
            let error = with(bad).unwrap_err();
            assert!(error.message().contains(says), "{error}");
        }
        let none = serde_json::json!({"quantities": {"beam_energy": {"value": 300, "unit": "kV"}}});
        assert!(from_json(&none).unwrap_err().message().contains("schema"));
        let more = serde_json::json!({"schema": "stempack.overrides/1", "because": "x"});
        assert!(from_json(&more).unwrap_err().message().contains("unknown key `because`"));
    }

    #[test]
    fn files_are_bounded_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("o.json");
        for (text, says) in [
            (vec![b' '; MAX_DOCUMENT as usize + 1], "larger than"),
            (b"{".to_vec(), "no JSON"),
            (b"\xff".to_vec(), "no JSON"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read_overrides(&path).unwrap_err();
            assert!(error.message().contains(says) && error.message().contains("o.json"), "{error}");
        }
        assert_eq!(read_overrides(&dir.path().join("absent")).unwrap_err().code(), "io");
    }
}
