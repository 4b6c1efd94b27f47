use super::*;
use stempack_codecs::planes::{BlockBuilder, BlockCounts};

fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    }
}

fn block(pixels: usize, max_width: u64, density: u64) -> (PlaneBlock, Vec<BlockCounts>) {
    let mut next = noise(pixels as u64 + max_width);
    let mut builder = BlockBuilder::new(pixels);
    let mut all = Vec::new();
    for _ in 0..pixels {
        let width = next() % (max_width + 1);
        let mut counts = [0u16; BLOCK_SCANS];
        for count in &mut counts {
            if next().is_multiple_of(density) {
                *count = (next() & ((1 << width) - 1)) as u16;
            }
        }
        builder.push(&counts);
        all.push(counts);
    }
    (builder.finish(BLOCK_SCANS), all)
}

#[test]
fn kernels_equal_plain_sums() {
    for (pixels, max_width, density) in [(1, 1, 1), (7, 8, 1), (8, 16, 5), (300, 3, 9), (61, 16, 1)] {
        let (block, counts) = block(pixels, max_width, density);
        let mut next = noise(3);
        let lists: [Vec<u32>; 4] = [
            Vec::new(),
            (0..pixels as u32).collect(),
            (0..pixels as u32).filter(|_| next().is_multiple_of(3)).collect(),
            // Any order, pixels more than once.
            (0..29).map(|_| (next() % pixels as u64) as u32).collect(),
        ];
        for list in &lists {
            for cut in [list.len(), 0, list.len() / 2, list.len() / 3] {
                let (add, take) = list.split_at(cut);
                let sum =
                    |list: &[u32], s: usize| list.iter().map(|&p| u32::from(counts[p as usize][s])).sum();
                let expected: Vec<u32> =
                    (0..BLOCK_SCANS).map(|s| u32::wrapping_sub(sum(add, s), sum(take, s))).collect();
                let bound =
                    |list: &[u32]| list.iter().map(|&p| (1 << block.width(p as usize)) - 1).sum::<u32>();
                for kernel in Kernel::available() {
                    let mut out = [9; BLOCK_SCANS];
                    let bound = bound(add).max(bound(take));
                    kernel.sum_block(&block, Signed { add, take }, bound, (&block, &lists[1]), &mut out);
                    assert_eq!(out[..], expected, "{kernel:?} {max_width} {cut} of {}", list.len());
                }
            }
        }
        for kernel in Kernel::available() {
            let mut out = vec![5; pixels - pixels / 2];
            kernel.sum_pixels(&block, pixels / 2, None, &mut out);
            for (sum, counts) in out.iter().zip(&counts[pixels / 2..]) {
                assert_eq!(*sum, 5 + counts.iter().map(|&c| u64::from(c)).sum::<u64>());
            }
            let chosen: [u32; PLANE_WORDS] = std::array::from_fn(|t| 0x9249_f00d_u32.rotate_left(t as u32));
            let mut out = vec![5; pixels - pixels / 2];
            kernel.sum_pixels(&block, pixels / 2, Some(&chosen), &mut out);
            for (sum, counts) in out.iter().zip(&counts[pixels / 2..]) {
                let chosen = (0..BLOCK_SCANS).filter(|s| chosen[s / 32] >> (s % 32) & 1 == 1);
                assert_eq!(*sum, 5 + chosen.map(|s| u64::from(counts[s])).sum::<u64>());
            }
            let mut weighted = [1; BLOCK_SCANS];
            kernel.add_weighted(&[u32::MAX; BLOCK_SCANS], u32::MAX, &mut weighted);
            assert_eq!(weighted, [1 + u64::from(u32::MAX) * u64::from(u32::MAX); BLOCK_SCANS]);
            let (mut signed, before) = ([7; 3], [1 << 40, 5, u64::from(u32::MAX)]);
            kernel.add_signed(Some(&before), &[u32::MAX, 3, 1 << 31], &mut signed);
            assert_eq!(signed, [(1 << 40) - 1, 8, (1 << 31) - 1]);
            kernel.add_signed(None, &[2, -8i32 as u32, 1], &mut signed);
            assert_eq!(signed, [(1 << 40) + 1, 0, 1 << 31]);
        }
    }
}

#[test]
fn sums_up_to_32_bits_are_exact() {
    let counts = [u16::MAX; BLOCK_SCANS];
    let mut builder = BlockBuilder::new(1);
    builder.push(&counts);
    let block = builder.finish(BLOCK_SCANS);
    // 65,537 times 65,535 is the largest 32-bit number.
    let list = vec![0u32; 65_537];
    for kernel in Kernel::available() {
        let mut out = [0; BLOCK_SCANS];
        kernel.sum_block(&block, Signed::sum(&list), u32::MAX, (&block, &[]), &mut out);
        assert_eq!(out, [u32::MAX; BLOCK_SCANS], "{kernel:?}");
    }
}
