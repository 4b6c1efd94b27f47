//! Which spellings of units are believed, and what they are worth in the one unit of each quantity.
//!
//! Spelling matters: `mV` and `MV` differ by nine orders of magnitude, so apart from the length units of detector
//! geometry nothing is compared without regard to case, and an unknown unit makes a value absent.

use crate::hdf5::{Value, shortest};
use stempack_model::{Quantity, Recorded, Warning};

/// A unit as it may be written, and what one of it is in the target unit.
pub(crate) type Factor = (&'static str, f64);

pub(crate) const BEAM_KEV_FROM_VOLTAGE: &[Factor] = &[("V", 1e-3), ("kV", 1.0)];
pub(crate) const BEAM_KEV_FROM_ENERGY: &[Factor] = &[("eV", 1e-3), ("keV", 1.0)];
pub(crate) const ANGLE_MRAD: &[Factor] = &[("rad", 1e3), ("mrad", 1.0)];
/// Both code points of the micro prefix occur: the sign U+00B5 and the Greek letter U+03BC.
pub(crate) const TIME_US: &[Factor] =
    &[("s", 1e6), ("ms", 1e3), ("us", 1.0), ("\u{b5}s", 1.0), ("\u{3bc}s", 1.0)];
pub(crate) const CAMERA_LENGTH_MM: &[Factor] = &[("m", 1e3), ("cm", 10.0), ("mm", 1.0)];
pub(crate) const LENGTH_ANGSTROM: &[Factor] =
    &[("m", 1e10), ("mm", 1e7), ("um", 1e4), ("\u{b5}m", 1e4), ("\u{3bc}m", 1e4), ("nm", 10.0)];
const LENGTH_METRE: &[Factor] =
    &[("m", 1.0), ("mm", 1e-3), ("um", 1e-6), ("\u{b5}m", 1e-6), ("\u{3bc}m", 1e-6), ("nm", 1e-9)];

/// A converted value and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Converted {
    pub(crate) value: f64,
    pub(crate) conversion: String,
}

/// Key of the remark about something recorded that calibrates nothing.
pub(crate) const UNUSABLE: &str = "unusable_calibration";
/// Longest recorded text that a remark repeats.
const LONGEST_SHOWN: usize = 60;

/// Says that a recorded value is not taken, unless nothing is recorded: an empty text.
pub(crate) fn note_unusable(
    warnings: &mut Vec<Warning>,
    (file, path): (&str, &str),
    quantity: Quantity,
    value: &str,
    unit: Option<&str>,
) {
    let value = value.trim();
    if value.is_empty() {
        return;
    }
    let mut shown: String = value.chars().take(LONGEST_SHOWN).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    let unit = match unit.map(str::trim) {
        None | Some("") => "without a unit beside it".to_owned(),
        Some(unit) => format!("in `{}`", unit.chars().take(LONGEST_SHOWN).collect::<String>()),
    };
    let message = format!(
        "`{file}`: `{path}` is recorded as `{shown}` {unit}, expected a positive number in a unit of {0}; no {0} is \
         taken from it",
        quantity.as_str()
    );
    warnings.push(Warning { code: UNUSABLE, message });
}

/// Says that a scan step is recorded along one axis only, which is none.
pub(crate) fn note_one_axis(warnings: &mut Vec<Warning>, step: &Recorded<f64>) {
    let message = format!(
        "`{}`: `{}` gives a step along one axis and nothing gives the other; no scan step is taken from it",
        step.origin.file, step.origin.path
    );
    warnings.push(Warning { code: UNUSABLE, message });
}

fn factor(table: &[Factor], unit: &str) -> Option<f64> {
    table.iter().find(|(name, _)| *name == unit).map(|&(_, f)| f)
}

/// Length units may also stand in capitals throughout (`NM`), which nothing else is written as.
fn length_factor(table: &[Factor], unit: &str) -> Option<f64> {
    factor(table, unit).or_else(|| {
        let capitals = unit.bytes().all(|b| b.is_ascii_uppercase());
        if capitals { factor(table, &unit.to_ascii_lowercase()) } else { None }
    })
}

