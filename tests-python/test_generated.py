"""Acquisitions from a generator that is not part of this project, when its folder is there (STEMPACK_TOOLS)."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np

import cli
import pack_oracle
from cli import ROOT
from test_pack import Temporary

CORPUS = pathlib.Path(os.environ.get("STEMPACK_CORPUS", ROOT.parent / "shared/corpus"))
TOOL = CORPUS.parent / "tools/make_acquisition.py"

GENERATED = (
    ("companion", ["--scan", "16", "16", "--detector", "48", "48", "--companion"], None, "u8"),
    ("u8", ["--scan", "8", "12", "--detector", "48", "48", "--dtype", "uint8"], "8x12", "u8"),
    ("u32", ["--scan", "8", "8", "--detector", "48", "48", "--dtype", "uint32"], "8x8", "u16"),
    ("bright", ["--scan", "8", "8", "--detector", "48", "48", "--bright", "4"], "8x8", "u16"),
    ("no_excluded", ["--scan", "8", "8", "--detector", "48", "48", "--dead", "0"], "8x8", "u8"),
    ("odd", ["--scan", "7", "9", "--detector", "100", "101", "--frames-per-file", "10"], "7x9", "u16"),
    ("small_blocks", ["--scan", "10", "10", "--detector", "64", "64", "--block", "512", "--frames-per-file", "37"], "10x10", "u16"),
)


@unittest.skipUnless(TOOL.exists(), f"the generator is absent ({TOOL})")
class Generated(Temporary):
    def check(self, arguments, scan, profile):
        where = self.folder / "source"
        subprocess.run([sys.executable, str(TOOL), str(where), *arguments], check=True)
        truth, sums = json.loads((where / "truth.json").read_text()), np.load(where / "truth.npz")
        master, out, scan = where / "scan_master.h5", self.folder / "packed.h5", ["--scan", scan] if scan else []
        answer = cli.run("pack", master, out, *scan)
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual(answer.json["profile"], profile)
        raw = pack_oracle.Pack(out).raw()
        self.assertEqual((list(raw.shape), str(raw.dtype)), (truth["shape"], truth["dtype"]))
        little = np.ascontiguousarray(raw.astype(raw.dtype.newbyteorder("<"))).tobytes()
        self.assertEqual(hashlib.sha256(little).hexdigest(), truth["logical_sha256"])
        self.assertEqual(pack_oracle.Pack(out).excluded, truth["dead_pixels"])
        for source, args in ((out, []), (master, scan)):
            for name in ("bf", "adf"):
                np.save(self.folder / "mask.npy", sums[f"{name}_mask"].astype(np.uint8))
                got, _ = cli.array("image", source, "--mask", self.folder / "mask.npy", *args)
                np.testing.assert_array_equal(got, sums[name])
            got, _ = cli.array("image", source, "--total", *args)
            np.testing.assert_array_equal(got, sums["total"])


for name, *rest in GENERATED:
    setattr(Generated, f"test_{name}", lambda self, rest=rest: self.check(*rest))


if __name__ == "__main__":
    unittest.main()
