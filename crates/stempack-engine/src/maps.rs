//! The sums that a session keeps, one for each scan position: of counts they are integers, of floats exact sums in two
//! parts (`floats::map`). Both are made anew or updated with the pixels that come and go.

use crate::counted::Counted;
use crate::floats::{FloatMap, Floats};
use crate::reduce::Change;
use crate::resident::{Contents, Resident};
use stempack_model::{Result, Task};
use stempack_products::{Products, Sums};

/// Sums at every scan position.
pub(crate) enum Map {
    Counts(Vec<u64>),
    Floats(FloatMap),
}

/// How a map is filled.
pub(crate) struct Filling<'a> {
    /// Sums that are gone on from; none for sums that are made anew.
    pub(crate) before: Option<&'a Map>,
    /// Pixels that come.
    pub(crate) add: &'a [u32],
    /// Pixels that go.
    pub(crate) take: &'a [u32],
    /// All pixels whose sums there are in the end, in order.
    pub(crate) all: &'a dyn Fn() -> Vec<u32>,
}

impl Map {
    /// Sums of nothing.
    pub(crate) fn new(resident: &Resident) -> Self {
        match &resident.0 {
            Contents::Counts(counts) => Map::Counts(vec![0; counts.shape().scan.positions()]),
            Contents::Floats(floats) => Map::Floats(floats.empty_map()),
        }
    }
    /// Integer sums; `None` of floats.
    pub(crate) fn counts(&self) -> Option<&[u64]> {
        match self {
            Map::Counts(sums) => Some(sums),
            Map::Floats(_) => None,
        }
    }
    /// What the sums are shown as; `bound` is what no count exceeds.
    pub(crate) fn values(&self, bound: impl FnOnce() -> u128) -> Sums {
        match self {
            Map::Counts(sums) => Sums::with_bound(sums.clone(), bound()),
            Map::Floats(map) => Sums::F64(map.sums().to_vec()),
        }
    }
    /// Replaces the sums. After an error there is nothing to be found here.
    pub(crate) fn fill(&mut self, resident: &Resident, filling: &Filling<'_>, task: &Task) -> Result<()> {
        match (self, &resident.0) {
            (Map::Counts(map), Contents::Counts(counts)) => fill_counts(map, counts, filling, task),
            (Map::Floats(map), Contents::Floats(floats)) => fill_floats(map, floats, filling, task),
            _ => unreachable!("a session's maps are made for its resident"),
        }
    }
}

fn fill_counts(map: &mut [u64], counts: &Counted, filling: &Filling<'_>, task: &Task) -> Result<()> {
    let before = filling.before.and_then(Map::counts);
    counts.sums(Change { before, add: filling.add, take: filling.take }, map, task)
}

fn fill_floats(map: &mut FloatMap, floats: &Floats, filling: &Filling<'_>, task: &Task) -> Result<()> {
    match filling.before {
        Some(Map::Floats(before)) => {
            floats.step(before, filling.add, filling.take, &(filling.all)(), map, task)
        }
        _ => floats.rebase(filling.add, map, task),
    }
}
