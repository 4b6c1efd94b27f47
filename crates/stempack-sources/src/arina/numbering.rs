//! Image numbers: whether the stacks follow one another as the detector counted their frames.

use super::layout::Stack;
use crate::hdf5::{File, Value};
use stempack_model::{Result, Warning};

/// The number the detector gave to the first frame of a stack, where it is recorded.
fn first_image(stack: &Stack) -> Result<Option<u64>> {
    let file = File::open(stack.index.file())?;
    Ok(file.attribute(stack.index.object(), "image_nr_low").as_ref().and_then(Value::count))
}

/// A warning when a stack does not begin where the one before it ended: files swapped, copied or renamed.
///
/// The links decide the order, and a series may begin at any number, so only what follows is compared.
pub(super) fn broken(stacks: &[Stack]) -> Result<Option<Warning>> {
    let [first, rest @ ..] = stacks else { return Ok(None) };
    if rest.is_empty() {
        return Ok(None);
    }
    let mut due = next(first_image(first)?, first.frames);
    for stack in rest {
        let recorded = first_image(stack)?;
        if let (Some(due), Some(recorded)) = (due, recorded)
            && due != recorded
        {
            return Ok(Some(Warning {
                code: "image_numbers_broken",
                message: format!(
                    "`{}` ({}) records image_nr_low {recorded}, expected {due} after the stack before it; the frames are \
                     in the order of the stacks' names, check that no file was swapped, copied or renamed",
                    stack.index.file_name(),
                    stack.name
                ),
            }));
        }
        due = next(recorded, stack.frames);
    }
    Ok(None)
}

fn next(image: Option<u64>, frames: u64) -> Option<u64> {
    image.and_then(|n| n.checked_add(frames))
}
