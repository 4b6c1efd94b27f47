//! Which samples the format can hold bit for bit, and the proof for those it holds in a narrower type.

use super::processing::{FLOAT_NARROWING, INTEGER_NARROWING};
use crate::ContainerCode;
use rayon::prelude::*;
use stempack_model::{Error, Result, SampleType, Samples, SamplesRef};

/// How samples of one type are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Narrowing {
    pub(super) source: SampleType,
    pub(super) stored: SampleType,
}

impl Narrowing {
    pub(super) fn of(source: SampleType) -> Self {
        let stored = match source {
            SampleType::U8 | SampleType::I8 => SampleType::U8,
            SampleType::F32 | SampleType::F64 => SampleType::F32,
            SampleType::U16
            | SampleType::U32
            | SampleType::U64
            | SampleType::I16
            | SampleType::I32
            | SampleType::I64 => SampleType::U16,
        };
        Narrowing { source, stored }
    }
    /// The operation to declare, if the stored type is another one.
    pub(super) fn operation(self) -> Option<&'static str> {
        (self.source != self.stored).then_some(match self.stored {
            SampleType::F32 => FLOAT_NARROWING,
            _ => INTEGER_NARROWING,
        })
    }

    /// Samples as they are stored, or the first that cannot be. `None` when they are stored as they are.
    ///
    /// # Errors
    /// `not_representable`, naming frame and pixel.
    pub(super) fn apply(
        self,
        samples: SamplesRef<'_>,
        first_frame: u64,
        pixels: usize,
    ) -> Result<Option<Samples>> {
        let refuse = |at: usize, value: String| {
            let (frame, pixel) = (first_frame + (at / pixels) as u64, at % pixels);
            Error::new(
                ContainerCode::NotRepresentable,
                format!(
                    "frame {frame}, pixel {pixel}: the {} value {value} is no {} value",
                    self.source, self.stored
                ),
            )
            .hint("`.qem` stores unsigned 8- and 16-bit counts and single-precision floats, bit for bit")
            .with("frame_index", frame)
            .with("pixel", pixel)
        };
        macro_rules! counts {
            ($v:expr, $to:ty, $name:ident) => {
                convert($v, |x| <$to>::try_from(x).ok())
                    .map(Samples::$name)
                    .map_err(|at| refuse(at, $v[at].to_string()))
            };
        }
        Ok(Some(match samples {
            SamplesRef::U8(_) | SamplesRef::U16(_) | SamplesRef::F32(_) => return Ok(None),
            SamplesRef::I8(v) => counts!(v, u8, U8)?,
            SamplesRef::I16(v) => counts!(v, u16, U16)?,
            SamplesRef::I32(v) => counts!(v, u16, U16)?,
            SamplesRef::I64(v) => counts!(v, u16, U16)?,
            SamplesRef::U32(v) => counts!(v, u16, U16)?,
            SamplesRef::U64(v) => counts!(v, u16, U16)?,
            SamplesRef::F64(v) => {
                Samples::F32(convert(v, single).map_err(|at| refuse(at, format!("{:e}", v[at])))?)
            }
        }))
    }
}

/// Converts everything, or gives the index of the first that does not convert.
fn convert<T: Copy + Sync, U: Copy + Default + Send>(
    from: &[T],
    one: impl Fn(T) -> Option<U> + Sync,
) -> Result<Vec<U>, usize> {
    const PIECE: usize = 1 << 16;
    let mut out = vec![U::default(); from.len()];
    let failed = from
        .par_chunks(PIECE)
        .zip(out.par_chunks_mut(PIECE))
        .enumerate()
        .filter_map(|(i, (from, out))| {
            for (at, (&x, to)) in from.iter().zip(out).enumerate() {
                match one(x) {
                    Some(y) => *to = y,
                    None => return Some(i * PIECE + at),
                }
            }
            None
        })
        .min();
    failed.map_or(Ok(out), Err)
}

/// The single-precision float that widens to exactly these bits. Through bits, because a conversion may quieten a NaN.
fn single(value: f64) -> Option<f32> {
    let bits = value.to_bits();
    if value.is_nan() {
        let payload = bits & ((1 << 52) - 1);
        let fits = payload.trailing_zeros() >= 29;
        let sign = ((bits >> 63) as u32) << 31;
        return fits.then(|| f32::from_bits(sign | 0x7f80_0000 | (payload >> 29) as u32));
    }
    let narrow = value as f32;
    (f64::from(narrow).to_bits() == bits).then_some(narrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_widens_to_the_same_bits_is_narrowed() {
        let same =
            [0.0, -0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY, f64::from(f32::from_bits(1)), -2.25e-38];
        for v in same.into_iter().filter(|v| f64::from(*v as f32) == *v) {
            assert_eq!(single(v).map(|s| f64::from(s).to_bits()), Some(v.to_bits()), "{v:e}");
        }
        for v in [0.1, 1e300, 1e-300, f64::from_bits(1), 16_777_217.0] {
            assert_eq!(single(v), None, "{v:e}");
        }
        // Quiet and signalling, with a payload that fits and one that does not.
        for (wide, narrow) in [
            (0x7ff8_0000_0000_0000, Some(0x7fc0_0000)),
            (0xfff0_0000_2000_0000, Some(0xff80_0001)),
            (0x7ff0_0000_0000_0001, None),
        ] {
            assert_eq!(single(f64::from_bits(wide)).map(f32::to_bits), narrow, "{wide:x}");
        }
    }

    #[test]
    fn a_count_that_does_not_fit_is_named() {
        let n = Narrowing::of(SampleType::U32);
        assert_eq!((n.stored, n.operation()), (SampleType::U16, Some(INTEGER_NARROWING)));
        let kept = n.apply(SamplesRef::U32(&[0, 65535]), 0, 2).unwrap();
        assert_eq!(kept, Some(Samples::U16(vec![0, 65535])));
        let e = n.apply(SamplesRef::U32(&[0, 1, 2, 65536]), 7, 2).unwrap_err();
        assert!(e.code() == "not_representable" && e.message().contains("frame 8, pixel 1"), "{e}");
        let e = Narrowing::of(SampleType::I16).apply(SamplesRef::I16(&[5, -1]), 0, 2).unwrap_err();
        assert!(e.message().contains("int16 value -1 is no uint16"), "{e}");
        assert_eq!(Narrowing::of(SampleType::U8).operation(), None);
        assert_eq!(Narrowing::of(SampleType::U8).apply(SamplesRef::U8(&[1]), 0, 1).unwrap(), None);
    }
}
