//! EMPAD acquisitions: an XML and the RAW of float32 frames that it names.
//!
//! Either file is accepted as input. The first generation has a footer behind each frame, the second is read as the float
//! export only. A RAW without XML is of the first generation, and its scan shape has to stand in its name or be stated.

mod dark;
mod layout;
mod metadata;
mod pairing;
mod scan;
mod xml;

pub use dark::{MEAN_DARK, MeanDark, mean_dark};

use crate::background;
use crate::flat::{Flat, FlatSource, Order};
use crate::identity::Fingerprints;
use crate::registry::{DOUBTFUL, Entry, Format, Probe};
use crate::{OpenOptions, error::SourceCode, exclusions, refuse, shown};
use layout::Generation;
use metadata::Described;
use std::path::Path;
use std::sync::Arc;
use stempack_model::{
    Acquisition, DetectorShape, Error, FrameSource, Member, MemberRole, Result, SampleType, Warning,
};

/// The line of the registry.
pub(crate) const FORMAT: Format = Format {
    name: "empad",
    looks_for: "an EMPAD acquisition (an XML that names its RAW, or a RAW of 128×128 float32 frames)",
    is_entry: |name| {
        let name = name.to_ascii_lowercase();
        Entry::possible([".xml", ".raw"].iter().any(|e| name.len() > e.len() && name.ends_with(e)))
    },
    probe,
    open,
};

/// Identifier of the reader contract and label of a format.
fn names(generation: Generation, series: bool) -> (&'static str, &'static str) {
    match (generation, series) {
        (Generation::G1, false) => ("empad-g1-float32-xml/v1", "EMPAD-G1 · XML/RAW float32"),
        // Not a raster, so the contract of rasters does not hold.
        (Generation::G1, true) => ("stempack-empad-g1-series/v1", "EMPAD-G1 · XML/RAW float32"),
        (Generation::G2, _) => ("empad-g2-float32-xml/v1", "EMPAD-G2 · XML/RAW float32"),
    }
}

fn probe(path: &Path) -> Result<Probe> {
    let yes = |score: u8, why: String| Ok(Probe::Yes { score, why });
    let found = std::fs::metadata(path).map_err(|e| Error::io("open", path, e))?;
    if !found.is_file() {
        return Ok(Probe::No("no regular file".to_owned()));
    }
    if !pairing::is_raw(path) {
        if !pairing::looks_like_xml(path)? {
            return Ok(Probe::No("neither named as a RAW nor an XML that could name one".to_owned()));
        }
        return match xml::Xml::read(path, &mut Fingerprints::default()).and_then(|x| pairing::named_raw(&x)) {
            Ok(raw) => yes(95, format!("an XML that names the RAW `{raw}`")),
            Err(e) => yes(60, format!("an XML that mentions a RAW, but {}", e.message())),
        };
    }
    let record = Generation::G1.record_bytes();
    let whole = found.len() > 0 && found.len() % record == 0;
    match pairing::beside(path).map(|beside| beside.xml) {
        Ok(Some(xml)) => yes(90, format!("a RAW that `{}` names", shown(&xml))),
        Err(e) => yes(85, format!("a RAW, but {}", e.message())),
        Ok(None) if layout::shown_shape(&shown(path)).is_some() => {
            yes(if whole { 70 } else { 40 }, "a RAW whose name states a scan shape".to_owned())
        }
        Ok(None) if whole => yes(30, format!("a RAW of whole records of {record} bytes, without XML")),
        Ok(None) => yes(DOUBTFUL, "named as a RAW, without XML".to_owned()),
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    let mut fingerprints = Fingerprints::default();
    let pairing::Pair { raw, xml, mut warnings } = pairing::resolve(path, &mut fingerprints)?;
    if !raw.is_file() {
        let message = format!("`{}` is no regular file", shown(&raw));
        return Err(refuse(SourceCode::LengthMismatch, message, &raw));
    }
    let bytes = fingerprints.add(&raw)?.bytes();
    let declared = layout::declared(xml.as_ref().map(|(_, xml)| xml), &raw)
        .map_err(|e| e.with("path", path.display().to_string()))?;
    let generation = declared.generation;
    let length = scan::Length { raw: &raw, bytes, generation };
    let decision = scan::decide(&length, declared.series, &declared.candidates, options.scan)?;
    if declared.maybe_encoded {
        layout::refuse_encoded_words(&raw, decision.frame_count, &fingerprints)?;
    }
    warnings.extend(decision.warnings);
    if declared.series.is_some() {
        warnings.push(Warning {
            code: "not_a_raster",
            message: format!(
                "the XML records a series of {} frames, not a scan; rows and columns are what the caller states",
                decision.frame_count
            ),
        });
    }
    let described = xml.as_ref().map_or_else(Described::default, |(_, xml)| {
        metadata::describe(xml, generation, decision.scan.as_ref().map(|s| s.shape))
    });
    warnings.extend(described.warnings);

    let detector = DetectorShape::new(layout::SIDE, layout::SIDE)?;
    let (reader, format) = names(generation, declared.series.is_some());
    let excluded = exclusions::none(detector)?;
    let mut acquisition =
        Acquisition::new(format, reader, decision.frame_count, detector, SampleType::F32, excluded);
    // The acquisition bears the name of its XML: those of RAW files are all alike.
    let named = xml.as_ref().map_or(&raw, |(path, _)| path);
    acquisition.label = named.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    acquisition.scan = decision.scan;
    acquisition.quantities = described.quantities;
    acquisition.identity = described.identity;
    acquisition.provenance = described.provenance;
    acquisition.warnings = warnings;
    acquisition.members.push(Member { path: raw.clone(), role: MemberRole::Data, bytes });
    let mut others = Vec::new();
    if let Some((path, xml)) = &xml {
        let bytes = fingerprints.add(path)?.bytes();
        acquisition.members.push(Member { path: path.clone(), role: MemberRole::Companion, bytes });
        acquisition.documents.push(xml.document());
        (acquisition.retained, acquisition.retained_left_out) = xml.retained();
        others.push(path.as_path());
    }
    background::evidence(&raw, &others).attach(&mut acquisition, &mut fingerprints)?;

    let order = Order::Frames { stride: generation.record_bytes() };
    let flat = Flat { path: raw, offset: 0, big_endian: false, order };
    let source = FlatSource::new(acquisition, flat, fingerprints)?;
    // What was read in pieces must have been one state of the files.
    source.check_unchanged()?;
    Ok(Arc::new(source))
}

/// Any text as the XML of an acquisition, for the fuzzer: everything that is done before a RAW is looked at.
pub(crate) fn interpret(text: &str) {
    let Ok(xml) = xml::Xml::parse("fuzz.xml", text.to_owned()) else { return };
    let Ok(name) = pairing::named_raw(&xml) else { return };
    let _retained = xml.retained();
    let Ok(declared) = layout::declared(Some(&xml), Path::new(&name)) else { return };
    let frames = declared.candidates.first().map_or(4, |c| c.rows.saturating_mul(c.cols));
    let bytes = frames.saturating_mul(declared.generation.record_bytes());
    let length = scan::Length { raw: Path::new(&name), bytes, generation: declared.generation };
    if let Ok(decision) = scan::decide(&length, declared.series, &declared.candidates, None) {
        metadata::describe(&xml, declared.generation, decision.scan.map(|s| s.shape));
    }
}
