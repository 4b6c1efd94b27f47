//! A resident: every shard of a pack in memory, still packed, validated and authenticated.

use crate::cpu::Kernel;
use crate::error::EngineCode;
use crate::reduce::{self, Part, max_count};
use rayon::prelude::*;
use stempack_codecs::shard::{PackedShard, Profile};
use stempack_containers::Digest;
use stempack_containers::pack::{FrameDecoder, FrameKind, PackFile, RawAccess};
use stempack_model::{Error, Exclusions, Result, SampleType, Samples, SamplesMut, Shape4, Task};
use stempack_products::{DetectorMask, Moments, PatternSum, Products, SumImage, Sums};

/// An acquisition kept compressed in memory.
#[derive(Debug)]
pub struct Resident {
    profile: Profile,
    shape: Shape4,
    exclusions: Exclusions,
    /// One entry per detector pixel.
    excluded: Vec<bool>,
    scans_per_shard: usize,
    shards: Vec<Loaded>,
    /// Largest width of each pixel over all shards.
    max_widths: Vec<u8>,
    working: FrameDecoder,
    raw: std::result::Result<FrameDecoder, (&'static str, String)>,
    raw_access: RawAccess,
    source_identity: Digest,
    kernel: Kernel,
}

#[derive(Debug)]
struct Loaded {
    shard: PackedShard,
    max_widths: Vec<u8>,
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
    /// Loads and authenticates every shard within the task's memory budget; nothing is returned before all passed.
    ///
    /// # Errors
    /// `resident_over_budget`; those of [`PackFile::load_shard`]; `cancelled`.
    pub fn load(pack: &PackFile, task: &Task) -> Result<Self> {
        // Besides the shards: one staged shard per thread, whose stored form is at most as large as its bitstream.
        let staged = pack
            .shards()
            .iter()
            .map(|s| s.lengths_bytes + s.widths_bytes + s.payload_bytes)
            .max()
            .unwrap_or(0);
        let needed = pack.resident_bytes() + staged * rayon::current_num_threads() as u64;
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
        let mut excluded = vec![false; pixels];
        pack.excluded().iter().for_each(|&p| excluded[p as usize] = true);
        Ok(Resident {
            profile: pack.profile(),
            shape: pack.shape(),
            exclusions: pack.exclusions(),
            excluded,
            scans_per_shard: pack.scans_per_shard(),
            shards,
            max_widths,
            working: pack.decoder(FrameKind::Working)?,
            raw: pack.decoder(FrameKind::Raw).map_err(|e| (e.code(), e.message().to_owned())),
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

    fn parts(&self) -> Vec<Part<'_>> {
        self.shards.iter().map(|s| Part { shard: &s.shard, max_widths: &s.max_widths }).collect()
    }

    /// The largest admitted count that the widths allow.
    fn max_value(&self) -> u64 {
        let admitted = self.max_widths.iter().zip(&self.excluded).filter(|(_, excluded)| !**excluded);
        admitted.map(|(&w, _)| max_count(w)).max().unwrap_or(0)
    }

    fn decode(&self, decoder: &FrameDecoder, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        let pixels = self.shape.detector.pixels();
        let positions = self.shape.scan.positions() as u64;
        if into.sample_type() != decoder.sample_type() || !into.len().is_multiple_of(pixels) {
            return Err(Error::new(
                EngineCode::BufferShape,
                format!(
                    "buffer of {} {} samples, expected whole frames of {pixels} {}",
                    into.len(),
                    into.sample_type(),
                    decoder.sample_type()
                ),
            ));
        }
        let count = (into.len() / pixels) as u64;
        if first.checked_add(count).is_none_or(|end| end > positions) {
            return Err(Error::new(
                EngineCode::OutsideScan,
                format!("{count} scan positions from {first} on, the scan has {positions}"),
            ));
        }
        let mut scan = first as usize;
        let mut rest = into;
        while !rest.is_empty() {
            task.check()?;
            let (ordinal, local) = (scan / self.scans_per_shard, scan % self.scans_per_shard);
            let take = (self.scans_per_shard - local).min(rest.len() / pixels);
            let (head, tail) = split(rest, take * pixels);
            decoder.decode(&self.shards[ordinal].shard, local, head);
            rest = tail;
            scan += take;
        }
        Ok(())
    }

    fn frame(&self, decoder: &FrameDecoder, row: usize, col: usize) -> Result<Samples> {
        let scan = self.shape.scan;
        if row >= scan.rows() || col >= scan.cols() {
            return Err(Error::new(
                EngineCode::OutsideScan,
                format!("scan position ({row}, {col}) lies outside the scan {scan}"),
            ));
        }
        let mut frame = Samples::zeroed(decoder.sample_type(), self.shape.detector.pixels());
        self.decode(decoder, (row * scan.cols() + col) as u64, frame.as_mut(), &Task::new())?;
        Ok(frame)
    }

    fn raw_decoder(&self) -> Result<&FrameDecoder> {
        self.raw.as_ref().map_err(|(_, message)| {
            Error::new(stempack_containers::ContainerCode::RawNotAvailable, message.clone())
                .hint("read the working array, or pack the original acquisition again")
        })
    }
}

fn split(samples: SamplesMut<'_>, at: usize) -> (SamplesMut<'_>, SamplesMut<'_>) {
    match samples {
        SamplesMut::U8(v) => {
            let (a, b) = v.split_at_mut(at);
            (SamplesMut::U8(a), SamplesMut::U8(b))
        }
        SamplesMut::U16(v) => {
            let (a, b) = v.split_at_mut(at);
            (SamplesMut::U16(a), SamplesMut::U16(b))
        }
        SamplesMut::U32(v) => {
            let (a, b) = v.split_at_mut(at);
            (SamplesMut::U32(a), SamplesMut::U32(b))
        }
    }
}

impl Products for Resident {
    fn shape(&self) -> Shape4 {
        self.shape
    }
    fn exclusions(&self) -> &Exclusions {
        &self.exclusions
    }
    fn sample_type(&self) -> SampleType {
        self.raw.as_ref().map_or(SampleType::U16, FrameDecoder::sample_type)
    }
    fn working_type(&self) -> SampleType {
        self.working.sample_type()
    }

    /// The sum is u32 when the widths of the selected pixels prove that it fits, else u64.
    fn virtual_image(&self, mask: &DetectorMask, task: &Task) -> Result<SumImage> {
        mask.check_shape(self.shape.detector)?;
        let selected: Vec<u32> =
            mask.selected().iter().copied().filter(|&p| !self.excluded[p as usize]).collect();
        let bound: u128 = selected.iter().map(|&p| u128::from(max_count(self.max_widths[p as usize]))).sum();
        let sums = reduce::virtual_image(self.kernel, &self.parts(), &selected, task)?;
        Ok(SumImage { shape: self.shape.scan, values: Sums::with_bound(sums, bound) })
    }

    fn pattern_sum(&self, task: &Task) -> Result<PatternSum> {
        let positions = self.shape.scan.positions() as u64;
        PatternSum::check_bound(positions, self.max_value())?;
        let pixels = self.shape.detector.pixels();
        let sums = reduce::pattern_sum(&self.parts(), pixels, &self.excluded, task)?;
        Ok(PatternSum { shape: self.shape.detector, sums, positions })
    }

    fn moments(&self, task: &Task) -> Result<Moments> {
        let detector = self.shape.detector;
        Moments::check_bound(detector, self.max_value())?;
        let m = reduce::moments(&self.parts(), (detector.rows(), detector.cols()), &self.excluded, task)?;
        Ok(Moments { shape: self.shape.scan, total: m.total, row: m.row, col: m.col })
    }

    fn working_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.frame(&self.working, row, col)
    }
    fn raw_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.frame(self.raw_decoder()?, row, col)
    }
    fn raw_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.decode(self.raw_decoder()?, first, into, task)
    }
    fn working_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.decode(&self.working, first, into, task)
    }
}
