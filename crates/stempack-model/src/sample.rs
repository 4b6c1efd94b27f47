//! The type of one detector sample, and buffers of samples.

use std::borrow::Cow;
use std::fmt;

/// Declares the sample type and its three buffers from one table, so that a type is added in one place.
macro_rules! sample_types {
    ($($name:ident, $rust:ident, $text:literal, $doc:literal;)*) => {
        /// The type of one detector sample as the source stores it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SampleType {
            $(#[doc = $doc] $name,)*
        }

        impl SampleType {
            /// Every type.
            pub const ALL: &[SampleType] = &[$(SampleType::$name,)*];
            /// Bytes of one sample.
            pub fn bytes(self) -> usize {
                match self {
                    $(SampleType::$name => size_of::<$rust>(),)*
                }
            }
            /// The name used in manifests and JSON, for example `uint16`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(SampleType::$name => $text,)*
                }
            }
        }

        /// An owned buffer of samples in native byte order.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Samples {
            $(#[doc = $doc] $name(Vec<$rust>),)*
        }

        /// A borrowed buffer of samples to be filled.
        #[derive(Debug)]
        pub enum SamplesMut<'a> {
            $(#[doc = $doc] $name(&'a mut [$rust]),)*
        }

        /// Borrowed samples.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum SamplesRef<'a> {
            $(#[doc = $doc] $name(&'a [$rust]),)*
        }

        impl Samples {
            /// `len` zeros of the given type.
            pub fn zeroed(sample: SampleType, len: usize) -> Self {
                match sample {
                    $(SampleType::$name => Samples::$name(vec![$rust::default(); len]),)*
                }
            }
            /// The sample type.
            pub fn sample_type(&self) -> SampleType {
                self.as_ref().sample_type()
            }
            /// Number of samples.
            pub fn len(&self) -> usize {
                self.as_ref().len()
            }
            /// Whether there are no samples.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
            /// The whole buffer.
            pub fn as_ref(&self) -> SamplesRef<'_> {
                match self {
                    $(Samples::$name(v) => SamplesRef::$name(v),)*
                }
            }
            /// The whole buffer, to be filled.
            pub fn as_mut(&mut self) -> SamplesMut<'_> {
                match self {
                    $(Samples::$name(v) => SamplesMut::$name(v),)*
                }
            }
            /// The first `len` samples.
            ///
            /// # Panics
            /// When `len` exceeds the buffer.
            pub fn head(&self, len: usize) -> SamplesRef<'_> {
                match self {
                    $(Samples::$name(v) => SamplesRef::$name(&v[..len]),)*
                }
            }
            /// The first `len` samples, to be filled.
            ///
            /// # Panics
            /// When `len` exceeds the buffer.
            pub fn head_mut(&mut self, len: usize) -> SamplesMut<'_> {
                match self {
                    $(Samples::$name(v) => SamplesMut::$name(&mut v[..len]),)*
                }
            }
        }

        impl<'a> SamplesMut<'a> {
            /// The sample type.
            pub fn sample_type(&self) -> SampleType {
                match self {
                    $(SamplesMut::$name(_) => SampleType::$name,)*
                }
            }
            /// Number of samples.
            pub fn len(&self) -> usize {
                match self {
                    $(SamplesMut::$name(v) => v.len(),)*
                }
            }
            /// Whether there are no samples.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
            /// The same buffer for a shorter time.
            pub fn reborrow(&mut self) -> SamplesMut<'_> {
                match self {
                    $(SamplesMut::$name(v) => SamplesMut::$name(v),)*
                }
            }
            /// The samples before and from `at` on.
            ///
            /// # Panics
            /// When `at` exceeds the buffer.
            pub fn split_at(self, at: usize) -> (SamplesMut<'a>, SamplesMut<'a>) {
                match self {
                    $(SamplesMut::$name(v) => {
                        let (head, tail) = v.split_at_mut(at);
                        (SamplesMut::$name(head), SamplesMut::$name(tail))
                    })*
                }
            }
            /// What has been filled.
            pub fn as_ref(&self) -> SamplesRef<'_> {
                match self {
                    $(SamplesMut::$name(v) => SamplesRef::$name(v),)*
                }
            }
            /// The memory of the samples, in native byte order.
            pub fn as_bytes_mut(&mut self) -> &mut [u8] {
                match self {
                    $(SamplesMut::$name(v) => bytemuck::cast_slice_mut(v),)*
                }
            }
            /// Reverses the bytes of every sample: what was read in the other byte order becomes native.
            pub fn swap_bytes(&mut self) {
                match self {
                    $(SamplesMut::$name(v) => {
                        for sample in v.iter_mut() {
                            // Through bytes: a float must not be touched as a float, which could quieten a NaN.
                            bytemuck::bytes_of_mut(sample).reverse();
                        }
                    })*
                }
            }
            /// Copies samples of the same type and number; `false` when they are of another.
            #[must_use]
            pub fn copy_from(&mut self, from: SamplesRef<'_>) -> bool {
                match (self, from) {
                    $((SamplesMut::$name(to), SamplesRef::$name(from)) if to.len() == from.len() => {
                        to.copy_from_slice(from);
                        true
                    })*
                    _ => false,
                }
            }
        }

        impl<'a> SamplesRef<'a> {
            /// The sample type.
            pub fn sample_type(self) -> SampleType {
                match self {
                    $(SamplesRef::$name(_) => SampleType::$name,)*
                }
            }
            /// Number of samples.
            pub fn len(self) -> usize {
                match self {
                    $(SamplesRef::$name(v) => v.len(),)*
                }
            }
            /// Whether there are no samples.
            pub fn is_empty(self) -> bool {
                self.len() == 0
            }
            /// A part.
            ///
            /// # Panics
            /// When the range lies outside.
            pub fn slice(self, range: std::ops::Range<usize>) -> SamplesRef<'a> {
                match self {
                    $(SamplesRef::$name(v) => SamplesRef::$name(&v[range]),)*
                }
            }
            /// An owned copy.
            pub fn to_owned(self) -> Samples {
                match self {
                    $(SamplesRef::$name(v) => Samples::$name(v.to_vec()),)*
                }
            }
            /// One sample as an integer that holds every type; `None` for floats.
            ///
            /// # Panics
            /// When `index` lies outside.
            pub fn integer(self, index: usize) -> Option<i128> {
                match self {
                    $(SamplesRef::$name(v) => <$rust as Widen>::widen(v[index]),)*
                }
            }
            /// The samples as little-endian bytes; a copy only where memory is big-endian.
            pub fn little_endian(self) -> Cow<'a, [u8]> {
                match self {
                    $(SamplesRef::$name(v) => little_endian_words(v, |x| x.to_le_bytes()),)*
                }
            }
            /// Every sample as a double, for pictures. Integers beyond 2⁵³ are rounded.
            pub fn to_f64(self) -> Vec<f64> {
                match self {
                    $(SamplesRef::$name(v) => v.iter().map(|&x| x as f64).collect(),)*
                }
            }
        }

        $(impl<'a> From<&'a [$rust]> for SamplesRef<'a> {
            fn from(samples: &'a [$rust]) -> Self {
                SamplesRef::$name(samples)
            }
        })*
    };
}

