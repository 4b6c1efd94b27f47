//! What every reader checks before it fills a buffer.

use crate::error::SourceCode;
use std::ops::Range;
use stempack_model::{Acquisition, Error, ModelCode, Result, SamplesMut};

/// The frames that a buffer asks for.
///
/// # Errors
/// `wrong_buffer` for another sample type or a part of a frame, `out_of_range` for frames that do not exist.
pub(crate) fn frames(acquisition: &Acquisition, first: u64, into: &SamplesMut<'_>) -> Result<Range<u64>> {
    let wanted = acquisition.sample;
    if into.sample_type() != wanted {
        return Err(Error::new(
            SourceCode::WrongBuffer,
            format!("a buffer of {} for frames of {wanted}", into.sample_type()),
        ));
    }
    let pixels = acquisition.detector.pixels();
    if !into.len().is_multiple_of(pixels) {
        return Err(Error::new(
            SourceCode::WrongBuffer,
            format!("a buffer of {} samples for frames of {pixels}", into.len()),
        ));
    }
    let (count, total) = ((into.len() / pixels) as u64, acquisition.frame_count);
    let end = first.checked_add(count).filter(|&end| end <= total).ok_or_else(|| {
        Error::new(
            ModelCode::OutOfRange,
            format!("frame {first} and {count} in all are asked for, there are {total}"),
        )
        .with("frame_index", first)
    })?;
    Ok(first..end)
}
