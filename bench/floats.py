#!/usr/bin/env python3
"""Measures residents of floats beside a dense array in numpy, on data made here: whole numbers, and a noisy calibrated signal.

  floats.py [--scan 128] [--detector 128] [--work DIR] [--examples target/release/examples]

Build the example first: `cargo build --release --example float_resident -p stempack`. The example compares its answers with
those made frame by frame; here they are compared bit for bit with the rule of sums written in numpy, and nothing is written
when any differs. Writes bench/runs/DATE-MACHINE-floats/.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import tempfile
import time

import numpy as np

import compare
from engine import example

KINDS = {"counts": "whole numbers", "noisy": "calibrated, noise of the readout"}


def make(path, kind, scan, size):
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:size, 0:size]
    centre, radius = size / 2 - 0.5, size * 41 / 192
    out = np.lib.format.open_memmap(path, mode="w+", dtype="<f4", shape=(scan, scan, size, size))
    for row in range(scan):
        d = np.hypot(y - centre - 1.5 * np.sin(row / 9), x - centre - 1.5 * np.cos(row / 7))
        mean = 1.2 / (1 + np.exp((d - radius) / 0.6)) + 0.07 * np.exp(-np.maximum(d - radius, 0) / (0.35 * size))
        frames = rng.poisson(mean, (scan, size, size)).astype("f4")
        if kind == "noisy":
            noise = rng.normal(0, 3.1, frames.shape).astype("f4")
            frames = (frames * np.float32(147.3) + noise) * np.float32(0.9871)
        out[row] = frames
    out.flush()


class Sums:
    """Compensated sums side by side: each term's rounding error is carried beside the sum (Neumaier)."""

    def __init__(self, n):
        self.sum, self.error = np.zeros(n), np.zeros(n)

    def add(self, terms):
        after = self.sum + terms
        larger = np.abs(self.sum) >= np.abs(terms)
        self.error += (np.where(larger, self.sum, terms) - after) + np.where(larger, terms, self.sum)
        self.sum = after

    def value(self):
        return self.sum + self.error


