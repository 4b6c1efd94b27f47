//! The XML of an acquisition as bounded text: what is interpreted, by path, and what else it says, for people.
//!
//! Nothing is resolved or expanded. The name of the root does not matter; a path begins below it, and
//! `scan_parameters` carries its mode, as in `scan_parameters[acquire]/scan_resolution_y`.

use crate::error::SourceCode;
use crate::identity::Fingerprints;
use crate::shown;
use roxmltree::{Node, ParsingOptions};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use stempack_model::{Error, Result, SourceDocument};

/// Largest XML that is read.
pub(super) const MAX_BYTES: u64 = 4 << 20;
/// Most elements, texts and comments.
const MAX_NODES: u32 = 200_000;
/// Elements below this depth, paths and texts beyond these lengths are not looked at: nothing interpreted is like that,
/// and names that repeat in every path must not multiply.
const DEEPEST: usize = 12;
const LONGEST_PATH: usize = 256;
const LONGEST_TEXT: usize = 4096;
/// Most texts kept of one file.
pub(super) const MOST_RETAINED: usize = 100;

pub(super) const RAW_FILE: &str = "raw_file@filename";
pub(super) const RAWFILE: &str = "rawfile/filename";
pub(super) const TYPE: &str = "type";
pub(super) const SCAN_SIZE: &str = "scan_parameters[acquire]/scan_size";
pub(super) const DATE: &str = "timestamp@isoformat";
pub(super) const SOFTWARE: &str = "software_version";
pub(super) const EXPOSURE_MS: &str = "exposure_time";
pub(super) const EXPOSURE_S: &str = "scan/exposure_time";
pub(super) const SENSOR_TYPE: &str = "sensor/type";
pub(super) const SENSOR_SHAPE: &str = "sensor/shape";
pub(super) const SCAN_TYPE: &str = "scan/type";
pub(super) const SCAN_SHAPE: &str = "scan/shape";
pub(super) const DATATYPE: &str = "rawfile/datatype";
pub(super) const FIELD_X: &str = "iom_measurements/full_scan_field_of_view/x";
pub(super) const FIELD_Y: &str = "iom_measurements/full_scan_field_of_view/y";
pub(super) const FIELD_FACTOR: &str = "iom_measurements/full_scan_field_of_view/scale_factor";
pub(super) const FIELD_LEGACY: &str = "iom_measurements/optics.get_full_scan_field_of_view";
pub(super) const PIXEL_SIZE: &str = "iom_measurements/calibrated_pixelsize";
pub(super) const ANGLE: &str = "iom_measurements/calibrated_diffraction_angle";
/// Voltage in volts: the two generations, then the spelling of the oldest software.
pub(super) const VOLTAGE_G1: &[&str] =
    &["iom_measurements/high_voltage", "iom_measurements/source.get_voltage"];
pub(super) const VOLTAGE_G2: &[&str] = &["iom_measurements/ColumnSourceHighVoltage"];
/// Camera length in metres, likewise.
pub(super) const CAMERA_G1: &[&str] =
    &["iom_measurements/nominal_camera_length", "iom_measurements/optics.get_cameralength"];
pub(super) const CAMERA_G2: &[&str] = &["iom_measurements/ColumnOpticsGetCameraLengthNominalCameraLength"];
/// Rows and columns.
pub(super) const PIX: (&str, &str) = ("pix_y", "pix_x");
pub(super) const ACQUIRE: (&str, &str) =
    ("scan_parameters[acquire]/scan_resolution_y", "scan_parameters[acquire]/scan_resolution_x");
pub(super) const SEARCH: (&str, &str) =
    ("scan_parameters[search]/scan_resolution_y", "scan_parameters[search]/scan_resolution_x");
/// Frames of a series.
pub(super) const COUNTS: &[&str] = &["count", "scan_parameters[acquire]/series_count"];
/// Together they mark raw acquisition software, which writes encoded words.
pub(super) const ENCODING_MARKS: &[&str] =
    &["pdcu/SerialNumber", "grabber/avg_scan_even_offset", "grabber/avg_scan_odd_offset"];

