//! The `.qem` streams: any bytes are refused, or every way of reading them agrees.

use stempack_codecs::qem::columns::{Chunk, Spatial, encode, field_count};
use stempack_codecs::qem::lanes::{self, LaneChunk};
use stempack_codecs::qem::xor::{SIDE, XorChunk};
use stempack_codecs::qem::{BLOCK_SCANS, stream};
use stempack_model::{DetectorShape, Task};

const SELECTORS: [u8; 8] = [252, 253, 254, 255, 50, 20, 63, 64];

/// Any bytes as a chunk of column streams: refused, or all ways of reading it agree with the scalar reference.
pub(crate) fn columns(data: &[u8]) {
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
        let at = |k: usize| u32::from_le_bytes(offsets[4 * k..4 * k + 4].try_into().expect("checked above")) as usize;
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
}

/// Any bytes as a chunk of float halves: refused or decoded, the same from every start.
pub(crate) fn lane_streams(data: &[u8]) {
    let Some((&[scans, pixels, kind], rest)) = data.split_first_chunk() else { return };
    let scans = if kind & 1 == 0 { usize::from(scans) % 8 } else { 480 + usize::from(scans) % 40 };
    let pixels = usize::from(pixels) % 6;
    let (tables, payload) = rest.split_at(rest.len().min(4 * pixels));
    let mut offsets = vec![0u8; 4];
    let (mut end, mut selectors) = (0u32, Vec::new());
    for pair in tables.chunks_exact(2) {
        let selector = if kind & 2 == 0 { [252, 253, 254, 255][usize::from(pair[0] % 4)] } else { pair[0] };
        end += match selector {
            253 => 0,
            254 => 2 * scans as u32,
            255 => 2,
            _ => u32::from(pair[1]),
        };
        offsets.extend(end.to_le_bytes());
        selectors.push(selector);
    }
    let Ok(chunk) = LaneChunk::new(scans, pixels, payload, &offsets, &selectors) else { return };
    let task = Task::new();
    let mut all = vec![0f32; scans * pixels];
    if chunk.decode(0..scans, &mut all, &task).is_ok() {
        let mut part = vec![0f32; (scans - scans / 2) * pixels];
        chunk.decode(scans / 2..scans, &mut part, &task).expect("checked above");
        assert!(part.iter().zip(&all[scans / 2 * pixels..]).all(|(a, b)| a.to_bits() == b.to_bits()));
        let mut column = vec![0f32; scans];
        chunk.decode_pixel(pixels - 1, &mut column).expect("checked above");
        assert!((0..scans).all(|s| column[s].to_bits() == all[s * pixels + pixels - 1].to_bits()));
    }
}

/// Any counts and floats: encoded as the scalar reference does it, and decoded to themselves.
pub(crate) fn round_trip(data: &[u8]) {
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
    let chunk = encode(frames, pixels, &task).expect("checked above");
    for (k, &selector) in chunk.selectors.iter().enumerate() {
        let first = k / pixels * BLOCK_SCANS * pixels + k % pixels;
        let column: Vec<u16> = frames[first..].iter().step_by(pixels).take(BLOCK_SCANS).copied().collect();
        let bytes = &chunk.payload[chunk.offsets[k] as usize..chunk.offsets[k + 1] as usize];
        assert_eq!((selector, bytes.to_vec()), stream::encode(&column));
        assert!(bytes.len() <= 2 * column.len());
    }
    let offsets: Vec<u8> = chunk.offsets.iter().flat_map(|v| v.to_le_bytes()).collect();
    let view = Chunk::new(scans, pixels, u16::MAX, &chunk.payload, &offsets, &chunk.selectors).expect("checked above");
    let mut out = vec![0u16; frames.len()];
    view.decode(0..scans, &mut out, &task).expect("checked above");
    assert_eq!(out, frames);

    let floats: Vec<f32> = rest.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
    let scans = (floats.len() / pixels).min(lanes::longest_chunk(pixels));
    if scans == 0 {
        return;
    }
    let frames = &floats[..scans * pixels];
    let chunk = lanes::encode(frames, pixels, &task).expect("checked above");
    let offsets: Vec<u8> = chunk.offsets.iter().flat_map(|v| v.to_le_bytes()).collect();
    let view = LaneChunk::new(scans, pixels, &chunk.payload, &offsets, &chunk.selectors).expect("checked above");
    let mut out = vec![0f32; frames.len()];
    view.decode(0..scans, &mut out, &task).expect("checked above");
    assert!(out.iter().zip(frames).all(|(a, b)| a.to_bits() == b.to_bits()));
}

/// Any bytes as a spatial index: refused, or every sum can be read both ways.
pub(crate) fn spatial(data: &[u8]) {
    let Some((&[scans, rows, cols, kind], rest)) = data.split_first_chunk() else { return };
    let scans = if kind & 1 == 0 { usize::from(scans) } else { 500 + usize::from(scans) % 40 };
    let Ok(detector) = DetectorShape::new(u64::from(rows) % 40, u64::from(cols) % 40) else { return };
    let streams = scans.div_ceil(512) * field_count(detector);
    if rest.len() < streams {
        return;
    }
    let (widths, words) = rest.split_at(streams);
    let widths: Vec<u8> = if kind & 2 == 0 { widths.iter().map(|w| w % 33).collect() } else { widths.to_vec() };
    let mut offsets = vec![0u8; 8];
    let mut end = 0u64;
    for (k, &width) in widths.iter().enumerate() {
        let len = 512.min(scans - k / field_count(detector) * 512);
        end += (len * usize::from(width)).div_ceil(32) as u64;
        offsets.extend(end.to_le_bytes());
    }
    let words: Vec<u8> = if kind & 4 == 0 && end < 1 << 16 {
        words.iter().copied().chain(std::iter::repeat(0x3c)).take(4 * end as usize).collect()
    } else {
        words.to_vec()
    };
    if kind & 8 != 0 && let Some(first) = words.first() {
        let at = usize::from(*first) % offsets.len();
        offsets[at] ^= 1 << (kind >> 5);
    }
    let Ok(spatial) = Spatial::new(scans, detector, &words, &offsets, &widths) else { return };
    let mut sums = vec![0; scans];
    for field in 0..spatial.field_count() {
        sums.fill(0);
        spatial.add_field(field, &mut sums);
        for (scan, &sum) in sums.iter().enumerate().step_by(1 + scans / 16) {
            assert_eq!(u64::from(spatial.value(scan, field)), sum);
        }
    }
    let frames = vec![0u8; scans.min(3) * detector.pixels()];
    let _ = spatial.compare(0, &frames, &vec![true; detector.pixels()]);
}

/// Any bytes as a chunk of XOR rows: refused or decoded.
pub(crate) fn xor_rows(data: &[u8]) {
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
    chunk.decode(0..1, &mut out, &Task::new()).expect("checked above");
    // Pixel 0 of the first row by the rule's own words.
    let at = |k: usize| u32::from_le_bytes(descriptors[4 * k..4 * k + 4].try_into().expect("checked above"));
    let first = u32::from_le_bytes(payload[..4].try_into().expect("checked above"));
    let delta = first & ((1u64 << at(1)) - 1) as u32;
    let expected = if at(1) == 0 { at(0) } else { at(0) ^ delta << at(2) };
    assert_eq!(out[0].to_bits(), expected);
}
