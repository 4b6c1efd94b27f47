//! Which array of an EMD 1 file is the datacube, by hard links alone, and what its shape and type make of it.

use super::frames::EmdSource;
use super::{acquisition, calibration, detector, is_float32_le, sample_type, short};
use crate::OpenOptions;
use crate::error::SourceCode;
use crate::hdf5::{Dataset, DatasetIndex, File, Found, Group, Link, ObjectId, Storage, Value};
use crate::identity::Fingerprints;
use crate::scan_shape::{self, Candidate, Standing};
use stempack_model::{Error, Result, Warning};

/// The contract of the seed: contiguous little-endian float32 of 128×128 at its one place.
const READER_STRICT: &str = "emd1-contiguous-float32/v1";
/// Everything beyond it.
pub(super) const READER: &str = "emd1-datacube/v1";
/// Where py4DSTEM puts the one datacube of a file.
const PLACE: [&str; 3] = ["datacube_root", "datacube", "data"];
const STRICT_SIDE: u64 = 128;
/// Scan axes of a datacube.
const SCAN_AXES: usize = 2;
const RANK: usize = 4;
/// Groups looked at, and how deep a datacube may stand.
const MAX_GROUPS: usize = 4096;
const MAX_DEPTH: usize = 16;
const METADATA: &str = "metadatabundle";

/// A datacube and where it stands.
pub(super) struct Cube {
    /// The emdfile root above it.
    pub(super) root: String,
    /// Its own group.
    pub(super) group: String,
    dataset: Dataset,
    /// Whether it stands where the seed says.
    usual: bool,
    /// Other arrays of the same rank.
    others: Vec<String>,
}

/// What a link that is not followed is, with its target.
pub(super) fn described(link: &Link) -> String {
    match link {
        Link::Hard => "a hard link".to_owned(),
        Link::Soft(target) => format!("it is a soft link to `{}`, which is not followed", short(target)),
        Link::External { file, path } => format!(
            "it is an external link to `{}` of `{}`, which is not followed",
            short(path),
            short(&String::from_utf8_lossy(file))
        ),
        Link::Unreadable => "it is a link that cannot be read".to_owned(),
    }
}

pub(super) fn open(file: &File, options: &OpenOptions, fingerprints: Fingerprints) -> Result<EmdSource> {
    let cube = find(file)?;
    let index = DatasetIndex::build(file, &cube.dataset)?;
    let place = format!("`{}` of `{}`", index.object(), index.file_name());
    let &[rows, cols, det_rows, det_cols] = index.shape() else {
        return Err(unsupported(file, format!("{place} has {} axes, expected 4", index.shape().len())));
    };
    let labels = file.attribute(&format!("{}/dim{}", cube.group, RANK - 1), "name");
    if labels.as_ref().and_then(Value::text) == Some("_labels_") {
        return Err(unsupported(file, format!("{place} is a labelled stack of arrays, not a datacube")));
    }
    let element = index.element();
    let Some(sample) = sample_type(element) else {
        let message = format!("{place} holds neither integers nor floats of 32 or 64 bits");
        return Err(unsupported(file, message));
    };
    let detector = detector(&index, det_rows, det_cols)?;
    let invalid = || {
        Error::new(SourceCode::InvalidScanShape, format!("{place} has a scan of {rows}×{cols}"))
            .with("path", file.path().display().to_string())
    };
    let frame_count = rows.checked_mul(cols).filter(|&n| n > 0).ok_or_else(invalid)?;
    let recorded = Candidate {
        rows,
        cols,
        evidence: format!("{}:{}", file.name(), index.object()),
        standing: Standing::Inside,
    };
    let decision = scan_shape::decide(frame_count, options.scan, &[recorded])?;

    let strict = cube.usual
        && is_float32_le(element)
        && matches!(index.storage(), Storage::Contiguous(_))
        && (det_rows, det_cols) == (STRICT_SIDE, STRICT_SIDE);
    let names = (format!("EMD 1 · HDF5 {sample}"), if strict { READER_STRICT } else { READER });
    let mut a = acquisition(file, names, frame_count, detector, sample)?;
    a.scan = decision.scan;
    a.warnings = decision.warnings;
    if !cube.others.is_empty() {
        a.warnings.push(Warning {
            code: "other_datacubes",
            message: format!("`{}` also holds {}, which is not read", file.name(), listed(&cube.others)),
        });
    }
    a.provenance.insert("sourceDataset", index.object().to_owned());
    a.provenance.insert("sourceAxisOrder", "scan_row, scan_col, det_row, det_col".to_owned());
    a.signal_unit = cube
        .dataset
        .attribute("units")
        .and_then(|v| v.text().map(|t| t.trim().to_owned()))
        .filter(|t| !t.is_empty() && t != "_None");
    calibration::describe(file, &cube, [rows, cols, det_rows, det_cols], &mut a);
    Ok(EmdSource::new(a, index, SCAN_AXES, fingerprints))
}

fn unsupported(file: &File, message: String) -> Error {
    Error::new(SourceCode::UnsupportedLayout, message).with("path", file.path().display().to_string())
}

