"""Mean dark frames, detector geometry in mrad and scalar images, each against NumPy and files written here."""
import base64
import hashlib
import json
import math
import os
import pathlib

import h5py
import numpy as np

import acquisitions
import cli
from test_pack import Temporary
from test_qem import header

CORPUS = pathlib.Path(os.environ.get("STEMPACK_CORPUS", cli.ROOT.parent / "shared/corpus")) / "real"
# CODATA 2022, as everybody may look it up: h, c, e and the rest energy of the electron.
H, C, E, REST = 6.62607015e-34, 299792458.0, 1.602176634e-19, 510998.95069


def frames(scan, seed, offset=0.0):
    """Float32 patterns with negative values, in EMPAD's detector shape."""
    rng = np.random.default_rng(seed)
    return (rng.normal(offset, 3, (*scan, 128, 128))).astype("<f4")


def empad(folder, name, array, exposure="1", inside=""):
    """A first-generation pair: 128 rows of samples and two of footer for every frame."""
    rows, cols = array.shape[:2]
    raw = folder / f"{name}.raw"
    footer = np.full(256, 0x7F7F7F7F, "<u4").tobytes()
    raw.write_bytes(b"".join(f.tobytes() + footer for f in array.reshape(-1, 128, 128)))
    xml = folder / f"{name}.xml"
    xml.write_text(
        f'<root><raw_file filename="{raw.name}"/><pix_x>{cols}</pix_x><pix_y>{rows}</pix_y>'
        f"<exposure_time>{exposure}</exposure_time>{inside}</root>"
    )
    return xml


def wavelength(volts):
    """In ångström."""
    return H * C / (E * math.sqrt(volts * (volts + 2 * REST))) * 1e10


