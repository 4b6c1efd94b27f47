"""The oracle itself, against the shared corpus of `.qem` files, which neither it nor stempack wrote."""
import json
import os
import pathlib
import unittest

import numpy as np

import qem_oracle
from cli import ROOT

CORPUS = pathlib.Path(os.environ.get("STEMPACK_CORPUS", ROOT.parent / "shared/corpus")) / "qem"
# Headers that plain Python reads and strict readers refuse, or rules that the oracle leaves to others.
NOT_ITS_BUSINESS = {"header", "metadata", "overrides", "documents", "processing", "sample"}


class Streams(unittest.TestCase):
    def test_an_entropy_coded_stream_by_hand(self):
        # One value, coded backwards from the final state 2^23 as the format describes.
        frequency, start = qem_oracle.MODELS["frequencies"][63][5], sum(qem_oracle.MODELS["frequencies"][63][:5])
        state, tail = 1 << 23, b""
        while state >= frequency << 21:
            state, tail = state >> 8, bytes([state & 255]) + tail
        state = 1024 * (state // frequency) + state % frequency + start
        stream = state.to_bytes(4, "little") + tail
        self.assertEqual(qem_oracle.column(63, stream, 1), [5])
        for damaged in (stream + b"\0", stream[:-1], b"\0\0\0\0" + tail):
            with self.assertRaises(qem_oracle.Refused):
                qem_oracle.column(63, damaged, 1)

    def test_sparse_literal_constant_zero(self):
        self.assertEqual(list(qem_oracle.column(252, bytes([0x82, 0x00, 0x80, 0x01]), 4)), [0, 3, 0, 1])
        self.assertEqual(list(qem_oracle.column(254, b"\1\0\0\2", 2)), [1, 512])
        self.assertEqual(list(qem_oracle.column(255, b"\7\0", 3)), [7, 7, 7])
        self.assertEqual(list(qem_oracle.column(253, b"", 2)), [0, 0])
        for selector, stream in ((252, b"\0\2"), (252, b"\0\0\0\0"), (253, b"\0"), (254, b"\0\0"), (255, b"\0"), (100, b"")):
            with self.assertRaises(qem_oracle.Refused):
                qem_oracle.column(selector, stream, 2)


@unittest.skipUnless(CORPUS.is_dir(), f"the corpus is absent ({CORPUS})")
class Corpus(unittest.TestCase):
    def setUp(self):
        self.manifest = json.loads((CORPUS / "manifest.json").read_text())

    def test_accepted_files_give_the_expected_arrays(self):
        for case in self.manifest["valid"]:
            with self.subTest(case["name"]):
                found, expected = qem_oracle.Qem(CORPUS / case["file"]).array(), np.load(CORPUS / case["npy"])
                self.assertEqual(found.dtype, expected.dtype)
                self.assertEqual(found.shape, expected.shape)
                self.assertEqual(found.tobytes(), expected.tobytes())

    def test_files_with_faulty_bytes_are_refused(self):
        refused = 0
        for case in self.manifest["malformed"]:
            if case["group"] in NOT_ITS_BUSINESS or case["name"].startswith("amb-") or case["name"] == "scaled-undeclared":
                continue
            with self.subTest(case["name"]), self.assertRaises((qem_oracle.Refused, KeyError, TypeError, ValueError)):
                qem_oracle.Qem(CORPUS / case["file"]).array()
            refused += 1
        self.assertGreater(refused, 80)


if __name__ == "__main__":
    unittest.main()
