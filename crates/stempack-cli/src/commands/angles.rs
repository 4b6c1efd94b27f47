//! What an angle in mrad is in detector pixels: by the recorded angle of each axis, else by its reciprocal step and the
//! beam energy. Nothing else is taken for an angle.

use super::opened::Opened;
use crate::CliCode;
use stempack::{Error, Quantity, Result, derived::angle_of_reciprocal};

/// Angles between neighbouring detector rows and columns, and why they are believed.
pub(super) struct Angles {
    /// Row and column step in mrad.
    pub(super) steps: [f64; 2],
    /// `recorded`, or `derived` from reciprocal steps.
    pub(super) evidence: &'static str,
    /// Names of the quantities that were used.
    pub(super) from: Vec<String>,
}

impl Angles {
    /// Those of something opened.
    ///
    /// # Errors
    /// `no_detector_angle`.
    pub(super) fn of(opened: &Opened) -> Result<Self> {
        let pair = |row, col| Some([opened.step(row)?, opened.step(col)?]);
        let names = |used: &[Quantity]| used.iter().map(|&q| opened.name_of(q)).collect();
        let (row, col) = (Quantity::DetectorAngleRow, Quantity::DetectorAngleCol);
        if let Some(steps) = pair(row, col) {
            return Ok(Angles { steps, evidence: "recorded", from: names(&[row, col]) });
        }
        let refuse = |what: &str, hint: &str| {
            let message = format!("`{}` records {what}, mrad cannot be turned into pixels", opened.label());
            Err(Error::new(CliCode::NoDetectorAngle, message).hint(hint))
        };
        let (row, col) = (Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol);
        let Some(reciprocal) = pair(row, col) else {
            return refuse("no detector step of both axes", "give the geometry in pixels, without --unit");
        };
        let Some(energy) = opened.step(Quantity::BeamEnergy) else {
            return refuse(
                "a reciprocal detector step and no beam energy",
                "give the geometry in pixels, or save a `.qem` with --override detector_angle_row and _col",
            );
        };
        let steps = reciprocal.map(|step| angle_of_reciprocal(step, energy));
        let [Some(row_step), Some(col_step)] = steps else {
            return refuse("steps that are no angles at its beam energy", "give the geometry in pixels");
        };
        let from = names(&[row, col, Quantity::BeamEnergy]);
        Ok(Angles { steps: [row_step, col_step], evidence: "derived", from })
    }
}