class MeanDark(Temporary):
    def setUp(self):
        super().setUp()
        self.data, self.dark_frames = frames((3, 4), 1, 20), frames((1, 5), 2, 7)
        self.path = empad(self.folder, "data", self.data)
        self.dark = empad(self.folder, "dark", self.dark_frames)
        stack = self.dark_frames.reshape(-1, 128, 128)
        self.plane = (stack.astype("f8").sum(0) / len(stack)).astype("<f4")
        preimage = b"empad-mean-dark/v1\0" + stack.tobytes() + self.plane.tobytes()
        self.identity = hashlib.sha256(preimage).hexdigest()
        self.less = self.data - self.plane

    def check_products(self, path, args, said):
        """Every product is of `data - plane` in single precision, and says so."""
        frame, answer = cli.array("frame", path, 1, 2, *args)
        self.assertEqual(frame.tobytes(), self.less[1, 2].tobytes())
        self.assertEqual(answer.json["dark"], said)
        total, answer = cli.array("image", path, "--total", *args)
        want = [math.fsum(f.ravel()) for f in self.less.reshape(-1, 128, 128).astype("f8")]
        np.testing.assert_allclose(total.ravel(), want, rtol=2e-15)
        self.assertEqual(answer.json["dark"], said)
        mean, answer = cli.array("mean", path, *args)
        np.testing.assert_allclose(mean, self.less.astype("f8").sum((0, 1)) / 12, rtol=1e-11, atol=1e-12)
        self.assertEqual(answer.json["dark"], said)
        part, answer = cli.array("mean", path, "--scan-rect", "1:3,0:2", *args)
        np.testing.assert_allclose(part, self.less[1:3, :2].astype("f8").sum((0, 1)) / 4, rtol=1e-11, atol=1e-12)
        self.assertEqual((answer.json["dark"], answer.json["positions"]), (said, 4))
        stack, answer = cli.array("frame", path, "--at", "2,3", "--at", "0,1", *args)
        self.assertEqual(stack.tobytes(), self.less[[2, 0], [3, 1]].tobytes())
        self.assertEqual(answer.json["dark"], said)
        com, answer = cli.array("com", path, *args)
        y = np.arange(128.0)[:, None]
        f = self.less.astype("f8")
        np.testing.assert_allclose(com[0], (f * y).sum((2, 3)) / f.sum((2, 3)), rtol=1e-10)
        self.assertEqual(answer.json["dark"], said)

    def test_products_are_less_the_mean_and_raw_frames_are_not(self):
        said = {"schema": "empad-mean-dark/v1", "identity": self.identity, "source": str(self.dark)}
        self.check_products(self.path, ["--dark", self.dark], said)
        # Without the option nothing is subtracted and nothing said.
        frame, answer = cli.array("frame", self.path, 1, 2)
        self.assertEqual(frame.tobytes(), self.data[1, 2].tobytes())
        self.assertNotIn("dark", answer.json)
        cli.refused(self, self.frame(self.path, "--raw", "--dark", self.dark), "usage")

    def frame(self, path, *args):
        return cli.run("frame", path, 0, 0, *args, "-o", self.folder / "refused.npy")

    def test_a_dark_of_something_else_is_refused(self):
        np.save(self.folder / "dark.npy", self.dark_frames)
        longer = empad(self.folder, "longer", self.dark_frames, exposure="2")
        for dark, code in ((self.folder / "dark.npy", "dark_mismatch"), (longer, "dark_mismatch"), (self.path, "dark_mismatch")):
            with self.subTest(dark.name):
                cli.refused(self, self.frame(self.path, "--dark", dark), code)
                self.assertFalse((self.folder / "refused.npy").exists())
                refused = cli.run("pack", self.path, self.folder / "refused.qem", "--dark", dark)
                cli.refused(self, refused, code)
        counts = acquisitions.write(self.folder / "counts", acquisitions.counts((2, 2), (16, 16)), companion=True)
        packed, _ = self.packed(counts)
        for path in (counts.master, packed):
            cli.refused(self, self.frame(path, "--dark", self.dark), "dark_mismatch")
        cli.refused(self, cli.run("pack", counts.master, self.folder / "p.h5", "--dark", self.dark), "usage")

    def test_what_a_supplier_subtracted_is_not_subtracted_again(self):
        (self.folder / "README.txt").write_text("data.raw\n\tAlready background subtracted.\n")
        cli.refused(self, self.frame(self.path, "--dark", self.dark), "background_already_subtracted")
        (self.folder / "README.txt").write_text("dark.raw\n\tAlready background subtracted.\n")
        cli.refused(self, self.frame(self.path, "--dark", self.dark), "background_already_subtracted")

    def test_a_copy_carries_the_plane(self):
        copy, again = self.folder / "copy.qem", self.folder / "again.qem"
        answer = cli.run("pack", self.path, copy, "--dark", self.dark)
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual(answer.json["dark"]["identity"], self.identity)
        written = header(copy)
        background = written["empad"]["background"]
        self.assertEqual((background["schema"], background["identity"]), ("empad-mean-dark/v1", self.identity))
        self.assertEqual(base64.b64decode(background["values_float32_le"], validate=True), self.plane.tobytes())
        operations = {p["operation"]: p for p in written["scientific_metadata"]["processing"]}
        self.assertEqual(
            operations["mean_dark_subtraction"],
            {
                "operation": "mean_dark_subtraction",
                "changes_measurements": True,
                "scope": "display_and_products",
                "original_measurements_preserved": True,
            },
        )
        self.assertEqual(cli.run("pack", copy, again).code, 0)
        for path in (copy, again):
            with self.subTest(path.name):
                raw, _ = cli.array("unpack", path)
                self.assertEqual(raw.tobytes(), self.data.tobytes())
                working, answer = cli.array("unpack", path, "--working")
                self.assertEqual(working.tobytes(), self.less.tobytes())
                said = {"schema": "empad-mean-dark/v1", "identity": self.identity, "source": str(path)}
                self.assertEqual(answer.json["dark"], said)
                self.check_products(path, [], said)
                self.assertEqual(cli.run("verify", path, "--against", self.path).code, 0)
                raw, answer = cli.array("frame", path, 1, 2, "--raw")
                self.assertEqual(raw.tobytes(), self.data[1, 2].tobytes())
                self.assertNotIn("dark", answer.json)
                cli.refused(self, self.frame(path, "--dark", self.dark), "background_already_subtracted")
        plain = self.folder / "plain.qem"
        self.assertEqual(cli.run("pack", self.path, plain).code, 0)
        self.assertNotIn("background", header(plain)["empad"])
        cli.refused(self, cli.run("pack", plain, self.folder / "x.qem", "--dark", self.dark), "usage")


