use super::*;
use crate::shard::{Profile, ShardBuilder, TileIndex};
use crate::tile::{self, READ_SLACK};

fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    }
}

/// Counts of every width, of every density, with runs of zero words.
fn pixels() -> Vec<BlockCounts> {
    let mut next = noise(11);
    let mut all = Vec::new();
    for width in 0..=16u32 {
        for density in [1, 3, 40, 400] {
            let mut counts = [0u16; BLOCK_SCANS];
            for count in &mut counts {
                if next().is_multiple_of(density) {
                    *count = (next() & ((1 << width) - 1)) as u16;
                }
            }
            all.push(counts);
        }
    }
    all
}

#[test]
fn planes_give_back_their_counts() {
    let pixels = pixels();
    let mut builder = BlockBuilder::scalar(pixels.len() + 1);
    for counts in &pixels {
        builder.push(counts);
    }
    builder.push_zero();
    let block = builder.finish(BLOCK_SCANS);
    for scan in [0, 31, 32, 300, 511] {
        let mut frame = vec![9; pixels.len()];
        block.frame(scan, 1, &mut frame);
        for (p, count) in frame.into_iter().enumerate() {
            assert_eq!(count, pixels.get(p + 1).map_or(0, |counts| counts[scan]));
        }
    }
    for (p, counts) in pixels.iter().chain([&[0; BLOCK_SCANS]]).enumerate() {
        for (s, &count) in counts.iter().enumerate() {
            assert_eq!(block.sample(p, s), count);
        }
        for (t, expected) in counts.chunks_exact(32).enumerate() {
            let mut out = [7; 32];
            let any = block.tile(p, t, &mut out);
            assert_eq!(any, expected.iter().any(|&c| c > 0));
            assert!(!any || out == expected);
        }
        let largest = counts.iter().copied().max().unwrap();
        assert_eq!(u32::from(block.width(p)), 16 - largest.leading_zeros());
    }
}

#[test]
fn a_stream_is_laid_out_as_described() {
    let mut counts = [0u16; BLOCK_SCANS];
    counts[1] = 5;
    counts[511] = 1;
    let mut builder = BlockBuilder::scalar(1);
    builder.push(&counts);
    let block = builder.finish(BLOCK_SCANS);
    // Plane 0 has words 0 and 15, plane 1 none, plane 2 word 0.
    assert_eq!(block.words()[..5], [0x8001_0003, 0x0001_0000, 0b10, 1 << 31, 0b10]);
    assert_eq!(block.words().len(), 5 + SLACK_WORDS);
}

#[test]
fn fast_equals_scalar() {
    let pixels = pixels();
    let build = |mut builder: BlockBuilder| {
        pixels.iter().for_each(|counts| builder.push(counts));
        builder.finish(BLOCK_SCANS)
    };
    let slow = build(BlockBuilder::scalar(pixels.len()));
    for builder in BlockBuilder::each(pixels.len()) {
        let fast = build(builder);
        assert_eq!(fast.words(), slow.words());
        assert_eq!(fast.offsets(), slow.offsets());
    }
}

#[test]
fn shards_are_rearranged() {
    let mut next = noise(5);
    for (scans, pixels, max) in [(1, 3, 40_000), (130, 17, 300), (1500, 9, 65_535), (1024, 5, 3)] {
        let data: Vec<u16> = (0..scans * pixels).map(|i| ((next() % (max + 1)) >> (i % 7)) as u16).collect();
        let mut b = ShardBuilder::new(Profile::U16, pixels);
        for t in data.chunks(128 * pixels) {
            b.push(tile::encode(t, pixels, 0..pixels));
        }
        let mut payload = Vec::new();
        b.write_payload(4096, |p| {
            payload.extend_from_slice(p);
            Ok::<_, ()>(())
        })
        .unwrap();
        let widths = b.widths();
        let (bases, maxima) =
            crate::pack_u16::validate_widths(&widths, b.tiles(), payload.len() as u64 / 4).unwrap();
        payload.resize(payload.len() + READ_SLACK, 0);
        let shard =
            PackedShard::new(Profile::U16, scans, pixels, payload, TileIndex::Widths { widths, bases });
        let blocks = (0..scans.div_ceil(BLOCK_SCANS)).map(|b| arrange(&shard, b)).collect();
        let planes = PlaneShard::new(pixels, blocks);
        assert_eq!((planes.scans(), planes.pixels()), (scans, pixels));
        assert!(planes.resident_bytes() <= PlaneShard::bound_bytes(&shard, &maxima));
        for (i, &count) in data.iter().enumerate() {
            let (scan, pixel) = (i / pixels, i % pixels);
            assert_eq!(planes.blocks()[scan / BLOCK_SCANS].sample(pixel, scan % BLOCK_SCANS), count);
        }
    }
}
