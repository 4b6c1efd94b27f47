//! A frame source whose frames lie in memory.

use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stempack_model::{
    Acquisition, DetectorShape, Error, Exclusions, FrameSource, MaskOrigin, Member, MemberDigest, MemberRole,
    ModelCode, Result, SampleType, Samples, SamplesMut, ScanEvidence, ScanShape, Task,
};

/// An acquisition with nothing recorded but its shape.
///
/// # Panics
/// On an invalid shape.
pub fn quiet_acquisition(scan: (usize, usize), detector: (usize, usize), sample: SampleType) -> Acquisition {
    let scan = ScanShape::new(scan.0 as u64, scan.1 as u64).expect("valid scan");
    let detector = DetectorShape::new(detector.0 as u64, detector.1 as u64).expect("valid detector");
    let excluded = Exclusions {
        pixels: Vec::new(),
        mask_sha256: mask_digest(detector.pixels(), &[]),
        origin: MaskOrigin::ImplicitAllAdmitted,
    };
    let frames = scan.positions() as u64;
    let mut acquisition = Acquisition::new("memory", "memory/v1", frames, detector, sample, excluded);
    acquisition.label = "memory".into();
    acquisition.scan = Some(ScanEvidence { shape: scan, evidence: "test".into(), stated: false });
    acquisition.members = vec![Member { path: "memory".into(), role: MemberRole::Data, bytes: 1 }];
    acquisition
}

fn mask_digest(pixels: usize, excluded: &[u32]) -> [u8; 32] {
    let mut words = vec![0u8; 4 * pixels];
    excluded.iter().for_each(|&p| words[4 * p as usize] = 1);
    Sha256::digest(&words).into()
}

/// Frames in memory, with a fault to inject.
pub struct MemorySource {
    acquisition: Acquisition,
    frames: Samples,
    /// Report a change at the end.
    pub changed: AtomicBool,
    /// Fail the read of this frame.
    pub fail_at: Option<u64>,
    /// Frames read so far.
    pub read: AtomicU64,
    /// Bytes of the largest window that was asked for.
    pub largest: AtomicU64,
    /// Frames stored together.
    pub together: u64,
}

impl MemorySource {
    /// A source of the given frames, row-major.
    ///
    /// # Panics
    /// When the frames do not have the shape.
    pub fn new(scan: (usize, usize), detector: (usize, usize), frames: Samples) -> Self {
        let acquisition = quiet_acquisition(scan, detector, frames.sample_type());
        assert_eq!(frames.len(), scan.0 * scan.1 * detector.0 * detector.1);
        MemorySource {
            acquisition,
            frames,
            changed: AtomicBool::new(false),
            fail_at: None,
            read: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            together: 1,
        }
    }
    /// Excludes pixels (ascending).
    #[must_use]
    pub fn excluding(mut self, pixels: &[u32]) -> Self {
        let excluded = &mut self.acquisition.excluded;
        excluded.pixels = pixels.to_vec();
        excluded.origin = MaskOrigin::SourceMask;
        excluded.mask_sha256 = mask_digest(self.acquisition.detector.pixels(), pixels);
        self
    }
    /// Says that so many frames are stored together.
    #[must_use]
    pub fn stored_together(mut self, frames: u64) -> Self {
        self.together = frames;
        self
    }
    /// Changes the description.
    #[must_use]
    pub fn describe(mut self, change: impl FnOnce(&mut Acquisition)) -> Self {
        change(&mut self.acquisition);
        self
    }
    /// The frames.
    pub fn frames(&self) -> &Samples {
        &self.frames
    }
}

impl FrameSource for MemorySource {
    fn acquisition(&self) -> &Acquisition {
        &self.acquisition
    }
    fn read(&self, first_frame: u64, mut into: SamplesMut<'_>, task: &Task) -> Result<()> {
        task.check()?;
        let pixels = self.acquisition.detector.pixels();
        let (start, len) = (first_frame as usize * pixels, into.len());
        let count = (len / pixels) as u64;
        if self.fail_at.is_some_and(|f| (first_frame..first_frame + count).contains(&f)) {
            return Err(Error::new(ModelCode::Io, "injected fault"));
        }
        self.read.fetch_add(count, Ordering::Relaxed);
        self.largest.fetch_max((len * into.sample_type().bytes()) as u64, Ordering::Relaxed);
        if !into.copy_from(self.frames.as_ref().slice(start..start + len)) {
            return Err(Error::new(ModelCode::OutOfRange, "buffer of another sample type"));
        }
        Ok(())
    }
    fn frames_together(&self) -> u64 {
        self.together
    }
    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        task.check()?;
        let hasher = Sha256::new_with_prefix(self.frames.as_ref().little_endian());
        Ok(vec![MemberDigest { member: 0, role: MemberRole::Data, sha256: hasher.finalize().into() }])
    }
    fn check_unchanged(&self) -> Result<()> {
        if self.changed.load(Ordering::Relaxed) {
            return Err(Error::new(ModelCode::Io, "injected change"));
        }
        Ok(())
    }
}

/// One sample as an unsigned count.
///
/// # Panics
/// For floats and negative integers.
pub fn count(samples: &Samples, index: usize) -> u64 {
    let value = samples.as_ref().integer(index).expect("integers");
    value.try_into().expect("a count")
}
