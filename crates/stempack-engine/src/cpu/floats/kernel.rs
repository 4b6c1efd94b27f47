//! The one algorithm: pixels are unpacked four at a time, and their samples added to 512 sums that stay in the cache.
//!
//! Scalar twin: [`super::scalar`]. Everything is inlined, so that it is compiled for the instructions of its caller.

use super::{BLOCK_SCANS, FloatSums, LANES, Means, PixelTerms, Terms, Way};

/// Pixels whose samples are added while the sums are in registers.
const GROUP: usize = 4;

/// How one term is added to a sum in the making.
pub(super) trait Add: Copy {
    fn add(sum: &mut f64, rest: &mut f64, term: f64);
}

#[derive(Clone, Copy)]
pub(super) struct Plain;
impl Add for Plain {
    #[inline(always)]
    fn add(sum: &mut f64, _: &mut f64, term: f64) {
        *sum += term;
    }
}

/// The sum is larger than every term.
#[derive(Clone, Copy)]
pub(super) struct Split;
impl Add for Split {
    #[inline(always)]
    fn add(sum: &mut f64, rest: &mut f64, term: f64) {
        let after = *sum + term;
        *rest += term - (after - *sum);
        *sum = after;
    }
}

#[derive(Clone, Copy)]
pub(super) struct Rule;
impl Add for Rule {
    #[inline(always)]
    fn add(sum: &mut f64, rest: &mut f64, term: f64) {
        let after = *sum + term;
        let larger = sum.abs() >= term.abs();
        let (big, small) = if larger { (*sum, term) } else { (term, *sum) };
        *rest += (big - after) + small;
        *sum = after;
    }
}

/// Runs a generic expression with the addition of a way.
macro_rules! with_add {
    ($way:expr, $a:ident => $do:expr) => {
        match $way {
            Way::Plain => {
                type $a = Plain;
                $do
            }
            Way::Split { .. } => {
                type $a = Split;
                $do
            }
            Way::Rule => {
                type $a = Rule;
                $do
            }
        }
    };
}
pub(super) use with_add;

#[inline(always)]
pub(super) fn add(means: Means, terms: &Terms<'_>, way: Way, sums: &mut FloatSums) {
    with_add!(way, A => if terms.taken {
        add_with::<A, true>(means, terms, sums);
    } else {
        add_with::<A, false>(means, terms, sums);
    });
}

type Unpacked = [[f32; BLOCK_SCANS]; GROUP];

/// The samples of up to four pixels, less the dark; returns how many scans they have.
#[inline(always)]
fn unpack(means: Means, terms: &Terms<'_>, pixels: &[u32], into: &mut Unpacked) -> usize {
    let scans = (LANES * terms.block.rows()).min(BLOCK_SCANS);
    for (&pixel, samples) in pixels.iter().zip(into) {
        terms.block.unpack(means, pixel as usize, samples);
        if let Some(dark) = terms.dark {
            let dark = dark[pixel as usize];
            samples[..scans].iter_mut().for_each(|sample| *sample -= dark);
        }
    }
    scans
}

#[inline(always)]
fn add_with<A: Add, const TAKEN: bool>(means: Means, terms: &Terms<'_>, sums: &mut FloatSums) {
    let mut samples = [[0f32; BLOCK_SCANS]; GROUP];
    let term = |sample: f32| if TAKEN { -f64::from(sample) } else { f64::from(sample) };
    let mut groups = terms.pixels.chunks_exact(GROUP);
    for pixels in &mut groups {
        let scans = unpack(means, terms, pixels, &mut samples);
        for scan in 0..scans {
            let (mut sum, mut rest) = (sums.sum[scan], sums.rest[scan]);
            for samples in &samples {
                A::add(&mut sum, &mut rest, term(samples[scan]));
            }
            (sums.sum[scan], sums.rest[scan]) = (sum, rest);
        }
    }
    for pixel in groups.remainder().chunks_exact(1) {
        let scans = unpack(means, terms, pixel, &mut samples);
        let sums = sums.sum.iter_mut().zip(&mut sums.rest);
        for ((sum, rest), &sample) in sums.zip(&samples[0][..scans]) {
            A::add(sum, rest, term(sample));
        }
    }
}

#[inline(always)]
pub(super) fn moments(means: Means, terms: &Terms<'_>, cols: usize, way: Way, sums: &mut [FloatSums; 3]) {
    with_add!(way, A => moments_with::<A>(means, terms, cols, sums));
}

