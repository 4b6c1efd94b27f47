//! A shard as it is held in memory, in one of two forms, with what reductions need to know about it.
//!
//! *Packed* is what a file holds: nothing was computed to get there, and one question costs little more than the pixels it
//! asks for. *Arranged* in bit planes, the same counts are summed several times faster and in the order in which they lie
//! in memory; getting there unpacks everything once.

use rayon::prelude::*;
use stempack_codecs::counts::Counts;
use stempack_codecs::planes::{BLOCK_SCANS, PlaneShard, arrange};
use stempack_codecs::shard::PackedShard;
use stempack_codecs::tile::Unpack;
use stempack_containers::pack::LoadedShard;
use stempack_model::{Result, Task};

/// A shard and the largest width of each of its pixels.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) form: Form,
    pub(crate) max_widths: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum Form {
    Packed(PackedShard),
    Arranged(PlaneShard),
}

impl From<LoadedShard> for Held {
    fn from(loaded: LoadedShard) -> Self {
        Held { form: Form::Packed(loaded.shard), max_widths: loaded.max_widths }
    }
}

impl Held {
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
    /// `cancelled`.
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
        Ok(Some(Held { form: Form::Arranged(planes), max_widths: self.max_widths.clone() }))
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
