//! How results become files: exact `.npy` arrays, PNG pictures, float TIFF; published whole or not at all.

mod error;
pub mod npy;
pub mod output;
pub mod png;
mod scale_bar;
pub mod tiff;
pub mod unpack;

pub use error::ExportCode;
pub use npy::{NpyWriter, read_mask};
pub use output::Output;
pub use scale_bar::ScaleBar;
pub use unpack::{Unpacked, unpack_npy};
