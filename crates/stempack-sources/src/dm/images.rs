//! Which image of a document is the acquisition: the only one with four axes, below `ImageList`.
//!
//! A survey, a thumbnail, and anything under another root is never taken. A stack of three axes counts only when it
//! carries the tags that record its scan, and only when nothing has four axes.

use super::tags::{Body, Group};
use super::values::{Number, Values};
use crate::error::SourceCode;
use stempack_model::{Result, SampleType};

/// Most images that a message lists.
const MOST_LISTED: usize = 8;

/// One image of the document.
pub(super) struct Image<'a> {
    /// Its place, for example `ImageList.2`.
    pub(super) place: String,
    name: Option<String>,
    pub(super) tags: &'a Group,
    pub(super) data: &'a Group,
    pub(super) data_type: i128,
    /// Sizes as stored, the fastest axis first, each with the name of its tag.
    pub(super) dimensions: Vec<(String, Option<i128>)>,
    /// Recorded columns and rows of the scan of a stack.
    pub(super) stack_scan: Option<(i128, i128)>,
}

impl Image<'_> {
    /// For people: where it is, its shape with the slowest axis first, and its type.
    fn describe(&self) -> String {
        let sizes: Vec<String> =
            self.dimensions.iter().rev().map(|(_, n)| n.map_or("?".into(), |n| n.to_string())).collect();
        let shape = if sizes.is_empty() { "no axes".to_owned() } else { sizes.join("×") };
        let name = self.name.as_ref().map(|n| format!(" \"{n}\"")).unwrap_or_default();
        format!("`{}`{name} ({shape} {})", self.place, type_name(self.data_type))
    }
}

/// DigitalMicrograph's number of a sample type that is read.
pub(super) fn sample_type(data_type: i128) -> Option<SampleType> {
    Some(match data_type {
        1 => SampleType::I16,
        2 => SampleType::F32,
        6 => SampleType::U8,
        7 => SampleType::I32,
        9 => SampleType::I8,
        10 => SampleType::U16,
        11 => SampleType::U32,
        12 => SampleType::F64,
        39 => SampleType::I64,
        40 => SampleType::U64,
        _ => return None,
    })
}

/// The name of any sample type.
pub(super) fn type_name(data_type: i128) -> String {
    if let Some(sample) = sample_type(data_type) {
        return sample.to_string();
    }
    match data_type {
        3 => "complex64".to_owned(),
        5 => "packed complex".to_owned(),
        8 => "RGB".to_owned(),
        13 => "complex128".to_owned(),
        14 => "binary".to_owned(),
        23 => "RGBA".to_owned(),
        other => format!("samples of data type {other}"),
    }
}

/// Every image below `ImageList`, whatever its shape.
pub(super) fn list<'a>(values: Values<'a>) -> Result<Vec<Image<'a>>> {
    let Some(list) = values.group(&values.tags.root, &["ImageList"])? else { return Ok(Vec::new()) };
    let mut images = Vec::new();
    for entry in &list.entries {
        let Body::Group(tags) = &entry.body else { continue };
        let Some(data) = values.group(tags, &["ImageData"])? else { continue };
        let Some(data_type) = values.number_at(data, &["DataType"])?.and_then(Number::as_integer) else {
            continue;
        };
        let mut dimensions = Vec::new();
        if let Some(group) = values.group(data, &["Dimensions"])? {
            for entry in &group.entries {
                let size = match &entry.body {
                    Body::Data(size) => values.number(size)?.and_then(Number::as_integer),
                    Body::Group(_) => None,
                };
                dimensions.push((entry.name.clone(), size));
            }
        }
        // Lists without names are in order already.
        dimensions.sort_by_key(|(name, _)| name.parse::<u64>().unwrap_or(u64::MAX));
        let scan = |axis: &str| -> Result<Option<i128>> {
            let path = ["ImageTags", "4D STEM Tags", axis];
            Ok(values.number_at(tags, &path)?.and_then(Number::as_integer))
        };
        let stack_scan = match dimensions.len() {
            3 => scan("Scan shape X")?.zip(scan("Scan shape Y")?),
            _ => None,
        };
        let place = format!("ImageList.{}", entry.name);
        let name = values.text_at(tags, &["Name"])?;
        images.push(Image { place, name, tags, data, data_type, dimensions, stack_scan });
    }
    Ok(images)
}

/// The one that is an acquisition.
///
/// # Errors
/// `ambiguous_source` when there are several, `unsupported_layout` when there is none, naming what was found.
pub(super) fn choose<'a, 'b>(values: Values<'_>, images: &'b [Image<'a>]) -> Result<&'b Image<'a>> {
    let mut found: Vec<&Image<'_>> = images.iter().filter(|i| i.dimensions.len() == 4).collect();
    if found.is_empty() {
        found = images.iter().filter(|i| i.stack_scan.is_some()).collect();
    }
    match *found.as_slice() {
        [one] => Ok(one),
        [] => {
            let what =
                if images.is_empty() { "no image at all".to_owned() } else { described(images.iter()) };
            let message = format!("has no image of four axes; found {what}");
            Err(values.input.refuse(SourceCode::UnsupportedLayout, message))
        }
        _ => {
            let message = format!(
                "has {} images that could be the acquisition: {}",
                found.len(),
                described(found.iter().copied())
            );
            let places: Vec<String> = found.iter().take(MOST_LISTED).map(|i| i.place.clone()).collect();
            Err(values
                .input
                .refuse(SourceCode::AmbiguousSource, message)
                .with("images", places)
                .hint("save the one that is meant to a file of its own"))
        }
    }
}

fn described<'a, 'b: 'a>(images: impl ExactSizeIterator<Item = &'a Image<'b>>) -> String {
    let total = images.len();
    let mut words: Vec<String> = images.take(MOST_LISTED).map(Image::describe).collect();
    if total > MOST_LISTED {
        words.push(format!("{} more", total - MOST_LISTED));
    }
    words.join(", ")
}
