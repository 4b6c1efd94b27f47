//! Exact arrays as `.npy` files: format 1.0, little-endian, C order; masks are the only arrays read back.

use super::ExportCode;
use super::Output;
use crate::{DetectorShape, Error, Result, SampleType};
use std::io::Read;
use std::path::Path;
use stempack_products::region::little_endian_words as words;
use stempack_sources::npy::header::{self as npy_header, Fault, MAGIC, MAX_HEADER, PREFIX_BYTES};

/// The element types that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NpyType {
    /// Unsigned 8-bit.
    U8,
    /// Unsigned 16-bit.
    U16,
    /// Unsigned 32-bit.
    U32,
    /// Unsigned 64-bit.
    U64,
    /// 64-bit floats.
    F64,
}

impl NpyType {
    /// NumPy's type string.
    pub fn descr(self) -> &'static str {
        match self {
            NpyType::U8 => "|u1",
            NpyType::U16 => "<u2",
            NpyType::U32 => "<u4",
            NpyType::U64 => "<u8",
            NpyType::F64 => "<f8",
        }
    }
    /// NumPy's type name.
    pub fn as_str(self) -> &'static str {
        match self {
            NpyType::U8 => "uint8",
            NpyType::U16 => "uint16",
            NpyType::U32 => "uint32",
            NpyType::U64 => "uint64",
            NpyType::F64 => "float64",
        }
    }
    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            NpyType::U8 => 1,
            NpyType::U16 => 2,
            NpyType::U32 => 4,
            NpyType::U64 | NpyType::F64 => 8,
        }
    }
}

impl From<SampleType> for NpyType {
    fn from(sample: SampleType) -> Self {
        match sample {
            SampleType::U8 => NpyType::U8,
            SampleType::U16 => NpyType::U16,
            SampleType::U32 => NpyType::U32,
        }
    }
}

/// Magic, version 1.0, length and literal, padded with spaces so that the data begin at a multiple of 64.
pub fn header(dtype: NpyType, shape: &[u64]) -> Vec<u8> {
    let sizes: String = match shape {
        [one] => format!("{one},"),
        many => many.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut literal =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({sizes}), }}", dtype.descr());
    let fixed = MAGIC.len() + 2 + 2;
    let end = (fixed + literal.len() + 1).next_multiple_of(64);
    literal.extend(std::iter::repeat_n(' ', end - fixed - literal.len() - 1));
    literal.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    // Shapes here have at most four sizes, so the literal is far below 64 KiB.
    bytes.extend((literal.len() as u16).to_le_bytes());
    bytes.extend(literal.as_bytes());
    bytes
}

/// Writes one array piece by piece and refuses to publish anything but the whole of it.
#[derive(Debug)]
pub struct NpyWriter {
    output: Output,
    missing_bytes: u64,
}

impl NpyWriter {
    /// Begins an array at `destination`.
    ///
    /// # Errors
    /// As [`Output::create`] and [`new`](Self::new).
    pub fn create(destination: &Path, replace: bool, dtype: NpyType, shape: &[u64]) -> Result<Self> {
        Self::new(Output::create(destination, replace)?, dtype, shape)
    }

    /// Begins an array in an empty output.
    ///
    /// # Errors
    /// `invalid_destination` when the array exceeds what a file can hold, `io`.
    pub fn new(mut output: Output, dtype: NpyType, shape: &[u64]) -> Result<Self> {
        let bytes = shape.iter().try_fold(dtype.bytes(), |n, &size| n.checked_mul(size));
        let missing_bytes = bytes.ok_or_else(|| {
            Error::new(ExportCode::InvalidDestination, "the array exceeds 2^64 bytes and cannot be a file")
        })?;
        output.write(&header(dtype, shape))?;
        Ok(NpyWriter { output, missing_bytes })
    }

    /// Writes the next little-endian elements.
    ///
    /// # Errors
    /// `invalid_destination` beyond the end of the array, `io`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.missing_bytes = self.missing_bytes.checked_sub(bytes.len() as u64).ok_or_else(incomplete)?;
        self.output.write(bytes)
    }

    /// Writes the next 64-bit elements.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_u64(&mut self, values: &[u64]) -> Result<()> {
        self.write(&words(values, |v| v.to_le_bytes()))
    }
    /// Writes the next 16-bit elements.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_u16(&mut self, values: &[u16]) -> Result<()> {
        self.write(&words(values, |v| v.to_le_bytes()))
    }
    /// Writes the next 32-bit elements.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_u32(&mut self, values: &[u32]) -> Result<()> {
        self.write(&words(values, |v| v.to_le_bytes()))
    }
    /// Writes the next floats.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_f64(&mut self, values: &[f64]) -> Result<()> {
        self.write(&words(values, |v| v.to_le_bytes()))
    }

    /// Publishes the complete array; returns the size of the file.
    ///
    /// # Errors
    /// `invalid_destination` when elements are missing; otherwise as [`Output::publish`].
    pub fn publish(self) -> Result<u64> {
        if self.missing_bytes != 0 {
            return Err(incomplete());
        }
        self.output.publish()
    }
}

