//! A mean dark frame that was saved beside the data: subtracted once for products, never from raw frames.

use super::QemFile;
use super::values::At;
use crate::{ContainerCode, Digest};
use serde_json::{Value, json};
use std::sync::Arc;
use stempack_model::{Acquisition, Error, FrameSource, MemberDigest, Result, SampleType, SamplesMut, Task};

const SCHEMA: &str = "empad-mean-dark/v1";

/// A saved mean dark frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// Digest over the dark frames it was made from and over itself.
    pub identity: Digest,
    /// One value for every detector pixel, row-major; all finite.
    pub values: Vec<f32>,
}

/// What `processing` says when a mean dark frame is saved beside the measurements.
pub(super) const SUBTRACTION: &str = "mean_dark_subtraction";

impl Background {
    /// The name of the correction.
    pub const SCHEMA: &'static str = SCHEMA;

    /// Whether the plane can be taken from these frames.
    ///
    /// # Errors
    /// `not_representable` for frames of another type or size, and for values that are not finite.
    pub fn check_fits(&self, a: &Acquisition) -> Result<()> {
        let refuse = |message| Err(Error::new(ContainerCode::NotRepresentable, message));
        if a.sample != SampleType::F32 {
            return refuse(format!(
                "a mean dark frame is taken from float32 samples, these are {}",
                a.sample
            ));
        }
        if self.values.len() != a.detector.pixels() {
            let (found, detector) = (self.values.len(), a.detector);
            return refuse(format!("a mean dark frame of {found} pixels, the detector is {detector}"));
        }
        match self.values.iter().position(|v| !v.is_finite()) {
            Some(pixel) => refuse(format!("the mean dark frame is not finite at pixel {pixel}")),
            None => Ok(()),
        }
    }

    /// The object of a header.
    pub(super) fn object(&self) -> Value {
        let bytes: Vec<u8> = self.values.iter().flat_map(|v| v.to_le_bytes()).collect();
        json!({
            "schema": SCHEMA,
            "identity": self.identity.to_hex(),
            "values_float32_le": to_base64(&bytes),
        })
    }
}

impl QemFile {
    /// The saved mean dark frame, if there is one.
    ///
    /// # Errors
    /// `qem_metadata` when there is something else in its place.
    pub fn background(&self) -> Result<Option<Background>> {
        let Some(value) = self.header.section("empad").and_then(|e| e.get("background")) else {
            return Ok(None);
        };
        if value.is_null() {
            return Ok(None);
        }
        let at = At::new("empad.background", ContainerCode::QemMetadata);
        let object = at.object(Some(value))?;
        at.key("schema").one_of(object.get("schema"), &[SCHEMA])?;
        let identity = Digest::from_hex(at.key("identity").text(object.get("identity"))?)
            .ok_or_else(|| at.key("identity").fault("is not 64 lower-case hexadecimal digits"))?;
        let here = at.key("values_float32_le");
        let bytes =
            base64(here.text(object.get("values_float32_le"))?).ok_or_else(|| here.fault("is not base64"))?;
        let pixels = self.shape().detector.pixels();
        if bytes.len() != 4 * pixels {
            return Err(here.fault(format_args!(
                "has {} bytes, {pixels} pixels need {}",
                bytes.len(),
                4 * pixels
            )));
        }
        let values: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap_or_default())).collect();
        match values.iter().position(|v| !v.is_finite()) {
            Some(pixel) => Err(here.fault(format_args!("is not finite at pixel {pixel}"))),
            None => Ok(Some(Background { identity, values })),
        }
    }

    /// What products are made of: the file itself, or its frames less the saved dark frame.
    ///
    /// # Errors
    /// Those of [`background`](Self::background).
    pub fn product_source(self: Arc<Self>) -> Result<Arc<dyn FrameSource>> {
        Ok(match self.background()? {
            Some(background) if self.described().sample == SampleType::F32 => {
                Arc::new(DarkSubtracted { source: self, background })
            }
            _ => self,
        })
    }
}

/// Frames less a mean dark frame, in single precision.
pub struct DarkSubtracted {
    source: Arc<dyn FrameSource>,
    background: Background,
}

impl DarkSubtracted {
    /// Takes the frames of `source` and what is to be subtracted from each.
    ///
    /// # Errors
    /// Those of [`Background::check_fits`].
    pub fn new(source: Arc<dyn FrameSource>, background: Background) -> Result<Self> {
        background.check_fits(source.acquisition())?;
        Ok(DarkSubtracted { source, background })
    }
}

impl FrameSource for DarkSubtracted {
    fn acquisition(&self) -> &Acquisition {
        self.source.acquisition()
    }
    fn read(&self, first_frame: u64, mut into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.source.read(first_frame, into.reborrow(), task)?;
        if let SamplesMut::F32(samples) = into {
            for frame in samples.chunks_exact_mut(self.background.values.len()) {
                frame.iter_mut().zip(&self.background.values).for_each(|(v, dark)| *v -= dark);
            }
        }
        Ok(())
    }
    fn frames_together(&self) -> u64 {
        self.source.frames_together()
    }
    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        self.source.digest_members(task)
    }
    fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
    }
}

/// Standard base64 with padding.
fn to_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().enumerate().fold(0u32, |w, (i, &b)| w | u32::from(b) << (16 - 8 * i));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// What standard base64 with padding stands for.
fn base64(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(4) {
        return None;
    }
    let padding = bytes.iter().rev().take_while(|&&b| b == b'=').count();
    if padding > 2 {
        return None;
    }
    let digit = |b: u8| -> Option<u32> {
        Some(u32::from(match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }))
    };
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    let digits = &bytes[..bytes.len() - padding];
    for group in digits.chunks(4) {
        let mut word = 0;
        for &b in group {
            word = word << 6 | digit(b)?;
        }
        word <<= 6 * (4 - group.len());
        out.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes(), "{text}");
            assert_eq!(to_base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64("+/8A").unwrap(), [0xfb, 0xff, 0x00]);
        assert_eq!(to_base64(&[0xfb, 0xff, 0x00]), "+/8A");
        for wrong in ["Zg", "Zg=", "Z===", "Zm9v!A==", "Zg==Zg=="] {
            assert_eq!(base64(wrong), None, "{wrong}");
        }
    }
}
