//! Any bytes as a chunk of column streams: refused, or all ways of reading it agree with the scalar reference.
#![no_main]
use libfuzzer_sys::fuzz_target;
use stempack_codecs::qem::columns::Chunk;
use stempack_codecs::qem::{BLOCK_SCANS, stream};
use stempack_model::Task;

const SELECTORS: [u8; 8] = [252, 253, 254, 255, 50, 20, 63, 64];

fuzz_target!(|data: &[u8]| {
    let Some((&[scans, pixels, kind], rest)) = data.split_first_chunk() else { return };
    let scans = if kind & 1 == 0 { usize::from(scans) } else { 500 + usize::from(scans) % 40 };
    let pixels = usize::from(pixels) % 12;
    let max = if kind & 2 == 0 { 255 } else { u16::MAX };
    let streams = scans.div_ceil(BLOCK_SCANS) * pixels;
    // Lengths and selectors from the data, so that most chunks get past their tables.
    if rest.len() < 2 * streams {
        return;
    }
    let (tables, payload) = rest.split_at(2 * streams);
    let mut offsets = vec![0u8; 4];
    let mut end = 0u32;
    let mut selectors = Vec::new();
    for pair in tables.chunks_exact(2) {
        let selector = if kind & 4 == 0 { SELECTORS[usize::from(pair[0] % 8)] } else { pair[0] };
        end += u32::from(pair[1]);
        if kind & 8 == 0 && selector == 253 {
            end -= u32::from(pair[1]);
        }
        offsets.extend(end.min(payload.len() as u32).to_le_bytes());
        selectors.push(selector);
    }
    if kind & 16 == 0 && let Some(last) = offsets.last_chunk_mut() {
        *last = (payload.len() as u32).to_le_bytes();
    }
    let Ok(chunk) = Chunk::new(scans, pixels, max, payload, &offsets, &selectors) else { return };
    let task = Task::new();
    let mut plain = vec![0u16; scans * pixels];
    let mut sound = true;
    for (k, &selector) in selectors.iter().enumerate() {
        let at = |k: usize| u32::from_le_bytes(offsets[4 * k..4 * k + 4].try_into().unwrap()) as usize;
        let first = k / pixels * BLOCK_SCANS;
        let mut column = vec![0; BLOCK_SCANS.min(scans - first)];
        sound &= stream::decode(selector, &payload[at(k)..at(k + 1)], max, &mut column).is_ok();
        for (row, value) in column.into_iter().enumerate() {
            plain[(first + row) * pixels + k % pixels] = value;
        }
    }
    let mut wide = vec![0u16; scans * pixels];
    assert_eq!(chunk.decode(0..scans, &mut wide, &task).is_ok(), sound);
    let mut patterns = vec![0; pixels];
    assert_eq!(chunk.pattern_sums(&mut patterns, &task).is_ok(), sound);
    let all: Vec<u32> = (0..pixels as u32).collect();
    let mut sums = vec![0; scans];
    assert_eq!(chunk.add_pixels(&all, &mut sums, &task).is_ok(), sound);
    if max == 255 {
        let mut narrow = vec![0u8; scans * pixels];
        assert_eq!(chunk.decode(0..scans, &mut narrow, &task).is_ok(), sound);
        assert!(!sound || narrow.iter().zip(&plain).all(|(&n, &p)| u16::from(n) == p));
    }
    if sound {
        assert_eq!(wide, plain);
        assert_eq!(sums.iter().sum::<u64>(), plain.iter().map(|&v| u64::from(v)).sum());
        assert_eq!(patterns.iter().sum::<u64>(), sums.iter().sum());
    }
});
