//! The JSON document of one Velox image, and how numbers are written in it.

use crate::hdf5::{Dataset, DatasetIndex, ElementClass, File};
use serde_json::Value as Json;
use stempack_model::Task;

/// Largest metadata document that is read.
const MAX_DOCUMENT: u64 = 4 << 20;

/// Text and contents of a document: bytes, NUL-padded, one column for each image frame of which the first is taken.
pub(super) fn read(file: &File, dataset: &Dataset) -> Result<(String, Json), String> {
    let index = DatasetIndex::build(file, dataset).map_err(|e| e.message().to_owned())?;
    let element = index.element();
    let rows = index.shape().first().copied().unwrap_or(0);
    let columns = index.shape().iter().skip(1).product::<u64>().max(1);
    let small = rows <= MAX_DOCUMENT && index.decoded_bytes() <= 4 * MAX_DOCUMENT;
    if element.bytes != 1 || element.class != ElementClass::Unsigned || !small {
        return Err("its metadata is no small byte array".to_owned());
    }
    let bytes = index.read_all(&Task::new()).map_err(|e| e.message().to_owned())?;
    let text: Vec<u8> = bytes.into_iter().step_by(columns as usize).take_while(|&b| b != 0).collect();
    let text = String::from_utf8(text).map_err(|_| "its metadata is not UTF-8".to_owned())?;
    let json = serde_json::from_str(&text).map_err(|e| format!("its metadata is no JSON: {e}"))?;
    Ok((text, json))
}

/// A number, a text of a number, or an object with one of these under `value`.
pub(super) fn number(json: &Json) -> Option<f64> {
    let found = match json {
        Json::Number(n) => n.as_f64(),
        Json::String(s) => s.trim().parse().ok(),
        Json::Object(o) => o.get("value").and_then(number),
        _ => None,
    };
    found.filter(|x| x.is_finite())
}

/// The value below a chain of names.
pub(super) fn at<'a>(json: &'a Json, names: &[&str]) -> Option<&'a Json> {
    names.iter().try_fold(json, |here, name| here.get(name))
}
