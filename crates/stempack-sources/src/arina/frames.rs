//! Frames across stacks, decoded into the caller's buffer; damage names its file and frame.

use super::layout::Stack;
use crate::flat::digest_members;
use crate::hdf5::{DatasetIndex, ReadCause, ReadFailure};
use crate::identity::Fingerprints;
use crate::request;
use std::fs::File;
use stempack_codecs::planes::TRANSPOSED_BLOCK_BYTES;
use stempack_model::{Acquisition, Error, FrameSource, MemberDigest, Result, SamplesMut, Task};

/// An opened acquisition.
pub(super) struct ArinaSource {
    acquisition: Acquisition,
    /// In frame order, each with its first frame.
    stacks: Vec<(u64, Stack)>,
    fingerprints: Fingerprints,
}

impl ArinaSource {
    pub(super) fn new(mut acquisition: Acquisition, stacks: Vec<Stack>, fingerprints: Fingerprints) -> Self {
        acquisition.judge_quantities();
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

    /// Has each stack's part of the frames read into its part of the buffer, until one says `false`.
    fn each_stack(
        &self,
        first_frame: u64,
        mut into: SamplesMut<'_>,
        mut read: impl FnMut(&DatasetIndex, &File, u64, &mut [u8]) -> Result<bool, ReadFailure>,
    ) -> Result<bool> {
        let end = request::frames(&self.acquisition, first_frame, &into)?.end;
        let frame_bytes = self.acquisition.detector.pixels() * self.acquisition.sample.bytes();
        let mut rest: &mut [u8] = into.as_bytes_mut();
        for (begins, stack) in &self.stacks {
            let (from, to) = (first_frame.max(*begins), end.min(begins + stack.frames));
            if from >= to {
                continue;
            }
            let (here, after) = rest.split_at_mut((to - from) as usize * frame_bytes);
            rest = after;
            let file = self.fingerprints.open(stack.index.file())?;
            let read = read(&stack.index, &file, from - begins, here);
            if !read.map_err(|failure| self.explain(stack, *begins, failure))? {
                return Ok(false);
            }
        }
        Ok(true)
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
        let read = |index: &DatasetIndex, file: &File, row, out: &mut [u8]| {
            index.read_rows(file, row, out, task).map(|()| true)
        };
        self.each_stack(first_frame, into, read).map(drop)
    }

    fn read_transposed(
        &self,
        first_frame: u64,
        into: SamplesMut<'_>,
        planes: &mut [u16],
        task: &Task,
    ) -> Result<bool> {
        let frame_bytes = self.acquisition.detector.pixels() * self.acquisition.sample.bytes();
        let blocks = frame_bytes.div_ceil(TRANSPOSED_BLOCK_BYTES);
        let mut rest = planes;
        let read = |index: &DatasetIndex, file: &File, row, out: &mut [u8]| {
            let (here, after) = std::mem::take(&mut rest).split_at_mut(out.len() / frame_bytes * blocks);
            rest = after;
            index.read_rows_transposed(file, row, out, here, task)
        };
        self.each_stack(first_frame, into, read)
    }

    fn frames_together(&self) -> u64 {
        self.stacks.iter().map(|(_, stack)| stack.index.frames_together(1)).max().unwrap_or(1)
    }

    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        digest_members(&self.acquisition, &self.fingerprints, task)
    }

    fn check_unchanged(&self) -> Result<()> {
        self.fingerprints.check()
    }
}
