//! The pixel mask: which detector pixels are excluded, and the identity of the mask they come from.

use crate::error::SourceCode;
use crate::hdf5::{DatasetIndex, Element, ElementClass, File, Found};
use crate::refuse;
use sha2::{Digest, Sha256};
use stempack_model::{DetectorShape, Exclusions, MaskOrigin, Result, Task};

/// Where masters keep it; the second place is looked at when the first holds nothing.
const PLACES: [&str; 2] =
    ["/entry/instrument/detector/detectorSpecific/pixel_mask", "/entry/instrument/detector/pixel_mask"];

/// Every nonzero value excludes its pixel. Without a mask all are admitted, which is the identity of a mask of zeros.
pub(super) fn read(head: &File, detector: DetectorShape) -> Result<Exclusions> {
    for place in PLACES {
        match head.find(place)? {
            Found::Nothing => {}
            Found::Dataset(dataset) => {
                let index = DatasetIndex::build(head, &dataset)?;
                return from_mask(head, &index, detector);
            }
            Found::Group(_) | Found::Elsewhere { .. } | Found::Other => {
                let message = format!("`{place}` of `{}` is no dataset of this file", head.name());
                return Err(refuse(SourceCode::BadPixelMask, message, head.path()));
            }
        }
    }
    crate::exclusions::none(detector)
}

fn from_mask(head: &File, index: &DatasetIndex, detector: DetectorShape) -> Result<Exclusions> {
    let bad = |what: String| {
        let message = format!("`{}` of `{}` {what}", index.object(), head.name());
        Err(refuse(SourceCode::BadPixelMask, message, head.path()))
    };
    let expected = [detector.rows() as u64, detector.cols() as u64];
    if index.shape() != expected {
        return bad(format!("has the shape {:?}, expected {expected:?}", index.shape()));
    }
    let element = index.element();
    if !matches!(element.class, ElementClass::Unsigned | ElementClass::Signed) || element.bytes > 8 {
        return bad("does not hold integers of at most 8 bytes".to_owned());
    }
    let bytes = index.read_all(&Task::new())?;
    let mut pixels = Vec::new();
    let mut hash = Sha256::new();
    let mut words = Vec::with_capacity(bytes.len() / element.bytes * 4);
    for (pixel, stored) in bytes.chunks_exact(element.bytes).enumerate() {
        let Some(value) = word(stored, element) else {
            let (row, col) = (pixel / detector.cols(), pixel % detector.cols());
            return bad(format!("has a value at row {row}, column {col} that does not fit 32 unsigned bits"));
        };
        if value != 0 {
            pixels.push(pixel as u32);
        }
        words.extend_from_slice(&value.to_le_bytes());
    }
    hash.update(&words);
    Ok(Exclusions { pixels, mask_sha256: hash.finalize().into(), origin: MaskOrigin::SourceMask })
}

/// One mask value, which the reader has put in native byte order.
fn word(stored: &[u8], element: Element) -> Option<u32> {
    let mut wide = [0u8; 8];
    if cfg!(target_endian = "big") {
        wide[8 - element.bytes..].copy_from_slice(stored);
    } else {
        wide[..element.bytes].copy_from_slice(stored);
    }
    let value = u64::from_ne_bytes(wide);
    // The highest bit of a signed number is its sign.
    let negative = element.class == ElementClass::Signed && value >> (8 * element.bytes - 1) & 1 == 1;
    if negative { None } else { u32::try_from(value).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdf5::Order;

    #[test]
    fn mask_values_are_unsigned_words() {
        let element = |class, bytes| Element { class, bytes, order: Order::Little };
        let (unsigned, signed) = (ElementClass::Unsigned, ElementClass::Signed);
        assert_eq!(word(&8u16.to_ne_bytes(), element(unsigned, 2)), Some(8));
        assert_eq!(word(&u32::MAX.to_ne_bytes(), element(unsigned, 4)), Some(u32::MAX));
        assert_eq!(word(&(1u64 << 32).to_ne_bytes(), element(unsigned, 8)), None);
        assert_eq!(word(&(-1i32).to_ne_bytes(), element(signed, 4)), None);
        assert_eq!(word(&7i64.to_ne_bytes(), element(signed, 8)), Some(7));
    }
}
