//! EMD 1 as emdfile and py4DSTEM write it, and the bare `/dp` stack: 4-D arrays in one HDF5 file.
//!
//! What is such a file is decided by its root attributes and its links, never by its name. Other files of the EMD
//! family are recognised far enough to say what they lack.

mod calibration;
mod datacube;
mod dims;
mod frames;
mod stack;

use crate::error::SourceCode;
use crate::exclusions::MAX_PIXELS;
use crate::hdf5::{self, DatasetIndex, Element, ElementClass, File, Found, Link, Order, Value};
use crate::identity::Fingerprints;
use crate::registry::{Entry, Format, Probe};
use crate::{OpenOptions, refuse, shown};
use std::path::Path;
use std::sync::Arc;
use stempack_model::{
    Acquisition, DetectorShape, Error, FrameSource, Member, MemberRole, Result, SampleType,
};

/// The line of the registry.
pub(crate) const FORMAT: Format = Format {
    name: "emd",
    looks_for: "an EMD 1 datacube (HDF5 with the root attributes `authoring_program` and `version_major`) or a stack `/dp`",
    is_entry: |name| {
        let name = name.to_ascii_lowercase();
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("emd") => Entry::Certain,
            Some("h5" | "hdf5") => Entry::Possible,
            _ => Entry::No,
        }
    },
    probe,
    open,
};

/// Groups this deep are looked at for a sign of the EMD family.
const FAMILY_DEPTH: usize = 3;
/// Most groups looked at for it.
const FAMILY_GROUPS: usize = 256;

/// What a file is, as far as this format goes.
enum Kind {
    /// It says that it is an EMD 1 file.
    Emdfile,
    /// It has a stack `/dp`.
    Stack,
    /// It belongs to the family, but is another version; what is missing.
    Relative(String),
    /// Nothing of the kind; what is missing.
    Other(String),
}

fn kind(file: &File) -> Kind {
    let missing = match declaration(file) {
        Ok(()) => return Kind::Emdfile,
        Err(missing) => missing,
    };
    if stack::is_there(file) {
        Kind::Stack
    } else if is_relative(file) {
        Kind::Relative(missing)
    } else {
        Kind::Other(missing)
    }
}

/// Whether the root says `emdfile`, version 1; otherwise which attribute is missing or different.
fn declaration(file: &File) -> Result<(), String> {
    let attribute = |name: &str| file.attribute("/", name);
    let unreadable = |name: &str, kind: &str| {
        let how =
            if file.has_attribute("/", name) { format!("is no {kind}") } else { "is missing".to_owned() };
        format!("its root attribute `{name}` {how}")
    };
    let program = attribute("authoring_program");
    let program = match program.as_ref().and_then(Value::text) {
        Some("emdfile") => None,
        Some(other) => {
            Some(format!("its root attribute `authoring_program` is `{}`, not `emdfile`", short(other)))
        }
        None => Some(unreadable("authoring_program", "text")),
    };
    let version = match attribute("version_major").and_then(|v| v.count()) {
        Some(1) => None,
        Some(n) => Some(format!("its root attribute `version_major` is {n}, not 1")),
        None => Some(unreadable("version_major", "single integer")),
    };
    match (program, version) {
        (None, None) => Ok(()),
        (Some(one), None) | (None, Some(one)) => Err(one),
        (Some(one), Some(two)) => Err(format!("{one}, and {two}")),
    }
}

/// A recorded text, cut for a message.
fn short(text: &str) -> String {
    if text.chars().count() <= 60 {
        text.to_owned()
    } else {
        text.chars().take(60).chain("…".chars()).collect()
    }
}

/// Whether a file carries a mark of any EMD version: a root attribute, a group type, or its name.
fn is_relative(file: &File) -> bool {
    const MARKS: [&str; 3] = ["authoring_program", "emd_group_type", "version_major"];
    let named = file.name().to_ascii_lowercase().ends_with(".emd");
    if named || MARKS.iter().any(|mark| file.has_attribute("/", mark)) {
        return true;
    }
    let mut ahead = vec![("/".to_owned(), 0)];
    let mut looked_at = 0;
    while let Some((path, depth)) = ahead.pop() {
        let Ok(Found::Group(group)) = file.find(&path) else { continue };
        looked_at += 1;
        if group.attribute("emd_group_type").is_some() {
            return true;
        }
        if depth >= FAMILY_DEPTH || looked_at >= FAMILY_GROUPS {
            continue;
        }
        for (name, link) in file.links(&group).unwrap_or_default().into_iter().take(FAMILY_GROUPS) {
            if link == Link::Hard {
                ahead.push((format!("{path}/{name}"), depth + 1));
            }
        }
    }
    false
}

