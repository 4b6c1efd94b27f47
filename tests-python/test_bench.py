"""`bench`: every phase named or said to be absent, every answer compared, the cache never guessed."""
import unittest

import numpy as np

import acquisitions
import cli
from acquisitions import counts, exclude
from test_pack import Temporary

PACK_QUESTIONS = {"rebase", "moved", "adf_rebase", "adf_moved", "total", "mean", "com", "frame"}


class Bench(Temporary):
    def measured(self, path, *args):
        answer = cli.run("bench", path, *args)
        self.assertEqual(answer.code, 0, repr(answer))
        document = answer.json
        self.assertTrue(document["equal"])
        self.assertTrue(all(c["ok"] for c in document["checks"]))
        absent = {name for name, ms in document["phases_ms"].items() if ms is None}
        self.assertLessEqual(absent, document["phase_notes"].keys(), "an absent phase says why")
        for name, q in document["interaction"].items():
            self.assertTrue(0 < q["p50_ms"] <= q["p95_ms"] <= q["max_ms"], name)
        return document, absent

    def write(self, raw):
        return acquisitions.write(self.folder / "source", raw, exclude(raw, [17]), frames_per_file=200, companion=True)

    def test_packs_of_both_profiles_the_copy_and_the_original(self):
        source = self.write(counts((16, 24), (18, 35), np.uint16) % 200)
        u8, u16, qem = (self.folder / n for n in ("u8.h5", "u16.h5", "copy.qem"))
        for path, args in ((u8, ("--profile", "u8")), (u16, ("--profile", "u16")), (qem, ())):
            answer = cli.run("pack", source.master, path, *args)
            self.assertEqual(answer.code, 0, repr(answer))
        for path, profile, missing in (
            (u8, "u8", {"private_upload", "decode"}),
            (u16, "u16", {"private_upload", "descriptor_preparation"}),
        ):
            document, absent = self.measured(path)
            self.assertEqual((document["profile"], absent), (profile, missing))
            self.assertEqual(document["interaction"].keys(), PACK_QUESTIONS)
            names = [c["name"] for c in document["checks"]]
            self.assertEqual(names[:2], ["scalar_kernel", "moved_detector"])
            self.assertIn("definitions", names)
            self.assertGreater(document["updates"]["delta"], 0)
            self.assertEqual(document["file_bytes"], path.stat().st_size)
            self.assertGreater(document["resident_bytes"], 0)
        for path, profile in ((qem, "qem"), (source.master, "original")):
            document, absent = self.measured(path)
            self.assertEqual(document["profile"], profile)
            self.assertLessEqual({"load", "resident_ready", "private_upload"}, absent)
            self.assertIsNone(document["resident_bytes"])
        self.assertIn("image_by_frames", [c["name"] for c in self.measured(qem)[0]["checks"]])

    def test_a_pack_is_measured_in_the_map_of_its_file(self):
        source = self.write(counts((64, 65), (18, 35), np.uint16) % 200)
        u8, u16 = self.folder / "u8.h5", self.folder / "u16.h5"
        for path, profile in ((u8, "u8"), (u16, "u16")):
            self.assertEqual(cli.run("pack", source.master, path, "--profile", profile).code, 0)
        copied, mapped = self.measured(u8)[0], self.measured(u8, "--mapped")[0]
        self.assertEqual(copied["mapped_bytes"], 0)
        self.assertTrue(0 < mapped["mapped_bytes"] < mapped["resident_bytes"], mapped["mapped_bytes"])
        self.assertEqual(self.measured(u16, "--mapped")[0]["mapped_bytes"], 0)
        for other in (source.master, self.folder / "copy.qem"):
            if other.suffix == ".qem":
                self.assertEqual(cli.run("pack", source.master, other).code, 0)
            cli.refused(self, cli.run("bench", other, "--mapped"), "not_a_pack")

    def test_a_cache_is_called_what_it_was_shown_to_be(self):
        source = self.write(counts((8, 8), (18, 35)))
        path = self.folder / "pack.h5"
        self.assertEqual(cli.run("pack", source.master, path).code, 0)
        warm, _ = self.measured(path)
        self.assertIn(warm["cache_state"], ("warm", "unknown"))
        dropped, _ = self.measured(path, "--drop-cache")
        self.assertIn(dropped["cache_state"], ("dropped", "unknown"))
        for document in (warm, dropped):
            self.assertTrue(document["cache_detail"])


if __name__ == "__main__":
    unittest.main()
