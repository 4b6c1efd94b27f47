//! Rows of an indexed dataset, read by position and decoded in parallel into the caller's buffer.

use super::index::{Chunk, Chunks, DatasetIndex, Element, ElementClass, Order, Storage};
use super::pipeline::{Buffers, Filter};
use crate::error::SourceCode;
use rayon::prelude::*;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use stempack_codecs::bitshuffle;
use stempack_codecs::planes::TRANSPOSED_BLOCK_BYTES;
use stempack_model::{Error, Result, Task};

/// Contiguous rows are read in pieces of about this size.
const PIECE_BYTES: usize = 256 << 10;

/// Rows that cannot be read, and why.
#[derive(Debug)]
pub struct ReadFailure {
    /// Rows along the first axis that are affected, among those asked for.
    pub rows: Range<u64>,
    /// Where their bytes lie in the file.
    pub address: u64,
    /// Why.
    pub cause: ReadCause,
}

/// Why rows cannot be read.
#[derive(Debug)]
pub enum ReadCause {
    /// The operating system refused.
    Io(std::io::Error),
    /// The bytes do not decode.
    Corrupt(String),
    /// The task was cancelled.
    Stopped(Error),
}

/// Buffers of one worker.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) stored: Vec<u8>,
    pub(super) chunk: Vec<u8>,
    pub(super) filters: Buffers,
}

/// A run of rows that is decoded by one worker at a time.
struct Slab<'a> {
    rows: Range<u64>,
    out: &'a mut [u8],
}

impl DatasetIndex {
    /// Decoded bytes of one row, that is of everything behind one index of the first axis.
    pub fn row_bytes(&self) -> u64 {
        self.shape().iter().skip(1).product::<u64>() * self.element().bytes as u64
    }

    /// Decodes rows `first ..` into `out`, whose length says how many, in native byte order and C order.
    /// `file` is the open file of [`DatasetIndex::file`].
    ///
    /// # Errors
    /// The failure of the first affected row; the other rows of `out` are then unspecified.
    ///
    /// # Panics
    /// When `out` is no whole number of rows or reaches beyond the last row.
    pub fn read_rows(&self, file: &File, first: u64, out: &mut [u8], task: &Task) -> Result<(), ReadFailure> {
        let row_bytes = self.row_bytes() as usize;
        if out.is_empty() {
            return Ok(());
        }
        let count = (out.len() / row_bytes.max(1)) as u64;
        let total = self.shape().first().copied().unwrap_or(1);
        assert!(
            out.len().is_multiple_of(row_bytes) && first.checked_add(count).is_some_and(|end| end <= total),
            "rows {first} and {count} more of {total}"
        );
        let step = match self.storage() {
            Storage::Chunked(chunks) => chunks.dims.first().copied().unwrap_or(1),
            Storage::Contiguous(_) | Storage::Compact(_) => (PIECE_BYTES / row_bytes).max(1) as u64,
        };
        let mut slabs = Vec::with_capacity((count / step + 2) as usize);
        let (mut at, mut rest) = (first, out);
        while !rest.is_empty() {
            let end = ((at / step + 1) * step).min(first + count);
            let (head, tail) = rest.split_at_mut((end - at) as usize * row_bytes);
            slabs.push(Slab { rows: at..end, out: head });
            (at, rest) = (end, tail);
        }
        slabs
            .into_par_iter()
            .map_init(Scratch::default, |scratch, slab| self.decode(file, slab, scratch, task))
            .filter_map(Result::err)
            // Which of several damaged rows is reported must not depend on the order of the workers.
            .min_by_key(|failure| failure.rows.start)
            .map_or(Ok(()), Err)
    }

    /// The rows as [`FrameSource::read_transposed`](stempack_model::FrameSource::read_transposed) leaves them; whether
    /// they are stored so, each in a chunk of its own.
    ///
    /// # Errors
    /// As for [`DatasetIndex::read_rows`].
    ///
    /// # Panics
    /// As for [`DatasetIndex::read_rows`].
    pub fn read_rows_transposed(
        &self,
        file: &File,
        first: u64,
        out: &mut [u8],
        planes: &mut [u16],
        task: &Task,
    ) -> Result<bool, ReadFailure> {
        let row_bytes = self.row_bytes() as usize;
        let Element { class, bytes: element_bytes, order } = self.element();
        let Storage::Chunked(chunks) = self.storage() else { return Ok(false) };
        if class != ElementClass::Unsigned
            || !matches!((element_bytes, order), (1, _) | (2, Order::Little))
            || chunks.pipeline.filters() != [Filter::BitshuffleLz4 { element_bytes }]
            || chunks.dims.first() != Some(&1)
            || chunks.dims[1..] != self.shape()[1..]
            || !row_bytes.is_multiple_of(8 * element_bytes)
        {
            return Ok(false);
        }
        let rows = out.par_chunks_exact_mut(row_bytes);
        let rows =
            rows.zip(planes.par_chunks_exact_mut(row_bytes.div_ceil(TRANSPOSED_BLOCK_BYTES))).enumerate();
        let rows = rows.map_init(Scratch::default, |scratch, (k, (out, planes))| {
            let row = first + k as u64;
            let failed = |address, cause| (row, address, cause);
            task.check().map_err(|e| failed(0, ReadCause::Stopped(e)))?;
            let chunk = chunks.table[row as usize];
            let Scratch { stored, chunk: block, .. } = scratch;
            read_stored(file, chunk, stored).map_err(|(address, cause)| failed(address, cause))?;
            if chunk.skipped_filters != 0
                || bitshuffle::declared_block_bytes(stored) != Some(TRANSPOSED_BLOCK_BYTES as u32)
            {
                return Ok(false);
            }
            bitshuffle::decode_planes(stored, element_bytes, out, planes, block)
                .map_err(|e| failed(chunk.address, ReadCause::Corrupt(e.to_string())))?;
            Ok(true)
        });
        let mut all = true;
        for row in rows.collect::<Vec<_>>() {
            match row {
                Ok(so) => all &= so,
                Err((row, address, cause)) => {
                    return Err(ReadFailure { rows: row..row + 1, address, cause });
                }
            }
        }
        Ok(all)
    }

