//! Which scan shape a RAW has: what is recorded must agree, and must fit its exact length. Nothing is guessed from the
//! length; it only says which candidate could be right.

use super::layout::{Generation, Series};
use crate::error::SourceCode;
use crate::{refuse, shown};
use std::path::Path;
use stempack_model::{Error, Result, ScanEvidence, ScanShape, Warning};

/// How a recorded shape counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// As the shape of this acquisition.
    Recorded,
    /// As the shape of another scan: never believed and never in conflict, but the caller may confirm it.
    Search,
}

/// A recorded scan shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) rows: u64,
    pub(super) cols: u64,
    pub(super) place: String,
    pub(super) standing: Standing,
}

/// What was decided.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) scan: Option<ScanEvidence>,
    pub(super) frame_count: u64,
    pub(super) warnings: Vec<Warning>,
}

/// A RAW and its length.
pub(super) struct Length<'a> {
    pub(super) raw: &'a Path,
    pub(super) bytes: u64,
    pub(super) generation: Generation,
}

impl Length<'_> {
    fn records(&self) -> u64 {
        self.bytes / self.generation.record_bytes()
    }
    fn needs(&self, frames: Option<u64>) -> Option<u64> {
        frames?.checked_mul(self.generation.record_bytes())
    }
    fn fits(&self, shape: (u64, u64)) -> bool {
        self.needs(shape.0.checked_mul(shape.1)) == Some(self.bytes)
    }
    /// Records in the file, and what is left over.
    fn counted(&self) -> String {
        let left = self.bytes % self.generation.record_bytes();
        let records = format!("records in the file: {}", self.records());
        if left == 0 { records } else { format!("{records} and {left} bytes") }
    }
}

fn label(shape: (u64, u64)) -> String {
    format!("{}x{}", shape.0, shape.1)
}

