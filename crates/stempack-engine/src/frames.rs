//! Frames out of packed shards: what residents and shard readers share.

use crate::error::EngineCode;
use crate::held::Held;
use stempack_containers::ContainerCode;
use stempack_containers::pack::{FrameDecoder, FrameKind, PackFile};
use stempack_model::{Error, Exclusions, Result, SampleType, Samples, SamplesMut, Shape4, Task};

/// Shape, exclusions and decoders of a pack.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) shape: Shape4,
    pub(crate) exclusions: Exclusions,
    /// One entry per detector pixel.
    pub(crate) excluded: Vec<bool>,
    pub(crate) working: FrameDecoder,
    scans_per_shard: usize,
    raw: std::result::Result<FrameDecoder, String>,
}

/// Whoever has the shards, in memory or on request.
pub(crate) trait Shards {
    /// Calls `use_it` once with a validated shard.
    fn with(&self, ordinal: usize, use_it: &mut dyn FnMut(&Held)) -> Result<()>;
}

impl Frames {
    pub(crate) fn of(pack: &PackFile) -> Result<Self> {
        let mut excluded = vec![false; pack.shape().detector.pixels()];
        pack.excluded().iter().for_each(|&p| excluded[p as usize] = true);
        Ok(Frames {
            shape: pack.shape(),
            exclusions: pack.exclusions(),
            excluded,
            working: pack.decoder(FrameKind::Working)?,
            scans_per_shard: pack.scans_per_shard(),
            raw: pack.decoder(FrameKind::Raw).map_err(|e| e.message().to_owned()),
        })
    }

    /// Those of an original, which is held as one shard.
    pub(crate) fn of_source(
        shape: Shape4,
        exclusions: Exclusions,
        excluded: Vec<bool>,
        working: FrameDecoder,
        raw: FrameDecoder,
    ) -> Self {
        let scans_per_shard = shape.scan.positions();
        Frames { shape, exclusions, excluded, working, scans_per_shard, raw: Ok(raw) }
    }

    pub(crate) fn raw(&self) -> Result<&FrameDecoder> {
        self.raw.as_ref().map_err(|message| {
            Error::new(ContainerCode::RawNotAvailable, message.clone())
                .hint("read the working array, or pack the original acquisition again")
        })
    }

    pub(crate) fn raw_type(&self) -> SampleType {
        self.raw.as_ref().map_or(SampleType::U16, FrameDecoder::sample_type)
    }

    /// Decodes consecutive scan positions.
    pub(crate) fn positions(
        &self,
        decoder: &FrameDecoder,
        first: u64,
        into: SamplesMut<'_>,
        task: &Task,
        shards: &dyn Shards,
    ) -> Result<()> {
        check_positions(self.shape, decoder.sample_type(), first, &into)?;
        let pixels = self.shape.detector.pixels();
        let mut scan = first as usize;
        let mut rest = into;
        while !rest.is_empty() {
            task.check()?;
            let (ordinal, local) = (scan / self.scans_per_shard, scan % self.scans_per_shard);
            let take = (self.scans_per_shard - local).min(rest.len() / pixels);
            let (head, tail) = rest.split_at(take * pixels);
            let mut head = Some(head);
            shards.with(ordinal, &mut |shard| {
                if let Some(head) = head.take() {
                    decoder.decode(shard, local, head);
                }
            })?;
            rest = tail;
            scan += take;
        }
        Ok(())
    }

    /// One frame.
    pub(crate) fn frame(
        &self,
        decoder: &FrameDecoder,
        (row, col): (usize, usize),
        shards: &dyn Shards,
    ) -> Result<Samples> {
        let first = position(self.shape, (row, col))?;
        let mut frame = Samples::zeroed(decoder.sample_type(), self.shape.detector.pixels());
        self.positions(decoder, first, frame.as_mut(), &Task::new(), shards)?;
        Ok(frame)
    }
}

/// Whether a buffer is whole frames of the right type, of scan positions that exist.
pub(crate) fn check_positions(
    shape: Shape4,
    sample: SampleType,
    first: u64,
    into: &SamplesMut<'_>,
) -> Result<()> {
    let pixels = shape.detector.pixels();
    if into.sample_type() != sample || !into.len().is_multiple_of(pixels) {
        return Err(Error::new(
            EngineCode::BufferShape,
            format!(
                "buffer of {} {} samples, expected whole frames of {pixels} {sample}",
                into.len(),
                into.sample_type()
            ),
        ));
    }
    let (count, positions) = ((into.len() / pixels) as u64, shape.scan.positions() as u64);
    if first.checked_add(count).is_none_or(|end| end > positions) {
        return Err(Error::new(
            EngineCode::OutsideScan,
            format!("{count} scan positions from {first} on, the scan has {positions}"),
        ));
    }
    Ok(())
}

/// The number of a scan position.
pub(crate) fn position(shape: Shape4, (row, col): (usize, usize)) -> Result<u64> {
    let scan = shape.scan;
    if row >= scan.rows() || col >= scan.cols() {
        return Err(Error::new(
            EngineCode::OutsideScan,
            format!("scan position ({row}, {col}) lies outside the scan {scan}"),
        ));
    }
    Ok((row * scan.cols() + col) as u64)
}
