#!/usr/bin/env python3
"""Measures `.qem` on one acquisition: speed of its codec, size, header, questions beside a pack, memory under a budget.

  qem.py --binary target/release/stempack --codec target/release/examples/qem_speed [--master FILE] [--large FILE]

`--master` is an acquisition of u16 counts (made by dataset.py when absent); `--large` one whose `.qem` file exceeds the
smaller budget, for the figures of memory (left out when absent). Writes bench/runs/DATE-MACHINE-qem-SHAPE/. Nothing is
written when a result disagrees.

How it measures
  * The codec is measured by `cargo build --release -p stempack-codecs --example qem_speed` on one thread, by processor
    time, the best of its runs; every decoded count is compared with the original.
  * Questions are those of `stempack bench`, which compares its answers in the same run, on both containers.
  * Commands are whole processes; peak memory is the operating system's maximum resident size.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import tempfile

import numpy as np

import compare
import dataset

GOALS = {
    "encode_mcounts_per_s_per_core": ("≥", 150),
    "decode_mcounts_per_s_per_core": ("≥", 300),
    "ratio_to_raw": ("≥", 19),
    "size_to_u8_pack": ("≤", 0.7),
    "header_ms": ("<", 5),
}


def stempack(binary, *args, ok=0):
    seconds, peak, stdout = compare.process([binary, *args, "--json"])
    return seconds, peak, json.loads(stdout)


def codec(example, unpacked, runs, work):
    """Speeds of the codec on one thread, in million counts per second of processor time."""
    array = np.load(unpacked, mmap_mode="r")
    raw = work / "raw.u16"
    array.astype("<u2", copy=False).tofile(raw)
    environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
    command = [example, raw, array.shape[2], array.shape[3], runs]
    _, peak, stdout = compare.process(command, env=environment)
    raw.unlink()
    found = {k.strip(): float(v) for k, v in re.findall(r"^(encode|spatial index|both|decode|pattern sums)\s+([\d.]+)", stdout, re.M)}
    return {**found, "said": stdout.strip().splitlines(), "peak_rss_bytes": peak}


def memory(binary, master, budgets, work):
    """Peaks of writing, checking and reading a file under budgets."""
    file = work / "large.qem"
    results = []
    for budget in budgets:
        for verb, args in (
            ("pack", (master, file, "--force")),
            ("verify", (file, "--strict")),
            ("unpack", (file, work / "large.npy", "--force")),
        ):
            seconds, peak, document = stempack(binary, verb, *args, "--max-memory", budget)
            results.append({"verb": verb, "budget_bytes": budget, "peak_rss_bytes": peak, "seconds": seconds})
            if verb == "pack":
                written = document["logical_sha256"]
            elif verb == "unpack" and document["logical_sha256"] != written:
                raise SystemExit("the unpacked array is another than the one that was written")
    size, array = file.stat().st_size, (work / "large.npy").stat().st_size
    (work / "large.npy").unlink()
    return {"file_bytes": size, "array_bytes": array, "runs": results}


def met(name, value):
    sign, goal = GOALS[name]
    return {"≥": value >= goal, "≤": value <= goal, "<": value < goal}[sign]


def readme(r):
    m = r["machine"]
    q, p = r["bench_qem"], r["bench_pack"]
    lines = [
        f"# {r['date']}, `.qem` on {m['cpu']}",
        "",
        f"* {m['cores']} cores, {m['memory_bytes'] / 2**30:.0f} GiB, {m['system']}, Python {m['python']}",
        f"* commit {r['commit']}{' with uncommitted changes' if r['dirty'] else ''}; load average before the run {r['load_before']}",
        f"* source: {'×'.join(map(str, r['shape']))} {r['dtype']}, {r['raw_bytes'] / 2**30:.2f} GiB of counts",
        f"* cache: {r['cache']}",
        "* equality: `verify --strict` and `verify --against` hold for both containers; the unpacked array hashes to the "
        "digest recorded while packing; the codec's counts equal the original's; `bench` reports equal results for both",
        "",
        "| figure | value | goal | met |",
        "|---|---:|---:|---|",
    ]
    for name, (sign, goal) in GOALS.items():
        lines.append(f"| {name} | {r['figures'][name]:.3g} | {sign} {goal} | {'yes' if met(name, r['figures'][name]) else 'no'} |")
    lines += [
        "",
        f"The file has {r['qem_bytes']:,} bytes, the u8 pack {r['pack_bytes']:,}. Writing the `.qem` takes "
        f"{r['pack_seconds']['median_s']:.2f} s with hashing and syncing, its peak memory is {r['pack_seconds']['peak_rss_bytes'] / 2**20:.0f} MiB.",
        "",
        f"Codec on one thread, million counts per second of processor time: "
        + ", ".join(f"{k} {v}" for k, v in r["codec"].items() if isinstance(v, float))
        + ".",
        "",
        f"Questions on {q['threads']} threads, medians in ms (cache {q['cache_state']} and {p['cache_state']}):",
        "",
        "| question | `.qem` | u8 pack, resident |",
        "|---|---:|---:|",
    ]
    for name in q["interaction"]:
        there = p["interaction"].get(name)
        lines.append(f"| {name} | {q['interaction'][name]['p50_ms']:.3f} | {format(there['p50_ms'], '.3f') if there else '-'} |")
    lines += ["", "| phase, ms | `.qem` | u8 pack |", "|---|---:|---:|"]
    show = lambda v: "-" if v is None else f"{v:.3f}"
    for name in q["phases_ms"]:
        if q["phases_ms"][name] is not None or p["phases_ms"][name] is not None:
            lines.append(f"| {name} | {show(q['phases_ms'][name])} | {show(p['phases_ms'][name])} |")
    if "memory" in r:
        large = r["memory"]
        lines += [
            "",
            f"Memory: a `.qem` file of {large['file_bytes'] / 2**20:.0f} MiB, whose array has {large['array_bytes'] / 2**20:.0f} MiB.",
            "",
            "| verb | budget | peak memory | seconds |",
            "|---|---:|---:|---:|",
        ]
        for run in large["runs"]:
            lines.append(f"| {run['verb']} | {run['budget_bytes'] / 2**20:.0f} MiB | {run['peak_rss_bytes'] / 2**20:.0f} MiB | {run['seconds']:.1f} |")
    lines += ["", "How it is measured is written in `bench/qem.py`."]
    return "\n".join(lines) + "\n"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", type=pathlib.Path, default=compare.ROOT / "target/release/stempack")
    a.add_argument("--codec", type=pathlib.Path, default=compare.ROOT / "target/release/examples/qem_speed")
    a.add_argument("--master", type=pathlib.Path)
    a.add_argument("--scan", help="RxC, where nothing records it")
    a.add_argument("--large", type=pathlib.Path)
    a.add_argument("--budgets", nargs="+", type=int, default=(256 << 20, 128 << 20))
    a.add_argument("--runs", type=int, default=3)
    a.add_argument("--out", type=pathlib.Path, default=compare.ROOT / "bench/runs")
    o = a.parse_args()
    binary, load = o.binary.absolute(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="stempack-bench-") as temporary:
        work = pathlib.Path(temporary)
        if o.master is None:
            dataset.make(work / "source", (128, 128), (192, 192))
            o.scan = "128x128"
        master = (o.master or work / "source/scan_master.h5").absolute()
        for path in master.parent.glob("*.h5"):
            path.read_bytes()
        qem, pack, unpacked = work / "copy.qem", work / "pack.h5", work / "unpacked.npy"
        scan = ["--scan", o.scan] if o.scan else []
        runs = [stempack(binary, "pack", master, qem, "--force", *scan) for _ in range(o.runs)]
        stempack(binary, "pack", master, pack, "--profile", "u8", *scan)
        for file in (qem, pack):
            extra = ["--strict"] if file == qem else []
            for args in (extra, ["--against", master, *scan]):
                if not stempack(binary, "verify", file, *args)[2]["ok"]:
                    raise SystemExit(f"{file.name} does not verify with {args}")
        _, _, document = stempack(binary, "unpack", qem, unpacked)
        if document["logical_sha256"] != runs[0][2]["logical_sha256"]:
            raise SystemExit("the unpacked array is another than the one that was packed")
        speeds = codec(o.codec.absolute(), unpacked, o.runs, work)
        raw_bytes = unpacked.stat().st_size
        unpacked.unlink()
        # Of several runs, the one whose image was answered fastest; each is whole in itself.
        best = lambda file: min((stempack(binary, "bench", file)[2] for _ in range(o.runs)), key=lambda d: d["interaction"]["rebase"]["p50_ms"])
        benches = {"bench_qem": best(qem), "bench_pack": best(pack)}
        headers = [stempack(binary, "bench", qem)[2]["phases_ms"]["metadata"] for _ in range(o.runs)]
        sizes = {"qem_bytes": qem.stat().st_size, "pack_bytes": pack.stat().st_size}
        large = memory(binary, o.large.absolute(), o.budgets, work) if o.large else None
    for bench in benches.values():
        if not bench["equal"]:
            raise SystemExit("stempack bench does not report equal results")
        bench["path"] = pathlib.Path(bench["path"]).name
    shape = document["shape"]
    raw_bytes = int(np.prod(shape)) * np.dtype(document["dtype"]).itemsize
    record = {
        "schema": "stempack.qem-benchmark/1",
        "date": datetime.date.today().isoformat(),
        "machine": compare.machine(),
        "commit": compare.git("rev-parse", "HEAD"),
        "dirty": bool(compare.git("status", "--porcelain", "--", ".", ":!bench/runs")),
        "load_before": load,
        "cache": "warm: the source was read once before the first measurement; `bench` states its own",
        "shape": shape,
        "dtype": document["dtype"],
        "raw_bytes": raw_bytes,
        **sizes,
        "figures": {
            "encode_mcounts_per_s_per_core": speeds["both"],
            "decode_mcounts_per_s_per_core": speeds["decode"],
            "ratio_to_raw": raw_bytes / sizes["qem_bytes"],
            "size_to_u8_pack": sizes["qem_bytes"] / sizes["pack_bytes"],
            "header_ms": statistics.median(headers),
        },
        "pack_seconds": compare.summary([s for s, _, _ in runs], max(p for _, p, _ in runs)),
        "codec": speeds,
        **benches,
    }
    if large:
        record["memory"] = large
    slug = re.sub(r"[^a-z0-9]+", "-", record["machine"]["cpu"].lower()).strip("-")
    name = f"{record['date']}-{slug}-{record['machine']['cores']}c-qem-{'x'.join(map(str, shape))}"
    where = compare.new_record(o.out, name)
    (where / "results.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (where / "README.md").write_text(readme(record))
    print((where / "README.md").read_text())


if __name__ == "__main__":
    main()
