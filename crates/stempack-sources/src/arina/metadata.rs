//! What the recorded values mean: quantities with their origin, identity texts.
//!
//! Precedence is fixed and the source that was chosen stays with the result. The pitch of the detector is never taken
//! for a scan step.

use super::beside::{Beside, Companion};
use super::order::stem_of;
use super::{Layout, retained};
use crate::hdf5::{File, Value};
use crate::identity::Fingerprints;
use crate::nxem::{self, Dimensions, Nxem};
use crate::scan_shape::Decision;
use crate::shown;
use crate::stem_sidecar::SideFile;
use crate::units::{self, Converted};
use crate::velox;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use stempack_model::{Origin, Quantity, Recorded, Result, Warning};

const DETECTOR: &str = "/entry/instrument/detector";
const SPECIFIC: &str = "/entry/instrument/detector/detectorSpecific";
/// Relative difference of an explicit and a geometric angle that is worth a remark.
const ANGLE_TOLERANCE: f64 = 0.01;

/// Places where a master may record its scan step, in order, row and column each.
const STEP_PLACES: [(&str, &str); 4] = [
    ("/entry/instrument/scan/y_pixel_size", "/entry/instrument/scan/x_pixel_size"),
    ("/entry/instrument/scan/step_y", "/entry/instrument/scan/step_x"),
    ("/entry/measurement/scan_step_y", "/entry/measurement/scan_step_x"),
    ("/entry/scan/y_pixel_size", "/entry/scan/x_pixel_size"),
];

/// The paths a scan step may stand at.
pub(super) fn step_paths() -> impl Iterator<Item = &'static str> {
    STEP_PLACES.iter().flat_map(|&(row, col)| [row, col])
}

/// Everything that is interpreted.
#[derive(Default)]
pub(super) struct Described {
    pub(super) quantities: BTreeMap<Quantity, Recorded<f64>>,
    pub(super) identity: BTreeMap<&'static str, String>,
    pub(super) provenance: BTreeMap<&'static str, String>,
    pub(super) warnings: Vec<Warning>,
    pub(super) companions: Vec<PathBuf>,
    pub(super) imported_nxem: bool,
    pub(super) retained: Vec<(String, String)>,
    pub(super) retained_left_out: usize,
}

impl Described {
    fn warn(&mut self, code: &'static str, message: String) {
        self.warnings.push(Warning { code, message });
    }

    /// The first source of a quantity stays.
    fn offer(&mut self, quantity: Quantity, found: Option<Recorded<f64>>) {
        if let Some(found) = found {
            self.quantities.entry(quantity).or_insert(found);
        }
    }

    fn offer_all(&mut self, found: &BTreeMap<Quantity, Recorded<f64>>) {
        for (&quantity, found) in found {
            self.offer(quantity, Some(found.clone()));
        }
    }
}

/// Where values are looked for.
struct Sources<'a> {
    head: &'a File,
    layout: &'a Layout,
    beside: &'a Beside,
    decision: &'a Decision,
    /// The NXem block of the head itself.
    own: Nxem,
    /// Name and block of the companion, when it belongs.
    companion: Option<(&'a str, &'a Nxem)>,
    /// Name and contents of the side file, when it belongs.
    side: Option<(&'a str, &'a SideFile)>,
}

pub(super) fn describe(
    head: &File,
    layout: &Layout,
    beside: &Beside,
    decision: &Decision,
    fingerprints: &mut Fingerprints,
) -> Result<Described> {
    let mut all = Described::default();
    let companion = companion(&mut all, beside, decision);
    let side = side_file(&mut all, beside, decision);
    let own = nxem::read(head).unwrap_or_default();
    let sources = Sources { head, layout, beside, decision, own, companion, side };

    if let Some((name, block)) = companion {
        all.imported_nxem = true;
        all.provenance.insert("microscope_metadata_source", name.to_owned());
        all.offer_all(&block.quantities);
        all.warnings.extend(block.warnings.iter().cloned());
    }
    all.offer_all(&sources.own.quantities);
    all.warnings.extend(sources.own.warnings.iter().cloned());
    let text =
        |path: &str| head.value(path).and_then(|v| v.text().map(str::to_owned)).filter(|t| !t.is_empty());
    let description = text(&format!("{DETECTOR}/description"));
    detector_fallbacks(&mut all, head, description.as_deref().unwrap_or(""));
    if let Some((_, side)) = side {
        all.offer_all(&side.quantities);
    }
    angles(&mut all, head);
    scan_step(&mut all, &sources, fingerprints)?;

    let camera_id =
        ["detector_number", "serial_number"].iter().find_map(|name| text(&format!("{DETECTOR}/{name}")));
    let collected = format!("{SPECIFIC}/data_collection_date");
    let date =
        [collected.as_str(), "/entry/start_time", "/entry/instrument/start_time"].into_iter().find_map(text);
    for (key, found) in [("camera_model", description), ("camera_id", camera_id), ("acquisition_date", date)]
    {
        if let Some(found) = found {
            all.identity.insert(key, found);
        }
    }
    retain(&mut all, &sources);
    Ok(all)
}

