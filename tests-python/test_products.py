"""Parts of the scan, stacks of frames, files of results and what every result says of its source, against NumPy and
h5py."""
import hashlib
import json
import pathlib
import struct
import tempfile
import unittest
import zlib

import h5py
import numpy as np

import acquisitions
import cli
import schemas

SCAN, DETECTOR = (7, 9), (24, 20)


def tiff(path):
    """Pages of an uncompressed float TIFF, and the description of the first: (arrays, text)."""
    data = path.read_bytes()
    assert data[:4] == b"II*\0", data[:4]
    at, pages, description = struct.unpack_from("<I", data, 4)[0], [], None
    while at:
        tags = {}
        for i in range(struct.unpack_from("<H", data, at)[0]):
            tag, kind, count, value = struct.unpack_from("<HHII", data, at + 2 + 12 * i)
            size = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8}[kind] * count
            place = value if size > 4 else at + 2 + 12 * i + 8
            form = {2: f"{count}s", 3: f"<{count}H", 4: f"<{count}I"}.get(kind)
            tags[tag] = struct.unpack_from(form, data, place) if form else None
        assert tags[259] == (1,) and tags[258] == (32,) and tags[339] == (3,), tags
        raw = b"".join(data[o : o + n] for o, n in zip(tags[273], tags[279]))
        pages.append(np.frombuffer(raw, "<f4").reshape(tags[257][0], tags[256][0]))
        description = tags[270][0].rstrip(b"\0").decode("ascii") if 270 in tags else description
        at = struct.unpack_from("<I", data, at + 2 + 12 * struct.unpack_from("<H", data, at)[0])[0]
    return np.stack(pages), description


def png_texts(path):
    data, at, found = path.read_bytes(), 8, {}
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"iTXt":
            key, rest = data[at + 8 : at + 8 + size].split(b"\0", 1)
            packed, text = rest[0], rest[2:].split(b"\0", 2)[2]
            found[key.decode()] = (zlib.decompress(text) if packed else text).decode()
        at += 12 + size
    return found


