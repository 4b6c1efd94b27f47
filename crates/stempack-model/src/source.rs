//! The contract every reader of an original fulfils and every packer and engine relies on.

use crate::{Acquisition, MemberRole, Result, SamplesMut, Task};

/// Content digest of one member file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDigest {
    /// Index into [`Acquisition::members`].
    pub member: usize,
    /// What the member is for.
    pub role: MemberRole,
    /// SHA-256 of the whole file.
    pub sha256: [u8; 32],
}

/// Frames of one acquisition, decoded on demand into the caller's buffers.
///
/// Frame `i` belongs to scan position `(i / scan_cols, i % scan_cols)`; its samples are row-major.
pub trait FrameSource: Send + Sync {
    /// What the acquisition is.
    fn acquisition(&self) -> &Acquisition;

    /// Decodes consecutive frames starting at `first_frame` into `into`, whose length is a whole number of frames
    /// and whose type is [`Acquisition::sample`]. Raw values: exclusions are not applied.
    ///
    /// # Errors
    /// `out_of_range` for frames that do not exist; the reader's own codes for damaged data, naming file and frame;
    /// `cancelled`.
    fn read(&self, first_frame: u64, into: SamplesMut<'_>, task: &Task) -> Result<()>;

    /// Reads frames as [`FrameSource::read`] does, but leaves their bits transposed, if that is how all of them are stored:
    /// 8- or 16-bit counts in blocks of 8192 bytes, the last one shorter; in each block the lowest bit of all counts, then
    /// the next; the bit of the first count the lowest of its byte. Returns whether they are stored so.
    ///
    /// `planes` gets, for each frame and block, which bits some count has, the lowest bit standing for the lowest. What
    /// `into` holds of other bits is unspecified, and all of it where frames are stored otherwise.
    ///
    /// # Errors
    /// Those of [`FrameSource::read`].
    fn read_transposed(
        &self,
        first_frame: u64,
        into: SamplesMut<'_>,
        planes: &mut [u16],
        task: &Task,
    ) -> Result<bool> {
        let _ = (first_frame, into, planes, task);
        Ok(false)
    }

    /// How many consecutive frames, from a multiple of that number on, are stored so that reading one decodes all of them.
    fn frames_together(&self) -> u64 {
        1
    }

    /// Hashes every member file.
    ///
    /// # Errors
    /// `io`, `cancelled`.
    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>>;

    /// Fails when any member is no longer the file that was opened.
    ///
    /// # Errors
    /// A code of kind [`Changed`](crate::Kind::Changed).
    fn check_unchanged(&self) -> Result<()>;

    /// SHA-256 of the raw little-endian samples of all frames in order, where the source records it. Whoever reads all
    /// frames compares.
    fn recorded_sha256(&self) -> Option<[u8; 32]> {
        None
    }

    /// The reader itself, where it reads a container that can be saved again as it is, without decoding.
    fn as_container(&self) -> Option<&dyn std::any::Any> {
        None
    }
}