def by_the_rule(flat, selected, size):
    """Bright field, mean pattern and centre of mass, terms in their order."""
    positions, pixels = flat.shape
    bright, total, rows, cols = (Sums(positions) for _ in range(4))
    for first in range(0, pixels, 256):
        block = flat[:, first : first + 256].T.astype("f8")
        for pixel, terms in enumerate(block, first):
            if selected[pixel]:
                bright.add(terms)
            total.add(terms)
            rows.add(terms * (pixel // size))
            cols.add(terms * (pixel % size))
    mean = Sums(pixels)
    for frame in flat:
        mean.add(frame.astype("f8"))
    com = np.concatenate([rows.value(), cols.value()]) / np.tile(total.value(), 2)
    return {"bf": bright.value(), "mean": mean.value() / positions, "com": com}


def least(question, runs=3):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        question()
        times.append((time.perf_counter() - start) * 1e3)
    return min(times)


def measure(kind, o, work):
    path = work / f"{kind}.npy"
    make(path, kind, o.scan, o.detector)
    answers = work / kind
    answers.mkdir()
    forms = example(o.examples, "float_resident", path, 1, answers) + example(o.examples, "float_resident", path, 2)
    flat = np.load(path).reshape(o.scan**2, o.detector**2)
    y, x = np.mgrid[0 : o.detector, 0 : o.detector] - (o.detector / 2 - 0.5)
    selected = (y * y + x * x <= (o.detector * 41 / 192) ** 2).ravel()
    for name, expected in by_the_rule(flat, selected, o.detector).items():
        found = np.fromfile(answers / f"{name}.f64", "<f8")
        if not np.array_equal(found.view("u8"), expected.view("u8")):
            raise SystemExit(f"{kind}: {name} is not what the rule gives")
    if not all(f["equal"] for f in forms) or forms[0]["bf_pixels"] != selected.sum():
        raise SystemExit(f"{kind}: an answer differs")
    pixels, weights = np.flatnonzero(selected), selected.astype("f4")
    there, position = selected.reshape(o.detector, -1), len(flat) // 2
    came = np.flatnonzero((np.roll(there, 1, 1) != there).ravel())
    dense = {
        "bf_double_ms": least(lambda: flat[:, pixels].sum(1, dtype="f8")),
        "bf_single_matmul_ms": least(lambda: flat @ weights),
        "moved_ms": least(lambda: flat[:, came].sum(1, dtype="f8")),
        "frame_ms": least(lambda: flat[position].copy(), 9),
        "mean_double_ms": least(lambda: flat.mean(0, dtype="f8")),
    }
    path.unlink()
    return {"what": KINDS[kind], "resident": forms, "numpy": dense}


def readme(r):
    m = r["machine"]
    lines = [
        f"# {r['date']}, {m['cpu']}: residents of floats",
        "",
        f"* {m['cores']} cores, {(m['memory_bytes'] or 0) / 2**30:.0f} GiB, {m['system']}",
        f"* commit {r['commit']}{' with changes' if r['dirty'] else ''}; numpy {r['numpy_version']}",
        f"* scan {r['scan']} x {r['scan']}, detector {r['detector']} x {r['detector']}; the file is in the cache; times are "
        f"the least of several, of building one, wall clock; {r['load_before']:.1f} other processes were running when it began",
        "* equality: bright field, mean pattern and centre of mass are bit for bit those of the rule written in numpy and those "
        "made frame by frame; moved images are images summed anew",
        "",
        "| data | threads | kernel | build ms | bytes / dense | BF ms | Gsamples/s | moved ms (pixels) | frame ms | mean ms "
        "| moments ms |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for kind, d in r["data"].items():
        lines += (
            f"| {kind} | {f['threads']} | `{f['kernel']}` | {f['build_ms']:.0f} "
            f"| {f['resident_bytes'] / f['logical_bytes']:.3f} | {f['bf_ms']:.2f} | {f['bf_samples_per_s'] / 1e9:.2f} "
            f"| {f['moved_ms']:.3f} ({f['moved_pixels']}) | {f['frame_ms']:.3f} | {f['mean_ms']:.1f} | {f['moments_ms']:.1f} |"
            for f in d["resident"]
        )
    lines += ["", "numpy on the dense array, which needs all of its bytes in memory:", ""]
    lines += ["| data | BF in double ms | BF as a product in single ms | moved ms | frame ms | mean in double ms |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for kind, d in r["data"].items():
        n = d["numpy"]
        lines.append(
            f"| {kind} | {n['bf_double_ms']:.1f} | {n['bf_single_matmul_ms']:.1f} | {n['moved_ms']:.2f} "
            f"| {n['frame_ms']:.4f} | {n['mean_double_ms']:.1f} |"
        )
    lines += ["", "Data: " + "; ".join(f"{k}, {d['what']}" for k, d in r["data"].items()) + ".", ""]
    lines.append("How it is measured is written in `bench/floats.py` and the example that it runs.")
    return "\n".join(lines) + "\n"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--scan", type=int, default=128)
    a.add_argument("--detector", type=int, default=128)
    a.add_argument("--work", type=pathlib.Path)
    a.add_argument("--examples", type=pathlib.Path, default=compare.ROOT / "target/release/examples")
    a.add_argument("--out", type=pathlib.Path, default=compare.ROOT / "bench/runs")
    o = a.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=o.work) as work:
        data = {kind: measure(kind, o, pathlib.Path(work)) for kind in KINDS}
    m, date = compare.machine(), datetime.date.today().isoformat()
    record = {
        "schema": "stempack.floats-record/1",
        "date": date,
        "machine": m,
        "commit": compare.git("rev-parse", "HEAD"),
        "dirty": bool(compare.git("status", "--porcelain", "--", ".", ":!bench/runs")),
        "numpy_version": np.__version__,
        "load_before": load,
        "scan": o.scan,
        "detector": o.detector,
        "data": data,
    }
    slug = re.sub(r"[^a-z0-9]+", "-", m["cpu"].lower()).strip("-")
    where = compare.new_record(o.out, f"{date}-{slug}-{m['cores']}c-floats")
    (where / "results.json").write_text(json.dumps(record, indent=1) + "\n")
    (where / "README.md").write_text(readme(record))
    print((where / "README.md").read_text())


if __name__ == "__main__":
    main()
