//! What the recorded values mean: quantities in their one unit, each with its element and the rule that gave it.
//!
//! Only positive finite numbers are values. What is absent, partial or not understood stays absent.

use super::layout::Generation;
use super::xml::{self, Xml};
use crate::hdf5::{Value, shortest};
use crate::units::{self, Converted, Factor};
use std::collections::BTreeMap;
use stempack_model::{Origin, Quantity, Recorded, ScanShape, Warning};

/// Relative difference of two recorded samplings that is worth a remark.
const SAMPLING_TOLERANCE: f64 = 0.01;
/// Relative difference of two rules for the scan step, beyond rounding.
const STEP_TOLERANCE: f64 = 1e-9;

/// Everything that is interpreted.
#[derive(Default)]
pub(super) struct Described {
    pub(super) quantities: BTreeMap<Quantity, Recorded<f64>>,
    pub(super) identity: BTreeMap<&'static str, String>,
    pub(super) provenance: BTreeMap<&'static str, String>,
    pub(super) warnings: Vec<Warning>,
}

/// Reads the quantities of one XML; a scan step needs the scan shape.
pub(super) fn describe(xml: &Xml, generation: Generation, scan: Option<ScanShape>) -> Described {
    let mut all = Described::default();
    let (voltage, camera, exposure, second) = match generation {
        Generation::G1 => (xml::VOLTAGE_G1, xml::CAMERA_G1, xml::EXPOSURE_MS, "ms"),
        Generation::G2 => (xml::VOLTAGE_G2, xml::CAMERA_G2, xml::EXPOSURE_S, "s"),
    };
    let exposure = [exposure];
    let simple: [(Quantity, &[&'static str], &str, &[Factor]); 3] = [
        (Quantity::BeamEnergy, voltage, "V", units::BEAM_KEV_FROM_VOLTAGE),
        (Quantity::CameraLength, camera, "m", units::CAMERA_LENGTH_MM),
        (Quantity::DwellTime, &exposure, second, units::TIME_US),
    ];
    for (quantity, keys, unit, table) in simple {
        // The first spelling with a usable value; the older one is no correction of the newer.
        let found = keys.iter().find_map(|&key| all.take(xml, key, quantity, (unit, table)));
        if let Some(found) = found {
            all.quantities.insert(quantity, found);
        }
    }
    match generation {
        Generation::G1 => reciprocal(xml, &mut all),
        Generation::G2 => angle(xml, &mut all),
    }
    let steps = scan.and_then(|scan| Some((scan, steps(xml, scan)?)));
    if steps.is_none() && scan.is_some() {
        all.warnings.extend(unusable_field(xml));
    }
    if let Some((scan, steps)) = steps {
        all.provenance.insert("spatial_calibration_source", format!("EMPAD XML · {}", xml.name));
        all.warnings.extend(differs_from_scan_size(xml, scan, &steps));
        for (quantity, step) in [Quantity::ScanStepRow, Quantity::ScanStepCol].into_iter().zip(steps) {
            all.quantities.insert(quantity, step);
        }
    }
    for (name, key) in [("acquisition_date", xml::DATE), ("software_version", xml::SOFTWARE)] {
        if let Some(text) = xml.get(key).filter(|t| !t.is_empty()) {
            all.identity.insert(name, text.to_owned());
        }
    }
    all.provenance.insert("microscope_metadata_source", xml.name.clone());
    all
}

impl Described {
    /// The value of an element whose unit is a convention; one that is no value is said.
    fn take(
        &mut self,
        xml: &Xml,
        key: &'static str,
        quantity: Quantity,
        (unit, table): (&str, &[Factor]),
    ) -> Option<Recorded<f64>> {
        let text = xml.get(key)?;
        let found = number(xml, key)
            .and_then(|x| units::quantity(&Value::Float(vec![x]), Some(unit), table, None))
            .map(|converted| recorded(xml, key, converted));
        if found.is_none() {
            units::note_unusable(&mut self.warnings, (&xml.name, key), quantity, text, Some(unit));
        }
        found
    }
}

/// A positive finite number that is the whole text of an element.
fn number(xml: &Xml, key: &str) -> Option<f64> {
    xml.get(key)?.parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0)
}

fn recorded(xml: &Xml, path: &str, converted: Converted) -> Recorded<f64> {
    Recorded {
        value: converted.value,
        origin: Origin { file: xml.name.clone(), path: path.to_owned() },
        conversion: converted.conversion,
        flag: None,
    }
}

/// The first generation records its detector sampling such that a factor of 10⁹ makes it inverse nanometres.
fn reciprocal(xml: &Xml, all: &mut Described) {
    let Some(text) = xml.get(xml::PIXEL_SIZE) else { return };
    let size = number(xml, xml::PIXEL_SIZE).unwrap_or(f64::NAN);
    let value = size * 1e9 / 10.0;
    if !Quantity::is_possible(value) {
        let at = (xml.name.as_str(), xml::PIXEL_SIZE);
        units::note_unusable(&mut all.warnings, at, Quantity::DetectorReciprocalRow, text, None);
        return;
    }
    let conversion = format!("{} × 1e9 in 1/nm, / 10", shortest(size));
    let found = recorded(xml, xml::PIXEL_SIZE, Converted { value, conversion });
    for quantity in [Quantity::DetectorReciprocalRow, Quantity::DetectorReciprocalCol] {
        all.quantities.insert(quantity, found.clone());
    }
    // The angle of the first generation is not interpreted, but where it contradicts the sampling somebody should look.
    if let (Some(angle), Some(beam)) = (number(xml, xml::ANGLE), all.quantities.get(&Quantity::BeamEnergy)) {
        let from_angle = angle / wavelength_angstrom(beam.value);
        if (from_angle - value).abs() > SAMPLING_TOLERANCE * value {
            let message = format!(
                "`{}` gives {value} 1/angstrom for a detector pixel, its `{}` of {} rad at {} keV would be \
                 {from_angle} 1/angstrom and is not taken",
                xml::PIXEL_SIZE,
                xml::ANGLE,
                shortest(angle),
                shortest(beam.value)
            );
            all.warnings.push(Warning { code: "detector_sampling_disagreement", message });
        }
    }
}

/// Relativistic wavelength of electrons.
fn wavelength_angstrom(kev: f64) -> f64 {
    // h c in keV Å, and the rest energy of the electron in keV (CODATA 2018).
    const HC: f64 = 12.398_419_843_320_026;
    const REST: f64 = 510.998_950_00;
    HC / (kev * (kev + 2.0 * REST)).sqrt()
}

/// The second generation records an angle, the same for both axes; its `calibrated_pixelsize` is not reciprocal.
fn angle(xml: &Xml, all: &mut Described) {
    let unit = ("rad", units::ANGLE_MRAD);
    if let Some(found) = all.take(xml, xml::ANGLE, Quantity::DetectorAngleRow, unit) {
        for quantity in [Quantity::DetectorAngleRow, Quantity::DetectorAngleCol] {
            all.quantities.insert(quantity, found.clone());
        }
    }
}

/// Steps between rows and between columns, by the first rule whose fields are all there.
fn steps(xml: &Xml, scan: ScanShape) -> Option<[Recorded<f64>; 2]> {
    let (rows, cols) = (scan.rows(), scan.cols());
    let step = |path: &str, conversion: String, value: f64| {
        let flag = units::step_flag(value);
        (value.is_finite() && value > 0.0)
            .then(|| Recorded { flag, ..recorded(xml, path, Converted { value, conversion }) })
    };
    if let (Some(x), Some(y), Some(factor)) =
        (number(xml, xml::FIELD_X), number(xml, xml::FIELD_Y), number(xml, xml::FIELD_FACTOR))
        && x == y
    {
        let larger = rows.max(cols);
        let path = format!("{} / scale_factor / larger scan dimension", xml::FIELD_X);
        let conversion = format!("{} m / {} / {larger} × 1e10", shortest(x), shortest(factor));
        let found = step(&path, conversion, x / factor / larger as f64 * 1e10)?;
        return Some([found.clone(), found]);
    }
    let field = legacy_field(xml)?;
    let one = |axis: usize, name: &str, count: usize| {
        let path = format!("{}[{axis}] / scan {name}", xml::FIELD_LEGACY);
        step(
            &path,
            format!("{} m / {count} × 1e10", shortest(field[axis])),
            field[axis] / count as f64 * 1e10,
        )
    };
    Some([one(0, "rows", rows)?, one(1, "columns", cols)?])
}

/// Says that a field of view is recorded which gives no step.
fn unusable_field(xml: &Xml) -> Option<Warning> {
    let fields = [xml::FIELD_X, xml::FIELD_Y, xml::FIELD_LEGACY];
    fields.iter().find(|key| xml.get(key).is_some_and(|text| !text.is_empty()))?;
    let shown: Vec<String> = fields
        .into_iter()
        .chain([xml::FIELD_FACTOR])
        .filter_map(|key| Some(format!("`{key}` as `{}`", xml::brief(xml.get(key)?))))
        .collect();
    let message = format!(
        "`{}` records {}, expected x and y equal and positive with a positive scale_factor, or a pair of positive \
         numbers; no scan step is taken from it",
        xml.name,
        shown.join(", ")
    );
    Some(Warning { code: units::UNUSABLE, message })
}

/// Row and column field of view as an array in text.
fn legacy_field(xml: &Xml) -> Option<[f64; 2]> {
    let field: [f64; 2] = serde_json::from_str(xml.get(xml::FIELD_LEGACY)?).ok()?;
    field.iter().all(|x| x.is_finite() && *x > 0.0).then_some(field)
}

/// A recorded `scan_size` would, taken for the part of the field that was scanned, give other steps. Which rule the
/// instrument followed is not public, so the difference is said.
fn differs_from_scan_size(xml: &Xml, scan: ScanShape, steps: &[Recorded<f64>; 2]) -> Option<Warning> {
    let size = number(xml, xml::SCAN_SIZE)?;
    let others = match (number(xml, xml::FIELD_X), number(xml, xml::FIELD_Y)) {
        (Some(x), Some(y)) if x == y && number(xml, xml::FIELD_FACTOR).is_some() => {
            [x * size / scan.rows().max(scan.cols()) as f64 * 1e10; 2]
        }
        _ => {
            let field = legacy_field(xml)?;
            [field[0] * size / scan.rows() as f64 * 1e10, field[1] * size / scan.cols() as f64 * 1e10]
        }
    };
    let same = steps.iter().zip(others).all(|(s, o)| (s.value - o).abs() <= STEP_TOLERANCE * s.value);
    if same {
        return None;
    }
    let [row, col] = steps;
    Some(Warning {
        code: "scan_step_rules_differ",
        message: format!(
            "the scan step of {} × {} angstrom is `{}`; `{}` of {} as the scanned part of the field would give {} × {} \
             angstrom",
            shortest(row.value),
            shortest(col.value),
            row.origin.path,
            xml::SCAN_SIZE,
            shortest(size),
            shortest(others[0]),
            shortest(others[1])
        ),
    })
}
