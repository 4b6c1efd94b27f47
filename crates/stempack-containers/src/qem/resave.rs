//! Saving a `.qem` file again: encoded bytes are copied as they are, and the header keeps every key it had.

use super::calibration::{Override, overrides_section};
use super::envelope::PREFIX_BYTES;
use super::header::BLOCK_BYTES;
use super::layout::Span;
use super::scientific::read_overrides;
use super::units::Known;
use super::values::At;
use super::write::{BodyWriter, Plan, QemOptions, QemReport, beside_digests, encode_body, seal, write_front};
use super::write_header::{chunk_entry, serialise};
use super::{QemCodec, QemFile};
use crate::json::Object;
use crate::publish::Draft;
use crate::{ContainerCode, identity};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use stempack_model::{Error, FrameSource, Result, Task};

/// What happens to overrides; only another `.qem` file brings some along.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum OverrideChange {
    /// They stay.
    #[default]
    Keep,
    /// They go; what is recorded holds again.
    Clear,
    /// These take their place, all of them.
    Set(Vec<Override>),
}

/// Saves a `.qem` file under another name. What is encoded is copied byte for byte, each block after its checksum has
/// been compared; header keys, extensions and unknown keys stay. A file of the retired row-packed codec, which nobody
/// should write any more, is encoded anew with the float codec; its header keeps everything else. The caller has checked
/// the destination, and that this is no retired file, whose header is none of today's.
pub(super) fn resave(
    file: &QemFile,
    destination: &Path,
    options: &QemOptions,
    task: &Task,
) -> Result<QemReport> {
    if options.background.is_some() {
        return Err(Error::new(
            ContainerCode::NotRepresentable,
            "a `.qem` file is copied with what it carries; a dark frame cannot be added to it",
        )
        .hint("write the original with the dark frame"));
    }
    let overrides = changed_overrides(file, &options.overrides)?;
    let draft = Draft::create(destination)?;
    let (chunks, peak_bytes, members) = if file.codec() == QemCodec::Xor {
        encode_anew(file, overrides, &draft, task)?
    } else {
        let header = copied_header(file, overrides)?;
        let reserved = header.len() as u64;
        let mut body = BodyWriter::new(&draft, PREFIX_BYTES + reserved);
        let members = beside_digests(file, task, || copy_body(file, &mut body, task))?.1;
        write_front(&draft, header, reserved)?;
        (file.header.layout.chunks.len(), COPIED_AT_A_TIME, members)
    };
    file.check_unchanged()?;
    let (output_bytes, output_sha256) = seal(&draft, task)?;
    task.check()?;
    draft.publish(options.force)?;
    Ok(QemReport {
        codec: if file.codec() == QemCodec::Xor { QemCodec::Lanes } else { file.codec() },
        stored: file.header.stored,
        narrowed_from: None,
        output_bytes,
        output_sha256,
        logical_sha256: file.logical_sha256(),
        source_identity: identity::source_identity(&members),
        chunks,
        peak_bytes,
    })
}

const COPIED_AT_A_TIME: u64 = 4 << 20;
const _: () = assert!(BLOCK_BYTES.is_multiple_of(COPIED_AT_A_TIME));

fn copy_body(file: &QemFile, body: &mut BodyWriter<'_>, task: &Task) -> Result<()> {
    let bytes = file.header.body_bytes;
    task.begin("copy", bytes);
    let mut at = 0;
    while at < bytes {
        let span = Span { offset: at, bytes: COPIED_AT_A_TIME.min(bytes - at) };
        body.put(&file.body.read(span, task)?)?;
        at = span.end();
        task.advance(span.bytes);
    }
    task.finish();
    Ok(())
}

/// The overrides section to write; `None` keeps what is there.
fn changed_overrides(file: &QemFile, change: &OverrideChange) -> Result<Option<Object>> {
    match change {
        OverrideChange::Keep => Ok(None),
        OverrideChange::Clear => Ok(Some(Object::new())),
        OverrideChange::Set(overrides) => {
            let mut section = overrides_section(overrides)?;
            if file.header.scientific.schema == 1 {
                section.iter_mut().for_each(|(path, value)| in_units_of_schema_1(path, value));
                let at = At::new("overrides", ContainerCode::BadOverride);
                read_overrides(&at, Some(&section), 1)?;
            }
            Ok(Some(section))
        }
    }
}

