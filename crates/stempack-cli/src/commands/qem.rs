//! What verbs say and do about `.qem` files.

use super::opened;
use crate::CliCode;
use crate::args::{Pack, Verify};
use crate::context::{Context, Outcome};
use crate::memory::peak_resident_bytes;
use crate::printer::human_bytes;
use serde_json::{Map, Value, json};
use std::path::Path;
use stempack::{
    Check, Dark, Digest, Error, FrameSource, Opened, Override, OverrideChange, QemFile, QemOptions,
    QemReport, Quantity, Recorded, Result, VerifyReport, source_identity,
};

/// Writes a `.qem` file from anything that opens. A `.qem` source is copied, everything it carries with it.
pub(super) fn pack(args: &Pack, context: &Context) -> Result<Outcome> {
    let options = opened::options(args.scan, args.allow_uncalibrated)?;
    let what = stempack::open(&args.source, &options)?;
    opened::agree(&what, args.scan)?;
    let overrides = overrides(args)?;
    let dark = match &args.dark {
        Some(path) => Some(dark(args, path, &what, context)?),
        None => None,
    };
    // A retired file is written anew.
    let copied = matches!(&what, Opened::Qem(file) if !file.info().legacy);
    let source = match what {
        Opened::Qem(file) => file as std::sync::Arc<dyn FrameSource>,
        Opened::Pack(_) | Opened::Original(_) => stempack::open_source(&args.source, &options)?,
    };
    stempack::require_shape(source.acquisition())?;
    super::pack::refuse_source(args, source.as_ref())?;
    for warning in &source.acquisition().warnings {
        context.printer.warning(&warning.message);
    }
    if args.plan {
        return plan(source.as_ref(), context);
    }
    let reason = if copied { "copied from a .qem file" } else { "asked for" };
    let background = dark.as_ref().map(|d| d.background.clone());
    let options = QemOptions { force: args.force, overrides, background };
    let report = stempack::write_qem(source.as_ref(), &args.dest, &options, context.task())?;
    let peak = peak_resident_bytes().unwrap_or(report.peak_bytes);
    let mut document = json!({
        "output": args.dest.display().to_string(),
        "profile": "qem",
        "reason": reason,
        "codec": report.codec.as_str(),
        "dtype": report.stored.as_str(),
        "output_bytes": report.output_bytes,
        "output_sha256": report.output_sha256.to_hex(),
        "logical_sha256": report.logical_sha256.map(|d| d.to_hex()),
        "receipt": Value::Null,
        "peak_bytes": peak,
        "planned_peak_bytes": report.peak_bytes,
        "source_identity_sha256": report.source_identity.to_hex(),
        "shards": report.chunks,
        "scans_per_shard": 512,
    });
    if let Some(dark) = &dark {
        document["dark"] = opened::dark_document(dark);
    }
    context.printer.result("stempack.pack/1", document, || pack_text(args, source.as_ref(), &report, peak));
    Ok(Outcome::Done)
}

/// The mean dark frame that a new copy is to carry.
fn dark(args: &Pack, path: &Path, what: &Opened, context: &Context) -> Result<Dark> {
    if let Opened::Qem(file) = what
        && !file.info().legacy
    {
        let message =
            format!("`{}` is copied as it is, a dark frame cannot be added to it", file.path().display());
        return Err(Error::new(CliCode::Usage, message).hint("pack the original with --dark"));
    }
    let options = opened::options(None, args.allow_uncalibrated)?;
    Dark::of(what, path, &options, context.task())
}

fn pack_text(args: &Pack, source: &dyn FrameSource, report: &QemReport, peak: u64) -> String {
    let a = source.acquisition();
    let logical =
        a.frame_count.saturating_mul(a.detector.pixels() as u64).saturating_mul(a.sample.bytes() as u64);
    let narrowed = report.narrowed_from.map(|t| format!(", narrowed from {t}")).unwrap_or_default();
    format!(
        "{}: {}, {} {}{narrowed}, {:.2} times smaller than {} of samples\nSHA-256 {}\npeak memory {} (planned {})\n",
        args.dest.display(),
        human_bytes(report.output_bytes),
        report.codec.as_str(),
        report.stored,
        logical as f64 / report.output_bytes as f64,
        human_bytes(logical),
        report.output_sha256,
        human_bytes(peak),
        human_bytes(report.peak_bytes),
    )
}

