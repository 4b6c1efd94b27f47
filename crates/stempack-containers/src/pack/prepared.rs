//! Results that a producer may put beside the shards: moments of every frame and images of three detectors.
//!
//! They are never used, because the same numbers are made from the shards. But a file that carries them says something
//! about itself, so what is said must fit the rest, and `verify` compares every number.

use super::decoder::FrameDecoder;
use super::index::Index;
use super::manifest::{Manifest, WorkingType};
use super::open::PackFile;
use crate::json::{Keys, Object};
use crate::{ContainerCode, Digest};
use serde_json::Value;
use stempack_codecs::pack_u8::NibbleWidths;
use stempack_codecs::shard::Profile;
use stempack_model::{Error, ModelCode, Result, SampleType, Samples, Task};

const LAYOUT: [&str; 8] =
    ["total_lo", "total_hi", "row_lo", "row_hi", "column_lo", "column_hi", "padding_0", "padding_1"];
/// Names of the images, with their inner and outer radii in units of the bright-field radius.
const IMAGES: [(&str, f64, f64); 3] = [("bf", 0.0, 1.0), ("abf", 0.5, 1.0), ("adf", 1.0, 2.0)];
const MOMENT_BYTES: u64 = 32;

/// Bytes of the file that the manifest describes and authenticates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) what: &'static str,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    sha256: Digest,
}

#[derive(Clone, Copy, Debug)]
struct Image {
    name: &'static str,
    mask: Stored,
    values: Stored,
    selected: u64,
}

/// What a manifest says of prepared results.
#[derive(Clone, Debug, Default)]
pub(super) struct Prepared {
    moments: Option<Stored>,
    images: Vec<Image>,
}

fn fault(why: String) -> Error {
    Error::new(ContainerCode::Prepared, why)
}

fn section<'a>(object: &'a Object, key: &str) -> Result<Option<&'a Object>> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(section)) => Ok(Some(section)),
        Some(other) => Err(fault(format!(
            "manifest key `{key}` is {}, expected an object",
            crate::json::type_name(other)
        ))),
    }
}

/// Equal to what the manifest or the index says elsewhere.
fn same<T: PartialEq + std::fmt::Display>(keys: &Keys<'_>, key: &str, found: T, expected: T) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::new(
        ContainerCode::Disagreement,
        format!("manifest key `{}{key}` is {found}, expected {expected}", keys.prefix),
    ))
}

fn same_digest(keys: &Keys<'_>, key: &str, expected: Option<Digest>) -> Result<()> {
    let found = keys.digest(key)?;
    expected.map_or(Ok(()), |expected| same(keys, key, found, expected))
}

fn same_texts(keys: &Keys<'_>, key: &str, expected: &[&str]) -> Result<()> {
    let list = keys.list(key)?;
    if list.iter().map(Value::as_str).eq(expected.iter().copied().map(Some)) {
        return Ok(());
    }
    Err(fault(format!("manifest key `{}{key}` is not {expected:?}", keys.prefix)))
}

fn stored(keys: &Keys<'_>, what: &'static str, names: [&str; 3], bytes: u64) -> Result<Stored> {
    let [offset, size, digest] = names;
    keys.exactly_u64(size, bytes, ContainerCode::Disagreement)?;
    Ok(Stored { what, offset: keys.u64(offset)?, bytes, sha256: keys.digest(digest)? })
}

impl Prepared {
    /// Validates what the manifest says against the rest of it.
    ///
    /// # Errors
    /// `prepared_results`, `manifest_key`, `manifest_value`, `index_manifest_disagree`.
    pub(super) fn parse(manifest: &Manifest, index: &Index) -> Result<Self> {
        // What the experimental header encoding carries is written down nowhere.
        if index.nibbles != NibbleWidths::Literal {
            return Ok(Prepared::default());
        }
        let object = &manifest.object;
        let moments = match section(object, "prepared_dpc_moments")? {
            Some(section) => Some(moments(section, manifest, index)?),
            None => None,
        };
        let images = match section(object, "prepared_detector_products")? {
            Some(section) if index.profile == Profile::U8 => images(section, manifest, index)?,
            _ => Vec::new(),
        };
        Ok(Prepared { moments, images })
    }

