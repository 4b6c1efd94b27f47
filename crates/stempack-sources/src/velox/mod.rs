//! Velox EMD files: the scalar images in them, and what such a file lends to an acquisition beside it.
//!
//! An image has one number for each scan position. It is described like an acquisition with a detector of one pixel,
//! with exact counts and calibration, but it is no 4-D acquisition: frames are not read from it.

mod document;
mod image;
mod sibling;

pub use image::{ScalarImage, is_scalar_image, scalar_image};
pub(crate) use sibling::{STEP_QUANTITIES, sibling, steps};

use crate::hdf5::{self, File, Found, Link};
use crate::registry::{Entry, Format, Probe};
use std::path::Path;
use stempack_model::Result;

/// The line of the registry.
pub(crate) const FORMAT: Format = Format {
    name: "velox",
    looks_for: "a Velox scalar image (HDF5 with `Data` and `Metadata` below `/Data/Image`)",
    is_entry: |name| Entry::certain(name.to_ascii_lowercase().ends_with(".emd")),
    probe,
    open: image::open,
};

/// Where a Velox file keeps its images.
const IMAGES: &str = "/Data/Image";
/// Most images looked at in one file.
const MAX_IMAGES: usize = 64;

/// Names of the images that have samples and a document, in name order.
fn images(file: &File) -> Result<Vec<String>> {
    let Found::Group(group) = file.find(IMAGES)? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for (name, link) in file.links(&group)?.into_iter().take(MAX_IMAGES) {
        if link != Link::Hard {
            continue;
        }
        if let Found::Group(image) = file.child(&group, &name)?
            && ["Data", "Metadata"]
                .iter()
                .all(|part| matches!(file.child(&image, part), Ok(Found::Dataset(_))))
        {
            names.push(name);
        }
    }
    Ok(names)
}

fn probe(path: &Path) -> Result<Probe> {
    if !hdf5::has_signature(path)? {
        return Ok(Probe::No("it is no HDF5 file".to_owned()));
    }
    let images = images(&File::open(path)?)?;
    Ok(match images.first() {
        Some(first) => {
            Probe::Yes { score: 80, why: format!("an image `{IMAGES}/{first}` with its metadata") }
        }
        None => Probe::No(format!("no image with `Data` and `Metadata` below `{IMAGES}`")),
    })
}
