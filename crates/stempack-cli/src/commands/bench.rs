//! `bench`: how long a pack takes to be ready, and each question afterwards, with equality proven in the same run.

use crate::args::Bench;
use crate::context::{Context, Outcome};
use crate::memory::peak_resident_bytes;
use serde_json::{Map, Value, json};
use stempack::{BenchReport, Result};

pub(crate) fn run(args: &Bench, context: &Context) -> Result<Outcome> {
    let report = stempack::bench(&args.file, context.task())?;
    context.printer.result("stempack.bench/1", document(args, &report), || text(args, &report));
    Ok(if report.equal { Outcome::Done } else { Outcome::Different })
}

fn document(args: &Bench, report: &BenchReport) -> Value {
    let phases: Map<String, Value> =
        report.phases_ms.iter().map(|(name, ms)| ((*name).to_owned(), json!(ms))).collect();
    let interaction: Map<String, Value> = report
        .interaction
        .iter()
        .map(|(name, t)| {
            let timing = json!({
                "p50_ms": t.p50_ms, "p95_ms": t.p95_ms, "max_ms": t.max_ms, "counts_per_s": t.counts_per_s,
            });
            ((*name).to_owned(), timing)
        })
        .collect();
    json!({
        "path": args.file.display().to_string(),
        "profile": report.profile.as_str(),
        "phases_ms": phases,
        "interaction": interaction,
        "mask": {
            "kind": "bf", "evidence": report.disk.evidence.as_str(), "pixels": report.mask_pixels,
            "centre": [report.disk.centre_row, report.disk.centre_col], "radius": report.disk.radius,
        },
        "fft_dispatches": 0,
        "cache_state": "warm",
        "threads": report.threads,
        "simd": report.kernel,
        "resident_bytes": report.resident_bytes,
        "peak_bytes": peak_resident_bytes(),
        "equal": report.equal,
    })
}

fn text(args: &Bench, report: &BenchReport) -> String {
    let mut lines = vec![format!(
        "{}: profile {}, {} threads, {} kernel",
        args.file.display(),
        report.profile.as_str(),
        report.threads,
        report.kernel
    )];
    lines.extend(report.phases_ms.iter().map(|(name, ms)| format!("  {name:<18} {ms:10.3} ms")));
    lines.extend(report.interaction.iter().map(|(name, t)| {
        format!(
            "  {name:<18} {:10.3} ms median, {:.3} ms p95, {:.2} billion counts per second",
            t.p50_ms,
            t.p95_ms,
            t.counts_per_s / 1e9
        )
    }));
    let equal = if report.equal { "equal to" } else { "DIFFERENT FROM" };
    lines.push(format!("  the {} kernel is {equal} its scalar twin in this run", report.kernel));
    lines.push(String::new());
    lines.join("\n")
}
