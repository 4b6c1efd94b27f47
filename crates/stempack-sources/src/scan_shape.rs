//! Which scan shape is believed: a stated one, a recorded one, or none, but never a guess.
//!
//! Everything recorded inside the data must agree with the frame count and with whatever else is recorded or stated.
//! A file that merely lies beside the data may belong to something else; when its dimensions cannot be those of this
//! acquisition it contributes nothing and says so.

use crate::error::SourceCode;
use stempack_model::{Acquisition, Error, Result, ScanEvidence, ScanShape, Shape4, Warning};

/// Where a recorded shape stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// In the data or its master.
    Inside,
    /// In an NXem companion.
    Companion,
    /// In a side file.
    SideFile,
}

/// A recorded scan shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) rows: u64,
    pub(crate) cols: u64,
    /// File and place.
    pub(crate) evidence: String,
    pub(crate) standing: Standing,
}

/// What was decided.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    pub(crate) scan: Option<ScanEvidence>,
    /// Whether the companion's dimensions are those of this acquisition.
    pub(crate) companion_fits: bool,
    /// Whether the side file's dimensions are those of this acquisition, or it has none.
    pub(crate) side_file_fits: bool,
    pub(crate) warnings: Vec<Warning>,
}

fn label(rows: u64, cols: u64) -> String {
    format!("{rows}x{cols}")
}

/// Decides between what is recorded and what the caller states.
///
/// # Errors
/// `conflicting_scan_shape` naming every candidate.
pub(crate) fn decide(
    frame_count: u64,
    stated: Option<ScanShape>,
    recorded: &[Candidate],
) -> Result<Decision> {
    let fits = |c: &Candidate| c.rows.checked_mul(c.cols) == Some(frame_count);
    let is_stated =
        |c: &Candidate| stated.is_none_or(|s| (s.rows() as u64, s.cols() as u64) == (c.rows, c.cols));
    let mut decision = Decision { companion_fits: false, side_file_fits: true, ..Decision::default() };
    let mut candidates: Vec<&Candidate> = Vec::new();
    for candidate in recorded {
        match candidate.standing {
            Standing::Inside => candidates.push(candidate),
            Standing::Companion => {
                decision.companion_fits = fits(candidate) && is_stated(candidate);
                if decision.companion_fits {
                    candidates.push(candidate);
                }
            }
            Standing::SideFile => {
                decision.side_file_fits = fits(candidate);
                // Without a statement the disagreement has to be resolved by the user; with one it is resolved.
                if decision.side_file_fits || stated.is_none() {
                    candidates.push(candidate);
                }
            }
        }
    }
    let conflict = || Err(conflict(frame_count, stated, &candidates));
    let distinct = {
        let mut shapes: Vec<(u64, u64)> = candidates.iter().map(|c| (c.rows, c.cols)).collect();
        shapes.sort_unstable();
        shapes.dedup();
        shapes
    };
    let Some(stated) = stated else {
        decision.scan = match (distinct.as_slice(), candidates.first()) {
            ([], _) => None,
            ([_], Some(first)) if fits(first) => Some(ScanEvidence {
                shape: ScanShape::new(first.rows, first.cols)?,
                evidence: first.evidence.clone(),
                stated: false,
            }),
            _ => return conflict(),
        };
        return Ok(decision);
    };
    let shape = (stated.rows() as u64, stated.cols() as u64);
    if shape.0 * shape.1 != frame_count {
        return conflict();
    }
    if distinct.iter().any(|&d| d != shape) {
        if !distinct.contains(&shape) {
            return conflict();
        }
        decision.warnings.push(Warning {
            code: "conflicting_scan_shape",
            message: format!(
                "the stated scan shape {} settles a disagreement between {}",
                label(shape.0, shape.1),
                list(&candidates)
            ),
        });
    }
    decision.scan =
        Some(ScanEvidence { shape: stated, evidence: "stated by the user".to_owned(), stated: true });
    Ok(decision)
}

fn list(candidates: &[&Candidate]) -> String {
    candidates
        .iter()
        .map(|c| format!("{} ({})", label(c.rows, c.cols), c.evidence))
        .collect::<Vec<_>>()
        .join(", ")
}

fn conflict(frame_count: u64, stated: Option<ScanShape>, candidates: &[&Candidate]) -> Error {
    let mut named = list(candidates);
    let mut shapes: Vec<String> = candidates.iter().map(|c| label(c.rows, c.cols)).collect();
    if let Some(s) = stated {
        let s = label(s.rows() as u64, s.cols() as u64);
        if !named.is_empty() {
            named.push_str(", ");
        }
        named.push_str(&format!("{s} (stated by the user)"));
        shapes.push(s);
    }
    shapes.dedup();
    let message = format!("scan shapes conflict for {frame_count} frames: {named}");
    let hint = if stated.is_some() {
        format!(
            "rows times columns must be {frame_count}, and a shape recorded with the data must be the same"
        )
    } else if candidates.iter().any(|c| {
        // A side file that does not fit is settled by a statement.
        c.standing == Standing::SideFile || c.rows.checked_mul(c.cols) == Some(frame_count)
    }) {
        "state the one that is right with --scan RxC".to_owned()
    } else {
        format!(
            "none of them has {frame_count} positions: frames are missing, or the record is of another scan"
        )
    };
    Error::new(SourceCode::ConflictingScanShape, message)
        .with("frame_count", frame_count)
        .with("candidates", shapes)
        .hint(hint)
}

