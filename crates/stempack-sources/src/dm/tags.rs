//! The tag grammar of versions 3 and 4: a tree of named groups and typed data whose bodies stay where they are.
//!
//! Everything that describes structure is big-endian; data are in the byte order the header names. Nothing is
//! allocated for what a file merely claims: counts are held against the bytes that are left, and the tree has limits.

use super::bytes::{Cursor, Input};
use crate::error::SourceCode;
use stempack_model::{Error, Result};

/// Deepest nesting of groups.
const MOST_DEPTH: usize = 64;
/// Most entries of one group, and of the whole tree.
const MOST_ENTRIES: u64 = 1_000_000;
/// Most bytes of names and type descriptions that are kept of a file.
const MOST_KEPT: usize = 64 << 20;
/// Most words that describe one type.
const MOST_WORDS: u64 = 4096;

/// Which grammar a file follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// 32-bit words; an entry does not say how long it is.
    Dm3,
    /// 64-bit words; every entry begins with its size.
    Dm4,
}

impl Version {
    /// `DM3` or `DM4`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Version::Dm3 => "DM3",
            Version::Dm4 => "DM4",
        }
    }
    fn header_bytes(self) -> u64 {
        match self {
            Version::Dm3 => 12,
            Version::Dm4 => 16,
        }
    }
    /// The fewest bytes an entry takes: an empty group without a name.
    fn least_entry_bytes(self) -> u64 {
        match self {
            Version::Dm3 => 3 + 6,
            Version::Dm4 => 3 + 8,
        }
    }
}

/// The start of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) version: Version,
    /// Declared bytes of the root group; some writers count four more.
    pub(super) root_bytes: u64,
    /// Byte order of the data.
    pub(super) big_endian: bool,
}

/// Bytes that [`Header::parse`] looks at.
pub(super) const HEADER_BYTES: usize = 16;

impl Header {
    /// Reads the first bytes; what is not of this format is said in words.
    pub(super) fn parse(first: &[u8; HEADER_BYTES]) -> Result<Header, String> {
        let word = |at: usize| u32::from_be_bytes([first[at], first[at + 1], first[at + 2], first[at + 3]]);
        let (version, root_bytes, order) = match word(0) {
            3 => (Version::Dm3, u64::from(word(4)), word(8)),
            4 => (Version::Dm4, u64::from(word(4)) << 32 | u64::from(word(8)), word(12)),
            other => return Err(format!("the first word is {other}, not a version 3 or 4")),
        };
        match order {
            0 | 1 => Ok(Header { version, root_bytes, big_endian: order == 0 }),
            other => Err(format!("the byte order word is {other}, not 0 or 1")),
        }
    }
}

/// Types of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    I16,
    I32,
    U16,
    U32,
    F32,
    F64,
    Bool,
    I8,
    U8,
    I64,
    U64,
}

impl Scalar {
    fn of(code: u64) -> Option<Self> {
        use Scalar::{Bool, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        Some(match code {
            2 => I16,
            3 => I32,
            4 => U16,
            5 => U32,
            6 => F32,
            7 => F64,
            8 => Bool,
            9 => I8,
            10 => U8,
            11 => I64,
            12 => U64,
            _ => return None,
        })
    }
    pub(super) fn bytes(self) -> u64 {
        match self {
            Scalar::Bool | Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::F64 | Scalar::I64 | Scalar::U64 => 8,
        }
    }
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Scalar::I16 => "int16",
            Scalar::I32 => "int32",
            Scalar::U16 => "uint16",
            Scalar::U32 => "uint32",
            Scalar::F32 => "float32",
            Scalar::F64 => "float64",
            Scalar::Bool => "bool",
            Scalar::I8 => "int8",
            Scalar::U8 => "uint8",
            Scalar::I64 => "int64",
            Scalar::U64 => "uint64",
        }
    }
}

/// What a data tag holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar(Scalar),
    Struct(Vec<Scalar>),
    Array(Scalar, u64),
    StructArray(Vec<Scalar>, u64),
    Bytes(u64),
    /// A type that is not known, by its first words.
    Unknown(Vec<u64>),
}

