//! Whether scientific metadata keep to their schema: axes, quantities, coverage, processing, overrides.
//!
//! Faults are looked for in the order of `docs/formats/qem.md`, so that the same file is always refused for the same reason.

use super::units::{Known, SCAN_UNITS};
use super::values::{At, shortened};
use super::{documents, sample};
use crate::ContainerCode;
use crate::json::Object;
use serde_json::Value;
use std::collections::BTreeMap;
use stempack_model::{Error, Result};

pub(super) const SCHEMA_1: &str = "quantem.scientific-metadata/1";
pub(super) const SCHEMA_2: &str = "quantem.scientific-metadata/2";
pub(super) const AXES: [&str; 4] = ["scan_row", "scan_column", "detector_row", "detector_column"];
const COVERAGES: [&str; 3] = ["reader-retained", "exhaustive", "unknown"];
/// Largest relative difference of a step that is recorded twice.
const SAME_STEP: f64 = 1e-14;
/// Scan steps that a person may state, in ångström.
const STATED_STEP: std::ops::RangeInclusive<f64> = 1e-4..=1e4;

/// A value as the file records it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stated {
    pub(super) value: f64,
    pub(super) unit: String,
    pub(super) provenance: String,
    pub(super) evidence: Option<String>,
}

/// Scientific metadata that keep to their schema.
#[derive(Clone, Debug, Default)]
pub(super) struct Scientific {
    /// Major version of the schema; 0 for files older than any.
    pub(super) schema: u8,
    pub(super) axes: [Option<Stated>; 4],
    /// Known quantities under `electron_microscope`, by path.
    pub(super) microscope: BTreeMap<&'static str, Stated>,
    /// Overrides by path.
    pub(super) overrides: BTreeMap<&'static str, Stated>,
}

/// Steps 5 to 9 of the documented order.
pub(super) fn validate(scientific: &Object, shape: Option<[u64; 4]>) -> Result<Scientific> {
    let at = At::new("scientific_metadata", ContainerCode::QemMetadata);
    let axes = at.key("axes").list(scientific.get("axes"))?;
    for (i, axis) in axes.iter().enumerate() {
        at.key("axes").item(i).object(Some(axis))?;
    }
    let schema = match at.key("schema").text(scientific.get("schema"))? {
        SCHEMA_1 => 1,
        SCHEMA_2 => 2,
        other => {
            return Err(Error::new(
                ContainerCode::QemUnsupported,
                format!("scientific metadata schema `{}` is not known", shortened(other)),
            )
            .hint("schemas 1 and 2 are read; a newer version of stempack may know more"));
        }
    };
    let mut found = Scientific { schema, ..Scientific::default() };
    check_axes(&at, axes, shape, &mut found)?;
    let microscope = optional_object(&at, scientific, "electron_microscope")?;
    let overrides = optional_object(&at, scientific, "calibration_overrides")?;
    canonical_units(&at, &found, microscope)?;
    documents::validate(&at.key("source_documents"), scientific.get("source_documents"))?;
    at.key("source_metadata").object(scientific.get("source_metadata"))?;
    at.key("source_metadata_coverage").one_of(scientific.get("source_metadata_coverage"), &COVERAGES)?;
    if let Some(format) = scientific.get("source_format") {
        at.key("source_format").text(Some(format))?;
    }
    if let Some(extensions) = scientific.get("extensions") {
        at.key("extensions").object(Some(extensions))?;
    }
    for (section, name) in [(microscope, "electron_microscope"), (overrides, "calibration_overrides")] {
        retired_names(&at.key(name), section)?;
    }
    processing(&at.key("processing"), scientific.get("processing"))?;
    if let Some(group) = scientific.get("sample") {
        sample::validate(&at.key("sample"), group)?;
    }
    read_microscope(&at.key("electron_microscope"), microscope, &mut found)?;
    if schema == 2 {
        same_steps(&at, &found)?;
    }
    found.overrides = read_overrides(&at.key("calibration_overrides"), overrides, schema)?;
    Ok(found)
}

