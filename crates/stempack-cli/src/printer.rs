//! What is printed and where: data on stdout, talk on stderr, one JSON document when asked for.

use serde_json::{Map, Value};
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use stempack::{Detail, Error};

/// Decides between text and JSON, talk and silence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    /// One JSON document instead of text.
    pub(crate) json: bool,
    /// No talk but errors.
    pub(crate) quiet: bool,
    /// No results either: a verb runs as part of another that reports for it.
    pub(crate) muted: bool,
}

impl Printer {
    /// The result of a verb: `document` with its schema as JSON, or `text`.
    pub(crate) fn result(&self, schema: &str, document: Value, text: impl FnOnce() -> String) {
        if self.muted {
            return;
        }
        if self.json {
            let mut whole = Map::new();
            whole.insert("schema".into(), schema.into());
            if let Value::Object(fields) = document {
                whole.extend(fields);
            }
            to_stdout(&format!("{:#}\n", Value::Object(whole)));
        } else {
            to_stdout(&text());
        }
    }

    /// Text on stdout that is no verb's whole result; nothing with JSON.
    pub(crate) fn heading(&self, text: &str) {
        if !self.json && !self.muted && !self.quiet {
            to_stdout(&format!("{text}\n"));
        }
    }

    /// A remark for people.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            to_stderr(&format!("{text}\n"));
        }
    }

    /// A remark that people should not miss.
    pub(crate) fn warning(&self, text: &str) {
        self.note(&format!("warning: {text}"));
    }

    /// A failure: sentence and advice on stderr and, with JSON, the document on stdout.
    pub(crate) fn error(&self, error: &Error) {
        let mut text = format!("{error}\n");
        if let Some(hint) = error.advice() {
            text.push_str(&format!("hint: {hint}\n"));
        }
        to_stderr(&text);
        if self.json {
            to_stdout(&format!("{:#}\n", error_document(error)));
        }
    }
}

/// `stempack.error/1`.
pub(crate) fn error_document(error: &Error) -> Value {
    let mut whole = Map::new();
    whole.insert("schema".into(), "stempack.error/1".into());
    whole.extend(error_fields(error));
    Value::Object(whole)
}

/// Code, kind, message, hint and details of a failure.
pub(crate) fn error_fields(error: &Error) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("code".into(), error.code().into());
    fields.insert("kind".into(), error.kind().as_str().into());
    fields.insert("message".into(), error.message().into());
    if let Some(hint) = error.advice() {
        fields.insert("hint".into(), hint.into());
    }
    for (name, value) in error.details() {
        let value = match value {
            Detail::Number(n) => (*n).into(),
            Detail::Text(t) => t.as_str().into(),
            Detail::List(l) => l.clone().into(),
        };
        // The first of equal names is the innermost and most exact.
        fields.entry((*name).to_owned()).or_insert(value);
    }
    fields
}

/// Whether data could not be delivered for another reason than a reader that went away.
static UNDELIVERED: AtomicBool = AtomicBool::new(false);

/// Whether something printed on stdout was lost, so that the run must not count as done.
pub(crate) fn undelivered() -> bool {
    UNDELIVERED.load(Ordering::Relaxed)
}

/// Writes to stdout. A reader that has gone away is no failure of the work that was done.
fn to_stdout(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(e) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && e.kind() != ErrorKind::BrokenPipe
    {
        UNDELIVERED.store(true, Ordering::Relaxed);
        to_stderr(&format!("error[io]: cannot write to standard output: {e}\n"));
    }
}

fn to_stderr(text: &str) {
    // Nobody is left to be told when this fails.
    let _nobody = std::io::stderr().lock().write_all(text.as_bytes());
}

/// A size for people, in binary multiples.
pub(crate) fn human_bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut name = "bytes";
    for unit in units {
        if value < 1024.0 {
            break;
        }
        (value, name) = (value / 1024.0, unit);
    }
    if name == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {name}") }
}

/// A digest as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stempack_model::ModelCode;

    #[test]
    fn error_documents_carry_code_kind_hint_and_details() {
        let e = Error::new(ModelCode::OutOfRange, "no such frame")
            .hint("count from 0")
            .with("frame_index", 7u64)
            .with("frame_index", 9u64)
            .with("candidates", vec!["2x3".to_owned()]);
        let want = serde_json::json!({
            "schema": "stempack.error/1", "code": "out_of_range", "kind": "Usage", "message": "no such frame",
            "hint": "count from 0", "frame_index": 7, "candidates": ["2x3"],
        });
        assert_eq!(error_document(&e), want);
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(human_bytes(1023), "1023 bytes");
        assert_eq!(human_bytes(1536), "1.5 KiB");
        assert_eq!(human_bytes(3 << 40), "3.0 TiB");
    }
}