class Angles(Temporary):
    SHAPE = (2, 3, 20, 24)

    def image(self, path, *args):
        return cli.array("image", path, *args, "--unit", "mrad")

    def copy(self, *overrides):
        a = acquisitions.write(self.folder / "a", acquisitions.counts(self.SHAPE[:2], self.SHAPE[2:]), companion=True)
        out = self.folder / "a.qem"
        stated = [word for o in overrides for word in ("--override", o)]
        answer = cli.run("pack", a.master, out, *stated, "--evidence", "test", "--force")
        self.assertEqual(answer.code, 0, repr(answer))
        return a.raw, out

    def check(self, raw, path, steps, evidence, used):
        y, x = np.mgrid[: raw.shape[2], : raw.shape[3]]
        d = np.hypot((y - 9) * steps[0], (x - 11.5) * steps[1])
        for args, inside, radii in (
            (["--disk", "9,11.5,3.1"], d <= 3.1, {"radius": 3.1}),
            (["--annulus", "9,11.5,1.3,4.7"], (d > 1.3) & (d <= 4.7), {"inner": 1.3, "outer": 4.7}),
        ):
            self.assertGreater(np.abs(d[..., None] - list(radii.values())).min(), 1e-6, "no pixel lies on an edge")
            got, answer = self.image(path, *args)
            np.testing.assert_allclose(got, raw[..., inside].astype("f8").sum(-1), rtol=1e-12)
            detector = answer.json["detector"]
            self.assertEqual((detector["unit"], detector["pixels"]), ("mrad", int(inside.sum())))
            self.assertEqual((detector["step_evidence"], detector["step_from"]), (evidence, used))
            np.testing.assert_allclose(detector["step"], steps, rtol=1e-12)
            self.assertEqual({k: detector[k] for k in radii}, radii)

    def test_each_axis_by_its_own_step(self):
        raw, path = self.copy("detector_angle_row=0.5", "detector_angle_col=0.31")
        names = ["overrides.detector_angle_row", "overrides.detector_angle_col"]
        self.check(raw, path, [0.5, 0.31], "recorded", names)

    def test_recorded_reciprocal_steps_need_a_beam_energy(self):
        raw = frames((1, 2), 4)
        inside = (
            "<iom_measurements><calibrated_pixelsize>{}</calibrated_pixelsize>{}</iom_measurements>"
        )
        volts = "<source.get_voltage>300000.0</source.get_voltage>"
        per_metre = 1.826537060227288e-10
        both = empad(self.folder, "both", raw, inside=inside.format(per_metre, volts))
        inspected = cli.run("inspect", both).json["acquisitions"][0]["quantities"]
        self.assertIn("detector_reciprocal_row", inspected)
        step = inspected["detector_reciprocal_row"]["value"] * wavelength(300e3) * 1e3
        names = ["detector_reciprocal_row", "detector_reciprocal_col", "beam_energy"]
        y, x = np.mgrid[:128, :128]
        chosen = np.hypot(y - 64, x - 60) * step <= 20.5 * step
        got, answer = self.image(both, "--disk", f"64,60,{20.5 * step!r}")
        self.assertEqual(answer.json["detector"]["pixels"], int(chosen.sum()))
        self.assertEqual((answer.json["detector"]["step_evidence"], answer.json["detector"]["step_from"]), ("derived", names))
        np.testing.assert_allclose(answer.json["detector"]["step"], [step, step], rtol=1e-12)
        want = [math.fsum(f[chosen]) for f in raw.reshape(-1, 128, 128).astype("f8")]
        np.testing.assert_allclose(got.ravel(), want, rtol=1e-12)

        alone = empad(self.folder, "alone", raw, inside=inside.format(per_metre, ""))
        error = self.refuse(alone, "--disk", "64,60,1")
        self.assertIn("beam energy", error["message"])

    def refuse(self, path, *args):
        answer = cli.run("image", path, *args, "--unit", "mrad", "-o", self.folder / "refused.npy")
        self.assertFalse((self.folder / "refused.npy").exists())
        return cli.refused(self, answer, "no_detector_angle")

    def test_nothing_recorded_is_refused(self):
        a = acquisitions.write(self.folder / "n", acquisitions.counts((2, 2), (16, 16)), companion=True)
        packed, _ = self.packed(a)
        for path in (a.master, packed):
            self.assertTrue(self.refuse(path, "--annulus", "8,8,1,2")["hint"])
        for other in (["--total"], ["--bf"]):
            answer = cli.run("image", a.master, *other, "--unit", "mrad", "-o", self.folder / "refused.npy")
            cli.refused(self, answer, "usage")
        same, _ = cli.array("image", a.master, "--disk", "8,8,3", "--unit", "px")
        np.testing.assert_array_equal(same, cli.array("image", a.master, "--disk", "8,8,3")[0])


