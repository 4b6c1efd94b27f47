//! Any bytes as a chunk of XOR rows: refused or decoded.
#![no_main]
use libfuzzer_sys::fuzz_target;
use stempack_codecs::qem::xor::{SIDE, XorChunk};
use stempack_model::Task;

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, rows], rest)) = data.split_first_chunk() else { return };
    // Sound descriptors made of the data, some of them changed.
    let mut descriptors = Vec::new();
    let mut word = 0u32;
    for row in 0..SIDE {
        let byte = if row < usize::from(rows) { rest.get(row).copied().unwrap_or(0) } else { 0 };
        let width = u32::from(byte) % 33;
        for value in [u32::from(byte) << 20 | 7, width, (32 - width) / (1 + u32::from(kind) % 3), word] {
            descriptors.extend(value.to_le_bytes());
        }
        word += 4 * width;
    }
    if kind & 64 != 0 {
        for pair in rest.chunks_exact(3).take(2) {
            let at = usize::from(u16::from_le_bytes([pair[0], pair[1]])) % descriptors.len();
            descriptors[at] ^= pair[2];
        }
    }
    let words = if kind & 128 == 0 { word.max(1) as usize } else { rest.len() / 4 };
    let payload: Vec<u8> = rest.iter().copied().chain(std::iter::repeat(0x5a)).take(4 * words).collect();
    let Ok(chunk) = XorChunk::new(1, &payload, &descriptors) else { return };
    let mut out = vec![0f32; SIDE * SIDE];
    chunk.decode(0..1, &mut out, &Task::new()).unwrap();
    // Pixel 0 of the first row by the rule's own words.
    let at = |k: usize| u32::from_le_bytes(descriptors[4 * k..4 * k + 4].try_into().unwrap());
    let first = u32::from_le_bytes(payload[..4].try_into().unwrap());
    let delta = first & ((1u64 << at(1)) - 1) as u32;
    let expected = if at(1) == 0 { at(0) } else { at(0) ^ delta << at(2) };
    assert_eq!(out[0].to_bits(), expected);
});
