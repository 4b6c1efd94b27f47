//! A bare stack `/dp` of float32 frames of 128×128 with the scan grid beside it; no calibration is taken from such a file.

use super::frames::EmdSource;
use super::{acquisition, detector, is_float32_le};
use crate::OpenOptions;
use crate::error::SourceCode;
use crate::hdf5::{DatasetIndex, File, Found, Link, Storage, Value};
use crate::identity::Fingerprints;
use crate::scan_shape::{self, Candidate, Standing};
use stempack_model::{Error, Result, SampleType, Warning};

const LABEL: &str = "HDF5 · float32 dp";
const READER: &str = "hdf5-contiguous-float32/v1";
const STACK: &str = "/dp";
/// Where the simulation that wrote the stack records its grid: rows, then columns.
const GRID: (&str, [&str; 2]) = ("/abtem_params", ["N_scan_slow", "N_scan_fast"]);
const SIDE: u64 = 128;

/// Whether the file has the stack, well-formed or not.
pub(super) fn is_there(file: &File) -> bool {
    match link(file) {
        Some(Link::Hard) => matches!(file.find(STACK), Ok(Found::Dataset(_))),
        Some(_) => true,
        None => false,
    }
}

fn link(file: &File) -> Option<Link> {
    match file.find("/") {
        Ok(Found::Group(root)) => file.link(&root, &STACK[1..]),
        _ => None,
    }
}

pub(super) fn open(file: &File, options: &OpenOptions, fingerprints: Fingerprints) -> Result<EmdSource> {
    let unsupported = |why: String| {
        let message = format!("`{STACK}` of `{}` is no stack that is read: {why}", file.name());
        Error::new(SourceCode::UnsupportedLayout, message).with("path", file.path().display().to_string())
    };
    match link(file) {
        Some(Link::Hard) => {}
        Some(other) => return Err(unsupported(super::datacube::described(&other))),
        None => return Err(unsupported("it is missing".to_owned())),
    }
    let Found::Dataset(dataset) = file.find(STACK)? else {
        return Err(unsupported("it is no dataset".to_owned()));
    };
    let index = DatasetIndex::build(file, &dataset)?;
    let &[frames, rows, cols] = index.shape() else {
        return Err(unsupported(format!("it has {} axes, expected 3", index.shape().len())));
    };
    if (rows, cols) != (SIDE, SIDE) {
        return Err(unsupported(format!("its frames are {rows}×{cols}, expected {SIDE}×{SIDE}")));
    }
    if !is_float32_le(index.element()) {
        return Err(unsupported("its samples are not little-endian float32".to_owned()));
    }
    if !matches!(index.storage(), Storage::Contiguous(_)) {
        return Err(unsupported("it is not stored contiguously".to_owned()));
    }
    if frames == 0 {
        return Err(unsupported("it has no frames".to_owned()));
    }
    let mut warnings = Vec::new();
    let recorded = grid(file, &mut warnings)?;
    let decision = scan_shape::decide(frames, options.scan, recorded.as_slice())?;
    let detector = detector(&index, rows, cols)?;
    let mut a = acquisition(file, (LABEL.to_owned(), READER), frames, detector, SampleType::F32)?;
    a.scan = decision.scan;
    a.warnings = decision.warnings;
    a.warnings.append(&mut warnings);
    a.provenance.insert("sourceDataset", STACK.to_owned());
    Ok(EmdSource::new(a, index, 1, fingerprints))
}

/// The attribute where there is one, whatever it says; else the parameters of the simulation. Parameters that say
/// something else than the attribute are remarked on.
fn grid(file: &File, warnings: &mut Vec<Warning>) -> Result<Option<Candidate>> {
    let candidate = |(rows, cols): (u64, u64), place: String| Candidate {
        rows,
        cols,
        evidence: format!("{}:{place}", file.name()),
        standing: Standing::Inside,
    };
    let invalid = |place: &str, found: &str| {
        let message = format!("`{place}` of `{}` is {found}, expected two positive integers", file.name());
        Err(Error::new(SourceCode::InvalidScanShape, message).with("path", file.path().display().to_string()))
    };
    let (group, names) = GRID;
    let [rows, cols] = names.map(|name| {
        file.value(&format!("{group}/{name}")).or_else(|| file.attribute(group, name)).map(|v| v.count())
    });
    let usable = |n: Option<Option<u64>>| n.flatten().filter(|&n| n > 0 && n <= u64::from(u32::MAX));
    let parameters = usable(rows).zip(usable(cols));
    let parameters_at = format!("{group}/{} and {}", names[0], names[1]);
    for object in [STACK, "/"] {
        if !file.has_attribute(object, "scan_shape") {
            continue;
        }
        let place = format!("{object}@scan_shape");
        let value = file.attribute(object, "scan_shape");
        let Some(value @ (Value::Unsigned(_) | Value::Signed(_))) = value else {
            return invalid(&place, "no array of integers");
        };
        let shape = match value.counts().as_deref() {
            Some(&[rows, cols]) if rows > 0 && cols > 0 => (rows, cols),
            _ => return invalid(&place, &value.display()),
        };
        if let Some(other) = parameters.filter(|&other| other != shape) {
            let message = format!(
                "`{place}` of `{}` is {}x{}, while `{parameters_at}` are {} and {}; the attribute is taken",
                file.name(),
                shape.0,
                shape.1,
                other.0,
                other.1
            );
            warnings.push(Warning { code: "conflicting_scan_shape", message });
        }
        return Ok(Some(candidate(shape, place)));
    }
    match parameters {
        Some(shape) => Ok(Some(candidate(shape, parameters_at))),
        None if rows.is_none() && cols.is_none() => Ok(None),
        None => invalid(&parameters_at, "incomplete or no integer"),
    }
}