fn incomplete() -> Error {
    Error::new(ExportCode::InvalidDestination, "the elements written are not those of the declared array")
}

/// Reads a mask: a C-order array of `uint8` or `bool` with the detector's shape. Values are not judged here.
///
/// # Errors
/// `not_npy`, `malformed_npy`, `unsupported_npy` for other types and orders, `mask_shape`, `io`.
pub fn read_mask(path: &Path, shape: DetectorShape) -> Result<Vec<u8>> {
    let at = |e: Error| e.at(format!("`{}`", path.display())).with("path", path.display().to_string());
    let file = std::fs::File::open(path).map_err(|e| Error::io("open", path, e))?;
    // Nothing longer than the longest header and one byte for each pixel can be right.
    let limit = (PREFIX_BYTES + MAX_HEADER + 1) as u64 + shape.pixels() as u64;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(|e| Error::io("read", path, e))?;
    mask_of(&bytes, shape).map_err(at)
}

fn mask_of(bytes: &[u8], shape: DetectorShape) -> Result<Vec<u8>> {
    let (header, begin) = npy_header::parse(bytes).map_err(|fault| {
        let code = match fault {
            Fault::NotNpy => ExportCode::NotNpy,
            Fault::Unsupported(_) => ExportCode::UnsupportedNpy,
            Fault::Malformed(_) => ExportCode::MalformedNpy,
        };
        Error::new(code, fault.message())
    })?;
    if !matches!(header.descr.as_str(), "|u1" | "|b1" | "<u1" | "<b1" | "u1" | "b1") {
        return Err(Error::new(
            ExportCode::UnsupportedNpy,
            format!("mask elements are `{}`, expected `|u1` (uint8) or `|b1` (bool)", header.descr),
        )
        .hint("save it with `numpy.save(name, mask.astype(bool))`"));
    }
    let wanted = [shape.rows() as u64, shape.cols() as u64];
    if header.shape != wanted {
        return Err(Error::new(
            stempack_products::ProductCode::MaskShape,
            format!("the mask has shape {:?}, the detector {wanted:?}", header.shape),
        ));
    }
    if header.fortran_order {
        return Err(Error::new(ExportCode::UnsupportedNpy, "the mask is in Fortran order, expected C order")
            .hint("save it with `numpy.save(name, numpy.ascontiguousarray(mask))`"));
    }
    let data = bytes.get(begin..).unwrap_or_default();
    if data.len() != shape.pixels() {
        return Err(Error::new(
            ExportCode::MalformedNpy,
            format!("the mask declares {} bytes of data and has {}", shape.pixels(), data.len()),
        ));
    }
    Ok(data.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes NumPy's format description asks for, written out.
    #[test]
    fn the_header_is_the_documented_one() {
        let mut want = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        want.extend(b"{'descr': '<u2', 'fortran_order': False, 'shape': (16, 24, 192, 192), }");
        want.resize(127, b' ');
        want.push(b'\n');
        assert_eq!(header(NpyType::U16, &[16, 24, 192, 192]), want);
        let one = header(NpyType::F64, &[5]);
        assert!(
            one.len().is_multiple_of(64)
                && one[10..].starts_with(b"{'descr': '<f8', 'fortran_order': False, 'shape': (5,), }")
        );
        let none = header(NpyType::U64, &[]);
        assert!(none[10..].starts_with(b"{'descr': '<u8', 'fortran_order': False, 'shape': (), }"));
    }

    #[test]
    fn masks_are_read_back_and_everything_else_is_refused() {
        let shape = DetectorShape::new(2, 3).unwrap();
        let mut bytes = header(NpyType::U8, &[2, 3]);
        bytes.extend([1, 0, 1, 1, 0, 7]);
        assert_eq!(mask_of(&bytes, shape).unwrap(), [1, 0, 1, 1, 0, 7]);
        let code = |bytes: &[u8]| mask_of(bytes, shape).unwrap_err().code();
        assert_eq!(code(&bytes[..bytes.len() - 1]), "malformed_npy");
        bytes.push(0);
        assert_eq!(code(&bytes), "malformed_npy");
        assert_eq!(code(&header(NpyType::U8, &[3, 2])), "mask_shape");
        assert_eq!(code(&header(NpyType::U8, &[6])), "mask_shape");
        assert_eq!(code(&header(NpyType::U16, &[2, 3])), "unsupported_npy");
        assert_eq!(code(b"PK\x03\x04"), "not_npy");
    }
}
