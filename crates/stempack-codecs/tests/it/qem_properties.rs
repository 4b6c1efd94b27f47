//! Any array survives; the fast ways give the scalar reference's bytes and sums.

use proptest::prelude::*;
use stempack_codecs::qem::columns::{
    Chunk, Spatial, encode, fields, plan_mask, plan_mask_subtracting, spatial_index,
};
use stempack_codecs::qem::lanes::{self, LaneChunk};
use stempack_codecs::qem::{BLOCK_SCANS, QemSample, stream};
use stempack_model::{DetectorShape, Task};

/// Columns of different kinds: mostly zero, small, around the escape, anything.
fn column_kind() -> impl Strategy<Value = u16> {
    prop_oneof![
        Just(1),
        Just(2),
        Just(5),
        Just(31),
        Just(34),
        Just(128),
        Just(130),
        Just(256),
        Just(u16::MAX)
    ]
}

fn array() -> impl Strategy<Value = (usize, Vec<u16>)> {
    (1usize..70, prop_oneof![1usize..20, 505usize..530, 1020usize..1030], any::<u64>()).prop_flat_map(
        |(pixels, scans, seed)| {
            (
                Just(pixels),
                proptest::collection::vec((column_kind(), 0u16..6), pixels).prop_map(move |kinds| {
                    let mut state = seed;
                    (0..scans * pixels)
                        .map(|i| {
                            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                            let (below, rarely) = kinds[i % pixels];
                            let noise = (state >> 32) as u16;
                            if ((state >> 50) as u16).is_multiple_of(rarely * rarely + 1) {
                                noise % below
                            } else {
                                0
                            }
                        })
                        .collect()
                }),
            )
        },
    )
}

