#!/usr/bin/env python3
"""Measures stempack beside the usual Python tools on one acquisition, in one run, and checks that all results agree.

  compare.py --binary target/release/stempack [--scan 128 128] [--detector 192 192] [--runs 5] [--data FOLDER]

Writes bench/runs/DATE-MACHINE/{README.md,results.json}. Nothing is written when a result disagrees.

How it measures
  * The source is read once before anything is timed: the operating system's cache is warm for everybody.
  * stempack's commands are timed as whole processes, start-up and writing of the output included.
  * The peers run in a process of their own (bench/peers.py); their imports, and where a name says `resident` the
    loading of the dense array, are outside the timed part.
  * Peak memory is the operating system's maximum resident size of the process.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import dataset
import peers

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEERS_NEEDING = {"libertem_bf": "libertem", "libertem_resident_bf": "libertem", "py4dstem_resident_bf": "py4DSTEM"}


def process(command, **options):
    """(seconds, peak resident bytes, stdout) of a process that must succeed."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        launcher = [sys.executable, "-IS", ROOT / "scripts/measure.py", report.name, *command]
        done = subprocess.run([str(c) for c in launcher], capture_output=True, text=True, check=True, **options)
        found = json.load(report)
    if found["exit"] != 0:
        said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        raise SystemExit(f"{' '.join(map(str, command))} ended with {found['exit']}\n{said}")
    return found["seconds"], found["peak_rss_bytes"], done.stdout


def summary(seconds, peak, **more):
    return {
        "median_s": statistics.median(seconds),
        "min_s": min(seconds),
        "max_s": max(seconds),
        "runs": len(seconds),
        "peak_rss_bytes": peak,
        **more,
    }


def git(*args):
    r = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True)
    return r.stdout.strip() if r.returncode == 0 else None


def machine():
    info = pathlib.Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    memory = pathlib.Path("/proc/meminfo")
    total = re.search(r"MemTotal:\s*(\d+) kB", memory.read_text()) if memory.exists() else None
    return {
        "cpu": model[1] if model else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": int(total[1]) * 1024 if total else None,
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
    }


def new_record(runs, name):
    """A new folder for a record: none is written twice."""
    for n in range(1, 1000):
        where = runs / (name if n == 1 else f"{name}-{n}")
        try:
            where.mkdir(parents=True)
            return where
        except FileExistsError:
            continue
    raise SystemExit(f"{runs} has too many records of that name")


def measure_peer(python, name, folder, runs):
    # An OpenBLAS kernel chosen by the environment may be a slow one; numpy's own choice is the fair one.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    command = [python, ROOT / "bench/peers.py", name, folder, runs]
    _, peak, stdout = process(command, env=environment)
    line = next(l for l in stdout.splitlines() if l.startswith("RESULT "))
    result = json.loads(line.removeprefix("RESULT "))
    return summary(result["seconds"], peak, versions=result["versions"], what=" ".join(peers.CONTENDERS[name].__doc__.split())), result["sum_sha256"]


def importable(python, module):
    return subprocess.run([str(python), "-c", f"import {module}"], capture_output=True).returncode == 0


def stempack_results(binary, folder, truth, runs, work):
    """Times of the commands, and what must be equal to the truth."""
    master, scan = folder / "scan_master.h5", "x".join(map(str, truth["scan"]))
    results, packed = {}, work / "packed.h5"

    def pack(n):
        out = packed if n == 0 else work / f"packed-{n}.h5"
        seconds, peak, stdout = process([binary, "pack", master, out, "--scan", scan, "--json"])
        if n:
            out.unlink()
            pathlib.Path(f"{out}.receipt.json").unlink()
        return seconds, peak, json.loads(stdout)

    _, _, document = pack(0)
    _, bench_peak, stdout = process([binary, "bench", packed, "--json"])
    bench = json.loads(stdout)
    if bench.get("equal") is not True:
        raise SystemExit("stempack bench does not report equal results")
    # Everybody sums the pixels of the disk that `bench` uses.
    disk = bench["mask"]
    truth["bf_pixels"] = dataset.choose_disk(folder, truth, disk["centre"], disk["radius"])
    if truth["bf_pixels"] != disk["pixels"]:
        raise SystemExit(f"the disk of `bench` has {disk['pixels']} pixels, numpy's has {truth['bf_pixels']}")
    want = np.load(folder / "truth.npz")["bf"]

    times = [pack(n)[:2] for n in range(1, runs + 1)]
    results["stempack_pack"] = summary(
        [t for t, _ in times],
        max(p for _, p in times),
        what="stempack pack: decode, choose the profile, encode, hash source, values and output, sync to disk.",
        profile=document["profile"],
        output_bytes=document["output_bytes"],
    )
    _, _, stdout = process([binary, "verify", packed, "--against", master, "--scan", scan, "--json"])
    if not json.loads(stdout)["ok"]:
        raise SystemExit("stempack verify does not agree with the source")

    def image(source, *args):
        out = work / "bf.npy"
        out.unlink(missing_ok=True)
        seconds, peak, _ = process([binary, "image", source, "--mask", folder / "mask.npy", "-o", out, *args])
        if not np.array_equal(np.load(out), want):
            raise SystemExit(f"stempack image of {source} is not equal to numpy's")
        return seconds, peak

    for name, what, args in (
        ("stempack_bf_original", "stempack image straight from the original acquisition.", (master, "--scan", scan)),
        ("stempack_bf_packed", "stempack image from the pack: authenticate, load, sum, write.", (packed,)),
    ):
        image(*args)
        times = [image(*args) for _ in range(runs)]
        results[name] = summary([t for t, _ in times], max(p for _, p in times), what=what)

    return results, {**bench, "path": packed.name, "peak_rss_bytes": bench_peak}


