"""What stempack must not do: guess, narrow, overwrite, or leave half a file behind."""
import hashlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import h5py
import hdf5plugin
import numpy as np

import acquisitions
import cli
from acquisitions import counts, exclude
from cli import ROOT
from test_pack import Temporary


class Sources(Temporary):
    def refuse(self, source, *args, **expect):
        """Packing is refused with advice, and nothing is left where the result would be."""
        out = self.folder / "out" / "packed.h5"
        out.parent.mkdir(exist_ok=True)
        answer = cli.run("pack", getattr(source, "master", source), out, *args)
        document = cli.refused(self, answer, **expect)
        self.assertEqual(list(out.parent.iterdir()), [])
        return document

    def test_counts_that_no_profile_holds(self):
        raw = counts((4, 8), (9, 9), np.uint32)
        raw[2, 3, 4, 5] = 70000
        source = acquisitions.write(self.folder / "source", raw)
        document = self.refuse(source, *source.scan_argument)
        self.assertIn("70000", document["message"].replace(",", "").replace("\u202f", ""))
        self.assertTrue(document.get("hint"), "no advice")

    def test_wide_excluded_values_that_change(self):
        raw = counts((4, 8), (9, 9), np.uint32)
        mask = exclude(raw, [40])
        raw[1, 1].flat[40] = 1 << 20
        source = acquisitions.write(self.folder / "source", raw, mask)
        self.assertTrue(self.refuse(source, *source.scan_argument).get("hint"), "no advice")

    def test_a_profile_that_does_not_hold(self):
        raw = counts((4, 8), (9, 9))
        raw[0, 0, 0, 0] = 256
        source = acquisitions.write(self.folder / "source", raw)
        self.refuse(source, "--profile", "u8", *source.scan_argument)
        source = acquisitions.write(self.folder / "odd", counts((3, 7), (9, 9)))
        self.refuse(source, "--profile", "u8", *source.scan_argument)

    def test_no_scan_shape(self):
        source = acquisitions.write(self.folder / "source", counts((6, 6), (9, 9)))
        document = self.refuse(source, code="missing_scan_shape")
        self.assertTrue(document["candidates"], "the likely shapes are named")
        self.assertIn("36", document["message"])
        self.assertIn("--scan", document["hint"])
        described = cli.run("inspect", source.master)
        self.assertEqual(described.code, 0, repr(described))

    def test_a_scan_shape_of_another_size(self):
        source = acquisitions.write(self.folder / "source", counts((6, 6), (9, 9)))
        self.refuse(source, "--scan", "6x7")

    def test_a_scan_shape_against_one_recorded_in_the_data(self):
        source = acquisitions.write(self.folder / "source", counts((4, 9), (9, 9)))
        with h5py.File(source.data_files[0], "r+") as file:
            file["entry/data/data"].attrs["scan_shape"] = [4, 9]
        document = self.refuse(source, "--scan", "6x6", kind="Conflict")
        for shape in ("4x9", "6x6"):
            self.assertIn(shape, document["message"].replace("×", "x").replace(" ", "") + str(document.get("candidates")))

    def test_a_companion_of_another_shape_gives_nothing_and_is_reported(self):
        source = acquisitions.write(self.folder / "source", counts((4, 9), (9, 9)), companion=True)
        answer = cli.run("inspect", source.master, "--scan", "6x6")
        self.assertEqual(answer.code, 0, repr(answer))
        (acquisition,) = answer.json["acquisitions"]
        self.assertEqual(acquisition["shape"], [6, 6, 9, 9])
        self.assertEqual(acquisition["quantities"], {})
        self.assertEqual(acquisition["format"], "ARINA HDF5")
        self.assertTrue(acquisition["warnings"])

    def test_a_missing_data_file(self):
        raw = counts((6, 6), (9, 9))
        source = acquisitions.write(self.folder / "source", raw, frames_per_file=12)
        source.data_files[1].unlink()
        document = self.refuse(source, "--scan", "6x6")
        self.assertIn("scan_data_000002.h5", document["message"])
        # And not a smaller scan from the files that are left.
        self.refuse(source, "--scan", "4x6")

    def test_a_damaged_chunk_names_its_frame(self):
        raw = counts((6, 6), (32, 32))
        source = acquisitions.write(self.folder / "source", raw)
        with h5py.File(source.data_files[0], "r") as file:
            chunk = file["entry/data/data"].id.get_chunk_info(20)
        data = bytearray(source.data_files[0].read_bytes())
        # The uncompressed size at the head of the chunk.
        data[chunk.byte_offset + 7] ^= 0xFF
        source.data_files[0].write_bytes(data)
        document = self.refuse(source, "--scan", "6x6")
        self.assertIn("20", document["message"])
        got, _ = cli.array("frame", source.master, 3, 1, "--raw", "--scan", "6x6")
        np.testing.assert_array_equal(got, raw[3, 1])

    def test_a_float_stack(self):
        source = acquisitions.write(self.folder / "source", counts((6, 6), (9, 9)))
        with h5py.File(source.data_files[0], "w") as file:
            file["entry/data/data"] = np.zeros((36, 9, 9), np.float32)
        self.refuse(source, "--scan", "6x6")

    def test_a_pixel_mask_of_another_shape(self):
        source = acquisitions.write(self.folder / "source", counts((6, 6), (9, 9)), np.zeros((9, 10), np.uint32))
        self.refuse(source, "--scan", "6x6")

    def test_no_acquisition_at_all(self):
        for name, content in (("empty.h5", b""), ("text.h5", b"not a container\n" * 100), ("absent.h5", None)):
            path = self.folder / name
            if content is not None:
                path.write_bytes(content)
            with self.subTest(name):
                for verb in ("inspect", "info", "verify"):
                    cli.refused(self, cli.run(verb, path))


