//! Frames out of packed shards: raw or working, in samples of one type.

use super::manifest::{Manifest, RawAccess};
use super::open::PackFile;
use crate::ContainerCode;
use rayon::prelude::*;
use stempack_codecs::counts::{Counts, expand_tile};
use stempack_codecs::tile::Unpack;
use stempack_model::{Error, Result, SampleType, SamplesMut};

/// Which of the two arrays: what the detector wrote, or what products see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The detector's own values.
    Raw,
    /// Zero at excluded pixels.
    Working,
}

#[derive(Clone, Debug)]
enum Fill {
    Keep,
    Zero,
    Values(Vec<u32>),
}

/// Decodes frames of packed shards into samples of one type.
#[derive(Clone, Debug)]
pub struct FrameDecoder {
    kind: FrameKind,
    sample: SampleType,
    excluded: Vec<u32>,
    fill: Fill,
    unpack: Unpack,
}

impl PackFile {
    /// How to decode frames of this file.
    ///
    /// # Errors
    /// `raw_not_available` for raw frames of a file that cannot prove them.
    pub fn decoder(&self, kind: FrameKind) -> Result<FrameDecoder> {
        self.decoder_of(self.manifest(), kind)
    }

    /// The same under another manifest of this file.
    pub(super) fn decoder_of(&self, m: &Manifest, kind: FrameKind) -> Result<FrameDecoder> {
        let excluded = self.index.excluded.clone();
        let (sample, fill) = match kind {
            FrameKind::Working => (m.working.sample_type(), Fill::Zero),
            FrameKind::Raw => {
                let sample = m.source_note.as_ref().map_or(SampleType::U16, |n| n.sample);
                let fill = match m.raw_access {
                    RawAccess::NoExclusions | RawAccess::RetainedPayload => Fill::Keep,
                    RawAccess::ExclusionConstants => {
                        Fill::Values(m.raw_values.iter().flatten().map(|&v| v.into()).collect())
                    }
                    RawAccess::ExtensionConstants => Fill::Values(
                        m.source_note
                            .iter()
                            .flat_map(|n| n.excluded_raw_values.iter().flatten())
                            .copied()
                            .collect(),
                    ),
                    RawAccess::MaskAppliedOnly | RawAccess::ExternalAudit => {
                        return Err(Error::new(
                            ContainerCode::RawNotAvailable,
                            format!(
                                "`{}` cannot prove the detector's own values (raw access is {})",
                                self.path().display(),
                                m.raw_access.as_str()
                            ),
                        )
                        .hint("read the working array, or pack the original acquisition again"));
                    }
                };
                (sample, fill)
            }
        };
        Ok(FrameDecoder { kind, sample, excluded, fill, unpack: Unpack::detect() })
    }
}

impl FrameDecoder {
    /// A decoder of working frames from shards that hold no working value wider than their counts.
    pub fn working(sample: SampleType, excluded: Vec<u32>) -> Self {
        let fill = Fill::Zero;
        FrameDecoder { kind: FrameKind::Working, sample, excluded, fill, unpack: Unpack::detect() }
    }
    /// A decoder of raw frames from shards that hold every value but those of the given pixels, which are constants.
    pub fn raw(sample: SampleType, constants: &[(u32, u32)]) -> Self {
        let (excluded, values) = constants.iter().copied().unzip();
        let fill = Fill::Values(values);
        FrameDecoder { kind: FrameKind::Raw, sample, excluded, fill, unpack: Unpack::detect() }
    }
    /// The same frames in samples of another type, which must hold them.
    pub(super) fn giving(self, sample: SampleType) -> Self {
        FrameDecoder { sample, ..self }
    }
    /// Raw or working.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }
    /// The type of the samples it gives.
    pub fn sample_type(&self) -> SampleType {
        self.sample
    }
    /// Decodes consecutive frames of a shard in any form, starting at `first_scan` within it.
    ///
    /// # Panics
    /// When `out` has another type than [`Self::sample_type`], is not a whole number of frames, or asks for scans that
    /// the shard does not have.
    pub fn decode(&self, shard: &impl Counts, first_scan: usize, out: SamplesMut<'_>) {
        assert_eq!(out.sample_type(), self.sample);
        match out {
            SamplesMut::U8(out) => self.typed(shard, first_scan, out, |v| v as u8, |v| v as u8),
            SamplesMut::U16(out) => self.typed(shard, first_scan, out, |v| v, |v| v as u16),
            SamplesMut::U32(out) => self.typed(shard, first_scan, out, u32::from, |v| v),
            SamplesMut::U64(out) => self.typed(shard, first_scan, out, u64::from, u64::from),
            SamplesMut::I8(out) => self.typed(shard, first_scan, out, |v| v as i8, |v| v as i8),
            SamplesMut::I16(out) => self.typed(shard, first_scan, out, |v| v as i16, |v| v as i16),
            SamplesMut::I32(out) => self.typed(shard, first_scan, out, i32::from, |v| v as i32),
            SamplesMut::I64(out) => self.typed(shard, first_scan, out, i64::from, i64::from),
            SamplesMut::F32(_) | SamplesMut::F64(_) => unreachable!("manifests name integer types only"),
        }
    }