/// Everything interpreted, in the order it is shown.
const KEYS: &[&[&str]] = &[
    &[RAW_FILE, RAWFILE, DATATYPE, TYPE, SENSOR_TYPE, SENSOR_SHAPE, SCAN_TYPE, SCAN_SHAPE],
    &[PIX.0, PIX.1, ACQUIRE.0, ACQUIRE.1, SCAN_SIZE, SEARCH.0, SEARCH.1],
    COUNTS,
    &[DATE, SOFTWARE, EXPOSURE_MS, EXPOSURE_S],
    VOLTAGE_G1,
    VOLTAGE_G2,
    CAMERA_G1,
    CAMERA_G2,
    &[PIXEL_SIZE, ANGLE, FIELD_X, FIELD_Y, FIELD_FACTOR, FIELD_LEGACY],
    ENCODING_MARKS,
];

fn key(path: &str) -> Option<&'static str> {
    KEYS.iter().flat_map(|group| group.iter()).find(|&&k| k == path).copied()
}

/// What one XML says.
#[derive(Debug)]
pub(super) struct Xml {
    /// Name of the file without its folder.
    pub(super) name: String,
    text: String,
    fields: BTreeMap<&'static str, String>,
    others: Vec<(String, String)>,
    left_out: usize,
}

impl Xml {
    /// Reads a file that `fingerprints` then knows.
    ///
    /// # Errors
    /// `unsafe_metadata` for anything that is no small, plain, well-formed XML in UTF-8.
    pub(super) fn read(path: &Path, fingerprints: &mut Fingerprints) -> Result<Self> {
        let name = shown(path);
        if !path.is_file() {
            return Err(reject(&name, "is no regular file").with("path", path.display().to_string()));
        }
        let at = |e: Error| e.with("path", path.display().to_string());
        let bytes = fingerprints.add(path)?.bytes();
        if bytes > MAX_BYTES {
            let what = format!("has {bytes} bytes, an XML of at most {MAX_BYTES} is read");
            return Err(at(reject(&name, &what)));
        }
        let mut content = Vec::new();
        fingerprints
            .open(path)?
            .take(MAX_BYTES + 1)
            .read_to_end(&mut content)
            .map_err(|e| Error::io("read", path, e))?;
        let text = String::from_utf8(content).map_err(|e| {
            at(reject(&name, &format!("is not UTF-8 from byte {} on", e.utf8_error().valid_up_to())))
        })?;
        Self::parse(&name, text).map_err(at)
    }

    /// Takes the text of a file called `name`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(super) fn parse(name: &str, text: String) -> Result<Self> {
        let lower = text.to_ascii_lowercase();
        if let Some(found) = ["<!doctype", "<!entity"].into_iter().find(|&d| lower.contains(d)) {
            return Err(reject(name, &format!("has a `{}`, which is never followed", &found[2..])));
        }
        let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
        let document = roxmltree::Document::parse_with_options(&text, options).map_err(|e| match e {
            roxmltree::Error::NodesLimitReached => {
                reject(name, &format!("has more than {MAX_NODES} elements and texts"))
            }
            e => reject(name, &format!("is no well-formed XML ({e})")),
        })?;
        let mut walk = Walk::default();
        walk.children(name, document.root_element(), "", 2)?;
        let Walk { fields, others, left_out } = walk;
        drop(document);
        Ok(Xml { name: name.to_owned(), text, fields, others, left_out })
    }

    /// The text at an interpreted path.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.fields.get(key).map(String::as_str)
    }

    /// The first of several spellings that is there.
    pub(super) fn first(&self, keys: &[&'static str]) -> Option<(&'static str, &str)> {
        keys.iter().find_map(|&k| Some((k, self.get(k)?)))
    }

    /// The whole text with its digest.
    pub(super) fn document(&self) -> SourceDocument {
        SourceDocument {
            filename: self.name.clone(),
            media_type: "application/xml",
            content: self.text.clone(),
            sha256: Sha256::digest(self.text.as_bytes()).into(),
        }
    }

    /// At most [`MOST_RETAINED`] texts, the interpreted ones first, and how many did not fit.
    pub(super) fn retained(&self) -> (Vec<(String, String)>, usize) {
        let interpreted = KEYS.iter().flat_map(|group| group.iter()).filter_map(|&k| {
            let text = self.get(k)?;
            (text.len() <= LONGEST_TEXT).then(|| (k.to_owned(), text.to_owned()))
        });
        let mut all: Vec<(String, String)> = interpreted.chain(self.others.iter().cloned()).collect();
        let beyond = all.len().saturating_sub(MOST_RETAINED);
        all.truncate(MOST_RETAINED);
        (all, self.left_out + beyond)
    }
}

