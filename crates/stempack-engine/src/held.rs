//! A shard as it is held in memory, in one of two forms, with what reductions need to know about it.
//!
//! *Packed* is what a file holds: nothing was computed to get there, and one question costs little more than the pixels it
//! asks for. *Arranged* in bit planes, the same counts are summed several times faster and in the order in which they lie
//! in memory; getting there unpacks everything once.

use rayon::prelude::*;
use std::sync::Arc;
use stempack_codecs::counts::Counts;
use stempack_codecs::planes::{BLOCK_SCANS, PlaneShard, arrange};
use stempack_codecs::shard::PackedShard;
use stempack_codecs::tile::Unpack;
use stempack_containers::pack::{LoadedShard, MappedPack};
use stempack_model::{Result, Task};

/// A shard and the largest width of each of its pixels.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) form: Form,
    pub(crate) max_widths: Vec<u8>,
    /// Where the packed form lies, if that is a file's map.
    pub(crate) map: Option<Arc<MappedPack>>,
}

#[derive(Debug)]
pub(crate) enum Form {
    Packed(PackedShard),
    Arranged(PlaneShard),
}

impl From<LoadedShard> for Held {
    fn from(loaded: LoadedShard) -> Self {
        Held { form: Form::Packed(loaded.shard), max_widths: loaded.max_widths, map: None }
    }
}

/// Fails when a file has changed in whose map one of the shards lies: whatever was computed from them is not to be used.
///
/// # Errors
/// `container_changed`; `io`.
pub(crate) fn check_unchanged<H: AsRef<Held>>(held: &[H]) -> Result<()> {
    // All of a resident lie in the same map.
    held.iter().find_map(|held| held.as_ref().map.as_ref()).map_or(Ok(()), |map| map.check_unchanged())
}

impl AsRef<Held> for Held {
    fn as_ref(&self) -> &Held {
        self
    }
}

impl Held {
    /// A shard that was loaded through `map`.
    pub(crate) fn mapped(loaded: LoadedShard, map: &Arc<MappedPack>) -> Self {
        Held { map: loaded.in_map.then(|| map.clone()), ..Held::from(loaded) }
    }
    /// Bytes that lie in a file's map, among those held.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        match (&self.form, &self.map) {
            (Form::Packed(shard), Some(_)) => shard.payload_bytes(),
            _ => 0,
        }
    }
    /// Bytes held in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let form = match &self.form {
            Form::Packed(shard) => shard.resident_bytes(),
            Form::Arranged(planes) => planes.resident_bytes(),
        };
        form + self.max_widths.len() as u64
    }
    /// The most bytes that the arranged form takes; nothing when it is in it.
    pub(crate) fn arranged_bound(&self) -> u64 {
        match &self.form {
            Form::Packed(shard) => PlaneShard::bound_bytes(shard, &self.max_widths),
            Form::Arranged(_) => 0,
        }
    }
    /// Bytes that hold the counts of one pixel.
    pub(crate) fn pixel_bytes(&self, pixel: usize) -> u64 {
        match &self.form {
            Form::Packed(shard) => shard.pixel_bytes(pixel),
            Form::Arranged(planes) => planes.blocks().iter().map(|b| b.pixel_bytes(pixel)).sum(),
        }
    }
    /// The same counts in bit planes; nothing when they are.
    ///
    /// # Errors
    /// `cancelled`; `container_changed` when it lies in the map of a file that has changed.
    pub(crate) fn arranged(&self, task: &Task) -> Result<Option<Held>> {
        let Form::Packed(shard) = &self.form else { return Ok(None) };
        let blocks = (0..shard.scans().div_ceil(BLOCK_SCANS))
            .into_par_iter()
            .map(|block| {
                task.check()?;
                Ok(arrange(shard, block))
            })
            .collect::<Result<Vec<_>>>()?;
        let planes = PlaneShard::new(shard.pixels(), blocks);
        check_unchanged(&[self])?;
        Ok(Some(Held { form: Form::Arranged(planes), max_widths: self.max_widths.clone(), map: None }))
    }
}

impl Counts for Held {
    fn scans(&self) -> usize {
        match &self.form {
            Form::Packed(shard) => shard.scans(),
            Form::Arranged(planes) => planes.scans(),
        }
    }
    fn pixels(&self) -> usize {
        self.max_widths.len()
    }
    fn tile_scans(&self) -> usize {
        match &self.form {
            Form::Packed(shard) => shard.tile_scans(),
            Form::Arranged(planes) => planes.tile_scans(),
        }
    }
    fn frame(&self, scan: usize, first: usize, out: &mut [u16]) {
        match &self.form {
            Form::Packed(shard) => shard.frame(scan, first, out),
            Form::Arranged(planes) => planes.frame(scan, first, out),
        }
    }
    fn tile(&self, unpack: Unpack, pixel: usize, tile: usize, out: &mut [u16]) -> bool {
        match &self.form {
            Form::Packed(shard) => Counts::tile(shard, unpack, pixel, tile, out),
            Form::Arranged(planes) => planes.tile(unpack, pixel, tile, out),
        }
    }
}
