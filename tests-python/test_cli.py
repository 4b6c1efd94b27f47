"""The documents that scripts rely on, the demo, and the pictures."""
import json
import struct
import unittest
import zlib

import h5py
import hdf5plugin  # noqa: F401  (registers the bitshuffle filter with h5py)
import numpy as np

import acquisitions
import cli
import pack_oracle
from acquisitions import counts, exclude
from test_pack import Temporary

ACQUISITION_KEYS = {"path", "format", "reader", "shape", "dtype", "axes", "quantities", "identity", "excluded_pixels", "members", "warnings"}


def png(path):
    """(width, height) of a PNG whose checksums hold."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG"
    at, size, ended = 8, None, False
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack_from(">I", data, at + 8 + length)[0], f"checksum of {kind}"
        if kind == b"IHDR":
            size = struct.unpack_from(">2I", body)
        ended = kind == b"IEND"
        at += 12 + length
    assert ended and at == len(data), "no end"
    return size


class Documents(Temporary):
    def setUp(self):
        super().setUp()
        raw = counts((8, 12), (20, 21))
        self.source = acquisitions.write(self.folder / "source", raw, exclude(raw, [7, 100]), frames_per_file=40, companion=True)

    def test_enrich(self):
        packed, copy = self.folder / "scan.h5", self.folder / "enriched.h5"
        seal = cli.run("pack", self.source.master, packed).json["output_sha256"]
        before = packed.read_bytes()
        cli.refused(self, cli.run("enrich", packed, copy, "--expect-sha256", "0" * 64, "--measure"), "digest_mismatch")
        self.assertFalse(copy.exists())
        answer = cli.run("enrich", packed, copy, "--expect-sha256", seal, "--disk", "9.5,10.25,4")
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual(packed.read_bytes(), before)
        data = copy.read_bytes()
        manifest = json.loads(data[24 : 24 + struct.unpack_from("<I", data, 8)[0]])
        pack_oracle.Pack(copy)
        self.assertEqual(manifest["detector_calibration"]["detector_center_px"], [9.5, 10.25])
        self.assertEqual(manifest["detector_calibration"]["source_identity_sha256"], manifest["source_identity_sha256"])
        sealed = cli.run("verify", copy, "--receipt", f"{copy}.receipt.json", "--require-seal", "--against", self.source.master)
        self.assertEqual(sealed.code, 0, repr(sealed))
        _, image = cli.array("image", copy, "--bf")
        self.assertEqual(image.json["detector"]["evidence"], "recorded")

    def test_inspect(self):
        answer = cli.run("inspect", self.source.master, "--digest")
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertIn("schema", answer.json)
        self.assertEqual(answer.json["issues"], [])
        (acquisition,) = answer.json["acquisitions"]
        self.assertLessEqual(ACQUISITION_KEYS, set(acquisition))
        self.assertEqual(acquisition["format"], "ARINA HDF5 + NXem metadata")
        self.assertEqual(acquisition["shape"], [8, 12, 20, 21])
        self.assertEqual(acquisition["dtype"], "uint16")
        self.assertEqual(acquisition["excluded_pixels"]["count"], 2)
        # Recorded as 0.05 nm and 0.04 nm.
        for name, step in (("scan_step_row", 0.5), ("scan_step_col", 0.4)):
            quantity = acquisition["quantities"][name]
            self.assertAlmostEqual(quantity["value"], step, places=12)
            self.assertEqual(quantity["unit"], "angstrom")
            self.assertIn("scan_em_metadata.h5", str(quantity["origin"]))
        self.assertNotIn("beam_energy", acquisition["quantities"], "nobody recorded it")
        import hashlib

        listed = {m["path"].rsplit("/")[-1]: m for m in acquisition["members"]}
        for path in self.source.members:
            self.assertEqual(listed[path.name]["bytes"], path.stat().st_size)
            self.assertEqual(listed[path.name]["sha256"], hashlib.sha256(path.read_bytes()).hexdigest())

    def test_inspecting_a_pack(self):
        out, answer = self.packed(self.source)
        inspected = cli.run("inspect", out, "--digest")
        self.assertEqual(inspected.code, 0, repr(inspected))
        (acquisition,) = inspected.json["acquisitions"]
        self.assertEqual(acquisition["format"], "Lossless Pack Format v1")
        self.assertEqual(acquisition["members"][0]["sha256"], answer["output_sha256"])

    def test_a_folder_gives_its_catalog(self):
        acquisitions.write(self.folder / "another", counts((2, 3), (5, 5)))
        answer = cli.run("inspect", self.folder)
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual(len(answer.json["acquisitions"]), 2)

    def test_every_verb_names_its_schema(self):
        out, answer = self.packed(self.source)
        documents = {"pack": answer}
        for verb, *args in (
            ("info", out),
            ("verify", out),
            ("inspect", self.source.master),
            ("image", out, "--total", "-o", self.folder / "a.npy"),
            ("com", out, "-o", self.folder / "b.npy"),
            ("mean", out, "-o", self.folder / "c.npy"),
            ("frame", out, 0, 0, "-o", self.folder / "d.npy"),
            ("unpack", out, self.folder / "e.npy"),
        ):
            done = cli.run(verb, *args)
            self.assertEqual(done.code, 0, repr(done))
            documents[verb] = done.json
        schemas = {verb: d.get("schema") for verb, d in documents.items()}
        self.assertTrue(all(s and s.startswith("stempack.") for s in schemas.values()), schemas)
        self.assertLessEqual({"profile", "shape", "shards", "excluded", "raw_access", "resident_bytes", "ratio"}, set(documents["info"]))
        self.assertLessEqual({"profile", "reason", "output_bytes", "output_sha256", "receipt", "peak_bytes"}, set(documents["pack"]))
        self.assertLessEqual({"sum", "dtype", "mode"}, set(documents["image"]))
        self.assertLessEqual({"shape", "dtype", "logical_sha256"}, set(documents["unpack"]))
        for check in documents["verify"]["checks"]:
            self.assertLessEqual({"name", "ok"}, set(check))

    def test_people_get_sentences_and_scripts_get_one_document(self):
        answer = cli.run("inspect", self.source.master, plain=True)
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertIsNone(answer.json, "text is for people")
        self.assertIn("8", answer.stdout)
        failed = cli.run("inspect", self.folder / "absent.h5", plain=True)
        self.assertEqual((failed.code, failed.stdout), (2, ""))
        self.assertTrue(failed.stderr.startswith("error["), failed.stderr)

    def test_pictures(self):
        out, _ = self.packed(self.source)
        for verb, *args in (("image", "--total"), ("image", "--bf"), ("image", "--adf"), ("com",), ("mean",), ("frame", 1, 2)):
            picture = self.folder / f"{verb}{args[:1]}.png"
            answer = cli.run(verb, out, *args, "-o", picture)
            self.assertEqual(answer.code, 0, repr(answer))
            width, height = png(picture)
            self.assertGreater(width * height, 0)


class Demo(Temporary):
    def test_the_demo_runs_the_whole_route(self):
        where = self.folder / "demo"
        answer = cli.run("demo", where)
        self.assertEqual(answer.code, 0, repr(answer))
        masters, packs, pictures = list(where.rglob("*_master.h5")), [], list(where.rglob("*.png"))
        self.assertEqual(len(masters), 1)
        self.assertGreaterEqual(len(pictures), 3)
        for picture in pictures:
            png(picture)
        for path in where.rglob("*.h5"):
            if path.read_bytes()[:8] == pack_oracle.PRELUDE:
                packs.append(path)
        self.assertEqual(len(packs), 1)
        # The sample as h5py and the public filter see it, against the pack as the oracle sees it.
        with h5py.File(masters[0], "r") as master:
            data = master["entry/data"]
            frames = np.concatenate([data[name][...] for name in sorted(data)])
            mask = master["entry/instrument/detector/detectorSpecific/pixel_mask"][...]
        pack = pack_oracle.Pack(packs[0])
        np.testing.assert_array_equal(pack.raw().reshape(frames.shape), frames)
        self.assertEqual(pack.excluded, np.flatnonzero(mask).tolist())
        self.assertGreater(len(pack.excluded), 0)
        # A second demo in the same place overwrites nothing.
        before = {p: p.stat().st_mtime_ns for p in where.rglob("*") if p.is_file()}
        again = cli.run("demo", where)
        self.assertEqual(again.code, 2, repr(again))
        self.assertEqual({p: p.stat().st_mtime_ns for p in where.rglob("*") if p.is_file()}, before)


if __name__ == "__main__":
    unittest.main()
