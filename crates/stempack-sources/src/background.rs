//! Whether a supplier's README says that a background was already subtracted: a few exact forms, no reading between
//! lines.
//!
//! A heading without indentation names a file or folder below the README; an indented sentence below it speaks of that.
//! Whatever is doubtful, negated or contradictory leaves the answer unknown. The statement proves neither a gain
//! calibration nor that samples are electrons, and it unlocks nothing.

use crate::error::SourceCode;
use crate::identity::{Fingerprint, Fingerprints};
use crate::{refuse, shown};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use stempack_model::{Acquisition, BackgroundSubtraction, Member, MemberRole, Result};

/// The folder of the data and five above it.
const MOST_FOLDERS: usize = 6;
/// Above the data, folders whose path has no more parts than this, the root counted, are not looked into: they belong to
/// a person or to the system, not to a data set.
const SHORTEST: usize = 3;
const NAMES: [&str; 5] = ["readme.txt", "README.txt", "README.md", "readme.md", "README"];
/// Largest README that is read.
const MAX_BYTES: u64 = 65_536;
/// Most lines whose heading is looked up in the file system.
const MOST_HEADINGS: usize = 2_000;
/// Words that leave a statement open.
const DOUBT: [&str; 13] = [
    "not",
    "no",
    "never",
    "uncorrected",
    "unsure",
    "unknown",
    "whether",
    "if",
    "may",
    "might",
    "possibly",
    "maybe",
    "unless",
];
const STATEMENTS: [&str; 2] = ["already background subtracted", "already background corrected"];

/// What READMEs say, and the one that said it.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// The answer.
    pub(crate) background: BackgroundSubtraction,
    readme: Option<(PathBuf, Fingerprint)>,
}

impl Evidence {
    /// Puts the answer into an acquisition. The README becomes a companion and part of the snapshot, so that editing it
    /// changes the source.
    ///
    /// # Errors
    /// `source_changed` when it was edited since it was read; `io`.
    pub(crate) fn attach(self, acquisition: &mut Acquisition, fingerprints: &mut Fingerprints) -> Result<()> {
        acquisition.background = self.background;
        let Some((path, taken)) = self.readme else { return Ok(()) };
        let now = fingerprints.add(&path)?;
        if now != taken {
            let message = format!("`{}` changed while it was read", shown(&path));
            return Err(refuse(SourceCode::SourceChanged, message, &path));
        }
        acquisition.members.push(Member { path, role: MemberRole::Companion, bytes: now.bytes() });
        Ok(())
    }
}

/// What the READMEs around `data` say about it or about `others`, the further files of the same acquisition.
///
/// A README that cannot be read says nothing.
pub(crate) fn evidence(data: &Path, others: &[&Path]) -> Evidence {
    let Ok(real) = data.canonicalize() else { return Evidence::default() };
    let mut subjects = vec![real.clone()];
    subjects.extend(others.iter().filter_map(|p| p.canonicalize().ok()));
    let mut nearest = Evidence::default();
    for (level, folder) in real.ancestors().skip(1).take(MOST_FOLDERS).enumerate() {
        // The folder of the data itself was named by whoever opened it.
        if level > 0 && folder.components().count() <= SHORTEST {
            break;
        }
        for name in NAMES {
            let path = folder.join(name);
            let Some((text, taken)) = read(&path) else { continue };
            match says(&text, folder, &subjects) {
                // One doubt anywhere and nothing is known.
                Said::Doubt => return Evidence::default(),
                Said::Subtracted(sentence) if nearest.readme.is_none() => {
                    let file = name.to_owned();
                    nearest.background = BackgroundSubtraction::AlreadySubtracted { file, sentence };
                    nearest.readme = Some((path, taken));
                }
                Said::Subtracted(_) | Said::Nothing => {}
            }
        }
    }
    nearest
}

/// A small UTF-8 text that did not change while it was read.
fn read(path: &Path) -> Option<(String, Fingerprint)> {
    if !path.is_file() {
        return None;
    }
    let before = Fingerprint::of(path).ok().filter(|f| f.bytes() <= MAX_BYTES)?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let same = bytes.len() as u64 == before.bytes() && Fingerprint::of(path).ok()? == before;
    Some((String::from_utf8(bytes).ok().filter(|_| same)?, before))
}

#[derive(Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Subtracted(String),
    Doubt,
}

/// What one README says about any of `subjects`; all paths are real ones.
fn says(text: &str, folder: &Path, subjects: &[PathBuf]) -> Said {
    let mut said = Said::Nothing;
    let mut applies = false;
    let mut headings = 0;
    for line in text.trim_start_matches('\u{feff}').lines().filter(|l| !l.trim().is_empty()) {
        if !line.starts_with(char::is_whitespace) {
            headings += 1;
            applies = headings <= MOST_HEADINGS && heading(line, folder, subjects);
            continue;
        }
        if !applies {
            continue;
        }
        for clause in line.split(['.', ';', '!', '?']) {
            let plain = clause.to_lowercase().replace('-', " ");
            let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
            if !(plain.contains("background subtract") || plain.contains("background correct")) {
                continue;
            }
            if plain.split(|c: char| !c.is_alphanumeric()).any(|word| DOUBT.contains(&word)) {
                return Said::Doubt;
            }
            if STATEMENTS.contains(&plain.as_str()) {
                said = Said::Subtracted(clause.trim().to_owned());
            }
        }
    }
    said
}

/// Whether a line names one of the subjects or a folder that contains one, below the README's own folder.
fn heading(line: &str, folder: &Path, subjects: &[PathBuf]) -> bool {
    let line = line.trim().replace('\\', "/");
    let relative = Path::new(&line);
    let plain = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::CurDir);
    if line.is_empty() || line.contains('\0') || !relative.components().all(plain) {
        return false;
    }
    let Ok(named) = folder.join(relative).canonicalize() else { return false };
    // A link must not lead out of the folder that the README speaks for, nor to the folder itself.
    named != folder && named.starts_with(folder) && subjects.iter().any(|s| s.starts_with(&named))
}
