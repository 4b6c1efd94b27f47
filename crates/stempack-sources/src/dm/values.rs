//! What the data of a tag say: a number, a text, or a short description of something longer.

use super::bytes::Input;
use super::tags::{Body, Data, Entry, Group, Kind, Scalar, Tags, plain_text};
use crate::error::SourceCode;
use crate::hdf5::shortest;
use stempack_model::Result;

/// Longest text that is read, in characters.
const LONGEST: u64 = 4096;
/// Most numbers of an array that are shown.
const MOST_NUMBERS: u64 = 16;

/// A number as it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Integer(i128),
    F32(f32),
    F64(f64),
}

impl Number {
    /// As a double, exactly but for integers above 2⁵³.
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Number::Integer(n) => n as f64,
            Number::F32(x) => f64::from(x),
            Number::F64(x) => x,
        }
    }
    /// An integer, also when it is stored as a float.
    pub(super) fn as_integer(self) -> Option<i128> {
        match self {
            Number::Integer(n) => Some(n),
            _ => {
                let x = self.as_f64();
                (x.fract() == 0.0 && x.abs() < 9e15).then_some(x as i128)
            }
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Number::Integer(n) => n.fmt(f),
            // The shortest digits of the stored width: 0.04, not 0.03999999910593033.
            Number::F32(x) => f.write_str(&shortest_f32(x)),
            Number::F64(x) => f.write_str(&shortest(x)),
        }
    }
}

