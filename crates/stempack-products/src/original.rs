//! Products straight from an original: frames are streamed once, in bounded windows, and never all held.

use crate::reduce::{self, MomentsOut};
use crate::region::{FrameSize, read_ahead};
use crate::{DetectorMask, Moments, PatternSum, ProductCode, Products, SumImage, Sums};
use std::sync::Arc;
use stempack_model::{
    Acquisition, Error, Exclusions, FrameSource, ModelCode, Result, SampleType, Samples, SamplesMut,
    SamplesRef, Shape4, Task, with_samples,
};

/// Answers products by reading a [`FrameSource`].
#[derive(Clone)]
pub struct FrameSourceProducts {
    source: Arc<dyn FrameSource>,
    shape: Shape4,
}

/// Runs a reduction on samples of whatever type they have.
macro_rules! each_type {
    ($samples:expr, $frames:ident => $do:expr) => {
        match $samples {
            SamplesRef::U8($frames) => $do,
            SamplesRef::U16($frames) => $do,
            SamplesRef::U32($frames) => $do,
            // Refused before anything is read.
            _ => {}
        }
    };
}

impl FrameSourceProducts {
    /// Takes a source whose scan shape is known and covers its frames exactly.
    ///
    /// # Errors
    /// `missing_scan_shape`, `scan_frame_mismatch`, or `mask_geometry` when an exclusion lies outside the detector.
    pub fn new(source: Arc<dyn FrameSource>) -> Result<Self> {
        let acquisition = source.acquisition();
        let frames = acquisition.frame_count;
        let Some(shape) = acquisition.shape() else {
            return Err(Error::new(
                ProductCode::MissingScanShape,
                format!("`{}` has {frames} frames and no recorded scan shape", acquisition.label),
            )
            .with("frame_count", frames)
            .hint("state it as rows × columns"));
        };
        if shape.scan.positions() as u64 != frames {
            return Err(Error::new(
                ProductCode::ScanFrameMismatch,
                format!(
                    "a {} scan has {} positions, there are {frames} frames",
                    shape.scan,
                    shape.scan.positions()
                ),
            )
            .with("frame_count", frames));
        }
        if let Some(&pixel) =
            acquisition.excluded.pixels.iter().find(|&&p| p as usize >= shape.detector.pixels())
        {
            return Err(Error::new(
                ProductCode::MaskGeometry,
                format!("excluded pixel {pixel} lies outside the {} detector", shape.detector),
            ));
        }
        Ok(FrameSourceProducts { source, shape })
    }

    /// What the acquisition is.
    pub fn acquisition(&self) -> &Acquisition {
        self.source.acquisition()
    }
    /// The source that frames are read from.
    pub fn source(&self) -> &Arc<dyn FrameSource> {
        &self.source
    }

    /// The largest value of the sample type.
    fn largest_count(&self) -> Result<u64> {
        match self.sample_type() {
            SampleType::U8 | SampleType::U16 | SampleType::U32 => {
                Ok(self.sample_type().max_unsigned().unwrap_or(0))
            }
            other => Err(Error::new(ProductCode::SumOverflow, format!("{other} samples are not summed yet"))),
        }
    }

    fn frame_size(&self) -> FrameSize {
        FrameSize { pixels: self.shape.detector.pixels(), sample: self.sample_type() }
    }

    /// Passes every frame once; `results` is the size of what the caller accumulates.
    fn stream(
        &self,
        phase: &str,
        results: u64,
        task: &Task,
        mut reduce: impl FnMut(usize, SamplesRef<'_>) + Send,
    ) -> Result<()> {
        let frame = self.frame_size();
        let limit = frame.window_frames(results, task)?;
        let total = self.shape.scan.positions() as u64;
        let windows = (0..total).step_by(limit as usize).map(|first| (first, limit.min(total - first)));
        let quiet = task.quiet();
        let fill = |first: u64, into: SamplesMut<'_>| self.source.read(first, into, &quiet);
        task.begin(
            phase,
            self.shape.samples().unwrap_or(u64::MAX).saturating_mul(frame.sample.bytes() as u64),
        );
        let outcome = read_ahead(frame, windows, task, &fill, |(first, _), samples| {
            reduce(first as usize, samples);
            Ok(())
        });
        task.finish();
        outcome?;
        self.source.check_unchanged()
    }

    fn frame(&self, row: usize, col: usize) -> Result<Samples> {
        let scan = self.shape.scan;
        if row >= scan.rows() || col >= scan.cols() {
            return Err(Error::new(
                ModelCode::OutOfRange,
                format!("scan position ({row}, {col}) lies outside the {scan} scan"),
            ));
        }
        let mut samples = Samples::zeroed(self.sample_type(), self.shape.detector.pixels());
        self.source.read((row * scan.cols() + col) as u64, samples.as_mut(), &Task::new())?;
        self.source.check_unchanged()?;
        Ok(samples)
    }

    fn positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        let (pixels, total) = (self.shape.detector.pixels(), self.shape.scan.positions() as u64);
        let count = (into.len() / pixels) as u64;
        if !into.len().is_multiple_of(pixels) || into.sample_type() != self.sample_type() {
            return Err(Error::new(
                ModelCode::OutOfRange,
                format!(
                    "a buffer of {} {} samples is no whole number of {} {} frames",
                    into.len(),
                    into.sample_type(),
                    self.shape.detector,
                    self.sample_type()
                ),
            ));
        }
        if first.checked_add(count).is_none_or(|end| end > total) {
            return Err(Error::new(
                ModelCode::OutOfRange,
                format!("{count} scan positions from {first} leave the {total} of the scan"),
            ));
        }
        self.source.read(first, into, task)
    }

