//! Writing one encoded shard: payload and tables into the container, digests into records.

use super::index::ShardRecord;
use super::receipt::ReceiptShard;
use super::write::{Element, Skeleton};
use crate::Digest;
use crate::digest::Hasher;
use rayon::prelude::*;
use std::sync::mpsc::sync_channel;
use stempack_codecs::shard::{Profile, ShardBuilder};
use stempack_codecs::{pack_u8, pack_u16};
use stempack_model::{Error, Result};

/// Bytes written at a time; a multiple of every block size.
const PIECE: usize = 1 << 20;
/// Bytes compressed by one thread at a time; a multiple of the block size.
const SUBPIECE: usize = 64 << 10;

/// Writes shard `ordinal`, which begins at `first_scan` and has `scans` scan positions. An all-zero shard gets its
/// one tile of width 1 at `first_admitted`.
pub(super) fn write_shard(
    skeleton: &Skeleton,
    ordinal: usize,
    first_scan: usize,
    scans: usize,
    first_admitted: usize,
    mut builder: ShardBuilder,
    profile: Profile,
) -> Result<(ShardRecord, ReceiptShard)> {
    if builder.payload_bytes() == 0 {
        builder.widen_empty(first_admitted);
    }
    let decoded_bytes = builder.payload_bytes();
    let maximum_bit_width = builder.max_width();
    let (record, tables) = match profile {
        Profile::U8 => write_u8(skeleton, ordinal, builder)?,
        Profile::U16 => write_u16(skeleton, ordinal, builder)?,
    };
    debug_assert_eq!(record.decoded_bytes, decoded_bytes);
    let receipt = ReceiptShard {
        ordinal: ordinal as u64,
        first_scan: first_scan as u64,
        scan_count: scans as u64,
        payload_bytes: record.payload_bytes,
        payload_sha256: record.decoded_sha256.to_hex(),
        header_bytes: record.widths_bytes,
        header_sha256: tables.to_hex(),
        maximum_bit_width,
    };
    Ok((record, receipt))
}

fn write_u8(skeleton: &Skeleton, ordinal: usize, builder: ShardBuilder) -> Result<(ShardRecord, Digest)> {
    let bytes = builder.payload_bytes();
    let payload_offset = skeleton.dataset(ordinal, "payload_u32", Element::U32, bytes as usize / 4)?;
    // Pieces are put together on this thread while the one before is written and hashed: after the last window nothing
    // else keeps the other cores busy.
    let (hand_over, pieces) = sync_channel::<Vec<u8>>(1);
    let hasher = std::thread::scope(|scope| -> Result<Hasher> {
        let consumer = scope.spawn(move || -> Result<Hasher> {
            let mut hasher = Hasher::default();
            let mut at = payload_offset;
            for piece in pieces {
                skeleton.write_at(at, &piece)?;
                hasher.update(&piece);
                at += piece.len() as u64;
            }
            Ok(hasher)
        });
        // A consumer that is gone has failed; its error is taken below.
        let gone = builder.write_payload(PIECE, |piece| hand_over.send(piece.to_vec()));
        drop(hand_over);
        match consumer.join() {
            Ok(hasher) => hasher.inspect(|_| debug_assert!(gone.is_ok())),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    let (tiles, widths) = (builder.tiles(), builder.widths());
    drop(builder);
    let mut words = Vec::new();
    pack_u8::append_headers(&widths, tiles, 0, &mut words);
    let headers: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let widths_offset = skeleton.dataset(ordinal, "compact_headers_u32", Element::U32, words.len())?;
    skeleton.write_at(widths_offset, &headers)?;
    let record = ShardRecord {
        payload_offset,
        payload_bytes: bytes,
        lengths_offset: 0,
        lengths_bytes: 0,
        widths_offset,
        widths_bytes: headers.len() as u64,
        decoded_bytes: bytes,
        descriptor_count: words.len() as u32,
        chunk_count: 0,
        decoded_sha256: hasher.finish(),
    };
    Ok((record, Digest::of(&headers)))
}

fn write_u16(skeleton: &Skeleton, ordinal: usize, builder: ShardBuilder) -> Result<(ShardRecord, Digest)> {
    let decoded_bytes = builder.payload_bytes();
    let mut hasher = Hasher::default();
    let (mut payload, mut lengths) = (Vec::new(), Vec::new());
    builder.write_payload(PIECE, |piece| {
        let (parts, ()) = rayon::join(
            || {
                piece
                    .par_chunks(SUBPIECE)
                    .map(|part| {
                        let (mut payload, mut lengths) = (Vec::new(), Vec::new());
                        pack_u16::compress_blocks(part, &mut payload, &mut lengths);
                        (payload, lengths)
                    })
                    .collect::<Vec<_>>()
            },
            || hasher.update(piece),
        );
        for (p, l) in parts {
            payload.extend_from_slice(&p);
            lengths.extend_from_slice(&l);
        }
        Ok::<_, Error>(())
    })?;
    let widths = builder.widths();
    drop(builder);
    let payload_offset = skeleton.dataset(ordinal, "payload_lz4", Element::U8, payload.len())?;
    let lengths_offset =
        skeleton.dataset(ordinal, "payload_lengths_minus_one", Element::U8, lengths.len())?;
    let widths_offset = skeleton.dataset(ordinal, "descriptor_widths_u8", Element::U8, widths.len())?;
    skeleton.write_at(payload_offset, &payload)?;
    skeleton.write_at(lengths_offset, &lengths)?;
    skeleton.write_at(widths_offset, &widths)?;
    let record = ShardRecord {
        payload_offset,
        payload_bytes: payload.len() as u64,
        lengths_offset,
        lengths_bytes: lengths.len() as u64,
        widths_offset,
        widths_bytes: widths.len() as u64,
        decoded_bytes,
        descriptor_count: widths.len() as u32,
        chunk_count: lengths.len() as u32,
        decoded_sha256: hasher.finish(),
    };
    Ok((record, Digest::of(&widths)))
}
