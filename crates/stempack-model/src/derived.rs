//! What follows from quantities without being recorded: wavelength, field of view, and the detector step in the other
//! unit. Always marked as derived, with what it was derived from.
//!
//! Angle and reciprocal length need the beam energy to be exchanged. The wavelength is the relativistic
//! λ = hc / √(E (E + 2 m c²)), and per detector pixel q = θ / λ with θ in radians, which is how both kinds of sampling
//! are recorded; for the whole of a wide pattern neither is linear in the other.

use crate::{Acquisition, Overrides, Quantity};

/// Planck constant times speed of light in keV Å; both are exact in the SI, as is the charge that makes it keV.
const HC_KEV_ANGSTROM: f64 = 6.626_070_15e-34 * 299_792_458.0 / 1.602_176_634e-19 * 1e7;
/// Rest energy of the electron in keV, CODATA 2022: 510.998 950 69(16).
const REST_ENERGY_KEV: f64 = 510.998_950_69;

/// Wavelength in ångström of electrons of a kinetic energy in keV.
pub fn electron_wavelength(beam_energy_kev: f64) -> Option<f64> {
    let e = beam_energy_kev;
    let wavelength = HC_KEV_ANGSTROM / (e * (e + 2.0 * REST_ENERGY_KEV)).sqrt();
    (Quantity::is_possible(e) && Quantity::is_possible(wavelength)).then_some(wavelength)
}

/// A scattering angle in mrad as a reciprocal length in 1/Å.
pub fn reciprocal_of_angle(mrad: f64, beam_energy_kev: f64) -> Option<f64> {
    let q = mrad * 1e-3 / electron_wavelength(beam_energy_kev)?;
    Quantity::is_possible(q).then_some(q)
}

/// A reciprocal length in 1/Å as a scattering angle in mrad.
pub fn angle_of_reciprocal(inverse_angstrom: f64, beam_energy_kev: f64) -> Option<f64> {
    let mrad = inverse_angstrom * electron_wavelength(beam_energy_kev)? * 1e3;
    Quantity::is_possible(mrad).then_some(mrad)
}

/// A value with what it follows from.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// JSON name.
    pub name: &'static str,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What it was computed from: quantities by name, those that the user stated as `overrides.NAME`.
    pub from: Vec<String>,
    /// How, for people.
    pub formula: &'static str,
}

/// What a quantity is taken to be: stated by the user, else recorded.
pub fn in_use(a: &Acquisition, overrides: &Overrides, quantity: Quantity) -> Option<(f64, String)> {
    let name = quantity.as_str();
    match overrides.get(quantity) {
        Some(stated) => Some((stated.value, format!("overrides.{name}"))),
        None => Some((a.quantities.get(&quantity)?.value, name.to_owned())),
    }
}

/// Rows and columns of the field of view in ångström: scan positions times step, along both axes or not at all.
pub fn field_of_view(a: &Acquisition, overrides: &Overrides) -> Option<[Derived; 2]> {
    let scan = a.scan.as_ref()?.shape;
    let along = |name, quantity: Quantity, positions: usize| {
        let (step, from) = in_use(a, overrides, quantity)?;
        let value = positions as f64 * step;
        Quantity::is_possible(value).then(|| Derived {
            name,
            value,
            unit: quantity.unit(),
            from: vec![from],
            formula: "scan positions × step",
        })
    };
    Some([
        along("row", Quantity::ScanStepRow, scan.rows())?,
        along("col", Quantity::ScanStepCol, scan.cols())?,
    ])
}