/// The companion's block when its dimensions are those of the acquisition; otherwise a warning.
fn companion<'a>(
    all: &mut Described,
    beside: &'a Beside,
    decision: &Decision,
) -> Option<(&'a str, &'a Nxem)> {
    let (name, why) = match &beside.companion {
        Companion::Absent => return None,
        Companion::Read { path, name, block } if decision.companion_fits => {
            all.companions.push(path.clone());
            return Some((name, block));
        }
        Companion::Read { name, block, .. } => {
            let why = match &block.dimensions {
                Dimensions::Recorded(rows, cols, _) => {
                    format!("its scan of {rows}x{cols} is not that of the acquisition")
                }
                Dimensions::Unusable(why) => why.clone(),
                Dimensions::Absent => "it records no scan dimensions".to_owned(),
            };
            (name, why)
        }
        Companion::Unusable { name, why, .. } => (name, why.clone()),
    };
    let message = format!("`{name}` contributes nothing: {why}");
    all.provenance.insert("microscope_metadata_warning", message.clone());
    all.warn("microscope_metadata_warning", message);
    None
}

fn side_file<'a>(
    all: &mut Described,
    beside: &'a Beside,
    decision: &Decision,
) -> Option<(&'a str, &'a SideFile)> {
    let (path, name, side) = beside.side_file.as_ref()?;
    if !decision.side_file_fits {
        all.warn(
            "side_file_ignored",
            format!("`{name}` contributes nothing: its scan is not that of the acquisition"),
        );
        return None;
    }
    all.companions.push(path.clone());
    all.warnings.extend(side.warnings.iter().cloned());
    if let Some((step, why)) = side.uncalibrated_step {
        let message = format!("`{name}` records a pixel size of {step} angstrom but {why}");
        all.warn("uncalibrated_scan_step", message);
    }
    Some((name, side))
}

/// Values that detectors record in fields of their own.
fn detector_fallbacks(all: &mut Described, head: &File, description: &str) {
    // What a better source gave is not looked for again.
    let mut fall_back = |quantity, path: String, table, default| {
        if all.quantities.contains_key(&quantity) {
            return;
        }
        let convert = |v: &Value, u: Option<&str>| units::quantity(v, u, table, default);
        let found = nxem::recorded(head, &path, quantity, &mut all.warnings, convert);
        all.offer(quantity, found);
    };
    let (beam, dwell) = (Quantity::BeamEnergy, Quantity::DwellTime);
    fall_back(beam, format!("{DETECTOR}/incident_energy"), units::BEAM_KEV_FROM_ENERGY, None);
    // Only of an electron detector is the photon energy the energy of the beam, and the count time the dwell time.
    if description.to_ascii_uppercase().contains("ARINA") {
        fall_back(beam, format!("{SPECIFIC}/photon_energy"), units::BEAM_KEV_FROM_ENERGY, Some("eV"));
        for name in ["count_time", "frame_time"] {
            fall_back(dwell, format!("{DETECTOR}/{name}"), units::TIME_US, Some("s"));
        }
    }
}

/// An explicit angle for each pixel outranks the one that follows from pitch and distance.
fn angles(all: &mut Described, head: &File) {
    let explicit = all.quantities.contains_key(&Quantity::DetectorAngleRow);
    let mut length = |name: &str| {
        let path = format!("{DETECTOR}/{name}");
        let (value, units) = (head.value(&path)?, head.attribute(&path, "units"));
        let unit = units.as_ref().and_then(Value::text);
        let found = units::geometry_length(&value, unit);
        // Zero is how detectors say that nobody told them.
        if found.is_none() && !explicit && value.number() != Some(0.0) {
            let at = (head.name(), path.as_str());
            units::note_unusable(&mut all.warnings, at, Quantity::DetectorAngleRow, &value.display(), unit);
        }
        found
    };
    let (distance, row, col) = (length("detector_distance"), length("y_pixel_size"), length("x_pixel_size"));
    let (Some(distance), Some(row), Some(col)) = (distance, row, col) else { return };
    for (quantity, pitch, name) in
        [(Quantity::DetectorAngleRow, row, "y_pixel_size"), (Quantity::DetectorAngleCol, col, "x_pixel_size")]
    {
        let Converted { value, conversion } = units::pixel_angle(&pitch, &distance);
        if let Some(explicit) = all.quantities.get(&quantity) {
            let recorded = explicit.value;
            if (recorded - value).abs() > ANGLE_TOLERANCE * recorded {
                let message = format!(
                    "{} is recorded as {recorded} mrad ({}), while the detector geometry of `{}` gives {value} mrad",
                    quantity.as_str(),
                    explicit.origin,
                    head.name()
                );
                all.warn("detector_angle_disagreement", message);
            }
            continue;
        }
        let origin =
            Origin { file: head.name().to_owned(), path: format!("{DETECTOR}/{name}, detector_distance") };
        all.offer(quantity, Some(Recorded { value, origin, conversion, flag: None }));
    }
}

