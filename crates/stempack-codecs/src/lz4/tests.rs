//! The decoder and the encoder against liblz4 and against hand-made blocks.
#![expect(unsafe_code, reason = "liblz4 is the independent implementation both directions are compared with")]

use super::*;
use proptest::prelude::*;
use std::ffi::c_int;

fn theirs_decode(src: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = vec![0u8; len.max(1)];
    // SAFETY: both pointers are valid for the lengths passed with them.
    let n = unsafe {
        lz4_sys::LZ4_decompress_safe(
            src.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            src.len() as c_int,
            len as c_int,
        )
    };
    (n == len as c_int).then(|| {
        out.truncate(len);
        out
    })
}

fn theirs_encode(src: &[u8]) -> Vec<u8> {
    let mut out = vec![0u8; src.len() + src.len() / 255 + 64];
    // SAFETY: both pointers are valid for the lengths passed with them.
    let n = unsafe {
        lz4_sys::LZ4_compress_default(
            src.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            src.len() as c_int,
            out.len() as c_int,
        )
    };
    assert!(n > 0);
    out.truncate(n as usize);
    out
}

/// Deterministic bytes, `density` of 256 of them nonzero.
fn noise(len: usize, density: u32, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if (state & 255) < u64::from(density) { (state >> 32) as u8 } else { 0 }
        })
        .collect()
}

fn inputs() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for len in (0..40)
        .chain([63, 64, 65, 127, 128, 129, 255, 256, 257, 269, 270, 271, 511, 4096, 8192, 70_000, 200_001])
    {
        for density in [0, 3, 20, 100, 256] {
            all.push(noise(len, density, len as u64 + 7));
        }
        all.push((0..len).map(|i| (i % 3) as u8).collect());
        all.push((0..len).map(|i| (i % 7) as u8).collect());
        all.push((0..len).map(|i| (i % 16) as u8).collect());
        all.push((0..len).map(|i| (i % 37) as u8).collect());
    }
    all
}

/// The end rules of the format, read off a block: its last bytes are literals and its last match starts early enough.
fn obeys_end_rules(block: &[u8], decoded_len: usize) -> bool {
    let (mut ip, mut op, mut last_match) = (0, 0, None);
    loop {
        let token = block[ip];
        ip += 1;
        let mut literals = (token >> 4) as usize;
        if literals == 15 {
            literals += read_length(block, &mut ip).unwrap();
        }
        ip += literals;
        op += literals;
        if ip == block.len() {
            return match last_match {
                None => true,
                Some(start) => literals >= LAST_LITERALS && start + MATCH_START_LIMIT <= decoded_len,
            };
        }
        ip += 2;
        let mut length = (token & 15) as usize;
        if length == 15 {
            length += read_length(block, &mut ip).unwrap();
        }
        last_match = Some(op);
        op += length + MIN_MATCH;
    }
}

#[test]
fn liblz4_decodes_what_we_write() {
    for input in inputs() {
        let mut block = vec![0xaa, 0xbb];
        encode_block(&input, &mut block);
        assert_eq!(&block[..2], &[0xaa, 0xbb], "encoding appends");
        let block = &block[2..];
        assert!(block.len() <= literal_block_len(input.len()));
        assert_eq!(
            theirs_decode(block, input.len()).as_deref(),
            Some(input.as_slice()),
            "length {}",
            input.len()
        );
        assert!(obeys_end_rules(block, input.len()), "length {}", input.len());
        let mut ours = vec![0xee; input.len()];
        decode_block(block, &mut ours).unwrap();
        assert_eq!(ours, input);
    }
}

#[test]
fn we_decode_what_liblz4_writes() {
    for input in inputs() {
        let block = theirs_encode(&input);
        let mut ours = vec![0xee; input.len()];
        decode_block(&block, &mut ours).unwrap();
        assert_eq!(ours, input, "length {}", input.len());
        let mut longer = vec![0; input.len() + 1];
        assert_eq!(decode_block(&block, &mut longer), Err(Lz4Error::ShortOutput));
        if !input.is_empty() {
            let mut shorter = vec![0; input.len() - 1];
            assert!(decode_block(&block, &mut shorter).is_err());
        }
    }
}

#[test]
fn an_incompressible_piece_of_128_bytes_takes_130() {
    let piece: Vec<u8> = (0..128).map(|i| i as u8).collect();
    let mut block = Vec::new();
    encode_block(&piece, &mut block);
    assert_eq!(block.len(), 130);
    assert_eq!(&block[..2], &[0xf0, 113]);
    assert_eq!(&block[2..], piece.as_slice());
}

#[test]
fn zeros_take_a_handful_of_bytes() {
    let mut block = Vec::new();
    encode_block(&[0; 128], &mut block);
    // One literal, a match of 122 at distance 1, five last literals.
    assert_eq!(block, [0x1f, 0, 1, 0, 103, 0x50, 0, 0, 0, 0, 0]);
}