def table(results):
    yield "| contender | median | min | max | peak memory |"
    yield "|---|---:|---:|---:|---:|"
    for name, r in results.items():
        yield (
            f"| `{name}` | {1e3 * r['median_s']:.1f} ms | {1e3 * r['min_s']:.1f} ms | {1e3 * r['max_s']:.1f} ms "
            f"| {r['peak_rss_bytes'] / 2**20:.0f} MiB |"
        )


def readme(record):
    m, t, c, i = record["machine"], record["source"], record["contenders"], record["stempack_bench"]
    rebase = i["interaction"]["rebase"]["p50_ms"] / 1e3
    ratio = lambda a, b: f"{c[a]['median_s'] / c[b]['median_s']:.1f}"
    times = lambda a, seconds: f"{c[a]['median_s'] / seconds:.1f}"
    versions = {k: v for r in c.values() for k, v in r.get("versions", {}).items()}
    lines = [
        f"# {record['date']}, {m['cpu']}",
        "",
        f"* {m['cores']} cores, {m['memory_bytes'] / 2**30:.0f} GiB, {m['system']}, Python {m['python']}",
        f"* commit {record['commit']}{' with uncommitted changes' if record['dirty'] else ''}",
        f"* source: {'×'.join(map(str, t['scan'] + t['detector']))} {t['dtype']}, {t['logical_bytes'] / 2**30:.2f} GiB of counts, "
        f"{t['stored_bytes'] / 2**20:.0f} MiB stored; {t['bf_pixels']} pixels in the bright field",
        f"* cache: {record['cache']}",
        "* equality: every image is equal to the truth; `verify --against` holds; `bench` reports equal results",
        "",
        *table(c),
        "",
        "`stempack bench`, medians: "
        + ", ".join(f"{k} {v['p50_ms']:.2f} ms" for k, v in i["interaction"].items() if "p50_ms" in v)
        + f"; {i.get('threads')} threads, {i.get('simd')}.",
        "",
        "How many times as long as stempack the others take (medians):",
        "",
        *(f"* `{n}` against `stempack_pack`: {ratio(n, 'stempack_pack')}" for n in c if n.startswith("h5py_decode")),
        *(
            f"* `{n}` against `stempack_bf_original`: {ratio(n, 'stempack_bf_original')}"
            for n in c
            if n.startswith(("h5py_bf", "libertem_bf"))
        ),
        *(f"* `{n}` against a BF from stempack's resident: {times(n, rebase)}" for n in c if "resident" in n),
        "",
        "What each contender does:",
        "",
        *(f"* `{k}`: {v['what']}" for k, v in c.items()),
        "",
        "Versions: " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())) + ".",
        *(f"Left out: `{k}`, {v}." for k, v in record["left_out"].items()),
        "",
        "How it is measured is written in `bench/compare.py`.",
    ]
    return "\n".join(lines) + "\n"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/stempack")
    a.add_argument("--scan", nargs=2, type=int, default=(128, 128))
    a.add_argument("--detector", nargs=2, type=int, default=(192, 192))
    a.add_argument("--runs", type=int, default=5)
    a.add_argument("--data", type=pathlib.Path, help="folder for the acquisition; kept and used again")
    a.add_argument("--peers-python", type=pathlib.Path, default=pathlib.Path(sys.executable), help="a Python that may have LiberTEM and py4DSTEM")
    a.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/runs")
    o = a.parse_args()
    with tempfile.TemporaryDirectory(prefix="stempack-bench-") as temporary:
        work = pathlib.Path(temporary)
        folder = (o.data or work / "source").absolute()
        truth = dataset.make(folder, o.scan, o.detector)
        for path in folder.glob("*.h5"):
            path.read_bytes()

        contenders, bench = stempack_results(o.binary.absolute(), folder, truth, o.runs, work)
        want = hashlib.sha256(np.load(folder / "truth.npz")["bf"].astype("<u8").tobytes()).hexdigest()
        left_out = {}
        for name in peers.CONTENDERS:
            module = PEERS_NEEDING.get(name)
            if module and not importable(o.peers_python, module):
                left_out[name] = f"{module} is not installed"
                continue
            python = o.peers_python if module else sys.executable
            contenders[name], digest = measure_peer(python, name, folder, o.runs)
            if digest not in (None, want):
                raise SystemExit(f"{name} computes something else")
            print(f"{name}: {contenders[name]['median_s']:.3f} s", file=sys.stderr)

    m, date = machine(), datetime.date.today().isoformat()
    record = {
        "schema": "stempack.comparison/1",
        "date": date,
        "machine": m,
        "commit": git("rev-parse", "HEAD"),
        "dirty": bool(git("status", "--porcelain", "--", ".", ":!bench/runs")),
        "cache": "warm: the source was read once before the first measurement",
        "source": truth,
        "contenders": contenders,
        "left_out": left_out,
        "stempack_bench": bench,
    }
    slug = re.sub(r"[^a-z0-9]+", "-", m["cpu"].lower()).strip("-")
    where = new_record(o.out, f"{date}-{slug}-{m['cores']}c-{'x'.join(map(str, (*o.scan, *o.detector)))}")
    (where / "results.json").write_text(json.dumps(record, indent=1) + "\n")
    (where / "README.md").write_text(readme(record))
    print((where / "README.md").read_text())


if __name__ == "__main__":
    main()
