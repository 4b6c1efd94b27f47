"""The oracle itself, against the shared corpus of containers, which neither it nor stempack wrote."""
import json
import os
import pathlib
import unittest

import numpy as np

import pack_oracle
from cli import ROOT

CORPUS = pathlib.Path(os.environ.get("STEMPACK_CORPUS", ROOT.parent / "shared/corpus")) / "pack"


class LZ4Block(unittest.TestCase):
    def test_literals_matches_and_overlap(self):
        # "abcd" as literals, then a match of 8 at distance 4, then the literal "e".
        self.assertEqual(pack_oracle.lz4_block(b"\x44abcd\x04\x00\x10e", 13), b"abcdabcdabcde")
        # A run: one literal, then a match at distance 1 of 4 + 15 + 6 bytes, nothing after it.
        self.assertEqual(pack_oracle.lz4_block(b"\x1fz\x01\x00\x06", 26), b"z" * 26)

    def test_damaged_blocks_are_refused(self):
        for block, size in (
            (b"\x44abcd\x00\x00\x10e", 13),  # distance 0
            (b"\x44abcd\x05\x00\x10e", 13),  # distance before the output
            (b"\x44abcd\x04\x00\x10e", 12),  # too long
            (b"\x44abcd\x04\x00\x10e", 14),  # too short
            (b"\x44abc", 13),  # literals run off
            (b"\x44abcd\x04", 13),  # half a distance
        ):
            with self.assertRaises(pack_oracle.Refused):
                pack_oracle.lz4_block(block, size)


class Bits(unittest.TestCase):
    def test_least_significant_bit_first(self):
        # Three-bit numbers 1, 2, 3, … from bit 0 upwards; number 10 spans the first two words.
        numbers = np.arange(1, 33) % 8
        stream = sum(int(n) << 3 * i for i, n in enumerate(numbers))
        words = np.array([[stream >> 32 * i & 0xFFFFFFFF for i in range(3)]], np.uint32)
        np.testing.assert_array_equal(pack_oracle.unpack_bits(words, 3, 32), [numbers])


@unittest.skipUnless(CORPUS.is_dir(), f"the corpus is absent ({CORPUS})")
class Corpus(unittest.TestCase):
    def setUp(self):
        self.fixtures = json.loads((CORPUS / "fixtures.json").read_text())

    def test_valid_files_give_the_expected_arrays(self):
        seen = 0
        for name, fixture in self.fixtures["valid"].items():
            with self.subTest(name):
                if name.startswith("ext_"):
                    with self.assertRaises(pack_oracle.Refused):
                        pack_oracle.Pack(CORPUS / fixture["file"])
                    continue
                pack = pack_oracle.Pack(CORPUS / fixture["file"])
                np.testing.assert_array_equal(pack.working(), np.load(CORPUS / fixture["working"]))
                self.assertEqual(pack.raw_access, fixture["raw_access_mode_as_swift_names_it"])
                self.assertEqual(pack.excluded, fixture["excluded"])
                if fixture["raw"]:
                    np.testing.assert_array_equal(pack.raw(), np.load(CORPUS / fixture["raw"]))
                else:
                    with self.assertRaises(pack_oracle.Refused):
                        pack.raw()
                seen += 1
        self.assertGreater(seen, 0)

    def test_malformed_files_are_refused(self):
        for name, fixture in self.fixtures["malformed"].items():
            with self.subTest(name), self.assertRaises(pack_oracle.Refused):
                pack_oracle.Pack(CORPUS / fixture["file"]).working()


if __name__ == "__main__":
    unittest.main()
