//! One byte of a chunk changed: refused, or decoded to counts that a plain reading of the format also gives.

use stempack_codecs::qem::columns::{Chunk, Spatial, encode, spatial_index};
use stempack_codecs::qem::lanes::{self, LaneChunk};
use stempack_codecs::qem::xor::XorChunk;
use stempack_codecs::qem::{BLOCK_SCANS, stream};
use stempack_model::{DetectorShape, Task};

/// Two blocks; columns that need every way of coding.
fn counts(scans: usize, pixels: usize) -> Vec<u16> {
    let mut state = 99u64;
    (0..scans * pixels)
        .map(|i| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let noise = (state >> 40) as u16;
            match i % pixels {
                0 => 0,
                1 => 7,
                2 => u16::from(noise.is_multiple_of(64)) * (noise % 100),
                3 => noise,
                4 => noise % 3 + noise % 2,
                5 => u16::from(noise.is_multiple_of(9)) * 40 + noise % 5,
                _ => noise % 12,
            }
        })
        .collect()
}

fn le32(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// All counts by the scalar reference alone, `None` when anything is wrong.
fn plainly(
    scans: usize,
    pixels: usize,
    payload: &[u8],
    offsets: &[u8],
    selectors: &[u8],
) -> Option<Vec<u16>> {
    let at = |k: usize| u32::from_le_bytes(offsets[4 * k..4 * k + 4].try_into().unwrap()) as usize;
    if at(0) != 0 || at(selectors.len()) != payload.len() {
        return None;
    }
    let mut out = vec![0; scans * pixels];
    for (k, &selector) in selectors.iter().enumerate() {
        let first = k / pixels * BLOCK_SCANS;
        let mut column = vec![0; BLOCK_SCANS.min(scans - first)];
        let bytes = payload.get(at(k)..at(k + 1))?;
        stream::decode(selector, bytes, 255, &mut column).ok()?;
        for (row, value) in column.into_iter().enumerate() {
            out[(first + row) * pixels + k % pixels] = value;
        }
    }
    Some(out)
}

#[test]
fn a_changed_byte_is_refused_or_means_what_it_says() {
    let (scans, pixels) = (530, 9);
    let frames: Vec<u16> = counts(scans, pixels).iter().map(|v| v % 256).collect();
    let task = Task::new();
    let chunk = encode(&frames, pixels, &task).unwrap();
    let arrays = [chunk.payload.clone(), le32(&chunk.offsets), chunk.selectors.clone()];
    let (mut refused, mut other) = (0, 0);
    for array in 0..3 {
        for at in 0..arrays[array].len() {
            for change in [1u8, 0x80, 0xff] {
                let mut damaged = arrays.clone();
                damaged[array][at] ^= change;
                let [payload, offsets, selectors] = &damaged;
                let expected = plainly(scans, pixels, payload, offsets, selectors);
                let decoded = Chunk::new(scans, pixels, 255, payload, offsets, selectors).and_then(|chunk| {
                    let mut out = vec![0u16; frames.len()];
                    chunk.decode(0..scans, &mut out, &task)?;
                    Ok(out)
                });
                match (&decoded, &expected) {
                    (Err(_), None) => refused += 1,
                    (Ok(out), Some(plain)) => {
                        other += 1;
                        assert!(out == plain, "array {array}, byte {at}");
                    }
                    _ => panic!("array {array}, byte {at}: {decoded:?}"),
                }
            }
        }
    }
    // Literal, constant and sparse streams say other counts; everything else is caught.
    assert!(refused > 3 * other && other > 0, "{refused} refused, {other} read otherwise");
}

#[test]
fn sums_refuse_what_decoding_refuses() {
    let (scans, pixels) = (60, 9);
    let frames: Vec<u16> = counts(scans, pixels).iter().map(|v| v % 256).collect();
    let task = Task::new();
    let chunk = encode(&frames, pixels, &task).unwrap();
    let offsets = le32(&chunk.offsets);
    let all: Vec<u32> = (0..pixels as u32).collect();
    for at in 0..chunk.payload.len() {
        let mut payload = chunk.payload.clone();
        payload[at] ^= 0x41;
        let view = Chunk::new(scans, pixels, 255, &payload, &offsets, &chunk.selectors).unwrap();
        let mut out = vec![0u8; frames.len()];
        let decoded = view.decode(0..scans, &mut out, &task);
        let (mut sums, mut patterns) = (vec![0; scans], vec![0; pixels]);
        let summed = view.add_pixels(&all, &mut sums, &task);
        let pattern = view.pattern_sums(&mut patterns, &task);
        assert_eq!((summed.is_ok(), pattern.is_ok()), (decoded.is_ok(), decoded.is_ok()), "byte {at}");
        if decoded.is_ok() {
            assert!(
                (0..scans)
                    .all(|s| sums[s] == (0..pixels).map(|p| u64::from(out[s * pixels + p])).sum::<u64>())
            );
            assert!(
                (0..pixels)
                    .all(|p| patterns[p] == (0..scans).map(|s| u64::from(out[s * pixels + p])).sum::<u64>())
            );
        }
    }
}

#[test]
fn faults_are_named_with_their_place() {
    let frames = counts(530, 9);
    let task = Task::new();
    let chunk = encode(&frames, 9, &task).unwrap();
    let offsets = le32(&chunk.offsets);
    // The last state of block 1, pixel 6: its first byte is the low end of the initial state.
    let mut payload = chunk.payload.clone();
    payload[chunk.offsets[15] as usize] ^= 1;
    let view = Chunk::new(530, 9, u16::MAX, &payload, &offsets, &chunk.selectors).unwrap();
    let error = view.decode(0..530, &mut vec![0u16; 530 * 9], &task).unwrap_err();
    assert_eq!(error.code(), "qem_entropy");
    assert!(error.message().starts_with("block 1, pixel 6: "), "{error}");
    // Block 0 alone is sound.
    view.decode(3..512, &mut vec![0u16; 509 * 9], &task).unwrap();
    let view = Chunk::new(530, 9, 255, &chunk.payload, &offsets, &chunk.selectors).unwrap();
    let error = view.decode(0..530, &mut vec![0u16; 530 * 9], &task).unwrap_err();
    assert_eq!(error.code(), "qem_value_range");
    assert!(error.message().contains("pixel 3: ") && error.message().contains("at most 255"), "{error}");
}

#[test]
fn wrong_array_lengths_are_refused() {
    let chunk = encode(&counts(40, 9), 9, &Task::new()).unwrap();
    let offsets = le32(&chunk.offsets);
    let new = |scans, pixels, offsets: &[u8], selectors: &[u8]| {
        Chunk::new(scans, pixels, 255, &chunk.payload, offsets, selectors).map(|_| ()).map_err(|e| e.code())
    };
    assert_eq!(new(40, 9, &offsets[1..], &chunk.selectors), Err("qem_array_length"));
    assert_eq!(new(40, 9, &offsets, &chunk.selectors[1..]), Err("qem_array_length"));
    assert_eq!(new(0, 9, &offsets[..4], &[]), Err("qem_array_length"));
    assert_eq!(new(40, usize::MAX, &offsets, &chunk.selectors), Err("qem_array_length"));
    assert_eq!(new(usize::MAX, usize::MAX, &offsets, &chunk.selectors), Err("qem_array_length"));
    assert_eq!(new(40, 9, &offsets, &chunk.selectors), Ok(()));
    assert_eq!(new(41, 9, &offsets, &chunk.selectors), Err("qem_stream_length"));
}

#[test]
fn an_index_that_lies_is_refused() {
    let detector = DetectorShape::new(9, 10).unwrap();
    let frames = counts(30, 90);
    let valid = vec![true; 90];
    let index = spatial_index(&frames, detector, &valid);
    let arrays = [
        le32(&index.words),
        index.offsets.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>(),
        index.widths.clone(),
    ];
    let read =
        |a: &[Vec<u8>; 3]| Spatial::new(30, detector, &a[0], &a[1], &a[2])?.compare(0, &frames, &valid);
    read(&arrays).unwrap();
    for (array, code) in [(0, "qem_spatial_sum"), (1, "qem_spatial_layout"), (2, "")] {
        for at in 0..arrays[array].len() {
            for change in [1u8, 32, 0x80] {
                let mut damaged = arrays.clone();
                damaged[array][at] ^= change;
                match read(&damaged) {
                    // Bits past the last value of a word stream mean nothing.
                    Ok(()) => assert_eq!(array, 0),
                    Err(error) => assert!(code.is_empty() || error.code() == code, "{array} {at}: {error}"),
                }
            }
        }
        let mut short = arrays.clone();
        short[array].pop();
        assert_eq!(read(&short).unwrap_err().code(), "qem_array_length");
    }
}

#[test]
fn float_chunks_have_limits() {
    let task = Task::new();
    assert_eq!(lanes::longest_chunk(128 * 128), 512);
    assert_eq!(lanes::longest_chunk(256 * 256), 128);
    assert_eq!(lanes::longest_chunk(8 << 20), 1);
    assert_eq!(lanes::longest_chunk((8 << 20) + 1), 0);
    assert_eq!(lanes::encode(&[0.0; 513], 1, &task).unwrap_err().code(), "out_of_range");
    let zeros = lanes::encode(&[0.0; 6], 3, &task).unwrap();
    assert_eq!((zeros.payload.len(), zeros.offsets), (1, vec![0; 7]));
    let sound = lanes::encode(&[1.5, f32::NAN, -0.0, 3.0, 1e-40, f32::INFINITY], 3, &task).unwrap();
    let offsets = le32(&sound.offsets);
    for at in 0..offsets.len() {
        let mut damaged = offsets.clone();
        damaged[at] ^= 0x10;
        // Growing the last offset would need filler behind it.
        assert!(LaneChunk::new(2, 3, &sound.payload, &damaged, &sound.selectors).is_err(), "byte {at}");
    }
}

#[test]
fn xor_rows_follow_the_rule_bit_by_bit() {
    // Row r of one frame has width r mod 33 and the largest shift that leaves room.
    let (mut words, mut descriptors) = (Vec::<u32>::new(), Vec::new());
    let mut expected = Vec::new();
    for row in 0..128u32 {
        let (base, width) = (row.wrapping_mul(0x9e37_79b9), row % 33);
        let shift = 32 - width;
        descriptors.extend(le32(&[base, width, if width == 0 { 5 } else { shift }, words.len() as u32]));
        let first = words.len();
        words.resize(first + 4 * width as usize, 0);
        for col in 0..128u32 {
            let delta =
                (row + 1).wrapping_mul(col + 3).wrapping_mul(0x85eb_ca6b) & ((1u64 << width) - 1) as u32;
            for bit in 0..width {
                let at = (col * width + bit) as usize;
                words[first + at / 32] |= (delta >> bit & 1) << (at % 32);
            }
            expected.push(base ^ if width == 0 { 0 } else { delta << shift });
        }
    }
    let payload = le32(&words);
    let chunk = XorChunk::new(1, &payload, &descriptors).unwrap();
    let mut out = vec![0f32; 128 * 128];
    chunk.decode(0..1, &mut out, &Task::new()).unwrap();
    assert!(out.iter().map(|v| v.to_bits()).eq(expected));
    for at in 0..descriptors.len() {
        let mut damaged = descriptors.clone();
        damaged[at] ^= 0x40;
        // Only a base may be anything.
        let result = XorChunk::new(1, &payload, &damaged);
        assert_eq!(result.is_ok(), at % 16 < 4, "byte {at}");
    }
    assert!(XorChunk::new(1, &payload[4..], &descriptors).is_err());
    assert!(XorChunk::new(1, &[], &descriptors).is_err());
    assert!(XorChunk::new(2, &payload, &descriptors).is_err());
    assert!(XorChunk::new(513, &payload, &descriptors).is_err());
}
