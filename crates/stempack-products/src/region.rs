//! Which scan positions are streamed, in which windows, and how reading ahead stays inside the memory budget.

use crate::{ProductCode, Products};
use std::ops::Range;
use stempack_model::{
    Error, ModelCode, Result, SampleType, Samples, SamplesMut, SamplesRef, ScanShape, Task,
};

/// A window this large hides the cost of starting one and still fits the outer caches of two buffers.
const WINDOW_BYTES: u64 = 8 << 20;
/// Frames of one window, so that sums of 16-bit counts over a window fit 32-bit lanes.
const WINDOW_FRAMES: u64 = 1 << 16;

/// Whether excluded pixels keep what the detector wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// What the detector wrote.
    Raw,
    /// Zero at excluded pixels.
    Working,
}

impl Values {
    /// The word used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Values::Raw => "raw",
            Values::Working => "working",
        }
    }
    /// The type these samples have in `products`.
    pub fn sample_type<P: Products + ?Sized>(self, products: &P) -> SampleType {
        match self {
            Values::Raw => products.sample_type(),
            Values::Working => products.working_type(),
        }
    }
}

/// A non-empty rectangle of scan positions, half-open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRegion {
    rows: Range<usize>,
    cols: Range<usize>,
    scan: ScanShape,
}

impl ScanRegion {
    /// The whole scan.
    pub fn whole(scan: ScanShape) -> Self {
        ScanRegion { rows: 0..scan.rows(), cols: 0..scan.cols(), scan }
    }

    /// Half-open row and column ranges.
    ///
    /// # Errors
    /// `region_outside` when a range is empty or leaves the scan.
    pub fn new(scan: ScanShape, rows: Range<usize>, cols: Range<usize>) -> Result<Self> {
        for (name, range, size) in [("rows", &rows, scan.rows()), ("columns", &cols, scan.cols())] {
            if range.start >= range.end || range.end > size {
                return Err(Error::new(
                    ProductCode::RegionOutside,
                    format!("{name} {}:{} are empty or leave the {scan} scan", range.start, range.end),
                ));
            }
        }
        Ok(ScanRegion { rows, cols, scan })
    }

    /// Scan rows of the region.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }
    /// Scan columns of the region.
    pub fn cols(&self) -> Range<usize> {
        self.cols.clone()
    }
    /// Number of scan positions.
    pub fn positions(&self) -> usize {
        self.rows.len() * self.cols.len()
    }
    /// Consecutive scan positions, in order, as first and count, none longer than `limit`.
    fn windows(&self, limit: u64) -> impl Iterator<Item = (u64, u64)> {
        let width = self.scan.cols() as u64;
        // Whole rows follow each other without a gap.
        let (lines, line, first) = if self.cols.len() == self.scan.cols() {
            (1, self.positions() as u64, self.rows.start as u64 * width)
        } else {
            let first = self.rows.start as u64 * width + self.cols.start as u64;
            (self.rows.len() as u64, self.cols.len() as u64, first)
        };
        (0..lines).flat_map(move |l| {
            let at = first + l * width;
            (0..line).step_by(limit as usize).map(move |o| (at + o, limit.min(line - o)))
        })
    }
}

/// Passes the frames of `region` to `sink` in order, in windows inside the memory budget, reading one window ahead.
/// `sink` is given the number of frames already passed and the frames.
///
/// # Errors
/// `over_budget` when not even two frames fit; whatever reading or `sink` fails with; the code of a source that changed
/// meanwhile; `cancelled`.
pub fn stream_region(
    products: &dyn Products,
    region: &ScanRegion,
    values: Values,
    task: &Task,
    mut sink: impl FnMut(u64, SamplesRef<'_>) -> Result<()> + Send,
) -> Result<()> {
    let shape = products.shape();
    if region.scan != shape.scan {
        return Err(Error::new(
            ProductCode::RegionOutside,
            format!("the region is of a {} scan, the acquisition has {}", region.scan, shape.scan),
        ));
    }
    let frame = FrameSize { pixels: shape.detector.pixels(), sample: values.sample_type(products) };
    let limit = frame.window_frames(0, task)?;
    let quiet = task.quiet();
    let fill = |first: u64, into: SamplesMut<'_>| match values {
        Values::Raw => products.raw_positions(first, into, &quiet),
        Values::Working => products.working_positions(first, into, &quiet),
    };
    let mut passed = 0;
    read_ahead(frame, region.windows(limit), task, &fill, |(_, count), samples| {
        sink(passed, samples)?;
        passed += count;
        Ok(())
    })?;
    products.check_unchanged()
}

/// Size of one frame.
#[derive(Clone, Copy)]
pub(crate) struct FrameSize {
    /// Detector pixels.
    pub(crate) pixels: usize,
    /// Their type.
    pub(crate) sample: SampleType,
}