    /// Every range that the manifest names.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &Stored> {
        self.moments.iter().chain(self.images.iter().flat_map(|image| [&image.mask, &image.values]))
    }
}

/// Keys that both kinds share: which file they belong to.
fn belongs(keys: &Keys<'_>, manifest: &Manifest, index: &Index) -> Result<()> {
    if keys.get("source_identity_sha256").is_some() {
        same_digest(keys, "source_identity_sha256", Some(index.source_identity))?;
    }
    same_digest(keys, "detector_mask_sha256", manifest.detector_mask_sha256)?;
    let working = match index.profile {
        Profile::U8 => "working_uint8_sha256",
        Profile::U16 => "working_logical_sha256",
    };
    same_digest(keys, working, manifest.working_sha256)
}

fn moments(section: &Object, manifest: &Manifest, index: &Index) -> Result<Stored> {
    let keys = Keys { object: section, prefix: "prepared_dpc_moments." };
    let most: u128 = match index.profile {
        Profile::U8 => {
            keys.exactly("schema", "quantem.gpu.prepared-dpc-moments/v1")?;
            255
        }
        Profile::U16 => {
            keys.exactly("schema", "quantem.gpu.prepared-dpc-moments/v2")?;
            keys.exactly("working_dtype", "uint16")?;
            keys.exactly_u64("maximum_value", 65535, ContainerCode::ManifestValue)?;
            if manifest.working != WorkingType::U16 {
                return Err(fault("moments of 16-bit counts in a file labelled uint8".into()));
            }
            65535
        }
    };
    belongs(&keys, manifest, index)?;
    keys.exactly("detector_selection", "all-nonexcluded-v1")?;
    keys.exactly("dtype", "little-endian-u32")?;
    keys.exactly("word_order", "little-endian-u32-pairs")?;
    same_texts(&keys, "layout", &LAYOUT)?;
    let (scans, detector) = (index.shape.scan.positions() as u64, index.shape.detector);
    let admitted = (detector.pixels() - index.excluded.len()) as u64;
    for (key, expected) in [
        ("words_per_scan", 8),
        ("scan_count", scans),
        ("selected_detector_pixels", admitted),
        ("detector_columns", detector.cols() as u64),
    ] {
        keys.exactly_u64(key, expected, ContainerCode::Disagreement)?;
    }
    let [total, row, col] = coordinate_sums(index).map(|sum| most * sum);
    for (key, bound) in [("total_bound", total), ("row_moment_bound", row), ("column_moment_bound", col)] {
        same(&keys, key, keys.string(key)?.to_owned(), bound.to_string())?;
    }
    let narrow = u128::from(u32::MAX);
    same(&keys, "narrow_integer", keys.boolean("narrow_integer")?, total <= narrow)?;
    same(&keys, "narrow_products", keys.boolean("narrow_products")?, row.max(col) <= narrow)?;
    let bytes = MOMENT_BYTES
        .checked_mul(scans)
        .ok_or_else(|| fault(format!("moments of {scans} scan positions do not fit any file")))?;
    let range = stored(&keys, "prepared moments", ["file_offset", "file_bytes", "sha256"], bytes)?;
    if !range.offset.is_multiple_of(4) {
        return Err(fault(format!("prepared moments at {}, expected a multiple of 4", range.offset)));
    }
    Ok(range)
}

/// How many admitted pixels there are, and the sums of their rows and columns.
fn coordinate_sums(index: &Index) -> [u128; 3] {
    let (rows, cols) = (index.shape.detector.rows() as u128, index.shape.detector.cols() as u128);
    let mut sums = [rows * cols, rows * (rows - 1) / 2 * cols, cols * (cols - 1) / 2 * rows];
    for &pixel in &index.excluded {
        let pixel = u128::from(pixel);
        for (sum, less) in sums.iter_mut().zip([1, pixel / cols, pixel % cols]) {
            *sum -= less;
        }
    }
    sums
}

