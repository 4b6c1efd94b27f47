//! What every result says of the numbers it was made from: which source, who read it, what is recorded of its
//! calibration and where, and which checks its bytes passed. Only what is known stands there.

use super::opened::{pack_step, same_file};
use crate::CliCode;
use crate::context::Context;
use crate::describe;
use crate::printer::hex;
use crate::results::{Made, Shown, Target};
use serde_json::{Map, Value, json};
use std::path::Path;
use stempack::{
    Acquisition, Background, Dark, DetectorCalibration, Digest, Error, Exclusions, FrameSource, MemberDigest,
    Opened, PackFile, QemFile, Quantity, Result, sha256_file, source_identity,
};

/// The program that made a result.
pub(crate) const SOFTWARE: &str = concat!("stempack ", env!("CARGO_PKG_VERSION"));

/// A product never compares a copy with its original.
const NOT_COMPARED: &str = "not compared with the original";

/// What a result is made from.
pub(crate) struct Provenance {
    /// The source.
    pub(crate) what: Opened,
    /// What working samples are less.
    pub(crate) dark: Option<Dark>,
    /// Whether every byte of the source is hashed.
    pub(crate) digest: bool,
}

impl Provenance {
    /// Writes a product to its file and prints its document, or a sentence after the file's name.
    pub(crate) fn deliver(
        &self,
        schema: &str,
        target: Target,
        made: &Made<'_>,
        said: Map<String, Value>,
        text: &str,
        show: impl FnOnce() -> Shown,
        context: &Context,
    ) -> Result<()> {
        target.destinations().try_for_each(|path| self.refuse_source(path))?;
        let facts = self.complete(said, context)?;
        let mut document = target.write(made, schema, &facts, show)?;
        document.extend(facts);
        print(schema, document, text, context);
        Ok(())
    }

    /// A result never replaces what it is made from, not even when it may replace a file.
    pub(crate) fn refuse_source(&self, output: &Path) -> Result<()> {
        let members: Vec<&Path> = match &self.what {
            Opened::Pack(pack) => vec![pack.path()],
            Opened::Qem(file) => vec![file.path()],
            Opened::Original(source) => {
                source.acquisition().members.iter().map(|m| m.path.as_path()).collect()
            }
        };
        let dark = self.dark.as_ref().map(|d| d.source.as_path());
        refuse_any(members.into_iter().chain(dark), output)
    }

    /// Prints the document of a result that was written already.
    pub(crate) fn report(
        &self,
        schema: &str,
        said: Map<String, Value>,
        text: &str,
        context: &Context,
    ) -> Result<()> {
        print(schema, self.complete(said, context)?, text, context);
        Ok(())
    }

    /// Adds what every result says.
    pub(crate) fn complete(
        &self,
        mut said: Map<String, Value>,
        context: &Context,
    ) -> Result<Map<String, Value>> {
        let working = said.get("values").and_then(Value::as_str) == Some("working");
        if let Some(dark) = self.dark.as_ref().filter(|_| working) {
            said.insert("dark".into(), dark_document(dark));
        }
        said.insert("software".into(), SOFTWARE.into());
        said.insert("source".into(), self.source(context)?);
        Ok(said)
    }

    fn source(&self, context: &Context) -> Result<Value> {
        let mut source = match &self.what {
            Opened::Pack(pack) => of_pack(pack),
            Opened::Qem(file) => of_qem(file),
            Opened::Original(original) => {
                let digests = if self.digest {
                    let digests = original.digest_members(context.task())?;
                    // What was hashed is what was read.
                    original.check_unchanged()?;
                    Some(digests)
                } else {
                    None
                };
                of_original(original.acquisition(), digests.as_deref())
            }
        };
        let container = match &self.what {
            Opened::Pack(pack) => Some(pack.path()),
            Opened::Qem(file) => Some(file.path()),
            Opened::Original(_) => None,
        };
        if let Some(path) = container.filter(|_| self.digest) {
            source["file_sha256"] = sha256_file(path, context.task())?.to_hex().into();
            if let Opened::Qem(file) = &self.what {
                file.check_unchanged()?;
            }
        }
        Ok(source)
    }
}

fn print(schema: &str, document: Map<String, Value>, text: &str, context: &Context) {
    let output = document.get("output").and_then(Value::as_str).unwrap_or_default().to_owned();
    context.printer.result(schema, Value::Object(document), || format!("{output}: {text}\n"));
}

/// Refuses an output that is one of these files.
pub(crate) fn refuse_any<'a>(files: impl IntoIterator<Item = &'a Path>, output: &Path) -> Result<()> {
    match files.into_iter().find(|file| same_file(file, output)) {
        None => Ok(()),
        Some(_) => Err(Error::new(
            CliCode::DestinationIsSource,
            format!("`{}` is part of the source", output.display()),
        )
        .with("path", output.display().to_string())),
    }
}