fn convert(recorded: f64, unit: &str, factor: f64) -> Option<Converted> {
    let value = recorded * factor;
    if !(Quantity::is_possible(recorded) && Quantity::is_possible(value)) {
        return None;
    }
    let mut conversion = format!("{} {unit}", shortest(recorded));
    if factor != 1.0 {
        conversion.push_str(&format!(" × {}", shortest(factor)));
    }
    Some(Converted { value, conversion })
}

/// A microscope quantity: a number with its unit in an attribute, or a text of a number and possibly a unit.
///
/// The attribute wins over a unit within the text; without either, `default` is taken, if there is one. Words behind a
/// number that are no unit leave its unit unknown.
pub(crate) fn quantity(
    value: &Value,
    units: Option<&str>,
    table: &[Factor],
    default: Option<&str>,
) -> Option<Converted> {
    let (number, inline) = match value {
        Value::Text(text) => {
            let tokens: Vec<&str> = text.split_whitespace().collect();
            let number = tokens.first()?.parse::<f64>().ok()?;
            let inline = match tokens.as_slice() {
                [_] => default,
                [_, unit] => Some(*unit),
                _ => None,
            };
            (number, inline)
        }
        _ => (value.number()?, default),
    };
    let unit = units.filter(|u| !u.is_empty()).or(inline)?;
    convert(number, unit, factor(table, unit)?)
}

/// A scan step in ångström: a single number with an explicit length unit.
pub(crate) fn scan_step(value: &Value, units: Option<&str>) -> Option<Converted> {
    let unit = units?;
    convert(value.number()?, unit, length_factor(LENGTH_ANGSTROM, unit)?)
}

/// A length of the detector geometry in metres, which it also is when no unit is recorded.
pub(crate) fn geometry_length(value: &Value, units: Option<&str>) -> Option<Converted> {
    let unit = units.filter(|u| !u.is_empty()).unwrap_or("m");
    convert(value.number()?, unit, length_factor(LENGTH_METRE, unit)?)
}

/// Angle between neighbouring pixels at a distance, in mrad.
pub(crate) fn pixel_angle(pitch: &Converted, distance: &Converted) -> Converted {
    Converted {
        value: (pitch.value / distance.value).atan() * 1e3,
        conversion: format!("atan(({}) / ({})) in mrad", pitch.conversion, distance.conversion),
    }
}

