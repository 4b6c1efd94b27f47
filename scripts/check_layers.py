#!/usr/bin/env python3
"""Fails when a crate of the workspace depends on one that the table in ARCHITECTURE.md does not allow it.

Development dependencies are free. A crate that is not in the table fails too: its place has to be decided here.
"""
import json
import pathlib
import subprocess
import sys

ALLOWED = {
    "stempack-model": set(),
    "stempack-codecs": {"stempack-model"},
    "stempack-products": {"stempack-model"},
    "stempack-sources": {"stempack-model", "stempack-codecs"},
    "stempack-containers": {"stempack-model", "stempack-codecs"},
    "stempack-sample": {"stempack-model", "stempack-codecs"},
    "stempack-engine": {"stempack-model", "stempack-codecs", "stempack-containers", "stempack-products"},
    "stempack": {
        "stempack-model",
        "stempack-codecs",
        "stempack-sources",
        "stempack-containers",
        "stempack-products",
        "stempack-engine",
    },
    "stempack-cli": {"stempack", "stempack-sample"},
}
# What the fuzz targets do; nothing depends on it.
ALLOWED["stempack-fuzz"] = {"stempack-model", "stempack-codecs", "stempack-containers", "stempack-sources", "stempack-testkit"}
# Helps the tests of every crate, so nothing but tests may depend on it.
ALLOWED["stempack-testkit"] = set(ALLOWED) - {"stempack-cli", "stempack-fuzz"}


def violations(packages):
    """Sentences about what the table does not allow, for `cargo metadata` packages."""
    members = {p["name"] for p in packages}
    for package in packages:
        name = package["name"]
        allowed = ALLOWED.get(name)
        if allowed is None:
            yield f"{name} is not in the table of scripts/check_layers.py"
            continue
        for dependency in package["dependencies"]:
            if dependency["name"] in members and dependency["kind"] != "dev" and dependency["name"] not in allowed:
                yield f"{name} must not depend on {dependency['name']}"


def self_check():
    """The check itself must be able to fail."""
    edge = lambda name, kind=None: {"name": name, "kind": kind}
    model = {"name": "stempack-model", "dependencies": [edge("stempack-codecs")]}
    codecs = {"name": "stempack-codecs", "dependencies": [edge("stempack-model"), edge("stempack-sample", "dev")]}
    sample = {"name": "stempack-sample", "dependencies": []}
    stray = {"name": "stempack-stray", "dependencies": []}
    assert list(violations([model, codecs, sample])) == ["stempack-model must not depend on stempack-codecs"]
    assert len(list(violations([stray]))) == 1


def main():
    self_check()
    root = pathlib.Path(__file__).resolve().parents[1]
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    packages = json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    found = list(violations(packages))
    for sentence in found:
        print(f"layers: {sentence}", file=sys.stderr)
    if not found:
        print(f"layers: {len(packages)} crates depend only on what they may")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