    fn typed<T: Copy + Default + Send + Sync>(
        &self,
        shard: &impl Counts,
        first_scan: usize,
        out: &mut [T],
        from_count: impl Fn(u16) -> T + Sync,
        from_constant: impl Fn(u32) -> T + Sync,
    ) {
        let pixels = shard.pixels();
        /// Pixels of a frame that one thread takes.
        const PART: usize = 2048;
        assert!(out.len().is_multiple_of(pixels) && first_scan + out.len() / pixels <= shard.scans());
        let per_tile = shard.tile_scans();
        if out.len() == pixels {
            out.par_chunks_mut(PART).enumerate().for_each(|(k, part)| {
                let mut counts = [0; PART];
                let counts = &mut counts[..part.len()];
                shard.frame(first_scan, k * PART, counts);
                part.iter_mut().zip(counts).for_each(|(sample, count)| *sample = from_count(*count));
            });
        } else {
            // Cut at tile boundaries: a first part up to the next boundary, then whole tiles and a rest.
            let head = (per_tile - first_scan % per_tile).min(out.len() / pixels) * pixels;
            let (head, rest) = out.split_at_mut(head);
            rayon::join(
                || self.tile_part(shard, first_scan, head, &from_count),
                || {
                    let start = first_scan + head_len(first_scan, per_tile);
                    rest.par_chunks_mut(per_tile * pixels).enumerate().for_each(|(t, part)| {
                        self.tile_part(shard, start + t * per_tile, part, &from_count);
                    });
                },
            );
        }
        for frame in out.chunks_exact_mut(pixels) {
            match &self.fill {
                Fill::Keep => break,
                Fill::Zero => self.excluded.iter().for_each(|&p| frame[p as usize] = T::default()),
                Fill::Values(values) => {
                    self.excluded
                        .iter()
                        .zip(values)
                        .for_each(|(&p, &v)| frame[p as usize] = from_constant(v));
                }
            }
        }
    }

    /// Frames that all lie in one tile.
    fn tile_part<T: Copy + Default>(
        &self,
        shard: &impl Counts,
        first_scan: usize,
        out: &mut [T],
        from_count: &impl Fn(u16) -> T,
    ) {
        if out.is_empty() {
            return;
        }
        let per_tile = shard.tile_scans();
        let (tile, skip) = (first_scan / per_tile, first_scan % per_tile);
        if skip == 0 {
            expand_tile(shard, self.unpack, tile, out, from_count);
        } else {
            let pixels = shard.pixels();
            let mut whole = vec![T::default(); skip * pixels + out.len()];
            expand_tile(shard, self.unpack, tile, &mut whole, from_count);
            out.copy_from_slice(&whole[skip * pixels..]);
        }
    }
}

fn head_len(first_scan: usize, per_tile: usize) -> usize {
    per_tile - first_scan % per_tile
}