#[inline(always)]
fn moments_with<A: Add>(
    means: Means,
    terms: &Terms<'_>,
    cols: usize,
    [total, row, col]: &mut [FloatSums; 3],
) {
    let mut samples = [[0f32; BLOCK_SCANS]; GROUP];
    for pixels in terms.pixels.chunks(GROUP) {
        let mut factors = [(0.0, 0.0); GROUP];
        for (&pixel, factors) in pixels.iter().zip(&mut factors) {
            *factors = ((pixel as usize / cols) as f64, (pixel as usize % cols) as f64);
        }
        let scans = unpack(means, terms, pixels, &mut samples);
        if pixels.len() == GROUP {
            add_moments::<A, GROUP>(&samples, scans, &factors, total, row, col);
        } else {
            for (samples, factors) in samples.iter().zip(&factors).take(pixels.len()) {
                let (samples, factors) = (std::array::from_ref(samples), std::array::from_ref(factors));
                add_moments::<A, 1>(samples, scans, factors, total, row, col);
            }
        }
    }
}

#[inline(always)]
fn add_moments<A: Add, const N: usize>(
    samples: &[[f32; BLOCK_SCANS]; N],
    scans: usize,
    factors: &[(f64, f64); N],
    total: &mut FloatSums,
    row: &mut FloatSums,
    col: &mut FloatSums,
) {
    for scan in 0..scans.min(BLOCK_SCANS) {
        let (mut t, mut t_rest) = (total.sum[scan], total.rest[scan]);
        let (mut r, mut r_rest) = (row.sum[scan], row.rest[scan]);
        let (mut c, mut c_rest) = (col.sum[scan], col.rest[scan]);
        for (samples, factors) in samples.iter().zip(factors) {
            let sample = f64::from(samples[scan]);
            A::add(&mut t, &mut t_rest, sample);
            A::add(&mut r, &mut r_rest, sample * factors.0);
            A::add(&mut c, &mut c_rest, sample * factors.1);
        }
        (total.sum[scan], total.rest[scan]) = (t, t_rest);
        (row.sum[scan], row.rest[scan]) = (r, r_rest);
        (col.sum[scan], col.rest[scan]) = (c, c_rest);
    }
}

/// Sums of one pixel that are made side by side.
const SIDE: usize = 32;

#[inline(always)]
pub(super) fn pixel(means: Means, pixel: &PixelTerms<'_>, way: Way, (sum, rest): &mut (f64, f64)) {
    let mut samples = [0f32; BLOCK_SCANS];
    pixel.block.unpack(means, pixel.pixel, &mut samples);
    if let Some(dark) = pixel.dark {
        samples.iter_mut().for_each(|sample| *sample -= dark);
    }
    let scans = pixel.block.scans();
    if way == Way::Rule {
        for (scan, &sample) in samples[..scans].iter().enumerate() {
            if pixel.chosen.is_none_or(|chosen| chosen[scan / 32] >> (scan % 32) & 1 == 1) {
                Rule::add(sum, rest, sample.into());
            }
        }
        return;
    }
    // Zeros change no sum that is exact.
    samples[scans..].fill(0.0);
    if let Some(chosen) = pixel.chosen {
        for (samples, &chosen) in samples.chunks_exact_mut(32).zip(chosen) {
            for (k, sample) in samples.iter_mut().enumerate() {
                let mask = (chosen >> k & 1).wrapping_neg();
                *sample = f32::from_bits(sample.to_bits() & mask);
            }
        }
    }
    let (more, more_rest) = match way {
        Way::Split { bias } => side_by_side::<Split>(&samples, bias),
        Way::Plain | Way::Rule => side_by_side::<Plain>(&samples, 0.0),
    };
    *sum += more;
    *rest += more_rest;
}

#[inline(always)]
fn side_by_side<A: Add>(samples: &[f32; BLOCK_SCANS], bias: f64) -> (f64, f64) {
    let (mut sums, mut rests) = ([bias; SIDE], [0.0; SIDE]);
    for samples in samples.chunks_exact(SIDE) {
        for ((sum, rest), &sample) in sums.iter_mut().zip(&mut rests).zip(samples) {
            A::add(sum, rest, sample.into());
        }
    }
    (sums.iter().map(|sum| sum - bias).sum(), rests.iter().sum())
}
