//! A resident of counts: every shard of an acquisition in memory, compressed in one of two forms (see `held`).

use crate::cpu::Kernel;
use crate::error::EngineCode;
use crate::frames::{Frames, Shards};
use crate::held::{Form, Held, check_unchanged};
use crate::reduce::{self, Change, max_count};
use crate::resident::{Capability, ResidentReport};
use crate::selected::{self, Chosen};
use rayon::prelude::*;
use std::sync::{Arc, PoisonError, RwLock};
use stempack_codecs::counts::Counts;
use stempack_codecs::shard::Profile;
use stempack_containers::Digest;
use stempack_containers::pack::{LoadedShard, MappedPack, PackFile, RawAccess};
use stempack_model::{Error, Exclusions, Result, SampleType, Samples, SamplesMut, Shape4, Task};
use stempack_products::{DetectorMask, Moments, PatternSum, Products, ScanSelection, SumImage, Sums};

/// Counts kept compressed in memory.
#[derive(Debug)]
pub(crate) struct Counted {
    frames: Frames,
    /// Replaced one by one when the resident is arranged; whoever reads holds on to what it began with.
    shards: Vec<RwLock<Arc<Held>>>,
    /// Largest width of each pixel over all shards.
    max_widths: Vec<u8>,
    raw_access: RawAccess,
    source_identity: Option<Digest>,
    kernel: Kernel,
}

/// Shards that a thread loads at once, which is quicker where it only reads and hashes them: two, unless other threads would
/// have nothing to do.
fn together(pack: &PackFile) -> usize {
    let many = pack.shards().len() >= 2 * rayon::current_num_threads();
    if many && pack.profile() == Profile::U8 { 2 } else { 1 }
}

impl Counted {
    /// See [`Resident::needed_bytes`](crate::Resident::needed_bytes).
    pub(crate) fn needed_bytes(pack: &PackFile) -> u64 {
        pack.resident_bytes() + pack.staged_bytes() * rayon::current_num_threads() as u64
    }

    /// See [`Resident::load`](crate::Resident::load).
    pub(crate) fn load(pack: &PackFile, task: &Task) -> Result<Self> {
        Self::load_by(pack, task, |ordinals| pack.load_shards(ordinals, task), Held::from)
    }

    /// See [`Resident::load_mapped`](crate::Resident::load_mapped).
    pub(crate) fn load_mapped(map: &Arc<MappedPack>, task: &Task) -> Result<Self> {
        let load = |ordinals: &[usize]| map.load_shards(ordinals, task);
        let loaded = Self::load_by(map.pack(), task, load, |shard| Held::mapped(shard, map))?;
        map.check_unchanged()?;
        Ok(loaded)
    }

    fn load_by(
        pack: &PackFile,
        task: &Task,
        load: impl Fn(&[usize]) -> Result<Vec<LoadedShard>> + Sync,
        hold: impl Fn(LoadedShard) -> Held + Sync,
    ) -> Result<Self> {
        let needed = Self::needed_bytes(pack);
        if needed > task.memory_budget() {
            return Err(Error::new(
                EngineCode::OverBudget,
                format!(
                    "loading takes up to {needed} bytes of memory, the budget is {}",
                    task.memory_budget()
                ),
            )
            .hint("allow more with --max-memory")
            .with("needed_bytes", needed));
        }
        task.begin("load", pack.resident_bytes());
        let ordinals: Vec<usize> = (0..pack.shards().len()).collect();
        let shards = ordinals
            .par_chunks(together(pack))
            .map(|ordinals| {
                task.check()?;
                let held: Vec<Held> = load(ordinals)?.into_iter().map(&hold).collect();
                task.advance(held.iter().map(Held::resident_bytes).sum());
                Ok(held)
            })
            .collect::<Result<Vec<_>>>()?;
        let shards = shards.into_iter().flatten().collect();
        task.finish();
        Ok(Self::of(Frames::of(pack)?, shards, pack.manifest().raw_access, Some(pack.source_identity())))
    }

