//! What the header says: codec, shape, stored type, mask, checksums and scientific metadata, each checked.

use super::envelope::Envelope;
use super::layout::{Layout, LayoutInput};
use super::scientific::{self, Scientific};
use super::values::{At, shortened};
use super::{QemCodec, processing};
use crate::json::Object;
use crate::{ContainerCode, Digest};
use serde_json::Value;
use stempack_model::{DetectorShape, Error, Result, SampleType, ScanShape, Shape4};

/// One checksum covers this many bytes of the body.
pub(super) const BLOCK_BYTES: u64 = 64 << 20;
/// No axis reaches this.
pub(super) const AXIS_LIMIT: u64 = 1 << 24;

/// A header that keeps to the format.
pub(super) struct Header {
    pub(super) object: Object,
    pub(super) legacy: bool,
    pub(super) codec: QemCodec,
    pub(super) shape: Shape4,
    /// Type of the stored samples; codes for the scaled codec.
    pub(super) stored: SampleType,
    pub(super) scientific: Scientific,
    /// One flag for every detector pixel; `None` for codecs without a mask.
    pub(super) valid: Option<Vec<bool>>,
    pub(super) body_start: u64,
    pub(super) body_bytes: u64,
    pub(super) checksums: Vec<Digest>,
    pub(super) logical_sha256: Option<Digest>,
    pub(super) layout: Layout,
    pub(super) regions: Vec<Region>,
}

/// Frames that share one intensity scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Region {
    pub(super) first: u64,
    pub(super) stop: u64,
    pub(super) scale: f64,
    pub(super) offset: f64,
}

impl Header {
    /// Steps 5 to 16 of the documented order, without the body's digests.
    pub(super) fn parse(envelope: Envelope, file_bytes: u64) -> Result<Self> {
        let Envelope { legacy, body_start, header: object } = envelope;
        let at = At::header();
        let key = |name: &str| (at.key(name), object.get(name));
        let dims = if legacy {
            refuse_mixture(&object)?;
            None
        } else {
            let (at, value) = key("scientific_metadata");
            at.object(value)?;
            identify(&object)?;
            Some(shape_dims(&object)?)
        };
        let scientific = match object.get("scientific_metadata").and_then(Value::as_object) {
            Some(section) => scientific::validate(section, dims)?,
            None => Scientific::default(),
        };
        let private = object.get("metadata").map(|m| at.key("metadata").object(Some(m))).transpose()?;
        let codec_key = if legacy { "profile" } else { "codec" };
        let codec = QemCodec::named(at.key(codec_key).text(object.get(codec_key))?);
        if let (Some(codec), Some(section)) =
            (codec, object.get("scientific_metadata").and_then(Value::as_object))
        {
            let (at, value) = key("dtype");
            let stored = SampleType::named(at.text(value)?);
            // Codes have a type of their own, which says nothing about the measurements'.
            processing::cross_check(section, private, stored.filter(|_| codec != QemCodec::Scaled))?;
        }
        let dims = shape_dims(&object)?;
        let shape = Shape4 {
            scan: ScanShape::new(dims[0], dims[1])?,
            detector: DetectorShape::new(dims[2], dims[3])?,
        };
        let codec = codec.ok_or_else(|| unknown_codec(&object, codec_key))?;
        if legacy && codec != QemCodec::Columns {
            return Err(unknown_codec(&object, codec_key));
        }
        let (body_bytes, checksums) = body(&object, body_start, file_bytes)?;

        let (here, value) = key("version");
        match here.integer(value)? {
            1 => {}
            other => return Err(newer(format!("codec version {other} is not known"))),
        }
        if matches!(codec, QemCodec::Columns | QemCodec::Scaled) {
            let (here, value) = key("interval");
            here.exactly(value, super::INTERVAL as u64)?;
        }
        let stored = stored_type(&object, codec)?;
        let valid = match codec {
            QemCodec::Columns => Some(mask(&object, shape.detector.pixels())?),
            _ => None,
        };
        if codec == QemCodec::Columns {
            let (here, value) = key("metadata");
            here.object(value)?;
        }
        let logical_sha256 = match codec {
            QemCodec::Lanes | QemCodec::Xor => {
                let (here, value) = key("empad");
                here.object(value)?;
                let (here, value) = key("logical_sha256");
                let text = here.text(value)?;
                let digest = Digest::from_hex(text);
                Some(digest.ok_or_else(|| here.fault("is not 64 lower-case hexadecimal digits"))?)
            }
            _ => None,
        };
        let regions = match codec {
            QemCodec::Scaled => {
                if let Some(section) = object.get("scientific_metadata").and_then(Value::as_object) {
                    processing::quantization_declared(section)?;
                }
                regions(&object, dims)?
            }
            _ => Vec::new(),
        };
        let (here, value) = key("chunks");
        let input = LayoutInput { codec, shape, body_bytes, regions: &regions };
        let layout = Layout::parse(&At::new(&here.path, ContainerCode::QemLayout), value, &input)?;
        Ok(Header {
            legacy,
            codec,
            shape,
            stored,
            scientific,
            valid,
            body_start,
            body_bytes,
            checksums,
            logical_sha256,
            layout,
            regions,
            object,
        })
    }

