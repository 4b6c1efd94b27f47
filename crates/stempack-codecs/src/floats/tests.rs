use super::frames::part_inline;
use super::*;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 32
    }
    /// About normal, with 24 random digits.
    fn noise(&mut self) -> f32 {
        let sum: i64 = (0..4).map(|_| (self.next() & 0xff_ffff) as i64 - 0x80_0000).sum();
        sum as f32 / 8_388_608.0
    }
}

/// Samples of every kind, one kind for each pixel.
fn mixed(scans: usize, pixels: usize, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    let mut frames = vec![0f32; scans * pixels];
    for pixel in 0..pixels {
        for scan in 0..scans {
            let odd = random.next();
            frames[scan * pixels + pixel] = match (pixel as u64 + seed) % 12 {
                0 => 0.0,
                1 => (random.next() % 5) as f32,
                2 => (random.next() % 70_000) as f32 - 900.0,
                3 => (random.next() % 4000) as f32 * 0.25 - 77.75,
                4 => random.noise(),
                5 => 100.0 + random.noise(),
                6 => -1e-3 * (2.0 + random.noise()),
                7 => f32::from_bits(odd as u32),
                8 => f32::from_bits(odd as u32 & 0x8000_ffff),
                9 => [0.0, -0.0][odd as usize & 1],
                10 => [f32::NAN, f32::INFINITY, f32::from_bits(0xff80_0001), f32::MAX][odd as usize & 3],
                _ => f32::from_bits(0x7fc1_2345),
            };
        }
    }
    frames
}

fn bits(samples: &[f32]) -> Vec<u32> {
    samples.iter().map(|s| s.to_bits()).collect()
}

#[test]
fn every_bit_comes_back_in_every_way() {
    for (round, (scans, pixels)) in
        [(1, 1), (2, 37), (15, 16), (16, 1), (17, 100), (500, 24), (512, 24), (511, 531)]
            .into_iter()
            .enumerate()
    {
        for seed in 0..if pixels > 500 { 1 } else { 12 } {
            let frames = mixed(scans, pixels, seed);
            let block = block_of_frames(&frames, pixels);
            assert_eq!((block.scans(), block.pixels(), block.rows()), (scans, pixels, scans.div_ceil(16)));
            assert!(block.resident_bytes() <= FloatBlock::bound_bytes(scans, pixels));
            let mut stretch = [0f32; BLOCK_SCANS];
            for pixel in 0..pixels {
                block.unpack(Means::detect(), pixel, &mut stretch);
                for means in [Means::portable(), Means::wide()] {
                    let mut same = [0f32; BLOCK_SCANS];
                    block.unpack(means, pixel, &mut same);
                    assert_eq!(bits(&same[..scans]), bits(&stretch[..scans]), "{means:?}");
                }
                let mut range = Range::ZERO;
                for scan in 0..scans {
                    let sample = frames[scan * pixels + pixel];
                    range = range.with(Range::of(sample));
                    assert_eq!(
                        block.sample(pixel, scan).to_bits(),
                        sample.to_bits(),
                        "{round} {pixel} {scan}"
                    );
                    assert_eq!(stretch[scan].to_bits(), sample.to_bits(), "{round} {pixel} {scan}");
                }
                assert_eq!(block.range(pixel).is_known(), range.is_known());
                if range.is_known() {
                    assert_eq!(block.range(pixel), range, "{round} {pixel}");
                }
            }
            for (first, count) in [(0, scans), (scans - 1, 1), (scans / 3, scans.div_ceil(2))] {
                let mut out = vec![0f32; count * pixels];
                block.frames(first, &mut out);
                assert_eq!(bits(&out), bits(&frames[first * pixels..(first + count) * pixels]));
            }
        }
    }
}

#[test]
fn what_is_compiled_for_this_machine_equals_its_twin() {
    for seed in 0..6 {
        for scans in [512, 77] {
            let frames = mixed(scans, 50, seed);
            let block = block_of_frames(&frames, 50);
            let words = part_inline(&frames, 50, 0, 50).words;
            assert_eq!(block.words[..words.len()], words);
            assert_eq!(block.words.len(), words.len() + SLACK);
            let (mut fast, mut plain) = (vec![0f32; 50 * 40], vec![0f32; 50 * 40]);
            block.frames(20, &mut fast);
            block.frames_inline(20, &mut plain);
            assert_eq!(bits(&fast), bits(&plain));
        }
    }
}

fn coded(samples: &[f32]) -> (Coding, u8) {
    let block = block_of_frames(samples, 1);
    let back: Vec<f32> = (0..samples.len()).map(|s| block.sample(0, s)).collect();
    assert_eq!(bits(&back), bits(samples));
    block.coding(0)
}

#[test]
fn the_cheaper_coding_is_taken() {
    let of = |sample: &dyn Fn(i32) -> f32| coded(&(0..512).map(sample).collect::<Vec<_>>());
    assert_eq!(of(&|_| 3.7), (Coding::Bits, 0));
    assert_eq!(of(&|_| -0.0), (Coding::Bits, 0));
    assert_eq!(of(&|_| 0.0), (Coding::Bits, 0));
    // Counts of three digits, whatever they begin with and whatever one step is.
    assert_eq!(of(&|s| (s % 8) as f32), (Coding::Steps, 3));
    assert_eq!(of(&|s| (s % 8 - 5) as f32), (Coding::Steps, 3));
    assert_eq!(of(&|s| (1_048_572 + s % 8) as f32), (Coding::Steps, 3));
    assert_eq!(of(&|s| (s % 8 * 3) as f32 * 0.125), (Coding::Steps, 5));
    // Two subnormals are one digit apart.
    assert_eq!(of(&|s| f32::from_bits([1, 3][s as usize % 2] << 20)), (Coding::Bits, 1));
    assert_eq!(of(&|s| if s == 7 { f32::from_bits(1) } else { 0.0 }), (Coding::Bits, 1));
    // Two values that are not alike in anything but their trailing zeros.
    assert_eq!(of(&|s| if s % 2 == 0 { 1.0 } else { 2f32.powi(100) }).0, Coding::Bits);
    // 23 digits of one exponent and one sign; a sign more; −0 beside them.
    let fraction = |s: i32| 1.0 + ((s * 16_411) & 0x7f_ffff) as f32 / 8_388_608.0;
    assert_eq!(of(&fraction), (Coding::Bits, 23));
    assert_eq!(of(&|s| if s % 2 == 0 { fraction(s) } else { -fraction(s) }), (Coding::Bits, 24));
    assert_eq!(of(&|s| if s == 5 { -0.0 } else { (s % 8) as f32 }).0, Coding::Bits);
    // The widest of both.
    assert_eq!(of(&|s| [f32::from_bits(u32::MAX), 0.0][s as usize % 2]), (Coding::Bits, 32));
    assert_eq!(of(&|s| [2_147_483_520.0, -2_147_483_520.0, 1.0][s as usize % 3]), (Coding::Bits, 29));
}
