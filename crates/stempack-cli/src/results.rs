//! How a product becomes the file that was asked for: `.npy` and `.h5` exact, `.png` a picture, `.tif` 32-bit floats.

use crate::CliCode;
use crate::args::{Look, Map, Out};
use crate::commands::SOFTWARE;
use serde_json::{Map as Object, Value, json};
use std::path::Path;
use stempack::display::{ColourMap, Contrast, Picture};
use stempack::export::{
    NamedImage, NpyWriter, Output, ScaleBar, png::write_png, tiff::write_tiff, write_hdf5,
};
use stempack::{Error, Result, SamplesRef, Total};

/// The formats an extension may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Npy,
    Hdf5,
    Png,
    Tiff,
}

/// A destination that was found free and writable before any work began.
pub(crate) struct Target {
    format: Format,
    output: Output,
    /// What is known of the result, beside it.
    provenance: Option<Output>,
    replace: bool,
}

/// Numbers that are to be written.
#[derive(Clone, Copy)]
pub(crate) struct Made<'a> {
    /// All of them.
    pub(crate) array: SamplesRef<'a>,
    /// Shape of the array; its last two sizes are those of every page.
    pub(crate) shape: &'a [usize],
    /// Names of the images that the array consists of: the whole, or one for each index of its first axis.
    pub(crate) names: &'a [&'a str],
}

impl<'a> Made<'a> {
    fn images(&self) -> Vec<NamedImage<'a>> {
        let (array, names) = (self.array, self.names);
        if let [name] = names {
            return vec![NamedImage { name, values: array, shape: self.shape }];
        }
        let size = array.len() / names.len().max(1);
        let shape = self.shape.get(1..).unwrap_or_default();
        let plane = |(i, name): (usize, &&'a str)| NamedImage {
            name,
            values: array.slice(i * size..(i + 1) * size),
            shape,
        };
        names.iter().enumerate().map(plane).collect()
    }

    /// `stempack.images/1`.
    fn metadata(&self, schema: &str, facts: &Object<String, Value>) -> String {
        let mut images = Object::new();
        for image in self.images() {
            let about = json!({ "shape": image.shape, "dtype": image.values.sample_type().as_str() });
            images.insert(image.name.to_owned(), about);
        }
        let mut result = Object::new();
        result.insert("schema".into(), schema.into());
        let shared = |key: &str| matches!(key, "software" | "source");
        result.extend(facts.iter().filter(|(k, _)| !shared(k)).map(|(k, v)| (k.clone(), v.clone())));
        let mut document = Object::new();
        document.insert("schema".into(), "stempack.images/1".into());
        document.insert("images".into(), Value::Object(images));
        document.insert("result".into(), Value::Object(result));
        document.extend(facts.iter().filter(|(k, _)| shared(k)).map(|(k, v)| (k.clone(), v.clone())));
        Value::Object(document).to_string()
    }
}

/// A picture with what is written beside it.
pub(crate) struct Shown {
    /// The picture before enlargement.
    pub(crate) picture: Picture,
    /// What darkest and brightest mean.
    pub(crate) contrast: Option<Contrast>,
    /// Distance of neighbouring columns, when it is known.
    pub(crate) scale: Option<ScaleBar>,
    /// What the picture shows.
    pub(crate) description: String,
}

impl Target {
    /// Checks extension and destination.
    pub(crate) fn new(out: &Out) -> Result<Self> {
        let extension = out.output.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let format = match extension.as_deref() {
            Some("npy") => Format::Npy,
            Some("h5" | "hdf5") => Format::Hdf5,
            Some("png") => Format::Png,
            Some("tif" | "tiff") => Format::Tiff,
            _ => {
                return Err(Error::new(
                    CliCode::OutputFormat,
                    format!("`{}` names no output format", out.output.display()),
                )
                .with("path", out.output.display().to_string())
                .hint(
                    "end the name in .npy or .h5 (exact numbers), .png (a picture) or .tif (32-bit floats)",
                ));
            }
        };
        let output = Output::create(&out.output, out.force)?;
        let beside = || {
            let mut name = out.output.clone().into_os_string();
            name.push(".json");
            Output::create(Path::new(&name), out.force)
        };
        let provenance = out.provenance.then(beside).transpose()?;
        Ok(Target { format, output, provenance, replace: out.force })
    }

    /// The files that will be written.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.output).chain(&self.provenance).map(Output::destination)
    }

    /// Whether the file will be a picture, which shows one page.
    pub(crate) fn is_picture(&self) -> bool {
        self.format == Format::Png
    }

    /// Writes the array, a picture of it, or floats; returns what JSON says of the file. `facts` are what the result of
    /// `schema` says of its numbers; files that have a place for it carry it.
    pub(crate) fn write(
        self,
        made: &Made<'_>,
        schema: &str,
        facts: &Object<String, Value>,
        show: impl FnOnce() -> Shown,
    ) -> Result<Object<String, Value>> {
        let about = made.metadata(schema, facts);
        let Target { format, output, provenance, replace } = self;
        // First, so that a result never stands without it.
        let mut beside = None;
        if let Some(mut provenance) = provenance {
            provenance.write(about.as_bytes())?;
            provenance.write(b"\n")?;
            let path = provenance.destination().to_owned();
            provenance.publish()?;
            beside = Some(path);
        }
        match write_result(format, output, made, about, show) {
            Ok(mut said) => {
                if let Some(path) = beside {
                    said.insert("provenance".into(), path.display().to_string().into());
                }
                Ok(said)
            }
            Err(error) => {
                // One that replaced another cannot be taken back; the error is what has to be heard of.
                if let Some(path) = beside.filter(|_| !replace) {
                    let _ = std::fs::remove_file(path);
                }
                Err(error)
            }
        }
    }
}

