//! Float pictures: one or more pages of 32-bit floats in a baseline TIFF.

use super::ExportCode;
use super::Output;
use crate::{Error, Result};
use tiff::encoder::{TiffEncoder, colortype::Gray32Float};
use tiff::tags::Tag;

/// Writes pages of `height × width` values rounded to 32-bit floats; the first one carries a JSON text as its description.
///
/// # Errors
/// `picture` when a page is too large for TIFF or has another number of values, `io`.
pub fn write_tiff(
    output: &mut Output,
    height: usize,
    width: usize,
    pages: &[&[f64]],
    description: &str,
) -> Result<()> {
    let place = output.destination().to_owned();
    let failed = |what: String| Error::new(ExportCode::Picture, format!("`{}`: {what}", place.display()));
    let sides = u32::try_from(width).ok().zip(u32::try_from(height).ok());
    let Some((w, h)) = sides else { return Err(failed(format!("{height}×{width} exceeds TIFF's 32 bits"))) };
    let mut encoder = TiffEncoder::new(output.as_writer()).map_err(|e| failed(e.to_string()))?;
    let refused = |e: tiff::TiffError| failed(e.to_string());
    for (index, page) in pages.iter().enumerate() {
        if page.len() != height * width {
            return Err(failed(format!("a page has {} values, expected {height}×{width}", page.len())));
        }
        let floats: Vec<f32> = page.iter().map(|&v| v as f32).collect();
        let mut image = encoder.new_image::<Gray32Float>(w, h).map_err(refused)?;
        if index == 0 {
            let text = ascii(description);
            image.encoder().write_tag(Tag::ImageDescription, text.as_str()).map_err(refused)?;
        }
        image.write_data(&floats).map_err(refused)?;
    }
    Ok(())
}

/// Texts of TIFF are ASCII, and JSON has an escape for everything else.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            text.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}
