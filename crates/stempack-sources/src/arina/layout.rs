//! Links → ordered stacks: which datasets of which files hold the frames.
//!
//! Link names and targets are the master's business, so both are taken as recorded: the target file relative to the
//! master, the target path inside it, in the order of the numbers the names end in. Every link that is, or by its name
//! claims to be, a detector stack is required.

use super::DATA;
use super::order::{names_a_stack, numbered, stem_of};
use crate::OpenOptions;
use crate::error::SourceCode;
use crate::hdf5::{Dataset, DatasetIndex, ElementClass, File, Found, Link, ObjectId};
use crate::identity::{FileId, Fingerprints};
use crate::{refuse, shown};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use stempack_model::{DetectorShape, Error, Result, SampleType, Warning};

/// Largest frame that is read.
const MAX_FRAME_BYTES: u64 = 1 << 30;
/// Most files passed on the way to one stack.
const MAX_FILES: usize = 8;

/// How an acquisition is entered.
#[derive(Debug)]
pub(super) enum Entry {
    /// By its master; `shard` is the data file that was given instead, if one was.
    Master { master: PathBuf, shard: Option<PathBuf> },
    /// Shards in order, without a master.
    Shards(Vec<PathBuf>),
}

impl Entry {
    /// What speaks for this format, for people.
    pub(super) fn why(&self) -> String {
        match self {
            Entry::Master { master, shard: None } => format!("`{}` is its master", shown(master)),
            Entry::Master { master, shard: Some(shard) } => {
                format!("`{}` is a shard beside its master `{}`", shown(shard), shown(master))
            }
            Entry::Shards(shards) => format!("{} shards without a master", shards.len()),
        }
    }
}

/// One detector stack.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) index: DatasetIndex,
    /// How the stack is called in messages: its link, or its path in a shard.
    pub(super) name: String,
    pub(super) frames: u64,
}

/// The stacks of one acquisition, agreeing with each other.
#[derive(Debug)]
pub(super) struct Layout {
    /// The file whose metadata counts: the master, or the first shard.
    pub(super) head: PathBuf,
    /// Whether `head` links stacks of other files.
    pub(super) has_master: bool,
    /// Name of the acquisition, without `_master`.
    pub(super) stem: String,
    pub(super) stacks: Vec<Stack>,
    pub(super) frame_count: u64,
    pub(super) detector: DetectorShape,
    pub(super) sample: SampleType,
    pub(super) warnings: Vec<Warning>,
}

/// A link that was followed to its end.
enum Target {
    Dataset {
        file: File,
        dataset: Dataset,
    },
    /// Not there; the text says what exactly.
    Missing(String),
    /// There, but no dataset.
    NoDataset,
}

/// A stack found under a link.
struct Linked {
    name: String,
    target: Option<(DatasetIndex, FileId, Option<ObjectId>)>,
}

impl Layout {
    pub(super) fn read(
        entry: &Entry,
        options: &OpenOptions,
        fingerprints: &mut Fingerprints,
    ) -> Result<Self> {
        match entry {
            Entry::Master { master, shard } => {
                let mut layout = Self::from_master(master, options, fingerprints)?;
                if let Some(shard) = shard {
                    layout.require_shard(shard, fingerprints)?;
                }
                layout.stem = stem_of(&shown(master)).to_owned();
                Ok(layout)
            }
            Entry::Shards(shards) => Self::from_shards(shards, options, fingerprints),
        }
    }

    fn from_master(master: &Path, options: &OpenOptions, fingerprints: &mut Fingerprints) -> Result<Self> {
        fingerprints.add(master)?;
        let file = File::open(master)?;
        let mut warnings = Vec::new();
        let linked = links(&file, options, fingerprints, &mut warnings)?;
        let stacks = order(&file, linked, &mut warnings)?;
        let has_master = stacks.iter().any(|s| s.index.file() != master);
        Self::agree(master, has_master, stacks, warnings)
    }

    /// A shard that its own master does not link is no member of that acquisition.
    fn require_shard(&self, shard: &Path, fingerprints: &mut Fingerprints) -> Result<()> {
        let given = fingerprints.add(shard)?.id();
        let linked =
            self.stacks.iter().any(|s| fingerprints.get(s.index.file()).is_some_and(|f| f.id() == given));
        if linked {
            return Ok(());
        }
        Err(refuse(
            SourceCode::AmbiguousSource,
            format!("`{}` is not among the files that `{}` links", shown(shard), shown(&self.head)),
            shard,
        )
        .hint("open the master for the acquisition it describes"))
    }

