//! Which RAW belongs to which XML, whichever of the two is given.
//!
//! The XML decides: it names its RAW, which lies in the folder of the XML. A name recorded with folders of another
//! computer is taken without them.

use super::xml::{self, Xml};
use crate::error::SourceCode;
use crate::identity::Fingerprints;
use crate::{refuse, shown};
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use stempack_model::{Error, Result, Warning};

/// Most XML files of one folder that are looked at.
const MOST_SIBLINGS: usize = 10_000;

/// A RAW and, where there is one, its XML.
pub(super) struct Pair {
    pub(super) raw: PathBuf,
    pub(super) xml: Option<(PathBuf, Xml)>,
    pub(super) warnings: Vec<Warning>,
}

/// What stands beside a RAW.
pub(super) struct Beside {
    /// The one XML that names it.
    pub(super) xml: Option<PathBuf>,
    warnings: Vec<Warning>,
}

/// Whether a file is named as a RAW.
pub(super) fn is_raw(path: &Path) -> bool {
    has_extension(path, "raw")
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(wanted))
}

/// Whether a file could be an XML of this format, by its contents.
pub(super) fn looks_like_xml(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| Error::io("open", path, e))?;
    let mut file = file.take(xml::MAX_BYTES);
    // Almost no file begins like an XML; only those that do are read on.
    file.by_ref().take(64).read_to_end(&mut head).map_err(|e| Error::io("read", path, e))?;
    if !head.contains(&b'<') {
        return Ok(false);
    }
    file.read_to_end(&mut head).map_err(|e| Error::io("read", path, e))?;
    Ok(xml::looks_like(&head))
}

/// The pair that a file belongs to; `fingerprints` then knows its XML.
///
/// # Errors
/// `missing_member`, `wrong_pairing`, `ambiguous_source`, `unsafe_metadata`, `length_mismatch`.
pub(super) fn resolve(path: &Path, fingerprints: &mut Fingerprints) -> Result<Pair> {
    if !is_raw(path) {
        return from_xml(path, Vec::new(), fingerprints);
    }
    let beside = beside(path)?;
    match beside.xml {
        Some(xml_path) => {
            let xml = Xml::read(&xml_path, fingerprints)?;
            Ok(Pair { raw: path.to_owned(), xml: Some((xml_path, xml)), warnings: beside.warnings })
        }
        None => Ok(Pair { raw: path.to_owned(), xml: None, warnings: beside.warnings }),
    }
}

fn from_xml(path: &Path, warnings: Vec<Warning>, fingerprints: &mut Fingerprints) -> Result<Pair> {
    let xml = Xml::read(path, fingerprints)?;
    let name = named_raw(&xml).map_err(|e| e.with("path", path.display().to_string()))?;
    let mut raw = path.with_file_name(&name);
    if !raw.exists()
        && let Ok(real) = path.canonicalize()
        && real.with_file_name(&name).exists()
    {
        // The XML is a link; its RAW lies where it really is.
        raw = real.with_file_name(&name);
    }
    if !raw.exists() {
        let message = format!("`{}` names `{name}`, which is not in its folder", xml.name);
        return Err(refuse(SourceCode::MissingMember, message, path)
            .with("missing", vec![name])
            .hint("put the RAW beside its XML, under the name that the XML gives"));
    }
    Ok(Pair { raw, xml: Some((path.to_owned(), xml)), warnings })
}

/// The name of the RAW that an XML gives, without folders.
///
/// # Errors
/// `wrong_pairing` when there is none, `ambiguous_source` when there are two.
pub(super) fn named_raw(xml: &Xml) -> Result<String> {
    let names: Vec<String> =
        [xml::RAW_FILE, xml::RAWFILE].iter().filter_map(|k| xml.get(k)).map(base_name).collect();
    let Some(name) = names.first() else {
        return Err(Error::new(SourceCode::WrongPairing, format!("`{}` names no RAW", xml.name)));
    };
    if let Some(other) = names.iter().find(|n| *n != name) {
        let message = format!("`{}` names two RAW files, `{name}` and `{other}`", xml.name);
        return Err(Error::new(SourceCode::AmbiguousSource, message));
    }
    if !is_raw(Path::new(name)) {
        let message = format!("`{}` names `{}`, which is no RAW", xml.name, xml::brief(name));
        return Err(Error::new(SourceCode::WrongPairing, message));
    }
    Ok(name.clone())
}