/// Writes and publishes the file itself.
fn write_result(
    format: Format,
    mut output: Output,
    made: &Made<'_>,
    metadata: String,
    show: impl FnOnce() -> Shown,
) -> Result<Object<String, Value>> {
    let mut said = Object::new();
    let (array, shape) = (made.array, made.shape);
    said.insert("output".into(), output.destination().display().to_string().into());
    said.insert("shape".into(), json!(shape));
    said.insert("dtype".into(), array.sample_type().as_str().into());
    match format {
        Format::Npy => {
            let sizes: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
            let mut writer = NpyWriter::new(output, array.sample_type(), &sizes)?;
            writer.write(array)?;
            writer.publish()?;
        }
        Format::Hdf5 => {
            write_hdf5(&mut output, &made.images(), &metadata)?;
            output.publish()?;
        }
        Format::Tiff => {
            let values = array.to_f64();
            let (height, width) = page(shape);
            let pages: Vec<&[f64]> = values.chunks(height * width).collect();
            write_tiff(&mut output, height, width, &pages, &metadata)?;
            output.publish()?;
            said.insert("file_dtype".into(), "float32".into());
        }
        Format::Png => {
            let shown = show();
            let mut picture = shown.picture.enlarge_small();
            let mut about = Object::new();
            if let Some(contrast) = shown.contrast {
                about.insert("low".into(), contrast.low.into());
                about.insert("high".into(), contrast.high.into());
            }
            about.insert("enlarged".into(), picture.enlarged().into());
            if let Some(label) = shown.scale.and_then(|s| s.draw(&mut picture)) {
                about.insert("scale_bar".into(), label.into());
            }
            let texts = [
                ("Title".to_owned(), shown.description),
                ("Software".to_owned(), SOFTWARE.to_owned()),
                ("Metadata".to_owned(), metadata),
            ];
            write_png(&mut output, &picture, &texts)?;
            output.publish()?;
            said.insert("picture".into(), Value::Object(about));
        }
    }
    Ok(said)
}

/// Height and width of one page.
fn page(shape: &[usize]) -> (usize, usize) {
    match shape {
        [.., height, width] => (*height, *width),
        [width] => (1, *width),
        [] => (1, 1),
    }
}

/// A picture of values with the look that was asked for; `counted` are the values that set the contrast.
pub(crate) fn picture(
    (height, width): (usize, usize),
    values: &[f64],
    counted: impl Iterator<Item = f64>,
    look: &Look,
    usual: ColourMap,
) -> (Picture, Option<Contrast>) {
    let [low, high] = look.contrast.0;
    let contrast = Contrast::percentiles(counted, low, high);
    let map = look.map.map_or(usual, colour_map);
    let shown = contrast.unwrap_or(Contrast { low: 0.0, high: 0.0 });
    (Picture::of_values(height, width, values, shown, map), contrast)
}

fn colour_map(map: Map) -> ColourMap {
    match map {
        Map::Grey => ColourMap::Grey,
        Map::Viridis => ColourMap::Viridis,
        Map::Inferno => ColourMap::Inferno,
        Map::Magma => ColourMap::Magma,
        Map::Plasma => ColourMap::Plasma,
        Map::Cividis => ColourMap::Cividis,
    }
}

/// A sum as a JSON number; as text where JSON or its readers have no number for it: integers beyond 64 bits, and floats
/// that are not finite (`NaN`, `Infinity`, `-Infinity`).
pub(crate) fn sum_value(sum: Total) -> Value {
    match sum {
        Total::Integer(sum) => u64::try_from(sum)
            .map(Value::from)
            .or_else(|_| i64::try_from(sum).map(Value::from))
            .unwrap_or_else(|_| sum.to_string().into()),
        Total::Float(sum) if sum.is_finite() => sum.into(),
        Total::Float(sum) if sum.is_nan() => "NaN".into(),
        Total::Float(sum) => if sum > 0.0 { "Infinity" } else { "-Infinity" }.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_numbers_where_there_are_some() {
        let of = |sum: i128| sum_value(Total::Integer(sum)).to_string();
        assert_eq!(of(u64::MAX.into()), "18446744073709551615");
        assert_eq!(of(i128::from(u64::MAX) + 1), "\"18446744073709551616\"");
        assert_eq!(of(i64::MIN.into()), "-9223372036854775808");
        assert_eq!(of(i128::from(i64::MIN) - 1), "\"-9223372036854775809\"");
        let of = |sum: f64| sum_value(Total::Float(sum)).to_string();
        assert_eq!(
            [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(of),
            ["1.5", "\"NaN\"", "\"Infinity\"", "\"-Infinity\""]
        );
    }
}
