//! How a verb opens what it was given, pack or original, and what is recorded in it.

use super::provenance::Provenance;
pub(crate) use super::provenance::dark_document;
use crate::CliCode;
use crate::args::Input;
use crate::context::Context;
use crate::parse::Scan;
use std::path::Path;
use stempack::export::ScaleBar;
use stempack::{
    BrightFieldDisk, Dark, DetectorCalibration, DetectorTurn, Error, OpenOptions, PackFile, Products,
    Quantity, Result, ScanShape, bright_field_disk,
};

/// Something that answers products, with its provenance.
pub(crate) struct Opened {
    provenance: Provenance,
    products: Box<dyn Products>,
    label: String,
}

/// Options for opening with the scan shape that was stated and what was permitted.
pub(crate) fn options(scan: Option<Scan>, allow_uncalibrated: bool) -> Result<OpenOptions> {
    let scan = scan.map(|s| ScanShape::new(s.rows, s.cols)).transpose()?;
    Ok(OpenOptions { scan, allow_uncalibrated, ..OpenOptions::default() })
}

/// Opens a pack or an original to ask several questions. A pack answers from memory where the budget holds it, an
/// original by being read, less the mean of `dark` where one is given.
pub(crate) fn open(input: &Input, dark: Option<&Path>, context: &Context) -> Result<Opened> {
    questions(what(input)?, input, dark, context)
}

/// As [`open`], of something that is open already.
pub(crate) fn questions(
    what: stempack::Opened,
    input: &Input,
    dark: Option<&Path>,
    context: &Context,
) -> Result<Opened> {
    open_with(what, input, dark, context, |what| what.products(context.task()))
}

/// Opens a pack or an original for frames: a pack gives them shard by shard.
pub(crate) fn open_frames(input: &Input, dark: Option<&Path>, context: &Context) -> Result<Opened> {
    frames(what(input)?, input, dark, context)
}

/// As [`open_frames`], of something that is open already.
pub(crate) fn frames(
    what: stempack::Opened,
    input: &Input,
    dark: Option<&Path>,
    context: &Context,
) -> Result<Opened> {
    open_with(what, input, dark, context, |what| what.frames(context.task()))
}

/// What the path is, with what was stated of it.
pub(crate) fn what(input: &Input) -> Result<stempack::Opened> {
    let what = stempack::open(&input.file, &options(input.scan, input.allow_uncalibrated)?)?;
    agree(&what, input.scan)?;
    Ok(what)
}

fn open_with(
    what: stempack::Opened,
    input: &Input,
    dark: Option<&Path>,
    context: &Context,
    products: impl FnOnce(&stempack::Opened) -> Result<Box<dyn Products>>,
) -> Result<Opened> {
    let (products, dark) = match dark {
        Some(path) => {
            let options = options(None, input.allow_uncalibrated)?;
            let dark = Dark::of(&what, path, &options, context.task())?;
            (what.less_dark(&dark)?, Some(dark))
        }
        None => (products(&what)?, Dark::saved(&what)?),
    };
    let label = input.file.file_name().map_or_else(|| input.file.display().to_string(), name);
    Ok(Opened { provenance: Provenance { what, dark, digest: input.digest }, products, label })
}

fn name(name: &std::ffi::OsStr) -> String {
    name.to_string_lossy().into_owned()
}

/// A pack or `.qem` file knows its scan shape; a statement may only agree.
pub(crate) fn agree(what: &stempack::Opened, stated: Option<Scan>) -> Result<()> {
    let (kind, path, scan) = match what {
        stempack::Opened::Pack(pack) => ("pack", pack.path(), pack.shape().scan),
        stempack::Opened::Qem(file) => (".qem file", file.path(), file.shape().scan),
        stempack::Opened::Original(_) => return Ok(()),
    };
    match stated {
        Some(s) if (s.rows, s.cols) != (scan.rows() as u64, scan.cols() as u64) => Err(Error::new(
            CliCode::ScanConflict,
            format!("`{}` is a {kind} of a {scan} scan, stated was {}×{}", path.display(), s.rows, s.cols),
        )
        .with("candidates", vec![format!("{}x{}", scan.rows(), scan.cols())])),
        _ => Ok(()),
    }
}

