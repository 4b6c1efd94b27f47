//! Whether the arrays of one chunk fit each other; nothing is decoded here.

use super::super::fault::Fault;
use super::super::{BLOCK_SCANS, stream, u32_at};
use crate::error::CodecCode;
use stempack_model::{Error, Result};

/// The arrays of one chunk as they lie in the file, checked: streams can be taken without looking again.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    scans: usize,
    pixels: usize,
    max_value: u16,
    payload: &'a [u8],
    offsets: &'a [u8],
    selectors: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Checks array lengths, offsets, selectors, and what each selector says about its stream's length.
    ///
    /// `offsets` are little-endian `u32` at any alignment. Takes time proportional to the streams, not to the payload.
    ///
    /// # Errors
    /// `qem_array_length`, `qem_stream_offsets`, `qem_selector`, `qem_stream_length`, naming block and pixel.
    pub fn new(
        scans: usize,
        pixels: usize,
        max_value: u16,
        payload: &'a [u8],
        offsets: &'a [u8],
        selectors: &'a [u8],
    ) -> Result<Self> {
        let chunk = Chunk { scans, pixels, max_value, payload, offsets, selectors };
        check_arrays(scans, pixels, offsets, selectors)?;
        if u32_at(offsets, selectors.len()) as usize != payload.len() {
            return Err(Error::new(
                CodecCode::QemOffsets,
                format!(
                    "last stream offset is {}, expected the payload's length {}",
                    u32_at(offsets, selectors.len()),
                    payload.len()
                ),
            ));
        }
        chunk.check_streams()?;
        Ok(chunk)
    }

    /// Like [`new`](Self::new) for a payload that may go on after the last stream, and whose streams are never
    /// longer than literal ones.
    pub(crate) fn with_filler(
        scans: usize,
        pixels: usize,
        payload: &'a [u8],
        offsets: &'a [u8],
        selectors: &'a [u8],
    ) -> Result<Self> {
        let chunk = Chunk { scans, pixels, max_value: u16::MAX, payload, offsets, selectors };
        check_arrays(scans, pixels, offsets, selectors)?;
        let last = u32_at(offsets, selectors.len()) as usize;
        if last > payload.len() {
            return Err(Error::new(
                CodecCode::QemOffsets,
                format!(
                    "last stream offset is {last}, expected at most the payload's length {}",
                    payload.len()
                ),
            ));
        }
        chunk.check_streams()?;
        for k in 0..selectors.len() {
            let (bytes, most) = (chunk.stream(k).1.len(), 2 * chunk.block_scans(k / pixels));
            if bytes > most {
                return Err(Fault::Length(bytes, stream::Expected::AtMost(most)).at(chunk.place(k)));
            }
        }
        Ok(chunk)
    }

    /// Offsets from 0, never falling, within the payload; selectors and lengths.
    fn check_streams(&self) -> Result<()> {
        if u32_at(self.offsets, 0) != 0 {
            return Err(Error::new(
                CodecCode::QemOffsets,
                format!("first stream offset is {}, expected 0", u32_at(self.offsets, 0)),
            ));
        }
        for (block, selectors) in self.selectors.chunks_exact(self.pixels).enumerate() {
            let len = self.block_scans(block);
            for (pixel, &selector) in selectors.iter().enumerate() {
                let k = block * self.pixels + pixel;
                let (start, end) = (u32_at(self.offsets, k) as usize, u32_at(self.offsets, k + 1) as usize);
                if end < start || end > self.payload.len() {
                    return Err(Error::new(
                        CodecCode::QemOffsets,
                        format!(
                            "{}: stream ends at offset {end}, expected {start} to {}",
                            self.place(k),
                            self.payload.len()
                        ),
                    ));
                }
                stream::check_length(selector, end - start, len).map_err(|fault| fault.at(self.place(k)))?;
            }
        }
        Ok(())
    }

    /// Scan positions of the chunk.
    pub fn scans(&self) -> usize {
        self.scans
    }
    /// Detector pixels.
    pub fn pixels(&self) -> usize {
        self.pixels
    }
    /// The largest count that the sample type holds.
    pub fn max_value(&self) -> u16 {
        self.max_value
    }
    /// Blocks of at most [`BLOCK_SCANS`] scan positions.
    pub fn blocks(&self) -> usize {
        self.scans.div_ceil(BLOCK_SCANS)
    }
    /// Scan positions of one block.
    pub fn block_scans(&self, block: usize) -> usize {
        BLOCK_SCANS.min(self.scans - block * BLOCK_SCANS)
    }

    /// Selector and bytes of stream `k`.
    #[inline]
    pub(super) fn stream(&self, k: usize) -> (u8, &'a [u8]) {
        let (start, end) = (u32_at(self.offsets, k) as usize, u32_at(self.offsets, k + 1) as usize);
        (self.selectors[k], &self.payload[start..end])
    }

    /// How to name stream `k`.
    pub(super) fn place(&self, k: usize) -> impl std::fmt::Display + use<> {
        let (block, pixel) = (k / self.pixels, k % self.pixels);
        std::fmt::from_fn(move |f| write!(f, "block {block}, pixel {pixel}"))
    }
}

fn check_arrays(scans: usize, pixels: usize, offsets: &[u8], selectors: &[u8]) -> Result<()> {
    let streams = scans.div_ceil(BLOCK_SCANS).checked_mul(pixels).filter(|&n| n > 0);
    let offset_bytes = streams.and_then(|n| n.checked_add(1)?.checked_mul(4));
    let (Some(streams), Some(offset_bytes)) = (streams, offset_bytes) else {
        return Err(Error::new(
            CodecCode::QemArrayLength,
            format!("chunk of {scans} scan positions × {pixels} pixels is empty or too large"),
        ));
    };
    for (what, found, expected) in
        [("stream offsets", offsets.len(), offset_bytes), ("selectors", selectors.len(), streams)]
    {
        if found != expected {
            return Err(Error::new(
                CodecCode::QemArrayLength,
                format!("{what} have {found} bytes, expected {expected} for {streams} streams"),
            ));
        }
    }
    Ok(())
}