impl FrameSize {
    /// Frames of one window such that two windows and `fixed` bytes of results leave half of the rest of the budget to
    /// whoever reads; a power of two, so that windows begin where chunks of several frames usually begin.
    pub(crate) fn window_frames(self, fixed: u64, task: &Task) -> Result<u64> {
        let bytes = (self.pixels as u64).saturating_mul(self.sample.bytes() as u64);
        let free = task.memory_budget().saturating_sub(fixed);
        if bytes.saturating_mul(2) > free {
            let needed = bytes.saturating_mul(2).saturating_add(fixed);
            return Err(Error::new(
                ModelCode::OverBudget,
                format!("{needed} bytes are needed, the memory budget is {}", task.memory_budget()),
            )
            .with("needed_bytes", needed)
            .with("budget_bytes", task.memory_budget()));
        }
        let frames = (WINDOW_BYTES.min(free / 4) / bytes).clamp(1, WINDOW_FRAMES);
        Ok(1 << frames.ilog2())
    }
}

/// Fills a window while the one before it is used. `windows` are (first, count), none longer than the first of them;
/// progress is the caller's to begin and finish.
pub(crate) fn read_ahead(
    frame: FrameSize,
    windows: impl Iterator<Item = (u64, u64)>,
    task: &Task,
    fill: &(dyn Fn(u64, SamplesMut<'_>) -> Result<()> + Sync),
    mut consume: impl FnMut((u64, u64), SamplesRef<'_>) -> Result<()> + Send,
) -> Result<()> {
    let samples = |count: u64| count as usize * frame.pixels;
    let frame_bytes = samples(1) as u64 * frame.sample.bytes() as u64;
    task.check()?;
    let mut windows = windows;
    let Some(mut current) = windows.next() else { return Ok(()) };
    let longest = samples(current.1);
    let mut ready = Samples::zeroed(frame.sample, longest);
    let mut ahead = Samples::zeroed(frame.sample, 0);
    fill(current.0, ready.head_mut(longest))?;
    loop {
        task.check()?;
        let next = windows.next();
        if next.is_some() && ahead.is_empty() {
            ahead = Samples::zeroed(frame.sample, longest);
        }
        let (filled, consumed) = rayon::join(
            || next.map_or(Ok(()), |(first, count)| fill(first, ahead.head_mut(samples(count)))),
            || consume(current, ready.head(samples(current.1))),
        );
        consumed?;
        filled?;
        task.advance(current.1 * frame_bytes);
        let Some(now) = next else { return Ok(()) };
        std::mem::swap(&mut ready, &mut ahead);
        current = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(region: &ScanRegion, limit: u64) -> Vec<(u64, u64)> {
        region.windows(limit).collect()
    }

    #[test]
    fn whole_rows_become_one_run_and_parts_of_rows_one_each() {
        let scan = ScanShape::new(4, 5).unwrap();
        assert_eq!(windows(&ScanRegion::whole(scan), 8), [(0, 8), (8, 8), (16, 4)]);
        assert_eq!(windows(&ScanRegion::new(scan, 1..3, 0..5).unwrap(), 100), [(5, 10)]);
        assert_eq!(
            windows(&ScanRegion::new(scan, 1..3, 2..5).unwrap(), 2),
            [(7, 2), (9, 1), (12, 2), (14, 1)]
        );
    }

    #[test]
    fn regions_outside_the_scan_are_refused() {
        let scan = ScanShape::new(4, 5).unwrap();
        for (rows, cols) in [(0..5, 0..5), (0..4, 0..6), (2..2, 0..5), (0..4, 5..5)] {
            assert_eq!(ScanRegion::new(scan, rows, cols).unwrap_err().code(), "region_outside");
        }
    }

    #[test]
    fn windows_follow_the_budget() {
        let frame = FrameSize { pixels: 1000, sample: SampleType::U16 };
        let budget = |bytes| Task::new().with_memory_budget(bytes);
        assert_eq!(frame.window_frames(0, &budget(4000)).unwrap(), 1);
        assert_eq!(frame.window_frames(0, &budget(3999)).unwrap_err().code(), "over_budget");
        assert_eq!(frame.window_frames(1, &budget(4000)).unwrap_err().code(), "over_budget");
        assert_eq!(frame.window_frames(0, &budget(80_000)).unwrap(), 8);
        // 8 MiB / 2000 bytes = 4194 frames, as a power of two.
        assert_eq!(frame.window_frames(0, &Task::new()).unwrap(), 4096);
        let tiny = FrameSize { pixels: 1, sample: SampleType::U8 };
        assert_eq!(tiny.window_frames(0, &Task::new()).unwrap(), 65_536);
    }
}