/// Whether bytes could be an XML of this format: they begin like one and mention what it is known by. Says nothing of
/// whether they are well-formed.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    // An XML in UTF-16 is recognised too, so that it can be refused by name.
    let bytes: Vec<u8> = bytes.iter().copied().filter(|b| *b != 0).collect();
    let begin = bytes
        .iter()
        .position(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf | 0xff | 0xfe));
    let mentions = |word: &[u8]| bytes.windows(word.len()).any(|w| w == word);
    begin.and_then(|i| bytes.get(i)) == Some(&b'<')
        && [&b"raw_file"[..], b"rawfile", b"iom_measurements"].into_iter().any(mentions)
}

fn reject(name: &str, what: &str) -> Error {
    Error::new(SourceCode::UnsafeMetadata, format!("`{name}` {what}"))
}

#[derive(Default)]
struct Walk {
    fields: BTreeMap<&'static str, String>,
    others: Vec<(String, String)>,
    left_out: usize,
}

impl Walk {
    fn children(&mut self, name: &str, parent: Node<'_, '_>, path: &str, depth: usize) -> Result<()> {
        for child in parent.children().filter(Node::is_element) {
            let path = step(path, child);
            if path.len() > LONGEST_PATH || depth > DEEPEST {
                self.left_out += 1;
                continue;
            }
            for attribute in child.attributes() {
                if attribute.name().len() <= LONGEST_PATH {
                    self.take(name, &format!("{path}@{}", attribute.name()), attribute.value().trim())?;
                }
            }
            if child.children().any(|c| c.is_element()) {
                self.children(name, child, &path, depth + 1)?;
            } else {
                let text: String = child.children().filter(Node::is_text).filter_map(|c| c.text()).collect();
                self.take(name, &path, text.trim())?;
            }
        }
        Ok(())
    }

    fn take(&mut self, name: &str, path: &str, text: &str) -> Result<()> {
        let Some(key) = key(path) else {
            if text.is_empty() {
            } else if self.others.len() < MOST_RETAINED && text.len() <= LONGEST_TEXT {
                self.others.push((path.to_owned(), text.to_owned()));
            } else {
                self.left_out += 1;
            }
            return Ok(());
        };
        match self.fields.get(key) {
            // A search is only ever listed; several of them contradict nothing.
            Some(before) if before != text && key != SEARCH.0 && key != SEARCH.1 => Err(reject(
                name,
                &format!("records `{key}` twice, as `{}` and as `{}`", brief(before), brief(text)),
            )),
            Some(_) => Ok(()),
            None => {
                self.fields.insert(key, text.to_owned());
                Ok(())
            }
        }
    }
}

/// The path of an element below `path`.
fn step(path: &str, element: Node<'_, '_>) -> String {
    let name = element.tag_name().name();
    let mut all = if path.is_empty() { String::new() } else { format!("{path}/") };
    all.push_str(name);
    if path.is_empty() && name == "scan_parameters" {
        // Without a mode it is the scan that was acquired.
        let mode = element.attribute("mode").unwrap_or("acquire");
        all.push_str(&format!("[{}]", mode.trim()));
    }
    all
}

/// A text short enough for a message.
pub(super) fn brief(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}
