//! The mean of dark frames, as something to subtract before a product; original samples stay as they are.
//!
//! `empad-mean-dark/v1`: the identity is the SHA-256 of that name with a zero byte, of every dark frame as it is stored,
//! and of the mean plane.

use crate::error::SourceCode;
use crate::identity::Fingerprint;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use stempack_model::{
    Acquisition, BackgroundSubtraction, Error, FrameSource, MemberRole, ModelCode, Quantity, Result,
    SampleType, Samples, SamplesRef, Task,
};

/// The name of the correction.
pub const MEAN_DARK: &str = "empad-mean-dark/v1";
/// Most frames and bytes read at a time.
const WINDOW_FRAMES: u64 = 256;
const WINDOW_BYTES: u64 = 32 << 20;
/// Sums and mean of one pixel.
const PLANE_BYTES: u64 = 12;
/// Relative difference up to which two exposures are the same.
const EXPOSURE_TOLERANCE: f64 = 1e-6;

/// A mean dark plane and what it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanDark {
    /// Mean of every pixel, finite, row-major.
    pub values: Vec<f32>,
    /// SHA-256 over the name, the dark frames and the plane.
    pub identity: [u8; 32],
    /// Number of dark frames.
    pub frames: u64,
    /// Whether both acquisitions record an exposure, which then is the same.
    pub exposure_compared: bool,
}

impl MeanDark {
    /// Subtracts the plane from whole frames.
    ///
    /// # Errors
    /// `wrong_buffer` when the samples are no whole number of frames.
    pub fn subtract(&self, frames: &mut [f32]) -> Result<()> {
        if !frames.len().is_multiple_of(self.values.len().max(1)) {
            let message =
                format!("{} samples for a dark plane of {} pixels", frames.len(), self.values.len());
            return Err(Error::new(SourceCode::WrongBuffer, message));
        }
        for frame in frames.chunks_exact_mut(self.values.len().max(1)) {
            for (sample, dark) in frame.iter_mut().zip(&self.values) {
                *sample -= dark;
            }
        }
        Ok(())
    }
}

/// The mean of all frames of `dark`, for the frames of `data`.
///
/// # Errors
/// `background_already_subtracted` when a supplier says so of either; `dark_mismatch` for a dark of another format,
/// detector or exposure, for the data themselves, and for a mean that is not finite; `over_budget`, `source_changed`,
/// `cancelled`, and what reading gives.
pub fn mean_dark(data: &dyn FrameSource, dark: &dyn FrameSource, task: &Task) -> Result<MeanDark> {
    let exposure_compared = belong_together(data.acquisition(), dark.acquisition())?;
    let a = dark.acquisition();
    let pixels = a.detector.pixels();
    let frame_bytes = pixels as u64 * a.sample.bytes() as u64;
    let room = task.memory_budget().saturating_sub(pixels as u64 * PLANE_BYTES);
    let window =
        WINDOW_FRAMES.min((WINDOW_BYTES / frame_bytes).max(1)).min(room / frame_bytes).min(a.frame_count);
    if window == 0 {
        let needed = frame_bytes + pixels as u64 * PLANE_BYTES;
        let message =
            format!("a mean dark needs at least {needed} bytes, the budget is {}", task.memory_budget());
        return Err(Error::new(ModelCode::OverBudget, message));
    }
    data.check_unchanged()?;
    dark.check_unchanged()?;
    let mut hash = Sha256::new();
    hash.update(MEAN_DARK);
    hash.update([0]);
    let mut sums = vec![0f64; pixels];
    let mut buffer = Samples::zeroed(a.sample, window as usize * pixels);
    let mut first = 0;
    while first < a.frame_count {
        task.check()?;
        let samples = window.min(a.frame_count - first) as usize * pixels;
        dark.read(first, buffer.head_mut(samples), task)?;
        let read = buffer.head(samples);
        hash.update(read.little_endian());
        let SamplesRef::F32(read) = read else { return Err(mismatch("the dark frames are no floats")) };
        for frame in read.chunks_exact(pixels) {
            for (sum, &sample) in sums.iter_mut().zip(frame) {
                *sum += f64::from(sample);
            }
        }
        first += (samples / pixels) as u64;
    }
    let values: Vec<f32> = sums.into_iter().map(|sum| (sum / a.frame_count as f64) as f32).collect();
    if let Some(pixel) = values.iter().position(|v| !v.is_finite()) {
        let (row, col) = (pixel / a.detector.cols(), pixel % a.detector.cols());
        let message = format!("the mean of `{}` at row {row}, column {col} is not finite", a.label);
        return Err(mismatch(message).with("pixel", pixel));
    }
    hash.update(SamplesRef::F32(&values).little_endian());
    dark.check_unchanged()?;
    data.check_unchanged()?;
    Ok(MeanDark { values, identity: hash.finalize().into(), frames: a.frame_count, exposure_compared })
}

fn mismatch(message: impl Into<String>) -> Error {
    Error::new(SourceCode::DarkMismatch, message)
}

/// Whether exposures were compared.
fn belong_together(data: &Acquisition, dark: &Acquisition) -> Result<bool> {
    for a in [data, dark] {
        if let BackgroundSubtraction::AlreadySubtracted { file, sentence } = &a.background {
            let message = format!("`{file}` says of `{}`: \"{sentence}\"", a.label);
            return Err(Error::new(SourceCode::AlreadySubtracted, message)
                .hint("use these frames as they are; a second subtraction would be wrong"));
        }
    }
    let same = (&data.format, data.detector, data.sample) == (&dark.format, dark.detector, dark.sample);
    if !same || data.sample != SampleType::F32 {
        return Err(mismatch(format!(
            "`{}` is {} {} of {}, `{}` is {} {} of {}; both must be the same float32 format",
            data.label,
            data.detector,
            data.sample,
            data.format,
            dark.label,
            dark.detector,
            dark.sample,
            dark.format
        )));
    }
    let files = |a: &Acquisition| -> Result<BTreeSet<_>> {
        a.members
            .iter()
            .filter(|m| m.role == MemberRole::Data)
            .map(|m| Fingerprint::of(&m.path).map(|f| f.id()))
            .collect()
    };
    if !files(data)?.is_disjoint(&files(dark)?) {
        return Err(mismatch(format!("`{}` cannot be the dark of itself", data.label)));
    }
    let exposure = |a: &Acquisition| a.quantities.get(&Quantity::DwellTime).map(|r| r.value);
    let (Some(of_data), Some(of_dark)) = (exposure(data), exposure(dark)) else { return Ok(false) };
    if (of_data - of_dark).abs() > EXPOSURE_TOLERANCE * of_data {
        let message = format!(
            "`{}` was exposed for {of_data} us, its dark `{}` for {of_dark} us",
            data.label, dark.label
        );
        return Err(mismatch(message));
    }
    Ok(true)
}
