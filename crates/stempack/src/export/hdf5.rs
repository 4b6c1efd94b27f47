//! Exact images in HDF5 with what is known of them: `/images/NAME`, and `/metadata`, one JSON document.

use super::{ExportCode, Output};
use crate::{Error, Result, SamplesRef};
use hdf5_metno as hdf5;
use hdf5_metno::types::VarLenUnicode;
use stempack_model::with_samples;

/// Documents of this size and beyond are refused: whoever wants to know what a file holds reads them whole.
const MAX_METADATA: usize = 16 << 20;
/// A name with its group stays below what tools take for names.
const MAX_NAME: usize = 240;

/// One array to be written.
#[derive(Clone, Copy, Debug)]
pub struct NamedImage<'a> {
    /// Lower-case letters, digits and underscores.
    pub name: &'a str,
    /// The numbers, row-major, written in their own type.
    pub values: SamplesRef<'a>,
    /// Their shape.
    pub shape: &'a [usize],
}

/// Writes images and a JSON text into an empty output.
///
/// # Errors
/// `image_name` for a name that is not allowed or is there twice; `metadata_too_large`; `invalid_destination` for an
/// array that is not of its shape; `hdf5_write`.
pub fn write_hdf5(output: &mut Output, images: &[NamedImage<'_>], metadata: &str) -> Result<()> {
    let place = output.destination().display().to_string();
    check(images, metadata).map_err(|e| e.at(format_args!("`{place}`")))?;
    write(output, images, metadata)
        .map_err(|e| Error::new(ExportCode::Hdf5Write, format!("`{place}`: {e}")).with("path", place.clone()))
}

fn check(images: &[NamedImage<'_>], metadata: &str) -> Result<()> {
    for (index, image) in images.iter().enumerate() {
        let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let name = image.name;
        if name.is_empty() || name.len() >= MAX_NAME || !name.bytes().all(allowed) {
            let message =
                format!("`{name}` is no name of an image: expected a-z, 0-9 and _, below {MAX_NAME} of them");
            return Err(Error::new(ExportCode::ImageName, message));
        }
        if images[..index].iter().any(|other| other.name == name) {
            return Err(Error::new(ExportCode::ImageName, format!("two images are called `{name}`")));
        }
        let elements = image.shape.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
        if elements != Some(image.values.len()) {
            let message =
                format!("image `{name}` has {} values, its shape is {:?}", image.values.len(), image.shape);
            return Err(Error::new(ExportCode::InvalidDestination, message));
        }
    }
    if metadata.len() >= MAX_METADATA {
        let message =
            format!("the metadata have {} bytes, expected less than {MAX_METADATA}", metadata.len());
        return Err(Error::new(ExportCode::MetadataTooLarge, message));
    }
    Ok(())
}

fn write(output: &Output, images: &[NamedImage<'_>], metadata: &str) -> hdf5::Result<()> {
    // Without object times the same result gives the same bytes. The draft is locked by us: the library must not mind.
    let file = hdf5::File::with_options()
        .with_fcpl(|p| p.obj_track_times(false))
        .with_fapl(|p| p.file_locking(false))
        .create(output.draft_path())?;
    file.create_group_builder().obj_track_times(false).create("images")?;
    for image in images {
        let builder = file.new_dataset_builder().no_chunk().obj_track_times(false);
        let path = format!("images/{}", image.name);
        with_samples!(SamplesRef, image.values, v => {
            builder.empty_as_of(v).shape(image.shape).create(path.as_str())?.write_raw(v)?;
        });
    }
    let text: VarLenUnicode =
        metadata.parse().map_err(|e| hdf5::Error::from(format!("the metadata are no HDF5 string: {e}")))?;
    let builder = file.new_dataset_builder().obj_track_times(false);
    builder.empty::<VarLenUnicode>().create("metadata")?.write_scalar(&text)?;
    file.flush()?;
    file.close()
}

/// An empty dataset of the type of a slice.
trait EmptyAs {
    fn empty_as_of<T: hdf5::H5Type>(self, like: &[T]) -> hdf5::DatasetBuilderEmpty;
}
impl EmptyAs for hdf5::DatasetBuilder {
    fn empty_as_of<T: hdf5::H5Type>(self, _: &[T]) -> hdf5::DatasetBuilderEmpty {
        self.empty::<T>()
    }
}
