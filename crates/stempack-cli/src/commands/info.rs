//! `info`: what a packed file says of itself, without reading its shards.

use super::opened::pack_step;
use super::provenance::{calibration_document, pack_quantities};
use crate::args::Info;
use crate::context::{Context, Outcome};
use crate::printer::human_bytes;
use serde_json::{Value, json};
use stempack::{PackFile, PackInfo, Quantity, Result, receipt_path};

pub(crate) fn run(args: &Info, context: &Context) -> Result<Outcome> {
    let pack = match stempack::is_qem(&args.file)? {
        true => return Ok(super::qem::info(&stempack::QemFile::open(&args.file)?, context)),
        false => PackFile::open(&args.file)?,
    };
    context.printer.result("stempack.info/1", document(&pack), || text(&pack));
    Ok(Outcome::Done)
}

fn document(pack: &PackFile) -> Value {
    let (info, manifest) = (PackInfo::of(pack), pack.manifest());
    let source = manifest.source_note.as_ref().map_or("uint16", |n| n.sample.as_str());
    let calibration = manifest.calibration.as_ref().map(calibration_document);
    json!({
        "path": pack.path().display().to_string(),
        "profile": pack.profile().as_str(),
        "shape": pack.shape().dims(),
        "source_dtype": source,
        "working_dtype": manifest.working.sample_type().as_str(),
        "shards": pack.shards().len(),
        "scans_per_shard": pack.scans_per_shard(),
        "excluded": pack.excluded(),
        "raw_access": manifest.raw_access.as_str(),
        "file_bytes": pack.bytes(),
        "resident_bytes": info.resident_bytes,
        "ratio": info.ratio,
        "sealed": false,
        "receipt_beside": receipt_path(pack.path()).is_file(),
        "source_identity_sha256": pack.source_identity().to_hex(),
        "source_raw_logical_sha256": manifest.source_raw_logical_sha256.map(|d| d.to_hex()),
        "working_logical_sha256": manifest.working_sha256.map(|d| d.to_hex()),
        "detector_mask_sha256": manifest.detector_mask_sha256.map(|d| d.to_hex()),
        "quantities": pack_quantities(pack),
        "bright_field_disk": calibration,
    })
}

pub(super) fn text(pack: &PackFile) -> String {
    let (info, manifest) = (PackInfo::of(pack), pack.manifest());
    let mut lines =
        vec![format!("{}: lossless pack, profile {}", pack.path().display(), pack.profile().as_str())];
    let mut line = |name: &str, text: String| lines.push(format!("  {name:<22} {text}"));
    let source = manifest.source_note.as_ref().map_or("uint16", |n| n.sample.as_str());
    line("shape", format!("{} {source} (scan × detector)", pack.shape()));
    line("file", format!("{}, {:.2} times smaller than the samples", human_bytes(pack.bytes()), info.ratio));
    line("resident", human_bytes(info.resident_bytes));
    line("shards", format!("{} of {} scan positions", pack.shards().len(), pack.scans_per_shard()));
    line("excluded pixels", pack.excluded().len().to_string());
    line("raw access", manifest.raw_access.as_str().to_owned());
    line("source identity", pack.source_identity().to_hex());
    for q in Quantity::ALL {
        if let Some(value) = pack_step(pack, q) {
            line(q.as_str(), format!("{value} {}", q.unit()));
        }
    }
    if let Some(c) = &manifest.calibration {
        let [row, col] = c.centre_px;
        let radius = c.bright_field_radius_px;
        line("bright-field disk", format!("({row}, {col}) radius {radius} pixels ({})", c.method));
    }
    lines.push(String::new());
    lines.join("\n")
}
