//! Whether a resident holds what a source holds: every raw frame is read again and compared, floats by their bits.

use crate::error::EngineCode;
use crate::resident::Resident;
use stempack_codecs::planes::BLOCK_SCANS;
use stempack_model::{Error, FrameSource, Result, Samples, SamplesRef, Task};
use stempack_products::Products;

impl Resident {
    /// Reads the source again and compares every raw frame with what the resident holds, floats bit for bit.
    ///
    /// Memory holds as many frames of both as are kept together, or fewer if the task's budget is small.
    ///
    /// # Errors
    /// `resident_not_equal`, naming the first scan position and pixel that differ; those of the source; `cancelled`.
    pub fn check_against(&self, source: &dyn FrameSource, task: &Task) -> Result<()> {
        let acquisition = source.acquisition();
        let (shape, sample) = (self.shape(), self.sample_type());
        let (pixels, total) = (shape.detector.pixels(), shape.scan.positions());
        if acquisition.detector != shape.detector || acquisition.frame_count != total as u64 {
            return Err(not_equal(format!(
                "the resident has {total} frames of {} pixels, `{}` has {} of {}",
                shape.detector, acquisition.label, acquisition.frame_count, acquisition.detector
            )));
        }
        if acquisition.sample != sample {
            return Err(not_equal(format!(
                "the resident gives {sample} samples, `{}` holds {}",
                acquisition.label, acquisition.sample
            )));
        }
        let room = task.memory_budget() / (2 * (pixels * sample.bytes()) as u64);
        let frames = BLOCK_SCANS.min(total).min(room.try_into().unwrap_or(usize::MAX)).max(1);
        let mut theirs = Samples::zeroed(sample, frames * pixels);
        let mut ours = Samples::zeroed(sample, frames * pixels);
        task.begin("compare", (total * pixels * sample.bytes()) as u64);
        let quiet = task.quiet();
        for first in (0..total).step_by(frames) {
            task.check()?;
            let count = frames.min(total - first) * pixels;
            let (read, decoded) = rayon::join(
                || source.read(first as u64, theirs.head_mut(count), &quiet),
                || self.raw_positions(first as u64, ours.head_mut(count), &quiet),
            );
            read?;
            decoded?;
            let (theirs, ours) = (theirs.head(count), ours.head(count));
            if let Some(at) = first_difference(theirs, ours) {
                let (scan, pixel) = (first + at / pixels, at % pixels);
                return Err(not_equal(format!(
                    "pixel {pixel} of scan position {scan} is {} in `{}` and {} in the resident",
                    shown(theirs, at),
                    acquisition.label,
                    shown(ours, at)
                ))
                .with("scan_position", scan)
                .with("pixel", pixel));
            }
            task.advance((count * sample.bytes()) as u64);
        }
        task.finish();
        source.check_unchanged()
    }
}

fn not_equal(message: String) -> Error {
    Error::new(EngineCode::NotEqual, message)
}

fn first_difference(a: SamplesRef<'_>, b: SamplesRef<'_>) -> Option<usize> {
    if let (SamplesRef::F32(a), SamplesRef::F32(b)) = (a, b) {
        return a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits());
    }
    if a == b {
        return None;
    }
    (0..a.len()).find(|&at| a.integer(at) != b.integer(at))
}

fn shown(samples: SamplesRef<'_>, at: usize) -> String {
    match samples {
        SamplesRef::F32(floats) => format!("{} ({:#010x})", floats[at], floats[at].to_bits()),
        other => other.integer(at).unwrap_or_default().to_string(),
    }
}
