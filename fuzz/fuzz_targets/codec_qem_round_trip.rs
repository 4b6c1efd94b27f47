//! Any counts and floats: encoded as the scalar reference does it, and decoded to themselves.
#![no_main]
use libfuzzer_sys::fuzz_target;
use stempack_codecs::qem::columns::{Chunk, encode};
use stempack_codecs::qem::lanes::{self, LaneChunk};
use stempack_codecs::qem::{BLOCK_SCANS, stream};
use stempack_model::Task;

fuzz_target!(|data: &[u8]| {
    let Some((&[pixels, kind], rest)) = data.split_first_chunk() else { return };
    let pixels = usize::from(pixels) % 40 + 1;
    let task = Task::new();
    let counts: Vec<u16> = match kind % 3 {
        0 => rest.as_chunks().0.iter().map(|&b| u16::from_le_bytes(b)).collect(),
        1 => rest.iter().map(|&b| u16::from(b)).collect(),
        _ => rest.iter().flat_map(|&b| [u16::from(b) & 3, u16::from(b) >> 2 & 31, 0, u16::from(b) >> 7]).collect(),
    };
    let frames = &counts[..counts.len() / pixels * pixels];
    if frames.is_empty() {
        return;
    }
    let scans = frames.len() / pixels;
    let chunk = encode(frames, pixels, &task).unwrap();
    for (k, &selector) in chunk.selectors.iter().enumerate() {
        let first = k / pixels * BLOCK_SCANS * pixels + k % pixels;
        let column: Vec<u16> = frames[first..].iter().step_by(pixels).take(BLOCK_SCANS).copied().collect();
        let bytes = &chunk.payload[chunk.offsets[k] as usize..chunk.offsets[k + 1] as usize];
        assert_eq!((selector, bytes.to_vec()), stream::encode(&column));
        assert!(bytes.len() <= 2 * column.len());
    }
    let offsets: Vec<u8> = chunk.offsets.iter().flat_map(|v| v.to_le_bytes()).collect();
    let view = Chunk::new(scans, pixels, u16::MAX, &chunk.payload, &offsets, &chunk.selectors).unwrap();
    let mut out = vec![0u16; frames.len()];
    view.decode(0..scans, &mut out, &task).unwrap();
    assert_eq!(out, frames);

    let floats: Vec<f32> = rest.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
    let scans = (floats.len() / pixels).min(lanes::longest_chunk(pixels));
    if scans == 0 {
        return;
    }
    let frames = &floats[..scans * pixels];
    let chunk = lanes::encode(frames, pixels, &task).unwrap();
    let offsets: Vec<u8> = chunk.offsets.iter().flat_map(|v| v.to_le_bytes()).collect();
    let view = LaneChunk::new(scans, pixels, &chunk.payload, &offsets, &chunk.selectors).unwrap();
    let mut out = vec![0f32; frames.len()];
    view.decode(0..scans, &mut out, &task).unwrap();
    assert!(out.iter().zip(frames).all(|(a, b)| a.to_bits() == b.to_bits()));
});
