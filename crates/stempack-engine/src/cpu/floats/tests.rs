use super::*;
use stempack_codecs::floats::{Range, block_of_frames};
use stempack_products::Compensated;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 32
    }
    /// With 24 random digits, over so many powers of two.
    fn float(&mut self, powers: u64) -> f32 {
        let whole = (self.next() & 0x1ff_ffff) as f32 - 16_777_216.0;
        whole * 2f32.powi((self.next() % powers) as i32 - powers as i32 / 2 - 20)
    }
}

/// Frames of pixels, which span so many powers of two.
fn frames(scans: usize, pixels: usize, powers: u64, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    (0..scans * pixels).map(|_| random.float(powers)).collect()
}

fn range_of(block: &FloatBlock, dark: Dark<'_>) -> Range {
    (0..block.pixels()).fold(Range::ZERO, |r, p| r.with(block.range(p).less(dark.map_or(0.0, |d| d[p]))))
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// All ways that are allowed.
fn ways(range: Range, terms: usize, factor: usize) -> Vec<Way> {
    let best = Way::of(range, terms, factor);
    let mut ways = vec![Way::Rule];
    if best.is_exact() {
        ways.push(best);
    }
    if best == Way::Plain {
        // What suffices for more digits suffices for fewer.
        ways.push(Way::Split { bias: 1.5 * 2f64.powi(range.highest(60).max(-100) as i32) });
    }
    ways
}

#[test]
fn kernels_and_ways_equal_the_rule() {
    let mut seen = [0; 3];
    for (case, powers) in [1, 2, 8, 30, 60, 75, 90, 100, 120].into_iter().enumerate() {
        for (scans, pixels, cols) in [(512, 40, 8), (77, 13, 13), (1, 1, 1), (500, 7, 1)] {
            let data = frames(scans, pixels, powers, case as u64);
            let block = block_of_frames(&data, pixels);
            let dark: Vec<f32> = (0..pixels).map(|p| p as f32 * 0.25).collect();
            let chosen: Vec<u32> = (0..pixels as u32).filter(|p| p % 5 != 3).collect();
            for dark in [None, Some(&dark[..])] {
                let term = |p: u32, s: usize| {
                    let sample = data[s * pixels + p as usize];
                    f64::from(dark.map_or(sample, |d| sample - d[p as usize]))
                };
                let range = range_of(&block, dark);
                let terms = Terms { block: &block, pixels: &chosen, dark, taken: false };
                let expected: Vec<f64> =
                    (0..scans).map(|s| Compensated::of(chosen.iter().map(|&p| term(p, s)))).collect();
                for way in ways(range, pixels, 1) {
                    seen[match way {
                        Way::Plain => 0,
                        Way::Split { .. } => 1,
                        Way::Rule => 2,
                    }] += 1;
                    for kernel in Kernel::available() {
                        let mut sums = FloatSums::new(way);
                        kernel.add_floats(&terms, way, &mut sums);
                        let (mut found, mut rest) = (vec![0.0; scans], vec![0.0; scans]);
                        sums.end(way, &mut found, &mut rest);
                        assert_eq!(bits(&found), bits(&expected), "{kernel:?} {way:?} {powers} {scans}");
                    }
                }
                let rows = pixels.div_ceil(cols);
                for way in ways(range, pixels, rows.max(cols)) {
                    for kernel in Kernel::available() {
                        let mut sums: [FloatSums; 3] = std::array::from_fn(|_| FloatSums::new(way));
                        kernel.add_float_moments(&terms, cols, way, &mut sums);
                        for (which, sums) in sums.iter().enumerate() {
                            let (mut found, mut rest) = (vec![0.0; scans], vec![0.0; scans]);
                            sums.end(way, &mut found, &mut rest);
                            let factor = |p: u32| [1, p as usize / cols, p as usize % cols][which] as f64;
                            let expected: Vec<f64> = (0..scans)
                                .map(|s| Compensated::of(chosen.iter().map(|&p| term(p, s) * factor(p))))
                                .collect();
                            assert_eq!(bits(&found), bits(&expected), "{kernel:?} {way:?} {which}");
                        }
                    }
                }
                let some: [u32; CHOSEN_WORDS] = std::array::from_fn(|k| 0x9e37_79b9u32.rotate_left(k as u32));
                for picked in [None, Some(&some)] {
                    let is_picked = |s: &usize| picked.is_none_or(|c| c[s / 32] >> (s % 32) & 1 == 1);
                    for pixel in 0..pixels {
                        let expected =
                            Compensated::of((0..scans).filter(is_picked).map(|s| term(pixel as u32, s)));
                        for way in ways(block.range(pixel).less(dark.map_or(0.0, |d| d[pixel])), scans, 1) {
                            for kernel in Kernel::available() {
                                let terms = PixelTerms {
                                    block: &block,
                                    pixel,
                                    dark: dark.map(|d| d[pixel]),
                                    chosen: picked,
                                };
                                let mut sum = (0.0, 0.0);
                                kernel.add_float_pixel(&terms, way, &mut sum);
                                assert_eq!(way.end_of_pixel(sum).to_bits(), expected.to_bits(), "{way:?}");
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(seen.iter().all(|&n| n > 0), "{seen:?}");
}

#[test]
fn what_was_added_is_taken_away_without_a_trace() {
    for (powers, seed) in [(1, 1), (20, 2), (30, 3)] {
        let block = block_of_frames(&frames(512, 60, powers, seed), 60);
        let way = Way::of(range_of(&block, None), 60, 1);
        assert!(way.is_exact());
        for kernel in Kernel::available() {
            let all: Vec<u32> = (0..60).collect();
            let of = |pixels: &[u32]| {
                let mut sums = FloatSums::new(way);
                kernel.add_floats(&Terms { block: &block, pixels, dark: None, taken: false }, way, &mut sums);
                let (mut sum, mut rest) = (vec![0.0; 512], vec![0.0; 512]);
                sums.end(way, &mut sum, &mut rest);
                (sum, rest)
            };
            let mut state = of(&all);
            for pixel in 0..60 {
                let mut sums = FloatSums::new(way);
                sums.begin(way, &state.0, &state.1);
                let terms = Terms { block: &block, pixels: &[pixel], dark: None, taken: true };
                kernel.add_floats(&terms, way, &mut sums);
                sums.end(way, &mut state.0, &mut state.1);
                let left = of(&all[pixel as usize + 1..]);
                assert_eq!((bits(&state.0), bits(&state.1)), (bits(&left.0), bits(&left.1)));
            }
            assert!(state.0.iter().chain(&state.1).all(|v| v.to_bits() == 0));
        }
    }
}

#[test]
fn the_way_follows_the_digits() {
    let way = |low: f32, high: f32, terms| Way::of(Range::of(low).with(Range::of(high)), terms, 1);
    assert_eq!(Way::of(Range::ZERO, 1 << 20, 1), Way::Plain);
    // 2^31 is below 2^32, and there are 2^c terms: c + 32 digits.
    assert_eq!(way(1.0, 2f32.powi(31), (1 << 21) - 2), Way::Plain);
    assert!(matches!(way(1.0, 2f32.powi(31), (1 << 21) - 1), Way::Split { .. }));
    // 2^14 terms over so many powers of two: 2 · 14 + 76 digits are 104.
    let terms = (1 << 14) - 2;
    assert!(matches!(way(1.0, 2f32.powi(75), terms), Way::Split { .. }));
    assert_eq!(way(1.0, 2f32.powi(76), terms), Way::Rule);
    assert_eq!(way(1.0, 2f32.powi(75), terms + 1), Way::Rule);
    assert_eq!(way(1.0, f32::NAN, 1), Way::Rule);
    assert_eq!(way(1.0, 1.0, usize::MAX), Way::Rule);
    assert_eq!(Way::of(Range::ZERO, usize::MAX, usize::MAX >> 40), Way::Plain);
    assert_eq!(Way::of(Range::of(1.0), 1, (1 << 29) + 1), Way::Rule);
}
