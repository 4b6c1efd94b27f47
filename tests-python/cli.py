"""Runs the stempack binary as a person or a script would, and nothing else."""
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

import schemas

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = pathlib.Path(os.environ.get("STEMPACK_BIN", ROOT / "target/debug/stempack"))
KINDS = {
    "NotThisFormat",
    "Unsupported",
    "Malformed",
    "Conflict",
    "Integrity",
    "Limit",
    "Changed",
    "Cancelled",
    "Io",
    "Usage",
}


class Answer:
    """Exit code, JSON document (or None), and both streams."""

    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr
        try:
            self.json = json.loads(stdout)
        except ValueError:
            self.json = None

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.stdout[-600:]}\nstderr: {self.stderr[-600:]}"


def run(*args, timeout=300, plain=False):
    """`stempack ARGS --json`, whose document must fit its published schema; with `plain`, without `--json`."""
    if not BINARY.exists():
        raise FileNotFoundError(f"{BINARY} is not built; run `make test`, or name a binary in STEMPACK_BIN")
    command = [str(BINARY), *map(str, args)] + ([] if plain else ["--json"])
    r = subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    answer = Answer(r.returncode, r.stdout, r.stderr)
    if not plain:
        if answer.json is None:
            raise AssertionError(f"{' '.join(command)} printed no JSON document\n{answer!r}")
        schemas.check(answer.json)
    return answer


def array(verb, source, *args):
    """`verb SOURCE ARGS -o OUT.npy` (for `unpack`, OUT stands second) → (array, answer). Fails when it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.npy"
        answer = run(verb, source, out, *args) if verb == "unpack" else run(verb, source, *args, "-o", out)
        if answer.code != 0:
            raise AssertionError(f"{verb} {source} {args}: {answer!r}")
        return np.load(out, allow_pickle=False), answer


def refused(test, answer, code=None, kind=None):
    """Asserts a refusal: exit 2, and an error document on stdout beside the sentence on stderr."""
    test.assertEqual(answer.code, 2, repr(answer))
    document = answer.json
    test.assertIsInstance(document, dict, repr(answer))
    test.assertEqual(document.get("schema"), "stempack.error/1")
    test.assertIn(document.get("kind"), KINDS)
    test.assertTrue(document.get("message"), repr(answer))
    test.assertIn(f"error[{document['code']}]: ", answer.stderr)
    if code is not None:
        test.assertEqual(document["code"], code)
    if kind is not None:
        test.assertEqual(document["kind"], kind)
    return document
