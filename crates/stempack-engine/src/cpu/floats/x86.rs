//! The plain code of [`kernel`], compiled for AVX-512 and AVX2.
//!
//! Scalar twin: [`super::scalar`]. The functions are only reached through [`super::Kernel`], whose variants hold the proof
//! that the features are there.
#![expect(unsafe_code, reason = "calls of functions that need detected CPU features")]

use super::{FloatSums, Means, PixelTerms, Terms, Way, kernel};

macro_rules! compiled {
    ($($name:ident, $with:ident, $features:literal, $means:ident, $do:ident ( $($arg:ident : $type:ty),* );)*) => {
        $(
            pub(super) fn $name($($arg: $type),*) {
                // SAFETY: the caller holds the proof that the features were detected.
                unsafe { $with($($arg),*) }
            }
            #[target_feature(enable = $features)]
            unsafe fn $with($($arg: $type),*) {
                kernel::$do(Means::$means(), $($arg),*);
            }
        )*
    };
}

compiled! {
    add_256, add_with_256, "avx2", wide, add(terms: &Terms<'_>, way: Way, sums: &mut FloatSums);
    add_512, add_with_512, "avx512f,avx512bw", detect, add(terms: &Terms<'_>, way: Way, sums: &mut FloatSums);
    moments_256, moments_with_256, "avx2", wide, moments(terms: &Terms<'_>, cols: usize, way: Way, sums: &mut [FloatSums; 3]);
    moments_512, moments_with_512, "avx512f,avx512bw", detect, moments(terms: &Terms<'_>, cols: usize, way: Way, sums: &mut [FloatSums; 3]);
    pixel_256, pixel_with_256, "avx2", wide, pixel(terms: &PixelTerms<'_>, way: Way, sum: &mut (f64, f64));
    pixel_512, pixel_with_512, "avx512f,avx512bw", detect, pixel(terms: &PixelTerms<'_>, way: Way, sum: &mut (f64, f64));
}
