#!/usr/bin/env python3
"""Measures the engine by itself: questions to residents in both forms, detectors dragged over a large scan, packs reopened,
originals made resident.

  engine.py --pack U8PACK --pack-u16 U16PACK --small SMALLPACK --original MASTER [--examples target/release/examples]

The packs are of one acquisition of 256 x 256 positions; SMALLPACK is repeated until a scan of 512 x 512 is full. Build the
examples first: `cargo build --release --examples -p stempack-engine -p stempack`. Every example compares its answers in the
same run, and nothing is written when any differs. Writes bench/runs/DATE-MACHINE-engine/.
"""
import argparse
import datetime
import json
import pathlib
import re
import subprocess

import compare


def example(folder, name, *arguments):
    done = subprocess.run([folder / name, *map(str, arguments)], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows(forms):
    for f in forms:
        yield (
            f"| {f['profile']} | {f['threads']} | {f['layout']} | `{f['kernel']}` | {f['bf_ms']:.2f} "
            f"| {f['bf_counts_per_s'] / 1e9:.1f} | {f['moved_ms']:.3f} | {f['bf_ms'] / f['moved_ms']:.1f} | {f['frame_ms']:.3f} | {f['mean_ms']:.1f} "
            f"| {f['moments_ms']:.1f} | {f['mean_to_bf_of_all_pixels']:.2f} | {f['moments_to_bf_of_all_pixels']:.2f} |"
        )


def readme(r):
    m, original, drag = r["machine"], r["original"], r["drag"]
    first = r["forms"][0]
    gib = drag["logical_bytes"] / 2**30
    lines = [
        f"# {r['date']}, {m['cpu']}: the engine",
        "",
        f"* {m['cores']} cores, {(m['memory_bytes'] or 0) / 2**30:.0f} GiB, {m['system']}",
        f"* commit {r['commit']}{' with changes' if r['dirty'] else ''}",
        "* cache: warm; times are the least of several, wall clock",
        "* equality: every form and kernel gives the same answers; dragged images equal images summed anew; the resident "
        "made from an original was compared with it frame by frame",
        "",
        f"## Questions to a resident, {first['scan']} scan, {first['detector']} detector, {first['bf_pixels']} pixels in the "
        "bright field",
        "",
        "| pack | threads | layout | kernel | BF ms | Gcounts/s | moved ms | BF / moved | frame ms | mean ms | moments ms "
        "| mean / BF of all | moments / BF of all |",
        "|---|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        *rows(r["forms"]),
        "",
        f"## Dragging over {drag['scan'][0]} x {drag['scan'][1]} positions ({gib:.0f} GiB of counts in "
        f"{drag['resident_bytes'] / 1e9:.2f} GB), {drag['threads']} threads",
        "",
        "| detector | pixels | updates per second | median ms | p95 ms | max ms | rebase ms |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {n.upper()} | {d['mask_pixels']} | {d['updates_per_s']:.0f} | {d['p50_ms']:.2f} | {d['p95_ms']:.2f} "
            f"| {d['max_ms']:.2f} | {d['rebase_ms']:.1f} |"
            for n, d in drag["drag"].items()
        ),
        "",
        "## Reopened, verified",
        "",
        "Rates are parts of what the threads would reach if they did nothing but hash the file's bytes: least / median.",
        "",
        "| pack | file MB | threads | SHA-256 GB/s | copied ms | of SHA-256 | mapped ms | of SHA-256 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {p['profile']} | {p['file_bytes'] / 1e6:.0f} | {p['threads']} | {p['sha256_bytes_per_s'] / 1e9:.2f} "
            + "".join(
                f"| {p[f'{w}_ms'][0]:.0f} / {p[f'{w}_ms'][1]:.0f} "
                f"| {p[f'{w}_of_sha256'][0]:.2f} / {p[f'{w}_of_sha256'][1]:.2f} "
                for w in ("copied", "mapped")
            )
            + "|"
            for p in r["reopened"]
        ),
        "",
        "## From an original, without a file",
        "",
        f"{original['shape']}: {original['resident_ms']:.0f} ms to a resident of {original['resident_bytes'] / 1e6:.0f} MB, "
        f"{original['resident_to_decode']:.2f} times decoding alone in windows of 512 frames ({original['decode_ms']:.0f} ms), "
        f"{original['resident_to_decode_small_windows']:.2f} times in windows of 64 "
        f"({original['decode_small_windows_ms']:.0f} ms), "
        f"{original['threads']} threads.",
        "",
        "How it is measured is written in `bench/engine.py` and the examples that it runs.",
    ]
    return "\n".join(lines) + "\n"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--examples", type=pathlib.Path, default=compare.ROOT / "target/release/examples")
    for name in ("--pack", "--pack-u16", "--small", "--original"):
        a.add_argument(name, type=pathlib.Path, required=True)
    a.add_argument("--out", type=pathlib.Path, default=compare.ROOT / "bench/runs")
    o = a.parse_args()
    forms = []
    for pack in (o.pack, o.pack_u16):
        for threads in (1, 2):
            forms += example(o.examples, "resident_speed", pack, threads)
    [drag] = example(o.examples, "drag", o.small, 512, 512, 2)
    reopened = [example(o.examples, "reopen", pack, 2, 15)[0] for pack in (o.pack, o.pack_u16)]
    [original] = example(o.examples, "original_resident", o.original, 2, 9)
    answers = [*forms, *drag["drag"].values(), *reopened, original]
    if not all(answer["equal"] for answer in answers):
        raise SystemExit("an answer differs")
    m, date = compare.machine(), datetime.date.today().isoformat()
    record = {
        "schema": "stempack.engine-record/1",
        "date": date,
        "machine": m,
        "commit": compare.git("rev-parse", "HEAD"),
        "dirty": bool(compare.git("status", "--porcelain", "--", ".", ":!bench/runs")),
        "forms": forms,
        "drag": drag,
        "reopened": reopened,
        "original": original,
    }
    slug = re.sub(r"[^a-z0-9]+", "-", m["cpu"].lower()).strip("-")
    where = compare.new_record(o.out, f"{date}-{slug}-{m['cores']}c-engine")
    (where / "results.json").write_text(json.dumps(record, indent=1) + "\n")
    (where / "README.md").write_text(readme(record))
    print((where / "README.md").read_text())


if __name__ == "__main__":
    main()