    fn from_shards(
        shards: &[PathBuf],
        options: &OpenOptions,
        fingerprints: &mut Fingerprints,
    ) -> Result<Self> {
        let mut stacks = Vec::new();
        for shard in shards {
            fingerprints.add(shard)?;
            let file = File::open(shard)?;
            let mut found = links(&file, options, fingerprints, &mut Vec::new())?;
            if found.len() > 1 {
                let names: Vec<_> = found.iter().map(|l| format!("`{}`", l.name)).collect();
                return Err(refuse(
                    SourceCode::AmbiguousSource,
                    format!(
                        "`{}` holds several stacks ({}) and no master says which one is meant",
                        file.name(),
                        names.join(", ")
                    ),
                    shard,
                ));
            }
            let Some(Linked { name, target: Some((index, ..)) }) = found.pop() else {
                return Err(no_stack(&file));
            };
            stacks.push(stack(index, format!("{DATA}/{name}"))?);
        }
        let head = shards.first().cloned().unwrap_or_default();
        let warning = Warning {
            code: "no_master",
            message: format!(
                "opened without a master: the {} shards beside each other are taken as the whole acquisition, and its \
                 pixel mask and recorded values are unknown",
                shards.len()
            ),
        };
        let mut layout = Self::agree(&head, false, stacks, vec![warning])?;
        layout.stem =
            super::order::shard_name(&shown(&head)).map_or_else(|| shown(&head), |(s, _)| s.to_owned());
        Ok(layout)
    }

    /// Every stack must have the frames of the first.
    fn agree(head: &Path, has_master: bool, stacks: Vec<Stack>, mut warnings: Vec<Warning>) -> Result<Self> {
        let Some(first) = stacks.first() else {
            return Err(refuse(
                SourceCode::UnsupportedLayout,
                format!("`{}` links no detector stack", shown(head)),
                head,
            ));
        };
        let (detector, sample) = geometry(&first.index)?;
        let mut frame_count = 0u64;
        for stack in &stacks {
            let (other, other_sample) = geometry(&stack.index)?;
            if (other, other_sample) != (detector, sample) {
                return Err(refuse(
                    SourceCode::InconsistentMembers,
                    format!(
                        "`{}` ({}) has {other_sample} frames of {other}, but `{}` ({}) has {sample} frames of {detector}",
                        stack.index.file_name(),
                        stack.name,
                        first.index.file_name(),
                        first.name
                    ),
                    stack.index.file(),
                ));
            }
            frame_count = frame_count
                .checked_add(stack.frames)
                .ok_or_else(|| refuse(SourceCode::TooLarge, "the number of frames wraps", head))?;
        }
        warnings.extend(super::numbering::broken(&stacks)?);
        let stem = String::new();
        Ok(Layout {
            head: head.to_owned(),
            has_master,
            stem,
            stacks,
            frame_count,
            detector,
            sample,
            warnings,
        })
    }
}

fn no_stack(file: &File) -> Error {
    refuse(
        SourceCode::UnsupportedLayout,
        format!("`{}` holds no detector stack (three axes, unsigned integers) in `{DATA}`", file.name()),
        file.path(),
    )
}