    /// Runs of the mask without this acquisition's excluded pixels: a mask made with another exclusion list must not
    /// let them in.
    fn admitted_runs(&self, mask: &DetectorMask) -> Result<Vec<std::ops::Range<usize>>> {
        let excluded = &self.exclusions().pixels;
        if excluded.iter().all(|&p| !mask.members().get(p as usize).copied().unwrap_or(false)) {
            return Ok(mask.runs());
        }
        Ok(DetectorMask::from_array(self.shape.detector, self.exclusions(), &mask.to_bytes())?.runs())
    }

    fn clear(&self, samples: SamplesMut<'_>) {
        let (pixels, excluded) = (self.shape.detector.pixels(), &self.exclusions().pixels);
        with_samples!(SamplesMut, samples, v => reduce::clear_excluded(v, pixels, excluded));
    }
}

impl Products for FrameSourceProducts {
    fn shape(&self) -> Shape4 {
        self.shape
    }
    fn exclusions(&self) -> &Exclusions {
        &self.source.acquisition().excluded
    }
    fn sample_type(&self) -> SampleType {
        self.source.acquisition().sample
    }

    fn virtual_image(&self, mask: &DetectorMask, task: &Task) -> Result<SumImage> {
        mask.check_shape(self.shape.detector)?;
        let pixels = self.shape.detector.pixels();
        let runs = self.admitted_runs(mask)?;
        let bound = mask.count() as u128 * u128::from(self.largest_count()?);
        let mut sums = vec![0u64; self.shape.scan.positions()];
        // 64-bit sums and, at the end, their 32-bit copy.
        let results = 12 * sums.len() as u64;
        self.stream("virtual image", results, task, |first, samples| {
            let out = &mut sums[first..first + samples.len() / pixels];
            each_type!(samples, frames => reduce::masked_sums(frames, pixels, &runs, out));
        })?;
        Ok(SumImage { shape: self.shape.scan, values: Sums::with_bound(sums, bound) })
    }

    fn pattern_sum(&self, task: &Task) -> Result<PatternSum> {
        let positions = self.shape.scan.positions() as u64;
        PatternSum::check_bound(positions, self.largest_count()?)?;
        let mut sums = vec![0u64; self.shape.detector.pixels()];
        // 64-bit sums and at most as much again for the lanes.
        self.stream("pattern sum", 16 * sums.len() as u64, task, |_, samples| {
            each_type!(samples, frames => reduce::add_frames(frames, &mut sums));
        })?;
        reduce::clear_excluded(&mut sums, self.shape.detector.pixels(), &self.exclusions().pixels);
        Ok(PatternSum { shape: self.shape.detector, sums, positions })
    }

    fn moments(&self, task: &Task) -> Result<Moments> {
        let (detector, n) = (self.shape.detector, self.shape.scan.positions());
        Moments::check_bound(detector, self.largest_count()?)?;
        let mut m = Moments { shape: self.shape.scan, total: vec![0; n], row: vec![0; n], col: vec![0; n] };
        let excluded = &self.exclusions().pixels;
        self.stream("moments", 24 * n as u64, task, |first, samples| {
            let window = first..first + samples.len() / detector.pixels();
            let out = MomentsOut {
                total: &mut m.total[window.clone()],
                row: &mut m.row[window.clone()],
                col: &mut m.col[window],
            };
            each_type!(samples, frames => {
                reduce::frame_moments(frames, detector.cols(), detector.pixels(), excluded, out);
            });
        })?;
        Ok(m)
    }

    fn working_frame(&self, row: usize, col: usize) -> Result<Samples> {
        let mut samples = self.frame(row, col)?;
        self.clear(samples.as_mut());
        Ok(samples)
    }
    fn raw_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.frame(row, col)
    }
    fn raw_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.positions(first, into, task)
    }
    fn working_positions(&self, first: u64, mut into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.positions(first, into.reborrow(), task)?;
        self.clear(into);
        Ok(())
    }
}
