//! Windows of frames out of a dataset whose leading axes are the scan, whatever the shape of its chunks.
//!
//! A frame is everything behind one index of each leading axis; frames count row-major over these axes. Chunks may
//! reach across scan and detector axes alike. Every chunk that a window touches is decoded once for that window, and
//! nothing is kept between windows: memory is the window plus one chunk for each worker.

use super::index::{Chunks, DatasetIndex, Storage};
use super::read::{Part, ReadCause, ReadFailure, Scratch, fetch, to_native};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use stempack_model::{Error, ModelCode, Task};

/// Frames that follow each other in the file are read in pieces of about this size.
const PIECE_BYTES: usize = 1 << 20;
/// Buffers of one worker, in decoded chunks: the chunk, two steps of a pipeline, and what is stored.
const CHUNKS_HELD: u64 = 4;

/// Frames that cannot be read, and why.
#[derive(Debug)]
pub struct FrameFailure {
    /// The first affected frame among those asked for.
    pub first: u64,
    /// How many of those asked for are affected.
    pub count: u64,
    /// Where the bytes lie in the file, and why they are not samples; its rows are the first frame.
    pub failure: ReadFailure,
}

/// Frames of one window that share their chunks.
type Block<'a> = Vec<(u64, &'a mut [u8])>;

impl DatasetIndex {
    /// Number of frames and decoded bytes of one, with `axes` leading axes for the scan.
    pub fn frames(&self, axes: usize) -> (u64, u64) {
        let (scan, detector) = self.shape().split_at(axes.min(self.shape().len()));
        (scan.iter().product(), detector.iter().product::<u64>() * self.element().bytes as u64)
    }

    /// Decodes frames `first ..` into `out`, whose length says how many, in native byte order and C order.
    /// `file` is the open file of [`DatasetIndex::file`].
    ///
    /// # Errors
    /// The failure of the first affected frame; the other frames of `out` are then unspecified.
    ///
    /// # Panics
    /// When `out` is no whole number of frames or reaches beyond the last frame.
    pub fn read_frames(
        &self,
        file: &File,
        axes: usize,
        first: u64,
        out: &mut [u8],
        task: &Task,
    ) -> Result<(), FrameFailure> {
        if out.is_empty() {
            return Ok(());
        }
        let (total, frame_bytes) = self.frames(axes);
        let frame = frame_bytes as usize;
        let count = (out.len() / frame.max(1)) as u64;
        assert!(
            out.len().is_multiple_of(frame) && first.checked_add(count).is_some_and(|end| end <= total),
            "frames {first} and {count} more of {total}"
        );
        match self.storage() {
            Storage::Contiguous(_) | Storage::Compact(_) => self.read_flat(file, frame, first, out, task),
            Storage::Chunked(chunks) => self.read_blocks(file, chunks, (axes, frame), first, out, task),
        }
    }

    fn read_flat(
        &self,
        file: &File,
        frame: usize,
        first: u64,
        out: &mut [u8],
        task: &Task,
    ) -> Result<(), FrameFailure> {
        let per_piece = (PIECE_BYTES / frame).max(1);
        out.par_chunks_mut(per_piece * frame)
            .enumerate()
            .filter_map(|(piece, out)| {
                let begin = first + (piece * per_piece) as u64;
                let count = (out.len() / frame) as u64;
                let failed = |address, cause| Some(failure(begin, count, address, cause));
                if let Err(e) = task.check() {
                    return failed(0, ReadCause::Stopped(e));
                }
                match self.storage() {
                    Storage::Contiguous(start) => {
                        let address = start + begin * frame as u64;
                        if let Err(e) = file.read_exact_at(out, address) {
                            return failed(address, ReadCause::Io(e));
                        }
                    }
                    Storage::Compact(bytes) => {
                        let from = begin as usize * frame;
                        out.copy_from_slice(&bytes[from..from + out.len()]);
                    }
                    Storage::Chunked(_) => {}
                }
                to_native(self.element(), out);
                None
            })
            .min_by_key(|failure| failure.first)
            .map_or(Ok(()), Err)
    }