fn le(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn round_trip<S: QemSample + PartialEq + std::fmt::Debug>(frames: &[S], pixels: usize) {
    let task = Task::new();
    let scans = frames.len() / pixels;
    let chunk = encode(frames, pixels, &task).unwrap();
    // The scalar reference's bytes, stream by stream.
    for k in 0..chunk.selectors.len() {
        let (block, pixel) = (k / pixels, k % pixels);
        let column: Vec<u16> = frames[block * BLOCK_SCANS * pixels..]
            .iter()
            .skip(pixel)
            .step_by(pixels)
            .take(BLOCK_SCANS)
            .map(|&v| v.into())
            .collect();
        let bytes = &chunk.payload[chunk.offsets[k] as usize..chunk.offsets[k + 1] as usize];
        assert_eq!((chunk.selectors[k], bytes.to_vec()), stream::encode(&column));
        assert!(bytes.len() <= 2 * column.len());
    }
    let offsets = le(&chunk.offsets);
    let view = Chunk::new(scans, pixels, S::MAX, &chunk.payload, &offsets, &chunk.selectors).unwrap();
    for range in [0..scans, scans / 3..scans, scans / 2..scans / 2 + 1, scans..scans] {
        let mut out = vec![S::default(); range.len() * pixels];
        view.decode(range.clone(), &mut out, &task).unwrap();
        assert!(out == frames[range.start * pixels..range.end * pixels]);
    }
    let mut column = vec![0; scans];
    view.decode_pixel(pixels - 1, &mut column).unwrap();
    assert!((0..scans).all(|s| column[s] == frames[s * pixels + pixels - 1].into()));
    let chosen: Vec<u32> = (0..pixels as u32).filter(|p| p % 3 != 1).chain([0]).collect();
    let mut sums = vec![1; scans];
    view.add_pixels(&chosen, &mut sums, &task).unwrap();
    for (scan, &sum) in sums.iter().enumerate() {
        let count = |&p: &u32| u64::from(frames[scan * pixels + p as usize].into());
        assert_eq!(sum, 1 + chosen.iter().map(count).sum::<u64>());
    }
    let mut patterns = vec![2; pixels];
    view.pattern_sums(&mut patterns, &task).unwrap();
    for (pixel, &sum) in patterns.iter().enumerate() {
        let count = |s: usize| u64::from(frames[s * pixels + pixel].into());
        assert_eq!(sum, 2 + (0..scans).map(count).sum::<u64>());
    }
}

#[test]
fn every_way_of_coding_is_chosen_where_it_is_shortest() {
    let zeros = [0u16; 512];
    let mut two = zeros;
    (two[3], two[511]) = (1, 128);
    assert_eq!(stream::encode(&zeros), (stream::ZERO, vec![]));
    assert_eq!(stream::encode(&[300; 512]), (stream::CONSTANT, vec![44, 1]));
    // Position in bits 7 to 15, count minus one below.
    assert_eq!(stream::encode(&two), (stream::SPARSE, vec![0x80, 0x01, 0xff, 0xff]));
    two[3] = 129;
    let (selector, bytes) = stream::encode(&two);
    assert!(selector < 64 && bytes.len() < 1024);
    let noise: Vec<u16> = (0..512).map(|i| i * 127).collect();
    let (selector, bytes) = stream::encode(&noise);
    assert_eq!((selector, bytes.len()), (stream::LITERAL, 1024));
    assert!(bytes.as_chunks().0.iter().map(|&b| u16::from_le_bytes(b)).eq(noise));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn counts_come_back_u16((pixels, frames) in array()) {
        round_trip(&frames, pixels);
    }

    #[test]
    fn counts_come_back_u8((pixels, frames) in array()) {
        let frames: Vec<u8> = frames.iter().map(|&v| v as u8).collect();
        round_trip(&frames, pixels);
    }

    #[test]
    fn no_way_of_coding_is_shorter((_, column) in array()) {
        for column in column.chunks(BLOCK_SCANS) {
            let (_, chosen) = stream::encode(column);
            let events = column.iter().filter(|&&v| v > 0).count();
            let model = (0..64).map(|m| stream::encode_model(m, column).len()).min().unwrap();
            let mut least = model.min(2 * column.len());
            if column.iter().all(|&v| v <= 128) {
                least = least.min(2 * events);
            }
            // Models are compared by their exact cost; streams have whole bytes.
            prop_assert!(chosen.len() <= least + 1, "{} bytes, {} are enough", chosen.len(), least);
            prop_assert!(chosen.len() <= 2 * column.len());
        }
    }

    #[test]
    fn floats_come_back_bit_by_bit(
        pixels in 1usize..9,
        bits in proptest::collection::vec(prop_oneof![Just(0), Just(0x3f80_0000), any::<u32>()], 1..300),
    ) {
        let bits = &bits[..bits.len() / pixels * pixels];
        prop_assume!(!bits.is_empty());
        let frames: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
        let scans = frames.len() / pixels;
        let chunk = lanes::encode(&frames, pixels, &Task::new()).unwrap();
        let offsets = le(&chunk.offsets);
        let view = LaneChunk::new(scans, pixels, &chunk.payload, &offsets, &chunk.selectors).unwrap();
        let mut out = vec![0f32; frames.len()];
        view.decode(0..scans, &mut out, &Task::new()).unwrap();
        prop_assert!(out.iter().map(|v| v.to_bits()).eq(bits.iter().copied()));
    }

    #[test]
    fn masks_sum_exactly(
        rows in 1usize..70, cols in 1usize..70, scans in 1usize..5, seed in any::<u64>(), rare in 1u64..40,
    ) {
        let detector = DetectorShape::new(rows as u64, cols as u64).unwrap();
        let pixels = rows * cols;
        let mut state = seed;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        let frames: Vec<u16> = (0..scans * pixels).map(|_| (noise() % 3 * (noise() % 9000)) as u16).collect();
        let valid: Vec<bool> = (0..pixels).map(|_| noise() % (rare * rare) != 0).collect();
        let (top, left) = (noise() as usize % rows, noise() as usize % cols);
        let members: Vec<bool> =
            (0..pixels).map(|p| p / cols >= top && p % cols >= left && noise() % (rare * rare) != 1).collect();
        let index = spatial_index(&frames, detector, &valid);
        let (words, offsets) =
            (le(&index.words), index.offsets.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
        let spatial = Spatial::new(scans, detector, &words, &offsets, &index.widths).unwrap();
        spatial.compare(0, &frames, &valid).unwrap();
        for (k, field) in fields(detector).iter().enumerate() {
            let mut sums = vec![0; scans];
            spatial.add_field(k, &mut sums);
            for (scan, &sum) in sums.iter().enumerate() {
                let mut expected = 0u64;
                for row in field.rows.clone() {
                    for col in field.cols.clone().filter(|col| valid[row * cols + col]) {
                        expected += u64::from(frames[scan * pixels + row * cols + col]);
                    }
                }
                prop_assert_eq!(sum, expected);
                prop_assert_eq!(u64::from(spatial.value(scan, k)), expected);
            }
        }
        let chunk = encode(&frames, pixels, &Task::new()).unwrap();
        let starts = le(&chunk.offsets);
        let view = Chunk::new(scans, pixels, u16::MAX, &chunk.payload, &starts, &chunk.selectors).unwrap();
        for plan in [plan_mask(detector, &members, &valid), plan_mask_subtracting(detector, &members, &valid)] {
            let mut sums = vec![0; scans];
            plan.apply(&view, &spatial, &mut sums, &Task::new()).unwrap();
            for (scan, &sum) in sums.iter().enumerate() {
                let inside = (0..pixels).filter(|&p| members[p] && valid[p]);
                prop_assert_eq!(sum, inside.map(|p| u64::from(frames[scan * pixels + p])).sum::<u64>());
            }
        }
        prop_assert!(plan_mask(detector, &members, &valid).minus.is_empty());
    }
}
