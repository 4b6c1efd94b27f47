//! A resident of floats: blocks of 512 scans in the form of [`stempack_codecs::floats`], asked as counts are.
//!
//! Every sum has the bits of the rule in [`stempack_products::reference`], whatever the kernel and the number of threads:
//! a scan position's terms are added in their order where that matters, and in any order where the sum is proved exact
//! ([`Way`]). A mean dark frame is taken from each sample when it is unpacked, before it is summed; what is held, and what
//! raw frames give, is what was measured.

mod build;
mod map;

pub(crate) use map::FloatMap;

use crate::cpu::Kernel;
use crate::cpu::floats::{Dark, FloatSums, PixelTerms, Terms, Way};
use crate::frames::{check_positions, position};
use crate::resident::{Capability, ResidentReport};
use crate::selected::Chosen;
use rayon::prelude::*;
use stempack_codecs::floats::{BLOCK_SCANS, FloatBlock, Range};
use stempack_containers::pack::RawAccess;
use stempack_containers::qem::Background;
use stempack_model::{Exclusions, Result, SampleType, Samples, SamplesMut, Shape4, Task};
use stempack_products::{DetectorMask, Moments, PatternSum, Products, ScanSelection, SumImage, Sums};

/// Pixels whose sums over scans one thread makes at once.
const PART: usize = 256;

/// Floats kept compressed in memory.
#[derive(Debug)]
pub(crate) struct Floats {
    shape: Shape4,
    exclusions: Exclusions,
    /// One entry per detector pixel.
    excluded: Vec<bool>,
    blocks: Vec<FloatBlock>,
    /// Of each pixel over all blocks, less the dark.
    ranges: Vec<Range>,
    background: Option<Background>,
    kernel: Kernel,
}

impl Floats {
    pub(crate) fn with_kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }
    pub(crate) fn report(&self) -> ResidentReport {
        let of = |product, numerics| Capability { product, availability: "resident-on-demand", numerics };
        let sum = |product| of(product, "float32-compensated");
        ResidentReport {
            resident_bytes: self.resident_bytes(),
            mapped_bytes: 0,
            logical_bytes: self.shape.samples().unwrap_or(u64::MAX).saturating_mul(4),
            layout: self.layout(),
            kernel: self.kernel.name(),
            raw_access: if self.exclusions.pixels.is_empty() {
                RawAccess::NoExclusions
            } else {
                RawAccess::RetainedPayload
            },
            source_identity: None,
            background: self.background.as_ref().map(|background| background.identity),
            capabilities: vec![
                of("diffraction-pattern", "exact-float32-bits"),
                sum("bright-field"),
                sum("annular-bright-field"),
                sum("annular-dark-field"),
                sum("total"),
                sum("mean-diffraction-pattern"),
                sum("center-of-mass"),
            ],
        }
    }
    pub(crate) fn resident_bytes(&self) -> u64 {
        let dark = self.background.as_ref().map_or(0, |b| b.values.len() * size_of::<f32>());
        let tables = self.ranges.len() * size_of::<Range>() + dark;
        self.blocks.iter().map(FloatBlock::resident_bytes).sum::<u64>() + tables as u64
    }
    pub(crate) fn layout(&self) -> &'static str {
        "float-lanes"
    }
    pub(crate) fn pixel_bytes(&self) -> Vec<u64> {
        (0..self.ranges.len()).map(|p| self.blocks.iter().map(|b| b.pixel_bytes(p)).sum()).collect()
    }
    pub(crate) fn excluded(&self) -> &[bool] {
        &self.excluded
    }

    fn dark(&self) -> Dark<'_> {
        self.background.as_ref().map(|background| &background.values[..])
    }
    /// How sums of up to `terms` samples of a range, each times up to `factor`, are made. The scalar kernel is the
    /// reference, and follows the rule.
    fn way(&self, range: Range, terms: usize, factor: usize) -> Way {
        if self.kernel == Kernel::Scalar { Way::Rule } else { Way::of(range, terms, factor) }
    }
    /// The range of pixels over all blocks.
    fn range(&self, pixels: impl Iterator<Item = u32>) -> Range {
        pixels.fold(Range::ZERO, |range, pixel| range.with(self.ranges[pixel as usize]))
    }
    /// The range of pixels in one block.
    fn block_range(&self, block: &FloatBlock, pixels: impl Iterator<Item = u32>) -> Range {
        let dark = self.dark();
        pixels.fold(Range::ZERO, |range, pixel| {
            let pixel = pixel as usize;
            range.with(less(block.range(pixel), dark, pixel))
        })
    }

    /// Sums of every pixel over the chosen scans of each block, or all of them; excluded pixels are left at zero.
    fn pixel_sums(&self, chosen: Option<&Chosen>, positions: u64, task: &Task) -> Result<Sums> {
        let positions = usize::try_from(positions).unwrap_or(usize::MAX);
        let dark = self.dark();
        let mut sums = vec![0f64; self.ranges.len()];
        sums.par_chunks_mut(PART).enumerate().try_for_each(|(part, out)| {
            let first = part * PART;
            let way_of = |pixel: usize| self.way(self.ranges[pixel], positions, 1);
            let ways: Vec<Way> = (first..first + out.len()).map(way_of).collect();
            let mut made = vec![(0.0, 0.0); out.len()];
            for (k, block) in self.blocks.iter().enumerate() {
                task.check()?;
                let chosen = chosen.map(|chosen| &chosen.bits()[k]);
                if chosen.is_some_and(|bits| bits.iter().all(|&b| b == 0)) {
                    continue;
                }
                for (pixel, (&way, sum)) in (first..).zip(ways.iter().zip(&mut made)) {
                    if !self.excluded[pixel] {
                        let dark = dark.map(|dark| dark[pixel]);
                        self.kernel.add_float_pixel(&PixelTerms { block, pixel, dark, chosen }, way, sum);
                    }
                }
            }
            for (out, (way, sum)) in out.iter_mut().zip(ways.iter().zip(made)) {
                *out = way.end_of_pixel(sum);
            }
            Ok(())
        })?;
        Ok(Sums::F64(sums))
    }

    /// Frames of consecutive scan positions, less the dark and zero where a pixel is excluded if `working`.
    fn frames(&self, first: u64, into: SamplesMut<'_>, working: bool, task: &Task) -> Result<()> {
        check_positions(self.shape, SampleType::F32, first, &into)?;
        let SamplesMut::F32(mut rest) = into else { return Ok(()) };
        let pixels = self.shape.detector.pixels();
        let mut scan = first as usize;
        while !rest.is_empty() {
            task.check()?;
            let (block, local) = (&self.blocks[scan / BLOCK_SCANS], scan % BLOCK_SCANS);
            let take = (block.scans() - local).min(rest.len() / pixels);
            let (frames, after) = rest.split_at_mut(take * pixels);
            block.frames(local, frames);
            if working {
                frames.chunks_exact_mut(pixels).for_each(|frame| self.correct(frame));
            }
            (rest, scan) = (after, scan + take);
        }
        Ok(())
    }
    fn correct(&self, frame: &mut [f32]) {
        if let Some(dark) = self.dark() {
            frame.iter_mut().zip(dark).for_each(|(sample, dark)| *sample -= dark);
        }
        self.exclusions.pixels.iter().for_each(|&pixel| frame[pixel as usize] = 0.0);
    }
    fn frame(&self, at: (usize, usize), working: bool) -> Result<Samples> {
        let first = position(self.shape, at)?;
        let mut frame = Samples::zeroed(SampleType::F32, self.shape.detector.pixels());
        self.frames(first, frame.as_mut(), working, &Task::new())?;
        Ok(frame)
    }
}