    pub(crate) fn of(
        frames: Frames,
        shards: Vec<Held>,
        raw_access: RawAccess,
        source_identity: Option<Digest>,
    ) -> Self {
        let mut max_widths = vec![0; frames.excluded.len()];
        for held in &shards {
            max_widths.iter_mut().zip(&held.max_widths).for_each(|(m, &w)| *m = (*m).max(w));
        }
        let shards = shards.into_iter().map(|held| RwLock::new(Arc::new(held))).collect();
        let kernel = Kernel::detect();
        Counted { frames, shards, max_widths, raw_access, source_identity, kernel }
    }

    /// See [`Resident::arrange`](crate::Resident::arrange).
    pub(crate) fn arrange(&self, task: &Task) -> Result<()> {
        let bytes =
            |held: &Held| if matches!(held.form, Form::Packed(_)) { held.resident_bytes() } else { 0 };
        task.begin("arrange", self.held().iter().map(|held| bytes(held)).sum());
        for slot in &self.shards {
            task.check()?;
            let held = read(slot);
            let needed = self.resident_bytes() + held.arranged_bound();
            if needed > task.memory_budget() {
                return Err(Error::new(
                    EngineCode::OverBudget,
                    format!(
                        "arranging the next shard takes up to {needed} bytes of memory, the budget is {}",
                        task.memory_budget()
                    ),
                )
                .hint("allow more with --max-memory")
                .with("needed_bytes", needed));
            }
            if let Some(arranged) = held.arranged(task)? {
                *slot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(arranged);
            }
            task.advance(bytes(&held));
        }
        task.finish();
        Ok(())
    }

    pub(crate) fn with_kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }
    pub(crate) fn report(&self) -> ResidentReport {
        let exact =
            |product| Capability { product, availability: "resident-on-demand", numerics: "exactInteger" };
        let ratio = |product| Capability {
            product,
            availability: "resident-on-demand",
            numerics: "exact-integer-then-float64",
        };
        ResidentReport {
            resident_bytes: self.resident_bytes(),
            mapped_bytes: self.held().iter().map(|held| held.mapped_bytes()).sum(),
            layout: self.layout(),
            logical_bytes: self
                .frames
                .shape
                .samples()
                .unwrap_or(u64::MAX)
                .saturating_mul(self.sample_type().bytes() as u64),
            kernel: self.kernel.name(),
            raw_access: self.raw_access,
            source_identity: self.source_identity,
            background: None,
            capabilities: vec![
                exact("diffraction-pattern"),
                exact("bright-field"),
                exact("annular-bright-field"),
                exact("annular-dark-field"),
                exact("total"),
                ratio("mean-diffraction-pattern"),
                ratio("center-of-mass"),
            ],
        }
    }

    /// Fills `out` with what a change makes of the exact sums at every scan position.
    pub(crate) fn sums(&self, change: Change<'_>, out: &mut [u64], task: &Task) -> Result<()> {
        let held = self.held();
        reduce::virtual_image(self.kernel, &held, change, out, task)?;
        check_unchanged(&held)
    }
    /// Bytes that hold the counts of each pixel, all shards together.
    pub(crate) fn pixel_bytes(&self) -> Vec<u64> {
        let held = self.held();
        (0..self.max_widths.len()).map(|p| held.iter().map(|s| s.pixel_bytes(p)).sum()).collect()
    }
    /// `packed`, `bit-planes` or `mixed`.
    pub(crate) fn layout(&self) -> &'static str {
        let held = self.held();
        match held.iter().filter(|h| matches!(h.form, Form::Arranged(_))).count() {
            0 => "packed",
            n if n == held.len() => "bit-planes",
            _ => "mixed",
        }
    }
    fn resident_bytes(&self) -> u64 {
        self.held().iter().map(|held| held.resident_bytes()).sum()
    }
    /// The largest count that the widths of a pixel allow.
    pub(crate) fn max_count_of(&self, pixel: u32) -> u64 {
        max_count(self.max_widths[pixel as usize])
    }
    /// One entry per detector pixel.
    pub(crate) fn excluded(&self) -> &[bool] {
        &self.frames.excluded
    }

    fn held(&self) -> Vec<Arc<Held>> {
        self.shards.iter().map(read).collect()
    }

    /// The largest admitted count that the widths allow.
    fn max_value(&self) -> u64 {
        let admitted = self.max_widths.iter().zip(&self.frames.excluded).filter(|(_, excluded)| !**excluded);
        admitted.map(|(&w, _)| max_count(w)).max().unwrap_or(0)
    }
}