    pub(super) fn section(&self, key: &str) -> Option<&Object> {
        self.object.get(key).and_then(Value::as_object)
    }
}

/// A file that is neither: the predecessor's magic in front of today's header.
fn refuse_mixture(object: &Object) -> Result<()> {
    let later = ["container", "container_version", "codec", "scientific_metadata"];
    match later.iter().find(|key| object.contains_key(**key)) {
        None => Ok(()),
        Some(key) => Err(Error::new(
            ContainerCode::QemRetired,
            format!("the file begins like a retired QGPUSTRM file, whose header cannot have the key `{key}`"),
        )
        .hint("pack the original acquisition again; renaming or patching a file does not convert it")),
    }
}

fn newer(what: String) -> Error {
    Error::new(ContainerCode::QemUnsupported, what).hint(
        "a newer version of stempack may read it; otherwise save it again with the program that wrote it",
    )
}

fn unknown_codec(object: &Object, key: &str) -> Error {
    let name = object.get(key).and_then(Value::as_str).unwrap_or_default();
    newer(format!("codec `{}` is not known", shortened(name)))
}

fn identify(object: &Object) -> Result<()> {
    let at = At::header();
    at.key("container").one_of(object.get("container"), &["quantem.qem"])?;
    match at.key("container_version").integer(object.get("container_version"))? {
        1 => {}
        other => return Err(newer(format!("container version {other} is not known"))),
    }
    let codec = at.key("codec").text(object.get("codec"))?;
    at.key("profile").one_of(object.get("profile"), &[codec]).map(drop)
}

fn shape_dims(object: &Object) -> Result<[u64; 4]> {
    let at = At::header().key("shape");
    let list = at.exact_list::<4>(object.get("shape"))?;
    let mut dims = [0; 4];
    for (i, dim) in list.iter().enumerate() {
        dims[i] = at.item(i).integer(Some(dim))?;
        if dims[i] == 0 || dims[i] >= AXIS_LIMIT {
            return Err(at.item(i).fault(format_args!("is {}, expected 1 to {}", dims[i], AXIS_LIMIT - 1)));
        }
    }
    Ok(dims)
}

fn body(object: &Object, body_start: u64, file_bytes: u64) -> Result<(u64, Vec<Digest>)> {
    let at = At::header().key("bytes");
    let bytes = at.integer(object.get("bytes"))?;
    let there = file_bytes.saturating_sub(body_start);
    if bytes == 0 || bytes != there {
        return Err(at.fault(format_args!("is {bytes}, the file has {there} bytes after its header")));
    }
    let at = At::header().key("sha256");
    let list = at.list(object.get("sha256"))?;
    let expected = bytes.div_ceil(BLOCK_BYTES);
    if list.len() as u64 != expected {
        return Err(at.fault(format_args!("has {} checksums, {bytes} bytes need {expected}", list.len())));
    }
    let digests = list.iter().enumerate().map(|(i, value)| {
        let at = at.item(i);
        Digest::from_hex(at.text(Some(value))?)
            .ok_or_else(|| at.fault("is not 64 lower-case hexadecimal digits"))
    });
    Ok((bytes, digests.collect::<Result<_>>()?))
}