/// Source HDF5, then its companion, then the side file, then a Velox image. A companion that is there but unusable ends
/// the search: what lies further off is not more likely to be of this acquisition.
fn scan_step(all: &mut Described, sources: &Sources<'_>, fingerprints: &mut Fingerprints) -> Result<()> {
    let Sources { head, own, beside, companion, side, .. } = sources;
    let found = if let Some(steps) = own.steps.clone() {
        Some(("HDF5 metadata".to_owned(), steps))
    } else if let Some(steps) = alternatives(head, &mut all.warnings) {
        Some(("HDF5 metadata".to_owned(), steps))
    } else if let Some((name, block)) = companion {
        block.steps.clone().map(|steps| (format!("NXem companion · {name}"), steps))
    } else if !matches!(beside.companion, Companion::Absent) {
        None
    } else if let Some((name, step)) = side.and_then(|(name, side)| side.step.clone().map(|s| (name, s))) {
        Some((format!("STEM Metadata · {name}"), [step.clone(), step]))
    } else {
        velox_step(all, sources, fingerprints)?
    };
    if let Some((source, steps)) = found {
        all.provenance.insert("spatial_calibration_source", source);
        for (quantity, step) in velox::STEP_QUANTITIES.into_iter().zip(steps) {
            all.quantities.insert(quantity, step);
        }
    }
    Ok(())
}

/// The first usable place of each axis.
fn alternatives(head: &File, warnings: &mut Vec<Warning>) -> Option<[Recorded<f64>; 2]> {
    let mut said = Vec::new();
    let mut first = |quantity, paths: [&str; 4]| {
        paths
            .into_iter()
            .find_map(|path| nxem::recorded(head, path, quantity, &mut said, units::scan_step))
            .map(nxem::flagged)
    };
    let row = first(Quantity::ScanStepRow, STEP_PLACES.map(|p| p.0));
    let col = first(Quantity::ScanStepCol, STEP_PLACES.map(|p| p.1));
    nxem::both(row, col, said, warnings)
}

type Steps = (String, [Recorded<f64>; 2]);

fn velox_step(
    all: &mut Described,
    sources: &Sources<'_>,
    fingerprints: &mut Fingerprints,
) -> Result<Option<Steps>> {
    let Sources { layout, decision, .. } = sources;
    let folder = match layout.head.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let really_beside = || {
        let real = crate::real_place(&layout.head)?;
        velox::sibling(real.parent()?, stem_of(&shown(&real)))
    };
    let near = velox::sibling(folder, &layout.stem);
    let Some(path) = near.or_else(really_beside) else { return Ok(None) };
    let name = shown(&path);
    // Without a scan shape nothing can show that the image is of the same scan.
    let Some(scan) = decision.scan.as_ref().map(|s| s.shape) else { return Ok(None) };
    fingerprints.add(&path)?;
    match velox::steps(&path, scan) {
        Ok(steps) => {
            all.companions.push(path);
            Ok(Some((format!("Velox EMD · {name}"), steps)))
        }
        Err(why) => {
            fingerprints.forget(&path);
            all.warn("velox_sibling_ignored", format!("`{name}` gives no scan step: {why}"));
            Ok(None)
        }
    }
}

/// Texts of the head and of the companion, each within its own bound; the companion's win where names are equal.
fn retain(all: &mut Described, sources: &Sources<'_>) {
    let mut kept = retained::of_detector(sources.head);
    if all.imported_nxem
        && let Companion::Read { path, .. } = &sources.beside.companion
        && let Ok(file) = File::open(path)
    {
        let more = retained::of_detector(&file);
        kept.left_out += more.left_out;
        kept.texts.extend(more.texts);
    }
    all.retained = kept.texts.into_iter().collect();
    all.retained_left_out = kept.left_out;
}
