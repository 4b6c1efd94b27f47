//! How results become files: exact `.npy` arrays, HDF5 images with their provenance, PNG pictures, float TIFF; published
//! whole or not at all.

mod error;
pub mod hdf5;
pub mod npy;
pub mod output;
pub mod png;
mod scale_bar;
pub mod tiff;
pub mod unpack;

pub use error::ExportCode;
pub use hdf5::{NamedImage, write_hdf5};
pub use npy::{NpyWriter, read_mask, read_scan_mask};
pub use output::Output;
pub use scale_bar::ScaleBar;
pub use unpack::{Unpacked, unpack_npy};
