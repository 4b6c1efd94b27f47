//! One packed shard: collected tile by tile while scans arrive, and read back pixel by pixel.

use crate::pack_u8::NibbleWidths;
use crate::tile::{EncodedTile, READ_SLACK, U8_SCANS, U16_SCANS};
use crate::{bits, pack_u8};
use bytes::Bytes;

/// Payload words a shard may have, because word offsets are 27-bit.
pub const MAX_PAYLOAD_WORDS: u64 = 1 << 27;

/// Bytes of a copy of fixed size: a whole tile of the u8 profile.
const COPY: usize = 32;

/// Which of the two exact encodings a shard uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Exact u8, bit-packed directly, tiles of 32 scans.
    U8,
    /// Exact u16, bit-packed and LZ4-compressed, tiles of 128 scans.
    U16,
}

impl Profile {
    /// Scans of a full tile.
    pub fn tile_scans(self) -> usize {
        match self {
            Profile::U8 => U8_SCANS,
            Profile::U16 => U16_SCANS,
        }
    }
    /// Widest sample.
    pub fn max_width(self) -> u8 {
        match self {
            Profile::U8 => 8,
            Profile::U16 => 16,
        }
    }
    /// Payload bytes that one unit of width takes in a tile.
    pub fn bytes_per_width(self) -> usize {
        self.tile_scans() / 8
    }
    /// `u8` or `u16`.
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::U8 => "u8",
            Profile::U16 => "u16",
        }
    }
    /// The encoding-profile name of manifests and receipts.
    pub fn encoding_profile(self) -> &'static str {
        match self {
            Profile::U8 => "exact-uint8-bitpacked",
            Profile::U16 => "exact-uint16-lz4",
        }
    }
}

/// Tiles of one shard (or of a band of its pixels) in scan order, to be written pixel-major.
#[derive(Debug)]
pub struct ShardBuilder {
    profile: Profile,
    pixels: usize,
    tiles: Vec<EncodedTile>,
}

impl ShardBuilder {
    /// An empty shard of `pixels` detector pixels.
    pub fn new(profile: Profile, pixels: usize) -> Self {
        ShardBuilder { profile, pixels, tiles: Vec::new() }
    }
    /// Appends the next tile.
    ///
    /// # Panics
    /// When the tile has another number of pixels.
    pub fn push(&mut self, tile: EncodedTile) {
        assert_eq!(tile.widths.len(), self.pixels);
        self.tiles.push(tile);
    }
    /// Number of tiles so far.
    pub fn tiles(&self) -> usize {
        self.tiles.len()
    }
    /// Bytes of the decoded payload.
    pub fn payload_bytes(&self) -> u64 {
        self.tiles.iter().map(|t| t.bytes.len() as u64).sum()
    }
    /// The largest width of any pixel and tile.
    pub fn max_width(&self) -> u8 {
        self.tiles.iter().flat_map(|t| &t.widths).copied().max().unwrap_or(0)
    }
    /// Gives `pixel` one tile of width 1 that holds zeros. A shard of zeros needs it, because no reader of the format
    /// takes an empty payload (facts sheet, section 4).
    ///
    /// # Panics
    /// When the shard has no tile, no such pixel, or is not all zero.
    pub fn widen_empty(&mut self, pixel: usize) {
        assert_eq!(self.payload_bytes(), 0);
        self.tiles[0].widths[pixel] = 1;
        self.tiles[0].bytes = vec![0; self.profile.bytes_per_width()];
    }
    /// All widths, pixel-major.
    pub fn widths(&self) -> Vec<u8> {
        let tiles = self.tiles.len();
        let mut out = vec![0; self.pixels * tiles];
        for (t, tile) in self.tiles.iter().enumerate() {
            for (own, &w) in out.chunks_exact_mut(tiles).zip(&tile.widths) {
                own[t] = w;
            }
        }
        out
    }
    /// Hands the payload to `sink` in file order, in pieces of about `piece` bytes.
    ///
    /// # Errors
    /// Whatever `sink` returns.
    pub fn write_payload<E>(
        &self,
        piece: usize,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let unit = self.profile.bytes_per_width();
        let mut cursors = vec![0usize; self.tiles.len()];
        // Room for a piece and the pixel that completes it, and for one copy of fixed size beyond.
        let pixel_bytes = unit * self.profile.max_width() as usize * self.tiles.len();
        let mut buffer = vec![0u8; piece + pixel_bytes + COPY];
        let mut filled = 0;
        for pixel in 0..self.pixels {
            for (tile, cursor) in self.tiles.iter().zip(&mut cursors) {
                let bytes = unit * tile.widths[pixel] as usize;
                let from = &tile.bytes[*cursor..];
                // Most runs are shorter than this, and a copy of known size is one or two instructions; what it
                // writes too much is overwritten by the next.
                match from.first_chunk::<COPY>() {
                    Some(chunk) if bytes <= COPY => buffer[filled..filled + COPY].copy_from_slice(chunk),
                    _ => buffer[filled..filled + bytes].copy_from_slice(&from[..bytes]),
                }
                *cursor += bytes;
                filled += bytes;
            }
            if filled >= piece {
                // Whole pieces only, so that the receiver can cut fixed-size blocks.
                let whole = filled - filled % piece;
                sink(&buffer[..whole])?;
                buffer.copy_within(whole..filled, 0);
                filled -= whole;
            }
        }
        if filled == 0 { Ok(()) } else { sink(&buffer[..filled]) }
    }
}

