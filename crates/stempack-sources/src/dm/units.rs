//! Which units of an axis are believed, and what they are worth.
//!
//! The seed contract knows a few; the others are as unambiguous. Factors are a multiplication and a division, so that
//! `1/nm ÷ 10` gives the nearest double of the quotient.

use crate::hdf5::shortest;

/// What an axis samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Domain {
    /// Length on the specimen, in ångström.
    Length,
    /// Reciprocal length, in 1/Å.
    Reciprocal,
    /// Scattering angle, in mrad.
    Angle,
}

/// A unit and its worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) domain: Domain,
    times: f64,
    over: f64,
    /// Whether the seed contract converts it too.
    pub(super) in_seed: bool,
}

const ANGSTROMS: [&str; 6] = ["A", "\u{c5}", "\u{212b}", "A\u{30a}", "angstrom", "Angstrom"];

/// A unit by its spelling, which matters; space around it does not.
pub(super) fn unit(text: &str) -> Option<Unit> {
    let text = text.trim();
    if let Some(length) = length(text) {
        return Some(length);
    }
    let reciprocal = |length: Unit| Unit {
        domain: Domain::Reciprocal,
        times: length.over,
        over: length.times,
        in_seed: text == "1/nm",
    };
    let of = text
        .strip_prefix("1/")
        .map(str::trim_start)
        .or_else(|| text.strip_suffix("^-1"))
        .or_else(|| text.strip_suffix("\u{207b}\u{b9}"));
    if let Some(length) = of.and_then(length) {
        return Some(reciprocal(length));
    }
    let angle = |times| Unit { domain: Domain::Angle, times, over: 1.0, in_seed: false };
    match text {
        "mrad" => Some(angle(1.0)),
        "rad" => Some(angle(1e3)),
        _ => None,
    }
}

fn length(text: &str) -> Option<Unit> {
    let unit = |times, over, in_seed| Some(Unit { domain: Domain::Length, times, over, in_seed });
    match text {
        "nm" => unit(10.0, 1.0, true),
        "um" | "\u{b5}m" => unit(1e4, 1.0, true),
        "\u{3bc}m" => unit(1e4, 1.0, false),
        "pm" => unit(1.0, 100.0, false),
        "mm" => unit(1e7, 1.0, false),
        "m" => unit(1e10, 1.0, false),
        _ if ANGSTROMS.contains(&text) => unit(1.0, 1.0, matches!(text, "A" | "\u{c5}")),
        _ => None,
    }
}

impl Unit {
    /// A positive finite scale in the unit of the domain.
    pub(super) fn convert(self, scale: f64) -> Option<f64> {
        let value = scale * self.times / self.over;
        (scale.is_finite() && scale > 0.0 && value.is_finite() && value > 0.0).then_some(value)
    }

    /// What was done to a scale, for people.
    pub(super) fn conversion(self, scale: impl std::fmt::Display, text: &str) -> String {
        let mut words = format!("{scale} {}", text.trim());
        for (sign, factor) in [("×", self.times), ("÷", self.over)] {
            if factor != 1.0 {
                words.push_str(&format!(" {sign} {}", shortest(factor)));
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_worth_their_angstroms() {
        let table = [
            ("nm", 2.5, true),
            ("um", 2500.0, true),
            ("\u{b5}m", 2500.0, true),
            ("\u{3bc}m", 2500.0, false),
            ("A", 0.25, true),
            ("\u{c5}", 0.25, true),
            ("\u{212b}", 0.25, false),
            ("A\u{30a}", 0.25, false),
            ("pm", 0.0025, false),
            ("mm", 2.5e6, false),
            ("m", 2.5e9, false),
            (" nm ", 2.5, true),
        ];
        for (text, worth, in_seed) in table {
            let unit = unit(text).unwrap();
            assert_eq!(
                (unit.domain, unit.convert(0.25), unit.in_seed),
                (Domain::Length, Some(worth), in_seed)
            );
        }
    }

    #[test]
    fn reciprocal_lengths_and_angles() {
        let table = [
            ("1/nm", 0.25, 0.025),
            ("1/nm", 0.0187, 0.0187 / 10.0),
            ("1/nm", 0.04, 0.004),
            ("nm^-1", 0.25, 0.025),
            ("nm\u{207b}\u{b9}", 0.25, 0.025),
            ("1/A", 0.25, 0.25),
            ("1/\u{c5}", 0.25, 0.25),
            ("A^-1", 0.25, 0.25),
            ("1/\u{b5}m", 0.25, 0.000025),
            ("1/m", 5e9, 0.5),
            ("1/pm", 0.01, 1.0),
        ];
        for (text, scale, worth) in table {
            let unit = unit(text).unwrap();
            assert_eq!((unit.domain, unit.convert(scale)), (Domain::Reciprocal, Some(worth)), "{text}");
            assert_eq!(unit.in_seed, text == "1/nm");
        }
        assert_eq!(unit("mrad").unwrap().convert(0.5), Some(0.5));
        assert_eq!(unit("rad").unwrap().convert(0.0005), Some(0.5));
    }

    #[test]
    fn nothing_else_is_a_unit() {
        for text in [
            "", "px", "NM", "Nm", "Mm", "MRAD", "1/", "1/px", "1/mrad", "1/1/nm", "eV", "s", "nm nm",
            "\u{b5}",
        ] {
            assert_eq!(unit(text), None, "{text}");
        }
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX] {
            assert_eq!(unit("nm").unwrap().convert(scale), None);
        }
        assert_eq!(unit("1/nm").unwrap().conversion(0.04, "1/nm"), "0.04 1/nm ÷ 10");
        assert_eq!(unit("nm").unwrap().conversion(1.5, "nm"), "1.5 nm × 10");
        assert_eq!(unit("A").unwrap().conversion(15, "A"), "15 A");
    }
}
