//! What a result means: which pixels a mask holds, how wide a sum is, what a moment is, how a picture is scaled,
//! each with a slow scalar reference that every engine is tested against.
//!
//! Raw values are what the detector wrote; working values are the same with zero at every excluded pixel.
//! Every product is made of working values. Axes are always `(scan_row, scan_col, det_row, det_col)`.

mod compensated;
pub mod disk;
pub mod display;
pub mod dpc;
mod error;
mod lanes;
pub mod mask;
pub mod moments;
pub mod original;
pub mod pattern;
mod reduce;
pub mod reference;
pub mod region;
mod selected;
pub mod selection;
pub mod sum_image;

use stempack_model::{Error, Exclusions, ModelCode, Result, SampleType, Samples, SamplesMut, Shape4, Task};

pub use compensated::Compensated;
pub use disk::{BrightFieldDisk, DiskEvidence, VirtualDetector, measure_disk};
pub use dpc::{Deflections, DetectorTurn, DpcRounding};
pub use error::ProductCode;
pub use mask::DetectorMask;
pub use moments::{CenterOfMass, Moments};
pub use original::FrameSourceProducts;
pub use pattern::PatternSum;
pub use region::{ScanRegion, Values, stream_region};
pub use selection::ScanSelection;
pub use sum_image::{SumImage, Sums, Total};

/// Bytes for each scan position of a virtual image: a sum of 64 bits and, at the end, of 32.
pub const IMAGE_BYTES: u64 = 12;
/// Bytes for each scan position of the moments and of the centre that is made of them.
pub const MOMENT_BYTES: u64 = 32;

/// Whether results of so many bytes for each scan position fit half of the memory budget. A few bytes of zeros can stand
/// for any number of scan positions; their results may still not fit.
///
/// # Errors
/// `over_budget`.
pub fn room_for_results(shape: Shape4, bytes_a_position: u64, task: &Task) -> Result<()> {
    let needed = (shape.scan.positions() as u64).saturating_mul(bytes_a_position);
    if needed <= task.memory_budget() / 2 {
        return Ok(());
    }
    let (scan, budget) = (shape.scan, task.memory_budget());
    Err(Error::new(
        ModelCode::OverBudget,
        format!("results for {scan} scan positions take {needed} bytes, half of {budget} may be used"),
    )
    .hint("allow more with --max-memory")
    .with("needed_bytes", needed))
}

/// What can be asked of an acquisition, whoever answers: an original read frame by frame or a compressed resident.
///
/// Sums of integers are exact, sums of floats follow the one rule of [`reference`]. Two implementations over the same
/// samples give equal results, byte for byte.
pub trait Products: Send + Sync {
    /// The four axes.
    fn shape(&self) -> Shape4;
    /// Pixels that never enter a product.
    fn exclusions(&self) -> &Exclusions;
    /// Type of raw samples.
    fn sample_type(&self) -> SampleType;
    /// Type of working samples; narrower than the raw type where a container proves that admitted counts fit.
    fn working_type(&self) -> SampleType {
        self.sample_type()
    }

    /// Sum of the working samples under `mask` at every scan position.
    ///
    /// # Errors
    /// `mask_shape` for a mask of another detector; `sum_overflow` when a sum does not fit 64 bits; the implementation's own codes for damaged data; `cancelled`.
    fn virtual_image(&self, mask: &DetectorMask, task: &Task) -> Result<SumImage>;

    /// Sum of the working samples of every scan position at each detector pixel.
    ///
    /// # Errors
    /// `sum_overflow` when a sum does not fit 64 bits, or cannot be proved to; the implementation's own codes; `cancelled`.
    fn pattern_sum(&self, task: &Task) -> Result<PatternSum>;

    /// Total and first moments of every working frame.
    ///
    /// # Errors
    /// `sum_overflow` when a sum does not fit 64 bits, or cannot be proved to; the implementation's own codes; `cancelled`.
    fn moments(&self, task: &Task) -> Result<Moments>;

    /// One frame with zero at the excluded pixels.
    ///
    /// # Errors
    /// `out_of_range` outside the scan; the implementation's own codes for damaged data.
    fn working_frame(&self, row: usize, col: usize) -> Result<Samples>;

    /// One frame as the detector wrote it.
    ///
    /// # Errors
    /// As [`working_frame`](Products::working_frame); an implementation that cannot prove the raw values refuses.
    fn raw_frame(&self, row: usize, col: usize) -> Result<Samples>;

    /// Raw frames of consecutive scan positions, row-major from `first`; `into` is a whole number of frames of
    /// [`sample_type`](Products::sample_type).
    ///
    /// # Errors
    /// As [`raw_frame`](Products::raw_frame), and `cancelled`.
    fn raw_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()>;

    /// Working frames of consecutive scan positions, of [`working_type`](Products::working_type); otherwise as
    /// [`raw_positions`](Products::raw_positions).
    ///
    /// # Errors
    /// As [`working_frame`](Products::working_frame), and `cancelled`.
    fn working_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()>;

    /// Sum of the working samples of the chosen scan positions at each detector pixel: what
    /// [`pattern_sum`](Products::pattern_sum) would be of a scan that consists of these positions, in their order.
    /// Frames that are not chosen are not read.
    ///
    /// # Errors
    /// `region_outside` for a selection of another scan; `sum_overflow` when a sum does not fit 64 bits; `over_budget`;
    /// as [`working_positions`](Products::working_positions).
    fn selection_sum(&self, selection: &ScanSelection, task: &Task) -> Result<PatternSum> {
        selected::sum(self, selection, task)
    }

    /// The frames of any scan positions, one after the other in the order of the list, in which a position may be more
    /// than once. All of them are held at once.
    ///
    /// # Errors
    /// `region_empty` for an empty list; `out_of_range` outside the scan; `over_budget` where the memory budget does not
    /// hold the frames; as [`raw_positions`](Products::raw_positions) and
    /// [`working_positions`](Products::working_positions).
    fn frames(&self, positions: &[(usize, usize)], values: Values, task: &Task) -> Result<Samples> {
        selected::frames(self, positions, values, task)
    }

    /// Fails when what frames are read from is no longer what was opened. Whoever reads frames by position calls this
    /// after the last one. Implementations that authenticate what they read have nothing to compare.
    ///
    /// # Errors
    /// The implementation's own code.
    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}
