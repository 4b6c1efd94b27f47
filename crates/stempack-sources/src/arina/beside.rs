//! What lies beside the data by its name: the NXem companion and the side file. Whether they belong is decided by their
//! dimensions, elsewhere.

use super::{Layout, order};
use crate::hdf5::File;
use crate::identity::Fingerprints;
use crate::nxem::{self, Nxem};
use crate::stem_sidecar::{self, SideFile};
use std::path::{Path, PathBuf};
use stempack_model::Result;

/// The NXem companion, as far as there is one.
pub(super) enum Companion {
    Absent,
    Unusable { path: PathBuf, name: String, why: String },
    Read { path: PathBuf, name: String, block: Box<Nxem> },
}

/// What lies beside the data.
pub(super) struct Beside {
    pub(super) companion: Companion,
    pub(super) side_file: Option<(PathBuf, String, SideFile)>,
}

impl Beside {
    pub(super) fn read(layout: &Layout, fingerprints: &mut Fingerprints) -> Result<Self> {
        let mut companion = Companion::Absent;
        // Only the companion of exactly this master is ever considered.
        let is_master = |path: &Path| crate::shown(path).ends_with(super::MASTER);
        let considered =
            is_master(&layout.head) || crate::real_place(&layout.head).is_some_and(|real| is_master(&real));
        if considered && let Some(path) = named(layout, order::companion_name) {
            let name = crate::shown(&path);
            fingerprints.add(&path)?;
            companion = match File::open(&path) {
                Err(e) => Companion::Unusable { path, name, why: e.message().to_owned() },
                Ok(file) => match nxem::read(&file) {
                    Some(block) => Companion::Read { path, name, block: Box::new(block) },
                    None => {
                        let why = "it holds no `/electron_microscope`".to_owned();
                        Companion::Unusable { path, name, why }
                    }
                },
            };
        }
        let mut side_file = None;
        if let Some(path) = named(layout, |stem| format!("{stem}.h5")).filter(|p| *p != layout.head)
            && let Ok(file) = File::open(&path)
            && let Some(side) = stem_sidecar::read(&file)
        {
            fingerprints.add(&path)?;
            side_file = Some((path, file.name().to_owned(), side));
        }
        Ok(Beside { companion, side_file })
    }

    /// The files that were looked at.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let companion = match &self.companion {
            Companion::Absent => None,
            Companion::Unusable { path, .. } | Companion::Read { path, .. } => Some(path),
        };
        companion.into_iter().chain(self.side_file.iter().map(|(path, ..)| path))
    }
}

/// A file in the folder of the head, named after its stem; or, when the head is a link, where it really lies.
fn named(layout: &Layout, name: impl Fn(&str) -> String) -> Option<PathBuf> {
    let near = layout.head.with_file_name(name(&layout.stem));
    if near.is_file() {
        return Some(near);
    }
    let real = crate::real_place(&layout.head)?;
    let there = real.with_file_name(name(order::stem_of(&crate::shown(&real))));
    there.is_file().then_some(there)
}