/// Where each tile of a [`PackedShard`] starts.
#[derive(Debug)]
pub enum TileIndex {
    /// The u8 profile's compact header words, as stored.
    Nibbles {
        /// Header words, pixel-major.
        words: Vec<u32>,
        /// What a nibble means.
        meaning: NibbleWidths,
    },
    /// The u16 profile's width bytes, as stored, and each pixel's first payload word.
    Widths {
        /// Pixel-major widths.
        widths: Vec<u8>,
        /// First payload word of each pixel.
        bases: Vec<u32>,
    },
}

/// A validated shard in memory, still packed.
#[derive(Debug)]
pub struct PackedShard {
    profile: Profile,
    scans: usize,
    pixels: usize,
    tiles: usize,
    payload: Bytes,
    index: TileIndex,
}

impl PackedShard {
    /// Puts validated parts together. `payload`, a `Vec` or bytes that lie elsewhere, has [`READ_SLACK`] bytes more than
    /// the shard's payload; what they are does not matter.
    ///
    /// # Panics
    /// When the parts do not fit each other; the validating functions of [`pack_u8`] and [`crate::pack_u16`] see to it.
    pub fn new(
        profile: Profile,
        scans: usize,
        pixels: usize,
        payload: impl Into<Bytes>,
        index: TileIndex,
    ) -> Self {
        let payload = payload.into();
        let tiles = scans.div_ceil(profile.tile_scans());
        match &index {
            TileIndex::Nibbles { words, .. } => {
                assert_eq!(words.len(), pixels * pack_u8::header_words_per_pixel(tiles));
            }
            TileIndex::Widths { widths, bases } => {
                assert_eq!((widths.len(), bases.len()), (pixels * tiles, pixels));
            }
        }
        assert!(payload.len() >= READ_SLACK);
        PackedShard { profile, scans, pixels, tiles, payload, index }
    }
    /// The encoding.
    pub fn profile(&self) -> Profile {
        self.profile
    }
    /// Scan positions in this shard.
    pub fn scans(&self) -> usize {
        self.scans
    }
    /// Detector pixels.
    pub fn pixels(&self) -> usize {
        self.pixels
    }
    /// Tiles per pixel.
    pub fn tiles(&self) -> usize {
        self.tiles
    }
    /// Bytes held in memory.
    pub fn resident_bytes(&self) -> u64 {
        let index = match &self.index {
            TileIndex::Nibbles { words, .. } => 4 * words.len(),
            TileIndex::Widths { widths, bases } => widths.len() + 4 * bases.len(),
        };
        (self.payload.len() + index) as u64
    }
    /// Payload bytes of `pixel`, all tiles together.
    ///
    /// # Panics
    /// When `pixel` is out of range.
    pub fn pixel_bytes(&self, pixel: usize) -> u64 {
        assert!(pixel < self.pixels);
        let end = (self.payload.len() - READ_SLACK) / 4;
        let base = |pixel: usize| match &self.index {
            _ if pixel == self.pixels => end,
            TileIndex::Nibbles { words, .. } => {
                words[pixel * pack_u8::header_words_per_pixel(self.tiles)] as usize
            }
            TileIndex::Widths { bases, .. } => bases[pixel] as usize,
        };
        4 * (base(pixel + 1) - base(pixel)) as u64
    }
    /// Writes the widths of `pixel`'s tiles to `widths` (one per tile) and returns its payload, slack behind it.
    ///
    /// # Panics
    /// When `pixel` is out of range or `widths` has another length.
    #[inline]
    pub fn pixel(&self, pixel: usize, widths: &mut [u8]) -> &[u8] {
        match &self.index {
            TileIndex::Nibbles { words, meaning } => {
                let per_pixel = pack_u8::header_words_per_pixel(self.tiles);
                let own = &words[pixel * per_pixel..][..per_pixel];
                pack_u8::widths_into(own, *meaning, self.tiles.div_ceil(32), widths);
                &self.payload[4 * own[0] as usize..]
            }
            TileIndex::Widths { widths: all, bases } => {
                widths.copy_from_slice(&all[pixel * self.tiles..][..self.tiles]);
                &self.payload[4 * bases[pixel] as usize..]
            }
        }
    }
    /// Writes the widths of consecutive tiles of `pixel`, from tile `first` on, and returns their payload, slack behind
    /// it.
    ///
    /// # Panics
    /// When the pixel or one of the tiles is out of range, or `first` no multiple of 8 in the u8 profile.
    #[inline]
    pub fn tiles_from(&self, pixel: usize, first: usize, widths: &mut [u8]) -> &[u8] {
        assert!(first < self.tiles && first + widths.len() <= self.tiles);
        assert!(self.profile == Profile::U16 || first.is_multiple_of(8));
        match &self.index {
            TileIndex::Nibbles { words, meaning } => {
                let per_pixel = pack_u8::header_words_per_pixel(self.tiles);
                let own = &words[pixel * per_pixel..][..per_pixel];
                let checkpoints = self.tiles.div_ceil(32);
                // Eight widths are one word of the table.
                pack_u8::widths_into(own, *meaning, checkpoints + first / 8, widths);
                let (_, word) = pack_u8::locate(own, *meaning, checkpoints, first);
                &self.payload[4 * word..]
            }
            TileIndex::Widths { widths: all, bases } => {
                let own = &all[pixel * self.tiles..][..self.tiles];
                let before: usize = own[..first].iter().map(|&w| w as usize).sum();
                widths.copy_from_slice(&own[first..first + widths.len()]);
                &self.payload[4 * (bases[pixel] as usize + 4 * before)..]
            }
        }
    }
    /// Bytes of the bitstreams.
    pub fn payload_bytes(&self) -> u64 {
        (self.payload.len() - READ_SLACK) as u64
    }
    /// Width and payload of one tile of one pixel, slack behind it.
    ///
    /// # Panics
    /// When `pixel` or `tile` is out of range.
    #[inline]
    pub fn tile(&self, pixel: usize, tile: usize) -> (u8, &[u8]) {
        match &self.index {
            TileIndex::Nibbles { words, meaning } => {
                let per_pixel = pack_u8::header_words_per_pixel(self.tiles);
                let own = &words[pixel * per_pixel..][..per_pixel];
                let (width, word) = pack_u8::locate(own, *meaning, self.tiles.div_ceil(32), tile);
                (width, &self.payload[4 * word..])
            }
            TileIndex::Widths { widths, bases } => {
                let own = &widths[pixel * self.tiles..][..self.tiles];
                let before: usize = own[..tile].iter().map(|&w| w as usize).sum();
                (own[tile], &self.payload[4 * (bases[pixel] as usize + 4 * before)..])
            }
        }
    }
    /// One sample.
    ///
    /// # Panics
    /// When `pixel` or `scan` is out of range.
    #[inline]
    pub fn sample(&self, pixel: usize, scan: usize) -> u16 {
        let per_tile = self.profile.tile_scans();
        let (width, bytes) = self.tile(pixel, scan / per_tile);
        bits::sample_at(bytes, width, scan % per_tile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::expand_tile;
    use crate::tile::Unpack;
    use crate::{pack_u16, tile};

    fn frames(scans: usize, pixels: usize, max: u16) -> Vec<u16> {
        (0..scans * pixels)
            .map(|i| ((i as u64 * 0x9e37_79b9) >> 7) as u16 % ((max + 1) >> (i % 5)).max(1))
            .collect()
    }

    fn packed_u16(data: &[u16], scans: usize, pixels: usize) -> PackedShard {
        let mut b = ShardBuilder::new(Profile::U16, pixels);
        for t in data.chunks(128 * pixels) {
            b.push(tile::encode(t, pixels, 0..pixels));
        }
        let (mut lz4, mut lengths, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
        b.write_payload(512, |piece| {
            pack_u16::compress_blocks(piece, &mut lz4, &mut lengths);
            decoded.extend_from_slice(piece);
            Ok::<_, ()>(())
        })
        .unwrap();
        let mut payload = vec![0; decoded.len() + READ_SLACK];
        let n = decoded.len();
        pack_u16::decompress_blocks(&lz4, &lengths, &mut payload[..n]).unwrap();
        assert_eq!(payload[..n], decoded);
        let widths = b.widths();
        let (bases, _) = pack_u16::validate_widths(&widths, b.tiles(), n as u64 / 4).unwrap();
        PackedShard::new(Profile::U16, scans, pixels, payload, TileIndex::Widths { widths, bases })
    }

    fn packed_u8(data: &[u16], scans: usize, pixels: usize) -> PackedShard {
        let bytes: Vec<u8> = data.iter().map(|&v| v as u8).collect();
        let mut b = ShardBuilder::new(Profile::U8, pixels);
        for t in bytes.chunks(32 * pixels) {
            b.push(tile::encode(t, pixels, 0..pixels));
        }
        let mut payload = Vec::new();
        b.write_payload(4096, |p| {
            payload.extend_from_slice(p);
            Ok::<_, ()>(())
        })
        .unwrap();
        let mut headers = Vec::new();
        let end = pack_u8::append_headers(&b.widths(), b.tiles(), 0, &mut headers);
        assert_eq!(end * 4, payload.len() as u64);
        pack_u8::validate_headers(&headers, NibbleWidths::Literal, b.tiles(), end, &[]).unwrap();
        payload.resize(payload.len() + READ_SLACK, 0);
        PackedShard::new(
            Profile::U8,
            scans,
            pixels,
            payload,
            TileIndex::Nibbles { words: headers, meaning: NibbleWidths::Literal },
        )
    }

    #[test]
    fn a_shard_gives_back_its_frames() {
        for (scans, pixels) in [(6, 5), (128, 17), (300, 33), (1056, 3)] {
            let data = frames(scans, pixels, 40_000);
            let shard = packed_u16(&data, scans, pixels);
            check(&shard, &data);
        }
        for (scans, pixels) in [(32, 5), (96, 40), (1056, 19)] {
            let data = frames(scans, pixels, 255);
            check(&packed_u8(&data, scans, pixels), &data);
        }
    }

    fn check(shard: &PackedShard, data: &[u16]) {
        let (per_tile, pixels) = (shard.profile().tile_scans(), shard.pixels());
        for (t, expected) in data.chunks(per_tile * pixels).enumerate() {
            let mut out = vec![0u16; expected.len()];
            expand_tile(shard, Unpack::detect(), t, &mut out, |v| v);
            assert_eq!(out, expected);
        }
        for scan in 0..shard.scans() {
            for pixel in 0..pixels {
                assert_eq!(shard.sample(pixel, scan), data[scan * pixels + pixel]);
            }
        }
        let mut widths = vec![0; shard.tiles()];
        let bytes = shard.pixel(pixels - 1, &mut widths);
        let mut out = vec![0u16; per_tile];
        Unpack::detect().unpack(bytes, widths[0], &mut out);
        let n = per_tile.min(shard.scans());
        assert_eq!(out[..n], (0..n).map(|s| data[s * pixels + pixels - 1]).collect::<Vec<_>>());
    }
}