/// A data tag: its type, and where its bytes lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A group or data.
#[derive(Debug)]
pub(super) enum Body {
    Group(Group),
    Data(Data),
}

/// A named member of a group. Members of lists have no name of their own and count from 1.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) body: Body,
}

/// Entries in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) entries: Vec<Entry>,
}

/// A parsed file.
#[derive(Debug)]
pub(super) struct Tags {
    pub(super) header: Header,
    pub(super) root: Group,
    /// Where the root group ended.
    pub(super) end: u64,
}

impl Tags {
    /// Parses the whole structure.
    ///
    /// # Errors
    /// `unknown_format`, `length_mismatch` for a file that is cut short, `malformed_header`, `too_large`.
    pub(super) fn parse(input: Input<'_>) -> Result<Tags> {
        let mut cursor = Cursor::new(input, 0);
        let header = Header::parse(&cursor.take::<HEADER_BYTES>()?)
            .map_err(|why| input.refuse(SourceCode::UnknownFormat, format!("is no DM3 or DM4: {why}")))?;
        let begin = header.version.header_bytes();
        cursor.go_to(begin);
        if header.root_bytes > input.bytes().saturating_sub(begin) {
            let message = format!(
                "declares {} bytes of tags after its header of {begin}, the file has {} bytes in all",
                header.root_bytes,
                input.bytes()
            );
            return Err(input.refuse(SourceCode::LengthMismatch, message).hint("the file was cut short"));
        }
        let mut parser =
            Parser { cursor, input, version: header.version, trail: vec![], entries: 0, kept: 0 };
        let root = parser.group(input.bytes())?;
        Ok(Tags { header, root, end: parser.cursor.at() })
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    input: Input<'a>,
    version: Version,
    /// Names from the root to the entry being read.
    trail: Vec<String>,
    entries: u64,
    kept: usize,
}

impl Parser<'_> {
    fn fail(&self, code: SourceCode, what: impl AsRef<str>) -> Error {
        let place = if self.trail.is_empty() { "the root".to_owned() } else { self.trail.join(".") };
        let message = format!("{} at tag `{place}`, byte {}", what.as_ref(), self.cursor.at());
        self.input.refuse(code, message)
    }

    fn malformed(&self, what: impl AsRef<str>) -> Error {
        self.fail(SourceCode::MalformedHeader, what)
    }

    fn keep(&mut self, bytes: usize) -> Result<()> {
        self.kept = self.kept.saturating_add(bytes);
        if self.kept > MOST_KEPT {
            return Err(self.fail(SourceCode::TooLarge, format!("more than {MOST_KEPT} bytes of tag names")));
        }
        Ok(())
    }

    /// Fails unless `bytes` more lie before `end`.
    fn room(&self, bytes: u64, end: u64) -> Result<()> {
        if bytes > end.saturating_sub(self.cursor.at()) {
            return Err(self.malformed(format!("{bytes} bytes do not fit before byte {end}")));
        }
        Ok(())
    }

    fn take<const N: usize>(&mut self, end: u64) -> Result<[u8; N]> {
        self.room(N as u64, end)?;
        self.cursor.take()
    }

    fn word(&mut self, end: u64) -> Result<u64> {
        Ok(match self.version {
            Version::Dm3 => u64::from(u32::from_be_bytes(self.take(end)?)),
            Version::Dm4 => u64::from_be_bytes(self.take(end)?),
        })
    }