fn plan(source: &dyn FrameSource, context: &Context) -> Result<Outcome> {
    let plan = stempack::plan_qem(source.acquisition(), context.task())?;
    let document = json!({
        "profile": "qem",
        "reason": "asked for",
        "shards": plan.chunks,
        "scans_per_shard": plan.scans_per_chunk,
        "peak_bytes": plan.peak_bytes,
        "packed_maximum_bytes": plan.output_maximum_bytes,
        "output_maximum_bytes": plan.output_maximum_bytes,
    });
    context.printer.result("stempack.plan/1", document, || {
        format!(
            "profile qem ({} {})\n{} chunks of {} scan positions\nmemory at most {}\noutput at most {}\n",
            plan.codec.as_str(),
            plan.stored,
            plan.chunks,
            plan.scans_per_chunk,
            human_bytes(plan.peak_bytes),
            human_bytes(plan.output_maximum_bytes),
        )
    });
    Ok(Outcome::Done)
}

/// The overrides that the command line states.
fn overrides(args: &Pack) -> Result<OverrideChange> {
    if args.clear_overrides {
        return Ok(OverrideChange::Clear);
    }
    if args.overrides.is_empty() {
        return Ok(OverrideChange::Keep);
    }
    let evidence = args.evidence.clone().unwrap_or_default();
    let one = |text: &String| {
        let wrong = || {
            let names = Quantity::ALL.map(Quantity::as_str).join(", ");
            Error::new(CliCode::Usage, format!("`{text}` is no override, expected NAME=VALUE"))
                .hint(format!("names are {names}; values are in the unit of `inspect`"))
        };
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let quantity = Quantity::ALL.into_iter().find(|q| q.as_str() == name.trim()).ok_or_else(wrong)?;
        let value = value.trim().parse().map_err(|_| wrong())?;
        Ok(Override { quantity, value, evidence: evidence.clone() })
    };
    args.overrides.iter().map(one).collect::<Result<_>>().map(OverrideChange::Set)
}

pub(super) fn verify(args: &Verify, file: &QemFile, context: &Context) -> Result<Outcome> {
    if args.receipt.is_some() {
        return Err(Error::new(
            CliCode::Usage,
            "a .qem file has no receipt; its own checksums take its place",
        )
        .hint("give the SHA-256 of the whole file with --expect-sha256 to seal it"));
    }
    // Opened first: a source that cannot be read is told before the long work.
    let source = match &args.against {
        Some(path) => {
            Some(stempack::open_source(path, &opened::options(args.scan, args.allow_uncalibrated)?)?)
        }
        None => None,
    };
    let expected = args.expect_sha256.map(|s| Digest(s.0));
    let mut report = file.verify(expected, args.strict, context.task())?;
    if args.require_seal && !report.sealed {
        return Err(Error::new(
            CliCode::Unsealed,
            format!("`{}` is not sealed by the evidence given", args.file.display()),
        )
        .hint("give the SHA-256 with --expect-sha256"));
    }
    let mut identity = None;
    if let Some(source) = source.filter(|_| report.ok()) {
        against(file, source.as_ref(), &mut report, context)?;
        let recorded = recorded_identity(file);
        let found = source_identity(&source.digest_members(context.task())?).to_hex();
        identity = recorded.map(|r| json!({ "same": r == found, "pack": r, "source": found }));
    }
    let ok = report.ok();
    let check = |c: &Check| json!({ "name": c.name, "ok": c.ok, "detail": c.detail });
    let mut document = json!({
        "path": args.file.display().to_string(),
        "ok": ok,
        "profile": "qem",
        "sealed": report.sealed,
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "not_authenticated": report.not_authenticated,
    });
    if let Some(identity) = identity {
        document["source_identity_sha256"] = identity;
    }
    context.printer.result("stempack.verify/1", document, || super::verify::text(args, &report));
    Ok(if ok { Outcome::Done } else { Outcome::Different })
}

/// Compares every sample and the exclusions of two sources.
fn against(
    file: &QemFile,
    source: &dyn FrameSource,
    report: &mut VerifyReport,
    context: &Context,
) -> Result<()> {
    let shape = file.shape();
    match stempack::compare_sources(file, source, context.task()) {
        Ok(None) => report.push("against-values", true, "every raw sample equals the source's"),
        Ok(Some(d)) => {
            let (position, cols) = (d.position as usize, shape.scan.cols());
            let detail = format!(
                "raw samples differ first at scan position ({}, {}), pixel ({}, {}): {} in the file, {} in the \
                 source",
                position / cols,
                position % cols,
                d.pixel / shape.detector.cols(),
                d.pixel % shape.detector.cols(),
                d.ours,
                d.theirs,
            );
            report.push("against-values", false, detail);
        }
        Err(e) if e.code() == "shapes_differ" => report.push("against-shape", false, e.message().to_owned()),
        Err(e) => return Err(e),
    }
    let (ours, theirs) = (&file.acquisition().excluded.pixels, &source.acquisition().excluded.pixels);
    let same = ours == theirs;
    let detail = if same {
        format!("the same {} pixels are excluded", ours.len())
    } else {
        format!("{} pixels are excluded in the file, {} others in the source", ours.len(), theirs.len())
    };
    report.push("against-exclusions", same, detail);
    Ok(())
}