fn probe(path: &Path) -> Result<Probe> {
    if !hdf5::has_signature(path)? {
        return Ok(Probe::No("it is no HDF5 file".to_owned()));
    }
    Ok(match kind(&File::open(path)?) {
        Kind::Emdfile => {
            let why = "root attributes `authoring_program` = `emdfile` and `version_major` = 1".to_owned();
            Probe::Yes { score: 90, why }
        }
        // Above what a file gets for lying beside a master of the same stem.
        Kind::Stack => Probe::Yes { score: 85, why: "a stack `/dp`".to_owned() },
        Kind::Relative(missing) => {
            Probe::Yes { score: 10, why: format!("of the EMD family, but no datacube: {missing}") }
        }
        Kind::Other(missing) => Probe::No(missing),
    })
}

fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    let mut fingerprints = Fingerprints::default();
    fingerprints.add(path)?;
    let file = File::open(path)?;
    let source = match kind(&file) {
        Kind::Emdfile => datacube::open(&file, options, fingerprints)?,
        Kind::Stack => stack::open(&file, options, fingerprints)?,
        Kind::Relative(missing) | Kind::Other(missing) => {
            return Err(refuse(
                SourceCode::UnsupportedLayout,
                format!("`{}` is no EMD 1 datacube: {missing}", shown(path)),
                path,
            )
            .hint("read are datacubes as emdfile and py4DSTEM write them"));
        }
    };
    let source = source.with_background()?;
    // What was read in pieces must have been one state of the file.
    source.check_unchanged()?;
    Ok(Arc::new(source))
}

/// The sample type of stored elements.
fn sample_type(element: Element) -> Option<SampleType> {
    use ElementClass::{Float, Signed, Unsigned};
    Some(match (element.class, element.bytes) {
        (Unsigned, 1) => SampleType::U8,
        (Unsigned, 2) => SampleType::U16,
        (Unsigned, 4) => SampleType::U32,
        (Unsigned, 8) => SampleType::U64,
        (Signed, 1) => SampleType::I8,
        (Signed, 2) => SampleType::I16,
        (Signed, 4) => SampleType::I32,
        (Signed, 8) => SampleType::I64,
        (Float, 4) => SampleType::F32,
        (Float, 8) => SampleType::F64,
        _ => return None,
    })
}

/// Whether samples are little-endian float32, as both contracts of the seed demand.
fn is_float32_le(element: Element) -> bool {
    element == Element { class: ElementClass::Float, bytes: 4, order: Order::Little }
}

/// The detector behind the scan axes of an index.
fn detector(index: &DatasetIndex, rows: u64, cols: u64) -> Result<DetectorShape> {
    let place = || format!("`{}` of `{}`", index.object(), index.file_name());
    if rows.checked_mul(cols).is_none_or(|n| n > MAX_PIXELS) {
        return Err(Error::new(
            SourceCode::TooLarge,
            format!("{}: a detector of {rows}×{cols} exceeds {MAX_PIXELS} pixels", place()),
        ));
    }
    DetectorShape::new(rows, cols).map_err(|e| e.at(place()))
}

/// The acquisition of one file, with nothing but its frames.
fn acquisition(
    file: &File,
    names: (String, &'static str),
    frame_count: u64,
    detector: DetectorShape,
    sample: SampleType,
) -> Result<Acquisition> {
    let excluded = crate::exclusions::none(detector)?;
    let path = file.path();
    Ok(Acquisition {
        label: path.file_stem().map_or_else(|| shown(path), |s| s.to_string_lossy().into_owned()),
        members: vec![Member { path: path.to_owned(), role: MemberRole::Data, bytes: file.bytes() }],
        ..Acquisition::new(names.0, names.1, frame_count, detector, sample, excluded)
    })
}