/// The array at the usual place, else the only one of rank 4.
fn find(file: &File) -> Result<Cube> {
    let Found::Group(root) = file.find("/")? else {
        return Err(unsupported(file, format!("`{}` has no root group", file.name())));
    };
    let mut search =
        Search { file, seen: Vec::new(), found: Vec::new(), linked: Vec::new(), other_rank: None };
    let usual = usual_place(file, root)?;
    if let Found::Group(root) = file.find("/")? {
        search.group(&root, 0)?;
    }
    let usual_id = usual.as_ref().and_then(Dataset::id);
    let mut found = search.found;
    if let Some(dataset) = usual {
        let others = found.iter().filter(|d| d.id() != usual_id).map(|d| d.path().to_owned()).collect();
        let [root, group, _] = PLACE;
        let (root, group) = (format!("/{root}"), format!("/{root}/{group}"));
        return Ok(Cube { root, group, dataset, usual: true, others });
    }
    if let Some((path, link)) = search.linked.iter().find(|(path, _)| path.ends_with("/data")) {
        return Err(unsupported(file, format!("`{path}` of `{}`: {}", file.name(), described(link))));
    }
    let mut others = Vec::new();
    if found.len() > 1 {
        // Other arrays have rank 4 as well; only a datacube says that it is one.
        let says = |d: &Dataset| {
            let class = file.attribute(parent(d.path()), "python_class");
            class.as_ref().and_then(Value::text) == Some("DataCube")
        };
        let (mut cubes, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(says);
        if cubes.len() == 1 {
            others = rest.iter().map(|d| d.path().to_owned()).collect();
        } else {
            cubes.extend(rest);
        }
        found = cubes;
    }
    match (found.pop(), found.is_empty()) {
        (Some(dataset), true) => {
            let path = dataset.path().to_owned();
            let root = path.split('/').nth(1).map(|r| format!("/{r}")).unwrap_or_default();
            Ok(Cube { root, group: parent(&path).to_owned(), dataset, usual: false, others })
        }
        (Some(last), false) => {
            found.push(last);
            let mut paths: Vec<String> = found.iter().map(|d| d.path().to_owned()).collect();
            paths.sort();
            let message = format!("`{}` holds several datacubes: {}", file.name(), listed(&paths));
            Err(Error::new(SourceCode::AmbiguousSource, message)
                .with("path", file.path().display().to_string())
                .with("candidates", paths))
        }
        (None, _) => Err(unsupported(file, nothing(file, &search.linked, search.other_rank))),
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The first few paths, and how many more there are.
fn listed(paths: &[String]) -> String {
    const MOST: usize = 8;
    let shown: Vec<&str> = paths.iter().take(MOST).map(String::as_str).collect();
    match paths.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// What is said when there is no array of rank 4.
fn nothing(file: &File, linked: &[(String, Link)], other_rank: Option<(String, usize)>) -> String {
    let usual = format!("/{}", PLACE.join("/"));
    let mut message = format!("`{}` holds no datacube: ", file.name());
    message.push_str(&match other_rank {
        Some((path, rank)) if path == usual => format!("`{path}` has {rank} axes, not 4"),
        Some((path, rank)) => format!("`{usual}` is missing, and `{path}` has {rank} axes, not 4"),
        None => format!("`{usual}` is missing"),
    });
    if let Some((path, link)) = linked.first() {
        message.push_str(&format!("; as to `{path}`, {}", described(link)));
    }
    message
}

/// Follows the usual place; a soft or external link on the way is refused by name.
fn usual_place(file: &File, root: Group) -> Result<Option<Dataset>> {
    let mut here = root;
    for (depth, name) in PLACE.iter().enumerate() {
        let last = depth + 1 == PLACE.len();
        match file.link(&here, name) {
            None => return Ok(None),
            Some(Link::Hard) => {}
            Some(link) => {
                let path = format!("/{}", PLACE[..=depth].join("/"));
                let message = format!("`{path}` of `{}`: {}", file.name(), described(&link));
                return Err(unsupported(file, message)
                    .hint("copy the linked object into the file, as a hard link or with its data"));
            }
        }
        match file.child(&here, name)? {
            Found::Group(group) if !last => here = group,
            Found::Dataset(dataset) if last => {
                return Ok(Some(dataset).filter(|d| d.rank() == Some(RANK) || d.is_virtual()));
            }
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// Arrays of rank 4 named `data`, each once.
struct Search<'a> {
    file: &'a File,
    seen: Vec<ObjectId>,
    found: Vec<Dataset>,
    /// Soft and external links on the way.
    linked: Vec<(String, Link)>,
    /// An array of another rank.
    other_rank: Option<(String, usize)>,
}

impl Search<'_> {
    fn group(&mut self, group: &Group, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH || self.seen.len() >= MAX_GROUPS {
            return Ok(());
        }
        match group.id() {
            Some(id) if !self.seen.contains(&id) => self.seen.push(id),
            _ => return Ok(()),
        }
        for (name, link) in self.file.links(group)? {
            // Metadata may hold arrays of any rank, but no datacube.
            if name == METADATA {
                continue;
            }
            if link != Link::Hard {
                if self.linked.len() < MAX_GROUPS {
                    self.linked.push((format!("{}/{name}", group.path().trim_end_matches('/')), link));
                }
                continue;
            }
            match self.file.child(group, &name)? {
                Found::Group(child) => self.group(&child, depth + 1)?,
                // An emdfile root and the group of the array stand above it.
                Found::Dataset(dataset) if name == PLACE[2] && depth >= 2 => self.take(dataset),
                _ => {}
            }
        }
        Ok(())
    }

    fn take(&mut self, dataset: Dataset) {
        match dataset.rank() {
            Some(RANK) => {}
            None if dataset.is_virtual() => {}
            rank => {
                self.other_rank.get_or_insert((dataset.path().to_owned(), rank.unwrap_or(0)));
                return;
            }
        }
        let id = dataset.id();
        if self.found.len() < MAX_GROUPS && !self.found.iter().any(|d| d.id() == id) {
            self.found.push(dataset);
        }
    }
}
