//! Exact arrays as `.npy` files: format 1.0, little-endian, C order; masks are the only arrays read back.

use super::ExportCode;
use super::Output;
use crate::{DetectorShape, Error, Result, SampleType, SamplesRef, ScanShape};
use std::io::Read;
use std::path::Path;
use stempack_products::ProductCode;
use stempack_sources::npy::header::{self as npy_header, Fault, MAGIC, MAX_HEADER, PREFIX_BYTES};

/// NumPy's type string of a sample type: little-endian, or of one byte.
pub fn descr(sample: SampleType) -> &'static str {
    match sample {
        SampleType::U8 => "|u1",
        SampleType::U16 => "<u2",
        SampleType::U32 => "<u4",
        SampleType::U64 => "<u8",
        SampleType::I8 => "|i1",
        SampleType::I16 => "<i2",
        SampleType::I32 => "<i4",
        SampleType::I64 => "<i8",
        SampleType::F32 => "<f4",
        SampleType::F64 => "<f8",
    }
}

/// Magic, version 1.0, length and literal, padded with spaces so that the data begin at a multiple of 64.
pub fn header(dtype: SampleType, shape: &[u64]) -> Vec<u8> {
    let sizes: String = match shape {
        [one] => format!("{one},"),
        many => many.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut literal =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({sizes}), }}", descr(dtype));
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
    dtype: SampleType,
    missing_bytes: u64,
}

impl NpyWriter {
    /// Begins an array at `destination`.
    ///
    /// # Errors
    /// As [`Output::create`] and [`new`](Self::new).
    pub fn create(destination: &Path, replace: bool, dtype: SampleType, shape: &[u64]) -> Result<Self> {
        Self::new(Output::create(destination, replace)?, dtype, shape)
    }

    /// Begins an array in an empty output.
    ///
    /// # Errors
    /// `invalid_destination` when the array exceeds what a file can hold, `io`.
    pub fn new(mut output: Output, dtype: SampleType, shape: &[u64]) -> Result<Self> {
        let bytes = shape.iter().try_fold(dtype.bytes() as u64, |n, &size| n.checked_mul(size));
        let missing_bytes = bytes.ok_or_else(|| {
            Error::new(ExportCode::InvalidDestination, "the array exceeds 2^64 bytes and cannot be a file")
        })?;
        output.write(&header(dtype, shape))?;
        Ok(NpyWriter { output, dtype, missing_bytes })
    }

    /// Writes the next elements.
    ///
    /// # Errors
    /// `invalid_destination` for another type and beyond the end of the array, `io`.
    pub fn write(&mut self, elements: SamplesRef<'_>) -> Result<()> {
        if elements.sample_type() != self.dtype {
            return Err(incomplete());
        }
        self.write_bytes(&elements.little_endian())
    }

    /// Writes the next elements as the little-endian bytes they already are.
    ///
    /// # Errors
    /// `invalid_destination` beyond the end of the array, `io`.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.missing_bytes = self.missing_bytes.checked_sub(bytes.len() as u64).ok_or_else(incomplete)?;
        self.output.write(bytes)
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
    let wanted =
        Wanted { name: "detector", rows: shape.rows(), cols: shape.cols(), code: ProductCode::MaskShape };
    wanted.read(path)
}

/// Reads a mask of scan positions: as [`read_mask`], with the scan's shape.
///
/// # Errors
/// `scan_mask_shape` for another shape; otherwise as [`read_mask`].
pub fn read_scan_mask(path: &Path, shape: ScanShape) -> Result<Vec<u8>> {
    let wanted =
        Wanted { name: "scan", rows: shape.rows(), cols: shape.cols(), code: ProductCode::ScanMaskShape };
    wanted.read(path)
}

/// What a mask has to fit.
struct Wanted {
    name: &'static str,
    rows: usize,
    cols: usize,
    code: ProductCode,
}

impl Wanted {
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let at = |e: Error| e.at(format!("`{}`", path.display())).with("path", path.display().to_string());
        let file = stempack_containers::open_regular(path)?;
        // Nothing longer than the longest header and one byte for each element can be right.
        let limit = (PREFIX_BYTES + MAX_HEADER + 1) as u64 + (self.rows * self.cols) as u64;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(|e| Error::io("read", path, e))?;
        mask_of(&bytes, self).map_err(at)
    }
}

fn mask_of(bytes: &[u8], wanted: &Wanted) -> Result<Vec<u8>> {
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
    let shape = [wanted.rows as u64, wanted.cols as u64];
    if header.shape != shape {
        let message = format!("the mask has shape {:?}, the {} {shape:?}", header.shape, wanted.name);
        return Err(Error::new(wanted.code, message));
    }
    if header.fortran_order {
        return Err(Error::new(ExportCode::UnsupportedNpy, "the mask is in Fortran order, expected C order")
            .hint("save it with `numpy.save(name, numpy.ascontiguousarray(mask))`"));
    }
    let data = bytes.get(begin..).unwrap_or_default();
    if data.len() != wanted.rows * wanted.cols {
        return Err(Error::new(
            ExportCode::MalformedNpy,
            format!("the mask declares {} bytes of data and has {}", wanted.rows * wanted.cols, data.len()),
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
        assert_eq!(header(SampleType::U16, &[16, 24, 192, 192]), want);
        let one = header(SampleType::F64, &[5]);
        assert!(
            one.len().is_multiple_of(64)
                && one[10..].starts_with(b"{'descr': '<f8', 'fortran_order': False, 'shape': (5,), }")
        );
        let none = header(SampleType::U64, &[]);
        assert!(none[10..].starts_with(b"{'descr': '<u8', 'fortran_order': False, 'shape': (), }"));
    }

    #[test]
    fn masks_are_read_back_and_everything_else_is_refused() {
        let wanted = Wanted { name: "scan", rows: 2, cols: 3, code: ProductCode::ScanMaskShape };
        let mut bytes = header(SampleType::U8, &[2, 3]);
        bytes.extend([1, 0, 1, 1, 0, 7]);
        assert_eq!(mask_of(&bytes, &wanted).unwrap(), [1, 0, 1, 1, 0, 7]);
        let code = |bytes: &[u8]| mask_of(bytes, &wanted).unwrap_err().code();
        assert_eq!(code(&bytes[..bytes.len() - 1]), "malformed_npy");
        bytes.push(0);
        assert_eq!(code(&bytes), "malformed_npy");
        assert_eq!(code(&header(SampleType::U8, &[3, 2])), "scan_mask_shape");
        assert_eq!(code(&header(SampleType::U8, &[6])), "scan_mask_shape");
        assert_eq!(code(&header(SampleType::U16, &[2, 3])), "unsupported_npy");
        assert_eq!(code(b"PK\x03\x04"), "not_npy");
    }
}