fn fails(src: &[u8], len: usize) -> Lz4Error {
    decode_block(src, &mut vec![0; len]).unwrap_err()
}

#[test]
fn every_refusal_has_its_name() {
    assert_eq!(fails(&[], 0), Lz4Error::TruncatedToken);
    assert_eq!(fails(&[0xf0], 20), Lz4Error::TruncatedToken);
    assert_eq!(fails(&[0xf0, 255], 20), Lz4Error::TruncatedToken);
    assert_eq!(fails(&[0x30, 1, 2], 3), Lz4Error::TruncatedLiterals);
    assert_eq!(fails(&[0x10, 1, 1], 6), Lz4Error::TruncatedOffset);
    assert_eq!(fails(&[0x10, 1, 0, 0], 5), Lz4Error::BadOffset);
    assert_eq!(fails(&[0x10, 1, 2, 0], 5), Lz4Error::BadOffset);
    assert_eq!(fails(&[0x30, 1, 2, 3], 2), Lz4Error::OutputOverrun);
    assert_eq!(fails(&[0x11, 9, 1, 0], 5), Lz4Error::OutputOverrun);
    assert_eq!(fails(&[0x30, 1, 2, 3], 4), Lz4Error::ShortOutput);
    assert_eq!(fails(&[0x11, 9, 1, 0], 7), Lz4Error::ShortOutput);
    assert_eq!(fails(&[0x10, 1, 1, 0], 1), Lz4Error::LeftoverInput);
}

#[test]
fn a_block_may_end_in_a_match() {
    let mut out = [0; 6];
    decode_block(&[0x11, 9, 1, 0], &mut out).unwrap();
    assert_eq!(out, [9; 6]);
    decode_block(&[0], &mut []).unwrap();
}

#[test]
fn matches_of_every_distance_repeat_byte_by_byte() {
    for distance in 1..=40usize {
        for length in (4..=80).chain([127, 128, 129, 300]) {
            for after in [0usize, 1, 15, 16, 40] {
                let head: Vec<u8> = (0..distance as u8).map(|b| b.wrapping_mul(37).wrapping_add(1)).collect();
                let mut block = Vec::new();
                block.push((distance.min(15) as u8) << 4 | (length - 4).min(15) as u8);
                if distance >= 15 {
                    block.push((distance - 15) as u8);
                }
                block.extend_from_slice(&head);
                block.extend_from_slice(&(distance as u16).to_le_bytes());
                if length >= 19 {
                    let mut out = [0; 4];
                    let n = emit_length(&mut out, 0, length - 19);
                    block.extend_from_slice(&out[..n]);
                }
                let tail = vec![0x5a; after];
                let mut last = vec![0; after + 3];
                let n = emit_last(&mut last, 0, &tail);
                block.extend_from_slice(&last[..n]);
                let mut expected = head.clone();
                for k in 0..length {
                    expected.push(expected[k]);
                }
                expected.extend_from_slice(&tail);
                let mut out = vec![0; expected.len()];
                decode_block(&block, &mut out).unwrap();
                assert_eq!(out, expected, "distance {distance}, length {length}, {after} after");
            }
        }
    }
}

/// The format forbids the distance 0; liblz4 lets it pass and writes zeros.
fn accepts_like_liblz4(result: Result<(), Lz4Error>) -> bool {
    matches!(result, Ok(()) | Err(Lz4Error::BadOffset))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Where liblz4 accepts a block we do, with the same bytes. (The reverse does not hold: liblz4 insists on the end
    /// rules.) Nothing panics.
    #[test]
    fn arbitrary_bytes_are_decoded_like_liblz4_or_refused(src in prop::collection::vec(any::<u8>(), 0..200), len in 0usize..400) {
        let mut ours = vec![0; len];
        let result = decode_block(&src, &mut ours);
        if let Some(theirs) = theirs_decode(&src, len) {
            prop_assert!(accepts_like_liblz4(result));
            prop_assert!(result.is_err() || ours == theirs);
        }
    }

    #[test]
    fn damaged_blocks_never_panic(len in 1usize..3000, density in 0u32..256, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let input = noise(len, density, 3);
        let mut block = theirs_encode(&input);
        let i = at.index(block.len());
        block[i] = byte;
        let mut ours = vec![0; len];
        let result = decode_block(&block, &mut ours);
        if let Some(theirs) = theirs_decode(&block, len) {
            prop_assert!(accepts_like_liblz4(result));
            prop_assert!(result.is_err() || ours == theirs);
        }
        block.truncate(cut.index(block.len()));
        let result = decode_block(&block, &mut ours);
        prop_assert!(accepts_like_liblz4(result) || theirs_decode(&block, len).is_none());
    }

    #[test]
    fn round_trip(src in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>()], 0..2000)) {
        let mut block = Vec::new();
        encode_block(&src, &mut block);
        prop_assert!(block.len() <= literal_block_len(src.len()));
        prop_assert_eq!(theirs_decode(&block, src.len()), Some(src));
    }
}