    fn read_blocks(
        &self,
        file: &File,
        chunks: &Chunks,
        (axes, frame): (usize, usize),
        first: u64,
        out: &mut [u8],
        task: &Task,
    ) -> Result<(), FrameFailure> {
        let held = (chunks.decoded_bytes as u64).saturating_mul(CHUNKS_HELD);
        if held > task.memory_budget() {
            let error = Error::new(
                ModelCode::OverBudget,
                format!(
                    "one chunk of {:?} elements takes {held} bytes to decode, the memory budget is {}",
                    chunks.dims,
                    task.memory_budget()
                ),
            );
            return Err(failure(first, 1, 0, ReadCause::Stopped(error)));
        }
        let mut blocks: BTreeMap<u64, Block<'_>> = BTreeMap::new();
        for (k, out) in out.chunks_exact_mut(frame).enumerate() {
            let at = first + k as u64;
            blocks.entry(self.scan_place(chunks, axes, at).0).or_default().push((at, out));
        }
        let decode = |scratch: &mut Scratch, (block, frames): (u64, Block<'_>)| {
            let (begin, count) = (frames.first().map_or(first, |f| f.0), frames.len() as u64);
            self.read_block(file, chunks, axes, (block, frames), scratch, task)
                .err()
                .map(|(address, cause)| failure(begin, count, address, cause))
        };
        let workers = rayon::current_num_threads() as u64;
        let failed = if held.saturating_mul(workers) > task.memory_budget() {
            let mut scratch = Scratch::default();
            blocks.into_iter().find_map(|block| decode(&mut scratch, block))
        } else {
            // Which of several damaged frames is reported must not depend on the order of the workers.
            blocks
                .into_par_iter()
                .map_init(Scratch::default, decode)
                .flatten()
                .min_by_key(|failure| failure.first)
        };
        failed.map_or(Ok(()), Err)
    }

    /// Decodes the chunks of one block, each once, into its frames.
    fn read_block(
        &self,
        file: &File,
        chunks: &Chunks,
        axes: usize,
        (block, mut frames): (u64, Block<'_>),
        scratch: &mut Scratch,
        task: &Task,
    ) -> Result<(), (u64, ReadCause)> {
        let (tile, extent) = (&chunks.dims[axes..], &self.shape()[axes..]);
        let grid = &chunks.grid[axes..];
        let per_block = grid.iter().product::<u64>();
        let size = self.element().bytes;
        // Bytes of the part of a chunk that belongs to one frame.
        let tile_bytes = tile.iter().product::<u64>() as usize * size;
        let start = vec![0; tile.len()];
        for k in 0..per_block {
            task.check().map_err(|e| (0, ReadCause::Stopped(e)))?;
            let chunk = chunks.table[(block * per_block + k) as usize];
            let Scratch { stored, chunk: decoded, filters } = &mut *scratch;
            if let [(_, out)] = frames.as_mut_slice()
                && out.len() == chunks.decoded_bytes
                && tile == extent
            {
                // The usual case, one frame in one chunk, straight into the destination.
                fetch(file, chunks, chunk, out, stored, filters)?;
                continue;
            }
            decoded.resize(chunks.decoded_bytes, 0);
            fetch(file, chunks, chunk, decoded, stored, filters)?;
            let mut place = vec![0; tile.len()];
            let mut rest = k;
            for axis in (0..tile.len()).rev() {
                place[axis] = rest % grid[axis] * tile[axis];
                rest /= grid[axis];
            }
            for (at, out) in &mut frames {
                let from = self.scan_place(chunks, axes, *at).1 as usize * tile_bytes;
                let part = Part { chunk: tile, start: &start, extent, place: &place };
                part.copy(&decoded[from..from + tile_bytes], out, size);
            }
        }
        for (_, out) in &mut frames {
            to_native(self.element(), out);
        }
        Ok(())
    }

    /// Consecutive frames that share chunks; the first `axes` axes count frames.
    pub fn frames_together(&self, axes: usize) -> u64 {
        let Storage::Chunked(chunks) = self.storage() else { return 1 };
        match chunks.dims[..axes].iter().position(|&extent| extent > 1) {
            None => 1,
            Some(axis) => self.shape()[axis + 1..axes]
                .iter()
                .fold(chunks.dims[axis], |n, &extent| n.saturating_mul(extent)),
        }
    }

    /// The block of chunks a frame lies in, and its place among the frames of such a chunk.
    fn scan_place(&self, chunks: &Chunks, axes: usize, frame: u64) -> (u64, u64) {
        let (mut rest, mut block, mut within) = (frame, 0, 0);
        let (mut blocks, mut places) = (1, 1);
        for axis in (0..axes).rev() {
            let at = rest % self.shape()[axis];
            rest /= self.shape()[axis];
            block += at / chunks.dims[axis] * blocks;
            within += at % chunks.dims[axis] * places;
            blocks *= chunks.grid[axis];
            places *= chunks.dims[axis];
        }
        (block, within)
    }
}

fn failure(first: u64, count: u64, address: u64, cause: ReadCause) -> FrameFailure {
    FrameFailure { first, count, failure: ReadFailure { rows: first..first + 1, address, cause } }
}