/// Every candidate with its place, and whether it fits.
fn list(length: &Length<'_>, candidates: &[Candidate], stated: Option<(u64, u64)>) -> (String, Vec<String>) {
    let of = candidates.iter().map(|c| ((c.rows, c.cols), c.place.clone()));
    let all: Vec<((u64, u64), String)> =
        of.chain(stated.map(|s| (s, "stated by the user".to_owned()))).collect();
    let text = all.iter().map(|(shape, place)| {
        let fits = if length.fits(*shape) { "fits the length" } else { "does not fit the length" };
        format!("{} ({place}; {fits})", label(*shape))
    });
    let text = text.collect::<Vec<_>>().join(", ");
    let mut shapes: Vec<String> = Vec::new();
    for shape in all.iter().map(|(s, _)| label(*s)) {
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    (text, shapes)
}

/// Decides between what is recorded and what the caller states.
///
/// # Errors
/// `conflicting_scan_shape` naming every candidate, `length_mismatch`.
pub(super) fn decide(
    length: &Length<'_>,
    series: Option<Series>,
    candidates: &[Candidate],
    stated: Option<ScanShape>,
) -> Result<Decision> {
    if let Some(count) = series.and_then(|s| s.count)
        && length.needs(Some(count)) != Some(length.bytes)
    {
        return Err(mismatch(length, &format!("a series of {count} frames"), Some(count), candidates));
    }
    let mut decision = Decision { scan: None, frame_count: length.records(), warnings: Vec::new() };
    let mut distinct: Vec<(u64, u64)> = Vec::new();
    for c in candidates.iter().filter(|c| c.standing == Standing::Recorded) {
        if !distinct.contains(&(c.rows, c.cols)) {
            distinct.push((c.rows, c.cols));
        }
    }
    let first = candidates.iter().find(|c| c.standing == Standing::Recorded);
    let Some(stated) = stated else {
        match (distinct.as_slice(), first) {
            ([], _) => {
                whole_records(length, candidates)?;
                if !candidates.is_empty() {
                    decision.warnings.push(Warning {
                        code: "search_scan_only",
                        message: format!(
                            "no scan shape is recorded but that of a search, which is not taken: {}",
                            list(length, candidates, None).0
                        ),
                    });
                }
            }
            (&[shape], Some(first)) if length.fits(shape) => {
                decision.scan = Some(ScanEvidence {
                    shape: ScanShape::new(shape.0, shape.1)?,
                    evidence: first.place.clone(),
                    stated: false,
                });
            }
            (&[shape], Some(first)) => {
                let what = format!("{} ({})", label(shape), first.place);
                return Err(misfit(length, &what, shape, candidates));
            }
            _ => return Err(conflict(length, candidates, None)),
        }
        return Ok(decision);
    };
    let shape = (stated.rows() as u64, stated.cols() as u64);
    if distinct == [shape] && !length.fits(shape) {
        let what = format!("{} (recorded and stated)", label(shape));
        return Err(misfit(length, &what, shape, candidates));
    }
    if distinct.is_empty() {
        whole_records(length, candidates)?;
    }
    let confirmed = distinct.is_empty() || candidates.iter().any(|c| (c.rows, c.cols) == shape);
    if !confirmed || !length.fits(shape) {
        return Err(conflict(length, candidates, Some(shape)));
    }
    if distinct.iter().any(|&d| d != shape) {
        decision.warnings.push(Warning {
            code: "conflicting_scan_shape",
            message: format!(
                "the stated scan shape {} settles a disagreement between {}",
                label(shape),
                list(length, candidates, None).0
            ),
        });
    }
    let evidence = "stated by the user".to_owned();
    decision.scan = Some(ScanEvidence { shape: stated, evidence, stated: true });
    Ok(decision)
}

/// Without a shape the length must at least be one of whole records.
fn whole_records(length: &Length<'_>, candidates: &[Candidate]) -> Result<()> {
    if length.bytes > 0 && length.bytes.is_multiple_of(length.generation.record_bytes()) {
        return Ok(());
    }
    Err(mismatch(length, "whole records", None, candidates))
}

fn conflict(length: &Length<'_>, candidates: &[Candidate], stated: Option<(u64, u64)>) -> Error {
    let (named, shapes) = list(length, candidates, stated);
    let message = format!("scan shapes conflict for `{}`, {}: {named}", shown(length.raw), length.counted());
    let mut fitting: Vec<String> =
        candidates.iter().map(|c| (c.rows, c.cols)).filter(|&s| length.fits(s)).map(label).collect();
    fitting.sort();
    fitting.dedup();
    let hint = if fitting.is_empty() {
        "no recorded shape fits the length; the RAW may belong to another XML".to_owned()
    } else {
        format!("state the one that is right, rows before columns: --scan {}", fitting.join(" or --scan "))
    };
    refuse(SourceCode::ConflictingScanShape, message, length.raw)
        .with("frame_count", length.records())
        .with("candidates", shapes)
        .hint(hint)
}

/// The length is not that of a shape.
fn misfit(length: &Length<'_>, what: &str, shape: (u64, u64), candidates: &[Candidate]) -> Error {
    let frames = shape.0.checked_mul(shape.1);
    if length.needs(frames).is_none() {
        let what = format!("no file has the records of {what}; whole records");
        return mismatch(length, &what, None, candidates);
    }
    mismatch(length, what, frames, candidates)
}

fn mismatch(length: &Length<'_>, what: &str, frames: Option<u64>, candidates: &[Candidate]) -> Error {
    let Length { raw, bytes, generation } = length;
    let record = generation.record_bytes();
    let expected = length.needs(frames);
    let wanted = match (frames, expected) {
        (Some(n), Some(all)) => {
            format!("{what} needs {all}, {n} records of {record} ({})", generation.name())
        }
        _ => format!("{what} of {record} bytes ({}) are needed", generation.name()),
    };
    let mut message = format!("`{}` has {bytes} bytes; {wanted}; {}", shown(raw), length.counted());
    let (named, shapes) = list(length, candidates, None);
    if !named.is_empty() {
        message.push_str(&format!("; recorded: {named}"));
    }
    let other = generation.other();
    let fits_other = *bytes > 0
        && bytes.is_multiple_of(other.record_bytes())
        && frames.is_none_or(|n| *bytes / other.record_bytes() == n);
    if fits_other {
        message.push_str(&format!(
            "; the length fits {} records of {} bytes, as {} has them",
            bytes / other.record_bytes(),
            other.record_bytes(),
            other.name()
        ));
    }
    let hint = match candidates.iter().find(|c| length.fits((c.rows, c.cols))) {
        Some(c) => {
            format!("if {0} is the scan that was saved, state it with --scan {0}", label((c.rows, c.cols)))
        }
        None if fits_other && *generation == Generation::G1 => {
            "put the XML of the export beside its RAW: without one a RAW is read as EMPAD-G1".to_owned()
        }
        None => "the RAW is incomplete, has something added, or belongs to another XML".to_owned(),
    };
    let mut error = refuse(SourceCode::LengthMismatch, message, raw).with("found_bytes", *bytes).hint(hint);
    if let Some(expected) = expected {
        error = error.with("expected_bytes", expected);
    }
    error.with("frame_count", length.records()).with("candidates", shapes)
}
