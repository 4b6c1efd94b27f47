//! Frames of a `.qem` file for everyone who reads acquisitions.

use super::QemFile;
use crate::{ContainerCode, sha256_file};
use stempack_codecs::qem::BLOCK_SCANS;
use stempack_model::{
    Acquisition, Error, FrameSource, MemberDigest, MemberRole, ModelCode, Result, SamplesMut, Task,
};

impl FrameSource for QemFile {
    fn acquisition(&self) -> &Acquisition {
        self.described()
    }

    fn read(&self, first_frame: u64, mut into: SamplesMut<'_>, task: &Task) -> Result<()> {
        let pixels = self.shape().detector.pixels();
        let total = self.shape().scan.positions() as u64;
        let count = (into.len() / pixels) as u64;
        if into.sample_type() != self.described().sample || !into.len().is_multiple_of(pixels) {
            return Err(Error::new(
                ContainerCode::WrongBuffer,
                format!(
                    "a buffer of {} {} samples is no whole number of {} {} frames",
                    into.len(),
                    into.sample_type(),
                    self.shape().detector,
                    self.described().sample
                ),
            ));
        }
        let Some(stop) = first_frame.checked_add(count).filter(|&stop| stop <= total) else {
            return Err(Error::new(
                ModelCode::OutOfRange,
                format!("{count} frames from {first_frame} leave the {total} of the acquisition"),
            ));
        };
        let mut next = first_frame;
        while next < stop {
            task.check()?;
            let block = self.header.layout.block_at(next);
            let begin = (next - block.first) as usize;
            let end = (stop.min(block.stop()) - block.first) as usize;
            let offset = (next - first_frame) as usize * pixels;
            let mut out = into.reborrow().split_at(offset).1.split_at((end - begin) * pixels).0;
            // Whole blocks go straight to the caller; of a part, the rest may be asked for next.
            let frames = match self.kept_frames(block) {
                None if end - begin < block.scans => self.block_frames(block, task)?,
                kept => kept,
            };
            match frames {
                Some(frames) => {
                    let _same = out.copy_from(frames.as_ref().as_ref().slice(begin * pixels..end * pixels));
                    debug_assert!(_same);
                }
                None => self.decode(block, begin..end, out, task)?,
            }
            next = block.first + end as u64;
        }
        Ok(())
    }

    fn frames_together(&self) -> u64 {
        BLOCK_SCANS as u64
    }

    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        self.check_unchanged()?;
        let sha256 = sha256_file(self.path(), task)?.0;
        self.check_unchanged()?;
        Ok(vec![MemberDigest { member: 0, role: MemberRole::Data, sha256 }])
    }

    fn check_unchanged(&self) -> Result<()> {
        self.body.check_unchanged()
    }

    fn recorded_sha256(&self) -> Option<[u8; 32]> {
        self.logical_sha256().map(|d| d.0)
    }

    fn as_container(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}
