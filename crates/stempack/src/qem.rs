//! Products straight from a `.qem` file: counts from its streams and tile sums, floats from their frames.

use crate::{
    DetectorMask, Exclusions, FrameSource, FrameSourceProducts, Moments, PatternSum, Products, QemFile,
    Result, SampleType, Samples, SamplesMut, Shape4, SumImage, Sums, Task,
};
use std::sync::Arc;

/// Answers products of a `.qem` file. A saved dark frame is taken from everything but raw frames.
pub struct QemProducts {
    file: Arc<QemFile>,
    /// What was measured.
    raw: FrameSourceProducts,
    /// What products are made of.
    working: FrameSourceProducts,
}

impl QemProducts {
    /// Takes an opened file.
    ///
    /// # Errors
    /// `qem_metadata` when a saved dark frame is none.
    pub fn new(file: Arc<QemFile>) -> Result<Self> {
        let raw = FrameSourceProducts::new(file.clone())?;
        let working = FrameSourceProducts::new(file.clone().product_source()?)?;
        Ok(QemProducts { file, raw, working })
    }
    /// The file.
    pub fn file(&self) -> &Arc<QemFile> {
        &self.file
    }
    /// The largest count, where the file holds counts.
    fn most(&self) -> Option<u64> {
        self.sample_type().max_unsigned().filter(|_| self.file.has_counts())
    }
}

impl Products for QemProducts {
    fn shape(&self) -> Shape4 {
        self.raw.shape()
    }
    fn exclusions(&self) -> &Exclusions {
        &self.file.acquisition().excluded
    }
    fn sample_type(&self) -> SampleType {
        self.raw.sample_type()
    }

    fn virtual_image(&self, mask: &DetectorMask, task: &Task) -> Result<SumImage> {
        let Some(most) = self.most() else { return self.working.virtual_image(mask, task) };
        mask.check_shape(self.shape().detector)?;
        let sums = self.file.virtual_sums(mask.members(), task)?;
        let bound = mask.count() as u128 * u128::from(most);
        Ok(SumImage { shape: self.shape().scan, values: Sums::with_bound(sums, bound) })
    }

    fn pattern_sum(&self, task: &Task) -> Result<PatternSum> {
        let Some(most) = self.most() else { return self.working.pattern_sum(task) };
        let positions = self.shape().scan.positions() as u64;
        PatternSum::check_bound(positions, most)?;
        Ok(PatternSum {
            shape: self.shape().detector,
            sums: Sums::U64(self.file.pattern_sums(task)?),
            positions,
        })
    }

    fn moments(&self, task: &Task) -> Result<Moments> {
        let Some(most) = self.most() else { return self.working.moments(task) };
        Moments::check_bound(self.shape().detector, most)?;
        let m = self.file.moments(task)?;
        Ok(Moments {
            shape: self.shape().scan,
            total: Sums::U64(m.total),
            row: Sums::U64(m.row),
            col: Sums::U64(m.col),
        })
    }

    fn working_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.working.working_frame(row, col)
    }
    fn raw_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.raw.raw_frame(row, col)
    }
    fn raw_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.raw.raw_positions(first, into, task)
    }
    fn working_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.working.working_positions(first, into, task)
    }
    fn check_unchanged(&self) -> Result<()> {
        self.raw.check_unchanged()
    }
}
