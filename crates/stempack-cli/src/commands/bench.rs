//! `bench`: how long a file takes to be ready, and each question afterwards, with equality proven in the same run.

use super::opened;
use crate::args::Bench;
use crate::context::{Context, Outcome};
use crate::memory::peak_resident_bytes;
use crate::printer::human_bytes;
use serde_json::{Map, Value, json};
use stempack::{BenchOptions, BenchReport, Result};

pub(crate) fn run(args: &Bench, context: &Context) -> Result<Outcome> {
    let input = &args.input;
    let open = opened::options(input.scan, input.allow_uncalibrated)?;
    opened::agree(&stempack::open(&input.file, &open)?, input.scan)?;
    let options = BenchOptions { open, drop_cache: args.drop_cache, mapped: args.mapped };
    let report = stempack::bench(&input.file, &options, context.task())?;
    context.printer.result("stempack.bench/1", document(args, &report), || text(args, &report));
    Ok(if report.equal() { Outcome::Done } else { Outcome::Different })
}

fn document(args: &Bench, report: &BenchReport) -> Value {
    let phases: Map<String, Value> = report.phases.iter().map(|p| (p.name.to_owned(), json!(p.ms))).collect();
    let notes: Map<String, Value> =
        report.phases.iter().filter_map(|p| Some((p.name.to_owned(), p.note?.into()))).collect();
    let interaction: Map<String, Value> = report
        .interaction
        .iter()
        .map(|(name, t)| {
            let timing = json!({
                "p50_ms": t.p50_ms, "p95_ms": t.p95_ms, "max_ms": t.max_ms, "answers": t.answers,
                "counts_per_s": t.counts_per_s,
            });
            ((*name).to_owned(), timing)
        })
        .collect();
    let updates: Map<String, Value> =
        report.updates.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect();
    let checks: Vec<Value> =
        report.checks.iter().map(|c| json!({ "name": c.name, "ok": c.ok, "detail": c.detail })).collect();
    let machine = &report.machine;
    json!({
        "path": args.input.file.display().to_string(),
        "profile": report.profile,
        "shape": report.shape.dims(),
        "file_bytes": report.file_bytes,
        "phases_ms": phases,
        "phase_notes": notes,
        "interaction": interaction,
        "updates": updates,
        "mask": {
            "kind": "bf", "evidence": report.disk.evidence.as_str(), "pixels": report.mask_pixels,
            "centre": [report.disk.centre_row, report.disk.centre_col], "radius": report.disk.radius,
        },
        "fft_dispatches": 0,
        "cache_state": report.cache.state.as_str(),
        "cache_detail": report.cache.detail,
        "threads": report.threads,
        "simd": report.kernel,
        "layout": report.layout,
        "resident_bytes": report.resident_bytes,
        "mapped_bytes": report.mapped_bytes,
        "peak_ready_bytes": report.peak_ready_bytes,
        "peak_bytes": peak_resident_bytes(),
        "equal": report.equal(),
        "checks": checks,
        "machine": {
            "cpu": machine.cpu, "cores": machine.cores, "memory_bytes": machine.memory_bytes,
            "system": machine.system,
        },
    })
}

fn text(args: &Bench, report: &BenchReport) -> String {
    let known = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), human_bytes);
    let m = &report.machine;
    let mut lines = vec![
        format!(
            "{}: {}, {}, {}",
            args.input.file.display(),
            report.profile,
            report.shape,
            human_bytes(report.file_bytes)
        ),
        format!(
            "{} threads, {} kernel; {}, {}",
            report.threads,
            report.kernel,
            m.cpu.as_deref().unwrap_or("unknown processor"),
            m.system
        ),
        format!("cache {}: {}", report.cache.state.as_str(), report.cache.detail),
        format!(
            "memory: resident {}{}, peak {} when ready, {} in all",
            report.resident_bytes.map_or_else(|| "nothing".to_owned(), human_bytes),
            report.mapped_bytes.filter(|&bytes| bytes > 0).map_or_else(String::new, |bytes| {
                format!(" (at first {} in the map of the file)", human_bytes(bytes))
            }),
            known(report.peak_ready_bytes),
            known(peak_resident_bytes())
        ),
        String::new(),
        format!("{:<24} {:>12}", "phase", "ms"),
    ];
    lines.extend(report.phases.iter().map(|p| {
        let ms = p.ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3}"));
        format!("{:<24} {ms:>12}  {}", p.name, p.note.unwrap_or_default()).trim_end().to_owned()
    }));
    lines.push(String::new());
    lines.push(format!(
        "{:<24} {:>10} {:>10} {:>10} {:>10}",
        "question", "median ms", "p95 ms", "max ms", "Gcounts/s"
    ));
    lines.extend(report.interaction.iter().map(|(name, t)| {
        let rate = t.counts_per_s / 1e9;
        format!("{name:<24} {:>10.3} {:>10.3} {:>10.3} {rate:>10.2}", t.p50_ms, t.p95_ms, t.max_ms)
    }));
    if report.updates.iter().any(|(_, n)| *n > 0) {
        let taken: Vec<String> =
            report.updates.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
        lines.push(format!("moved detectors were updated by: {}", taken.join(", ")));
    }
    lines.push(String::new());
    lines.extend(
        report
            .checks
            .iter()
            .map(|c| format!("{:<9} {:<16} {}", if c.ok { "equal" } else { "DIFFERENT" }, c.name, c.detail)),
    );
    lines.push(String::new());
    lines.join("\n")
}
