//! A pack read shard by shard: the answers of a resident with one shard in memory at a time.

use crate::cpu::Kernel;
use crate::error::EngineCode;
use crate::frames::{Frames, Shards};
use crate::held::Held;
use crate::reduce::{self, Change, max_count};
use crate::selected::{self, Chosen};
use std::sync::{Arc, Mutex, PoisonError};
use stempack_codecs::counts::Counts;
use stempack_containers::pack::PackFile;
use stempack_model::{Error, Exclusions, Result, SampleType, Samples, SamplesMut, Shape4, Task};
use stempack_products::{
    DetectorMask, IMAGE_BYTES, MOMENT_BYTES, Moments, PatternSum, Products, ScanSelection, SumImage, Sums,
    room_for_results,
};

/// Loads and authenticates the shard that a question needs, and keeps the last one.
#[derive(Debug)]
pub struct ShardReader {
    pack: Arc<PackFile>,
    frames: Frames,
    last: Mutex<Option<(usize, Arc<Held>)>>,
}

impl ShardReader {
    /// A reader of `pack`, if the task's memory budget holds its largest shard.
    ///
    /// # Errors
    /// `resident_over_budget`.
    pub fn new(pack: Arc<PackFile>, task: &Task) -> Result<Self> {
        let needed = pack.shard_bytes();
        if needed > task.memory_budget() {
            return Err(Error::new(
                EngineCode::OverBudget,
                format!(
                    "one shard takes up to {needed} bytes of memory, the budget is {}",
                    task.memory_budget()
                ),
            )
            .hint("allow more with --max-memory")
            .with("needed_bytes", needed));
        }
        Ok(ShardReader { frames: Frames::of(&pack)?, pack, last: Mutex::new(None) })
    }

    fn shard(&self, ordinal: usize) -> Result<Arc<Held>> {
        // A panic elsewhere leaves the slot as valid as before.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((held, shard)) = last.as_ref()
            && *held == ordinal
        {
            return Ok(shard.clone());
        }
        // The old shard goes before the new one comes.
        *last = None;
        let shard = Arc::new(Held::from(self.pack.load_shard(ordinal)?));
        *last = Some((ordinal, shard.clone()));
        Ok(shard)
    }

    fn each_shard(
        &self,
        phase: &str,
        task: &Task,
        mut reduce: impl FnMut(Arc<Held>) -> Result<()>,
    ) -> Result<()> {
        task.begin(phase, self.pack.resident_bytes());
        for ordinal in 0..self.pack.shards().len() {
            task.check()?;
            let held = self.shard(ordinal)?;
            let bytes = held.resident_bytes();
            reduce(held)?;
            task.advance(bytes);
        }
        task.finish();
        Ok(())
    }

    /// The largest count the working type can hold.
    fn max_value(&self) -> u64 {
        self.frames.working.sample_type().max_unsigned().unwrap_or(u64::MAX)
    }
}

impl Shards for ShardReader {
    fn with(&self, ordinal: usize, use_it: &mut dyn FnMut(&Held)) -> Result<()> {
        use_it(&*self.shard(ordinal)?);
        Ok(())
    }
}

impl Products for ShardReader {
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

    fn virtual_image(&self, mask: &DetectorMask, task: &Task) -> Result<SumImage> {
        mask.check_shape(self.frames.shape.detector)?;
        room_for_results(self.frames.shape, IMAGE_BYTES, task)?;
        let selected: Vec<u32> =
            mask.selected().iter().copied().filter(|&p| !self.frames.excluded[p as usize]).collect();
        let mut widths = vec![0u8; selected.len()];
        let mut sums = Vec::with_capacity(self.frames.shape.scan.positions());
        let kernel = Kernel::detect();
        self.each_shard("virtual image", task, |held| {
            widths.iter_mut().zip(&selected).for_each(|(w, &p)| *w = (*w).max(held.max_widths[p as usize]));
            let first = sums.len();
            sums.resize(first + held.scans(), 0);
            reduce::virtual_image(kernel, &[held], Change::anew(&selected), &mut sums[first..], task)
        })?;
        let bound = widths.iter().map(|&w| u128::from(max_count(w))).sum();
        Ok(SumImage { shape: self.frames.shape.scan, values: Sums::with_bound(sums, bound) })
    }

    fn pattern_sum(&self, task: &Task) -> Result<PatternSum> {
        let positions = self.frames.shape.scan.positions() as u64;
        PatternSum::check_bound(positions, self.max_value())?;
        let mut sums = vec![0u64; self.frames.shape.detector.pixels()];
        self.each_shard("pattern sum", task, |held| {
            let shard = reduce::pattern_sum(Kernel::detect(), &[held], &self.frames.excluded, task)?;
            sums.iter_mut().zip(shard).for_each(|(a, b)| *a += b);
            Ok(())
        })?;
        Ok(PatternSum { shape: self.frames.shape.detector, sums: sums.into(), positions })
    }

    fn moments(&self, task: &Task) -> Result<Moments> {
        let detector = self.frames.shape.detector;
        Moments::check_bound(detector, self.max_value())?;
        room_for_results(self.frames.shape, MOMENT_BYTES, task)?;
        let mut m = reduce::ScanMoments::default();
        self.each_shard("moments", task, |held| {
            let size = (detector.rows(), detector.cols());
            m.extend(reduce::moments(Kernel::detect(), &[held], size, &self.frames.excluded, task)?);
            Ok(())
        })?;
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
        let (each, all) = (self.pack.scans_per_shard() as u64, shape.scan.positions() as u64);
        let mut sums = vec![0u64; shape.detector.pixels()];
        task.begin("sum of frames", self.pack.resident_bytes());
        for (ordinal, record) in self.pack.shards().iter().enumerate() {
            task.check()?;
            let first = ordinal as u64 * each;
            let scans = first..(first + each).min(all);
            // Shards without a chosen position are neither read nor authenticated.
            if selection.runs().iter().any(|run| run.start < scans.end && run.end > scans.start) {
                let held = self.shard(ordinal)?;
                if let Some(chosen) = Chosen::in_shard(selection, scans) {
                    selected::add(Kernel::detect(), &held, &chosen, &self.frames.excluded, &mut sums, task)?;
                }
            }
            task.advance(record.decoded_bytes);
        }
        task.finish();
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
