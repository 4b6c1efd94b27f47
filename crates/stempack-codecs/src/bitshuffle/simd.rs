//! Untransposition of 1-, 2- and 4-byte elements with AVX2, and with one instruction per 8×8 bits where GFNI exists.
//!
//! Scalar twin: [`super::untranspose_scalar`]; `tests::simd_equals_scalar` holds both equal on every level the machine
//! has. Frames decode at memory speed only because of this step: the portable form is several times slower than LZ4.
#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "vector loads, stores and calls of functions compiled for detected features"
    )
)]

/// What the machine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// 256-bit integer vectors.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// … and 8×8 bit-matrix products in them.
    #[cfg(target_arch = "x86_64")]
    Avx2Gfni,
}

impl Level {
    /// The best level of this machine.
    pub(super) fn detect() -> Option<Self> {
        Self::available().last().copied()
    }

    /// Every level of this machine, slowest first.
    pub(super) fn available() -> &'static [Self] {
        #[cfg(target_arch = "x86_64")]
        {
            if !std::is_x86_feature_detected!("avx2") {
                return &[];
            }
            if std::is_x86_feature_detected!("gfni") && std::is_x86_feature_detected!("avx") {
                return &[Level::Avx2, Level::Avx2Gfni];
            }
            &[Level::Avx2]
        }
        #[cfg(not(target_arch = "x86_64"))]
        &[]
    }
}

/// Untransposes as many leading groups as the vectors cover and returns how many; the rest is the scalar twin's.
#[cfg(target_arch = "x86_64")]
pub(super) fn untranspose(level: Level, planes: &[u8], element_bytes: usize, out: &mut [u8]) -> usize {
    assert_eq!(planes.len(), out.len(), "planes and elements take the same space");
    // SAFETY: `level` was detected on this machine, which is the only requirement of these functions.
    unsafe {
        match (level, element_bytes) {
            (Level::Avx2, 1) => x86::avx2::<1>(planes, out),
            (Level::Avx2, 2) => x86::avx2::<2>(planes, out),
            (Level::Avx2, 4) => x86::avx2::<4>(planes, out),
            (Level::Avx2Gfni, 1) => x86::avx2_gfni::<1>(planes, out),
            (Level::Avx2Gfni, 2) => x86::avx2_gfni::<2>(planes, out),
            (Level::Avx2Gfni, 4) => x86::avx2_gfni::<4>(planes, out),
            _ => 0,
        }
    }
}

