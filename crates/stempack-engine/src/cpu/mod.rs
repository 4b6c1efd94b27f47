//! Kernels with their choice at run time: over packed tiles ([`Kernel::add_tiles`]), over bit planes ([`planes`]) and over
//! blocks of floats ([`floats`]).
//!
//! Scalar twin: [`scalar`]; AVX2: [`avx2`]. A test holds them equal for every width.

#[cfg(target_arch = "x86_64")]
mod avx2;
pub mod floats;
pub mod planes;
mod scalar;

use stempack_codecs::tile::{NARROW_WIDTH, READ_SLACK};

/// The largest count that goes into 16-bit lanes.
pub const NARROW_MAX: u32 = (1 << NARROW_WIDTH) - 1;

/// Lanes that one pixel's samples are added to: narrow tiles to 16 bits, wide ones to 32.
#[derive(Debug)]
pub struct Lanes<'a> {
    /// One per scan, for tiles of at most [`NARROW_WIDTH`] bits.
    pub narrow: &'a mut [u16],
    /// One per scan, for wider tiles.
    pub wide: &'a mut [u32],
}

/// The kernels of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// One sample at a time: the reference.
    Scalar,
    /// What compilers make of plain code; packed tiles are read one sample at a time.
    Portable,
    /// 256-bit vectors. Only this module makes it, after asking the processor.
    #[cfg(target_arch = "x86_64")]
    Avx2(Detected),
    /// 512-bit vectors for bit planes, 256-bit ones for packed tiles.
    #[cfg(target_arch = "x86_64")]
    Avx512(Detected),
}

/// Proof that a processor feature was detected.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected(());

impl Kernel {
    /// All kernels that this machine can run, the fastest last.
    pub fn available() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "more is known about x86-64"))]
        let mut kernels = vec![Kernel::Scalar, Kernel::Portable];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi2")
        {
            kernels.push(Kernel::Avx2(Detected(())));
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vpopcntdq")
            {
                kernels.push(Kernel::Avx512(Detected(())));
            }
        }
        kernels
    }
    /// The fastest kernel of this machine.
    pub fn detect() -> Self {
        Self::available().pop().unwrap_or(Kernel::Portable)
    }
    /// Name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Scalar => "scalar",
            Kernel::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => "avx512",
        }
    }
    /// Adds the samples of consecutive tiles of `tile_scans` scans each to the lanes of their scans.
    ///
    /// The caller sees to it that no lane overflows: one call adds at most [`NARROW_MAX`] to a narrow lane and at most
    /// 65,535 to a wide one.
    ///
    /// # Panics
    /// When the payload (with its slack) or the lanes are too short, a width exceeds 16, or `tile_scans` is no
    /// multiple of 32.
    pub fn add_tiles(self, payload: &[u8], widths: &[u8], tile_scans: usize, lanes: Lanes<'_>) {
        let words: usize = widths.iter().map(|&w| w as usize).sum();
        assert!(payload.len() >= words * (tile_scans / 8) + READ_SLACK && tile_scans.is_multiple_of(32));
        let scans = widths.len() * tile_scans;
        assert!(lanes.narrow.len() >= scans && lanes.wide.len() >= scans && widths.iter().all(|&w| w <= 16));
        match self {
            Kernel::Scalar | Kernel::Portable => scalar::add_tiles(payload, widths, tile_scans, lanes),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) | Kernel::Avx512(_) => avx2::add_tiles(payload, widths, tile_scans, lanes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_equal_their_scalar_twin() {
        let mut state = 3u64;
        let mut next = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        for (tile_scans, max_width) in [(32, 8), (32, 16), (128, 16)] {
            for tiles in [1usize, 2, 7, 33] {
                let widths: Vec<u8> = (0..tiles).map(|_| (next() % (max_width + 1)) as u8).collect();
                let bytes: usize = widths.iter().map(|&w| w as usize * tile_scans / 8).sum();
                let payload: Vec<u8> = (0..bytes + READ_SLACK).map(|_| next() as u8).collect();
                let run = |kernel: Kernel| {
                    let mut narrow = vec![7u16; tiles * tile_scans];
                    let mut wide = vec![1_000_000u32; tiles * tile_scans];
                    for _ in 0..3 {
                        kernel.add_tiles(
                            &payload,
                            &widths,
                            tile_scans,
                            Lanes { narrow: &mut narrow, wide: &mut wide },
                        );
                    }
                    (narrow, wide)
                };
                assert_eq!(run(Kernel::detect()), run(Kernel::Scalar), "{tile_scans} {widths:?}");
            }
        }
    }
}
