//! Tags of the chosen image that are kept without interpretation: bounded, the interpreted ones first, long arrays
//! only described.

use super::images::Image;
use super::metadata::INTERPRETED;
use super::tags::Data;
use super::values::{Values, walk};
use stempack_model::Result;

/// Most tags kept of one file.
const MOST: usize = 100;

/// Texts by path, and how many there were beyond the bound.
#[derive(Default)]
pub(super) struct Retained {
    pub(super) texts: Vec<(String, String)>,
    pub(super) left_out: usize,
}

/// Everything below the image but its payload, as `dm4.<path>`.
pub(super) fn collect(values: Values<'_>, image: &Image<'_>) -> Result<Retained> {
    let prefix = values.tags.header.version.as_str().to_ascii_lowercase();
    let (mut first, mut others, mut left_out) = (Vec::new(), Vec::new(), 0usize);
    walk(image.tags, &mut Vec::new(), &mut |path, data: &Data| {
        if path == ["ImageData", "Data"] {
            return;
        }
        let interpreted = INTERPRETED.contains(&path)
            || matches!(
                path,
                ["ImageData", "Dimensions", _] | ["ImageData", "Calibrations", "Dimension", _, _]
            );
        let list = if interpreted { &mut first } else { &mut others };
        if list.len() < MOST {
            list.push((path.join("."), data.clone()));
        } else {
            left_out += 1;
        }
    });
    let room = MOST - first.len();
    left_out += others.len().saturating_sub(room);
    others.truncate(room);
    let mut texts = Vec::new();
    for (path, data) in first.iter().chain(&others) {
        texts.push((format!("{prefix}.{path}"), values.show(data)?));
    }
    texts.sort();
    Ok(Retained { texts, left_out })
}
