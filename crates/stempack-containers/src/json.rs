//! Strict JSON: one object, no duplicate key at any depth, integers that are integers.

use crate::error::ContainerCode;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;
use stempack_model::{Error, Result};

pub(crate) type Object = Map<String, Value>;

/// Nesting that any real document stays far below; serde_json itself stops at 128.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("number is not finite"))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(Strict)?;
            if object.contains_key(&key) {
                return Err(serde::de::Error::custom(format_args!("key `{key}` appears twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Parses exactly one JSON object.
///
/// # Errors
/// `manifest_json` saying what is wrong and where.
pub(crate) fn parse_object(bytes: &[u8]) -> Result<Object> {
    parse_named(bytes, "manifest", ContainerCode::ManifestJson)
}

/// Parses exactly one JSON object that messages call `what`.
///
/// # Errors
/// `code`, saying what is wrong and where.
pub(crate) fn parse_named(bytes: &[u8], what: &str, code: ContainerCode) -> Result<Object> {
    let refuse = |why: String| Error::new(code, why);
    let text = std::str::from_utf8(bytes)
        .map_err(|e| refuse(format!("{what} is not UTF-8 at byte {}", e.valid_up_to())))?;
    let mut parser = serde_json::Deserializer::from_str(text);
    let value = Strict
        .deserialize(&mut parser)
        .and_then(|v| parser.end().map(|()| v))
        .map_err(|e| refuse(format!("{what} is not strict JSON: {e}")))?;
    match value {
        Value::Object(object) => Ok(object),
        other => Err(refuse(format!("{what} is {}, expected an object", type_name(&other)))),
    }
}

pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(n) if n.is_f64() => "a fraction",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Typed access to one object, with messages that name the key.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) object: &'a Object,
    /// In front of key names in messages, for example `detector_calibration.`.
    pub(crate) prefix: &'a str,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(object: &'a Object) -> Self {
        Keys { object, prefix: "" }
    }
    fn wrong(&self, key: &str, expected: &str, found: Option<&Value>) -> Error {
        let found = found.map_or("nothing", type_name);
        Error::new(
            ContainerCode::ManifestKey,
            format!("manifest key `{}{key}` is {found}, expected {expected}", self.prefix),
        )
        .with("key", format!("{}{key}", self.prefix))
    }
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key)
    }
    pub(crate) fn string(&self, key: &str) -> Result<&'a str> {
        let v = self.get(key);
        v.and_then(Value::as_str).ok_or_else(|| self.wrong(key, "a string", v))
    }
    pub(crate) fn u64(&self, key: &str) -> Result<u64> {
        let v = self.get(key);
        v.and_then(Value::as_u64).ok_or_else(|| self.wrong(key, "a non-negative integer", v))
    }
    pub(crate) fn f64(&self, key: &str) -> Result<f64> {
        let v = self.get(key);
        v.and_then(Value::as_f64).ok_or_else(|| self.wrong(key, "a number", v))
    }
    pub(crate) fn boolean(&self, key: &str) -> Result<bool> {
        let v = self.get(key);
        v.and_then(Value::as_bool).ok_or_else(|| self.wrong(key, "true or false", v))
    }
    pub(crate) fn list(&self, key: &str) -> Result<&'a [Value]> {
        let v = self.get(key);
        v.and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| self.wrong(key, "a list", v))
    }
    /// A list of integers within `0..=max`.
    pub(crate) fn integers(&self, key: &str, max: u64) -> Result<Vec<u64>> {
        self.list(key)?
            .iter()
            .map(|v| {
                v.as_u64().filter(|&n| n <= max).ok_or_else(|| {
                    self.wrong(key, &format!("a list of integers from 0 to {max}"), Some(v))
                        .at("in its items")
                })
            })
            .collect()
    }
    pub(crate) fn digest(&self, key: &str) -> Result<crate::Digest> {
        let text = self.string(key)?;
        crate::Digest::from_hex(text).ok_or_else(|| {
            Error::new(
                ContainerCode::ManifestValue,
                format!(
                    "manifest key `{}{key}` is `{text}`, expected 64 lower-case hexadecimal digits",
                    self.prefix
                ),
            )
        })
    }
    /// Absent when the key is missing; any present value must be a digest.
    pub(crate) fn optional_digest(&self, key: &str) -> Result<Option<crate::Digest>> {
        self.get(key).is_some().then(|| self.digest(key)).transpose()
    }
    /// The string must be exactly `expected`.
    pub(crate) fn exactly(&self, key: &str, expected: &str) -> Result<()> {
        let found = self.string(key)?;
        if found == expected {
            return Ok(());
        }
        Err(Error::new(
            ContainerCode::ManifestValue,
            format!("manifest key `{}{key}` is `{found}`, expected `{expected}`", self.prefix),
        ))
    }
    /// The integer must be exactly `expected`.
    pub(crate) fn exactly_u64(&self, key: &str, expected: u64, code: ContainerCode) -> Result<()> {
        let found = self.u64(key)?;
        if found == expected {
            return Ok(());
        }
        Err(Error::new(code, format!("manifest key `{}{key}` is {found}, expected {expected}", self.prefix)))
    }
    /// The key must be there and null.
    pub(crate) fn null(&self, key: &str) -> Result<()> {
        match self.get(key) {
            Some(Value::Null) => Ok(()),
            other => Err(self.wrong(key, "null", other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strictness() {
        for (text, why) in [
            (r#"{"a":1,"a":2}"#, "twice"),
            (r#"{"a":{"b":1,"b":1}}"#, "twice"),
            ("[1]", "expected an object"),
            (r#"{"a":NaN}"#, "strict JSON"),
            (r#"{"a":1} x"#, "strict JSON"),
            ("{", "strict JSON"),
        ] {
            let e = parse_object(text.as_bytes()).unwrap_err();
            assert_eq!(e.code(), "manifest_json");
            assert!(e.message().contains(why), "{text}: {e}");
        }
        assert_eq!(parse_object(b"{\"a\":\"\xff\"}").unwrap_err().code(), "manifest_json");
        let o = parse_object(br#"{"t":true,"f":2.0,"n":3,"s":"x"}"#).unwrap();
        let k = Keys::new(&o);
        assert_eq!(k.u64("n").unwrap(), 3);
        assert!(k.u64("t").unwrap_err().message().contains("a boolean"));
        assert!(k.u64("f").unwrap_err().message().contains("a fraction"));
        assert!(k.string("missing").unwrap_err().message().contains("nothing"));
    }
}