    fn group(&mut self, end: u64) -> Result<Group> {
        if self.trail.len() >= MOST_DEPTH {
            return Err(self.fail(SourceCode::TooLarge, format!("groups nest deeper than {MOST_DEPTH}")));
        }
        // Whether the group is sorted and shown unfolded.
        let _flags: [u8; 2] = self.take(end)?;
        let count = self.word(end)?;
        if count > MOST_ENTRIES {
            return Err(self.fail(SourceCode::TooLarge, format!("a group of {count} entries")));
        }
        let least = count * self.version.least_entry_bytes();
        if least > end.saturating_sub(self.cursor.at()) {
            return Err(self.malformed(format!("{count} entries do not fit before byte {end}")));
        }
        let mut group = Group::default();
        for position in 1..=count {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(self.fail(SourceCode::TooLarge, format!("more than {MOST_ENTRIES} tags")));
            }
            if let Some(entry) = self.entry(position, end)? {
                self.keep(size_of::<Entry>())?;
                group.entries.push(entry);
            }
        }
        Ok(group)
    }

    /// `None` for an entry of a kind that is not known but says how long it is.
    fn entry(&mut self, position: u64, parent_end: u64) -> Result<Option<Entry>> {
        let [kind] = self.take(parent_end)?;
        let length = u16::from_be_bytes(self.take(parent_end)?);
        self.room(u64::from(length), parent_end)?;
        let mut name = vec![0; usize::from(length)];
        self.cursor.fill(&mut name)?;
        self.keep(name.len())?;
        let name = if name.is_empty() { position.to_string() } else { plain_text(name) };
        self.trail.push(name);
        let end = match self.version {
            Version::Dm3 => parent_end,
            Version::Dm4 => {
                let size = self.word(parent_end)?;
                self.room(size, parent_end)?;
                self.cursor.at() + size
            }
        };
        let body = match kind {
            20 => Some(Body::Group(self.group(end)?)),
            21 => Some(Body::Data(self.data(end)?)),
            _ if self.version == Version::Dm4 => None,
            other => return Err(self.malformed(format!("an entry of the unknown kind {other}"))),
        };
        if self.version == Version::Dm4 {
            self.cursor.go_to(end);
        }
        let name = self.trail.pop().unwrap_or_default();
        Ok(body.map(|body| Entry { name, body }))
    }

    fn data(&mut self, end: u64) -> Result<Data> {
        if self.take(end)? != *b"%%%%" {
            return Err(self.malformed("data without their mark `%%%%`"));
        }
        let count = self.word(end)?;
        if count == 0 || count >= MOST_WORDS {
            return Err(self.malformed(format!("a type described by {count} words")));
        }
        let mut words = Vec::new();
        for _ in 0..count {
            words.push(self.word(end)?);
        }
        let kind = kind(&words);
        let offset = self.cursor.at();
        let of = |fields: &[Scalar]| fields.iter().map(|f| f.bytes()).sum::<u64>();
        let bytes = match &kind {
            Kind::Scalar(scalar) => Some(scalar.bytes()),
            Kind::Struct(fields) => Some(of(fields)),
            Kind::Array(scalar, n) => n.checked_mul(scalar.bytes()),
            Kind::StructArray(fields, n) => n.checked_mul(of(fields)),
            Kind::Bytes(n) => Some(*n),
            Kind::Unknown(_) if self.version == Version::Dm4 => Some(end - offset),
            Kind::Unknown(words) => return Err(self.malformed(format!("data of the unknown type {words:?}"))),
        };
        let bytes = bytes.ok_or_else(|| self.malformed("data of more bytes than can be counted"))?;
        self.room(bytes, end)?;
        if let Kind::Struct(fields) | Kind::StructArray(fields, _) = &kind {
            self.keep(fields.len())?;
        }
        self.cursor.go_to(offset + bytes);
        Ok(Data { kind, offset, bytes })
    }
}

/// The type that words describe.
fn kind(words: &[u64]) -> Kind {
    let known = match *words {
        [code] => Scalar::of(code).map(Kind::Scalar),
        [18, length] => Some(Kind::Bytes(length)),
        [20, code, length] => Scalar::of(code).map(|scalar| Kind::Array(scalar, length)),
        [15, _, count, ref fields @ ..] => structure(count, fields).map(Kind::Struct),
        [20, 15, _, count, ref fields @ .., length] => {
            structure(count, fields).map(|fields| Kind::StructArray(fields, length))
        }
        _ => None,
    };
    known.unwrap_or_else(|| Kind::Unknown(words.iter().take(8).copied().collect()))
}

/// Fields are pairs of a name length, which is not used, and a type.
fn structure(count: u64, words: &[u64]) -> Option<Vec<Scalar>> {
    if words.len() as u64 != count.checked_mul(2)? {
        return None;
    }
    words.chunks_exact(2).map(|pair| Scalar::of(pair[1])).collect()
}

/// UTF-8, else Latin-1.
pub(super) fn plain_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| e.as_bytes().iter().map(|&b| char::from(b)).collect())
}
