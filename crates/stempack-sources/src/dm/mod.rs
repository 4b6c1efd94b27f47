//! DigitalMicrograph documents, DM4 and DM3: the one image of four axes, with the calibration of its axes.
//!
//! The reader's own contract goes beyond the seed's (more sample types, both byte orders, both orders of axes, more
//! units); the seed's identifier is reported only for files that satisfy the seed's own.

mod bytes;
mod images;
mod layout;
mod metadata;
mod retained;
mod tags;
mod units;
mod values;

use crate::OpenOptions;
use crate::exclusions;
use crate::flat::{Flat, FlatSource};
use crate::identity::Fingerprints;
use crate::registry::{Entry, Format, Probe};
use crate::scan_shape::{Candidate, Standing, decide};
use bytes::Input;
use layout::Layout;
use metadata::Described;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use stempack_model::{Acquisition, Error, FrameSource, Member, MemberRole, Result, Warning};
use tags::{HEADER_BYTES, Header, Tags, Version};
use values::Values;

/// The line of the registry.
pub(crate) const FORMAT: Format = Format {
    name: "dm",
    looks_for: "a DigitalMicrograph DM4 or DM3 document",
    is_entry: |name| {
        let name = name.to_ascii_lowercase();
        Entry::certain(name.ends_with(".dm4") || name.ends_with(".dm3"))
    },
    probe,
    open,
};

/// Identifier of this reader's contract.
fn reader(version: Version) -> &'static str {
    match version {
        Version::Dm3 => "digitalmicrograph-dm3/v1",
        Version::Dm4 => "digitalmicrograph-dm4/v1",
    }
}

/// The display label; only the recorded model makes a camera a K3.
fn format_label(version: Version, model: Option<&str>) -> String {
    let k3 = model.is_some_and(|m| m.trim().eq_ignore_ascii_case("K3"));
    format!("{} {}", if k3 { "K3" } else { "DigitalMicrograph" }, version.as_str())
}

fn probe(path: &Path) -> Result<Probe> {
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let bytes = file.metadata().map_err(|e| Error::io("stat", path, e))?.len();
    let input = Input::file(&file, bytes, path);
    let mut first = [0; HEADER_BYTES];
    if bytes < HEADER_BYTES as u64 {
        return Ok(Probe::No(format!("{bytes} bytes are no DM3 or DM4 header")));
    }
    input.read(0, &mut first)?;
    let header = match Header::parse(&first) {
        Ok(header) => header,
        Err(why) => return Ok(Probe::No(why)),
    };
    // There is no signature, so the start of the root group has to look like one too.
    let (at, count_bytes) = match header.version {
        Version::Dm3 => (12, 4),
        Version::Dm4 => (16, 8),
    };
    let mut group = [0; 11];
    let group = &mut group[..2 + count_bytes + 1];
    if bytes < at + group.len() as u64 {
        return Ok(Probe::No(format!("a {} header and nothing after it", header.version.as_str())));
    }
    input.read(at, group)?;
    let (flags, kind) = (&group[..2], group[group.len() - 1]);
    if flags.iter().any(|&f| f > 1) || !matches!(kind, 20 | 21) {
        return Ok(Probe::No("a DM header without a group of tags".to_owned()));
    }
    let order = if header.big_endian { "big" } else { "little" };
    Ok(Probe::Yes { score: 90, why: format!("a {} header, {order}-endian data", header.version.as_str()) })
}

/// What a document says, read from a file or from memory.
fn read(input: Input<'_>, options: &OpenOptions) -> Result<(Layout, Described, Version)> {
    let tags = Tags::parse(input)?;
    let values = Values { input, tags: &tags };
    let images = images::list(values)?;
    let image = images::choose(values, &images)?;
    let layout = Layout::read(values, image)?;
    let mut described = metadata::describe(values, image, &layout, options)?;
    if let Some(warning) = root_length(&tags) {
        described.warnings.push(warning);
    }
    Ok((layout, described, tags.header.version))
}

/// A root that is declared shorter than its tags are is worth a remark, since the tags themselves are complete.
fn root_length(tags: &Tags) -> Option<Warning> {
    let begin = if tags.header.version == Version::Dm4 { 16 } else { 12 };
    let found = tags.end - begin;
    (tags.header.root_bytes < found).then(|| Warning {
        code: "root_length",
        message: format!("the header declares {} bytes of tags, they take {found}", tags.header.root_bytes),
    })
}

fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    let mut fingerprints = Fingerprints::default();
    let bytes = fingerprints.add(path)?.bytes();
    let file = fingerprints.open(path)?;
    let (layout, described, version) = read(Input::file(&file, bytes, path), options)?;

    let (rows, cols, evidence) = layout.scan.clone();
    let evidence = format!("{}:{evidence}", crate::shown(path));
    let recorded = [Candidate { rows, cols, evidence, standing: Standing::Inside }];
    let decision = decide(layout.frame_count, options.scan, &recorded)?;
    let excluded = exclusions::none(layout.detector).map_err(|e| e.at(crate::shown(path)))?;
    let mut acquisition = Acquisition::new(
        described.format,
        reader(version),
        layout.frame_count,
        layout.detector,
        layout.sample,
        excluded,
    );
    acquisition.label = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    acquisition.scan = decision.scan;
    acquisition.quantities = described.quantities;
    acquisition.identity = described.identity;
    acquisition.provenance = described.provenance;
    acquisition.warnings = described.warnings;
    acquisition.warnings.extend(decision.warnings);
    acquisition.members = vec![Member { path: path.to_owned(), role: MemberRole::Data, bytes }];
    acquisition.retained = described.retained;
    acquisition.retained_left_out = described.retained_left_out;
    let flat = Flat {
        path: path.to_owned(),
        offset: layout.offset,
        big_endian: layout.big_endian,
        order: layout.order,
    };
    let source = FlatSource::new(acquisition, flat, fingerprints)?;
    // What was read in pieces must have been one state of the file.
    source.check_unchanged()?;
    Ok(Arc::new(source))
}

/// Any bytes as a document: described or refused.
pub(crate) fn fuzz(bytes: &[u8]) {
    let path = Path::new("fuzz.dm4");
    for allow_uncalibrated in [false, true] {
        let options = OpenOptions { allow_uncalibrated, ..OpenOptions::default() };
        // Either outcome is right; what is looked for is a crash or an allocation without bounds.
        drop(read(Input::memory(bytes, path), &options));
    }
}
