//! Which calibration holds: what the file records, and what a person put over it.

use super::header::Header;
use super::scientific::Stated;
use super::units::{DETECTOR_UNITS, KNOWN, Known, PAIRS, SCAN_UNITS, VOLTAGE};
use super::values::At;
use crate::ContainerCode;
use crate::json::Object;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use stempack_model::{Origin, Quantity, Recorded, Result};

/// Recorded quantities and the overrides over them, apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Calibration {
    pub(super) recorded: BTreeMap<Quantity, Recorded<f64>>,
    pub(super) overrides: BTreeMap<Quantity, Recorded<f64>>,
}

impl Calibration {
    pub(super) fn of(header: &Header, file: &str) -> Self {
        let mut all = Calibration::default();
        let scientific = &header.scientific;
        if scientific.schema < 2 {
            private(&mut all.recorded, header.section("metadata"), file);
        }
        let mut recorded = BTreeMap::new();
        for (i, axis) in scientific.axes.iter().enumerate() {
            if let (Some(stated), Some(known)) = (axis, Known::of_axis(i)) {
                take(&mut recorded, known, stated, file, format!("scientific_metadata/axes/{i}/sampling"));
            }
        }
        // In the order of the table: the voltage is asked before the beam energy.
        for known in &KNOWN {
            if let Some(stated) = scientific.microscope.get(known.path) {
                let path = format!("scientific_metadata/electron_microscope/{}", known.path);
                take(&mut recorded, known, stated, file, path);
            }
        }
        whole_pairs(&mut recorded);
        own_extension(&mut recorded, header, file);
        let has_detector = all.recorded.keys().any(|q| is_detector(*q));
        for (quantity, value) in recorded {
            if !(has_detector && is_detector(quantity)) {
                all.recorded.entry(quantity).or_insert(value);
            }
        }
        for (&path, stated) in &scientific.overrides {
            if let Some(known) = Known::at(path) {
                let path = format!("scientific_metadata/calibration_overrides/{path}");
                take(&mut all.overrides, known, stated, file, path);
            }
        }
        all
    }

    /// Recorded quantities with the overrides over them.
    pub(super) fn effective(&self) -> BTreeMap<Quantity, Recorded<f64>> {
        let mut all = self.recorded.clone();
        if self.overrides.keys().any(|q| is_detector(*q)) {
            // An angle and a reciprocal length are never turned into each other, so the recorded one goes.
            all.retain(|q, _| !is_detector(*q));
        }
        all.extend(self.overrides.clone());
        all
    }
}

fn is_detector(quantity: Quantity) -> bool {
    PAIRS[1..].iter().any(|&(row, col)| quantity == row || quantity == col)
}

/// The first statement about a quantity stays.
fn take(
    all: &mut BTreeMap<Quantity, Recorded<f64>>,
    known: &Known,
    stated: &Stated,
    file: &str,
    path: String,
) {
    let Some((value, unit)) = known.canonical(stated.value, &stated.unit) else { return };
    let Some(quantity) = known.quantity(unit).filter(|_| value > 0.0 && value.is_finite()) else { return };
    let mut conversion = format!("{} {}", stated.value, stated.unit);
    if known.path == VOLTAGE {
        conversion += " × e";
    }
    let evidence = stated.evidence.as_deref().map(|e| format!(": {e}")).unwrap_or_default();
    conversion += &format!(" ({}{evidence})", stated.provenance);
    let origin = Origin { file: file.to_owned(), path };
    let flag = quantity.doubt(value);
    all.entry(quantity).or_insert(Recorded { value, origin, conversion, flag });
}

/// A row without its column, or with another unit, says nothing about the pair.
fn whole_pairs(all: &mut BTreeMap<Quantity, Recorded<f64>>) {
    for (row, col) in PAIRS {
        if all.contains_key(&row) != all.contains_key(&col) {
            all.remove(&row);
            all.remove(&col);
        }
    }
}

