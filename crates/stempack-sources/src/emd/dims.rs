//! What the dimension vectors beside an array say of the step along each axis.
//!
//! A vector stands for every index of its axis, or holds two values, the first of which are extended linearly. Only
//! regular spacing is a step.

use crate::hdf5::{DatasetIndex, ElementClass, File, Found, Value};
use stempack_model::Task;

/// Longest vector that is read.
const MAX_VALUES: u64 = 1 << 20;
/// Largest departure from regular spacing, relative to the step.
const REGULAR: f64 = 1e-6;

/// One vector, as far as it can be used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dim {
    /// Where it stands.
    pub(super) path: String,
    /// Its unit as recorded.
    pub(super) unit: Option<String>,
    /// The step, or why there is none.
    pub(super) step: Result<f64, String>,
}

/// The vectors of the four axes. `None` where there is none for an axis; an error when it cannot be told which vector
/// belongs to which axis.
pub(super) fn read(file: &File, group: &str, shape: [u64; 4]) -> Result<[Option<Dim>; 4], String> {
    let there = |n: usize| !matches!(file.find(&format!("{group}/dim{n}")), Ok(Found::Nothing) | Err(_));
    let present: Vec<usize> = (0..=4).filter(|&n| there(n)).collect();
    // emdfile counts from 0, older EMD versions from 1; the set that is there says which.
    let first = match present.as_slice() {
        [] => return Ok([const { None }; 4]),
        [0, ..] => 0,
        [.., 4] => 1,
        some => {
            let names: Vec<String> = some.iter().map(|n| format!("dim{n}")).collect();
            return Err(format!("of its dimension vectors only {} are there", names.join(", ")));
        }
    };
    let mut dims = [const { None }; 4];
    for (axis, dim) in dims.iter_mut().enumerate() {
        let path = format!("{group}/dim{}", axis + first);
        *dim = one(file, &path, shape[axis]);
    }
    Ok(dims)
}

fn one(file: &File, path: &str, length: u64) -> Option<Dim> {
    let Ok(Found::Dataset(dataset)) = file.find(path) else { return None };
    let unit = dataset.attribute("units").as_ref().and_then(Value::text).map(|t| t.trim().to_owned());
    let step = DatasetIndex::build(file, &dataset)
        .map_err(|e| e.message().to_owned())
        .and_then(|index| values(&index))
        .and_then(|(values, precision)| step(&values, precision, length));
    Some(Dim { path: path.to_owned(), unit, step })
}

/// The numbers of a vector, and the relative precision they were stored with.
fn values(index: &DatasetIndex) -> Result<(Vec<f64>, f64), String> {
    let element = index.element();
    let numbers = matches!(
        (element.class, element.bytes),
        (ElementClass::Float, 4 | 8) | (ElementClass::Signed | ElementClass::Unsigned, 1 | 2 | 4 | 8)
    );
    if !numbers {
        return Err("it holds no numbers".to_owned());
    }
    let count: u64 = index.shape().iter().product();
    if index.shape().len() != 1 || count > MAX_VALUES {
        return Err(format!("it is an array of {:?} values", index.shape()));
    }
    let bytes = index.read_all(&Task::new()).map_err(|e| e.message().to_owned())?;
    let value = |b: &[u8]| -> f64 {
        // Decoded numbers are in native order.
        let mut word = [0u8; 8];
        word[..b.len()].copy_from_slice(b);
        if cfg!(target_endian = "big") {
            word[..b.len()].reverse();
        }
        let bits = u64::from_le_bytes(word);
        match (element.class, b.len()) {
            (ElementClass::Float, 4) => f64::from(f32::from_bits(bits as u32)),
            (ElementClass::Float, _) => f64::from_bits(bits),
            (ElementClass::Signed, 1) => f64::from(bits as u8 as i8),
            (ElementClass::Signed, 2) => f64::from(bits as u16 as i16),
            (ElementClass::Signed, 4) => f64::from(bits as u32 as i32),
            (ElementClass::Signed, _) => bits as i64 as f64,
            _ => bits as f64,
        }
    };
    let precision = match (element.class, element.bytes) {
        (ElementClass::Float, 4) => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    };
    Ok((bytes.chunks_exact(element.bytes).map(value).collect(), precision))
}

/// The one step of a vector along an axis of `length`.
fn step(values: &[f64], precision: f64, length: u64) -> Result<f64, String> {
    let count = values.len() as u64;
    if count != length && count != 2 {
        return Err(format!("it has {count} values for an axis of {length}"));
    }
    let (Some(&first), Some(&last)) = (values.first(), values.last()) else {
        return Err("it is empty".to_owned());
    };
    if count < 2 {
        return Err("a single value has no step".to_owned());
    }
    let step = (last - first) / (count - 1) as f64;
    if !(step.is_finite() && step > 0.0) {
        return Err(format!("its step of {} is not positive", crate::hdf5::shortest(step)));
    }
    let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    // Values far from zero carry the rounding of their storage.
    let tolerance = REGULAR * step + 2.0 * precision * largest;
    let regular = values.windows(2).all(|pair| ((pair[1] - pair[0]) - step).abs() <= tolerance);
    if regular { Ok(step) } else { Err("its values are not regularly spaced".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_vector() {
        let e = f64::EPSILON;
        assert_eq!(step(&[0.0, 0.25], e, 7), Ok(0.25));
        assert_eq!(step(&[-0.5, -0.25], e, 2), Ok(0.25));
        assert_eq!(step(&[-0.5, -0.25, 0.0], e, 3), Ok(0.25));
        // 0.3 is not 3 × 0.1 in binary, which is no irregularity.
        let tenths: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.1).collect();
        assert!((step(&tenths, e, 100).unwrap() - 0.1).abs() < 1e-15);
        let single: Vec<f64> = (0..256).map(|i| f64::from((i - 128) as f32 * 0.0035f32)).collect();
        assert!((step(&single, f64::from(f32::EPSILON), 256).unwrap() - 0.0035).abs() < 1e-8);
    }

    #[test]
    fn what_is_no_step() {
        let e = f64::EPSILON;
        let refused = |values: &[f64], length| step(values, e, length).unwrap_err();
        assert!(refused(&[0.0, 1.0, 2.1], 3).contains("regularly"));
        assert!(refused(&[0.0, 1.0, 2.000_01, 3.0], 4).contains("regularly"));
        assert!(refused(&[0.0, 1.0, f64::NAN, 3.0], 4).contains("regularly"));
        assert!(refused(&[0.0, 1.0, 2.0], 4).contains("3 values for an axis of 4"));
        assert!(refused(&[1.0, 0.0], 5).contains("not positive"));
        assert!(refused(&[0.0, 0.0], 5).contains("not positive"));
        assert!(refused(&[0.0, f64::INFINITY], 5).contains("not positive"));
        assert!(refused(&[0.0, f64::NAN], 5).contains("not positive"));
        assert!(refused(&[0.0], 1).contains("single value"));
        assert!(refused(&[], 0).contains("empty"));
    }
}
