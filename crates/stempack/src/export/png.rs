//! Pictures as PNG: 8-bit grey or RGB, with texts that say what the picture shows.

use super::ExportCode;
use super::Output;
use crate::{Error, Result};
use stempack_products::display::Picture;

/// Writes `picture` with pairs of keyword and text.
///
/// # Errors
/// `picture` when the encoder refuses, `io`.
pub fn write_png(output: &mut Output, picture: &Picture, texts: &[(String, String)]) -> Result<()> {
    let place = output.destination().to_owned();
    let failed = |what: String| Error::new(ExportCode::Picture, format!("`{}`: {what}", place.display()));
    let side = |n: usize| {
        u32::try_from(n).map_err(|_| failed(format!("a side of {n} pixels exceeds PNG's 32 bits")))
    };
    let mut writer = output.as_writer();
    let mut encoder = png::Encoder::new(&mut writer, side(picture.width())?, side(picture.height())?);
    encoder.set_depth(png::BitDepth::Eight);
    for (keyword, text) in texts {
        // iTXt, because steps are in Å and µm.
        encoder.add_itxt_chunk(keyword.clone(), text.clone()).map_err(|e| failed(e.to_string()))?;
    }
    let data: Vec<u8> = if picture.is_grey() {
        encoder.set_color(png::ColorType::Grayscale);
        picture.rgb().iter().map(|c| c[0]).collect()
    } else {
        encoder.set_color(png::ColorType::Rgb);
        picture.rgb().as_flattened().to_vec()
    };
    let mut stream = encoder.write_header().map_err(|e| failed(e.to_string()))?;
    stream.write_image_data(&data).map_err(|e| failed(e.to_string()))?;
    stream.finish().map_err(|e| failed(e.to_string()))
}