    /// Decodes the whole dataset, in native byte order and C order.
    ///
    /// # Errors
    /// `io`, `corrupt_payload`, `cancelled`, or `too_large` beyond the memory budget of the task.
    pub fn read_all(&self, task: &Task) -> Result<Vec<u8>> {
        let bytes = self.decoded_bytes();
        if bytes > task.memory_budget() {
            return Err(Error::new(
                SourceCode::TooLarge,
                format!("`{}` of `{}` decodes to {bytes} bytes", self.object(), self.file_name()),
            ));
        }
        let file = File::open(self.file()).map_err(|e| Error::io("open", self.file(), e))?;
        let mut out = vec![0; bytes as usize];
        self.read_rows(&file, 0, &mut out, task).map_err(|failure| {
            let place = format!("`{}` of `{}`, rows {:?}", self.object(), self.file_name(), failure.rows);
            self.explain(failure, &place)
        })?;
        Ok(out)
    }

    /// The error of a failure; `place` says which file and which rows in the caller's words.
    pub fn explain(&self, failure: ReadFailure, place: &str) -> Error {
        match failure.cause {
            ReadCause::Stopped(error) => error,
            ReadCause::Io(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Error::new(
                SourceCode::SourceChanged,
                format!("{place}: the file ends before the bytes at {}", failure.address),
            ),
            ReadCause::Io(e) => Error::io("read", self.file(), e).at(place),
            ReadCause::Corrupt(reason) => Error::new(
                SourceCode::CorruptPayload,
                format!("{place}: the chunk at byte {} does not decode: {reason}", failure.address),
            ),
        }
        .with("path", self.file().display().to_string())
    }

    fn decode(
        &self,
        file: &File,
        slab: Slab<'_>,
        scratch: &mut Scratch,
        task: &Task,
    ) -> Result<(), ReadFailure> {
        let Slab { rows, out } = slab;
        let failed = |address, cause| ReadFailure { rows: rows.clone(), address, cause };
        task.check().map_err(|e| failed(0, ReadCause::Stopped(e)))?;
        let row_bytes = self.row_bytes() as usize;
        match self.storage() {
            Storage::Contiguous(start) => {
                let address = start + rows.start * row_bytes as u64;
                file.read_exact_at(out, address).map_err(|e| failed(address, ReadCause::Io(e)))?;
            }
            Storage::Compact(bytes) => {
                let from = rows.start as usize * row_bytes;
                out.copy_from_slice(&bytes[from..from + out.len()]);
            }
            Storage::Chunked(chunks) => {
                self.decode_chunks(file, chunks, rows.clone(), out, scratch)
                    .map_err(|(address, cause)| failed(address, cause))?;
            }
        }
        to_native(self.element(), out);
        Ok(())
    }

    /// All chunks that hold `rows`, which lie in one row of the chunk grid.
    fn decode_chunks(
        &self,
        file: &File,
        chunks: &Chunks,
        rows: Range<u64>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), (u64, ReadCause)> {
        let height = chunks.dims[0];
        let inner = chunks.grid[1..].iter().product::<u64>();
        let base = rows.start / height * inner;
        let within = rows.start % height;
        // A chunk as wide as the rows needs no rearranging; at the end of the dataset it may hold more rows than asked.
        let whole_rows = chunks.dims[1..] == self.shape()[1..];
        for k in 0..inner {
            let chunk = chunks.table[(base + k) as usize];
            if whole_rows && out.len() == chunks.decoded_bytes {
                fetch(file, chunks, chunk, out, &mut scratch.stored, &mut scratch.filters)?;
                continue;
            }
            scratch.chunk.resize(chunks.decoded_bytes, 0);
            fetch(file, chunks, chunk, &mut scratch.chunk, &mut scratch.stored, &mut scratch.filters)?;
            if whole_rows {
                let from = within as usize * self.row_bytes() as usize;
                out.copy_from_slice(&scratch.chunk[from..from + out.len()]);
            } else {
                let mut start = vec![within; chunks.dims.len()];
                let mut place = vec![0; chunks.dims.len()];
                let mut rest = k;
                for axis in (1..chunks.dims.len()).rev() {
                    start[axis] = 0;
                    place[axis] = rest % chunks.grid[axis] * chunks.dims[axis];
                    rest /= chunks.grid[axis];
                }
                let mut extent = self.shape().to_vec();
                extent[0] = rows.end - rows.start;
                let part = Part { chunk: &chunks.dims, start: &start, extent: &extent, place: &place };
                part.copy(&scratch.chunk, out, self.element().bytes);
            }
        }
        Ok(())
    }
}

/// Reads the stored bytes of one chunk and decodes them into `out`.
pub(super) fn fetch(
    file: &File,
    chunks: &Chunks,
    chunk: Chunk,
    out: &mut [u8],
    stored: &mut Vec<u8>,
    filters: &mut Buffers,
) -> Result<(), (u64, ReadCause)> {
    read_stored(file, chunk, stored)?;
    chunks
        .pipeline
        .decode(stored, chunk.skipped_filters, out, filters)
        .map_err(|reason| (chunk.address, ReadCause::Corrupt(reason)))
}

fn read_stored(file: &File, chunk: Chunk, stored: &mut Vec<u8>) -> Result<(), (u64, ReadCause)> {
    // The table was held against the file length, so this is no more than the file has.
    stored.resize(chunk.bytes as usize, 0);
    file.read_exact_at(stored, chunk.address).map_err(|e| (chunk.address, ReadCause::Io(e)))
}

/// The part of one chunk that belongs to a block of rows or to a frame.
pub(super) struct Part<'a> {
    /// Extent of the chunk.
    pub(super) chunk: &'a [u64],
    /// First element taken from the chunk, along each axis.
    pub(super) start: &'a [u64],
    /// Extent of the destination.
    pub(super) extent: &'a [u64],
    /// Where the part begins in the destination.
    pub(super) place: &'a [u64],
}