sample_types! {
    U8, u8, "uint8", "Unsigned 8-bit counts.";
    U16, u16, "uint16", "Unsigned 16-bit counts.";
    U32, u32, "uint32", "Unsigned 32-bit counts.";
    U64, u64, "uint64", "Unsigned 64-bit counts.";
    I8, i8, "int8", "Signed 8-bit integers.";
    I16, i16, "int16", "Signed 16-bit integers.";
    I32, i32, "int32", "Signed 32-bit integers.";
    I64, i64, "int64", "Signed 64-bit integers.";
    F32, f32, "float32", "IEEE single-precision floats.";
    F64, f64, "float64", "IEEE double-precision floats.";
}

impl SampleType {
    /// Whether samples are counts without sign.
    pub fn is_unsigned(self) -> bool {
        self.max_unsigned().is_some()
    }
    /// Whether samples are floats.
    pub fn is_float(self) -> bool {
        matches!(self, SampleType::F32 | SampleType::F64)
    }
    /// The largest value of an unsigned type; `None` for signed integers and floats.
    pub fn max_unsigned(self) -> Option<u64> {
        match self {
            SampleType::U8 => Some(u8::MAX.into()),
            SampleType::U16 => Some(u16::MAX.into()),
            SampleType::U32 => Some(u32::MAX.into()),
            SampleType::U64 => Some(u64::MAX),
            _ => None,
        }
    }
    /// The type with a name, the inverse of [`as_str`](Self::as_str).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|t| t.as_str() == name)
    }
}

