//! Column streams → frames, in parallel over pixels and blocks.

use super::super::interleave::{Decoder, LANES};
use super::super::stream::{self, CONSTANT, LITERAL, SPARSE, ZERO};
use super::super::{BLOCK_SCANS, QemSample, check_column, check_range};
use super::{Chunk, TILE};
use rayon::prelude::*;
use std::ops::Range;
use stempack_model::{Result, Task};

/// Room for the samples of one tile of pixels in one block.
type Rows<S> = [[S; TILE]; BLOCK_SCANS];

/// What one thread fills: for every wanted scan position of one block, the same pixels.
struct Strip<'o, S> {
    block: usize,
    first_pixel: usize,
    /// First wanted scan position within the block.
    first_row: usize,
    rows: Vec<&'o mut [S]>,
}

impl Chunk<'_> {
    /// Decodes scan positions `range` (relative to the chunk) of all pixels into row-major frames.
    ///
    /// Every stream of the touched blocks is decoded completely and checked. On an error `out` holds arbitrary counts.
    ///
    /// # Errors
    /// `qem_entropy`, `qem_sparse_positions`, `qem_value_range`, naming block and pixel; `cancelled`.
    ///
    /// # Panics
    /// When `range` leaves the chunk or `out` does not have its length in frames.
    pub fn decode<S: QemSample>(&self, range: Range<usize>, out: &mut [S], task: &Task) -> Result<()> {
        let pixels = self.pixels();
        check_range(&range, self.scans(), pixels, out.len());
        // Several strips per thread, so that threads that meet cheap columns go on with others.
        let strips = (4 * rayon::current_num_threads()).min(pixels.div_ceil(TILE));
        let width = pixels.div_ceil(TILE).div_ceil(strips) * TILE;
        let mut work = Vec::new();
        let mut rest = out;
        let mut at = range.start;
        while at < range.end {
            let block = at / BLOCK_SCANS;
            let end = ((block + 1) * BLOCK_SCANS).min(range.end);
            let (frames, after) = rest.split_at_mut((end - at) * pixels);
            rest = after;
            let first = work.len();
            work.extend((0..pixels).step_by(width).map(|first_pixel| Strip {
                block,
                first_pixel,
                first_row: at % BLOCK_SCANS,
                rows: Vec::with_capacity(end - at),
            }));
            for frame in frames.chunks_exact_mut(pixels) {
                for (strip, part) in work[first..].iter_mut().zip(frame.chunks_mut(width)) {
                    strip.rows.push(part);
                }
            }
            at = end;
        }
        work.into_par_iter().try_for_each(|mut strip| {
            task.check()?;
            self.fill(&mut strip)
        })
    }

    fn fill<S: QemSample>(&self, strip: &mut Strip<'_, S>) -> Result<()> {
        let mut decoder = Decoder::new();
        let mut tile: Box<Rows<S>> = boxed_rows();
        let width = strip.rows.first().map_or(0, |row| row.len());
        for start in (0..width).step_by(TILE) {
            let count = TILE.min(width - start);
            let first = strip.first_pixel + start;
            self.decode_tile(strip.block, first..first + count, &mut decoder, &mut tile)?;
            for (row, decoded) in strip.rows.iter_mut().zip(&tile[strip.first_row..]) {
                row[start..start + count].copy_from_slice(&decoded[..count]);
            }
        }
        Ok(())
    }

    /// Decodes the columns of at most [`TILE`] neighbouring pixels in one block.
    fn decode_tile<S: QemSample>(
        &self,
        block: usize,
        pixels: Range<usize>,
        decoder: &mut Decoder,
        tile: &mut Rows<S>,
    ) -> Result<()> {
        let len = self.block_scans(block);
        let tile = &mut tile[..len];
        let limit = self.max_value().min(S::MAX);
        let first = block * self.pixels() + pixels.start;
        tile.fill([S::default(); TILE]);
        let mut models = [0; TILE];
        let mut modelled = 0;
        for k in 0..pixels.len() {
            let (selector, bytes) = self.stream(first + k);
            match selector {
                ZERO => {}
                CONSTANT | LITERAL => self.decode_scalar(first + k, limit, k, tile)?,
                SPARSE => {
                    stream::for_events(bytes, limit, len, |at, count| tile[at][k] = S::from_count(count))
                        .map_err(|fault| fault.at(self.place(first + k)))?;
                }
                _ => {
                    models[modelled] = k;
                    modelled += 1;
                }
            }
        }
        for batch in models[..modelled].chunks(LANES) {
            let mut streams: [(u8, &[u8]); LANES] = [(0, &[]); LANES];
            let mut columns = [0; LANES];
            for lane in 0..LANES {
                columns[lane] = batch[lane.min(batch.len() - 1)];
                streams[lane] = self.stream(first + columns[lane]);
            }
            let bound = decoder.decode(&streams[..batch.len()], len, |at, values| {
                let row = &mut tile[at];
                for lane in 0..LANES {
                    row[columns[lane] % TILE] = S::from_count(values[lane]);
                }
            });
            if bound.is_none_or(|bound| bound > limit) {
                for &k in batch {
                    self.decode_scalar(first + k, limit, k, tile)?;
                }
            }
        }
        Ok(())
    }

    /// One stream the slow way: to find out what is wrong with it, or because it is longer than fast paths expect.
    fn decode_scalar<S: QemSample>(
        &self,
        k: usize,
        limit: u16,
        column: usize,
        tile: &mut [[S; TILE]],
    ) -> Result<()> {
        let mut values = [0; BLOCK_SCANS];
        let values = &mut values[..tile.len()];
        self.decode_stream(k, limit, values)?;
        for (row, &value) in tile.iter_mut().zip(&*values) {
            row[column] = S::from_count(value);
        }
        Ok(())
    }

    /// Decodes stream `k` with the scalar reference.
    pub(super) fn decode_stream(&self, k: usize, limit: u16, values: &mut [u16]) -> Result<()> {
        let (selector, bytes) = self.stream(k);
        stream::decode(selector, bytes, limit, values).map_err(|fault| fault.at(self.place(k)))
    }

    /// Decodes one pixel's column for all scan positions of the chunk.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    ///
    /// # Panics
    /// When `pixel` is outside the detector or `out` does not have one value per scan position.
    pub fn decode_pixel(&self, pixel: usize, out: &mut [u16]) -> Result<()> {
        check_column(pixel, self.pixels(), out.len(), self.scans());
        for (block, values) in out.chunks_mut(BLOCK_SCANS).enumerate() {
            self.decode_stream(block * self.pixels() + pixel, self.max_value(), values)?;
        }
        Ok(())
    }
}

fn boxed_rows<S: QemSample>() -> Box<Rows<S>> {
    Box::new([[S::default(); TILE]; BLOCK_SCANS])
}