fn optional_object<'a>(at: &At, parent: &'a Object, key: &str) -> Result<Option<&'a Object>> {
    parent.get(key).map(|v| at.key(key).object(Some(v))).transpose()
}

/// Value, unit, provenance and evidence of one quantity.
fn stated(at: &At, value: &Value) -> Result<Stated> {
    let object = at.object(Some(value))?;
    let evidence = object.get("evidence").map(|e| at.key("evidence").text(Some(e))).transpose()?;
    Ok(Stated {
        value: at.key("value").positive(object.get("value"))?,
        unit: at.key("unit").nonblank(object.get("unit"))?.to_owned(),
        provenance: at.key("provenance").nonblank(object.get("provenance"))?.to_owned(),
        evidence: evidence.map(str::to_owned),
    })
}

fn check_axes(at: &At, axes: &[Value], shape: Option<[u64; 4]>, found: &mut Scientific) -> Result<()> {
    let at = at.key("axes");
    if axes.len() != 4 {
        return Err(at.fault(format_args!("has {} items, expected 4", axes.len())));
    }
    for (i, axis) in axes.iter().enumerate() {
        let (here, axis) = (at.item(i), at.item(i).object(Some(axis))?);
        here.key("name").one_of(axis.get("name"), &[AXES[i]])?;
        let size = here.key("size").integer(axis.get("size"))?;
        let expected = shape.map_or(size, |s| s[i]);
        if size == 0 || size != expected {
            return Err(here.key("size").fault(format_args!("is {size}, the shape says {expected}")));
        }
        found.axes[i] = axis.get("sampling").map(|s| stated(&here.key("sampling"), s)).transpose()?;
    }
    Ok(())
}

/// A known quantity must be in the unit of schema 2, or in schema 1 in one that converts to it.
fn check_unit(at: &At, known: &Known, unit: &str, schema: u8) -> Result<()> {
    if known.units.contains(&unit) || (schema == 1 && known.canonical(1.0, unit).is_some()) {
        return Ok(());
    }
    let expected = known.units.iter().map(|u| format!("`{u}`")).collect::<Vec<_>>().join(" or ");
    Err(at.key("unit").fault(format_args!("is `{}`, expected {expected}", shortened(unit))))
}

fn canonical_units(at: &At, found: &Scientific, microscope: Option<&Object>) -> Result<()> {
    for (i, axis) in found.axes.iter().enumerate() {
        if let (Some(sampling), Some(known)) = (axis, Known::of_axis(i)) {
            check_unit(&at.key("axes").item(i).key("sampling"), known, &sampling.unit, found.schema)?;
        }
    }
    for (path, value) in microscope.into_iter().flatten() {
        let unit = value.get("unit").and_then(Value::as_str);
        if let (Some(known), Some(unit)) = (Known::at(path), unit) {
            check_unit(&at.key("electron_microscope").key(path), known, unit, found.schema)?;
        }
    }
    Ok(())
}

fn retired_names(at: &At, section: Option<&Object>) -> Result<()> {
    for name in section.into_iter().flat_map(Object::keys) {
        if name.ends_with("pixel_size_y") || name.ends_with("pixel_size_x") {
            return Err(at
                .key(name)
                .fault("is a retired name, expected one that ends in `_row` or `_column`"));
        }
    }
    Ok(())
}

fn processing(at: &At, value: Option<&Value>) -> Result<()> {
    let list = at.list(value)?;
    if list.is_empty() {
        return Err(at.fault("is empty, expected at least one record"));
    }
    for (i, record) in list.iter().enumerate() {
        let at = at.item(i);
        let record = at.object(Some(record))?;
        at.key("operation").nonblank(record.get("operation"))?;
        at.key("changes_measurements").boolean(record.get("changes_measurements"))?;
    }
    Ok(())
}

