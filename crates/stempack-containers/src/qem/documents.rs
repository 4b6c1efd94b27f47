//! Original texts that travel with the data: how many, how large, and that each is what it says it is.

use super::values::At;
use crate::Digest;
use serde_json::Value;
use stempack_model::{Result, SourceDocument};

pub(super) const MOST: usize = 16;
pub(super) const MOST_BYTES: usize = 4 << 20;
pub(super) const XML: &str = "application/xml";
pub(super) const JSON: &str = "application/json";

/// A list may be missing; what is in it must be whole.
pub(super) fn validate(at: &At, list: Option<&Value>) -> Result<()> {
    read(at, list).map(drop)
}

/// The documents of a header.
pub(super) fn read(at: &At, list: Option<&Value>) -> Result<Vec<SourceDocument>> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let list = at.list(Some(list))?;
    if list.len() > MOST {
        return Err(at.fault(format_args!("has {} documents, at most {MOST} are allowed", list.len())));
    }
    let mut bytes = 0usize;
    list.iter()
        .enumerate()
        .map(|(i, value)| {
            let document = one(&at.item(i), value)?;
            bytes = bytes.saturating_add(document.content.len());
            if bytes > MOST_BYTES {
                return Err(at.fault(format_args!("has more than {MOST_BYTES} bytes of text")));
            }
            Ok(document)
        })
        .collect()
}

fn one(at: &At, value: &Value) -> Result<SourceDocument> {
    let object = at.object(Some(value))?;
    let filename = at.key("filename").text(object.get("filename"))?;
    if filename.is_empty() || filename.contains(['/', '\\']) {
        return Err(at.key("filename").fault("is empty or names a folder"));
    }
    let media_type = match at.key("mediaType").one_of(object.get("mediaType"), &[XML, JSON])? {
        XML => XML,
        _ => JSON,
    };
    let content = at.key("content").text(object.get("content"))?;
    let digest = Digest::of(content.as_bytes());
    if at.key("sha256").text(object.get("sha256"))? != digest.to_hex() {
        return Err(at
            .key("sha256")
            .fault(format_args!("does not match the content, whose digest is {digest}")));
    }
    if let Err(why) = well_formed(media_type, content) {
        return Err(at.key("content").fault(why));
    }
    Ok(SourceDocument {
        filename: filename.to_owned(),
        media_type,
        content: content.to_owned(),
        sha256: digest.0,
    })
}

/// Whether a text is what its media type says; the refusal as a predicate.
pub(super) fn well_formed(media_type: &str, content: &str) -> Result<(), String> {
    // Before anything is parsed: a text of four megabytes can hold millions of elements.
    if content.len() > MOST_BYTES {
        return Err(format!("has more than {MOST_BYTES} bytes"));
    }
    if media_type == JSON {
        let parsed = serde_json::from_str::<serde::de::IgnoredAny>(content);
        return match parsed {
            Err(e) => Err(format!("is not JSON: {e}")),
            Ok(_) if content.trim_start().starts_with('{') => Ok(()),
            Ok(_) => Err("is JSON, but no object".into()),
        };
    }
    let upper = content.to_ascii_uppercase();
    if upper.contains("<!DOCTYPE") || upper.contains("<!ENTITY") {
        return Err("declares a document type or an entity".into());
    }
    let options = roxmltree::ParsingOptions { allow_dtd: false, nodes_limit: 1 << 20, ..Default::default() };
    roxmltree::Document::parse_with_options(content, options)
        .map(drop)
        .map_err(|e| format!("is not well-formed XML: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_must_be_what_they_say() {
        assert_eq!(well_formed(XML, "<a><b/></a>"), Ok(()));
        assert_eq!(well_formed(XML, "<?xml version=\"1.0\"?>\n<a unit='m'>1</a>"), Ok(()));
        for wrong in
            ["", "<a>", "<a/><b/>", "<a b=1/>", "<!doctype a><a/>", "<!DOCTYPE a [<!ENTITY x 'y'>]><a/>"]
        {
            assert!(well_formed(XML, wrong).is_err(), "{wrong}");
        }
        assert_eq!(well_formed(JSON, " {\"a\": 1}"), Ok(()));
        for wrong in ["", "[1]", "1", "{\"a\": NaN}", "{\"a\": 1} x"] {
            assert!(well_formed(JSON, wrong).is_err(), "{wrong}");
        }
    }
}