/// The four axes of an acquisition, or what to state.
///
/// # Errors
/// `missing_scan_shape` with the frame count and likely shapes.
pub fn require_shape(acquisition: &Acquisition) -> Result<Shape4> {
    if let Some(shape) = acquisition.shape() {
        return Ok(shape);
    }
    let frames = acquisition.frame_count;
    let likely = likely_shapes(frames);
    Err(Error::new(
        SourceCode::MissingScanShape,
        format!(
            "nothing records the scan shape of `{}`, which has {frames} frames; likely shapes are {}",
            acquisition.label,
            likely.join(", ")
        ),
    )
    .with("frame_count", frames)
    .with("candidates", likely)
    .hint("state it with --scan RxC, rows before columns"))
}

/// Ways to arrange `frames` in rows and columns, the most nearly square first, at most eight.
fn likely_shapes(frames: u64) -> Vec<String> {
    const MOST: usize = 8;
    let mut shapes = Vec::new();
    // Long thin scans are rare; a bounded search keeps even a hostile frame count cheap.
    let root = frames.isqrt();
    for small in (1..=root).rev().take(1 << 16) {
        if frames.is_multiple_of(small) {
            let large = frames / small;
            shapes.push(label(small, large));
            if small != large {
                shapes.push(label(large, small));
            }
            if shapes.len() >= MOST {
                break;
            }
        }
    }
    if shapes.is_empty() {
        shapes.push(label(1, frames));
    }
    shapes.truncate(MOST);
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(rows: u64, cols: u64, standing: Standing) -> Candidate {
        Candidate { rows, cols, evidence: format!("evidence {rows}"), standing }
    }
    fn stated(rows: u64, cols: u64) -> Option<ScanShape> {
        Some(ScanShape::new(rows, cols).unwrap())
    }
    fn shape(decision: &Decision) -> Option<(usize, usize)> {
        decision.scan.as_ref().map(|s| (s.shape.rows(), s.shape.cols()))
    }
    use Standing::{Companion, Inside, SideFile};

    /// The rows of the format facts, § 1.6: a disagreeing attribute is a conflict, nothing recorded stays unknown.
    #[test]
    fn recorded_shapes() {
        let inside = [candidate(2, 3, Inside)];
        assert_eq!(shape(&decide(6, None, &inside).unwrap()), Some((2, 3)));
        for frames in [8, 9] {
            let error = decide(frames, None, &inside).unwrap_err();
            assert_eq!(error.code(), "conflicting_scan_shape");
            assert!(error.message().contains("2x3") && error.message().contains(&frames.to_string()));
            // No statement opens it, so none is asked for.
            assert!(error.advice().is_some_and(|h| !h.contains("--scan")), "{error}");
        }
        assert_eq!(shape(&decide(4096, None, &[]).unwrap()), None);
        let companion = [candidate(2, 3, Companion)];
        let decision = decide(6, None, &companion).unwrap();
        assert_eq!(shape(&decision), Some((2, 3)));
        assert!(decision.companion_fits);
    }

    #[test]
    fn candidates_must_agree() {
        let both = [candidate(2, 8, Inside), candidate(4, 4, SideFile)];
        let error = decide(16, None, &both).unwrap_err();
        assert!(error.message().contains("2x8") && error.message().contains("4x4"));
        let decision = decide(16, stated(4, 4), &both).unwrap();
        assert_eq!(shape(&decision), Some((4, 4)));
        assert_eq!(decision.warnings.len(), 1);
        let error = decide(16, stated(16, 1), &both).unwrap_err();
        for named in ["2x8", "4x4", "16x1"] {
            assert!(error.message().contains(named));
        }
    }

    #[test]
    fn a_statement_must_fit() {
        assert_eq!(decide(16, stated(4, 5), &[]).unwrap_err().code(), "conflicting_scan_shape");
        assert_eq!(shape(&decide(20, stated(4, 5), &[]).unwrap()), Some((4, 5)));
        assert!(decide(20, stated(5, 4), &[candidate(4, 5, Inside)]).is_err());
    }

    #[test]
    fn a_companion_of_something_else_is_no_conflict() {
        let companion = [candidate(3, 3, Companion)];
        let decision = decide(16, None, &companion).unwrap();
        assert!(!decision.companion_fits && decision.scan.is_none());
        let companion = [candidate(2, 8, Companion)];
        let decision = decide(16, stated(4, 4), &companion).unwrap();
        assert!(!decision.companion_fits);
        assert_eq!(shape(&decision), Some((4, 4)));
    }

    #[test]
    fn a_side_file_that_does_not_fit_needs_a_statement() {
        let side = [candidate(3, 3, SideFile)];
        assert!(decide(16, None, &side).is_err());
        let decision = decide(16, stated(4, 4), &side).unwrap();
        assert!(!decision.side_file_fits);
        assert!(decide(16, stated(2, 8), &[candidate(4, 4, SideFile)]).is_err());
    }

    #[test]
    fn likely_shapes_start_square() {
        assert_eq!(likely_shapes(4096)[..3], ["64x64", "32x128", "128x32"]);
        assert_eq!(likely_shapes(21), ["3x7", "7x3", "1x21", "21x1"]);
        assert_eq!(likely_shapes(7), ["1x7", "7x1"]);
        assert_eq!(likely_shapes(1), ["1x1"]);
        // The bounded search ends before it reaches 3 × a large prime.
        assert_eq!(likely_shapes(2_147_483_647 * 3), ["1x6442450941"]);
    }
}