fn base_name(recorded: &str) -> String {
    recorded.replace('\\', "/").rsplit('/').next().unwrap_or_default().to_owned()
}

/// The XML beside a RAW.
///
/// # Errors
/// `wrong_pairing`, `ambiguous_source`, `too_large`; `unsafe_metadata` when the XML of the same stem cannot be read.
pub(super) fn beside(raw: &Path) -> Result<Beside> {
    let found = beside_name(raw)?;
    if found.xml.is_some() {
        return Ok(found);
    }
    // The RAW may be a link; then its XML may lie where it really is.
    match crate::real_place(raw) {
        Some(real) => beside_name(&real),
        None => Ok(found),
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn beside_name(raw: &Path) -> Result<Beside> {
    let folder = parent(raw);
    let mut siblings = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))? {
        let name = entry.map_err(|e| Error::io("list", folder, e))?.file_name();
        let path = raw.with_file_name(name);
        if has_extension(&path, "xml") && path.is_file() {
            siblings.push(path);
        }
    }
    siblings.sort();
    if siblings.len() > MOST_SIBLINGS {
        let message = format!(
            "the folder of `{}` holds more than {MOST_SIBLINGS} XML files, too many to look for the one that names it",
            shown(raw)
        );
        return Err(refuse(SourceCode::TooLarge, message, raw).hint("open the XML instead"));
    }
    let (same, others): (Vec<PathBuf>, Vec<PathBuf>) =
        siblings.into_iter().partition(|p| p.file_stem() == raw.file_stem());
    if !same.is_empty() {
        return same_stem(raw, same);
    }
    let mut naming = Vec::new();
    let mut warnings = Vec::new();
    for path in others {
        match Xml::read(&path, &mut Fingerprints::default()).and_then(|xml| named_raw(&xml)) {
            Ok(name) if raw.file_name() == Some(OsStr::new(&name)) => naming.push(path),
            Ok(_) => {}
            Err(e) if mentions(&path, raw) => warnings.push(Warning {
                code: "unreadable_sibling",
                message: format!(
                    "{}, though it mentions `{}`; it contributes nothing",
                    e.message(),
                    shown(raw)
                ),
            }),
            Err(_) => {}
        }
    }
    Ok(Beside { xml: only(raw, naming)?, warnings })
}

/// An XML of the same stem is the one that is meant, so it must name this RAW.
fn same_stem(raw: &Path, same: Vec<PathBuf>) -> Result<Beside> {
    let real = raw.canonicalize().map_err(|e| Error::io("open", raw, e))?;
    let mut naming = Vec::new();
    let mut refusal = None;
    for path in same {
        match Xml::read(&path, &mut Fingerprints::default()).and_then(|xml| named_raw(&xml)) {
            Ok(name) if path.with_file_name(&name).canonicalize().ok().as_ref() == Some(&real) => {
                naming.push(path);
            }
            Ok(name) => {
                let message =
                    format!("`{}` has the stem of `{}` but names `{name}`", shown(&path), shown(raw));
                refusal.get_or_insert(
                    refuse(SourceCode::WrongPairing, message, &path)
                        .hint("open the XML to read the RAW that it names, or give the file that does not belong another name"),
                );
            }
            Err(e) => {
                refusal.get_or_insert(e.with("path", path.display().to_string()));
            }
        }
    }
    match (only(raw, naming)?, refusal) {
        (None, Some(refusal)) => Err(refusal),
        (xml, _) => Ok(Beside { xml, warnings: Vec::new() }),
    }
}

fn only(raw: &Path, mut naming: Vec<PathBuf>) -> Result<Option<PathBuf>> {
    if naming.len() > 1 {
        let names: Vec<String> = naming.iter().map(|p| shown(p)).collect();
        let message = format!("`{}` is named by several XML files: {}", shown(raw), names.join(", "));
        return Err(refuse(SourceCode::AmbiguousSource, message, raw)
            .with("candidates", names)
            .hint("open the XML that is meant"));
    }
    Ok(naming.pop())
}

/// Whether a file contains the name of a RAW as bytes.
fn mentions(path: &Path, raw: &Path) -> bool {
    let Some(name) = raw.file_name().map(OsStr::as_encoded_bytes) else { return false };
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(xml::MAX_BYTES).read_to_end(&mut bytes));
    read.is_ok() && bytes.windows(name.len()).any(|w| w == name)
}