fn images(section: &Object, manifest: &Manifest, index: &Index) -> Result<Vec<Image>> {
    let keys = Keys { object: section, prefix: "prepared_detector_products." };
    keys.exactly("schema", "quantem.gpu.prepared-detector-products/v1")?;
    let Some(calibration) = &manifest.calibration else {
        return Err(fault("prepared detector images without a detector calibration".into()));
    };
    belongs(&keys, manifest, index)?;
    keys.exactly("detector_calibration_digest_encoding", "canonical-json-numbers-as-f64be-hex/v1")?;
    let recorded = manifest.object.get("detector_calibration").map(canonical);
    same_digest(&keys, "detector_calibration_sha256", recorded.map(|text| Digest::of(text.as_bytes())))?;
    keys.exactly("product_dtype", "little-endian-u32")?;
    keys.exactly("mask_dtype", "uint8-binary-row-major")?;
    keys.exactly("mask_rule", "quantem.gpu.detector-mask-inclusive/v1")?;
    same_texts(&keys, "product_order", &IMAGES.map(|(name, ..)| name))?;
    let dims = index.shape.dims().map(|d| d as u64);
    for (key, expected) in [("scan_shape", &dims[..2]), ("detector_shape", &dims[2..])] {
        let found = keys.integers(key, u64::from(u32::MAX))?;
        if found != expected {
            let message = format!("manifest key `{}{key}` is {found:?}, expected {expected:?}", keys.prefix);
            return Err(Error::new(ContainerCode::Disagreement, message));
        }
    }
    let list = keys.list("products")?;
    if list.len() != IMAGES.len() {
        return Err(fault(format!("{} prepared detector images, expected {}", list.len(), IMAGES.len())));
    }
    let (pixels, scans) = (index.shape.detector.pixels() as u64, index.shape.scan.positions() as u64);
    let one = |(value, (name, inner, outer)): (&Value, (&'static str, f64, f64))| {
        let object =
            value.as_object().ok_or_else(|| fault("a prepared detector image is no object".into()))?;
        let keys = Keys { object, prefix: "prepared_detector_products.products[]." };
        keys.exactly("name", name)?;
        let centre: Vec<_> = keys.list("center_px")?.iter().map(Value::as_f64).collect();
        if centre != calibration.centre_px.map(Some) {
            return Err(fault(format!("prepared image `{name}` has another centre than the calibration")));
        }
        let radius = calibration.bright_field_radius_px;
        same(&keys, "inner_radius_px", keys.f64("inner_radius_px")?, inner * radius)?;
        same(&keys, "outer_radius_px", keys.f64("outer_radius_px")?, outer * radius)?;
        let mask = ["mask_file_offset", "mask_file_bytes", "mask_sha256"];
        let values = ["values_file_offset", "values_file_bytes", "values_sha256"];
        Ok(Image {
            name,
            mask: stored(&keys, "prepared mask", mask, pixels)?,
            values: stored(&keys, "prepared image", values, scans.saturating_mul(4))?,
            selected: keys.u64("selected_detector_pixels")?,
        })
    };
    list.iter().zip(IMAGES).map(one).collect()
}

/// JSON with sorted keys, without spaces, in ASCII, every number as the bits of its double.
fn canonical(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => {
            format!("\"f64be:{}\"", hex::encode(n.as_f64().unwrap_or(f64::NAN).to_be_bytes()))
        }
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Object(object) => {
            let mut pairs: Vec<_> = object.iter().collect();
            pairs.sort_by(|a, b| a.0.cmp(b.0));
            let pair = |(k, v): (&String, &Value)| format!("{}:{}", quoted(k), canonical(v));
            format!("{{{}}}", pairs.into_iter().map(pair).collect::<Vec<_>>().join(","))
        }
    }
}