/// What files of schema 1 and older ones record: names and units as their writers had them.
fn private(all: &mut BTreeMap<Quantity, Recorded<f64>>, private: Option<&Object>, file: &str) {
    let Some(private) = private else { return };
    let mut offer = |key: &str, known: Option<&Known>, values: Vec<f64>, unit: &str| {
        let Some(known) = known else { return };
        let of_pair = known.axis.map(|a| [a, a + 1]);
        for (i, value) in values.into_iter().enumerate() {
            let known = of_pair.and_then(|pair| Known::of_axis(pair[i])).unwrap_or(known);
            let stated =
                Stated { value, unit: unit.to_owned(), provenance: "source_metadata".into(), evidence: None };
            take(all, known, &stated, file, format!("metadata/{key}"));
        }
    };
    if let Some(pair) = positive_pair(private.get("scan_sampling_A")) {
        offer("scan_sampling_A", Known::of_axis(0), pair.into(), SCAN_UNITS[0]);
    }
    let unit = private.get("detector_sampling_unit").and_then(Value::as_str);
    match (positive_pair(private.get("detector_sampling")), unit) {
        // Without its unit a step is a number and nothing more.
        (Some(pair), Some(unit)) => offer("detector_sampling", Known::of_axis(2), pair.into(), unit),
        _ => {
            if let Some(pair) = positive_pair(private.get("detector_sampling_inv_A")) {
                offer("detector_sampling_inv_A", Known::of_axis(2), pair.into(), DETECTOR_UNITS[1]);
            }
        }
    }
    for (key, path, unit) in [
        ("voltage_kV", VOLTAGE, "kV"),
        ("semiangle_mrad", super::units::SEMI_ANGLE, "mrad"),
        ("dwell_time_us", super::units::DWELL_TIME, "us"),
        ("camera_length_mm", super::units::CAMERA_LENGTH, "mm"),
    ] {
        if let Some(value) = private.get(key).and_then(positive) {
            offer(key, Known::at(path), vec![value], unit);
        }
    }
}

fn positive(value: &Value) -> Option<f64> {
    value.as_f64().filter(|v| v.is_finite() && *v > 0.0)
}

/// Two numbers, or one for both axes.
fn positive_pair(value: Option<&Value>) -> Option<[f64; 2]> {
    match value? {
        Value::Array(list) => match list.as_slice() {
            [row, col] => Some([positive(row)?, positive(col)?]),
            _ => None,
        },
        both => positive(both).map(|v| [v, v]),
    }
}

/// Key of the extension in which this library keeps what the schema has no place for.
pub(super) const EXTENSION: &str = "stempack/acquisition";

/// Quantities that the schema could not hold when this library wrote the file.
fn own_extension(all: &mut BTreeMap<Quantity, Recorded<f64>>, header: &Header, file: &str) {
    let extension = header.section("scientific_metadata").and_then(|s| s.get("extensions"));
    let list = extension.and_then(|e| e.get(EXTENSION)?.get("quantities")?.as_object());
    for (name, value) in list.into_iter().flatten() {
        let Some(quantity) = Quantity::ALL.into_iter().find(|q| q.as_str() == name) else { continue };
        let Some(found) = value.get("value").and_then(positive) else { continue };
        if value.get("unit").and_then(Value::as_str) != Some(quantity.unit()) {
            continue;
        }
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let path = format!("scientific_metadata/extensions/{EXTENSION}/quantities/{name}");
        let recorded = Recorded {
            value: found,
            origin: Origin { file: file.to_owned(), path },
            conversion: text("evidence").unwrap_or_default(),
            flag: text("flag").or_else(|| quantity.doubt(found)),
        };
        // A flag that travels beside a value of the schema belongs to that value.
        match all.get_mut(&quantity) {
            Some(known) => known.flag = recorded.flag,
            None => drop(all.insert(quantity, recorded)),
        }
    }
}

/// A value that a person states, with what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// What is overridden. Row and column of a pair come together.
    pub quantity: Quantity,
    /// In the quantity's unit.
    pub value: f64,
    /// What it rests on; not blank.
    pub evidence: String,
}

/// The section of a header that holds these overrides, checked as that of a file is.
pub(super) fn overrides_section(overrides: &[Override]) -> Result<Object> {
    let mut section = Object::new();
    for o in overrides {
        let known = KNOWN
            .iter()
            .find(|k| k.overridable && k.units.iter().any(|unit| k.quantity(unit) == Some(o.quantity)));
        let at = At::new("overrides", ContainerCode::BadOverride);
        let Some(known) = known else {
            return Err(at.key(o.quantity.as_str()).fault("cannot be overridden"));
        };
        let unit = match o.quantity {
            Quantity::BeamEnergy => "kV",
            other => other.unit(),
        };
        let value = json!({
            "value": o.value, "unit": unit, "provenance": "user_override", "evidence": o.evidence,
        });
        if section.insert(known.path.to_owned(), value).is_some() {
            return Err(at.key(o.quantity.as_str()).fault("is stated twice, or as an angle and as a length"));
        }
    }
    let at = At::new("overrides", ContainerCode::BadOverride);
    super::scientific::read_overrides(&at, Some(&section), 2)?;
    Ok(section)
}
