//! The optional group in which a person describes the specimen.

use super::values::At;
use crate::Digest;
use crate::json::Object;
use serde_json::Value;
use stempack_model::Result;

const GEOMETRIES: [&str; 2] = ["cross-section", "plan-view"];
const ROLES: [&str; 4] = ["film", "substrate", "support", "particle"];
const METHODS: [&str; 6] =
    ["diffraction_ridge", "pacbed_fit", "ssb_depth", "ptychography_multislice", "cross_section", "nominal"];

pub(super) fn validate(at: &At, group: &Value) -> Result<()> {
    let group = at.object(Some(group))?;
    at.key("provenance").nonblank(group.get("provenance"))?;
    texts(at, group, &["id", "name", "description", "orientation_relationship", "evidence"])?;
    if let Some(geometry) = group.get("geometry") {
        at.key("geometry").one_of(Some(geometry), &GEOMETRIES)?;
    }
    direction(at, group, "growth_direction")?;
    let empty = Object::new();
    let components = match group.get("components") {
        Some(components) => at.key("components").object(Some(components))?,
        None => &empty,
    };
    for (label, component) in components {
        one_component(&at.key("components").key(label), component, components)?;
    }
    if let Some(in_view) = group.get("components_in_view") {
        let at = at.key("components_in_view");
        for (i, label) in at.list(Some(in_view))?.iter().enumerate() {
            known_label(&at.item(i), label, components)?;
        }
    }
    Ok(())
}

fn texts(at: &At, object: &Object, keys: &[&str]) -> Result<()> {
    keys.iter()
        .filter_map(|&key| object.get(key).map(|v| (key, v)))
        .try_for_each(|(key, v)| at.key(key).text(Some(v)).map(drop))
}

fn known_label(at: &At, label: &Value, components: &Object) -> Result<()> {
    let label = at.text(Some(label))?;
    if components.contains_key(label) {
        return Ok(());
    }
    Err(at.fault(format_args!(
        "names the component `{}`, which is not described",
        super::values::shortened(label)
    )))
}

/// Three or four integers, not all zero.
fn direction(at: &At, object: &Object, key: &str) -> Result<()> {
    let Some(value) = object.get(key) else { return Ok(()) };
    let at = at.key(key);
    let list = at.list(Some(value))?;
    if !(3..=4).contains(&list.len()) {
        return Err(at.fault(format_args!("has {} indices, expected 3 or 4", list.len())));
    }
    let mut zero = true;
    for (i, index) in list.iter().enumerate() {
        match index.as_i64() {
            Some(v) => zero &= v == 0,
            None => return Err(at.item(i).wrong(Some(index), "an integer")),
        }
    }
    if zero {
        return Err(at.fault("is all zero"));
    }
    Ok(())
}

fn one_component(at: &At, component: &Value, components: &Object) -> Result<()> {
    let object = at.object(Some(component))?;
    if let Some(role) = object.get("role") {
        at.key("role").one_of(Some(role), &ROLES)?;
    }
    texts(at, object, &["chemical_formula"])?;
    direction(at, object, "zone_axis")?;
    if let Some(cif) = object.get("cif") {
        let at = at.key("cif");
        let cif = at.object(Some(cif))?;
        at.key("document").nonblank(cif.get("document"))?;
        let digest = at.key("sha256").text(cif.get("sha256"))?;
        if Digest::from_hex(digest).is_none() {
            return Err(at.key("sha256").fault("is not 64 lower-case hexadecimal digits"));
        }
    }
    let Some(estimates) = object.get("thickness_estimates") else { return Ok(()) };
    let at = at.key("thickness_estimates");
    let mut preferred = 0;
    for (i, estimate) in at.list(Some(estimates))?.iter().enumerate() {
        preferred += u32::from(one_estimate(&at.item(i), estimate, components)?);
    }
    if preferred > 1 {
        return Err(at.fault("has more than one preferred estimate"));
    }
    Ok(())
}

/// Checks an estimate; whether it is the preferred one.
fn one_estimate(at: &At, estimate: &Value, components: &Object) -> Result<bool> {
    let object = at.object(Some(estimate))?;
    at.key("method").one_of(object.get("method"), &METHODS)?;
    at.key("value").positive(object.get("value"))?;
    at.key("unit").one_of(object.get("unit"), &["angstrom"])?;
    if let Some(uncertainty) = object.get("uncertainty") {
        at.key("uncertainty").positive(Some(uncertainty))?;
    }
    if let Some(range) = object.get("range") {
        let at = at.key("range");
        let [low, high] = at.exact_list::<2>(Some(range))?;
        if at.item(0).positive(Some(low))? > at.item(1).positive(Some(high))? {
            return Err(at.fault("ends before it begins"));
        }
    }
    if let Some(region) = object.get("region") {
        one_region(&at.key("region"), region, components)?;
    }
    texts(at, object, &["reference", "date"])?;
    object.get("preferred").map_or(Ok(false), |p| at.key("preferred").boolean(Some(p)))
}

/// A component's label, a rectangle `{rows: [a, b], cols: [a, b]}` or a `{point: [row, col]}`.
fn one_region(at: &At, region: &Value, components: &Object) -> Result<()> {
    if region.is_string() {
        return known_label(at, region, components);
    }
    let object = at.object(Some(region))?;
    let pair = |key: &str| -> Result<[u64; 2]> {
        let at = at.key(key);
        let [a, b] = at.exact_list::<2>(object.get(key))?;
        Ok([at.item(0).integer(Some(a))?, at.item(1).integer(Some(b))?])
    };
    if object.contains_key("point") {
        return pair("point").map(drop);
    }
    for key in ["rows", "cols"] {
        let [begin, end] = pair(key)?;
        if begin >= end {
            return Err(at.key(key).fault("is empty"));
        }
    }
    Ok(())
}