class Destinations(Temporary):
    def setUp(self):
        super().setUp()
        raw = counts((8, 8), (9, 9))
        self.source = acquisitions.write(self.folder / "source", raw)
        self.out = self.folder / "packed.h5"

    def pack(self, *args):
        return cli.run("pack", self.source.master, self.out, *self.source.scan_argument, *args)

    def test_an_existing_destination_is_kept(self):
        self.out.write_bytes(b"somebody's work")
        cli.refused(self, self.pack())
        self.assertEqual(self.out.read_bytes(), b"somebody's work")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["packed.h5", "source"])

    def test_an_existing_receipt_is_kept(self):
        receipt = pathlib.Path(f"{self.out}.receipt.json")
        receipt.write_text("somebody's receipt")
        cli.refused(self, self.pack())
        self.assertEqual(receipt.read_text(), "somebody's receipt")
        self.assertFalse(self.out.exists())

    def test_force_replaces(self):
        self.out.write_bytes(b"old")
        answer = self.pack("--force")
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual(hashlib.sha256(self.out.read_bytes()).hexdigest(), answer.json["output_sha256"])

    def test_an_existing_array_is_kept(self):
        self.assertEqual(self.pack().code, 0)
        out = self.folder / "bf.npy"
        out.write_bytes(b"somebody's array")
        cli.refused(self, cli.run("image", self.out, "--total", "-o", out))
        self.assertEqual(out.read_bytes(), b"somebody's array")

    def test_a_source_is_never_a_destination(self):
        before = self.source.master.read_bytes()
        answer = cli.run("pack", self.source.master, self.source.master, *self.source.scan_argument, "--force")
        cli.refused(self, answer)
        self.assertEqual(self.source.master.read_bytes(), before)

    def test_a_contradicting_extension_is_a_usage_error(self):
        answer = cli.run("pack", self.source.master, self.folder / "packed.qem", "--profile", "u16", *self.source.scan_argument)
        cli.refused(self, answer, kind="Usage")

    def test_usage_errors_are_documents_too(self):
        cli.refused(self, cli.run("pack"), kind="Usage")
        cli.refused(self, cli.run("no-such-verb"), kind="Usage")
        cli.refused(self, cli.run("frame", self.source.master, "99", "0", *self.source.scan_argument, "-o", self.folder / "f.npy"))