/// The wavelength, and the detector step in the unit that is neither recorded nor stated; nothing without a beam
/// energy.
pub fn derive(a: &Acquisition, overrides: &Overrides) -> Vec<Derived> {
    use Quantity::{DetectorAngleCol, DetectorAngleRow, DetectorReciprocalCol, DetectorReciprocalRow};
    let Some((energy, energy_from)) = in_use(a, overrides, Quantity::BeamEnergy) else { return Vec::new() };
    let mut all = Vec::new();
    if let Some(value) = electron_wavelength(energy) {
        all.push(Derived {
            name: "wavelength",
            value,
            unit: "angstrom",
            from: vec![energy_from.clone()],
            formula: "h c / √(E (E + 2 m c²))",
        });
    }
    for (angle, reciprocal) in
        [(DetectorAngleRow, DetectorReciprocalRow), (DetectorAngleCol, DetectorReciprocalCol)]
    {
        let found = (in_use(a, overrides, angle), in_use(a, overrides, reciprocal));
        let (name, unit, value, from, formula) = match found {
            (Some((mrad, from)), None) => {
                let value = reciprocal_of_angle(mrad, energy);
                (reciprocal.as_str(), reciprocal.unit(), value, from, "angle / wavelength")
            }
            (None, Some((q, from))) => (
                angle.as_str(),
                angle.unit(),
                angle_of_reciprocal(q, energy),
                from,
                "reciprocal × wavelength",
            ),
            // Both are recorded, or the user corrects one of them: nothing is to be filled in, or it would be a guess
            // which of the two still holds.
            _ => continue,
        };
        if let Some(value) = value {
            all.push(Derived { name, value, unit, from: vec![from, energy_from.clone()], formula });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DetectorShape, Exclusions, MaskOrigin, Origin, Recorded, SampleType, ScanEvidence, ScanShape,
    };

    fn close(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() <= 1e-12 * expected, "{found}, expected {expected}");
    }

    /// Published tables give 0.0417572, 0.0250793 and 0.0196875 Å for 80, 200 and 300 keV. All digits were computed
    /// with 50-digit decimals from the CODATA 2022 constants.
    #[test]
    fn wavelengths_of_the_tables() {
        for (kev, table) in [(80.0, 0.041_757_2), (200.0, 0.025_079_3), (300.0, 0.019_687_5)] {
            let found = electron_wavelength(kev).unwrap();
            assert!((found - table).abs() < 5e-8, "{kev} keV: {found}");
        }
        close(electron_wavelength(80.0), EXACT_80);
        close(electron_wavelength(200.0), EXACT_200);
        close(electron_wavelength(300.0), EXACT_300);
        for kev in [0.0, -300.0, f64::NAN, f64::INFINITY] {
            assert_eq!(electron_wavelength(kev), None);
        }
    }

    /// 0.429… mrad per pixel is what one real detector records at 300 keV.
    #[test]
    fn angles_and_reciprocal_lengths_are_exchanged_with_the_energy_only() {
        close(reciprocal_of_angle(0.429_065_743_944_636_65, 300.0), EXACT_Q);
        close(angle_of_reciprocal(EXACT_Q, 300.0), 0.429_065_743_944_636_65);
        assert_eq!(reciprocal_of_angle(0.0, 300.0), None);
        assert_eq!(reciprocal_of_angle(1.0, 0.0), None);
    }

    const EXACT_80: f64 = 0.041_757_160_746_543_225;
    const EXACT_200: f64 = 0.025_079_340_436_308_252;
    const EXACT_300: f64 = 0.019_687_488_996_516_036;
    const EXACT_Q: f64 = 0.021_793_827_746_167_404;

    fn acquisition(quantities: &[(Quantity, f64)]) -> Acquisition {
        let detector = DetectorShape::new(4, 5).unwrap();
        let excluded =
            Exclusions { pixels: Vec::new(), mask_sha256: [0; 32], origin: MaskOrigin::ImplicitAllAdmitted };
        let mut a = Acquisition::new("t", "t/v1", 6, detector, SampleType::U8, excluded);
        a.scan =
            Some(ScanEvidence { shape: ScanShape::new(2, 3).unwrap(), evidence: "e".into(), stated: false });
        for &(quantity, value) in quantities {
            let origin = Origin { file: "f".into(), path: "p".into() };
            a.quantities.insert(quantity, Recorded::of(quantity, value, origin, "c").unwrap());
        }
        a
    }

    #[test]
    fn nothing_is_derived_without_a_beam_energy() {
        use Quantity::*;
        let none = Overrides::default();
        assert!(derive(&acquisition(&[(DetectorAngleRow, 0.5), (DetectorAngleCol, 0.5)]), &none).is_empty());
        let a = acquisition(&[(DetectorAngleRow, 0.5), (DetectorAngleCol, 0.25), (BeamEnergy, 200.0)]);
        let names: Vec<_> = derive(&a, &none).iter().map(|d| (d.name, d.unit, d.from.join(" "))).collect();
        let expected = [
            ("wavelength", "angstrom", "beam_energy"),
            ("detector_reciprocal_row", "1/angstrom", "detector_angle_row beam_energy"),
            ("detector_reciprocal_col", "1/angstrom", "detector_angle_col beam_energy"),
        ];
        assert_eq!(names, expected.map(|(n, u, f)| (n, u, f.to_owned())));
        assert_eq!(a.quantities.len(), 3, "nothing derived becomes recorded");
    }

    #[test]
    fn what_the_user_states_is_used_and_named() {
        use Quantity::*;
        let a = acquisition(&[(DetectorReciprocalRow, 0.02), (DetectorReciprocalCol, 0.02)]);
        let stated = |values: &[(Quantity, f64)]| {
            Overrides::new(values.iter().map(|&(q, v)| (q, v, "s".to_owned())), "e").unwrap()
        };
        let found = derive(&a, &stated(&[(BeamEnergy, 300.0)]));
        assert_eq!(found[0].from, ["overrides.beam_energy"]);
        assert_eq!((found[1].name, found[1].unit), ("detector_angle_row", "mrad"));
        close(Some(found[1].value), 0.02 * EXACT_300 * 1e3);
        assert_eq!(field_of_view(&a, &Overrides::default()), None);
        let view = field_of_view(&a, &stated(&[(ScanStepRow, 1.5), (ScanStepCol, 2.0)])).unwrap();
        assert_eq!([view[0].value, view[1].value], [3.0, 6.0]);
        assert_eq!(view[0].from, ["overrides.scan_step_row"]);
        // A stated angle beside a recorded reciprocal step: which of them holds is not for this to say.
        let both = stated(&[(BeamEnergy, 300.0), (DetectorAngleRow, 0.4), (DetectorAngleCol, 0.4)]);
        assert_eq!(derive(&a, &both).len(), 1);
    }

    #[test]
    fn the_field_of_view_needs_shape_and_both_steps() {
        use Quantity::*;
        let none = Overrides::default();
        let view = field_of_view(&acquisition(&[(ScanStepRow, 0.5), (ScanStepCol, 4.0)]), &none).unwrap();
        assert_eq!([view[0].value, view[1].value], [1.0, 12.0]);
        assert_eq!(field_of_view(&acquisition(&[(ScanStepRow, 0.5)]), &none), None);
        let mut unknown = acquisition(&[(ScanStepRow, 0.5), (ScanStepCol, 4.0)]);
        unknown.scan = None;
        assert_eq!(field_of_view(&unknown, &none), None);
    }
}
