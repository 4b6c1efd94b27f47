//! Sessions: a virtual detector that moves over a resident, its image updated by the pixels that changed.
//!
//! Whichever way an update is made, the sums are those of summing the mask anew, bit for bit: integers, and sums of floats
//! that are exact in two parts, do not drift; where a sum of floats is not, it is made anew.
//! A session owns two maps of sums; the new one becomes the current one only when it is complete.

use crate::maps::{Filling, Map};
use crate::resident::Contents;
use crate::{EngineCode, Resident};
use std::sync::Arc;
use stempack_model::{Error, Result, Task};
use stempack_products::{DetectorMask, Products, SumImage};

/// How an update was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateMode {
    /// All selected pixels were summed.
    Rebase,
    /// Pixels that came were added to the sums before, pixels that went were taken away.
    Delta,
    /// Admitted pixels that are not selected were taken from the total.
    Complement,
    /// The mask is the one before.
    Unchanged,
}

impl UpdateMode {
    /// The name used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            UpdateMode::Rebase => "rebase",
            UpdateMode::Delta => "delta",
            UpdateMode::Complement => "complement",
            UpdateMode::Unchanged => "unchanged",
        }
    }
}

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateReport {
    /// How it was made.
    pub mode: UpdateMode,
    /// Pixels that were read: selected, changed or complementary ones.
    pub processed_pixels: usize,
    /// Bytes that hold their samples.
    pub touched_bytes: u64,
    /// Fourier transforms that were computed: a virtual image needs none.
    pub fft_transforms: u64,
    /// Updates published since the session began, this one included.
    pub generation: u64,
}

/// A virtual detector over one resident.
pub struct DetectorSession {
    resident: Arc<Resident>,
    /// Bytes of each pixel over all shards, what an update costs, and the layout they were taken in.
    pixel_bytes: Vec<u64>,
    layout: &'static str,
    /// What summing all admitted pixels costs.
    admitted_cost: u64,
    current: State,
    /// Sums over all admitted pixels, once somebody asked for them.
    total: Option<Map>,
    /// The map that the next update fills.
    spare: Option<Map>,
    generation: u64,
}

struct State {
    selected: Vec<bool>,
    /// What summing the selected pixels costs.
    cost: u64,
    sums: Map,
}

/// An update that is computed and not yet visible.
pub struct Prepared {
    selected: Vec<bool>,
    cost: u64,
    sums: Option<Map>,
    report: UpdateReport,
}

/// A plan: which pixels are summed, and what happens with the sums.
struct Choice {
    mode: UpdateMode,
    add: Vec<u32>,
    take: Vec<u32>,
    /// What summing the selected pixels would cost.
    anew: u64,
}

impl DetectorSession {
    /// Begins with an empty mask, whose sums are zero.
    pub fn new(resident: Arc<Resident>) -> Self {
        let shape = resident.shape();
        let mut session = DetectorSession {
            pixel_bytes: Vec::new(),
            layout: "",
            admitted_cost: 0,
            current: State {
                selected: vec![false; shape.detector.pixels()],
                cost: 0,
                sums: Map::new(&resident),
            },
            total: None,
            spare: None,
            generation: 0,
            resident,
        };
        session.look_at_costs();
        session
    }
    /// What each pixel costs in the layout that the resident has by now.
    fn look_at_costs(&mut self) {
        let layout = self.resident.layout();
        if layout != self.layout {
            self.pixel_bytes = self.resident.pixel_bytes();
            self.admitted_cost = self.admitted().map(|p| self.cost(p)).sum();
            self.current.cost = of(&self.current.selected).map(|p| self.cost(p)).sum();
            self.layout = layout;
        }
    }
    /// The resident.
    pub fn resident(&self) -> &Arc<Resident> {
        &self.resident
    }
    /// The image of the current mask: of counts u32 when the widths of the selected pixels prove that it fits, else u64;
    /// of floats f64.
    pub fn image(&self) -> SumImage {
        let bound = || match &self.resident.0 {
            Contents::Counts(counts) => {
                of(&self.current.selected).map(|p| u128::from(counts.max_count_of(p))).sum()
            }
            Contents::Floats(_) => 0,
        };
        SumImage { shape: self.resident.shape().scan, values: self.current.sums.values(bound) }
    }
    /// The exact sums of the current mask, row-major over the scan; `None` of floats, whose sums are in
    /// [`image`](Self::image).
    pub fn sums(&self) -> Option<&[u64]> {
        self.current.sums.counts()
    }

