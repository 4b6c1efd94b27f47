//! Whether two sources hold the same array, whatever each is stored as.

use crate::ContainerCode;
use stempack_model::{Error, FrameSource, Result, Samples, SamplesRef, Task};

/// The first sample in which two sources differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Scan position, row-major.
    pub position: u64,
    /// Detector pixel, row-major.
    pub pixel: usize,
    /// The first source's value.
    pub ours: String,
    /// The second source's value.
    pub theirs: String,
}

/// Compares every raw sample of two sources. Integers are equal when their values are, whatever their types; floats when
/// their bits are, after single precision has been widened to double; an integer never equals a float.
///
/// # Errors
/// `shapes_differ`; those of reading; `cancelled`.
pub fn compare_sources(
    ours: &dyn FrameSource,
    theirs: &dyn FrameSource,
    task: &Task,
) -> Result<Option<Difference>> {
    let (a, b) = (ours.acquisition(), theirs.acquisition());
    let scans_differ = matches!((a.shape(), b.shape()), (Some(a), Some(b)) if a != b);
    if scans_differ || a.detector != b.detector || a.frame_count != b.frame_count {
        return Err(Error::new(
            ContainerCode::ShapesDiffer,
            format!(
                "one has {} frames of {}{}, the other {} of {}{}",
                a.frame_count,
                a.detector,
                a.scan.as_ref().map_or_else(String::new, |s| format!(" on a {} scan", s.shape)),
                b.frame_count,
                b.detector,
                b.scan.as_ref().map_or_else(String::new, |s| format!(" on a {} scan", s.shape)),
            ),
        ));
    }
    if a.sample.is_float() != b.sample.is_float() {
        return Err(Error::new(
            ContainerCode::ShapesDiffer,
            format!("one holds {}, the other {}", a.sample, b.sample),
        ));
    }
    let pixels = a.detector.pixels();
    let frame_bytes = (pixels * (a.sample.bytes() + b.sample.bytes())) as u64;
    // The rest is for what the two sources keep while they are read.
    let most = (64 << 20).min(task.memory_budget() / 4) / frame_bytes.max(1);
    let window = most.clamp(1, a.frame_count.max(1)) as usize;
    let mut left = Samples::zeroed(a.sample, window * pixels);
    let mut right = Samples::zeroed(b.sample, window * pixels);
    let quiet = task.quiet();
    task.begin("compare", a.frame_count.saturating_mul(pixels as u64));
    for first in (0..a.frame_count).step_by(window) {
        task.check()?;
        let n = (window as u64).min(a.frame_count - first) as usize * pixels;
        let (x, y) = rayon::join(
            || ours.read(first, left.head_mut(n), &quiet),
            || theirs.read(first, right.head_mut(n), &quiet),
        );
        x.and(y)?;
        if let Some(at) = first_difference(left.head(n), right.head(n)) {
            task.finish();
            return Ok(Some(Difference {
                position: first + (at / pixels) as u64,
                pixel: at % pixels,
                ours: shown(left.as_ref(), at),
                theirs: shown(right.as_ref(), at),
            }));
        }
        task.advance(n as u64);
    }
    task.finish();
    ours.check_unchanged()?;
    theirs.check_unchanged()?;
    Ok(None)
}

fn first_difference(a: SamplesRef<'_>, b: SamplesRef<'_>) -> Option<usize> {
    if a.sample_type() == b.sample_type() && a.little_endian() == b.little_endian() {
        return None;
    }
    (0..a.len()).find(|&i| match (a.integer(i), b.integer(i)) {
        (Some(x), Some(y)) => x != y,
        _ => wide_bits(a, i) != wide_bits(b, i),
    })
}

/// The bits of a float in double precision. A NaN is widened bit by bit, because a conversion may quieten it.
fn wide_bits(samples: SamplesRef<'_>, at: usize) -> Option<u64> {
    match samples {
        SamplesRef::F64(v) => Some(v[at].to_bits()),
        SamplesRef::F32(v) if v[at].is_nan() => {
            let bits = u64::from(v[at].to_bits());
            Some((bits >> 31) << 63 | 0x7ff << 52 | (bits & 0x7f_ffff) << 29)
        }
        SamplesRef::F32(v) => Some(f64::from(v[at]).to_bits()),
        _ => None,
    }
}

fn shown(samples: SamplesRef<'_>, at: usize) -> String {
    match samples {
        SamplesRef::F64(v) => format!("{:e} (bits {:016x})", v[at], v[at].to_bits()),
        SamplesRef::F32(v) => format!("{:e} (bits {:08x})", v[at], v[at].to_bits()),
        other => other.integer(at).map_or_else(String::new, |v| v.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_and_not_types() {
        let same = |a: SamplesRef<'_>, b: SamplesRef<'_>| first_difference(a, b).is_none();
        assert!(same(SamplesRef::U16(&[1, 65535]), SamplesRef::U32(&[1, 65535])));
        assert!(same(SamplesRef::I8(&[1, -1]), SamplesRef::I64(&[1, -1])));
        assert_eq!(first_difference(SamplesRef::U8(&[1, 255]), SamplesRef::I8(&[1, -1])), Some(1));
        let quiet = f32::from_bits(0x7fc0_0001);
        let wide = f64::from_bits(0x7ff8_0000_2000_0000);
        let (narrow, widened) = ([0.5, quiet], [0.5, wide]);
        assert!(same(SamplesRef::F32(&narrow), SamplesRef::F64(&widened)));
        assert_eq!(first_difference(SamplesRef::F32(&[0.0]), SamplesRef::F32(&[-0.0])), Some(0));
        assert!(same(SamplesRef::F32(&narrow), SamplesRef::F32(&narrow)));
        assert_eq!(first_difference(SamplesRef::F32(&[0.1]), SamplesRef::F64(&[0.1])), Some(0));
    }
}
