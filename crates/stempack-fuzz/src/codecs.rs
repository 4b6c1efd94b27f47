//! Codecs: any bytes are decoded or refused.

use stempack_codecs::pack_u8::{self, NibbleWidths};
use stempack_codecs::shard::{PackedShard, Profile, TileIndex};
use stempack_codecs::tile::READ_SLACK;
use stempack_codecs::{bitshuffle as shuffled, lz4 as blocks, pack_u16};

/// A raw LZ4 block is decoded or refused, and what is encoded comes back.
pub(crate) fn lz4(data: &[u8]) {
    let Some((&size, block)) = data.split_first() else { return };
    let mut out = vec![0; size as usize * 40];
    let _ = blocks::decode_block(block, &mut out);
    let mut encoded = Vec::new();
    blocks::encode_block(block, &mut encoded);
    let mut back = vec![0; block.len()];
    blocks::decode_block(&encoded, &mut back).expect("own block");
    assert_eq!(back, block);
}

/// A bitshuffle/LZ4 chunk is decoded or refused, and so are its planes alone, with the same words.
pub(crate) fn bitshuffle(data: &[u8]) {
    let Some((&first, chunk)) = data.split_first() else { return };
    let element = [1, 2, 4, 8][first as usize % 4];
    let mut out = vec![0; element * (first as usize / 4 * 37 + 5)];
    let decoded = shuffled::decode_chunk(chunk, element, &mut out, &mut Vec::new());
    if element <= 2 {
        let (mut planes, mut present) = (vec![0; out.len()], vec![0; out.len() / (8 * element) + 1]);
        let alone = shuffled::decode_planes(chunk, element, &mut planes, &mut present, &mut Vec::new());
        assert_eq!(alone, decoded);
        // Planes that are not written are zero here, as is what they stand for.
        let block = shuffled::declared_block_bytes(chunk).filter(|_| decoded.is_ok());
        let whole = out.len() / (8 * element) * (8 * element);
        for (planes, out) in block
            .into_iter()
            .flat_map(|n| planes[..whole].chunks(n as usize).zip(out[..whole].chunks(n as usize)))
        {
            let mut counts = vec![0; out.len()];
            shuffled::untranspose_scalar(planes, element, &mut counts);
            assert_eq!(counts, out);
        }
    }
}

/// A shard's headers or widths are refused, or readable at every tile.
pub(crate) fn pack_tables(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let tiles = first as usize % 40 + 1;
    let widths: Vec<u8> = rest.iter().map(|b| b % 18).collect();
    let pixels = widths.len() / tiles;
    if pixels == 0 {
        return;
    }
    let words: u64 = widths[..pixels * tiles].iter().map(|&w| 4 * u64::from(w)).sum();
    if let Ok((bases, _)) = pack_u16::validate_widths(&widths[..pixels * tiles], tiles, words) {
        let payload = vec![0xa5; 4 * words as usize + READ_SLACK];
        let index = TileIndex::Widths { widths: widths[..pixels * tiles].to_vec(), bases };
        read_all(&PackedShard::new(Profile::U16, tiles * 128 - 5, pixels, payload, index));
    }
    let meaning = if first & 128 == 0 { NibbleWidths::Literal } else { NibbleWidths::Escape16 };
    let per_pixel = pack_u8::header_words_per_pixel(tiles);
    let all: Vec<u32> = rest.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let pixels = all.len() / per_pixel;
    for words in 0..64 {
        let headers = &all[..pixels * per_pixel];
        if pixels > 0 && pack_u8::validate_headers(headers, meaning, tiles, words, &[0]).is_ok() {
            let payload = vec![0xa5; 4 * words as usize + READ_SLACK];
            let index = TileIndex::Nibbles { words: headers.to_vec(), meaning };
            read_all(&PackedShard::new(Profile::U8, tiles * 32, pixels, payload, index));
        }
    }
}

fn read_all(shard: &PackedShard) {
    let mut widths = vec![0; shard.tiles()];
    for pixel in 0..shard.pixels() {
        shard.pixel(pixel, &mut widths);
        for scan in (0..shard.scans()).step_by(17) {
            shard.sample(pixel, scan);
        }
    }
}
