//! The type of one detector sample, and buffers of samples.

use std::fmt;

/// The type of one detector sample as the source stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleType {
    /// Unsigned 8-bit counts.
    U8,
    /// Unsigned 16-bit counts.
    U16,
    /// Unsigned 32-bit counts.
    U32,
}

impl SampleType {
    /// Bytes of one sample.
    pub fn bytes(self) -> usize {
        match self {
            SampleType::U8 => 1,
            SampleType::U16 => 2,
            SampleType::U32 => 4,
        }
    }
    /// The name used in manifests and JSON: `uint8`, `uint16`, `uint32`.
    pub fn as_str(self) -> &'static str {
        match self {
            SampleType::U8 => "uint8",
            SampleType::U16 => "uint16",
            SampleType::U32 => "uint32",
        }
    }
    /// The largest value of the type.
    pub fn max_value(self) -> u64 {
        match self {
            SampleType::U8 => u8::MAX as u64,
            SampleType::U16 => u16::MAX as u64,
            SampleType::U32 => u32::MAX as u64,
        }
    }
}

impl fmt::Display for SampleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An owned buffer of samples in native byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Samples {
    /// Unsigned 8-bit.
    U8(Vec<u8>),
    /// Unsigned 16-bit.
    U16(Vec<u16>),
    /// Unsigned 32-bit.
    U32(Vec<u32>),
}

/// A borrowed buffer of samples to be filled.
#[derive(Debug)]
pub enum SamplesMut<'a> {
    /// Unsigned 8-bit.
    U8(&'a mut [u8]),
    /// Unsigned 16-bit.
    U16(&'a mut [u16]),
    /// Unsigned 32-bit.
    U32(&'a mut [u32]),
}

impl Samples {
    /// `len` zeros of the given type.
    pub fn zeroed(sample: SampleType, len: usize) -> Self {
        match sample {
            SampleType::U8 => Samples::U8(vec![0; len]),
            SampleType::U16 => Samples::U16(vec![0; len]),
            SampleType::U32 => Samples::U32(vec![0; len]),
        }
    }
    /// The sample type.
    pub fn sample_type(&self) -> SampleType {
        match self {
            Samples::U8(_) => SampleType::U8,
            Samples::U16(_) => SampleType::U16,
            Samples::U32(_) => SampleType::U32,
        }
    }
    /// Number of samples.
    pub fn len(&self) -> usize {
        match self {
            Samples::U8(v) => v.len(),
            Samples::U16(v) => v.len(),
            Samples::U32(v) => v.len(),
        }
    }
    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Sample `index` widened to u64.
    ///
    /// # Panics
    /// When `index` is out of bounds.
    pub fn get(&self, index: usize) -> u64 {
        match self {
            Samples::U8(v) => v[index].into(),
            Samples::U16(v) => v[index].into(),
            Samples::U32(v) => v[index].into(),
        }
    }
    /// The whole buffer, to be filled.
    pub fn as_mut(&mut self) -> SamplesMut<'_> {
        match self {
            Samples::U8(v) => SamplesMut::U8(v),
            Samples::U16(v) => SamplesMut::U16(v),
            Samples::U32(v) => SamplesMut::U32(v),
        }
    }
    /// The first `len` samples, to be filled.
    ///
    /// # Panics
    /// When `len` exceeds the buffer.
    pub fn head_mut(&mut self, len: usize) -> SamplesMut<'_> {
        match self {
            Samples::U8(v) => SamplesMut::U8(&mut v[..len]),
            Samples::U16(v) => SamplesMut::U16(&mut v[..len]),
            Samples::U32(v) => SamplesMut::U32(&mut v[..len]),
        }
    }
}

impl SamplesMut<'_> {
    /// The sample type.
    pub fn sample_type(&self) -> SampleType {
        match self {
            SamplesMut::U8(_) => SampleType::U8,
            SamplesMut::U16(_) => SampleType::U16,
            SamplesMut::U32(_) => SampleType::U32,
        }
    }
    /// Number of samples.
    pub fn len(&self) -> usize {
        match self {
            SamplesMut::U8(v) => v.len(),
            SamplesMut::U16(v) => v.len(),
            SamplesMut::U32(v) => v.len(),
        }
    }
    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