    /// Computes the sums over all admitted pixels, after which an update may subtract from them.
    ///
    /// # Errors
    /// `cancelled`.
    pub fn prepare_total(&mut self, task: &Task) -> Result<()> {
        if self.total.is_none() {
            let admitted: Vec<u32> = self.admitted().collect();
            let mut total = Map::new(&self.resident);
            let filling = Filling { before: None, add: &admitted, take: &[], all: &Vec::new };
            total.fill(&self.resident, &filling, task)?;
            self.total = Some(total);
        }
        Ok(())
    }

    /// Moves the detector: afterwards [`image`](Self::image) is that of `mask`. `rebase` sums the mask anew whatever
    /// it costs. After an error everything is as before.
    ///
    /// # Errors
    /// `mask_shape`, `cancelled`.
    pub fn update(&mut self, mask: &DetectorMask, rebase: bool, task: &Task) -> Result<UpdateReport> {
        let prepared = self.prepare(mask, rebase, task)?;
        Ok(self.publish(prepared))
    }

    /// The first half of [`update`](Self::update): nothing becomes visible.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn prepare(&mut self, mask: &DetectorMask, rebase: bool, task: &Task) -> Result<Prepared> {
        task.check()?;
        mask.check_shape(self.resident.shape().detector)?;
        self.look_at_costs();
        let members = mask.members().iter().zip(self.resident.excluded());
        let selected: Vec<bool> = members.map(|(&member, &excluded)| member & !excluded).collect();
        let choice = self.choose(&selected, rebase);
        let mut sums = None;
        if choice.mode != UpdateMode::Unchanged {
            let mut map = self.spare.take().unwrap_or_else(|| Map::new(&self.resident));
            match self.fill(&choice, &selected, &mut map, task) {
                Ok(()) => sums = Some(map),
                Err(error) => {
                    self.spare = Some(map);
                    return Err(error);
                }
            }
        }
        let touched = choice.add.iter().chain(&choice.take);
        let report = UpdateReport {
            mode: choice.mode,
            processed_pixels: choice.add.len() + choice.take.len(),
            touched_bytes: touched.map(|&p| self.pixel_bytes[p as usize]).sum(),
            fft_transforms: 0,
            generation: self.generation + 1,
        };
        Ok(Prepared { selected, cost: choice.anew, sums, report })
    }

    /// The second half of [`update`](Self::update): cannot fail.
    pub fn publish(&mut self, prepared: Prepared) -> UpdateReport {
        self.generation = prepared.report.generation;
        self.current.selected = prepared.selected;
        self.current.cost = prepared.cost;
        if let Some(sums) = prepared.sums {
            self.spare = Some(std::mem::replace(&mut self.current.sums, sums));
        }
        prepared.report
    }

    fn fill(&self, choice: &Choice, selected: &[bool], map: &mut Map, task: &Task) -> Result<()> {
        let before = match choice.mode {
            UpdateMode::Rebase => None,
            UpdateMode::Complement => self.total.as_ref(),
            UpdateMode::Delta | UpdateMode::Unchanged => Some(&self.current.sums),
        };
        let all = || of(selected).collect();
        let filling = Filling { before, add: &choice.add, take: &choice.take, all: &all };
        map.fill(&self.resident, &filling, task)
    }

    fn admitted(&self) -> impl Iterator<Item = u32> + '_ {
        self.resident.excluded().iter().zip(0u32..).filter(|(e, _)| !**e).map(|(_, p)| p)
    }

    /// A pixel without payload still has to be looked at.
    fn cost(&self, pixel: u32) -> u64 {
        self.pixel_bytes[pixel as usize] + 1
    }

    /// The cheapest way by bytes; ties go to the one that forgets the past.
    fn choose(&self, selected: &[bool], rebase: bool) -> Choice {
        let before = &self.current.selected;
        let (mut add, mut take) = (Vec::new(), Vec::new());
        let (mut came, mut gone) = (0, 0);
        // Most of a detector stays as it is, and is passed by in runs.
        const RUN: usize = 64;
        for (run, (now, then)) in selected.chunks(RUN).zip(before.chunks(RUN)).enumerate() {
            if now == then {
                continue;
            }
            for (k, (&now, &then)) in now.iter().zip(then).enumerate() {
                let pixel = (run * RUN + k) as u32;
                match (now, then) {
                    (true, false) => {
                        add.push(pixel);
                        came += self.cost(pixel);
                    }
                    (false, true) => {
                        take.push(pixel);
                        gone += self.cost(pixel);
                    }
                    _ => {}
                }
            }
        }
        let anew = self.current.cost + came - gone;
        let (mode, add, take) = if rebase {
            (UpdateMode::Rebase, of(selected).collect(), Vec::new())
        } else if add.is_empty() && take.is_empty() {
            (UpdateMode::Unchanged, add, take)
        } else if self.total.is_some() && self.admitted_cost - anew < anew.min(came + gone) {
            (UpdateMode::Complement, Vec::new(), self.admitted().filter(|&p| !selected[p as usize]).collect())
        } else if anew < came + gone || self.current.cost == 0 {
            (UpdateMode::Rebase, of(selected).collect(), Vec::new())
        } else {
            (UpdateMode::Delta, add, take)
        };
        Choice { mode, add, take, anew }
    }
}

