//! Frames across stacks, decoded into the caller's buffer; damage names its file and frame.

use super::layout::Stack;
use crate::error::SourceCode;
use crate::hdf5::{ReadCause, ReadFailure};
use crate::identity::{Fingerprints, digest_files};
use std::path::Path;
use stempack_model::{Acquisition, Error, FrameSource, MemberDigest, ModelCode, Result, SamplesMut, Task};

/// An opened acquisition.
pub(super) struct ArinaSource {
    acquisition: Acquisition,
    /// In frame order, each with its first frame.
    stacks: Vec<(u64, Stack)>,
    fingerprints: Fingerprints,
}

impl ArinaSource {
    pub(super) fn new(acquisition: Acquisition, stacks: Vec<Stack>, fingerprints: Fingerprints) -> Self {
        let mut first = 0;
        let stacks = stacks
            .into_iter()
            .map(|stack| {
                let begins = first;
                first += stack.frames;
                (begins, stack)
            })
            .collect();
        ArinaSource { acquisition, stacks, fingerprints }
    }

    fn explain(&self, stack: &Stack, begins: u64, failure: ReadFailure) -> Error {
        let (first, last) = (begins + failure.rows.start, begins + failure.rows.end.saturating_sub(1));
        let frames = if first >= last {
            format!("frame {} (index {first})", first + 1)
        } else {
            format!("frames {} to {} (index {first} to {last})", first + 1, last + 1)
        };
        let damaged = !matches!(failure.cause, ReadCause::Stopped(_));
        let error = stack.index.explain(failure, &format!("`{}`, {frames}", stack.index.file_name()));
        if damaged { error.with("frame_index", first) } else { error }
    }
}

impl FrameSource for ArinaSource {
    fn acquisition(&self) -> &Acquisition {
        &self.acquisition
    }

    fn read(&self, first_frame: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        let wanted = self.acquisition.sample;
        if into.sample_type() != wanted {
            return Err(Error::new(
                SourceCode::WrongBuffer,
                format!("a buffer of {} for frames of {wanted}", into.sample_type()),
            ));
        }
        let pixels = self.acquisition.detector.pixels();
        if !into.len().is_multiple_of(pixels) {
            return Err(Error::new(
                SourceCode::WrongBuffer,
                format!("a buffer of {} samples for frames of {pixels}", into.len()),
            ));
        }
        let count = (into.len() / pixels) as u64;
        let total = self.acquisition.frame_count;
        let end = first_frame.checked_add(count).filter(|&end| end <= total).ok_or_else(|| {
            Error::new(
                ModelCode::OutOfRange,
                format!("frame {first_frame} and {count} in all are asked for, there are {total}"),
            )
            .with("frame_index", first_frame)
        })?;
        let frame_bytes = pixels * wanted.bytes();
        let mut rest: &mut [u8] = match into {
            SamplesMut::U8(samples) => samples,
            SamplesMut::U16(samples) => bytemuck::cast_slice_mut(samples),
            SamplesMut::U32(samples) => bytemuck::cast_slice_mut(samples),
        };
        for (begins, stack) in &self.stacks {
            let (from, to) = (first_frame.max(*begins), end.min(begins + stack.frames));
            if from >= to {
                continue;
            }
            let (here, after) = rest.split_at_mut((to - from) as usize * frame_bytes);
            rest = after;
            let file = self.fingerprints.open(stack.index.file())?;
            stack
                .index
                .read_rows(&file, from - begins, here, task)
                .map_err(|failure| self.explain(stack, *begins, failure))?;
        }
        Ok(())
    }

    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        let members = &self.acquisition.members;
        let paths: Vec<&Path> = members.iter().map(|m| m.path.as_path()).collect();
        let digests = digest_files(&self.fingerprints, &paths, task)?;
        Ok(members
            .iter()
            .zip(digests)
            .enumerate()
            .map(|(member, (m, sha256))| MemberDigest { member, role: m.role, sha256 })
            .collect())
    }

    fn check_unchanged(&self) -> Result<()> {
        self.fingerprints.check()
    }
}