class Products(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        raw = acquisitions.counts(SCAN, DETECTOR, seed=11)
        raw[3, 4] += 3
        mask = acquisitions.exclude(raw, [5, 44, 479], 250)
        cls.acquisition = acquisitions.write(cls.folder / "a", raw, mask, frames_per_file=20, companion=True)
        cls.raw, cls.working = cls.acquisition.raw, cls.acquisition.working
        cls.sources = {"original": cls.acquisition.master}
        for profile in ("u16", "qem"):
            cls.sources[profile] = cls.folder / f"scan.{'qem' if profile == 'qem' else 'pack.h5'}"
            answer = cli.run("pack", cls.acquisition.master, cls.sources[profile], "--profile", profile)
            assert answer.code == 0, answer
        # The u8 profile takes whole tiles of 32 scan positions.
        wide = acquisitions.counts((8, 12), DETECTOR, seed=12)
        cls.wide = acquisitions.write(cls.folder / "w", wide, acquisitions.exclude(wide, [5, 44, 479], 250))
        cls.wide_pack = cls.folder / "wide.pack.h5"
        answer = cli.run("pack", cls.wide.master, cls.wide_pack, "--profile", "u8", *cls.wide.scan_argument)
        assert answer.code == 0, answer

    def each(self):
        """(name, file, raw array, working array) of every kind of source."""
        for name, path in self.sources.items():
            yield name, path, self.raw, self.working
        yield "u8", self.wide_pack, self.wide.raw, self.wide.working

    def out(self, name):
        path = self.folder / f"{self.id().rsplit('.', 1)[-1]}-{name}"
        path.unlink(missing_ok=True)
        return path

    def test_parts_of_the_scan(self):
        for name, path, _, working in self.each():
            rows, cols = working.shape[:2]
            r, c = np.mgrid[:rows, :cols]
            chosen = np.random.default_rng(5).random((rows, cols)) < 0.4
            np.save(self.out("mask.npy"), chosen)
            lone = np.zeros((rows, cols), np.uint8)
            lone[-1, -1] = 1
            np.save(self.out("lone.npy"), lone)
            parts = {
                ("--scan-rect", "2:5,1:8"): (slice(2, 5), slice(1, 8)),
                ("--scan-rect", f"0:{rows},0:{cols}"): (slice(None), slice(None)),
                ("--scan-rect", "6:7,0:1"): (slice(6, 7), slice(0, 1)),
                ("--scan-circle", "3,4,2"): (r - 3) ** 2 + (c - 4) ** 2 <= 4,
                ("--scan-circle", "-1.5,2.5,3.25"): (r + 1.5) ** 2 + (c - 2.5) ** 2 <= 3.25**2,
                ("--scan-mask", self.folder / "test_parts_of_the_scan-mask.npy"): chosen,
                ("--scan-mask", self.folder / "test_parts_of_the_scan-lone.npy"): lone.astype(bool),
            }
            for words, part in parts.items():
                with self.subTest(source=name, part=words):
                    frames = working[part].reshape(-1, *DETECTOR).astype(np.uint64)
                    got, answer = cli.array("mean", path, "--sum", *words)
                    np.testing.assert_array_equal(got, frames.sum(0))
                    self.assertEqual(got.dtype, np.uint64)
                    self.assertEqual(answer.json["positions"], len(frames))
                    self.assertEqual(answer.json["sum"], int(frames.sum()))
                    mean, answer = cli.array("mean", path, *words)
                    np.testing.assert_array_equal(mean, frames.sum(0) / len(frames))
                    kind = {"--scan-rect": "rectangle", "--scan-circle": "circle", "--scan-mask": "mask"}[words[0]]
                    self.assertEqual(answer.json["region"]["kind"], kind)
        _, answer = cli.array("mean", self.sources["u16"])
        self.assertEqual(answer.json["region"], {"kind": "whole"})

    def test_parts_that_are_none(self):
        wrong = self.out("wrong.npy")
        np.save(wrong, np.ones(DETECTOR, bool))
        zeros, twos, floats = self.out("zeros.npy"), self.out("twos.npy"), self.out("floats.npy")
        np.save(zeros, np.zeros(SCAN, bool))
        np.save(twos, np.full(SCAN, 2, np.uint8))
        np.save(floats, np.ones(SCAN))
        for words, code in [
            (("--scan-rect", "2:2,0:4"), "region_outside"),
            (("--scan-rect", "0:8,0:4"), "region_outside"),
            (("--scan-rect", "3:1,0:4"), "region_outside"),
            (("--scan-circle", "50,50,3"), "region_empty"),
            (("--scan-circle", "0.5,0.5,0.5"), "region_empty"),
            (("--scan-circle", "1,1,-1"), "region_geometry"),
            (("--scan-circle", "nan,1,1"), "region_geometry"),
            (("--scan-mask", wrong), "scan_mask_shape"),
            (("--scan-mask", zeros), "region_empty"),
            (("--scan-mask", twos), "mask_not_binary"),
            (("--scan-mask", floats), "unsupported_npy"),
            (("--scan-mask", self.folder / "absent.npy"), "io"),
            (("--scan-rect", "0:1,0:1", "--scan-circle", "1,1,1"), "usage"),
            (("--scan-circle", "1,1"), "usage"),
        ]:
            for name in ("original", "u16", "qem"):
                with self.subTest(words, source=name):
                    out = self.out("x.npy")
                    cli.refused(self, cli.run("mean", self.sources[name], *words, "-o", out), code)
                    self.assertFalse(out.exists())

    def test_floats_are_summed_by_the_rule_in_order(self):
        rng = np.random.default_rng(8)
        cube = (rng.standard_normal((5, 6, 8, 7)) * 10.0 ** rng.integers(-9, 9, (5, 6, 8, 7))).astype(np.float32)
        path = self.out("floats.npy")
        np.save(path, cube)
        r, c = np.mgrid[:5, :6]
        chosen = cube[(r - 2) ** 2 + (c - 3) ** 2 <= 4].astype(np.float64)
        total, lost = np.zeros((8, 7)), np.zeros((8, 7))
        for frame in chosen:
            after = total + frame
            large = np.abs(total) >= np.abs(frame)
            lost += np.where(large, (total - after) + frame, (frame - after) + total)
            total = after
        got, _ = cli.array("mean", path, "--sum", "--scan-circle", "2,3,2")
        np.testing.assert_array_equal(got, total + lost)

    def test_stacks_of_frames(self):
        places = [(6, 8), (0, 0), (3, 4), (0, 0), (6, 7)]
        words = [w for r, c in places for w in ("--at", f"{r},{c}")]
        for name, path, raw, working in self.each():
            with self.subTest(name):
                got, answer = cli.array("frame", path, *words)
                want = np.stack([working[p] for p in places])
                np.testing.assert_array_equal(got, want)
                self.assertEqual(answer.json["positions"], [list(p) for p in places])
                self.assertEqual(answer.json["values"], "working")
                self.assertNotIn("row", answer.json)
                got, answer = cli.array("frame", path, *words, "--raw")
                np.testing.assert_array_equal(got, np.stack([raw[p] for p in places]))
                one, _ = cli.array("frame", path, "--at", "3,4")
                self.assertEqual(one.shape, (1, *DETECTOR))
                single, answer = cli.array("frame", path, 3, 4)
                np.testing.assert_array_equal(single, one[0])
                self.assertEqual((answer.json["row"], answer.json["col"]), (3, 4))
        path, out = self.sources["u16"], self.out("x.npy")
        cli.refused(self, cli.run("frame", path, "--at", "0,0", "--at", "7,0", "-o", out), "out_of_range")
        cli.refused(self, cli.run("frame", path, "--at", "0", "-o", out), "usage")
        cli.refused(self, cli.run("frame", path, 0, "-o", out), "usage")
        cli.refused(self, cli.run("frame", path, 0, 1, "--at", "0,0", "-o", out), "usage")
        cli.refused(self, cli.run("frame", path, *words, "-o", self.out("x.png")), "output_format")
        answer = cli.run("frame", self.sources["original"], *words, "-o", out, "--max-memory", "4K")
        cli.refused(self, answer, "over_budget")

    VERBS = {
        ("image", "--bf"): ["bf"],
        ("image", "--adf", "--fft"): ["adf_spectrum"],
        ("image", "--annulus", "12,10,2,6"): ["annulus"],
        ("com",): ["com_row", "com_col"],
        ("dpc", "--rotation", "12"): ["dpc_row", "dpc_col"],
        ("dpc", "--integrate"): ["idpc"],
        ("mean", "--scan-circle", "2,2,2"): ["mean_pattern"],
        ("mean", "--sum"): ["pattern_sum"],
        ("frame", "1", "2"): ["frame"],
        ("frame", "--at", "1,2", "--at", "0,0"): ["frames"],
    }

    def test_every_product_in_every_file(self):
        for name, path, _, _ in self.each():
            for (verb, *words), images in self.VERBS.items():
                with self.subTest(source=name, verb=verb, words=words):
                    want, npy = cli.array(verb, path, *words)
                    out = self.out("x.h5")
                    answer = cli.run(verb, path, *words, "-o", out)
                    self.assertEqual(answer.code, 0, answer)
                    self.assertEqual(set(answer.json), set(npy.json))
                    with h5py.File(out) as file:
                        self.assertEqual(set(file), {"images", "metadata"})
                        self.assertEqual(set(file["images"]), set(images))
                        planes = [file["images"][i][()] for i in images]
                        metadata = json.loads(file["metadata"][()])
                    schemas.check(metadata)
                    for plane, wanted in zip(planes, want if len(images) > 1 else [want]):
                        np.testing.assert_array_equal(plane, wanted)
                        self.assertEqual(plane.dtype, want.dtype)
                    about = {"shape": list(planes[0].shape), "dtype": str(want.dtype)}
                    self.assertEqual(metadata["images"], {i: about for i in images})
                    told = {**metadata["result"], "software": metadata["software"], "source": metadata["source"]}
                    seen = {k: v for k, v in answer.json.items() if k not in ("output", "shape", "dtype")}
                    self.assertEqual(told, seen)

                    out = self.out("x.tif")
                    answer = cli.run(verb, path, *words, "-o", out)
                    self.assertEqual((answer.code, answer.json["file_dtype"]), (0, "float32"), answer)
                    pages, text = tiff(out)
                    np.testing.assert_array_equal(pages, want.reshape(pages.shape).astype(np.float32))
                    self.assertEqual(json.loads(text), metadata)
                    if images != ["frames"]:
                        out = self.out("x.png")
                        answer = cli.run(verb, path, *words, "-o", out)
                        self.assertEqual(answer.code, 0, answer)
                        self.assertEqual(json.loads(png_texts(out)["Metadata"]), metadata)

    def test_provenance_beside_a_result(self):
        path = self.sources["u16"]
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "bf.npy"
            beside = out.with_name("bf.npy.json")
            answer = cli.run("image", path, "--bf", "-o", out, "--provenance")
            self.assertEqual((answer.code, answer.json["provenance"]), (0, str(beside)), answer)
            document = json.loads(beside.read_text())
            schemas.check(document)
            array = np.load(out)
            self.assertEqual(document["images"], {"bf": {"shape": list(array.shape), "dtype": str(array.dtype)}})
            self.assertEqual(document["result"]["detector"], answer.json["detector"])
            self.assertEqual(document["source"], answer.json["source"])
            # Neither of the two is replaced, and neither appears without the other.
            out.unlink()
            cli.refused(self, cli.run("image", path, "--bf", "-o", out, "--provenance"), "destination_exists")
            self.assertFalse(out.exists())
            out.write_bytes(b"mine")
            beside.unlink()
            cli.refused(self, cli.run("image", path, "--bf", "-o", out, "--provenance"), "destination_exists")
            self.assertEqual([p.name for p in out.parent.iterdir()], ["bf.npy"])
            self.assertEqual(cli.run("image", path, "--bf", "-o", out, "--provenance", "--force").code, 0)
            np.testing.assert_array_equal(np.load(out), array)
            self.assertEqual(json.loads(beside.read_text()), document)
            # A picture that cannot be made leaves nothing.
            answer = cli.run("image", path, "--disk", "nan,0,1", "-o", out.with_name("x.npy"), "--provenance")
            cli.refused(self, answer, "mask_geometry")
            self.assertEqual(sorted(p.name for p in out.parent.iterdir()), ["bf.npy", "bf.npy.json"])

    def test_hdf5_is_published_whole_and_replaces_nothing(self):
        out = self.out("x.h5")
        out.write_bytes(b"mine")
        path = self.sources["u16"]
        cli.refused(self, cli.run("com", path, "-o", out), "destination_exists")
        self.assertEqual(out.read_bytes(), b"mine")
        self.assertEqual(cli.run("com", path, "-o", out, "--force").code, 0)
        first = out.read_bytes()
        self.assertEqual(cli.run("com", path, "-o", out, "--force").code, 0)
        self.assertEqual(out.read_bytes(), first, "the same result gives the same bytes")
        with h5py.File(out) as file:
            self.assertEqual(file["images/com_row"].shape, SCAN)
        self.assertEqual([p.name for p in self.folder.iterdir() if "partial" in p.name], [])

    def test_what_results_say_of_their_source(self):
        identity = self.acquisition.identity
        step = {"value": 0.5, "unit": "angstrom"}
        mask_digest = acquisitions.little_endian_sha256(self.acquisition.mask)
        for name, path in self.sources.items():
            for verb, *words in (("image", "--total"), ("com",), ("dpc",), ("mean",), ("frame", "0", "0")):
                with self.subTest(source=name, verb=verb):
                    _, answer = cli.array(verb, path, *words)
                    document, source = answer.json, answer.json["source"]
                    self.assertEqual((document["values"], document["fft_transforms"]), ("working", 0))
                    self.assertRegex(document["software"], r"^stempack \d+\.\d+\.\d+$")
                    self.assertEqual(source["shape"], list(self.raw.shape))
                    self.assertEqual(source["dtype"], "uint16")
                    self.assertEqual(source["excluded_pixels"], {"count": 3, "mask_sha256": mask_digest})
                    self.assertEqual({k: source["quantities"]["scan_step_row"][k] for k in step}, step)
                    self.assertTrue(source["quantities"]["scan_step_row"]["origin"])
                    # What nobody recorded is absent, not a default.
                    self.assertEqual(set(source["quantities"]), {"scan_step_row", "scan_step_col"})
                    self.assertNotIn("bright_field_disk", source)
                    if name == "original":
                        self.assertNotIn("source_identity_sha256", source)
                        sizes = {pathlib.Path(m["path"]).name: m["bytes"] for m in source["members"]}
                        for member in self.acquisition.members:
                            self.assertEqual(sizes[member.name], member.stat().st_size)
                        self.assertEqual(source["checks"], ["unchanged"])
                        self.assertEqual(source["integrity"], "size and times of every member")
                        self.assertFalse(source["scan"]["stated"])
                    else:
                        self.assertEqual(source["source_identity_sha256"], identity)
                        self.assertIn("decoded", source["checks"])
                        self.assertFalse(source["sealed"])
                        self.assertEqual(source["equality"], "not compared with the original")
        _, answer = cli.array("mean", self.acquisition.master, "--digest")
        source = answer.json["source"]
        self.assertEqual(source["source_identity_sha256"], identity)
        self.assertEqual(source["checks"], ["unchanged", "digest"])
        self.assertEqual(source["integrity"], "sha256 of every member")
        for member in source["members"]:
            data = pathlib.Path(member["path"]).read_bytes()
            self.assertEqual(member["sha256"], hashlib.sha256(data).hexdigest())
        for name in ("u16", "qem"):
            path = self.sources[name]
            _, answer = cli.array("frame", path, 0, 0, "--digest")
            self.assertEqual(answer.json["source"]["file_sha256"], hashlib.sha256(path.read_bytes()).hexdigest())
        stack = self.out("stack.npy")
        np.save(stack, self.raw.reshape(-1, *DETECTOR))
        _, answer = cli.array("com", stack, "--scan", "7x9")
        self.assertTrue(answer.json["source"]["scan"]["stated"])

    def test_a_measured_disk_is_recorded_and_then_preferred(self):
        pack, kept, turned = self.sources["u16"], self.out("kept.pack.h5"), self.out("turned.pack.h5")
        measured = cli.run("disk", pack)
        self.assertEqual(measured.code, 0, measured)
        self.assertEqual(measured.json["evidence"], "measured")
        self.assertNotIn("recorded", measured.json)
        # The centre and radius once more, by the documented rule.
        mean = self.working.astype(np.int64).sum((0, 1))
        admitted = self.acquisition.mask == 0
        medians = np.zeros(DETECTOR)
        for r in range(DETECTOR[0]):
            for c in range(DETECTOR[1]):
                near = (slice(max(r - 1, 0), r + 2), slice(max(c - 1, 0), c + 2))
                medians[r, c] = np.median(mean[near][admitted[near]])
        above = np.where(2 * medians > medians.max(), medians, 0)
        y, x = np.mgrid[: DETECTOR[0], : DETECTOR[1]]
        centre = [(above * y).sum() / above.sum(), (above * x).sum() / above.sum()]
        np.testing.assert_allclose(measured.json["centre"], centre, rtol=1e-12)
        radius = np.sqrt(np.count_nonzero(above) / np.pi)
        np.testing.assert_allclose(measured.json["bright_field_radius"], radius, rtol=1e-12)

        sha = hashlib.sha256(pack.read_bytes()).hexdigest()
        answer = cli.run("enrich", pack, kept, "--expect-sha256", sha, "--measure")
        self.assertEqual(answer.code, 0, answer)
        again = cli.run("disk", kept)
        self.assertEqual((again.json["evidence"], again.json["method"]), ("recorded", "mean-diffraction-half-maximum"))
        for key in ("centre", "bright_field_radius"):
            self.assertEqual(again.json[key], measured.json[key])
            self.assertEqual(answer.json["bright_field_disk"][key], measured.json[key])
        self.assertNotIn("measured", again.json)
        images = [cli.array("image", p, "--bf") for p in (pack, kept)]
        np.testing.assert_array_equal(images[0][0], images[1][0])
        evidence = [i[1].json["detector"]["evidence"] for i in images]
        self.assertEqual(evidence, ["measured", "recorded"])
        self.assertEqual(images[1][1].json["source"]["bright_field_disk"]["centre"], measured.json["centre"])

        # A stated disk and turn: products take them, a measurement shows both, and the turn stays when the disk is
        # measured anew.
        sha = hashlib.sha256(kept.read_bytes()).hexdigest()
        words = ["--disk", "11,9,4.5", "--rotation", "-30.5", "--exchanged"]
        self.assertEqual(cli.run("enrich", kept, turned, "--expect-sha256", sha, *words).code, 0)
        both = cli.run("disk", turned, "--measure").json
        self.assertEqual((both["evidence"], both["centre"], both["method"]), ("recorded", [11, 9], "stated-by-user"))
        self.assertEqual(both["measured"]["centre"], measured.json["centre"])
        _, answer = cli.array("dpc", turned)
        want = {"degrees": -30.5, "exchanged": True, "evidence": "recorded"}
        self.assertEqual(answer.json["rotation"], want)
        sha, anew = hashlib.sha256(turned.read_bytes()).hexdigest(), self.out("anew.pack.h5")
        answer = cli.run("enrich", turned, anew, "--expect-sha256", sha, "--measure")
        found = answer.json["bright_field_disk"]
        self.assertEqual(found["centre"], measured.json["centre"])
        self.assertEqual((found["rotation_degrees"], found["components_exchanged"]), (-30.5, True))
        self.assertEqual(found["method"], "mean-diffraction-half-maximum")
        sha = hashlib.sha256(pack.read_bytes()).hexdigest()
        answer = cli.run("enrich", pack, self.out("x.pack.h5"), "--expect-sha256", sha, "--rotation", "3")
        cli.refused(self, answer, "usage")

    def test_the_automatic_turn_takes_no_order(self):
        answer = cli.run("dpc", self.sources["u16"], "--rotation", "auto", "--exchanged", "-o", self.out("x.npy"))
        cli.refused(self, answer, "usage")

    def test_a_dark_scan_has_no_disk(self):
        path = self.out("dark.npy")
        np.save(path, np.zeros((2, 3, 8, 8), np.uint8))
        cli.refused(self, cli.run("disk", path), "no_disk")


if __name__ == "__main__":
    unittest.main()
