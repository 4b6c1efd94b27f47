//! What the header of an `.npy` file says; the Python literal in it is parsed strictly and within a bound.
//!
//! The same parser serves arrays that are opened as acquisitions and masks that are read from files.
//!
//! Layout (NumPy format 1.0 to 3.0): magic `93 4E 55 4D 50 59`, major, minor, header length (u16 LE in 1.0, u32 LE
//! later), then a dictionary literal with exactly the keys `descr`, `fortran_order`, `shape`.

/// The first bytes of every `.npy` file.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header literal that is read; real ones have some hundred bytes.
pub const MAX_HEADER: usize = 1 << 20;
/// Bytes before the literal, at most: what [`end`] needs to see.
pub const PREFIX_BYTES: usize = 12;

/// The three facts of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// NumPy's text for the type of an element, such as `<u2`.
    pub descr: String,
    /// Whether the first axis is the fastest.
    pub fortran_order: bool,
    /// Sizes of the axes.
    pub shape: Vec<u64>,
}

/// Why a header is refused; users of the parser have their own codes for these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The magic bytes are missing.
    NotNpy,
    /// A valid header of something that is not read.
    Unsupported(String),
    /// The header contradicts its format.
    Malformed(String),
}

type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    /// The sentence.
    pub fn message(&self) -> &str {
        match self {
            Fault::NotNpy => "the file does not begin with the `.npy` magic bytes",
            Fault::Unsupported(message) | Fault::Malformed(message) => message,
        }
    }
}

/// Where the header ends and the data begin, from the first [`PREFIX_BYTES`] bytes or what there is of them.
///
/// # Errors
/// As [`parse`].
pub fn end(bytes: &[u8]) -> Result<usize> {
    span(bytes).map(|(_, end)| end)
}

/// Where the literal begins and ends.
fn span(bytes: &[u8]) -> Result<(usize, usize)> {
    if !bytes.starts_with(MAGIC) {
        return Err(Fault::NotNpy);
    }
    let short = || malformed("the header is cut short");
    let (at, length) = match bytes.get(6..8) {
        Some([1, 0]) => {
            let [a, b] = *bytes.get(8..10).and_then(|s| s.first_chunk::<2>()).ok_or_else(short)?;
            (10, usize::from(u16::from_le_bytes([a, b])))
        }
        Some([2 | 3, 0]) => {
            let word = *bytes.get(8..12).and_then(|s| s.first_chunk::<4>()).ok_or_else(short)?;
            (12, u32::from_le_bytes(word) as usize)
        }
        Some([major, minor]) => {
            let message = format!("`.npy` version {major}.{minor} is not known");
            return Err(Fault::Unsupported(message));
        }
        _ => return Err(short()),
    };
    if length > MAX_HEADER {
        return Err(malformed(format!("a header of {length} bytes exceeds {MAX_HEADER}")));
    }
    Ok((at, at + length))
}

/// Parses a header at the start of `bytes`; also returns where the data begin.
///
/// # Errors
/// What is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<(Header, usize)> {
    let (at, end) = span(bytes)?;
    let text = bytes.get(at..end).ok_or_else(|| malformed("the header is cut short"))?;
    let text = std::str::from_utf8(text).map_err(|_| malformed("the header is no text"))?;
    Ok((Literal { rest: text }.header()?, end))
}

fn malformed(message: impl Into<String>) -> Fault {
    Fault::Malformed(message.into())
}

struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn header(mut self) -> Result<Header> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.take("}") {
            let key = self.string()?;
            self.expect(":")?;
            let repeated = match key {
                "descr" if self.peek("[") => {
                    let message = "an array of records is not accepted, only plain numbers";
                    return Err(Fault::Unsupported(message.to_owned()));
                }
                "descr" => descr.replace(self.string()?.to_owned()).is_some(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.tuple()?).is_some(),
                other => return Err(malformed(format!("header key `{other}` is not known"))),
            };
            if repeated {
                return Err(malformed(format!("header key `{key}` stands twice")));
            }
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        if !self.rest.trim().is_empty() {
            return Err(malformed("text follows the header dictionary"));
        }
        match (descr, fortran_order, shape) {
            (Some(descr), Some(fortran_order), Some(shape)) => Ok(Header { descr, fortran_order, shape }),
            _ => Err(malformed("the header lacks `descr`, `fortran_order` or `shape`")),
        }
    }

    fn peek(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.starts_with(token)
    }
    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
    fn expect(&mut self, token: &str) -> Result<()> {
        if self.take(token) {
            Ok(())
        } else {
            Err(malformed(format!("the header lacks `{token}` where it is due")))
        }
    }
    fn string(&mut self) -> Result<&'a str> {
        let quote = if self.take("'") {
            '\''
        } else {
            self.expect("\"")?;
            '"'
        };
        let end = self.rest.find(quote).ok_or_else(|| malformed("a header text is not closed"))?;
        let text = &self.rest[..end];
        if text.contains('\\') {
            return Err(malformed("a header text has an escape"));
        }
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }
    fn boolean(&mut self) -> Result<bool> {
        if self.take("True") {
            return Ok(true);
        }
        self.expect("False")?;
        Ok(false)
    }
    fn tuple(&mut self) -> Result<Vec<u64>> {
        let mut sizes = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            self.rest = self.rest.trim_start();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let size = self.rest[..end].parse().map_err(|_| malformed("a size in the shape is no number"))?;
            self.rest = &self.rest[end..];
            // Python 2 wrote long integers with a suffix.
            let _long = self.take("L");
            sizes.push(size);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(version: [u8; 2], literal: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(version);
        match version[0] {
            1 => bytes.extend((literal.len() as u16).to_le_bytes()),
            _ => bytes.extend((literal.len() as u32).to_le_bytes()),
        }
        bytes.extend(literal.as_bytes());
        bytes
    }

    #[test]
    fn headers_of_all_versions_are_read() {
        let literal = "{'descr': '|b1', 'fortran_order': False, 'shape': (192, 100), }   \n";
        let want = Header { descr: "|b1".into(), fortran_order: false, shape: vec![192, 100] };
        for (version, begin) in [([1, 0], 10), ([2, 0], 12), ([3, 0], 12)] {
            assert_eq!(parse(&with(version, literal)).unwrap(), (want.clone(), begin + literal.len()));
        }
        let one =
            parse(&with([1, 0], r#"{"shape": (5L,), "fortran_order": True, "descr": "<u8"}"#)).unwrap().0;
        assert_eq!(one, Header { descr: "<u8".into(), fortran_order: true, shape: vec![5] });
        assert_eq!(
            parse(&with([1, 0], "{'descr':'<f8','fortran_order':False,'shape':()}")).unwrap().0.shape,
            Vec::<u64>::new()
        );
    }

    #[test]
    fn damaged_headers_are_refused() {
        for literal in [
            "",
            "{",
            "{'descr': '|u1'}",
            "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'other': 1}",
            "{'descr': '|u1', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (1 1)}",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)} {}",
            "{'descr': '|u1, 'fortran_order': False, 'shape': (1,)}",
        ] {
            assert!(matches!(parse(&with([1, 0], literal)), Err(Fault::Malformed(_))), "{literal}");
        }
        let records = "{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (1,)}";
        assert!(matches!(parse(&with([1, 0], records)), Err(Fault::Unsupported(_))));
        assert!(matches!(parse(&with([4, 0], "{}")), Err(Fault::Unsupported(_))));
        assert!(matches!(parse(&with([1, 1], "{}")), Err(Fault::Unsupported(_))));
        assert_eq!(parse(b"\x89PNG"), Err(Fault::NotNpy));
        let whole = with([2, 0], "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}");
        for cut in 6..whole.len() {
            assert!(matches!(parse(&whole[..cut]), Err(Fault::Malformed(_))), "{cut}");
        }
        assert_eq!(end(&whole[..PREFIX_BYTES]), Ok(whole.len()));
        let mut huge = MAGIC.to_vec();
        huge.extend([2, 0, 255, 255, 255, 255]);
        assert!(matches!(parse(&huge), Err(Fault::Malformed(_))));
    }
}
