//! The bytes: which generation wrote them, how long a record is, which scan shapes are recorded, whether the words are
//! floats at all.

use super::scan::{Candidate, Standing};
use super::xml::{self, Xml};
use crate::error::SourceCode;
use crate::identity::Fingerprints;
use crate::{refuse, shown};
use std::os::unix::fs::FileExt;
use std::path::Path;
use stempack_model::{Error, Result};

/// Detector rows and columns of both generations.
pub(super) const SIDE: u64 = 128;
/// Bytes of the detector words of one record.
pub(super) const FRAME_BYTES: u64 = SIDE * SIDE * 4;
/// Words behind each frame of the first generation, which are no detector pixels.
const FOOTER_BYTES: u64 = 256 * 4;

/// Who wrote the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// Frames with a footer.
    G1,
    /// Exported frames without one.
    G2,
}

impl Generation {
    /// Bytes of one record.
    pub(super) fn record_bytes(self) -> u64 {
        match self {
            Generation::G1 => FRAME_BYTES + FOOTER_BYTES,
            Generation::G2 => FRAME_BYTES,
        }
    }
    pub(super) fn name(self) -> &'static str {
        match self {
            Generation::G1 => "EMPAD-G1",
            Generation::G2 => "EMPAD-G2",
        }
    }
    pub(super) fn other(self) -> Self {
        match self {
            Generation::G1 => Generation::G2,
            Generation::G2 => Generation::G1,
        }
    }
}

/// Frames one after another that are no raster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series {
    /// Their recorded number.
    pub(super) count: Option<u64>,
}

/// What is declared about a RAW.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) generation: Generation,
    pub(super) series: Option<Series>,
    /// Every recorded scan shape.
    pub(super) candidates: Vec<Candidate>,
    /// Whether the words may be encoded although they are declared as floats.
    pub(super) maybe_encoded: bool,
}

/// What an XML and the name of a RAW declare. Without an XML a RAW is of the first generation.
///
/// # Errors
/// `unsupported_layout` naming what is declared, `invalid_scan_shape`.
pub(super) fn declared(xml: Option<&Xml>, raw: &Path) -> Result<Declared> {
    let mut all =
        Declared { generation: Generation::G1, series: None, candidates: Vec::new(), maybe_encoded: false };
    if let Some(xml) = xml {
        if xml.get(xml::SENSOR_TYPE).is_some() || xml.get(xml::RAWFILE).is_some() {
            second_generation(xml, &mut all)?;
        } else {
            first_generation(xml, &mut all)?;
        }
    }
    // A series is no raster, whatever its file is called.
    if all.series.is_none()
        && let Some((rows, cols)) = shown_shape(&shown(raw))
    {
        let place = format!("file name {}", shown(raw));
        all.candidates.push(Candidate { rows, cols, place, standing: Standing::Recorded });
    }
    Ok(all)
}

fn first_generation(xml: &Xml, all: &mut Declared) -> Result<()> {
    match xml.get(xml::TYPE) {
        None | Some("scan") => {}
        Some("series") => {
            let count = match xml.first(xml::COUNTS) {
                None => None,
                Some((key, text)) => Some(positive(text).ok_or_else(|| invalid(xml, key, text))?),
            };
            all.series = Some(Series { count });
            return Ok(());
        }
        Some(other) => {
            let message = format!(
                "`{}` records type `{}`, which is neither scan nor series",
                xml.name,
                xml::brief(other)
            );
            return Err(Error::new(SourceCode::UnsupportedLayout, message));
        }
    }
    for (keys, block) in [(xml::PIX, "pix_y, pix_x"), (xml::ACQUIRE, "scan_parameters[acquire]")] {
        if let Some((rows, cols)) = pair(xml, keys)? {
            let place = format!("{}: {block}", xml.name);
            all.candidates.push(Candidate { rows, cols, place, standing: Standing::Recorded });
        }
    }
    // What was looked at before the acquisition: for the reader of a message, and for the caller to confirm.
    if let Ok(Some((rows, cols))) = pair(xml, xml::SEARCH) {
        let place = format!("{}: scan_parameters[search]", xml.name);
        all.candidates.push(Candidate { rows, cols, place, standing: Standing::Search });
    }
    Ok(())
}