fn read(slot: &RwLock<Arc<Held>>) -> Arc<Held> {
    slot.read().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Shards for Counted {
    fn with(&self, ordinal: usize, use_it: &mut dyn FnMut(&Held)) -> Result<()> {
        let held = read(&self.shards[ordinal]);
        use_it(&held);
        check_unchanged(&[held])
    }
}

impl Products for Counted {
    fn shape(&self) -> Shape4 {
        self.frames.shape
    }
    fn exclusions(&self) -> &Exclusions {
        &self.frames.exclusions
    }
    fn sample_type(&self) -> SampleType {
        self.frames.raw_type()
    }
    fn working_type(&self) -> SampleType {
        self.frames.working.sample_type()
    }

    /// The sum is u32 when the widths of the selected pixels prove that it fits, else u64.
    fn virtual_image(&self, mask: &DetectorMask, task: &Task) -> Result<SumImage> {
        mask.check_shape(self.frames.shape.detector)?;
        let selected: Vec<u32> =
            mask.selected().iter().copied().filter(|&p| !self.frames.excluded[p as usize]).collect();
        let bound: u128 = selected.iter().map(|&p| u128::from(max_count(self.max_widths[p as usize]))).sum();
        let mut sums = vec![0; self.frames.shape.scan.positions()];
        self.sums(Change::anew(&selected), &mut sums, task)?;
        Ok(SumImage { shape: self.frames.shape.scan, values: Sums::with_bound(sums, bound) })
    }

    fn pattern_sum(&self, task: &Task) -> Result<PatternSum> {
        let positions = self.frames.shape.scan.positions() as u64;
        PatternSum::check_bound(positions, self.max_value())?;
        let held = self.held();
        let sums = reduce::pattern_sum(self.kernel, &held, &self.frames.excluded, task)?;
        check_unchanged(&held)?;
        Ok(PatternSum { shape: self.frames.shape.detector, sums: sums.into(), positions })
    }

    fn moments(&self, task: &Task) -> Result<Moments> {
        let detector = self.frames.shape.detector;
        Moments::check_bound(detector, self.max_value())?;
        let size = (detector.rows(), detector.cols());
        let held = self.held();
        let m = reduce::moments(self.kernel, &held, size, &self.frames.excluded, task)?;
        check_unchanged(&held)?;
        Ok(Moments {
            shape: self.frames.shape.scan,
            total: m.total.into(),
            row: m.row.into(),
            col: m.col.into(),
        })
    }

    fn selection_sum(&self, selection: &ScanSelection, task: &Task) -> Result<PatternSum> {
        let shape = self.frames.shape;
        selection.check_scan(shape.scan)?;
        PatternSum::check_bound(selection.positions(), self.max_value())?;
        let mut sums = vec![0u64; shape.detector.pixels()];
        let mut first = 0;
        let all = self.held();
        for held in &all {
            let scans = first..first + held.scans() as u64;
            first = scans.end;
            if let Some(chosen) = Chosen::in_shard(selection, scans) {
                selected::add(self.kernel, held, &chosen, &self.frames.excluded, &mut sums, task)?;
            }
        }
        check_unchanged(&all)?;
        Ok(PatternSum { shape: shape.detector, sums: sums.into(), positions: selection.positions() })
    }

    fn working_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.frames.frame(&self.frames.working, (row, col), self)
    }
    fn raw_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.frames.frame(self.frames.raw()?, (row, col), self)
    }
    fn raw_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.frames.positions(self.frames.raw()?, first, into, task, self)
    }
    fn working_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.frames.positions(&self.frames.working, first, into, task, self)
    }
}
