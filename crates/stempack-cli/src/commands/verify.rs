//! `verify`: authenticate a pack, and prove it equal to its source.

use super::opened;
use crate::CliCode;
use crate::args::Verify;
use crate::context::{Context, Outcome};
use serde_json::{Value, json};
use stempack::{
    Digest, Error, Evidence, FrameKind, FrameSource, PackFile, Result, VerifyReport, source_identity,
};

pub(crate) fn run(args: &Verify, context: &Context) -> Result<Outcome> {
    if stempack::is_qem(&args.file)? {
        return super::qem::verify(args, &stempack::QemFile::open(&args.file)?, context);
    }
    let pack = PackFile::open(&args.file)?;
    // Opened first: a source that cannot be read is told before the long work.
    let source = match &args.against {
        Some(path) => {
            Some(stempack::open_source(path, &opened::options(args.scan, args.allow_uncalibrated)?)?)
        }
        None => None,
    };
    let evidence = Evidence {
        sha256: args.expect_sha256.map(|s| Digest(s.0)),
        receipt: args.receipt.clone(),
        raw_digest: true,
    };
    let mut report = stempack::verify(&pack, &evidence, context.task())?;
    if args.require_seal && !report.sealed {
        return Err(Error::new(
            CliCode::Unsealed,
            format!("`{}` is not sealed by the evidence given", args.file.display()),
        )
        .hint("give the SHA-256 with --expect-sha256, or a receipt you vouch for with --receipt"));
    }
    let identity = match &source {
        // A pack whose bitstreams do not authenticate cannot be compared.
        Some(source) if report.ok() => Some(against(&pack, source.as_ref(), &mut report, context)?),
        _ => None,
    };
    let ok = report.ok();
    context
        .printer
        .result("stempack.verify/1", document(args, &pack, &report, identity), || text(args, &report));
    Ok(if ok { Outcome::Done } else { Outcome::Different })
}

/// Compares every sample and the exclusions; returns whether the members are the very files that were packed.
fn against(
    pack: &PackFile,
    source: &dyn FrameSource,
    report: &mut VerifyReport,
    context: &Context,
) -> Result<Value> {
    match stempack::compare(pack, source, context.task()) {
        Ok(comparison) => match comparison.first_difference {
            None => report.push(
                "against-values",
                true,
                format!("every {} sample equals the source's", kind(comparison.kind)),
            ),
            Some((position, pixel, packed, original)) => {
                let shape = pack.shape();
                let detail = format!(
                    "{} samples differ first at scan position ({}, {}), pixel ({}, {}): {packed} in the pack, \
                     {original} in the source",
                    kind(comparison.kind),
                    position / shape.scan.cols(),
                    position % shape.scan.cols(),
                    pixel / shape.detector.cols(),
                    pixel % shape.detector.cols(),
                );
                report.push("against-values", false, detail);
            }
        },
        Err(e) if e.code() == "shapes_differ" => report.push("against-shape", false, e.message().to_owned()),
        Err(e) => return Err(e),
    }
    let (ours, theirs) = (pack.exclusions().pixels, &source.acquisition().excluded.pixels);
    let same = ours == *theirs;
    let detail = if same {
        format!("the same {} pixels are excluded", ours.len())
    } else {
        format!("{} pixels are excluded in the pack, {} others in the source", ours.len(), theirs.len())
    };
    report.push("against-exclusions", same, detail);
    let members = source.digest_members(context.task())?;
    let found = source_identity(&members);
    let same = found == pack.source_identity();
    if !same && report.ok() {
        context
            .printer
            .note("the samples are equal, but the source's files are not the ones that were packed");
    }
    Ok(json!({ "pack": pack.source_identity().to_hex(), "source": found.to_hex(), "same": same }))
}

fn kind(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Raw => "raw",
        FrameKind::Working => "working",
    }
}

fn document(args: &Verify, pack: &PackFile, report: &VerifyReport, identity: Option<Value>) -> Value {
    let check = |c: &stempack::Check| json!({ "name": c.name, "ok": c.ok, "detail": c.detail });
    let mut document = json!({
        "path": args.file.display().to_string(),
        "ok": report.ok(),
        "profile": pack.profile().as_str(),
        "sealed": report.sealed,
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "not_authenticated": report.not_authenticated,
    });
    if let Some(identity) = identity {
        document["source_identity_sha256"] = identity;
    }
    document
}

pub(super) fn text(args: &Verify, report: &VerifyReport) -> String {
    let mut lines: Vec<String> = report
        .checks
        .iter()
        .map(|c| format!("{:<9} {:<19} {}", if c.ok { "ok" } else { "DIFFERENT" }, c.name, c.detail))
        .collect();
    lines.extend(report.not_authenticated.iter().map(|what| format!("unchecked {what}")));
    let verdict = match (report.ok(), report.sealed) {
        (false, _) => "something does not agree",
        (true, true) => "everything agrees, sealed",
        (true, false) => "everything that was checked agrees",
    };
    lines.push(format!("{}: {verdict}\n", args.file.display()));
    lines.join("\n")
}