/// The selected pixels in order.
fn of(selected: &[bool]) -> impl Iterator<Item = u32> + '_ {
    selected.iter().zip(0u32..).filter(|(selected, _)| **selected).map(|(_, pixel)| pixel)
}

/// Sessions that show the same mask on several acquisitions with one kind of detector.
pub struct Series {
    sessions: Vec<DetectorSession>,
}

impl Series {
    /// Sessions of the given residents, in their order.
    ///
    /// # Errors
    /// `series_empty`; `series_twice` when one resident is given twice; `series_detectors` when detectors differ. Scan
    /// shapes may differ.
    pub fn new(residents: Vec<Arc<Resident>>) -> Result<Self> {
        let Some(first) = residents.first() else {
            return Err(Error::new(EngineCode::SeriesEmpty, "a series needs at least one resident"));
        };
        let detector = first.shape().detector;
        for (k, resident) in residents.iter().enumerate() {
            if residents[..k].iter().any(|other| Arc::ptr_eq(other, resident)) {
                return Err(Error::new(
                    EngineCode::SeriesTwice,
                    format!("resident {k} is in the series twice"),
                ));
            }
            if resident.shape().detector != detector {
                return Err(Error::new(
                    EngineCode::SeriesDetectors,
                    format!(
                        "resident {k} has {} pixels, the first has {detector}",
                        resident.shape().detector
                    ),
                ));
            }
        }
        Ok(Series { sessions: residents.into_iter().map(DetectorSession::new).collect() })
    }
    /// The sessions, in the order of the residents.
    pub fn sessions(&self) -> &[DetectorSession] {
        &self.sessions
    }
    /// Bytes of all residents together.
    pub fn resident_bytes(&self) -> u64 {
        self.sessions.iter().map(|s| s.resident.report().resident_bytes).sum()
    }
    /// Updates every session, or none: after an error all show what they showed before.
    ///
    /// # Errors
    /// As [`DetectorSession::update`].
    pub fn update(&mut self, mask: &DetectorMask, rebase: bool, task: &Task) -> Result<Vec<UpdateReport>> {
        let prepared =
            self.sessions.iter_mut().map(|s| s.prepare(mask, rebase, task)).collect::<Result<Vec<_>>>()?;
        Ok(self.sessions.iter_mut().zip(prepared).map(|(s, p)| s.publish(p)).collect())
    }
}