impl fmt::Display for SampleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Integers widened without loss; floats are none.
trait Widen {
    fn widen(self) -> Option<i128>;
}
macro_rules! widen {
    ($($rust:ty),*) => {
        $(impl Widen for $rust {
            fn widen(self) -> Option<i128> {
                Some(self.into())
            }
        })*
    };
}
widen!(u8, u16, u32, u64, i8, i16, i32, i64);
impl Widen for f32 {
    fn widen(self) -> Option<i128> {
        None
    }
}
impl Widen for f64 {
    fn widen(self) -> Option<i128> {
        None
    }
}

/// Words as little-endian bytes, without a copy where memory already is little-endian.
pub fn little_endian_words<T: bytemuck::NoUninit, const N: usize>(
    values: &[T],
    le: impl Fn(T) -> [u8; N],
) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return Cow::Borrowed(bytemuck::cast_slice(values));
    }
    Cow::Owned(values.iter().flat_map(|&v| le(v)).collect())
}

/// Runs one generic expression on samples of whatever type they have:
/// `with_samples!(SamplesRef, samples, v => v.len())`.
#[macro_export]
macro_rules! with_samples {
    ($kind:ident, $samples:expr, $v:ident => $do:expr) => {
        match $samples {
            $crate::$kind::U8($v) => $do,
            $crate::$kind::U16($v) => $do,
            $crate::$kind::U32($v) => $do,
            $crate::$kind::U64($v) => $do,
            $crate::$kind::I8($v) => $do,
            $crate::$kind::I16($v) => $do,
            $crate::$kind::I32($v) => $do,
            $crate::$kind::I64($v) => $do,
            $crate::$kind::F32($v) => $do,
            $crate::$kind::F64($v) => $do,
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_are_those_of_numpy() {
        let table: Vec<(&str, usize)> = SampleType::ALL.iter().map(|t| (t.as_str(), t.bytes())).collect();
        let expected = [
            ("uint8", 1),
            ("uint16", 2),
            ("uint32", 4),
            ("uint64", 8),
            ("int8", 1),
            ("int16", 2),
            ("int32", 4),
            ("int64", 8),
            ("float32", 4),
            ("float64", 8),
        ];
        assert_eq!(table, expected);
        assert!(SampleType::ALL.iter().all(|&t| SampleType::named(t.as_str()) == Some(t)));
    }

    #[test]
    fn swapping_bytes_keeps_the_bits_of_a_signalling_nan() {
        let mut samples = Samples::F32(vec![f32::from_bits(0x7f80_0001)]);
        let mut into = samples.as_mut();
        into.swap_bytes();
        into.swap_bytes();
        assert_eq!(samples.as_ref().little_endian().as_ref(), 0x7f80_0001u32.to_le_bytes());
        let mut words = Samples::I16(vec![0x0102, -2]);
        words.as_mut().swap_bytes();
        assert_eq!(words, Samples::I16(vec![0x0201, 0xfeff_u16 as i16]));
    }
}
