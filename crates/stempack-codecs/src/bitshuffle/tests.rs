//! The transposition against its definition, the fast paths against the scalar one, and the framing's refusals.

use super::*;
use proptest::prelude::*;

fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ len as u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

/// The definition, bit by bit: bit `k` of byte `b` of element `i` is bit `i % 8` of byte `i / 8` of plane `8 b + k`.
fn planes_by_definition(elements: &[u8], element_bytes: usize) -> Vec<u8> {
    let n = elements.len() / element_bytes;
    let mut planes = vec![0; elements.len()];
    for i in 0..n {
        for b in 0..element_bytes {
            for k in 0..8 {
                let bit = elements[i * element_bytes + b] >> k & 1;
                planes[(8 * b + k) * (n / 8) + i / 8] |= bit << (i % 8);
            }
        }
    }
    planes
}

#[test]
fn scalar_follows_the_definition() {
    for element_bytes in 1..=MAX_ELEMENT_BYTES {
        for groups in [1, 2, 3, 31] {
            let elements = noise(groups * 8 * element_bytes);
            let planes = planes_by_definition(&elements, element_bytes);
            let mut ours = vec![0; planes.len()];
            transpose_scalar(&elements, element_bytes, &mut ours);
            assert_eq!(ours, planes);
            untranspose_scalar(&planes, element_bytes, &mut ours);
            assert_eq!(ours, elements);
        }
    }
}

#[test]
fn simd_equals_scalar() {
    if simd::Level::available().is_empty() {
        println!("skipped: this machine has none of the vector instructions");
    }
    for &level in simd::Level::available() {
        for element_bytes in [1, 2, 4] {
            for groups in [0, 1, 31, 32, 33, 63, 64, 96, 127, 128, 255, 512] {
                let planes = noise(groups * 8 * element_bytes);
                let mut scalar = vec![0; planes.len()];
                untranspose_scalar(&planes, element_bytes, &mut scalar);
                let mut fast = vec![0; planes.len()];
                let done = simd::untranspose(level, &planes, element_bytes, &mut fast);
                assert_eq!(done, groups / 32 * 32);
                assert_eq!(fast[..done * 8 * element_bytes], scalar[..done * 8 * element_bytes]);
                untranspose_groups(&planes, element_bytes, done, &mut fast);
                assert_eq!(fast, scalar, "{level:?}, {element_bytes} bytes, {groups} groups");
            }
        }
    }
}

#[test]
fn default_blocks_are_8_kib() {
    assert_eq!([1, 2, 4, 8].map(default_block_elements), [8192, 4096, 2048, 1024]);
    assert_eq!(default_block_elements(3), 2728);
}

/// The block structure of real frames, from the format facts: (element bytes, elements, blocks, last block elements,
/// verbatim elements).
#[test]
fn chunks_have_the_documented_structure() {
    for (element_bytes, elements, blocks, last, tail) in [
        (1usize, 192 * 192usize, 5, 4096usize, 0usize),
        (2, 192 * 192, 9, 4096, 0),
        (4, 192 * 192, 18, 2048, 0),
        (1, 100 * 101, 2, 1904, 4),
        (2, 10 * 10, 1, 96, 4),
    ] {
        let data = noise(elements * element_bytes);
        let mut chunk = Vec::new();
        encode_chunk(&data, element_bytes, 0, &mut chunk).unwrap();
        assert_eq!(chunk[..8], (data.len() as u64).to_be_bytes());
        assert_eq!(chunk[8..12], 8192u32.to_be_bytes());
        let (mut at, mut lengths) = (12, Vec::new());
        for _ in 0..blocks {
            let n = u32::from_be_bytes(chunk[at..at + 4].try_into().unwrap()) as usize;
            lengths.push((at + 4, n));
            at += 4 + n;
        }
        assert_eq!(chunk[at..], data[data.len() - tail * element_bytes..]);
        let (start, n) = lengths[blocks - 1];
        let mut block = vec![0; last * element_bytes];
        lz4::decode_block(&chunk[start..start + n], &mut block).unwrap();
    }
}

