//! Frames of an indexed array, decoded into the caller's buffer; damage names file, dataset and frame.

use crate::background;
use crate::flat::digest_members;
use crate::hdf5::{DatasetIndex, FrameFailure, ReadCause};
use crate::identity::Fingerprints;
use crate::request;
use stempack_model::{Acquisition, Error, FrameSource, MemberDigest, Result, SamplesMut, Task};

/// An opened array.
pub(super) struct EmdSource {
    acquisition: Acquisition,
    index: DatasetIndex,
    /// How many of its leading axes count frames.
    axes: usize,
    fingerprints: Fingerprints,
}

impl EmdSource {
    pub(super) fn new(
        mut acquisition: Acquisition,
        index: DatasetIndex,
        axes: usize,
        fingerprints: Fingerprints,
    ) -> Self {
        acquisition.judge_quantities();
        EmdSource { acquisition, index, axes, fingerprints }
    }

    /// With what a supplier's README says of the file.
    pub(super) fn with_background(mut self) -> Result<Self> {
        let said = background::evidence(self.index.file(), &[]);
        said.attach(&mut self.acquisition, &mut self.fingerprints)?;
        Ok(self)
    }

    fn explain(&self, failed: FrameFailure) -> Error {
        let FrameFailure { first, count, failure } = failed;
        let others = match count {
            0 | 1 => String::new(),
            n => format!(" and {} more of those asked for", n - 1),
        };
        let place = format!(
            "`{}` of `{}`, frame {} (index {first}){others}",
            self.index.object(),
            self.index.file_name(),
            first + 1
        );
        let damaged = !matches!(failure.cause, ReadCause::Stopped(_));
        let error = self.index.explain(failure, &place);
        if damaged { error.with("frame_index", first) } else { error }
    }
}

impl FrameSource for EmdSource {
    fn acquisition(&self) -> &Acquisition {
        &self.acquisition
    }

    fn read(&self, first_frame: u64, mut into: SamplesMut<'_>, task: &Task) -> Result<()> {
        let frames = request::frames(&self.acquisition, first_frame, &into)?;
        let file = self.fingerprints.open(self.index.file())?;
        self.index
            .read_frames(&file, self.axes, frames.start, into.as_bytes_mut(), task)
            .map_err(|failed| self.explain(failed))
    }

    fn frames_together(&self) -> u64 {
        self.index.frames_together(self.axes)
    }

    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        digest_members(&self.acquisition, &self.fingerprints, task)
    }

    fn check_unchanged(&self) -> Result<()> {
        self.fingerprints.check()
    }
}
