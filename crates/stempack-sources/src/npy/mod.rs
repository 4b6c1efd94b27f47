//! NumPy `.npy` arrays as acquisitions: four axes as they are, or a stack of frames whose scan shape is stated.
//!
//! Such a file records no calibration and no scan, so none is given. An archive of arrays is refused by name.

pub mod header;

use crate::error::SourceCode;
use crate::flat::{Flat, FlatSource, Order};
use crate::identity::Fingerprints;
use crate::registry::{DOUBTFUL, Entry, Format, Probe};
use crate::scan_shape::{Candidate, Standing, decide};
use crate::{OpenOptions, exclusions, refuse, shown};
use header::{Fault, Header};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use stempack_model::{
    Acquisition, DetectorShape, Error, FrameSource, Member, MemberRole, Result, SampleType, ScanShape,
    Warning,
};

/// The line of the registry.
pub(crate) const FORMAT: Format = Format {
    name: "npy",
    looks_for: "a NumPy `.npy` array",
    is_entry: |name| Entry::possible(name.to_ascii_lowercase().ends_with(".npy")),
    probe,
    open,
};

/// Identifier of this reader's contract.
const READER: &str = "numpy/v1";
const LABEL: &str = "NumPy";
/// Longest header text that is retained.
const LONGEST_RETAINED: usize = 4096;

/// The beginning of a file, no more than is asked for.
fn beginning(file: &File, path: &Path, most: usize) -> Result<Vec<u8>> {
    let bytes = file.metadata().map_err(|e| Error::io("stat", path, e))?.len();
    let mut first = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX).min(most)];
    file.read_exact_at(&mut first, 0).map_err(|e| Error::io("read", path, e))?;
    Ok(first)
}

/// The name of the first member, when the bytes begin a zip archive whose first member is an `.npy` file.
fn zipped(first: &[u8]) -> Option<String> {
    let length = first.get(26..28).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])))?;
    let name = first.strip_prefix(b"PK\x03\x04".as_slice()).and_then(|_| first.get(30..30 + length))?;
    Some(String::from_utf8_lossy(name).into_owned()).filter(|name| name.ends_with(".npy"))
}

/// Enough for the names of the members of most archives.
const PROBED_BYTES: usize = 512;

/// How many axes an array has that can be no acquisition: images and tables are often kept beside one.
fn axes_of_no_acquisition(file: &File, path: &Path, first: &[u8]) -> Option<usize> {
    let end = header::end(first).ok()?;
    let (header, _) = header::parse(&beginning(file, path, end).ok()?).ok()?;
    Some(header.shape.len()).filter(|axes| !matches!(axes, 3 | 4))
}

fn probe(path: &Path) -> Result<Probe> {
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let first = beginning(&file, path, PROBED_BYTES)?;
    Ok(if let Some(axes) = axes_of_no_acquisition(&file, path, &first) {
        let why = format!("a NumPy array of {axes} axes, an acquisition has 4, or 3 as a stack of frames");
        Probe::Yes { score: DOUBTFUL, why }
    } else if first.starts_with(header::MAGIC) {
        Probe::Yes { score: 100, why: "the `.npy` magic bytes".to_owned() }
    } else if zipped(&first).is_some() {
        // Taken only to be refused by name.
        Probe::Yes { score: 10, why: "a zip archive of `.npy` arrays, which has to be unpacked".to_owned() }
    } else {
        Probe::No("no `.npy` magic bytes".to_owned())
    })
}

/// Where and how the samples of an array lie.
struct Layout {
    header: Header,
    offset: u64,
    sample: SampleType,
    big_endian: bool,
    frame_count: u64,
    scan: Option<(u64, u64)>,
    detector: DetectorShape,
    warnings: Vec<Warning>,
}

impl Layout {
    /// Reads the header of a file of `bytes` bytes that starts with `first`.
    fn read(first: &[u8], bytes: u64, path: &Path) -> Result<Layout> {
        let name = shown(path);
        let fail = |code, message: String| refuse(code, format!("`{name}`: {message}"), path);
        let (header, end) = header::parse(first).map_err(|fault| fault_of(&fault, path))?;
        let (sample, big_endian, assumed) = sample_type(&header.descr).ok_or_else(|| {
            let what = element_name(&header.descr);
            fail(SourceCode::UnsupportedLayout, format!("its elements are {what} (`{}`)", header.descr))
        })?;
        let shape: Vec<String> = header.shape.iter().map(u64::to_string).collect();
        let shape = shape.join("×");
        let (scan, frame_count, rows, cols) = match *header.shape.as_slice() {
            [scan_rows, scan_cols, rows, cols] => {
                (Some((scan_rows, scan_cols)), scan_rows.checked_mul(scan_cols), rows, cols)
            }
            [frames, rows, cols] => (None, Some(frames), rows, cols),
            _ => {
                let axes = header.shape.len();
                let message =
                    format!("has {axes} axes ({shape}), an acquisition has 4, or 3 as a stack of frames");
                return Err(fail(SourceCode::UnsupportedLayout, message));
            }
        };
        let expected = header
            .shape
            .iter()
            .try_fold(sample.bytes() as u64, |n, &size| n.checked_mul(size))
            .and_then(|n| n.checked_add(end as u64));
        let (Some(expected), Some(frame_count)) = (expected, frame_count) else {
            return Err(fail(
                SourceCode::TooLarge,
                format!("its shape {shape} is beyond what can be counted"),
            ));
        };
        if expected == end as u64 {
            return Err(fail(SourceCode::UnsupportedLayout, format!("its shape {shape} is empty")));
        }
        if expected != bytes {
            let message = format!("has {bytes} bytes, its shape {shape} of {sample} needs {expected}");
            return Err(fail(SourceCode::LengthMismatch, message));
        }
        let mut warnings = Vec::new();
        if assumed {
            let message = format!(
                "`{name}` says only that its byte order is that of its writer (`{}`); little-endian is assumed",
                header.descr
            );
            warnings.push(Warning { code: "assumed_byte_order", message });
        }
        let detector = DetectorShape::new(rows, cols)?;
        Ok(Layout { header, offset: end as u64, sample, big_endian, frame_count, scan, detector, warnings })
    }

