//! Reading `.npy` expectations: C order, little-endian, unsigned and float64.

use std::path::Path;

/// An array of a `.npy` file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Axes.
    pub shape: Vec<usize>,
    /// NumPy's type code, for example `<u2`.
    pub descr: String,
    /// Integer values widened to u64 (empty for floats).
    pub values: Vec<u64>,
    /// Float64 values (empty for integers).
    pub floats: Vec<f64>,
}

/// Reads an array.
///
/// # Panics
/// On anything unexpected: expectations must be readable.
pub fn read_npy(path: &Path) -> Array {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(&bytes[..6], b"\x93NUMPY", "{}", path.display());
    let (len, start) = match bytes[6] {
        1 => (u16::from_le_bytes([bytes[8], bytes[9]]) as usize, 10),
        _ => (u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize, 12),
    };
    let header = std::str::from_utf8(&bytes[start..start + len]).expect("header is text");
    assert!(header.contains("'fortran_order': False"), "{header}");
    let between = |a: &str, b: char| {
        let tail = &header[header.find(a).expect("key") + a.len()..];
        tail[..tail.find(b).expect("end")].to_owned()
    };
    let descr = between("'descr': '", '\'');
    let shape: Vec<usize> =
        between("'shape': (", ')').split(',').filter_map(|t| t.trim().parse().ok()).collect();
    let data = &bytes[start + len..];
    let width: usize = descr[2..].parse().expect("width");
    let mut array = Array { shape, descr, values: Vec::new(), floats: Vec::new() };
    for item in data.chunks_exact(width) {
        let mut word = [0; 8];
        word[..width].copy_from_slice(item);
        match &array.descr[..2] {
            "<u" | "|u" => array.values.push(u64::from_le_bytes(word)),
            "<f" if width == 8 => array.floats.push(f64::from_le_bytes(word)),
            "<f" if width == 4 => {
                array.floats.push(f32::from_le_bytes([item[0], item[1], item[2], item[3]]).into());
            }
            other => panic!("unexpected type {other}"),
        }
    }
    assert_eq!(array.values.len() + array.floats.len(), array.shape.iter().product::<usize>());
    array
}
