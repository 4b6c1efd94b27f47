//! The optional source-bound detector calibration of a manifest.

use crate::json::{Keys, Object};
use crate::{ContainerCode, Digest};
use serde_json::{Value, json};
use stempack_model::{DetectorShape, Error, Result};

const SCHEMA: &str = "quantem.gpu.detector-calibration/v1";

/// Where the bright-field disk is and how the detector is rotated against the scan.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorCalibration {
    /// Disk centre in detector pixels, row then column; pixel centres are integers.
    pub centre_px: [f64; 2],
    /// Disk radius in detector pixels.
    pub bright_field_radius_px: f64,
    /// Rotation in degrees and whether the components are exchanged; both or neither.
    pub dpc: Option<(f64, bool)>,
    /// How it was found.
    pub method: String,
}

impl DetectorCalibration {
    /// As it stands in the manifest of a file of the given source.
    pub(super) fn to_json(&self, identity: Digest) -> Value {
        let mut object = json!({
            "schema": SCHEMA,
            "source_identity_sha256": identity.to_hex(),
            "detector_center_px": self.centre_px,
            "bright_field_radius_px": self.bright_field_radius_px,
            "method": self.method,
        });
        if let Some((degrees, exchanged)) = self.dpc {
            object["dpc_rotation_degrees"] = json!(degrees);
            object["dpc_component_order_exchanged"] = json!(exchanged);
        }
        object
    }

    /// Validates `manifest.detector_calibration`; null and absent mean none.
    ///
    /// # Errors
    /// `detector_calibration`, `manifest_key`, `manifest_value`.
    pub(super) fn parse(
        manifest: &Object,
        identity: Digest,
        detector: DetectorShape,
    ) -> Result<Option<Self>> {
        let object = match manifest.get("detector_calibration") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(object)) => object,
            Some(other) => {
                return Err(bad(format!("is {}, expected an object", crate::json::type_name(other))));
            }
        };
        let keys = Keys { object, prefix: "detector_calibration." };
        keys.exactly("schema", SCHEMA)?;
        let bound_to = keys.digest("source_identity_sha256")?;
        if bound_to != identity {
            return Err(bad(format!("belongs to source {bound_to}, this file is of {identity}")));
        }
        let centre = keys.list("detector_center_px")?;
        let [row, col] = centre else {
            return Err(bad(format!("centre has {} numbers, expected [row, column]", centre.len())));
        };
        let number = |v: &Value| v.as_f64().filter(|v| v.is_finite());
        let (Some(row), Some(col)) = (number(row), number(col)) else {
            return Err(bad("centre is not two finite numbers".into()));
        };
        let (rows, cols) = (detector.rows() as f64, detector.cols() as f64);
        if !(0.0..rows).contains(&row) || !(0.0..cols).contains(&col) {
            return Err(bad(format!("centre [{row}, {col}] lies outside the detector {detector}")));
        }
        let radius = keys.f64("bright_field_radius_px")?;
        if !(radius > 0.0 && radius <= rows.hypot(cols)) {
            return Err(bad(format!("radius {radius} is not within 0 and the detector's diagonal")));
        }
        let method = keys.string("method")?;
        if method.trim().is_empty() {
            return Err(bad("method is blank".into()));
        }
        let present = |key| keys.get(key).is_some_and(|v| !v.is_null());
        let dpc = match (present("dpc_rotation_degrees"), present("dpc_component_order_exchanged")) {
            (false, false) => None,
            (true, true) => {
                let degrees = keys.f64("dpc_rotation_degrees")?;
                if !degrees.is_finite() {
                    return Err(bad("rotation is not finite".into()));
                }
                Some((degrees, keys.boolean("dpc_component_order_exchanged")?))
            }
            _ => return Err(bad("rotation and component order must be given both or not at all".into())),
        };
        Ok(Some(DetectorCalibration {
            centre_px: [row, col],
            bright_field_radius_px: radius,
            dpc,
            method: method.to_owned(),
        }))
    }
}

fn bad(why: String) -> Error {
    Error::new(ContainerCode::Calibration, format!("detector calibration: {why}"))
}