fn stored_type(object: &Object, codec: QemCodec) -> Result<SampleType> {
    let allowed: &[&str] = match codec {
        QemCodec::Columns => &["uint8", "uint16"],
        QemCodec::Lanes | QemCodec::Xor => &["float32"],
        QemCodec::Scaled => &["uint16"],
    };
    let at = At::header().key("dtype");
    let name = at.one_of(object.get("dtype"), allowed)?;
    SampleType::named(name).ok_or_else(|| at.fault("is no sample type"))
}

/// One bit for every pixel, the first in the highest bit of the first byte; the rest of the last byte says nothing.
fn mask(object: &Object, pixels: usize) -> Result<Vec<bool>> {
    let at = At::header().key("valid");
    let text = at.text(object.get("valid"))?;
    let expected = pixels.div_ceil(8);
    if text.len() != 2 * expected {
        return Err(at.fault(format_args!(
            "has {} digits, {pixels} pixels need {}",
            text.len(),
            2 * expected
        )));
    }
    let bytes = hex::decode(text).map_err(|e| at.fault(format_args!("is not hexadecimal: {e}")))?;
    Ok((0..pixels).map(|p| bytes[p / 8] & (0x80 >> (p % 8)) != 0).collect())
}

/// The hexadecimal digits of a mask.
pub(super) fn mask_digits(valid: &[bool]) -> String {
    let byte = |flags: &[bool]| flags.iter().enumerate().fold(0u8, |b, (i, &v)| b | (u8::from(v) << (7 - i)));
    hex::encode(valid.chunks(8).map(byte).collect::<Vec<_>>())
}

fn regions(object: &Object, dims: [u64; 4]) -> Result<Vec<Region>> {
    let at = At::header().key("intensity_calibration");
    let section = at.object(object.get("intensity_calibration"))?;
    at.key("storage").one_of(section.get("storage"), &["scaled_uint16"])?;
    at.key("version").exactly(section.get("version"), 2)?;
    if !at.key("complete").boolean(section.get("complete"))? {
        return Err(at.key("complete").fault("is false: the file was never finished"));
    }
    let shape = at.key("source_shape");
    for (i, (&dim, value)) in dims.iter().zip(shape.exact_list::<4>(section.get("source_shape"))?).enumerate()
    {
        shape.item(i).exactly(Some(value), dim)?;
    }
    let at = at.key("regions");
    let mut regions = Vec::new();
    let mut next = 0;
    for (i, value) in at.list(section.get("regions"))?.iter().enumerate() {
        let at = at.item(i);
        let object = at.object(Some(value))?;
        at.key("first_frame").exactly(object.get("first_frame"), next)?;
        let stop = at.key("stop_frame").integer(object.get("stop_frame"))?;
        if stop <= next {
            return Err(at.key("stop_frame").fault(format_args!("is {stop}, the region begins at {next}")));
        }
        at.key("storage").one_of(object.get("storage"), &["scaled_uint16"])?;
        let least = at.key("intensity_min").number(object.get("intensity_min"))?;
        let most = at.key("intensity_max").number(object.get("intensity_max"))?;
        if most < least {
            return Err(at
                .key("intensity_max")
                .fault(format_args!("is {most}, less than the minimum {least}")));
        }
        regions.push(Region {
            first: next,
            stop,
            scale: at.key("scale").positive(object.get("scale"))?,
            offset: at.key("offset").number(object.get("offset"))?,
        });
        next = stop;
    }
    let frames = dims[0] * dims[1];
    if next != frames {
        return Err(at.fault(format_args!("end at frame {next}, there are {frames} frames")));
    }
    Ok(regions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_begins_in_the_highest_bit() {
        let valid: Vec<bool> = (0..10).map(|p| p != 1 && p != 9).collect();
        assert_eq!(mask_digits(&valid), "bf80");
        let mut object = Object::new();
        for (digits, pixels) in [("bf80", 10), ("BF80", 10), ("bfbf", 10)] {
            object.insert("valid".into(), digits.into());
            assert_eq!(mask(&object, pixels).unwrap(), valid, "{digits}");
        }
        for wrong in ["bf", "bf8000", "bg80", "b f8"] {
            object.insert("valid".into(), wrong.into());
            assert!(mask(&object, 10).is_err(), "{wrong}");
        }
    }
}
