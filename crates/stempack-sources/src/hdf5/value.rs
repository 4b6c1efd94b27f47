//! Small recorded values: numbers and texts of attributes and datasets, bounded, never converted between classes.

use hdf5_metno::types::{FixedAscii, FixedUnicode, TypeDescriptor, VarLenAscii, VarLenUnicode};
use hdf5_metno::{Container, H5Type};

/// Most numbers of one recorded value; longer arrays are data, not metadata.
pub const MAX_NUMBERS: usize = 64;
/// Longest fixed-length text that is read.
pub const MAX_TEXT: usize = 16 << 10;

/// A recorded value as it stands in the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unsigned integers (and booleans).
    Unsigned(Vec<u64>),
    /// Signed integers.
    Signed(Vec<i64>),
    /// Floating-point numbers, widened.
    Float(Vec<f64>),
    /// One text, without padding.
    Text(String),
}

impl Value {
    /// How many numbers; a text counts as one.
    pub fn len(&self) -> usize {
        match self {
            Value::Unsigned(v) => v.len(),
            Value::Signed(v) => v.len(),
            Value::Float(v) => v.len(),
            Value::Text(_) => 1,
        }
    }

    /// Whether there is no number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value when it is exactly one number, as a float.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Unsigned(v) if v.len() == 1 => Some(v[0] as f64),
            Value::Signed(v) if v.len() == 1 => Some(v[0] as f64),
            Value::Float(v) if v.len() == 1 => Some(v[0]),
            _ => None,
        }
    }

    /// The numbers when each of them is a whole number that is not negative.
    pub fn counts(&self) -> Option<Vec<u64>> {
        // Above 2^53 floats no longer name single integers.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match self {
            Value::Unsigned(v) => Some(v.clone()),
            Value::Signed(v) => v.iter().map(|&n| u64::try_from(n).ok()).collect(),
            Value::Float(v) => v
                .iter()
                .map(|&x| ((0.0..=EXACT).contains(&x) && x.fract() == 0.0).then_some(x as u64))
                .collect(),
            Value::Text(_) => None,
        }
    }

    /// The value when it is exactly one whole number that is not negative.
    pub fn count(&self) -> Option<u64> {
        match self.counts()?.as_slice() {
            &[n] => Some(n),
            _ => None,
        }
    }

    /// The text, when it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(t) => Some(t),
            _ => None,
        }
    }

    /// For people and for retained metadata: numbers joined with `, `, floats in their shortest exact form.
    pub fn display(&self) -> String {
        fn join<T: ToString>(v: &[T]) -> String {
            v.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
        }
        match self {
            Value::Unsigned(v) => join(v),
            Value::Signed(v) => join(v),
            Value::Float(v) => v.iter().map(|&x| shortest(x)).collect::<Vec<_>>().join(", "),
            Value::Text(t) => t.clone(),
        }
    }
}

/// The shortest decimal that reads back as the same float, with an exponent where plain digits would be many.
pub(crate) fn shortest(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 || !x.is_finite() || (1e-4..1e16).contains(&size) { format!("{x}") } else { format!("{x:e}") }
}

/// Reads an attribute or dataset that is small enough to be a recorded value; anything else is absent.
///
/// The caller has made sure that reading does not leave the file (virtual or external storage).
pub(super) fn read(object: &Container) -> Option<Value> {
    super::watch::step();
    let descriptor = object.dtype().ok()?.to_descriptor().ok()?;
    let space = object.space().ok()?;
    let count = if space.is_null() { 0 } else { space.size() };
    if count == 0 || count > MAX_NUMBERS {
        return None;
    }
    let numbers = |ok: bool| ok.then_some(());
    match descriptor {
        TypeDescriptor::Unsigned(_) => Some(Value::Unsigned(all(object, count)?)),
        TypeDescriptor::Integer(_) => Some(Value::Signed(all(object, count)?)),
        TypeDescriptor::Float(_) => Some(Value::Float(all(object, count)?)),
        TypeDescriptor::Boolean => {
            Some(Value::Unsigned(all::<bool>(object, count)?.into_iter().map(u64::from).collect()))
        }
        TypeDescriptor::FixedAscii(n) => {
            numbers(count == 1 && n <= MAX_TEXT)?;
            fixed(object, n, false)
        }
        TypeDescriptor::FixedUnicode(n) => {
            numbers(count == 1 && n <= MAX_TEXT)?;
            fixed(object, n, true)
        }
        TypeDescriptor::VarLenAscii => {
            numbers(count == 1)?;
            variable(all::<VarLenAscii>(object, 1)?.first()?.as_bytes())
        }
        TypeDescriptor::VarLenUnicode => {
            numbers(count == 1)?;
            variable(all::<VarLenUnicode>(object, 1)?.first()?.as_bytes())
        }
        _ => None,
    }
}