/// Doubt about a scan step outside what is usual, which does not make it absent.
pub(crate) fn step_flag(angstrom: f64) -> Option<String> {
    Quantity::ScanStepRow.doubt(angstrom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(t: &str) -> Value {
        Value::Text(t.to_owned())
    }
    fn float(x: f64) -> Value {
        Value::Float(vec![x])
    }
    fn close(found: Option<Converted>, expected: Option<f64>) {
        match (found, expected) {
            (Some(f), Some(e)) => assert!((f.value - e).abs() <= 1e-12 * e, "{f:?}, expected {e}"),
            (found, expected) => assert_eq!(found.map(|f| f.value), expected),
        }
    }

    /// The worked rows of the format facts, § 9.
    #[test]
    fn microscope_quantities() {
        let kev = |t, u| quantity(&text(t), u, BEAM_KEV_FROM_VOLTAGE, None);
        close(kev("300 kV", None), Some(300.0));
        close(kev("300000 V", None), Some(300.0));
        close(kev("300000", Some("V")), Some(300.0));
        close(kev("300 kV", Some("V")), Some(0.3));
        close(kev("300", None), None);
        close(kev("300 KV", None), None);
        close(kev("300 volts", None), None);
        close(kev("300 kV nominal", None), None);
        close(kev("300 kV nominal", Some("kV")), Some(300.0));
        close(kev("300kV", None), None);
        close(quantity(&text("0.0215 rad"), None, ANGLE_MRAD, None), Some(21.5));
        close(quantity(&text("50 \u{3bc}s"), None, TIME_US, None), Some(50.0));
        close(quantity(&text("50 \u{b5}s"), None, TIME_US, None), Some(50.0));
        close(quantity(&text("0.00005 s"), None, TIME_US, None), Some(50.0));
        close(quantity(&text("14.5 cm"), None, CAMERA_LENGTH_MM, None), Some(145.0));
        for bad in ["-1 m", "nan m", "inf m", "0 m", "", "m 1"] {
            close(quantity(&text(bad), None, CAMERA_LENGTH_MM, None), None);
        }
        close(quantity(&float(300_000.0), Some("eV"), BEAM_KEV_FROM_ENERGY, Some("eV")), Some(300.0));
        close(quantity(&float(300_000.0), None, BEAM_KEV_FROM_ENERGY, Some("eV")), Some(300.0));
        close(quantity(&float(300_000.0), None, BEAM_KEV_FROM_ENERGY, None), None);
        // A default is for a number without any words.
        let volts = |t| quantity(&text(t), None, BEAM_KEV_FROM_VOLTAGE, Some("V"));
        close(volts("300000"), Some(300.0));
        close(volts("300 kV"), Some(300.0));
        close(volts("300 kV nominal"), None);
    }

    /// Facts § 2: everything that is 0.4 nm is 4 Å; without a unit there is no step.
    #[test]
    fn scan_steps_need_their_unit() {
        for (value, unit) in [
            (0.4, "nm"),
            (4e-10, "m"),
            (4e-4, "um"),
            (4e-4, "\u{b5}m"),
            (4e-4, "\u{3bc}m"),
            (4e-7, "mm"),
            (0.4, "NM"),
        ] {
            close(scan_step(&float(value), Some(unit)), Some(4.0));
        }
        for unit in [None, Some(""), Some("mrad"), Some("Nm"), Some("Mm"), Some("nm ")] {
            close(scan_step(&float(0.4), unit), None);
        }
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            close(scan_step(&float(value), Some("nm")), None);
        }
        close(scan_step(&Value::Float(vec![0.4, 0.4]), Some("nm")), None);
    }

    /// Facts § 1.7.
    #[test]
    fn geometry_defaults_to_metres() {
        let angle = |distance, unit, pitch, pitch_unit| {
            Some(pixel_angle(
                &geometry_length(&float(pitch), pitch_unit)?,
                &geometry_length(&float(distance), unit)?,
            ))
        };
        close(angle(0.145, Some("m"), 1e-4, Some("m")), Some(0.689_655_063_074_914_8));
        close(angle(300.0, Some("mm"), 75.0, Some("um")), Some(0.249_999_994_791_666_9));
        close(angle(0.0, Some("m"), 1e-4, Some("m")), None);
        close(angle(0.145, None, 0.1, Some("mm")), Some(0.689_655_063_074_914_8));
        close(angle(0.145, Some("inch"), 1e-4, None), None);
    }

    #[test]
    fn what_is_not_taken_is_said() {
        let mut all = Vec::new();
        let mut note = |value: &str, unit| {
            note_unusable(&mut all, ("a.h5", "/b"), Quantity::BeamEnergy, value, unit);
            all.pop().map(|w| (w.code, w.message))
        };
        assert_eq!(note(" ", Some("V")), None);
        let (code, message) = note("nan", Some("V")).unwrap();
        assert_eq!(code, "unusable_calibration");
        for part in ["`a.h5`", "`/b`", "`nan` in `V`", "beam_energy"] {
            assert!(message.contains(part), "{message}");
        }
        let long = note(&"µ".repeat(500), None).unwrap().1;
        assert!(long.contains("…` without a unit") && long.chars().count() < 300, "{long}");
    }

    #[test]
    fn unusual_steps_are_kept_and_flagged() {
        assert_eq!(step_flag(1.0), None);
        assert!(step_flag(11_400.0).is_some());
        assert!(step_flag(1e-5).is_some());
    }
}
