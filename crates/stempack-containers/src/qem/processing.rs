//! Whether what was done to the measurements is declared.

use super::values::At;
use crate::ContainerCode;
use crate::json::Object;
use serde_json::Value;
use stempack_model::{Result, SampleType};

pub(super) const LOSSLESS: &str = "lossless_storage";
pub(super) const INTEGER_NARROWING: &str = "exact_integer_narrowing";
pub(super) const FLOAT_NARROWING: &str = "exact_float_narrowing";
const REPLACEMENT: &str = "flagged_pixel_replacement";
const MARKERS: &str = "flagged_marker_zeroing";
const QUANTIZATION: &str = "scaled_uint16_quantization";

fn records(scientific: &Object) -> impl Iterator<Item = &Object> {
    scientific.get("processing").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

fn declared(scientific: &Object, operation: &str, changes: bool) -> bool {
    named(scientific, operation).any(|r| r.get("changes_measurements") == Some(&Value::Bool(changes)))
}

fn named<'a>(scientific: &'a Object, operation: &'a str) -> impl Iterator<Item = &'a Object> {
    records(scientific).filter(move |r| r.get("operation").and_then(Value::as_str) == Some(operation))
}

/// What JSON values count as true where the format says "truthy".
fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(s) => !s.is_empty(),
        Value::Array(a) => !a.is_empty(),
        Value::Object(o) => !o.is_empty(),
    }
}

/// What the private metadata say was done must stand in `processing`.
pub(super) fn cross_check(
    scientific: &Object,
    private: Option<&Object>,
    stored: Option<SampleType>,
) -> Result<()> {
    let at = At::new("scientific_metadata.processing", ContainerCode::QemMetadata);
    let Some(private) = private else { return Ok(()) };
    let applied = private.get("hot_pixel_correction").and_then(|c| c.get("applied"));
    if applied == Some(&Value::Bool(true)) && !declared(scientific, REPLACEMENT, true) {
        return Err(at.fault(format_args!("does not declare `{REPLACEMENT}`, which was applied")));
    }
    if private.get("flagged_markers_stored_as_zero").is_some_and(truthy)
        && !named(scientific, MARKERS).any(|_| true)
    {
        return Err(at.fault(format_args!("does not declare `{MARKERS}`, which was applied")));
    }
    let Some(stored) = stored else { return Ok(()) };
    let Some(source) = private.get("source_dtype").filter(|s| !s.is_null()) else { return Ok(()) };
    if source.as_str() != Some(stored.as_str()) {
        let operation = if stored.is_float() { FLOAT_NARROWING } else { INTEGER_NARROWING };
        let fits = |r: &Object| {
            r.get("source_dtype") == Some(source)
                && r.get("stored_dtype").and_then(Value::as_str) == Some(stored.as_str())
                && r.get("changes_measurements") == Some(&Value::Bool(false))
        };
        if !named(scientific, operation).any(fits) {
            return Err(at.fault(format_args!(
                "does not declare `{operation}` from `{}` to `{stored}`",
                super::values::shortened(source.as_str().unwrap_or("something that is no type"))
            )));
        }
    }
    Ok(())
}

/// Codes on a scale are no measurements; a file of them says so.
pub(super) fn quantization_declared(scientific: &Object) -> Result<()> {
    if declared(scientific, QUANTIZATION, true) {
        return Ok(());
    }
    let at = At::new("scientific_metadata.processing", ContainerCode::QemMetadata);
    Err(at.fault(format_args!("does not declare `{QUANTIZATION}`")))
}
