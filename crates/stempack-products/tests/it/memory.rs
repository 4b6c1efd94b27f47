//! An acquisition in memory, for streaming products.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stempack_model::{
    Acquisition, DetectorShape, Error, Exclusions, FrameSource, MaskOrigin, MemberDigest, ModelCode, Result,
    SampleType, SamplesMut, ScanEvidence, ScanShape, Shape4, Task,
};

pub(crate) struct Memory {
    acquisition: Acquisition,
    values: Vec<u32>,
    /// Largest window that was asked for, in bytes.
    pub(crate) largest: AtomicU64,
    /// Frame whose reading fails.
    pub(crate) damaged: Option<u64>,
    /// Whether the source pretends to have changed.
    pub(crate) changed: AtomicBool,
}

pub(crate) fn excluding(pixels: &[u32]) -> Exclusions {
    Exclusions { pixels: pixels.to_vec(), mask_sha256: [0; 32], origin: MaskOrigin::SourceMask }
}

pub(crate) fn shape4(scan: (u64, u64), detector: (u64, u64)) -> Shape4 {
    Shape4 {
        scan: ScanShape::new(scan.0, scan.1).unwrap(),
        detector: DetectorShape::new(detector.0, detector.1).unwrap(),
    }
}

impl Memory {
    pub(crate) fn new(shape: Shape4, sample: SampleType, excluded: &[u32], values: Vec<u32>) -> Memory {
        assert_eq!(values.len() as u64, shape.samples().unwrap());
        Memory {
            acquisition: Acquisition {
                label: "memory".into(),
                format: "memory".into(),
                reader: "memory/1".into(),
                frame_count: shape.scan.positions() as u64,
                scan: Some(ScanEvidence { shape: shape.scan, evidence: "test".into(), stated: true }),
                detector: shape.detector,
                sample,
                excluded: excluding(excluded),
                quantities: BTreeMap::new(),
                identity: BTreeMap::new(),
                provenance: BTreeMap::new(),
                warnings: Vec::new(),
                members: Vec::new(),
                retained: Vec::new(),
                retained_left_out: 0,
            },
            values,
            largest: AtomicU64::new(0),
            damaged: None,
            changed: AtomicBool::new(false),
        }
    }
    pub(crate) fn edit(mut self, change: impl FnOnce(&mut Acquisition)) -> Memory {
        change(&mut self.acquisition);
        self
    }
    pub(crate) fn shared(self) -> Arc<Memory> {
        Arc::new(self)
    }
}

impl FrameSource for Memory {
    fn acquisition(&self) -> &Acquisition {
        &self.acquisition
    }
    fn read(&self, first_frame: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        task.check()?;
        let pixels = self.acquisition.detector.pixels();
        let begin = first_frame as usize * pixels;
        let last = first_frame + (into.len() / pixels) as u64;
        if self.damaged.is_some_and(|f| (first_frame..last).contains(&f)) {
            return Err(Error::new(ModelCode::Io, "a damaged frame"));
        }
        self.largest.fetch_max((into.len() * into.sample_type().bytes()) as u64, Ordering::Relaxed);
        let values = self
            .values
            .get(begin..begin + into.len())
            .ok_or_else(|| Error::new(ModelCode::OutOfRange, "no such frame"))?;
        match into {
            SamplesMut::U8(v) => v.iter_mut().zip(values).for_each(|(o, &x)| *o = x as u8),
            SamplesMut::U16(v) => v.iter_mut().zip(values).for_each(|(o, &x)| *o = x as u16),
            SamplesMut::U32(v) => v.copy_from_slice(values),
        }
        Ok(())
    }
    fn digest_members(&self, _: &Task) -> Result<Vec<MemberDigest>> {
        Ok(Vec::new())
    }
    fn check_unchanged(&self) -> Result<()> {
        if self.changed.load(Ordering::Relaxed) {
            return Err(Error::new(ModelCode::Io, "the source changed"));
        }
        Ok(())
    }
}