fn read_microscope(at: &At, section: Option<&Object>, found: &mut Scientific) -> Result<()> {
    for (path, value) in section.into_iter().flatten() {
        let quantity = stated(&at.key(path), value)?;
        if let Some(known) = Known::at(path) {
            check_unit(&at.key(path), known, &quantity.unit, found.schema)?;
            found.microscope.insert(known.path, quantity);
        }
    }
    Ok(())
}

fn same_steps(at: &At, found: &Scientific) -> Result<()> {
    for (path, repeated) in &found.microscope {
        let Some(axis) = Known::at(path).and_then(|k| k.axis) else { continue };
        let at = at.key("electron_microscope").key(path);
        match &found.axes[axis] {
            Some(step)
                if step.unit == repeated.unit
                    && (step.value - repeated.value).abs()
                        <= SAME_STEP * step.value.abs().max(repeated.value.abs()) => {}
            Some(step) => {
                return Err(at.fault(format_args!(
                    "is {} {}, the axis `{}` says {} {}",
                    repeated.value, repeated.unit, AXES[axis], step.value, step.unit
                )));
            }
            None => {
                return Err(
                    at.fault(format_args!("repeats a step that the axis `{}` does not have", AXES[axis]))
                );
            }
        }
    }
    Ok(())
}

/// Units that overrides of schema 1 may have; schema 2 has one unit for each quantity.
fn override_unit_fits(known: &Known, unit: &str, schema: u8) -> bool {
    if schema == 2 {
        return known.units.contains(&unit);
    }
    match known.axis {
        Some(0 | 1) => unit == "m",
        Some(_) => ["mrad", "1/nm", "1/Å", "1/\u{212b}"].contains(&unit),
        None => match known.units {
            ["kV"] => unit == "V",
            ["us"] => unit == "s",
            ["mm"] => unit == "m",
            _ => unit == "mrad",
        },
    }
}

/// Reads and checks overrides, those of a file and those that a caller brings.
pub(super) fn read_overrides(
    at: &At,
    section: Option<&Object>,
    schema: u8,
) -> Result<BTreeMap<&'static str, Stated>> {
    let mut found = BTreeMap::new();
    for (path, value) in section.into_iter().flatten() {
        let at = at.key(path);
        let Some(known) = Known::at(path).filter(|k| k.overridable) else {
            return Err(at.fault("is no quantity that can be overridden"));
        };
        let quantity = stated(&at, value)?;
        if quantity.provenance != "user_override" {
            return Err(at.key("provenance").fault("is not `user_override`"));
        }
        if quantity.evidence.as_ref().is_none_or(|e| e.trim().is_empty()) {
            return Err(at.key("evidence").fault("is missing or blank: an override says what it rests on"));
        }
        if !override_unit_fits(known, &quantity.unit, schema) {
            let unit = shortened(&quantity.unit);
            return Err(at
                .key("unit")
                .fault(format_args!("is `{unit}`, which is no unit for this override")));
        }
        if known.units == SCAN_UNITS {
            let (step, _) = known.canonical(quantity.value, &quantity.unit).unwrap_or((f64::NAN, ""));
            // A conversion may fall short of the limit by its last bit.
            if !STATED_STEP.contains(&step) && !STATED_STEP.contains(&(step * (1.0 - 1e-12))) {
                return Err(at.fault(format_args!("is {step} angstrom, expected 0.0001 to 10000")));
            }
        }
        found.insert(known.path, quantity);
    }
    for (row, column) in [
        ("scan_controller/regular_scan/pixel_size_row", "scan_controller/regular_scan/pixel_size_column"),
        ("imaging_system/reciprocal_pixel_size_row", "imaging_system/reciprocal_pixel_size_column"),
    ] {
        match (found.get(row), found.get(column)) {
            (None, None) => {}
            (Some(r), Some(c)) if r.unit == c.unit => {}
            (Some(_), Some(_)) => return Err(at.key(column).fault("has another unit than the row")),
            (None, Some(_)) => return Err(at.key(column).fault("stands without its row")),
            (Some(_), None) => return Err(at.key(row).fault("stands without its column")),
        }
    }
    Ok(found)
}
