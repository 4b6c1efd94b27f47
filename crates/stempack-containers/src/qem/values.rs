//! Typed access to JSON values, with messages that say where a value stands and what was expected there.

use crate::ContainerCode;
use crate::json::{Object, type_name};
use serde_json::Value;
use stempack_model::{Error, Result};

/// The place of a value and the code that a fault there has.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) path: String,
    pub(super) code: ContainerCode,
}

impl At {
    pub(super) fn header() -> Self {
        At { path: String::new(), code: ContainerCode::QemHeader }
    }
    pub(super) fn new(path: &str, code: ContainerCode) -> Self {
        At { path: path.to_owned(), code }
    }
    /// The place of `key` in the object that stands here.
    pub(super) fn key(&self, key: &str) -> At {
        let path =
            if self.path.is_empty() { key.to_owned() } else { format!("{}.{}", self.path, shortened(key)) };
        At { path, code: self.code }
    }
    /// The place of an item in the list that stands here.
    pub(super) fn item(&self, index: usize) -> At {
        At { path: format!("{}[{index}]", self.path), code: self.code }
    }
    /// A fault here, as a predicate: `is 3, expected 2`.
    pub(super) fn fault(&self, what: impl std::fmt::Display) -> Error {
        Error::new(self.code, format!("`{}` {what}", self.path)).with("key", self.path.clone())
    }
    pub(super) fn wrong(&self, found: Option<&Value>, expected: &str) -> Error {
        self.fault(format_args!("is {}, expected {expected}", found.map_or("missing", type_name)))
    }
    pub(super) fn object<'a>(&self, value: Option<&'a Value>) -> Result<&'a Object> {
        value.and_then(Value::as_object).ok_or_else(|| self.wrong(value, "an object"))
    }
    pub(super) fn list<'a>(&self, value: Option<&'a Value>) -> Result<&'a [Value]> {
        value.and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| self.wrong(value, "a list"))
    }
    pub(super) fn text<'a>(&self, value: Option<&'a Value>) -> Result<&'a str> {
        value.and_then(Value::as_str).ok_or_else(|| self.wrong(value, "a text"))
    }
    pub(super) fn nonblank<'a>(&self, value: Option<&'a Value>) -> Result<&'a str> {
        match value.and_then(Value::as_str) {
            Some(text) if !text.trim().is_empty() => Ok(text),
            Some(_) => Err(self.fault("is blank")),
            None => Err(self.wrong(value, "a text")),
        }
    }
    pub(super) fn integer(&self, value: Option<&Value>) -> Result<u64> {
        value.and_then(Value::as_u64).ok_or_else(|| self.wrong(value, "a non-negative integer"))
    }
    pub(super) fn boolean(&self, value: Option<&Value>) -> Result<bool> {
        value.and_then(Value::as_bool).ok_or_else(|| self.wrong(value, "true or false"))
    }
    /// A finite number; booleans are none.
    pub(super) fn number(&self, value: Option<&Value>) -> Result<f64> {
        let number = value.and_then(Value::as_f64).filter(|v| v.is_finite());
        number.ok_or_else(|| self.wrong(value, "a finite number"))
    }
    pub(super) fn positive(&self, value: Option<&Value>) -> Result<f64> {
        match self.number(value)? {
            v if v > 0.0 => Ok(v),
            v => Err(self.fault(format_args!("is {v}, expected more than zero"))),
        }
    }
    /// The text must be exactly one of `allowed`.
    pub(super) fn one_of<'a>(&self, value: Option<&'a Value>, allowed: &[&str]) -> Result<&'a str> {
        let found = self.text(value)?;
        if allowed.contains(&found) {
            return Ok(found);
        }
        let expected = allowed.iter().map(|a| format!("`{a}`")).collect::<Vec<_>>().join(" or ");
        Err(self.fault(format_args!("is `{}`, expected {expected}", shortened(found))))
    }
    /// The integer must be exactly `expected`.
    pub(super) fn exactly(&self, value: Option<&Value>, expected: u64) -> Result<()> {
        match self.integer(value)? {
            found if found == expected => Ok(()),
            found => Err(self.fault(format_args!("is {found}, expected {expected}"))),
        }
    }
    /// A list that must have exactly `N` items.
    pub(super) fn exact_list<'a, const N: usize>(&self, value: Option<&'a Value>) -> Result<&'a [Value; N]> {
        let list = self.list(value)?;
        list.try_into().map_err(|_| self.fault(format_args!("has {} items, expected {N}", list.len())))
    }
}

/// Texts from a file, cut to what a message can carry.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
