"""Image numbers of a sharded acquisition: swapped or copied shards are warned of, sound ones are not."""
import pathlib
import shutil
import tempfile
import unittest

import h5py
import numpy as np

import cli


class Numbering(unittest.TestCase):
    def codes(self, lows):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        with h5py.File(folder / "run_master.h5", "w") as master:
            for k, low in enumerate(lows, 1):
                name = f"run_data_{k:06d}.h5"
                with h5py.File(folder / name, "w") as shard:
                    data = np.full((2, 8, 8), k, "u2")
                    stack = shard.create_dataset("entry/data/data", data=data, chunks=(1, 8, 8))
                    if low is not None:
                        stack.attrs["image_nr_low"] = np.uint64(low)
                master[f"entry/data/data_{k:06d}"] = h5py.ExternalLink(name, "/entry/data/data")
        done = cli.run("inspect", folder / "run_master.h5", "--scan", "2x3")
        return [w["code"] for w in done.json["acquisitions"][0]["warnings"]]

    def test_broken_numbers_are_warned_of(self):
        for lows in ([3, 1, 5], [1, 1, 3], [1, 3, 7]):
            self.assertIn("image_numbers_broken", self.codes(lows), lows)

    def test_sound_or_absent_numbers_are_not(self):
        for lows in ([1, 3, 5], [101, 103, 105], [None, None, None], [1, None, 9]):
            self.assertNotIn("image_numbers_broken", self.codes(lows), lows)


if __name__ == "__main__":
    unittest.main()
