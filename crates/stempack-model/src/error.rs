//! How anything in stempack fails: a kind shared by all crates, a stable code, a sentence, and separate advice.

use std::fmt;

/// What class of failure an [`Error`] is; front ends map it to exit codes and colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The bytes are not of the format that was asked for.
    NotThisFormat,
    /// Valid, but outside what is supported.
    Unsupported,
    /// The bytes contradict their own format.
    Malformed,
    /// Two recorded or stated facts disagree, or a needed one is missing.
    Conflict,
    /// A digest or checksum does not match.
    Integrity,
    /// A declared or configured limit is exceeded.
    Limit,
    /// The source changed while it was being read.
    Changed,
    /// The caller cancelled.
    Cancelled,
    /// The operating system refused.
    Io,
    /// The request itself makes no sense.
    Usage,
}

impl Kind {
    /// The name used in JSON error documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::NotThisFormat => "NotThisFormat",
            Kind::Unsupported => "Unsupported",
            Kind::Malformed => "Malformed",
            Kind::Conflict => "Conflict",
            Kind::Integrity => "Integrity",
            Kind::Limit => "Limit",
            Kind::Changed => "Changed",
            Kind::Cancelled => "Cancelled",
            Kind::Io => "Io",
            Kind::Usage => "Usage",
        }
    }
}

/// A crate's own list of stable failure codes; see [`error_codes!`](crate::error_codes).
pub trait ErrorCode: Copy {
    /// The stable, lower-case code.
    fn code(self) -> &'static str;
    /// The kind every failure with this code has.
    fn kind(self) -> Kind;
}

/// Declares a crate's error-code enum: each variant has a stable code and a [`Kind`].
#[macro_export]
macro_rules! error_codes {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $code:literal, $kind:ident;)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $($(#[$vmeta])* $variant,)+ }
        impl $crate::ErrorCode for $name {
            fn code(self) -> &'static str { match self { $($name::$variant => $code,)+ } }
            fn kind(self) -> $crate::Kind { match self { $($name::$variant => $crate::Kind::$kind,)+ } }
        }
        impl $name {
            /// Every code of this crate, for documentation and tests.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];
        }
    };
}

error_codes! {
    /// Failures of the vocabulary itself.
    pub enum ModelCode {
        /// A shape has a zero dimension or its product overflows.
        InvalidShape = "invalid_shape", Malformed;
        /// The caller cancelled the task.
        Cancelled = "cancelled", Cancelled;
        /// The operating system refused a read, write or stat.
        Io = "io", Io;
        /// The work cannot be done within the memory budget.
        OverBudget = "over_budget", Limit;
        /// An index or range lies outside the acquisition.
        OutOfRange = "out_of_range", Usage;
        /// A value that the user states cannot be taken as it is.
        InvalidOverride = "invalid_override", Usage;
    }
}

/// A machine-readable fact attached to an [`Error`], such as a frame index or a list of candidates.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    /// A count, index or size.
    Number(u64),
    /// A text, such as a path.
    Text(String),
    /// Several texts, such as candidate scan shapes.
    List(Vec<String>),
}

impl From<u64> for Detail {
    fn from(v: u64) -> Self {
        Detail::Number(v)
    }
}
impl From<usize> for Detail {
    fn from(v: usize) -> Self {
        Detail::Number(v as u64)
    }
}
impl From<&str> for Detail {
    fn from(v: &str) -> Self {
        Detail::Text(v.to_owned())
    }
}
impl From<String> for Detail {
    fn from(v: String) -> Self {
        Detail::Text(v)
    }
}
impl From<Vec<String>> for Detail {
    fn from(v: Vec<String>) -> Self {
        Detail::List(v)
    }
}

/// One failure: what, where, expected and found in the message; advice in the hint.
#[derive(Debug)]
pub struct Error(Box<Body>);

#[derive(Debug)]
struct Body {
    kind: Kind,
    code: &'static str,
    message: String,
    hint: Option<String>,
    details: Vec<(&'static str, Detail)>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result type of every stempack crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A failure with a crate's code and a message that starts lower case and has no full stop.
    pub fn new(code: impl ErrorCode, message: impl Into<String>) -> Self {
        Error(Box::new(Body {
            kind: code.kind(),
            code: code.code(),
            message: message.into(),
            hint: None,
            details: Vec::new(),
            cause: None,
        }))
    }

    /// An operating-system failure on `path`.
    pub fn io(action: &str, path: &std::path::Path, cause: std::io::Error) -> Self {
        let mut e = Error::new(ModelCode::Io, format!("cannot {action} `{}`: {cause}", path.display()))
            .with("path", path.display().to_string());
        e.0.cause = Some(Box::new(cause));
        e
    }

    /// Adds advice that a front end prints apart from the message.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds a machine-readable detail.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Detail>) -> Self {
        self.0.details.push((name, value.into()));
        self
    }

    /// Says where it happened, in front of the message.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }

    /// The class of the failure.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }
    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.0.code
    }
    /// The sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// The advice, if there is any.
    pub fn advice(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
    /// Machine-readable details in the order they were added.
    pub fn details(&self) -> &[(&'static str, Detail)] {
        &self.0.details
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.0.code, self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_ref().map(|c| c.as_ref() as _)
    }
}
