//! Products straight from an original: frames are streamed once, in bounded windows, and never all held.

use crate::reduce::{self, MomentsOut, PatternSums, Sample, with_type};
use crate::region::{FrameSize, read_ahead};
use crate::{DetectorMask, Moments, PatternSum, ProductCode, Products, SumImage, Sums};
use std::sync::Arc;
use stempack_model::{
    Acquisition, Error, Exclusions, FrameSource, ModelCode, Result, SampleType, Samples, SamplesMut, Shape4,
    Task, with_samples,
};

/// Answers products by reading a [`FrameSource`].
#[derive(Clone)]
pub struct FrameSourceProducts {
    source: Arc<dyn FrameSource>,
    shape: Shape4,
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

    fn frame_size(&self) -> FrameSize {
        FrameSize { pixels: self.shape.detector.pixels(), sample: self.sample_type() }
    }

    /// Passes every frame once; `results` is the size of what the caller accumulates.
    fn stream<T: Sample>(
        &self,
        phase: &str,
        results: u64,
        task: &Task,
        mut reduce: impl FnMut(usize, &[T]) -> Result<()> + Send,
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
            reduce(first as usize, T::of(samples).unwrap_or_default())
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

    fn image_of<T: Sample>(&self, mask: &DetectorMask, task: &Task) -> Result<SumImage>
    where
        Sums: From<Vec<T::Sum>>,
    {
        let pixels = self.shape.detector.pixels();
        let runs = self.admitted_runs(mask)?;
        let mut sums = vec![T::Sum::default(); self.shape.scan.positions()];
        // 64-bit sums and, at the end, their 32-bit copy.
        let results = 12 * sums.len() as u64;
        self.stream::<T>("virtual image", results, task, |first, frames| {
            let out = &mut sums[first..first + frames.len() / pixels];
            reduce::masked_sums(frames, pixels, &runs, out).map_err(|frame| self.overflow(first + frame))
        })?;
        let bound = mask.count() as u128 * u128::from(self.sample_type().max_unsigned().unwrap_or(u64::MAX));
        Ok(SumImage { shape: self.shape.scan, values: Sums::from(sums).narrowed(bound) })
    }

    fn pattern_of<T: Sample>(&self, task: &Task) -> Result<PatternSum>
    where
        Sums: From<Vec<T::Sum>>,
    {
        let (detector, positions) = (self.shape.detector, self.shape.scan.positions() as u64);
        let mut sums = PatternSums::<T>::new(detector.pixels(), positions);
        let results = PatternSums::<T>::BYTES * detector.pixels() as u64;
        self.stream::<T>("pattern sum", results, task, |_, frames| {
            sums.add_frames(frames);
            Ok(())
        })?;
        let sums =
            sums.finish(&self.exclusions().pixels).map_err(|pixel| PatternSum::overflow(detector, pixel))?;
        Ok(PatternSum { shape: detector, sums: sums.into(), positions })
    }

    fn moments_of<T: Sample>(&self, task: &Task) -> Result<Moments>
    where
        Sums: From<Vec<T::Sum>>,
    {
        let (detector, n) = (self.shape.detector, self.shape.scan.positions());
        let (pixels, cols) = (detector.pixels(), detector.cols());
        // Any 64-bit sample times this still fits the 128 bits of checked sums.
        if pixels as u128 * detector.rows().max(cols) as u128 > 1 << 62 {
            return Err(Error::new(
                ProductCode::SumOverflow,
                format!("moments of a {detector} detector may exceed 128 bits"),
            ));
        }
        // Twice, because signed moments have one bit less.
        let proved = T::LARGEST.is_some_and(|l| Moments::check_bound(detector, 2 * l).is_ok());
        let excluded = &self.exclusions().pixels;
        let zeros = || vec![T::Sum::default(); n];
        let (mut total, mut row, mut col) = (zeros(), zeros(), zeros());
        self.stream::<T>("moments", 24 * n as u64, task, |first, frames| {
            let window = first..first + frames.len() / pixels;
            let out = MomentsOut {
                total: &mut total[window.clone()],
                row: &mut row[window.clone()],
                col: &mut col[window],
            };
            reduce::frame_moments(frames, cols, pixels, excluded, proved, out)
                .map_err(|frame| self.overflow(first + frame))
        })?;
        Ok(Moments { shape: self.shape.scan, total: total.into(), row: row.into(), col: col.into() })
    }

    /// The refusal of a frame whose sum does not fit.
    fn overflow(&self, frame: usize) -> Error {
        let (row, col) = (frame / self.shape.scan.cols(), frame % self.shape.scan.cols());
        Error::new(
            ProductCode::SumOverflow,
            format!("a sum over the frame at scan position ({row}, {col}) exceeds 64 bits"),
        )
        .with("frame_index", frame)
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
        with_type!(self.sample_type(), T => self.image_of::<T>(mask, task))
    }
    fn pattern_sum(&self, task: &Task) -> Result<PatternSum> {
        with_type!(self.sample_type(), T => self.pattern_of::<T>(task))
    }
    fn moments(&self, task: &Task) -> Result<Moments> {
        with_type!(self.sample_type(), T => self.moments_of::<T>(task))
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
    fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
    }
}