impl Opened {
    /// What answers.
    pub(crate) fn products(&self) -> &dyn Products {
        self.products.as_ref()
    }
    /// What it is.
    pub(crate) fn what(&self) -> &stempack::Opened {
        &self.provenance.what
    }
    /// What results say of it.
    pub(crate) fn provenance(&self) -> &Provenance {
        &self.provenance
    }
    /// Disk and turn of the detector that a pack records.
    pub(crate) fn calibration(&self) -> Option<&DetectorCalibration> {
        let stempack::Opened::Pack(pack) = self.what() else { return None };
        pack.manifest().calibration.as_ref()
    }
    /// Short name for people.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }
    /// How images come about: summed from zero in a resident, or while an original streams by.
    pub(crate) fn mode(&self) -> &'static str {
        match self.what() {
            stempack::Opened::Pack(_) => "rebase",
            stempack::Opened::Qem(_) => "tiles",
            stempack::Opened::Original(_) => "streamed",
        }
    }
    /// The recorded bright-field disk, else the measured one.
    pub(crate) fn disk(&self, context: &Context) -> Result<BrightFieldDisk> {
        bright_field_disk(self.what(), self.products(), context.task())
    }

    /// How the detector is turned against the scan, where a pack records it.
    pub(crate) fn recorded_turn(&self) -> Option<DetectorTurn> {
        let (degrees, exchanged) = self.calibration()?.dpc?;
        Some(DetectorTurn { degrees, exchanged })
    }

    /// Scale of pictures of the scan, where the step between columns is recorded.
    pub(crate) fn scan_scale(&self) -> Option<ScaleBar> {
        self.step(Quantity::ScanStepCol).and_then(ScaleBar::angstrom)
    }
    /// Scale of pictures of the detector, where the angle or reciprocal step between columns is recorded.
    pub(crate) fn detector_scale(&self) -> Option<ScaleBar> {
        let angle = self.step(Quantity::DetectorAngleCol).and_then(ScaleBar::mrad);
        let reciprocal =
            || self.step(Quantity::DetectorReciprocalCol).and_then(ScaleBar::reciprocal_angstrom);
        angle.or_else(reciprocal)
    }
    /// A recorded or stated value in the unit of `quantity`.
    pub(crate) fn step(&self, quantity: Quantity) -> Option<f64> {
        match self.what() {
            stempack::Opened::Original(source) => {
                source.acquisition().quantities.get(&quantity).map(|r| r.value)
            }
            stempack::Opened::Qem(file) => file.effective_calibration().get(&quantity).map(|r| r.value),
            stempack::Opened::Pack(pack) => pack_step(pack, quantity),
        }
    }

    /// The name of a quantity in results: one that a person states in a `.qem` file says so.
    pub(crate) fn name_of(&self, quantity: Quantity) -> String {
        match self.what() {
            stempack::Opened::Qem(file) if file.overrides().contains_key(&quantity) => {
                format!("overrides.{}", quantity.as_str())
            }
            _ => quantity.as_str().to_owned(),
        }
    }
}

/// A sampling that the producer recorded in the manifest, in the unit of `quantity`.
pub(crate) fn pack_step(pack: &PackFile, quantity: Quantity) -> Option<f64> {
    let recorded = pack.manifest().object.get("source_calibration")?;
    let number = |key: &str| recorded.get(key)?.as_f64().filter(|v| v.is_finite() && *v > 0.0);
    let detector = |key: &str, unit: &str| {
        let recorded_unit = recorded.get("detector_sampling_unit")?.as_str()?;
        (recorded_unit == unit).then(|| number(key)).flatten()
    };
    match quantity {
        // Nanometres in the manifest, ångström here.
        Quantity::ScanStepRow => number("scan_row_sampling_nm").map(|nm| nm * 10.0),
        Quantity::ScanStepCol => number("scan_column_sampling_nm").map(|nm| nm * 10.0),
        Quantity::DetectorAngleRow => detector("detector_row_sampling", "mrad"),
        Quantity::DetectorAngleCol => detector("detector_column_sampling", "mrad"),
        Quantity::DetectorReciprocalRow => detector("detector_row_sampling", "1/angstrom"),
        Quantity::DetectorReciprocalCol => detector("detector_column_sampling", "1/angstrom"),
        Quantity::BeamEnergy
        | Quantity::SemiConvergenceAngle
        | Quantity::DwellTime
        | Quantity::CameraLength => None,
    }
}

/// Whether two paths name the same file, as far as both exist.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