fn in_units_of_schema_1(path: &str, value: &mut Value) {
    let number = value["value"].as_f64().unwrap_or_default();
    let unit = value["unit"].as_str().unwrap_or_default();
    let (number, unit) = match (Known::at(path).and_then(|k| k.axis), unit) {
        (_, "kV") => (number * 1e3, "V"),
        (_, "us") => (number / 1e6, "s"),
        (_, "mm") => (number / 1e3, "m"),
        (_, "angstrom") => (number / 1e10, "m"),
        (_, "1/angstrom") => (number, "1/Å"),
        _ => (number, "mrad"),
    };
    value["value"] = json!(number);
    value["unit"] = unit.into();
}

/// The header's own text with one section exchanged; nothing else is even parsed into numbers.
fn copied_header(file: &QemFile, overrides: Option<Object>) -> Result<String> {
    let text = file.header_text()?;
    let Some(overrides) = overrides else { return Ok(text) };
    let broken =
        |e: serde_json::Error| Error::new(ContainerCode::QemHeader, format!("header cannot be copied: {e}"));
    type Raw = BTreeMap<String, Box<RawValue>>;
    let mut header: Raw = serde_json::from_str(&text).map_err(broken)?;
    let scientific = header.get("scientific_metadata").map_or("{}", |v| v.get());
    let mut scientific: Raw = serde_json::from_str(scientific).map_err(broken)?;
    let section = RawValue::from_string(serialise(Value::Object(overrides))).map_err(broken)?;
    scientific.insert("calibration_overrides".into(), section);
    let scientific = serde_json::value::to_raw_value(&scientific).map_err(broken)?;
    header.insert("scientific_metadata".into(), scientific);
    serde_json::to_string(&header).map_err(broken)
}

/// The same floats in the codec that is written today, under the same header.
fn encode_anew(
    file: &QemFile,
    overrides: Option<Object>,
    draft: &Draft,
    task: &Task,
) -> Result<(usize, u64, Vec<stempack_model::MemberDigest>)> {
    let plan = Plan::of(file.described(), task)?;
    let mut header = file.header.object.clone();
    let codec = QemCodec::Lanes.as_str();
    header.insert("codec".into(), codec.into());
    header.insert("profile".into(), codec.into());
    if let (Some(overrides), Some(Value::Object(s))) = (overrides, header.get_mut("scientific_metadata")) {
        s.insert("calibration_overrides".into(), Value::Object(overrides));
    }
    let fill = |chunks: Value, bytes: u64, checksums: Value| {
        let mut header = header.clone();
        header.insert("chunks".into(), chunks);
        header.insert("bytes".into(), bytes.into());
        header.insert("sha256".into(), checksums);
        serialise(Value::Object(header))
    };
    let most = plan.most_body_bytes();
    let span = Span { offset: most, bytes: most };
    let widest = super::layout::Chunk {
        first: most,
        scans: most,
        payload: span,
        offsets: span,
        selectors: span,
        spatial: None,
        region: 0,
    };
    let entry = chunk_entry(QemCodec::Lanes, &widest).to_string().len() as u64 + 1;
    let reserved = fill(json!([]), most, json!([])).len() as u64
        + plan.chunks() * entry
        + most.div_ceil(BLOCK_BYTES) * 67;
    let body = BodyWriter::new(draft, PREFIX_BYTES + reserved);
    let (written, members) = beside_digests(file, task, || encode_body(file, &plan, &[], body, task))?;
    if Some(written.logical_sha256) != file.header.logical_sha256 {
        return Err(Error::new(
            ContainerCode::DigestMismatch,
            format!("SHA-256 of the array is {}, the header says another", written.logical_sha256),
        ));
    }
    let chunks: Vec<Value> = written.chunks.iter().map(|c| chunk_entry(QemCodec::Lanes, c)).collect();
    let checksums: Vec<String> = written.checksums.iter().map(|d| d.to_hex()).collect();
    write_front(draft, fill(json!(chunks), written.bytes, json!(checksums)), reserved)?;
    Ok((written.chunks.len(), plan.peak_bytes, members))
}
