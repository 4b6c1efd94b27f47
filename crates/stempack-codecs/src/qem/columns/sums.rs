//! Sums of column streams: over pixels for every scan position, over scan positions for every pixel.

use super::super::interleave::{Decoder, LANES};
use super::super::stream::{self, CONSTANT, SPARSE, ZERO};
use super::super::{BLOCK_SCANS, fault::Fault};
use super::{Chunk, TILE};
use rayon::prelude::*;
use stempack_model::{Error, ModelCode, Result, Task};

/// Pixels of one piece of parallel work; their sums fit 32 bits.
const BATCH: usize = 256;

impl Chunk<'_> {
    /// Adds to `sums`, one per scan position, the counts of `pixels`; a pixel that is named twice counts twice.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and `out_of_range` for a pixel outside the detector.
    ///
    /// # Panics
    /// When `sums` does not have one element per scan position.
    pub fn add_pixels(&self, pixels: &[u32], sums: &mut [u64], task: &Task) -> Result<()> {
        assert_eq!(sums.len(), self.scans(), "a sum per scan position");
        if let Some(&outside) = pixels.iter().find(|&&p| p as usize >= self.pixels()) {
            return Err(Error::new(
                ModelCode::OutOfRange,
                format!("detector pixel {outside}, expected one below {}", self.pixels()),
            ));
        }
        for (block, sums) in sums.chunks_mut(BLOCK_SCANS).enumerate() {
            let added = pixels
                .par_chunks(BATCH)
                .map(|batch| {
                    task.check()?;
                    let mut part = vec![0u32; sums.len()];
                    let streams = batch.iter().map(|&p| block * self.pixels() + p as usize);
                    self.add_streams(streams, &mut part)?;
                    Ok(part.into_iter().map(u64::from).collect())
                })
                .try_reduce(Vec::new, |mut a: Vec<u64>, b| {
                    a.resize(a.len().max(b.len()), 0);
                    for (a, b) in a.iter_mut().zip(b) {
                        *a += b;
                    }
                    Ok(a)
                })?;
            for (sum, more) in sums.iter_mut().zip(added) {
                *sum = sum.wrapping_add(more);
            }
        }
        Ok(())
    }

    /// Adds up at most [`BATCH`] streams of one block.
    fn add_streams(&self, streams: impl Iterator<Item = usize>, sums: &mut [u32]) -> Result<()> {
        let len = sums.len();
        let mut constant = 0;
        let mut models = Vec::with_capacity(BATCH);
        for k in streams {
            let (selector, bytes) = self.stream(k);
            match selector {
                ZERO => {}
                CONSTANT => constant += u32::from(self.constant(k, bytes)?),
                SPARSE => {
                    stream::for_events(bytes, self.max_value(), len, |at, count| {
                        sums[at] += u32::from(count);
                    })
                    .map_err(|fault| fault.at(self.place(k)))?;
                }
                stream::LITERAL => self.add_scalar(k, sums)?,
                _ => models.push(k),
            }
        }
        let mut decoder = Decoder::new();
        let mut fast = [0u32; BLOCK_SCANS];
        for batch in models.chunks(LANES) {
            let mut streams: [(u8, &[u8]); LANES] = [(0, &[]); LANES];
            for (stream, &k) in streams.iter_mut().zip(batch) {
                *stream = self.stream(k);
            }
            // Idle lanes repeat the last stream.
            let idle = (LANES - batch.len()) as u32;
            let bound = decoder.decode(&streams[..batch.len()], len, |at, values| {
                let mut sum = 0;
                for value in values {
                    sum += u32::from(value);
                }
                fast[at % BLOCK_SCANS] = sum - idle * u32::from(values[LANES - 1]);
            });
            if bound.is_some_and(|bound| bound <= self.max_value()) {
                sums.iter_mut().zip(fast).for_each(|(sum, more)| *sum += more);
            } else {
                for &k in batch {
                    self.add_scalar(k, sums)?;
                }
            }
        }
        sums.iter_mut().for_each(|sum| *sum += constant);
        Ok(())
    }

    fn add_scalar(&self, k: usize, sums: &mut [u32]) -> Result<()> {
        let mut values = [0; BLOCK_SCANS];
        let values = &mut values[..sums.len()];
        self.decode_stream(k, self.max_value(), values)?;
        sums.iter_mut().zip(values).for_each(|(sum, &mut value)| *sum += u32::from(value));
        Ok(())
    }

    fn constant(&self, k: usize, bytes: &[u8]) -> Result<u16> {
        let count = stream::constant(bytes);
        if count > self.max_value() {
            return Err(Fault::Value(0, count, self.max_value()).at(self.place(k)));
        }
        Ok(count)
    }

    /// Adds to `sums`, one per pixel, the counts of all scan positions.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    ///
    /// # Panics
    /// When `sums` does not have one element per pixel.
    pub fn pattern_sums(&self, sums: &mut [u64], task: &Task) -> Result<()> {
        assert_eq!(sums.len(), self.pixels(), "a sum per pixel");
        sums.par_chunks_mut(8 * TILE).enumerate().try_for_each(|(piece, sums)| {
            let mut decoder = Decoder::new();
            for block in 0..self.blocks() {
                task.check()?;
                let first = block * self.pixels() + piece * 8 * TILE;
                self.sum_streams(first, self.block_scans(block), &mut decoder, sums)?;
            }
            Ok(())
        })
    }

    /// Adds to each of `sums` the counts of one stream, from stream `first` on.
    fn sum_streams(&self, first: usize, len: usize, decoder: &mut Decoder, sums: &mut [u64]) -> Result<()> {
        let mut models = Vec::with_capacity(sums.len());
        for (k, sum) in sums.iter_mut().enumerate() {
            let (selector, bytes) = self.stream(first + k);
            match selector {
                ZERO => {}
                CONSTANT => *sum += u64::from(self.constant(first + k, bytes)?) * len as u64,
                SPARSE => {
                    stream::for_events(bytes, self.max_value(), len, |_, count| {
                        *sum += u64::from(count);
                    })
                    .map_err(|fault| fault.at(self.place(first + k)))?;
                }
                stream::LITERAL => *sum += self.sum_scalar(first + k, len)?,
                _ => models.push(k),
            }
        }
        for batch in models.chunks(LANES) {
            let mut streams: [(u8, &[u8]); LANES] = [(0, &[]); LANES];
            for (stream, &k) in streams.iter_mut().zip(batch) {
                *stream = self.stream(first + k);
            }
            // 512 counts below 2¹⁶ fit 32 bits.
            let mut added = [0u32; LANES];
            let bound = decoder.decode(&streams[..batch.len()], len, |_, values| {
                for (sum, value) in added.iter_mut().zip(values) {
                    *sum += u32::from(value);
                }
            });
            for (&k, more) in batch.iter().zip(added) {
                sums[k] += if bound.is_some_and(|bound| bound <= self.max_value()) {
                    u64::from(more)
                } else {
                    self.sum_scalar(first + k, len)?
                };
            }
        }
        Ok(())
    }

    fn sum_scalar(&self, k: usize, len: usize) -> Result<u64> {
        let mut values = [0; BLOCK_SCANS];
        self.decode_stream(k, self.max_value(), &mut values[..len])?;
        Ok(values[..len].iter().map(|&v| u64::from(v)).sum())
    }
}