/// No vectors here.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn untranspose(level: Level, _: &[u8], _: usize, _: &mut [u8]) -> usize {
    match level {}
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Groups of eight elements handled per step: 32 bytes of each plane.
    const STEP: usize = 32;

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(from: &[u8; 32]) -> __m256i {
        // SAFETY: the reference covers the 32 bytes read; the load has no alignment requirement.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(to: &mut [u8; 32], value: __m256i) {
        // SAFETY: the reference covers the 32 bytes written; the store has no alignment requirement.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
    }

    /// The three exchanges of [`super::super::transpose_bits`] in each 64-bit lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn transpose_bits(x: __m256i) -> __m256i {
        let t = _mm256_and_si256(
            _mm256_xor_si256(x, _mm256_srli_epi64::<7>(x)),
            _mm256_set1_epi64x(0x00aa_00aa_00aa_00aa),
        );
        let x = _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64::<7>(t)));
        let t = _mm256_and_si256(
            _mm256_xor_si256(x, _mm256_srli_epi64::<14>(x)),
            _mm256_set1_epi64x(0x0000_cccc_0000_cccc),
        );
        let x = _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64::<14>(t)));
        let t = _mm256_and_si256(
            _mm256_xor_si256(x, _mm256_srli_epi64::<28>(x)),
            _mm256_set1_epi64x(0x0000_0000_f0f0_f0f0),
        );
        _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64::<28>(t)))
    }

    /// The same by one matrix product per lane: the operand's rows are taken last byte first, hence the planes
    /// come in reverse.
    #[inline]
    #[target_feature(enable = "avx2,gfni")]
    fn transpose_bits_gfni(reversed: __m256i) -> __m256i {
        let unit_columns = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        _mm256_gf2p8affine_epi64_epi8::<0>(unit_columns, reversed)
    }

    /// Byte `byte` of 32 groups: vector `m` holds groups `2 m`, `2 m + 1` in its low half and `16 + 2 m`, `17 + 2 m` in its
    /// high half, eight element bytes each.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn gather<const REVERSED: bool>(
        planes: &[u8],
        byte: usize,
        groups: usize,
        group: usize,
    ) -> Option<[__m256i; 8]> {
        let mut p = [_mm256_setzero_si256(); 8];
        for (k, p) in p.iter_mut().enumerate() {
            let plane = 8 * byte + if REVERSED { 7 - k } else { k };
            *p = load(planes.get(plane * groups + group..)?.first_chunk::<STEP>()?);
        }
        let lo = [
            _mm256_unpacklo_epi8(p[0], p[1]),
            _mm256_unpacklo_epi8(p[2], p[3]),
            _mm256_unpacklo_epi8(p[4], p[5]),
            _mm256_unpacklo_epi8(p[6], p[7]),
        ];
        let hi = [
            _mm256_unpackhi_epi8(p[0], p[1]),
            _mm256_unpackhi_epi8(p[2], p[3]),
            _mm256_unpackhi_epi8(p[4], p[5]),
            _mm256_unpackhi_epi8(p[6], p[7]),
        ];
        let mut r = [_mm256_setzero_si256(); 8];
        for (half, r) in [lo, hi].into_iter().zip(r.chunks_exact_mut(4)) {
            let a = _mm256_unpacklo_epi16(half[0], half[1]);
            let b = _mm256_unpackhi_epi16(half[0], half[1]);
            let c = _mm256_unpacklo_epi16(half[2], half[3]);
            let d = _mm256_unpackhi_epi16(half[2], half[3]);
            r[0] = _mm256_unpacklo_epi32(a, c);
            r[1] = _mm256_unpackhi_epi32(a, c);
            r[2] = _mm256_unpacklo_epi32(b, d);
            r[3] = _mm256_unpackhi_epi32(b, d);
        }
        Some(r)
    }

    /// Writes the low halves of `a` then `b` at the group pair `m`, the high halves 16 groups further on.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn store_halves(out: &mut [u8], at: usize, far: usize, a: __m256i, b: __m256i) -> Option<()> {
        store(out.get_mut(at..)?.first_chunk_mut()?, _mm256_permute2x128_si256::<0x20>(a, b));
        store(out.get_mut(far..)?.first_chunk_mut()?, _mm256_permute2x128_si256::<0x31>(a, b));
        Some(())
    }

    /// One kernel for each set of features: a function can only be inlined where all of its features are enabled, and
    /// what is not inlined here passes its vectors through memory.
    macro_rules! kernel {
        ($name:ident, $features:literal, $reversed:literal, $transpose:ident) => {
            /// Untransposes whole steps of 32 groups from the first group on and returns how many groups that were.
            #[target_feature(enable = $features)]
            pub(super) fn $name<const E: usize>(planes: &[u8], out: &mut [u8]) -> usize {
                #[inline]
                #[target_feature(enable = $features)]
                fn element_bytes(
                    planes: &[u8],
                    byte: usize,
                    groups: usize,
                    group: usize,
                ) -> Option<[__m256i; 8]> {
                    let [a, b, c, d, e, f, g, h] = gather::<$reversed>(planes, byte, groups, group)?;
                    Some([
                        $transpose(a),
                        $transpose(b),
                        $transpose(c),
                        $transpose(d),
                        $transpose(e),
                        $transpose(f),
                        $transpose(g),
                        $transpose(h),
                    ])
                }

                /// `None` would mean that the slices are too short, which the caller excludes.
                #[inline]
                #[target_feature(enable = $features)]
                fn step<const E: usize>(
                    planes: &[u8],
                    groups: usize,
                    group: usize,
                    out: &mut [u8],
                ) -> Option<()> {
                    let b0 = element_bytes(planes, 0, groups, group)?;
                    if E == 1 {
                        return store_1(out, &b0);
                    }
                    let b1 = element_bytes(planes, 1, groups, group)?;
                    if E == 2 {
                        return store_2(out, &b0, &b1);
                    }
                    let b2 = element_bytes(planes, 2, groups, group)?;
                    let b3 = element_bytes(planes, 3, groups, group)?;
                    store_4(out, &b0, &b1, &b2, &b3)
                }

                let groups = out.len() / (8 * E);
                let mut group = 0;
                while group + STEP <= groups {
                    if step::<E>(planes, groups, group, &mut out[group * 8 * E..]).is_none() {
                        break;
                    }
                    group += STEP;
                }
                group
            }
        };
    }

    kernel!(avx2, "avx2", false, transpose_bits);
    kernel!(avx2_gfni, "avx2,gfni", true, transpose_bits_gfni);

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store_1(out: &mut [u8], b0: &[__m256i; 8]) -> Option<()> {
        for m in 0..4 {
            store_halves(out, 32 * m, 128 + 32 * m, b0[2 * m], b0[2 * m + 1])?;
        }
        Some(())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store_2(out: &mut [u8], b0: &[__m256i; 8], b1: &[__m256i; 8]) -> Option<()> {
        for m in 0..8 {
            let first = _mm256_unpacklo_epi8(b0[m], b1[m]);
            let second = _mm256_unpackhi_epi8(b0[m], b1[m]);
            store_halves(out, 32 * m, 256 + 32 * m, first, second)?;
        }
        Some(())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store_4(
        out: &mut [u8],
        b0: &[__m256i; 8],
        b1: &[__m256i; 8],
        b2: &[__m256i; 8],
        b3: &[__m256i; 8],
    ) -> Option<()> {
        for m in 0..8 {
            let (lo01, hi01) = (_mm256_unpacklo_epi8(b0[m], b1[m]), _mm256_unpackhi_epi8(b0[m], b1[m]));
            let (lo23, hi23) = (_mm256_unpacklo_epi8(b2[m], b3[m]), _mm256_unpackhi_epi8(b2[m], b3[m]));
            for (k, (x, y)) in [(lo01, lo23), (hi01, hi23)].into_iter().enumerate() {
                let at = 64 * m + 32 * k;
                store_halves(out, at, 512 + at, _mm256_unpacklo_epi16(x, y), _mm256_unpackhi_epi16(x, y))?;
            }
        }
        Some(())
    }
}
