//! A resident: every shard of a pack in memory, still packed, validated and authenticated.

use crate::cpu::Kernel;
use crate::error::EngineCode;
use crate::frames::{Frames, Shards};
use crate::reduce::{self, Part, max_count};
use rayon::prelude::*;
use stempack_codecs::shard::{PackedShard, Profile};
use stempack_containers::Digest;
use stempack_containers::pack::{PackFile, RawAccess};
use stempack_model::{Error, Exclusions, Result, SampleType, Samples, SamplesMut, Shape4, Task};
use stempack_products::{DetectorMask, Moments, PatternSum, Products, SumImage, Sums};

/// An acquisition kept compressed in memory.
#[derive(Debug)]
pub struct Resident {
    profile: Profile,
    frames: Frames,
    shards: Vec<Loaded>,
    /// Largest width of each pixel over all shards.
    max_widths: Vec<u8>,
    raw_access: RawAccess,
    source_identity: Digest,
    kernel: Kernel,
}

#[derive(Debug)]
struct Loaded {
    shard: PackedShard,
    max_widths: Vec<u8>,
}

/// Stored bytes of the largest shard.
pub(crate) fn staged_bytes(pack: &PackFile) -> u64 {
    pack.shards().iter().map(|s| s.lengths_bytes + s.widths_bytes + s.payload_bytes).max().unwrap_or(0)
}

/// Whether a product can be had, by its stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Stable name of the product.
    pub product: &'static str,
    /// `resident-on-demand`: computed from the packed data when asked.
    pub availability: &'static str,
    /// `exactInteger` or `exact-integer-then-float64`.
    pub numerics: &'static str,
}

/// What a resident is and takes.
#[derive(Clone, Debug)]
pub struct ResidentReport {
    /// Bytes of bitstreams, tables and width bounds held in memory.
    pub resident_bytes: u64,
    /// Bytes of the dense raw array.
    pub logical_bytes: u64,
    /// Kernel in use.
    pub kernel: &'static str,
    /// How raw values can be read back.
    pub raw_access: RawAccess,
    /// Content identity of the source.
    pub source_identity: Digest,
    /// Products that can be asked for.
    pub capabilities: Vec<Capability>,
}

impl Resident {
    /// The most memory that loading takes: the shards, and one staged shard per thread, whose stored form is at most
    /// as large as its tables and payload in the file.
    pub fn needed_bytes(pack: &PackFile) -> u64 {
        pack.resident_bytes() + staged_bytes(pack) * rayon::current_num_threads() as u64
    }

    /// Loads and authenticates every shard within the task's memory budget; nothing is returned before all passed.
    ///
    /// # Errors
    /// `resident_over_budget`; those of [`PackFile::load_shard`]; `cancelled`.
    pub fn load(pack: &PackFile, task: &Task) -> Result<Self> {
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
        let shards: Vec<Loaded> = (0..pack.shards().len())
            .into_par_iter()
            .map(|ordinal| {
                task.check()?;
                let loaded = pack.load_shard(ordinal)?;
                task.advance(loaded.shard.resident_bytes());
                Ok(Loaded { shard: loaded.shard, max_widths: loaded.max_widths })
            })
            .collect::<Result<_>>()?;
        task.finish();
        let pixels = pack.shape().detector.pixels();
        let mut max_widths = vec![0; pixels];
        for loaded in &shards {
            max_widths.iter_mut().zip(&loaded.max_widths).for_each(|(m, &w)| *m = (*m).max(w));
        }
        Ok(Resident {
            profile: pack.profile(),
            frames: Frames::of(pack)?,
            shards,
            max_widths,
            raw_access: pack.manifest().raw_access,
            source_identity: pack.source_identity(),
            kernel: Kernel::detect(),
        })
    }

    /// The same resident with another kernel; for tests and benchmarks.
    #[must_use]
    pub fn with_kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }
    /// The encoding it is kept in.
    pub fn profile(&self) -> Profile {
        self.profile
    }
    /// What it is and takes.
    pub fn report(&self) -> ResidentReport {
        let exact =
            |product| Capability { product, availability: "resident-on-demand", numerics: "exactInteger" };
        let ratio = |product| Capability {
            product,
            availability: "resident-on-demand",
            numerics: "exact-integer-then-float64",
        };
        ResidentReport {
            resident_bytes: self
                .shards
                .iter()
                .map(|s| s.shard.resident_bytes() + s.max_widths.len() as u64)
                .sum(),
            logical_bytes: self
                .frames
                .shape
                .samples()
                .unwrap_or(u64::MAX)
                .saturating_mul(self.sample_type().bytes() as u64),
            kernel: self.kernel.name(),
            raw_access: self.raw_access,
            source_identity: self.source_identity,
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

    /// Exact sums of the given pixels at every scan position.
    pub(crate) fn sums(&self, pixels: &[u32], task: &Task) -> Result<Vec<u64>> {
        reduce::virtual_image(self.kernel, &self.parts(), pixels, task)
    }
    /// Payload bytes of each pixel over all shards.
    pub(crate) fn pixel_bytes(&self) -> Vec<u64> {
        let bytes = |p: usize| self.shards.iter().map(|s| s.shard.pixel_bytes(p)).sum();
        (0..self.max_widths.len()).map(bytes).collect()
    }
    /// The largest count that the widths of a pixel allow.
    pub(crate) fn max_count_of(&self, pixel: u32) -> u64 {
        max_count(self.max_widths[pixel as usize])
    }
    /// One entry per detector pixel.
    pub(crate) fn excluded(&self) -> &[bool] {
        &self.frames.excluded
    }

    fn parts(&self) -> Vec<Part<'_>> {
        self.shards.iter().map(|s| Part { shard: &s.shard, max_widths: &s.max_widths }).collect()
    }

    /// The largest admitted count that the widths allow.
    fn max_value(&self) -> u64 {
        let admitted = self.max_widths.iter().zip(&self.frames.excluded).filter(|(_, excluded)| !**excluded);
        admitted.map(|(&w, _)| max_count(w)).max().unwrap_or(0)
    }
}

impl Shards for Resident {
    fn with(&self, ordinal: usize, use_it: &mut dyn FnMut(&PackedShard)) -> Result<()> {
        use_it(&self.shards[ordinal].shard);
        Ok(())
    }
}

impl Products for Resident {
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
        let sums = reduce::virtual_image(self.kernel, &self.parts(), &selected, task)?;
        Ok(SumImage { shape: self.frames.shape.scan, values: Sums::with_bound(sums, bound) })
    }

    fn pattern_sum(&self, task: &Task) -> Result<PatternSum> {
        let positions = self.frames.shape.scan.positions() as u64;
        PatternSum::check_bound(positions, self.max_value())?;
        let pixels = self.frames.shape.detector.pixels();
        let sums = reduce::pattern_sum(&self.parts(), pixels, &self.frames.excluded, task)?;
        Ok(PatternSum { shape: self.frames.shape.detector, sums: sums.into(), positions })
    }

    fn moments(&self, task: &Task) -> Result<Moments> {
        let detector = self.frames.shape.detector;
        Moments::check_bound(detector, self.max_value())?;
        let m =
            reduce::moments(&self.parts(), (detector.rows(), detector.cols()), &self.frames.excluded, task)?;
        Ok(Moments {
            shape: self.frames.shape.scan,
            total: m.total.into(),
            row: m.row.into(),
            col: m.col.into(),
        })
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
