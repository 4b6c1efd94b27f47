//! What can be wrong with one stream, before anyone says which stream it was.

use crate::error::CodecCode;
use stempack_model::Error;

/// A fault of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A selector that names no way to code a stream.
    Selector(u8),
    /// A stream whose length its selector excludes: bytes found, and what is expected.
    Length(usize, Expected),
    /// A sparse event's scan position does not rise above the one before: that one and this one.
    Order(usize, usize),
    /// A sparse event's scan position lies outside the stream: position and length.
    Position(usize, usize),
    /// The entropy coder's first state.
    FirstState(u32),
    /// An entropy-coded stream ends before this value.
    Truncated(usize),
    /// Bytes left over after the last value of an entropy-coded stream.
    LeftOver(usize),
    /// The entropy coder's last state.
    LastState(u32),
    /// A count (position, count) above what the sample type holds.
    Value(usize, u16, u16),
}

/// Which length a selector wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Exactly so many bytes.
    Exactly(usize),
    /// At least so many bytes.
    AtLeast(usize),
    /// At most so many bytes.
    AtMost(usize),
    /// An even number of bytes.
    Even,
}

impl Fault {
    /// The fault as an error at `place`.
    pub(super) fn at(self, place: impl std::fmt::Display) -> Error {
        let (code, message) = match self {
            Fault::Selector(found) => (
                CodecCode::QemSelector,
                format!("selector {found}, expected a model (0 to 63), 252, 253, 254 or 255"),
            ),
            Fault::Length(found, expected) => {
                let expected = match expected {
                    Expected::Exactly(n) => format!("exactly {n}"),
                    Expected::AtLeast(n) => format!("at least {n}"),
                    Expected::AtMost(n) => format!("at most {n}"),
                    Expected::Even => "an even number".to_owned(),
                };
                (CodecCode::QemStreamLength, format!("stream of {found} bytes, expected {expected}"))
            }
            Fault::Order(before, found) => (
                CodecCode::QemSparse,
                format!("sparse count at scan position {found} after {before}, expected a later position"),
            ),
            Fault::Position(found, len) => (
                CodecCode::QemSparse,
                format!("sparse count at scan position {found}, expected a position below {len}"),
            ),
            Fault::FirstState(found) => (
                CodecCode::QemEntropy,
                format!("entropy coder begins with state {found}, expected 8388608 to 2147483647"),
            ),
            Fault::Truncated(at) => (
                CodecCode::QemEntropy,
                format!("entropy-coded stream ends within the value at scan position {at}"),
            ),
            Fault::LeftOver(bytes) => (
                CodecCode::QemEntropy,
                format!("entropy-coded stream has {bytes} bytes after its last value, expected none"),
            ),
            Fault::LastState(found) => {
                (CodecCode::QemEntropy, format!("entropy coder ends with state {found}, expected 8388608"))
            }
            Fault::Value(at, found, max) => (
                CodecCode::QemValueRange,
                format!("count {found} at scan position {at}, expected at most {max}"),
            ),
        };
        Error::new(code, message).at(place)
    }
}