    /// How frames follow each other; the scan is that of the file, or all frames in one row.
    fn order(&self) -> Result<Order> {
        if !self.header.fortran_order {
            return Ok(Order::Frames { stride: self.detector.pixels() as u64 * self.sample.bytes() as u64 });
        }
        let (rows, cols) = self.scan.unwrap_or((1, self.frame_count));
        Ok(Order::Pixels {
            scan: ScanShape::new(rows, cols)?,
            scan_rows_fastest: self.scan.is_some(),
            det_rows_fastest: true,
        })
    }
}

fn fault_of(fault: &Fault, path: &Path) -> Error {
    let code = match fault {
        Fault::NotNpy => SourceCode::UnknownFormat,
        Fault::Unsupported(_) => SourceCode::UnsupportedLayout,
        Fault::Malformed(_) => SourceCode::MalformedHeader,
    };
    refuse(code, format!("`{}`: {}", shown(path), fault.message()), path)
}

/// Sample type, whether it is big-endian, and whether that had to be assumed.
fn sample_type(descr: &str) -> Option<(SampleType, bool, bool)> {
    let (order, kind) = descr.split_at_checked(1)?;
    let sample = match kind {
        "u1" => SampleType::U8,
        "i1" => SampleType::I8,
        "u2" => SampleType::U16,
        "i2" => SampleType::I16,
        "u4" => SampleType::U32,
        "i4" => SampleType::I32,
        "u8" => SampleType::U64,
        "i8" => SampleType::I64,
        "f4" => SampleType::F32,
        "f8" => SampleType::F64,
        _ => return None,
    };
    match (order, sample.bytes()) {
        ("|" | "<" | ">" | "=", 1) => Some((sample, false, false)),
        ("<", _) => Some((sample, false, false)),
        (">", _) => Some((sample, true, false)),
        ("=", _) => Some((sample, false, true)),
        _ => None,
    }
}

/// A name for an element that is not read.
fn element_name(descr: &str) -> &'static str {
    match descr.trim_start_matches(['|', '<', '>', '=']) {
        "b1" | "?" => "truth values",
        "f2" => "16-bit floats",
        "f16" | "f12" => "extended floats",
        "O" => "Python objects",
        kind if kind.starts_with('c') => "complex numbers",
        kind if kind.starts_with(['U', 'S', 'a']) => "texts",
        kind if kind.starts_with(['M', 'm']) => "dates or durations",
        kind if kind.starts_with('V') => "untyped bytes",
        _ => "of no type that is read",
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    let mut fingerprints = Fingerprints::default();
    let bytes = fingerprints.add(path)?.bytes();
    let file = fingerprints.open(path)?;
    let first = beginning(&file, path, PROBED_BYTES)?;
    if let Some(member) = zipped(&first) {
        let message =
            format!("`{}` is an archive of NumPy arrays (`{member}`, …), not one array", shown(path));
        return Err(refuse(SourceCode::UnsupportedLayout, message, path)
            .hint("unpack the array that is meant, or save it with numpy.save"));
    }
    let end = header::end(&first).map_err(|fault| fault_of(&fault, path))?;
    let first = beginning(&file, path, end)?;
    let layout = Layout::read(&first, bytes, path)?;
    let order = layout.order()?;

    let recorded = layout.scan.map(|(rows, cols)| Candidate {
        rows,
        cols,
        evidence: format!("{}:shape", shown(path)),
        standing: Standing::Inside,
    });
    let decision = decide(layout.frame_count, options.scan, recorded.as_slice())?;
    let excluded = exclusions::none(layout.detector).map_err(|e| e.at(shown(path)))?;
    let mut acquisition =
        Acquisition::new(LABEL, READER, layout.frame_count, layout.detector, layout.sample, excluded);
    acquisition.label = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    acquisition.scan = decision.scan;
    acquisition.warnings = layout.warnings;
    acquisition.warnings.extend(decision.warnings);
    acquisition.members = vec![Member { path: path.to_owned(), role: MemberRole::Data, bytes }];
    let [major, minor] = [first.get(6), first.get(7)].map(|b| b.copied().unwrap_or_default());
    acquisition.provenance.insert("sourceFormatVersion", format!("{major}.{minor}"));
    acquisition.provenance.insert("sourceBytes", bytes.to_string());
    let order_words = if layout.header.fortran_order { "Fortran order" } else { "C order" };
    acquisition.provenance.insert("axis_order", order_words.to_owned());
    let literal = first.get(if major == 1 { 10 } else { 12 }..).map(String::from_utf8_lossy);
    if let Some(literal) = literal.map(|l| l.trim().to_owned()).filter(|l| l.len() <= LONGEST_RETAINED) {
        acquisition.retained.push(("numpy.header".to_owned(), literal));
    }
    let flat = Flat { path: path.to_owned(), offset: layout.offset, big_endian: layout.big_endian, order };
    let source = FlatSource::new(acquisition, flat, fingerprints)?;
    source.check_unchanged()?;
    Ok(Arc::new(source))
}

/// Any bytes as an array: described or refused.
pub(crate) fn fuzz(bytes: &[u8]) {
    let path = Path::new("fuzz.npy");
    if let Ok(layout) = Layout::read(bytes, bytes.len() as u64, path) {
        drop(layout.order());
    }
}
