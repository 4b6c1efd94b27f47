//! Float pictures: one or more pages of 32-bit floats in a baseline TIFF.

use super::ExportCode;
use super::Output;
use crate::{Error, Result};
use tiff::encoder::{TiffEncoder, colortype::Gray32Float};

/// Writes pages of `height × width` values rounded to 32-bit floats.
///
/// # Errors
/// `picture` when a page is too large for TIFF or has another number of values, `io`.
pub fn write_tiff(output: &mut Output, height: usize, width: usize, pages: &[&[f64]]) -> Result<()> {
    let place = output.destination().to_owned();
    let failed = |what: String| Error::new(ExportCode::Picture, format!("`{}`: {what}", place.display()));
    let sides = u32::try_from(width).ok().zip(u32::try_from(height).ok());
    let Some((w, h)) = sides else { return Err(failed(format!("{height}×{width} exceeds TIFF's 32 bits"))) };
    let mut encoder = TiffEncoder::new(output.as_writer()).map_err(|e| failed(e.to_string()))?;
    for page in pages {
        if page.len() != height * width {
            return Err(failed(format!("a page has {} values, expected {height}×{width}", page.len())));
        }
        let floats: Vec<f32> = page.iter().map(|&v| v as f32).collect();
        encoder.write_image::<Gray32Float>(w, h, &floats).map_err(|e| failed(e.to_string()))?;
    }
    Ok(())
}