fn quoted(text: &str) -> String {
    let plain = Value::String(text.to_owned()).to_string();
    let mut out = String::with_capacity(plain.len());
    for c in plain.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

impl PackFile {
    /// Compares every prepared number with the shards. `None` when there are none, else what is wrong.
    ///
    /// # Errors
    /// Those of [`PackFile::load_shard`]; `over_budget`; `cancelled`.
    pub(super) fn check_prepared(&self, task: &Task) -> Result<Option<Result<(), String>>> {
        let prepared = &self.prepared;
        if prepared.ranges().next().is_none() {
            return Ok(None);
        }
        let bytes: u64 = prepared.ranges().map(|range| range.bytes).sum();
        if self.room_beside_a_shard(task)? < bytes {
            return Err(Error::new(
                ModelCode::OverBudget,
                format!("prepared results take {bytes} bytes of memory beside a shard, more than the budget"),
            ));
        }
        let mut read = Vec::new();
        for range in prepared.ranges() {
            let mut bytes = vec![0; range.bytes as usize];
            self.read(range.offset, &mut bytes)?;
            let found = Digest::of(&bytes);
            if found != range.sha256 {
                let wrong = format!("{} hash to {found}, the manifest says {}", range.what, range.sha256);
                return Ok(Some(Err(wrong)));
            }
            read.push(bytes);
        }
        let (moments, images) = read.split_at(usize::from(prepared.moments.is_some()));
        let images: Vec<_> = images.chunks_exact(2).zip(&prepared.images).collect();
        for (bytes, image) in &images {
            if let Some(wrong) = self.wrong_mask(&bytes[0], image) {
                return Ok(Some(Err(wrong)));
            }
        }
        self.compare_prepared(moments.first(), &images, task).map(Some)
    }

    fn wrong_mask(&self, mask: &[u8], image: &Image) -> Option<String> {
        let name = image.name;
        if mask.iter().any(|&m| m > 1) {
            return Some(format!("the prepared mask of `{name}` is not made of 0 and 1"));
        }
        if let Some(pixel) = self.index.excluded.iter().find(|&&p| mask[p as usize] != 0) {
            return Some(format!("the prepared mask of `{name}` selects the excluded pixel {pixel}"));
        }
        let selected = mask.iter().map(|&m| u64::from(m)).sum::<u64>();
        (selected != image.selected).then(|| {
            format!("the prepared mask of `{name}` selects {selected} pixels, stated are {}", image.selected)
        })
    }

    fn compare_prepared(
        &self,
        moments: Option<&Vec<u8>>,
        images: &[(&[Vec<u8>], &Image)],
        task: &Task,
    ) -> Result<Result<(), String>> {
        let (pixels, cols) = (self.index.shape.detector.pixels(), self.index.shape.detector.cols());
        let decoder = FrameDecoder::working(SampleType::U16, self.index.excluded.clone());
        let mut frame = Samples::zeroed(SampleType::U16, pixels);
        let per_shard = self.scans_per_shard();
        for ordinal in 0..self.shards().len() {
            let loaded = self.load_shard(ordinal)?;
            for scan in 0..per_shard {
                task.check()?;
                decoder.decode(&loaded.shard, scan, frame.as_mut());
                let Samples::U16(counts) = &frame else { continue };
                let position = ordinal * per_shard + scan;
                if let Some(bytes) = moments {
                    let mut sums = [0u64; 3];
                    for (pixel, &count) in counts.iter().enumerate() {
                        let (row, col, count) =
                            ((pixel / cols) as u64, (pixel % cols) as u64, u64::from(count));
                        sums = [sums[0] + count, sums[1] + row * count, sums[2] + col * count];
                    }
                    let expected = [sums[0], sums[1], sums[2], 0];
                    let found = bytes[32 * position..32 * (position + 1)].chunks_exact(8);
                    if !found.eq(expected.iter().map(|sum| sum.to_le_bytes())) {
                        return Ok(Err(format!(
                            "prepared moments of scan position {position} are not {sums:?}"
                        )));
                    }
                }
                for (bytes, image) in images {
                    let members = counts.iter().zip(&bytes[0]).filter(|(_, m)| **m == 1);
                    let sum: u64 = members.map(|(&count, _)| u64::from(count)).sum();
                    let found = &bytes[1][4 * position..4 * (position + 1)];
                    if u32::try_from(sum).map(u32::to_le_bytes).ok().as_ref().map(|b| &b[..]) != Some(found) {
                        let name = image.name;
                        return Ok(Err(format!(
                            "prepared image `{name}` is not {sum} at scan position {position}"
                        )));
                    }
                }
            }
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn canonical_json_is_ascii_with_the_bits_of_numbers() {
        let value = json!({ "b": [1, true, null], "a\u{e9}": "\u{1f600}\n\u{7f}" });
        assert_eq!(
            canonical(&value),
            "{\"a\\u00e9\":\"\\ud83d\\ude00\\n\u{7f}\",\"b\":[\"f64be:3ff0000000000000\",true,null]}"
        );
    }
}