impl Part<'_> {
    /// Copies runs along the last axis; edge chunks are stored whole and cut here.
    pub(super) fn copy(&self, from: &[u8], to: &mut [u8], element_bytes: usize) {
        let axes = self.chunk.len();
        let counts: Vec<u64> = (0..axes)
            .map(|a| (self.chunk[a] - self.start[a]).min(self.extent[a].saturating_sub(self.place[a])))
            .collect();
        if counts.contains(&0) {
            return;
        }
        let run = counts[axes - 1] as usize * element_bytes;
        let mut at = vec![0u64; axes];
        loop {
            let (mut source, mut target) = (0u64, 0u64);
            for (a, step) in at.iter().enumerate() {
                source = source * self.chunk[a] + self.start[a] + step;
                target = target * self.extent[a] + self.place[a] + step;
            }
            let (source, target) = (source as usize * element_bytes, target as usize * element_bytes);
            to[target..target + run].copy_from_slice(&from[source..source + run]);
            let mut axis = axes - 1;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                at[axis] += 1;
                if at[axis] < counts[axis] {
                    break;
                }
                at[axis] = 0;
            }
        }
    }
}

/// Swaps the bytes of each number where the file's order is not the machine's.
pub(super) fn to_native(element: Element, bytes: &mut [u8]) {
    let native = if cfg!(target_endian = "big") { Order::Big } else { Order::Little };
    if element.class == ElementClass::Other || element.bytes < 2 || element.order == native {
        return;
    }
    for number in bytes.chunks_exact_mut(element.bytes) {
        number.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edge_chunks_are_cut_to_the_destination() {
        // A 3 × 5 destination from 2 × 3 chunks: the chunk at (2, 3) contributes one row of two elements.
        let chunk: Vec<u8> = (1..=6).collect();
        let mut out = vec![0; 15];
        Part { chunk: &[2, 3], start: &[0, 0], extent: &[3, 5], place: &[2, 3] }.copy(&chunk, &mut out, 1);
        assert_eq!(out, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        // From its second row on.
        let mut out = vec![0; 10];
        Part { chunk: &[2, 3], start: &[1, 0], extent: &[2, 5], place: &[0, 0] }.copy(&chunk, &mut out, 1);
        assert_eq!(out, [4, 5, 6, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn big_endian_numbers_are_turned() {
        let element = Element { class: ElementClass::Unsigned, bytes: 2, order: Order::Big };
        let mut bytes = [1, 0, 0, 2];
        to_native(element, &mut bytes);
        assert_eq!(
            bytes.map(|b| b).as_chunks::<2>().0.iter().map(|b| u16::from_ne_bytes(*b)).collect::<Vec<_>>(),
            [256, 2]
        );
    }
}
