//! `pack`: plan, pack losslessly, publish with a receipt.

use super::opened;
use super::provenance::refuse_any;
use crate::CliCode;
use crate::args::{Pack, Profile};
use crate::clock::now_utc;
use crate::context::{Context, Outcome};
use crate::memory::peak_resident_bytes;
use crate::printer::human_bytes;
use serde_json::json;
use stempack::{Error, FrameSource, PackOptions, Plan, ProfileChoice, Result};

pub(crate) fn run(args: &Pack, context: &Context) -> Result<Outcome> {
    if named_qem(args)? {
        return super::qem::pack(args, context);
    }
    let options = PackOptions { profile: profile(args), force: args.force, completed_utc: now_utc() };
    let source = stempack::open_source(&args.source, &opened::options(args.scan, args.allow_uncalibrated)?)?;
    // Here and not in the planner, because only the reader's refusal names the likely shapes.
    stempack::require_shape(source.acquisition())?;
    refuse_source(args, source.as_ref())?;
    for warning in &source.acquisition().warnings {
        context.printer.warning(&warning.message);
    }
    if args.plan {
        let plan = stempack::plan_pack(source.as_ref(), &options, context.task())?;
        context.printer.result("stempack.plan/1", plan_document(&plan), || plan_text(&plan));
        return Ok(Outcome::Done);
    }
    let report = stempack::pack(source.as_ref(), &args.dest, &options, context.task())?;
    let planned = report.plan.peak_bytes;
    let peak = peak_resident_bytes().unwrap_or(planned);
    let document = json!({
        "output": args.dest.display().to_string(),
        "profile": report.profile.as_str(),
        "reason": report.reason,
        "output_bytes": report.output_bytes,
        "output_sha256": report.output_sha256.to_hex(),
        "receipt": report.receipt.display().to_string(),
        "peak_bytes": peak,
        "planned_peak_bytes": planned,
        "source_identity_sha256": report.source_identity.to_hex(),
        "shards": report.plan.shard_count,
        "scans_per_shard": report.plan.scans_per_shard,
    });
    context.printer.result("stempack.pack/1", document, || {
        let logical = logical_bytes(source.as_ref());
        format!(
            "{}: {}, profile {} ({}), {:.2} times smaller than {} of samples\n\
             SHA-256 {}\nreceipt {}\npeak memory {} (planned {})\n",
            args.dest.display(),
            human_bytes(report.output_bytes),
            report.profile.as_str(),
            report.reason,
            logical as f64 / report.output_bytes as f64,
            human_bytes(logical),
            report.output_sha256,
            report.receipt.display(),
            human_bytes(peak),
            human_bytes(planned),
        )
    });
    Ok(Outcome::Done)
}

/// Whether `--profile` and the destination's ending agree on the qem profile.
fn named_qem(args: &Pack) -> Result<bool> {
    let named = args.dest.extension().is_some_and(|e| e.eq_ignore_ascii_case("qem"));
    match args.profile {
        Some(Profile::Qem) => Ok(true),
        Some(stated) if named => {
            let message =
                format!("`{}` asks for the qem profile, --profile for {stated:?}", args.dest.display());
            Err(Error::new(CliCode::Usage, message).hint("give one of them"))
        }
        _ if named => Ok(true),
        _ if args.clear_overrides || !args.overrides.is_empty() => {
            Err(Error::new(CliCode::Usage, "calibration overrides are carried by .qem files only")
                .hint("choose a destination that ends in .qem"))
        }
        _ if args.dark.is_some() => {
            Err(Error::new(CliCode::Usage, "a mean dark frame is carried by .qem files only")
                .hint("choose a destination that ends in .qem"))
        }
        _ => Ok(false),
    }
}

/// The profile of a pack.
fn profile(args: &Pack) -> ProfileChoice {
    match args.profile {
        None | Some(Profile::Auto | Profile::Qem) => ProfileChoice::Auto,
        Some(Profile::U8) => ProfileChoice::U8,
        Some(Profile::U16) => ProfileChoice::U16,
    }
}

/// `--force` must not replace what is being packed.
pub(super) fn refuse_source(args: &Pack, source: &dyn FrameSource) -> Result<()> {
    refuse_any(source.acquisition().members.iter().map(|m| m.path.as_path()), &args.dest)
}

fn logical_bytes(source: &dyn FrameSource) -> u64 {
    let a = source.acquisition();
    a.frame_count.saturating_mul(a.detector.pixels() as u64).saturating_mul(a.sample.bytes() as u64)
}

fn plan_document(plan: &Plan) -> serde_json::Value {
    json!({
        "profile": plan.profile.as_str(),
        "reason": plan.reason,
        "shards": plan.shard_count,
        "scans_per_shard": plan.scans_per_shard,
        "peak_bytes": plan.peak_bytes,
        "packed_maximum_bytes": plan.packed_maximum_bytes,
        "output_maximum_bytes": plan.output_maximum_bytes,
    })
}

fn plan_text(plan: &Plan) -> String {
    format!(
        "profile {} ({})\n{} shards of {} scan positions\nmemory at most {}\noutput at most {}\n",
        plan.profile.as_str(),
        plan.reason,
        plan.shard_count,
        plan.scans_per_shard,
        human_bytes(plan.peak_bytes),
        human_bytes(plan.output_maximum_bytes),
    )
}
