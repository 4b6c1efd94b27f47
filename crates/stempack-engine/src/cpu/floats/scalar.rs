//! The reference: one sample after the other, each read alone.

use super::kernel::{Add, Plain, Rule, Split, with_add};
use super::{FloatSums, PixelTerms, Terms, Way};
use stempack_codecs::floats::FloatBlock;

fn sample(block: &FloatBlock, pixel: usize, scan: usize, dark: Option<f32>) -> f32 {
    let sample = block.sample(pixel, scan);
    dark.map_or(sample, |dark| sample - dark)
}

pub(super) fn add(terms: &Terms<'_>, way: Way, sums: &mut FloatSums) {
    for &pixel in terms.pixels {
        for scan in 0..terms.block.scans() {
            let dark = terms.dark.map(|dark| dark[pixel as usize]);
            let sample = f64::from(sample(terms.block, pixel as usize, scan, dark));
            let term = if terms.taken { -sample } else { sample };
            with_add!(way, A => A::add(&mut sums.sum[scan], &mut sums.rest[scan], term));
        }
    }
}

pub(super) fn moments(terms: &Terms<'_>, cols: usize, way: Way, sums: &mut [FloatSums; 3]) {
    for &pixel in terms.pixels {
        let pixel = pixel as usize;
        for scan in 0..terms.block.scans() {
            let dark = terms.dark.map(|dark| dark[pixel]);
            let sample = f64::from(sample(terms.block, pixel, scan, dark));
            let each = [sample, sample * (pixel / cols) as f64, sample * (pixel % cols) as f64];
            for (sums, term) in sums.iter_mut().zip(each) {
                with_add!(way, A => A::add(&mut sums.sum[scan], &mut sums.rest[scan], term));
            }
        }
    }
}

pub(super) fn pixel(pixel: &PixelTerms<'_>, way: Way, (sum, rest): &mut (f64, f64)) {
    // To a sum over scans its bias is added at once, and taken away.
    let (mut s, mut r) = match way {
        Way::Split { bias } => (bias, 0.0),
        Way::Plain => (0.0, 0.0),
        Way::Rule => (*sum, *rest),
    };
    for scan in 0..pixel.block.scans() {
        if pixel.chosen.is_none_or(|chosen| chosen[scan / 32] >> (scan % 32) & 1 == 1) {
            let term = f64::from(sample(pixel.block, pixel.pixel, scan, pixel.dark));
            with_add!(way, A => A::add(&mut s, &mut r, term));
        }
    }
    (*sum, *rest) = match way {
        Way::Split { bias } => (*sum + (s - bias), *rest + r),
        Way::Plain => (*sum + s, 0.0),
        Way::Rule => (s, r),
    };
}