fn less(range: Range, dark: Dark<'_>, pixel: usize) -> Range {
    dark.map_or(range, |dark| range.less(dark[pixel]))
}

impl Products for Floats {
    fn shape(&self) -> Shape4 {
        self.shape
    }
    fn exclusions(&self) -> &Exclusions {
        &self.exclusions
    }
    fn sample_type(&self) -> SampleType {
        SampleType::F32
    }

    fn virtual_image(&self, mask: &DetectorMask, task: &Task) -> Result<SumImage> {
        mask.check_shape(self.shape.detector)?;
        let selected: Vec<u32> =
            mask.selected().iter().copied().filter(|&p| !self.excluded[p as usize]).collect();
        let mut map = self.empty_map();
        self.rebase(&selected, &mut map, task)?;
        Ok(SumImage { shape: self.shape.scan, values: Sums::F64(map.into_sums()) })
    }

    fn pattern_sum(&self, task: &Task) -> Result<PatternSum> {
        let positions = self.shape.scan.positions() as u64;
        let sums = self.pixel_sums(None, positions, task)?;
        Ok(PatternSum { shape: self.shape.detector, sums, positions })
    }

    fn moments(&self, task: &Task) -> Result<Moments> {
        let (detector, positions) = (self.shape.detector, self.shape.scan.positions());
        let admitted: Vec<u32> =
            (0..self.ranges.len() as u32).filter(|&p| !self.excluded[p as usize]).collect();
        let factor = detector.rows().max(detector.cols());
        let mut out: [Vec<f64>; 3] = std::array::from_fn(|_| vec![0.0; positions]);
        let [total, row, col] = &mut out;
        let parts = total
            .par_chunks_mut(BLOCK_SCANS)
            .zip(row.par_chunks_mut(BLOCK_SCANS))
            .zip(col.par_chunks_mut(BLOCK_SCANS));
        self.blocks.par_iter().zip(parts).try_for_each(|(block, ((total, row), col))| {
            task.check()?;
            let range = self.block_range(block, admitted.iter().copied());
            let way = self.way(range, admitted.len(), factor);
            let mut sums: Box<[FloatSums; 3]> = Box::new(std::array::from_fn(|_| FloatSums::new(way)));
            let terms = Terms { block, pixels: &admitted, dark: self.dark(), taken: false };
            self.kernel.add_float_moments(&terms, detector.cols(), way, &mut sums);
            let mut rest = [0.0; BLOCK_SCANS];
            for (sums, out) in sums.iter().zip([total, row, col]) {
                sums.end(way, out, &mut rest);
            }
            Ok(())
        })?;
        let [total, row, col] = out.map(Sums::F64);
        Ok(Moments { shape: self.shape.scan, total, row, col })
    }

    fn selection_sum(&self, selection: &ScanSelection, task: &Task) -> Result<PatternSum> {
        selection.check_scan(self.shape.scan)?;
        let chosen = Chosen::in_shard(selection, 0..self.shape.scan.positions() as u64);
        let positions = selection.positions();
        let sums = match chosen {
            Some(chosen) => self.pixel_sums(Some(&chosen), positions, task)?,
            None => Sums::F64(vec![0.0; self.ranges.len()]),
        };
        Ok(PatternSum { shape: self.shape.detector, sums, positions })
    }

    fn working_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.frame((row, col), true)
    }
    fn raw_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.frame((row, col), false)
    }
    fn raw_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.frames(first, into, false, task)
    }
    fn working_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.frames(first, into, true, task)
    }
}