fn second_generation(xml: &Xml, all: &mut Declared) -> Result<()> {
    all.generation = Generation::G2;
    let required = |key: &str, wanted: &str| match xml.get(key) {
        Some(found) if found == wanted => Ok(()),
        found => {
            let found = found.map_or("is absent".to_owned(), |f| format!("is `{}`", xml::brief(f)));
            let message =
                format!("`{}` is no EMPAD-G2 float export: `{key}` must be `{wanted}` and {found}", xml.name);
            Err(Error::new(SourceCode::UnsupportedLayout, message))
        }
    };
    required(xml::SENSOR_TYPE, "EMPAD2")?;
    required(xml::DATATYPE, "float32")?;
    required(xml::SCAN_TYPE, "scan")?;
    if xml.get(xml::SENSOR_SHAPE).and_then(two) != Some((SIDE, SIDE)) {
        required(xml::SENSOR_SHAPE, "128,128")?;
    }
    let text = xml.get(xml::SCAN_SHAPE).unwrap_or("");
    let (rows, cols) = two(text).ok_or_else(|| invalid(xml, xml::SCAN_SHAPE, text))?;
    let place = format!("{}: {}", xml.name, xml::SCAN_SHAPE);
    all.candidates.push(Candidate { rows, cols, place, standing: Standing::Recorded });
    all.maybe_encoded = xml::ENCODING_MARKS.iter().all(|k| xml.get(k).is_some());
    Ok(())
}

fn positive(text: &str) -> Option<u64> {
    // Digits alone: no sign, no fraction, no exponent.
    Some(text)
        .filter(|t| t.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|t| t.parse().ok())
        .filter(|&n| n > 0)
}

/// Rows and columns as two elements: both or neither.
fn pair(xml: &Xml, keys: (&'static str, &'static str)) -> Result<Option<(u64, u64)>> {
    let one = |key: &'static str| {
        let text = xml.get(key).unwrap_or("");
        positive(text).ok_or_else(|| invalid(xml, key, text))
    };
    match (xml.get(keys.0), xml.get(keys.1)) {
        (None, None) => Ok(None),
        _ => Ok(Some((one(keys.0)?, one(keys.1)?))),
    }
}

/// Rows and columns in one text, possibly in brackets.
fn two(text: &str) -> Option<(u64, u64)> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || "()[]".contains(c));
    let (rows, cols) = text.split_once(',')?;
    Some((positive(rows.trim())?, positive(cols.trim())?))
}

fn invalid(xml: &Xml, key: &str, text: &str) -> Error {
    let found =
        if text.is_empty() { "is absent or empty".to_owned() } else { format!("is `{}`", xml::brief(text)) };
    Error::new(
        SourceCode::InvalidScanShape,
        format!("`{}`: `{key}` {found}, a positive whole number is needed for each dimension", xml.name),
    )
}

/// The shape that a name of the form `scan_x<columns>_y<rows>.raw` states.
pub(super) fn shown_shape(name: &str) -> Option<(u64, u64)> {
    let name = name.to_ascii_lowercase();
    let (cols, rows) = name.strip_prefix("scan_x")?.strip_suffix(".raw")?.split_once("_y")?;
    Some((positive(rows)?, positive(cols)?))
}

/// Refuses a RAW whose words are not IEEE floats although its XML says so: those that raw acquisition software marks
/// with bit 30. A prose claim that they were corrected changes nothing.
///
/// # Errors
/// `encoded_words`.
pub(super) fn refuse_encoded_words(raw: &Path, frames: u64, fingerprints: &Fingerprints) -> Result<()> {
    const MARK: u8 = 0x40;
    let file = fingerprints.open(raw)?;
    let mut frame = vec![0; FRAME_BYTES as usize];
    for index in [0, frames / 2, frames.saturating_sub(1)] {
        file.read_exact_at(&mut frame, index * FRAME_BYTES).map_err(|e| Error::io("read", raw, e))?;
        if frame.chunks_exact(4).any(|word| word[3] & MARK == 0) {
            return Ok(());
        }
    }
    let message = format!(
        "`{}` holds encoded EMPAD2 words, not floats: bit 30 is set in every word of the sampled frames and the XML \
         records raw offsets",
        shown(raw)
    );
    Err(refuse(SourceCode::EncodedWords, message, raw).hint(
        "export float32 with the sensor gain calibration and the even and odd dark frames of this detector first",
    ))
}