#[test]
fn every_block_size_and_length_round_trips() {
    let mut scratch = Vec::new();
    for element_bytes in [1, 2, 3, 4, 8, 16] {
        for elements in [0, 1, 7, 8, 9, 100, 1000, 5003] {
            for block in [0, 8, 16, 24, 128, 1000, 4096, 100_000] {
                let data = noise(elements * element_bytes);
                let mut chunk = Vec::new();
                encode_chunk(&data, element_bytes, block * element_bytes, &mut chunk).unwrap();
                let mut out = vec![0; data.len()];
                decode_chunk(&chunk, element_bytes, &mut out, &mut scratch).unwrap();
                assert_eq!(out, data);
            }
        }
    }
}

#[test]
fn uncompressed_chunks_are_blocks_of_planes_and_a_verbatim_tail() {
    let data = noise(2 * (4096 + 24 + 3));
    let mut chunk = planes_by_definition(&data[..8192], 2);
    chunk.extend(planes_by_definition(&data[8192..8192 + 48], 2));
    chunk.extend(&data[8192 + 48..]);
    let mut out = vec![0; data.len()];
    decode_plain(&chunk, 2, 0, &mut out).unwrap();
    assert_eq!(out, data);
    decode_plain(&chunk, 2, 4096, &mut out).unwrap();
    assert_eq!(out, data);
    assert_eq!(decode_plain(&chunk, 2, 12, &mut out), Err(BitshuffleError::BlockBytes(12)));
    assert!(decode_plain(&chunk[1..], 2, 0, &mut out).is_err());
}

#[test]
fn every_header_word_and_length_is_checked() {
    let data = noise(2 * 100);
    let mut chunk = Vec::new();
    encode_chunk(&data, 2, 64, &mut chunk).unwrap();
    let mut out = vec![0; data.len()];
    let run = |chunk: &[u8], out: &mut [u8]| decode_chunk(chunk, 2, out, &mut Vec::new()).unwrap_err();

    assert_eq!(run(&chunk[..11], &mut out), BitshuffleError::HeaderTruncated);
    assert_eq!(run(&chunk, &mut [0; 202]), BitshuffleError::DecodedSize { declared: 200, expected: 202 });
    assert!(matches!(run(&chunk, &mut [0; 199]), BitshuffleError::ElementBytes { .. }));
    for bad in [0u32, 8, 24, 0x7e00_0010, u32::MAX - 15] {
        let mut broken = chunk.clone();
        broken[8..12].copy_from_slice(&bad.to_be_bytes());
        assert_eq!(run(&broken, &mut out), BitshuffleError::BlockBytes(bad));
    }
    for legal_but_wrong in [16u32, 32, 128, 4096] {
        let mut broken = chunk.clone();
        broken[8..12].copy_from_slice(&legal_but_wrong.to_be_bytes());
        assert!(matches!(run(&broken, &mut out), BitshuffleError::Block(0, _)));
    }
    let mut broken = chunk.clone();
    broken[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(run(&broken, &mut out), BitshuffleError::BlockTruncated(0));
    for cut in 12..chunk.len() {
        run(&chunk[..cut], &mut out);
    }
    let mut longer = chunk.clone();
    longer.push(0);
    assert_eq!(run(&longer, &mut out), BitshuffleError::TailLength { found: 9, expected: 8 });
}

proptest! {
    #[test]
    fn arbitrary_chunks_never_panic(mut chunk in prop::collection::vec(any::<u8>(), 0..400), element_bytes in 0usize..18, len in 0usize..600, honest in any::<bool>()) {
        if honest && chunk.len() >= 12 {
            chunk[..8].copy_from_slice(&(len as u64).to_be_bytes());
            chunk[8..12].copy_from_slice(&(element_bytes as u32 * 16).to_be_bytes());
        }
        let _ = decode_chunk(&chunk, element_bytes, &mut vec![0; len], &mut Vec::new());
        let _ = decode_plain(&chunk, element_bytes, len, &mut vec![0; chunk.len()]);
    }

    #[test]
    fn damaged_chunks_are_refused_or_decode_without_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let data = noise(2 * 515);
        let mut chunk = Vec::new();
        encode_chunk(&data, 2, 256, &mut chunk).unwrap();
        let i = at.index(chunk.len());
        chunk[i] = byte;
        let mut out = vec![0; data.len()];
        let _ = decode_chunk(&chunk, 2, &mut out, &mut Vec::new());
        chunk.truncate(cut.index(chunk.len()));
        prop_assert!(decode_chunk(&chunk, 2, &mut out, &mut Vec::new()).is_err());
    }
}
