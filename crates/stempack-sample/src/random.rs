//! Which random numbers a sample is made of: a counter-based stream for each frame, so that neither threads nor
//! batch sizes change a single count.

/// The increment of SplitMix64: 2⁶⁴ divided by the golden ratio, made odd.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A SplitMix64 stream.
#[derive(Clone, Debug)]
pub(crate) struct Stream(u64);

impl Stream {
    /// The stream number `index` of a seed. Neighbouring indices give unrelated streams because both are mixed.
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        Stream(mix(mix(seed).wrapping_add(index.wrapping_mul(STEP))))
    }

    /// The next 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Uniform in `[0, 1)`, 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `[low, high)`.
    pub(crate) fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform in `0..bound`; `bound` is far below 2⁵³ wherever this is used, so the bias is negligible.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((self.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
    }

    /// A Poisson count of the given mean, by inversion of the distribution function.
    pub(crate) fn poisson(&mut self, mean: f32) -> u32 {
        let mut rest = f64::from(mean);
        let mut count = 0;
        // The sum of Poisson counts is a Poisson count: pieces of 16 keep exp(-mean) far from underflow and the
        // search short.
        while rest > PIECE {
            count += self.inversion(PIECE);
            rest -= PIECE;
        }
        count + if rest > 0.0 { self.inversion(rest) } else { 0 }
    }

    fn inversion(&mut self, mean: f64) -> u32 {
        let (mut left, mut term, mut k) = (self.unit(), (-mean).exp(), 0u32);
        // Rounding can leave `left` above the sum of all terms; no count of a mean of 16 or less passes 200.
        while left >= term && k < 200 {
            left -= term;
            k += 1;
            term *= mean / f64::from(k);
        }
        k
    }
}

const PIECE: f64 = 16.0;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_sequence() {
        // Reference values of SplitMix64 with seed 1234567 (the seed goes in unmixed there).
        let mut s = Stream(1_234_567);
        let got: Vec<u64> = (0..3).map(|_| s.next_u64()).collect();
        assert_eq!(got, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn poisson_has_the_mean_and_the_variance_of_a_poisson_count() {
        for mean in [0.05f32, 0.7, 5.0, 16.0, 70.0] {
            let n = 40_000;
            let mut s = Stream::new(3, 9);
            let counts: Vec<f64> = (0..n).map(|_| f64::from(s.poisson(mean))).collect();
            let average = counts.iter().sum::<f64>() / f64::from(n);
            let variance = counts.iter().map(|c| (c - average).powi(2)).sum::<f64>() / f64::from(n);
            // Five standard errors of each estimate.
            let m = f64::from(mean);
            assert!((average - m).abs() < 5.0 * (m / f64::from(n)).sqrt(), "mean {m}: {average}");
            assert!(
                (variance - m).abs() < 5.0 * ((m + 2.0 * m * m) / f64::from(n)).sqrt(),
                "mean {m}: variance {variance}"
            );
        }
    }

    #[test]
    fn a_mean_of_zero_gives_no_count() {
        let mut s = Stream::new(1, 1);
        assert!((0..1000).all(|_| s.poisson(0.0) == 0));
    }
}
