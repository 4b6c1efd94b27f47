//! Dectris ARINA and EIGER acquisitions: a master whose `/entry/data` links detector stacks, with what lies beside it.
//!
//! Any member is accepted as input. The master's links decide which files belong, in which order, and all of them are
//! required; file names decide only when there is no master.

mod beside;
mod evidence;
mod exclusions;
mod frames;
mod layout;
mod metadata;
mod numbering;
mod order;
pub(crate) mod retained;

use crate::OpenOptions;
use crate::hdf5::{self, Found};
use crate::identity::Fingerprints;
use crate::registry::{self, Format, Probe};
use crate::scan_shape;
use beside::Beside;
use frames::ArinaSource;
use layout::{Entry, Layout};
use order::{companion_master, shard_name};
use std::path::Path;
use std::sync::Arc;
use stempack_model::{Acquisition, BackgroundSubtraction, FrameSource, Member, MemberRole, Result};

/// The line of the registry.
pub(crate) const FORMAT: Format = Format {
    name: "arina",
    looks_for: "an ARINA or EIGER master, shard or companion (HDF5 with detector stacks in `/entry/data`)",
    is_entry: |name| {
        registry::Entry::certain(name.len() > MASTER.len() && name.to_ascii_lowercase().ends_with(MASTER))
    },
    probe,
    open,
};

/// Identifier of this reader's contract.
const READER: &str = "arina-hdf5/v1";
const LABEL: &str = "ARINA HDF5";
const LABEL_NXEM: &str = "ARINA HDF5 + NXem metadata";
const MASTER: &str = "_master.h5";
/// Where a master keeps its stacks.
const DATA: &str = "/entry/data";

/// Which acquisition a file belongs to, if it is of this format at all. A link whose master is not beside it belongs to
/// what lies where it leads to, unless more shards lie beside the link.
fn entry(path: &Path) -> Result<Option<Entry>> {
    let near = entry_beside(path);
    let itself = |entry: &Entry, path: &Path| matches!(entry, Entry::Master { master, .. } if master == path);
    if let Ok(Some(entry @ Entry::Master { .. })) = &near
        && !itself(entry, path)
    {
        return near;
    }
    let Some(real) = crate::real_place(path) else { return near };
    Ok(match (near, entry_beside(&real)?) {
        // A master keeps the name of its link; what is beside it is found all the same.
        (Ok(Some(near)), Some(entry)) if itself(&near, path) && itself(&entry, &real) => Some(near),
        (Ok(Some(Entry::Shards(near))), Some(Entry::Shards(real))) if near.len() >= real.len() => {
            Some(Entry::Shards(near))
        }
        (_, Some(entry)) => Some(entry),
        (near, None) => near?,
    })
}

/// Which acquisition a file belongs to by what lies in its folder.
fn entry_beside(path: &Path) -> Result<Option<Entry>> {
    let Some(name) = path.file_name().and_then(|n| n.to_str()) else { return lone(path) };
    let beside = |name: String| path.with_file_name(name);
    if let Some((stem, _)) = shard_name(name) {
        let master = beside(format!("{stem}{MASTER}"));
        if master.exists() {
            return Ok(Some(Entry::Master { master, shard: Some(path.to_owned()) }));
        }
        return Ok(if has_data(path)? { Some(Entry::Shards(order::siblings(path, stem)?)) } else { None });
    }
    if let Some(master) = companion_master(name) {
        let master = beside(master);
        return Ok(master.exists().then_some(Entry::Master { master, shard: None }));
    }
    if !name.ends_with(MASTER) && !has_data(path)? {
        // A side file, or anything else that shares the stem of a master.
        if let Some(stem) = name.strip_suffix(".h5") {
            let master = beside(format!("{stem}{MASTER}"));
            let belongs = master.exists() && hdf5::has_signature(path)?;
            return Ok(belongs.then_some(Entry::Master { master, shard: None }));
        }
    }
    lone(path)
}

fn lone(path: &Path) -> Result<Option<Entry>> {
    Ok(if has_data(path)? { Some(Entry::Master { master: path.to_owned(), shard: None }) } else { None })
}

/// Whether a file is HDF5 with a group where stacks would be.
fn has_data(path: &Path) -> Result<bool> {
    if !hdf5::has_signature(path)? {
        return Ok(false);
    }
    Ok(matches!(hdf5::File::open(path)?.find(DATA)?, Found::Group(_)))
}

fn probe(path: &Path) -> Result<Probe> {
    Ok(match entry(path)? {
        Some(entry) => Probe::Yes { score: 80, why: entry.why() },
        None => Probe::No("no detector stacks in `/entry/data` and no master beside it".to_owned()),
    })
}

fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn FrameSource>> {
    let Some(entry) = entry(path)? else {
        return Err(crate::registry::unknown(path, "is no ARINA or EIGER acquisition"));
    };
    let mut fingerprints = Fingerprints::default();
    let layout = Layout::read(&entry, options, &mut fingerprints)?;
    let source = describe(layout, options, fingerprints)?;
    // What was read in pieces must have been one state of the files.
    source.check_unchanged()?;
    Ok(Arc::new(source))
}

fn describe(layout: Layout, options: &OpenOptions, mut fingerprints: Fingerprints) -> Result<ArinaSource> {
    let head = hdf5::File::open(&layout.head)?;
    let mut warnings = layout.warnings.clone();
    evidence::check_expected_frames(&head, layout.frame_count)?;
    let excluded = exclusions::read(&head, layout.detector)?;

    let beside = Beside::read(&layout, &mut fingerprints)?;
    let recorded = evidence::scan_candidates(&head, &layout, &beside, options, &mut warnings)?;
    let decision = scan_shape::decide(layout.frame_count, options.scan, &recorded)?;
    warnings.extend(decision.warnings.iter().cloned());
    let described = metadata::describe(&head, &layout, &beside, &decision, &mut fingerprints)
        .map_err(|e| e.at(head.name()))?;
    warnings.extend(described.warnings);

    let mut members = Vec::new();
    let mut add = |path: &Path, role: MemberRole, fingerprints: &mut Fingerprints| -> Result<()> {
        let bytes = fingerprints.add(path)?.bytes();
        if !members.iter().any(|m: &Member| m.path == path) {
            members.push(Member { path: path.to_owned(), role, bytes });
        }
        Ok(())
    };
    if layout.has_master {
        add(&layout.head, MemberRole::Master, &mut fingerprints)?;
    }
    for stack in &layout.stacks {
        add(stack.index.file(), MemberRole::Data, &mut fingerprints)?;
    }
    for companion in &described.companions {
        add(companion, MemberRole::Companion, &mut fingerprints)?;
    }
    for looked_at in beside.paths() {
        if !members.iter().any(|m| m.path == *looked_at) {
            fingerprints.forget(looked_at);
        }
    }
    let acquisition = Acquisition {
        label: layout.stem.clone(),
        format: if described.imported_nxem { LABEL_NXEM } else { LABEL }.to_owned(),
        reader: READER.to_owned(),
        frame_count: layout.frame_count,
        scan: decision.scan,
        detector: layout.detector,
        sample: layout.sample,
        excluded,
        quantities: described.quantities,
        identity: described.identity,
        provenance: described.provenance,
        warnings,
        members,
        retained: described.retained,
        retained_left_out: described.retained_left_out,
        documents: Vec::new(),
        background: BackgroundSubtraction::Unknown,
        signal_unit: None,
    };
    Ok(ArinaSource::new(acquisition, layout.stacks, fingerprints))
}