/// What results say of a dark.
pub(crate) fn dark_document(dark: &Dark) -> Value {
    json!({
        "schema": Background::SCHEMA,
        "identity": dark.background.identity.to_hex(),
        "source": dark.source.display().to_string(),
    })
}

fn excluded(exclusions: &Exclusions) -> Value {
    json!({ "count": exclusions.pixels.len(), "mask_sha256": hex(&exclusions.mask_sha256) })
}

fn of_pack(pack: &PackFile) -> Value {
    let manifest = pack.manifest();
    let mut source = json!({
        "path": pack.path().display().to_string(),
        "kind": "pack",
        "profile": pack.profile().as_str(),
        "format": "Lossless Pack Format v1",
        // The schema by which the manifest is read; who read the original, a pack does not record.
        "reader": manifest.object.get("schema"),
        "source_identity_sha256": pack.source_identity().to_hex(),
        "shape": pack.shape().dims(),
        "dtype": manifest.source_note.as_ref().map_or("uint16", |n| n.sample.as_str()),
        "excluded_pixels": { "count": pack.excluded().len() },
        "quantities": pack_quantities(pack),
        "sealed": false,
        "integrity": "sha256 of every shard read",
        "equality": NOT_COMPARED,
        "checks": ["structure", "decoded"],
    });
    if let Some(mask) = manifest.detector_mask_sha256 {
        source["excluded_pixels"]["mask_sha256"] = mask.to_hex().into();
    }
    if let Some(calibration) = &manifest.calibration {
        source["bright_field_disk"] = calibration_document(calibration);
    }
    source
}

fn of_qem(file: &QemFile) -> Value {
    let a = file.acquisition();
    let mut source = json!({
        "path": file.path().display().to_string(),
        "kind": "qem",
        "profile": "qem",
        "format": a.format,
        "reader": a.reader,
        "shape": file.shape().dims(),
        "dtype": a.sample.as_str(),
        "excluded_pixels": excluded(&a.excluded),
        "quantities": describe::quantities(&a.quantities),
        "background_subtraction": describe::background(a),
        "sealed": false,
        "integrity": "sha256 of the header and every block read",
        "equality": NOT_COMPARED,
        "checks": ["header", "body", "decoded"],
    });
    if let Some(identity) = copied_identity(file) {
        source["source_identity_sha256"] = identity.into();
    }
    if !file.overrides().is_empty() {
        source["overrides"] = describe::quantities(file.overrides());
    }
    source
}

/// The content identity of what a `.qem` file is a copy of, where it says so.
fn copied_identity(file: &QemFile) -> Option<String> {
    let text = file.header().get("metadata")?.get("original_source_identity_sha256")?.as_str()?;
    Digest::from_hex(text).map(Digest::to_hex)
}

fn of_original(a: &Acquisition, digests: Option<&[MemberDigest]>) -> Value {
    let path = a.members.first().map_or_else(|| a.label.clone(), |m| m.path.display().to_string());
    let mut source = json!({
        "path": path,
        "kind": "original",
        "format": a.format,
        "reader": a.reader,
        "members": describe::members(a, digests),
        "dtype": a.sample.as_str(),
        "excluded_pixels": excluded(&a.excluded),
        "quantities": describe::quantities(&a.quantities),
        "background_subtraction": describe::background(a),
        "integrity": if digests.is_some() { "sha256 of every member" } else { "size and times of every member" },
        "checks": if digests.is_some() { json!(["unchanged", "digest"]) } else { json!(["unchanged"]) },
    });
    if let Some(shape) = a.shape() {
        source["shape"] = json!(shape.dims());
    }
    if let Some(scan) = &a.scan {
        source["scan"] = json!({ "evidence": scan.evidence, "stated": scan.stated });
    }
    if let Some(digests) = digests {
        source["source_identity_sha256"] = source_identity(digests).to_hex().into();
    }
    source
}

/// The samplings that a manifest carries.
pub(crate) fn pack_quantities(pack: &PackFile) -> Value {
    let step = |q: Quantity| {
        let origin = format!("{}:manifest source_calibration", pack.path().display());
        Some((
            q.as_str().to_owned(),
            json!({ "value": pack_step(pack, q)?, "unit": q.unit(), "origin": origin }),
        ))
    };
    Value::Object(Quantity::ALL.into_iter().filter_map(step).collect::<Map<_, _>>())
}

/// A disk that is recorded, with the rotation beside it where there is one.
pub(crate) fn calibration_document(c: &DetectorCalibration) -> Value {
    json!({
        "centre": c.centre_px, "bright_field_radius": c.bright_field_radius_px, "method": c.method,
        "rotation_degrees": c.dpc.map(|d| d.0), "components_exchanged": c.dpc.map(|d| d.1),
    })
}