def large_acquisition(folder, frames, side):
    """A source of many frames that is quick to write: one encoded chunk, stored again and again."""
    folder.mkdir()
    frame = np.random.default_rng(5).poisson(1.0, (side, side)).astype(np.uint16)
    with h5py.File(folder / "scan_data_000001.h5", "w") as file:
        dataset = file.create_dataset(
            "entry/data/data", (frames, side, side), np.uint16, chunks=(1, side, side), **hdf5plugin.Bitshuffle(cname="lz4")
        )
        dataset[0] = frame
        _, chunk = dataset.id.read_direct_chunk((0, 0, 0))
        for i in range(1, frames):
            dataset.id.write_direct_chunk((i, 0, 0), chunk)
    with h5py.File(folder / "scan_master.h5", "w") as master:
        master["entry/data/data_000001"] = h5py.ExternalLink("scan_data_000001.h5", "/entry/data/data")
    return folder / "scan_master.h5", frame


class Interruptions(Temporary):
    def test_an_interrupted_pack_leaves_nothing(self):
        master, _ = large_acquisition(self.folder / "source", 16384, 192)
        out = self.folder / "out"
        out.mkdir()
        command = [str(cli.BINARY), "pack", str(master), str(out / "packed.h5"), "--scan", "128x128", "--profile", "u16", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 60
            while process.poll() is None and not list(out.iterdir()) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertIsNone(process.poll(), "it ended before it could be interrupted")
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 130, stdout + stderr)
        self.assertEqual(list(out.iterdir()), [])

    def test_a_killed_pack_publishes_nothing(self):
        master, _ = large_acquisition(self.folder / "source", 16384, 192)
        out = self.folder / "out"
        out.mkdir()
        command = [str(cli.BINARY), "pack", str(master), str(out / "packed.h5"), "--scan", "128x128", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while process.poll() is None and not list(out.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertIsNone(process.poll(), "it ended before it could be killed")
        process.kill()
        process.wait()
        self.assertFalse((out / "packed.h5").exists())
        self.assertFalse((out / "packed.h5.receipt.json").exists())
        # A later run is not stopped by what the killed one left.
        small = acquisitions.write(self.folder / "small", counts((8, 8), (9, 9)))
        answer = cli.run("pack", small.master, out / "packed.h5", *small.scan_argument)
        self.assertEqual(answer.code, 0, repr(answer))

    def test_packing_and_loading_stay_within_the_budget(self):
        master, frame = large_acquisition(self.folder / "source", 16384, 192)
        packed = self.folder / "packed.h5"
        budget = 256 << 20
        code, peak, document = measured("pack", master, packed, "--scan", "128x128", "--max-memory", "256M")
        self.assertEqual(code, 0, document)
        self.assertLessEqual(peak, budget, "peak resident memory of packing 1.2 GB")
        self.assertLessEqual(document["peak_bytes"], budget)
        self.assertGreater(document["peak_bytes"], 1 << 20)

        resident = cli.run("info", packed).json["resident_bytes"]
        image = self.folder / "total.npy"
        code, peak, _ = measured("image", packed, "--total", "-o", image)
        self.assertEqual(code, 0)
        self.assertLessEqual(peak, resident + (64 << 20), "peak resident memory of an image from the pack")
        np.testing.assert_array_equal(np.load(image), np.full((128, 128), frame.sum()))


def measured(*args):
    """(exit code, peak resident bytes of the process, JSON document)."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-IS", ROOT / "scripts/measure.py", report.name, cli.BINARY, *args, "--json"]
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        found = json.load(report)
    return found["exit"], found["peak_rss_bytes"], json.loads(done.stdout)


if __name__ == "__main__":
    unittest.main()