fn recorded_identity(file: &QemFile) -> Option<String> {
    let text = file.header().get("metadata")?.get("original_source_identity_sha256")?.as_str()?;
    Digest::from_hex(text).map(Digest::to_hex)
}

/// The document of `info`.
pub(super) fn info(file: &QemFile, context: &Context) -> Outcome {
    let (info, a) = (file.info(), file.acquisition());
    let mut document = json!({
        "path": file.path().display().to_string(),
        "profile": "qem",
        "codec": info.codec.as_str(),
        "shape": info.shape.dims(),
        "source_dtype": a.sample.as_str(),
        "working_dtype": a.sample.as_str(),
        "shards": info.chunks,
        "scans_per_shard": file.scans_per_chunk(),
        "excluded": a.excluded.pixels,
        "raw_access": if a.excluded.pixels.is_empty() { "exact_no_exclusions" } else { "exact_retained_payload" },
        "file_bytes": info.file_bytes,
        "header_bytes": info.header_bytes,
        "resident_bytes": info.file_bytes - info.header_bytes,
        "ratio": info.ratio,
        "sealed": false,
        "receipt_beside": false,
        "source_identity_sha256": recorded_identity(file),
        "source_raw_logical_sha256": file.logical_sha256().map(|d| d.to_hex()),
        "working_logical_sha256": Value::Null,
        "detector_mask_sha256": crate::printer::hex(&a.excluded.mask_sha256),
        "quantities": crate::describe::quantities(&a.quantities),
        "overrides": crate::describe::quantities(file.overrides()),
        "bright_field_disk": Value::Null,
    });
    if let Some(identity) = file.tensor_identity() {
        document["tensor_identity_sha256"] = identity.to_hex().into();
    }
    context.printer.result("stempack.info/1", document, || text(file, false));
    Outcome::Done
}

fn text(file: &QemFile, metadata: bool) -> String {
    let (info, path) = (file.info(), file.path().display().to_string());
    let none = stempack::Overrides::default();
    let view = crate::describe::View { digests: None, overrides: &none, metadata };
    let mut text = crate::describe::text(file.acquisition(), &path, &view);
    let mut line = |name: &str, what: String| text.push_str(&format!("  {name:<22} {what}\n"));
    line("codec", info.codec.as_str().to_owned());
    line(
        "file",
        format!("{}, {:.2} times smaller than the samples", human_bytes(info.file_bytes), info.ratio),
    );
    line("chunks", format!("{} in {} blocks of at most 512 scan positions", info.chunks, info.blocks));
    for (quantity, Recorded { value, conversion, .. }) in file.overrides() {
        line("override", format!("{} {value} {} ({conversion})", quantity.as_str(), quantity.unit()));
    }
    text
}

/// One entry of `inspect`, and the same for people.
pub(super) fn inspect(
    file: &QemFile,
    digests: Option<&[stempack::MemberDigest]>,
    metadata: bool,
) -> (Value, String) {
    let path = file.path().display().to_string();
    let none = stempack::Overrides::default();
    let view = crate::describe::View { digests, overrides: &none, metadata };
    let mut document = crate::describe::document(file.acquisition(), &path, &view);
    // The digest is that of the copy; the identity is that of what it is a copy of, where it says so.
    if let Some(document) = document.as_object_mut() {
        document.remove("source_identity_sha256");
        document.remove("layout_protocol");
        if let Value::String(identity) = json!(recorded_identity(file)) {
            document.insert("source_identity_sha256".into(), identity.into());
        }
    }
    if !file.overrides().is_empty() {
        let mut section = Map::new();
        section.insert("quantities".into(), crate::describe::quantities(file.overrides()));
        document["overrides"] = Value::Object(section);
    }
    (document, text(file, metadata))
}

/// Digests of the one member, when they are asked for.
pub(super) fn digests(file: &QemFile, context: &Context) -> Result<Vec<stempack::MemberDigest>> {
    context.task().begin("hash members", file.info().file_bytes);
    let digests = file.digest_members(context.task())?;
    context.task().finish();
    Ok(digests)
}