fn shortest_f32(x: f32) -> String {
    let text = format!("{x:?}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A parsed file whose values can be read.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    pub(super) input: Input<'a>,
    pub(super) tags: &'a Tags,
}

impl<'a> Values<'a> {
    /// The member of a group with this name.
    ///
    /// # Errors
    /// `ambiguous_source` when there are several.
    pub(super) fn member(self, group: &'a Group, name: &str) -> Result<Option<&'a Body>> {
        let mut found = group.entries.iter().filter(|e| e.name == name);
        let first = found.next();
        if found.next().is_some() {
            let message = format!("several tags are named `{name}` in one group");
            return Err(self.input.refuse(SourceCode::AmbiguousSource, message));
        }
        Ok(first.map(|e| &e.body))
    }

    /// The tag below a group at the end of a path of names.
    pub(super) fn find(self, group: &'a Group, path: &[&str]) -> Result<Option<&'a Body>> {
        let mut group = group;
        for (depth, name) in path.iter().enumerate() {
            match self.member(group, name)? {
                Some(body) if depth + 1 == path.len() => return Ok(Some(body)),
                Some(Body::Group(inner)) => group = inner,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The group at the end of a path of names.
    pub(super) fn group(self, group: &'a Group, path: &[&str]) -> Result<Option<&'a Group>> {
        Ok(match self.find(group, path)? {
            Some(Body::Group(found)) => Some(found),
            _ => None,
        })
    }

    /// The data at the end of a path of names.
    pub(super) fn data(self, group: &'a Group, path: &[&str]) -> Result<Option<&'a Data>> {
        Ok(match self.find(group, path)? {
            Some(Body::Data(found)) => Some(found),
            _ => None,
        })
    }

    /// The number at the end of a path of names; other data are none.
    pub(super) fn number_at(self, group: &'a Group, path: &[&str]) -> Result<Option<Number>> {
        self.data(group, path)?.map_or(Ok(None), |data| self.number(data))
    }

    /// The text at the end of a path of names, unless it is empty.
    pub(super) fn text_at(self, group: &'a Group, path: &[&str]) -> Result<Option<String>> {
        let text = self.data(group, path)?.map_or(Ok(None), |data| self.text(data))?;
        Ok(text.filter(|t| !t.trim().is_empty()))
    }

    /// A single number.
    pub(super) fn number(self, data: &Data) -> Result<Option<Number>> {
        let Kind::Scalar(scalar) = data.kind else { return Ok(None) };
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..scalar.bytes() as usize];
        self.input.read(data.offset, bytes)?;
        Ok(Some(self.decode(scalar, bytes)))
    }

    /// A text: an array of UTF-16 units, or a string of bytes.
    pub(super) fn text(self, data: &Data) -> Result<Option<String>> {
        let text = match data.kind {
            Kind::Array(Scalar::U16, n) if n <= LONGEST => {
                let units: Vec<u16> = self
                    .read(data)?
                    .chunks_exact(2)
                    .map(|pair| {
                        let pair = [pair[0], pair[1]];
                        if self.big_endian() { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
                    })
                    .collect();
                String::from_utf16_lossy(&units)
            }
            Kind::Bytes(n) if n <= LONGEST => plain_text(self.read(data)?),
            _ => return Ok(None),
        };
        Ok(Some(text.trim_end_matches('\0').to_owned()))
    }

    /// Any data as a short text.
    pub(super) fn show(self, data: &Data) -> Result<String> {
        if let Some(text) = self.text(data)? {
            let control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
            if !text.contains(control) {
                return Ok(text);
            }
        }
        Ok(match &data.kind {
            Kind::Scalar(Scalar::Bool) => {
                let set = self.number(data)?.and_then(Number::as_integer) != Some(0);
                if set { "true" } else { "false" }.to_owned()
            }
            Kind::Scalar(_) => self.number(data)?.map(|n| n.to_string()).unwrap_or_default(),
            Kind::Struct(fields) if fields.len() as u64 <= MOST_NUMBERS => self.list(data, fields)?,
            Kind::Array(scalar, n) if *n <= MOST_NUMBERS => self.list(data, &vec![*scalar; *n as usize])?,
            Kind::Struct(fields) => format!("a structure of {} fields", fields.len()),
            Kind::Array(Scalar::U16, n) => format!("{n} × uint16 or characters"),
            Kind::Array(scalar, n) => format!("{n} × {}", scalar.as_str()),
            Kind::StructArray(fields, n) => format!("{n} structures of {} fields", fields.len()),
            Kind::Bytes(n) => format!("{n} bytes"),
            Kind::Unknown(words) => format!("{} bytes of the unknown type {words:?}", data.bytes),
        })
    }

    /// Numbers one after another; `fields` are as many as the data hold and few.
    fn list(self, data: &Data, fields: &[Scalar]) -> Result<String> {
        let bytes = self.read(data)?;
        let mut rest = bytes.as_slice();
        let mut shown = Vec::new();
        for &field in fields {
            let Some((first, left)) = rest.split_at_checked(field.bytes() as usize) else { break };
            shown.push(self.decode(field, first).to_string());
            rest = left;
        }
        Ok(shown.join(", "))
    }

    /// All bytes of data that are known to be few.
    fn read(self, data: &Data) -> Result<Vec<u8>> {
        let mut bytes = vec![0; data.bytes as usize];
        self.input.read(data.offset, &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn big_endian(self) -> bool {
        self.tags.header.big_endian
    }

    fn decode(self, scalar: Scalar, bytes: &[u8]) -> Number {
        let mut word = [0; 8];
        // Least significant byte first, whatever the file.
        for (to, &from) in word.iter_mut().zip(bytes) {
            *to = from;
        }
        if self.big_endian() {
            word[..bytes.len()].reverse();
        }
        let unsigned = u64::from_le_bytes(word);
        Number::Integer(match scalar {
            Scalar::Bool | Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => i128::from(unsigned),
            Scalar::I8 => i128::from(unsigned as u8 as i8),
            Scalar::I16 => i128::from(unsigned as u16 as i16),
            Scalar::I32 => i128::from(unsigned as u32 as i32),
            Scalar::I64 => i128::from(unsigned as i64),
            Scalar::F32 => return Number::F32(f32::from_bits(unsigned as u32)),
            Scalar::F64 => return Number::F64(f64::from_bits(unsigned)),
        })
    }
}

/// Data below a group with their paths, in the order of the file.
pub(super) fn walk<'a>(
    group: &'a Group,
    path: &mut Vec<&'a str>,
    visit: &mut dyn FnMut(&[&'a str], &'a Data),
) {
    for Entry { name, body } in &group.entries {
        path.push(name);
        match body {
            Body::Group(inner) => walk(inner, path, visit),
            Body::Data(data) => visit(path, data),
        }
        path.pop();
    }
}