class ScalarImages(Temporary):
    def velox(self, counts):
        rows, cols = counts.shape
        text = {
            "BinaryResult": {
                "Detector": "HAADF",
                "PixelUnitX": "m",
                "PixelUnitY": "m",
                "PixelSize": {"height": "1e-10", "width": "2e-10"},
            },
            "Scan": {"ScanSize": {"height": str(rows), "width": str(cols)}},
            "Optics": {"FullScanFieldOfView": {"y": repr(rows * 1e-10), "x": repr(cols * 2e-10)}},
        }
        document = np.frombuffer(json.dumps(text).encode().ljust(2000, b"\0"), np.uint8)
        path = self.folder / "image.emd"
        with h5py.File(path, "w") as file:
            group = file.create_group("Data/Image/0123abc")
            group["Data"], group["Metadata"] = counts[..., None], document[:, None]
        return path

    def test_the_numbers_are_written_as_they_are(self):
        for dtype in ("u1", "<u2"):
            counts = np.random.default_rng(5).integers(0, np.iinfo(dtype).max, (40, 50), dtype=dtype, endpoint=True)
            path = self.velox(counts)
            got, answer = cli.array("image", path, "--total")
            self.assertEqual((got.dtype, got.tobytes()), (counts.dtype, counts.tobytes()))
            self.assertEqual((answer.json["sum"], answer.json["mode"]), (int(counts.sum(dtype="u8")), "recorded"))
            picture = self.folder / f"{dtype[-2:]}.png"
            answer = cli.run("image", path, "--total", "-o", picture)
            self.assertEqual(answer.code, 0, repr(answer))
            self.assertIn("scale_bar", answer.json["picture"])

    def test_there_are_no_frames(self):
        path = self.velox(np.ones((4, 5), "u1"))
        out = self.folder / "out.npy"
        cli.refused(self, cli.run("image", path, "--bf", "-o", out), "scalar_image")
        cli.refused(self, cli.run("image", path, "--total", "--dark", path, "-o", out), "scalar_image")
        for words in (["frame", path, 0, 0, "-o", out], ["unpack", path, out], ["mean", path, "-o", out], ["com", path, "-o", out]):
            with self.subTest(words[0]):
                cli.refused(self, cli.run(*words), "not_4d")
        self.assertFalse(out.exists())

    def test_a_file_of_the_instrument(self):
        path = CORPUS / "velox/STEM_HAADF_Diffraction_Micro.emd"
        if not path.exists():
            self.skipTest(f"{path} is not there")
        got, _ = cli.array("image", path, "--total")
        with h5py.File(path) as file:
            (image,) = file["Data/Image"].values()
            np.testing.assert_array_equal(got, image["Data"][..., 0])
