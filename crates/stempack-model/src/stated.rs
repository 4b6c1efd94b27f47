//! What the user states about quantities: kept apart from what is recorded, each with the reason to believe it.

use crate::{Error, ModelCode, Quantity, Result};
use std::collections::BTreeMap;

/// A value that the user states.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated {
    /// The value in the unit of its [`Quantity`].
    pub value: f64,
    /// The value as it was written, with its unit.
    pub statement: String,
    /// Why it should be believed, in the user's words.
    pub evidence: String,
    /// A doubt that travels with the value.
    pub flag: Option<String>,
}

/// What the user states of one acquisition. It never becomes a recorded quantity, and recorded quantities stay what
/// they are beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides(BTreeMap<Quantity, Stated>);

impl Overrides {
    /// Takes statements of values in the unit of each quantity, with one text of evidence for all.
    ///
    /// # Errors
    /// `invalid_override` when a value is impossible, the evidence is empty, one axis is stated without the other, or
    /// the detector step is stated both as an angle and as a reciprocal length.
    pub fn new(values: impl IntoIterator<Item = (Quantity, f64, String)>, evidence: &str) -> Result<Self> {
        let refuse = |text: String| Error::new(ModelCode::InvalidOverride, text);
        let mut all = BTreeMap::new();
        for (quantity, value, statement) in values {
            let name = quantity.as_str();
            if !Quantity::is_possible(value) {
                return Err(refuse(format!("{name} cannot be `{statement}`: expected a number above zero")));
            }
            let evidence = evidence.trim().to_owned();
            let stated = Stated { value, statement, evidence, flag: quantity.doubt(value) };
            if all.insert(quantity, stated).is_some() {
                return Err(refuse(format!("{name} is stated twice")));
            }
        }
        if all.is_empty() {
            return Ok(Overrides(all));
        }
        if evidence.trim().is_empty() {
            return Err(refuse("a stated value needs evidence".to_owned())
                .hint("say where the value comes from, for example from a measured lattice"));
        }
        for quantity in all.keys() {
            if let Some(other) = quantity.across().filter(|other| !all.contains_key(other)) {
                let text = format!("{} is stated without {}", quantity.as_str(), other.as_str());
                return Err(refuse(text).hint("state both axes together; they may be equal"));
            }
        }
        if all.contains_key(&Quantity::DetectorAngleRow) && all.contains_key(&Quantity::DetectorReciprocalRow)
        {
            let text = "the detector step is stated as an angle and as a reciprocal length";
            return Err(refuse(text.to_owned()).hint("state one; the other follows from the beam energy"));
        }
        Ok(Overrides(all))
    }

    /// What is stated of a quantity.
    pub fn get(&self, quantity: Quantity) -> Option<&Stated> {
        self.0.get(&quantity)
    }
    /// Whether nothing is stated.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Everything stated, in the order of [`Quantity::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Quantity, &Stated)> {
        self.0.iter().map(|(&quantity, stated)| (quantity, stated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(values: &[(Quantity, f64)], evidence: &str) -> Result<Overrides> {
        Overrides::new(values.iter().map(|&(q, v)| (q, v, format!("{v}"))), evidence)
    }

    #[test]
    fn both_axes_and_evidence_are_needed() {
        use Quantity::*;
        let refused = |values: &[(Quantity, f64)], evidence: &str, says: &str| {
            let error = overrides(values, evidence).unwrap_err();
            assert_eq!(error.code(), "invalid_override");
            assert!(error.message().contains(says), "{error}");
        };
        refused(&[(ScanStepRow, 1.0)], "measured", "without scan_step_col");
        refused(&[(DetectorAngleCol, 1.0)], "measured", "without detector_angle_row");
        refused(&[(BeamEnergy, 300.0)], " \t", "needs evidence");
        refused(&[(BeamEnergy, 0.0)], "measured", "above zero");
        refused(&[(BeamEnergy, f64::NAN)], "measured", "above zero");
        refused(&[(BeamEnergy, 300.0), (BeamEnergy, 200.0)], "measured", "twice");
        let both = [DetectorAngleRow, DetectorAngleCol, DetectorReciprocalRow, DetectorReciprocalCol];
        refused(&both.map(|q| (q, 0.5)), "measured", "as an angle and as a reciprocal length");
        let steps = overrides(&[(ScanStepCol, 1.5), (ScanStepRow, 2e4)], " lattice of gold ").unwrap();
        let found: Vec<_> = steps.iter().map(|(q, s)| (q, s.value, s.flag.is_some())).collect();
        assert_eq!(found, [(ScanStepRow, 2e4, true), (ScanStepCol, 1.5, false)]);
        assert_eq!(steps.get(ScanStepCol).map(|s| s.evidence.as_str()), Some("lattice of gold"));
        assert!(overrides(&[], "").unwrap().is_empty());
    }
}