fn all<T: H5Type>(object: &Container, count: usize) -> Option<Vec<T>> {
    object.read_raw::<T>().ok().filter(|v| v.len() == count)
}

/// The library copies a shorter fixed text into a longer one, so a few capacities serve every length.
fn fixed(object: &Container, length: usize, unicode: bool) -> Option<Value> {
    fn ascii<const N: usize>(object: &Container) -> Option<Vec<u8>> {
        Some(all::<FixedAscii<N>>(object, 1)?.first()?.as_bytes().to_vec())
    }
    fn utf8<const N: usize>(object: &Container) -> Option<Vec<u8>> {
        Some(all::<FixedUnicode<N>>(object, 1)?.first()?.as_bytes().to_vec())
    }
    let bytes = match (unicode, length) {
        (false, ..=64) => ascii::<64>(object),
        (false, ..=1024) => ascii::<1024>(object),
        (false, _) => ascii::<MAX_TEXT>(object),
        (true, ..=64) => utf8::<64>(object),
        (true, ..=1024) => utf8::<1024>(object),
        (true, _) => utf8::<MAX_TEXT>(object),
    }?;
    let end = bytes.iter().rposition(|&b| b != 0 && b != b' ').map_or(0, |i| i + 1);
    text(&bytes[..end])
}

fn variable(bytes: &[u8]) -> Option<Value> {
    if bytes.len() > MAX_TEXT { None } else { text(bytes) }
}

/// Texts are bytes in the file; what is not UTF-8 is shown with replacement characters, never trusted to be valid.
fn text(bytes: &[u8]) -> Option<Value> {
    Some(Value::Text(String::from_utf8_lossy(bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_counts() {
        assert_eq!(Value::Float(vec![3.0, 4.0]).counts(), Some(vec![3, 4]));
        assert_eq!(Value::Float(vec![3.7]).count(), None);
        assert_eq!(Value::Float(vec![f64::NAN]).count(), None);
        assert_eq!(Value::Float(vec![1e300]).count(), None);
        assert_eq!(Value::Signed(vec![-1]).count(), None);
        assert_eq!(Value::Signed(vec![7]).count(), Some(7));
        assert_eq!(Value::Unsigned(vec![1, 2]).count(), None);
        assert_eq!(Value::Text("3".into()).count(), None);
    }

    #[test]
    fn floats_print_shortest() {
        assert_eq!(
            Value::Float(vec![3.990588235294118e-5, 0.0001, 0.0]).display(),
            "3.990588235294118e-5, 0.0001, 0"
        );
        assert_eq!(Value::Float(vec![300000.0]).display(), "300000");
        assert_eq!(Value::Signed(vec![-1, 0]).display(), "-1, 0");
    }

    #[test]
    fn every_kind_of_recorded_value_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = hdf5_metno::File::create(dir.path().join("values.h5")).unwrap();
        let write = |name: &str| file.create_group(name).unwrap();
        let g = write("g");
        g.new_attr::<u16>().create("u").unwrap().write_scalar(&7u16).unwrap();
        g.new_attr::<f32>().create("f").unwrap().write_scalar(&0.25f32).unwrap();
        g.new_attr::<bool>().create("b").unwrap().write_scalar(&true).unwrap();
        let ascii = FixedAscii::<12>::from_ascii(b"abc  ").unwrap();
        g.new_attr::<FixedAscii<12>>().create("s").unwrap().write_scalar(&ascii).unwrap();
        let long: FixedUnicode<900> = "\u{b5}m".parse().unwrap();
        g.new_attr::<FixedUnicode<900>>().create("t").unwrap().write_scalar(&long).unwrap();
        let v: VarLenUnicode = "\u{3bc}s".parse().unwrap();
        g.new_attr::<VarLenUnicode>().create("v").unwrap().write_scalar(&v).unwrap();
        g.new_attr::<i32>().shape([2]).create("two").unwrap().write_raw(&[3, -4]).unwrap();
        g.new_attr::<i32>().shape([MAX_NUMBERS + 1]).create("many").unwrap();
        let get = |name: &str| read(&g.attr(name).unwrap());
        assert_eq!(get("u"), Some(Value::Unsigned(vec![7])));
        assert_eq!(get("f"), Some(Value::Float(vec![0.25])));
        assert_eq!(get("b"), Some(Value::Unsigned(vec![1])));
        assert_eq!(get("s"), Some(Value::Text("abc".into())));
        assert_eq!(get("t"), Some(Value::Text("\u{b5}m".into())));
        assert_eq!(get("v"), Some(Value::Text("\u{3bc}s".into())));
        assert_eq!(get("two"), Some(Value::Signed(vec![3, -4])));
        assert_eq!(get("many"), None);
    }
}