/// Every stack that `/entry/data` of a file links, in name order.
fn links(
    file: &File,
    options: &OpenOptions,
    fingerprints: &mut Fingerprints,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Linked>> {
    let Found::Group(group) = file.find(DATA)? else { return Err(no_stack(file)) };
    let all = file.links(&group)?;
    let aliased = |name: &str, target: &str| {
        // A soft link to a neighbour is another name of the same frames, provided that it is not numbered as if it were
        // a stack of its own.
        let neighbour = target.strip_prefix(DATA).and_then(|t| t.strip_prefix('/')).unwrap_or(target);
        numbered(name).1.is_none() && all.iter().any(|(other, _)| other == neighbour && other != name)
    };
    let mut linked = Vec::new();
    let mut missing: Vec<String> = Vec::new();
    let mut missing_names: Vec<String> = Vec::new();
    for (name, link) in &all {
        let must = names_a_stack(name);
        if let Link::Soft(target) = link
            && aliased(name, target)
        {
            continue;
        }
        let place = format!("{DATA}/{name}");
        let target = follow(file, &place, options, fingerprints)?;
        let (holder, dataset) = match target {
            Target::Dataset { file, dataset } => (file, dataset),
            Target::Missing(what) if must || matches!(link, Link::External { .. }) => {
                if let Link::External { file: name, .. } = link {
                    missing_names.push(String::from_utf8_lossy(name).into_owned());
                }
                missing.push(format!("{what} (link `{place}`)"));
                continue;
            }
            Target::NoDataset if must => {
                return Err(refuse(
                    SourceCode::UnsupportedLayout,
                    format!("`{place}` of `{}` is not a dataset", file.name()),
                    file.path(),
                ));
            }
            Target::Missing(_) | Target::NoDataset => continue,
        };
        let id = fingerprints.add(holder.path())?.id();
        if dataset.is_virtual() && must {
            linked.push(Linked { name: name.clone(), target: None });
            continue;
        }
        let unsigned = || dataset.element().is_ok_and(|e| e.class == ElementClass::Unsigned);
        if must || dataset.rank() == Some(3) && unsigned() {
            let index = DatasetIndex::build(&holder, &dataset)?;
            linked.push(Linked { name: name.clone(), target: Some((index, id, dataset.id())) });
        }
    }
    if !missing.is_empty() {
        return Err(refuse(
            SourceCode::MissingMember,
            format!("`{}` links what is not there: {}", file.name(), missing.join(", ")),
            file.path(),
        )
        .with("missing", missing_names)
        .hint("every linked file belongs to the acquisition: copy the missing ones beside the master"));
    }
    skip_virtual(file, linked, warnings)
}

/// A virtual dataset beside the stacks it is made of adds nothing; alone it cannot be read.
fn skip_virtual(file: &File, linked: Vec<Linked>, warnings: &mut Vec<Warning>) -> Result<Vec<Linked>> {
    let stored = linked.iter().any(|l| l.target.is_some());
    let mut kept = Vec::new();
    for one in linked {
        if one.target.is_some() {
            kept.push(one);
        } else if stored && numbered(&one.name).1.is_none() {
            warnings.push(Warning {
                code: "virtual_dataset_ignored",
                message: format!(
                    "`{DATA}/{}` is a virtual dataset; the frames are read from the linked stacks",
                    one.name
                ),
            });
        } else {
            return Err(refuse(
                SourceCode::UnsupportedLayout,
                format!("`{DATA}/{}` of `{}` is a virtual dataset, which is not read", one.name, file.name()),
                file.path(),
            ));
        }
    }
    Ok(kept)
}

/// Follows a link to its dataset, through other files where it leads there.
fn follow(
    file: &File,
    place: &str,
    options: &OpenOptions,
    fingerprints: &mut Fingerprints,
) -> Result<Target> {
    let mut here = file.clone();
    let mut path = place.to_owned();
    for _ in 0..MAX_FILES {
        match here.find(&path)? {
            Found::Dataset(dataset) => return Ok(Target::Dataset { file: here, dataset }),
            Found::Nothing => return Ok(Target::Missing(format!("`{path}` in `{}`", here.name()))),
            Found::Group(_) | Found::Other => return Ok(Target::NoDataset),
            Found::Elsewhere { file: name, path: target } => {
                let shown = String::from_utf8_lossy(&name).into_owned();
                let next = resolve(here.path(), &name, options)
                    .map_err(|e| e.at(format_args!("link `{path}` of `{}`", here.name())))?;
                if !next.is_file() {
                    return Ok(Target::Missing(format!("`{shown}`")));
                }
                fingerprints.add(&next)?;
                here = File::open(&next)?;
                path = target;
            }
        }
    }
    Err(refuse(
        SourceCode::UnreadableHdf5,
        format!("`{place}` of `{}` leads through more than {MAX_FILES} files", file.name()),
        file.path(),
    ))
}

/// The file a recorded name means, relative to the folder of the file that records it and confined to it.
fn resolve(from: &Path, name: &[u8], options: &OpenOptions) -> Result<PathBuf> {
    // HDF5 records a link into the same file as `.`.
    if name == b"." {
        return Ok(from.to_owned());
    }
    let recorded = Path::new(OsStr::from_bytes(name));
    let inside = recorded.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if !(inside || options.allow_outside_links) {
        return Err(refuse(
            SourceCode::OutsideLink,
            format!("`{}` leads outside the folder of its file", recorded.display()),
            from,
        )
        .hint("only files in the same folder or below it are opened unless outside links are allowed"));
    }
    let near = from.parent().unwrap_or(Path::new("")).join(recorded);
    if !near.exists()
        && let Some(real) = crate::real_place(from)
    {
        // The file is a link; what it names lies where it really is.
        let there = real.with_file_name("").join(recorded);
        if there.exists() {
            return Ok(there);
        }
    }
    Ok(near)
}

/// Checks that the stacks are distinct and puts them in numeric order.
fn order(file: &File, linked: Vec<Linked>, warnings: &mut Vec<Warning>) -> Result<Vec<Stack>> {
    let ambiguous = |message: String| Err(refuse(SourceCode::AmbiguousSource, message, file.path()));
    let name = file.name();
    let mut found: Vec<(u64, Stack)> = Vec::new();
    let mut seen: Vec<(FileId, Option<ObjectId>, String)> = Vec::new();
    let mut prefixes: Vec<String> = Vec::new();
    let several = linked.len() > 1;
    for Linked { name: link, target } in linked {
        let Some((index, id, object)) = target else { continue };
        let (prefix, number) = numbered(&link);
        if let Some((.., other)) = seen.iter().find(|(i, o, _)| *i == id && *o == object) {
            return ambiguous(format!(
                "`{name}` links the same stack twice, as `{DATA}/{other}` and `{DATA}/{link}`"
            ));
        }
        seen.push((id, object, link.clone()));
        if several && number.is_none() {
            return ambiguous(format!(
                "`{name}` links several stacks, and `{DATA}/{link}` has no number to order it by"
            ));
        }
        if !prefixes.iter().any(|p| p == prefix) {
            prefixes.push(prefix.to_owned());
        }
        found.push((number.unwrap_or(0), stack(index, format!("{DATA}/{link}"))?));
    }
    if prefixes.len() > 1 {
        return ambiguous(format!(
            "`{name}` links stacks of different names in `{DATA}`: {}",
            prefixes.join(", ")
        ));
    }
    found.sort_by_key(|&(number, _)| number);
    for pair in found.windows(2) {
        if pair[0].0 == pair[1].0 {
            return ambiguous(format!(
                "`{}` and `{}` of `{name}` have the same number",
                pair[0].1.name, pair[1].1.name
            ));
        }
        if pair[0].0 + 1 != pair[1].0 {
            warnings.push(Warning {
                code: "link_numbers_skip",
                message: format!(
                    "`{name}` links nothing between `{}` and `{}`",
                    pair[0].1.name, pair[1].1.name
                ),
            });
        }
    }
    Ok(found.into_iter().map(|(_, stack)| stack).collect())
}

/// Three axes of unsigned integers, none of them empty.
fn stack(index: DatasetIndex, name: String) -> Result<Stack> {
    geometry(&index)?;
    let frames = index.shape().first().copied().unwrap_or(0);
    Ok(Stack { index, name, frames })
}

fn geometry(index: &DatasetIndex) -> Result<(DetectorShape, SampleType)> {
    let refused = |code, message: String| {
        Err(refuse(code, format!("`{}` of `{}` {message}", index.object(), index.file_name()), index.file()))
    };
    let element = index.element();
    let sample = match (element.class, element.bytes) {
        (ElementClass::Unsigned, 1) => SampleType::U8,
        (ElementClass::Unsigned, 2) => SampleType::U16,
        (ElementClass::Unsigned, 4) => SampleType::U32,
        (class, bytes) => {
            let class = match class {
                ElementClass::Unsigned => "unsigned",
                ElementClass::Signed => "signed",
                ElementClass::Float => "floating-point",
                ElementClass::Other => "other",
            };
            return refused(
                SourceCode::UnsupportedLayout,
                format!(
                    "has {class} elements of {bytes} bytes; read are unsigned integers of 1, 2 and 4 bytes"
                ),
            );
        }
    };
    let &[frames, rows, cols] = index.shape() else {
        return refused(SourceCode::UnsupportedLayout, format!("has {} axes, not 3", index.shape().len()));
    };
    if frames == 0 || rows == 0 || cols == 0 {
        return refused(SourceCode::UnsupportedLayout, format!("is empty ({frames} × {rows} × {cols})"));
    }
    if rows
        .checked_mul(cols)
        .and_then(|n| n.checked_mul(element.bytes as u64))
        .is_none_or(|n| n > MAX_FRAME_BYTES)
    {
        return refused(
            SourceCode::TooLarge,
            format!("has frames of {rows} × {cols}, more than {MAX_FRAME_BYTES} bytes"),
        );
    }
    Ok((DetectorShape::new(rows, cols)?, sample))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_names_are_confined_to_the_folder() {
        let from = Path::new("/a/b/run_master.h5");
        let strict = OpenOptions::default();
        let open = OpenOptions { allow_outside_links: true, ..strict };
        assert_eq!(
            resolve(from, b"run_data_000001.h5", &strict).unwrap(),
            Path::new("/a/b/run_data_000001.h5")
        );
        assert_eq!(resolve(from, b"./sub/x.h5", &strict).unwrap(), Path::new("/a/b/./sub/x.h5"));
        assert_eq!(resolve(from, b".", &strict).unwrap(), from);
        for outside in [&b"/etc/x.h5"[..], b"../x.h5", b"sub/../../x.h5"] {
            assert_eq!(resolve(from, outside, &strict).unwrap_err().code(), "outside_link");
            resolve(from, outside, &open).unwrap();
        }
        assert_eq!(resolve(from, b"\xff.h5", &strict).unwrap().as_os_str().as_bytes(), b"/a/b/\xff.h5");
    }
}
