"""Arrays of every sample type through the command, against NumPy and exact sums of floats (math.fsum)."""
import hashlib
import math
import pathlib
import tempfile
import unittest

import numpy as np

import cli

TYPES = ["u1", "<u2", "<u4", "<u8", "i1", "<i2", "<i4", "<i8", "<f4", "<f8"]
SHAPE = (3, 4, 6, 5)


def samples(dtype, seed=3):
    """Small values, extremes where the sums still fit, and floats of many magnitudes."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        values = rng.normal(size=SHAPE) * 2.0 ** rng.integers(-30, 30, SHAPE)
        values[0, 0] = np.where(rng.random(SHAPE[2:]) < 0.5, -0.0, 1e-40)
    else:
        info = np.iinfo(dtype)
        limit = min(info.max, 2**52)
        values = rng.integers(max(info.min, -limit), limit, SHAPE, dtype=np.int64, endpoint=True)
    return values.astype(dtype)


class Types(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def written(self, array):
        path = self.folder / "a.npy"
        np.save(path, array)
        return path

    def bounded(self, got, lists):
        """Within one unit of the last place of the exact sum, and what compensation itself may lose: n²·2⁻¹⁰⁶ Σ|x|.
        The terms of moments are rounded before, as the rule says."""
        for value, terms in zip(np.ravel(got), lists, strict=True):
            terms = [float(t) for t in terms]
            exact = math.fsum(terms)
            allowed = math.ulp(exact) + len(terms) ** 2 * 2.0**-106 * math.fsum(map(abs, terms))
            self.assertLessEqual(abs(value - exact), allowed)

    def test_every_type(self):
        for dtype in TYPES:
            with self.subTest(dtype):
                a = samples(dtype)
                path = self.written(a)
                back, answer = cli.array("unpack", path)
                self.assertEqual(back.dtype, a.dtype)
                self.assertEqual(back.tobytes(), a.tobytes())
                self.assertEqual(answer.json["logical_sha256"], hashlib.sha256(a.tobytes()).hexdigest())
                self.assertEqual(answer.json["dtype"], a.dtype.name)
                named = b"quantem.gpu.empad-tensor/v1\0float32-le\0" + np.array(a.shape, "<u8").tobytes()
                named += hashlib.sha256(a.tobytes()).hexdigest().encode()
                identity = hashlib.sha256(named).hexdigest() if dtype == "<f4" else None
                self.assertEqual(answer.json.get("tensor_identity_sha256"), identity)
                part = cli.array("unpack", path, "--region", "0:1,0:4")[1]
                self.assertNotIn("tensor_identity_sha256", part.json)
                frame, answer = cli.array("frame", path, 0, 0)
                self.assertEqual((frame.dtype, frame.tobytes()), (a.dtype, a[0, 0].tobytes()))

                image, answer = cli.array("image", path, "--disk", "2,2,1.5")
                y, x = np.mgrid[: SHAPE[2], : SHAPE[3]]
                inside = (y - 2) ** 2 + (x - 2) ** 2 <= 1.5**2
                total, _ = cli.array("image", path, "--total")
                pattern, _ = cli.array("mean", path, "--sum")
                com, _ = cli.array("com", path)
                self.assertEqual(answer.json["dtype"], image.dtype.name)
                if a.dtype.kind == "f":
                    self.assertEqual({image.dtype, pattern.dtype}, {np.dtype("f8")})
                    d = a.astype("f8")
                    self.bounded(image, [f[inside] for f in d.reshape(-1, *SHAPE[2:])])
                    self.bounded(pattern, d.reshape(12, -1).T)
                    totals = [math.fsum(f.ravel()) for f in d.reshape(-1, *SHAPE[2:])]
                    rows = [math.fsum((f * y).ravel()) for f in d.reshape(-1, *SHAPE[2:])]
                    np.testing.assert_allclose(com[0].ravel(), np.divide(rows, totals), rtol=1e-12)
                else:
                    wide = np.uint64 if a.dtype.kind == "u" else np.int64
                    d = a.astype(wide)
                    np.testing.assert_array_equal(image.astype(wide), d[..., inside].sum(-1, dtype=wide))
                    np.testing.assert_array_equal(pattern, d.sum((0, 1), dtype=wide))
                    self.assertEqual(pattern.dtype, wide)
                    self.assertIn(image.dtype.name, ["uint32", "uint64"] if wide is np.uint64 else ["int64"])
                    self.assertEqual(answer.json["sum"], int(d[..., inside].astype(object).sum()))
                    moment = (d * y.astype(wide)).sum((2, 3), dtype=wide)
                    totals = total.astype("f8")
                    want = np.divide(moment.astype("f8"), totals, out=np.zeros_like(totals), where=totals != 0)
                    np.testing.assert_array_equal(com[0], want)

    def test_what_is_not_finite(self):
        a = np.ones((1, 3, 2, 2), "<f4")
        a[0, 0, 0, 0], a[0, 1, 0, 0], a[0, 2] = np.nan, -np.inf, 0
        a.view("<u4")[0, 0, 0, 0] = 0x7FA00123
        path = self.written(a)
        frame, answer = cli.array("frame", path, 0, 0)
        self.assertEqual((frame.tobytes(), answer.json["sum"]), (a[0, 0].tobytes(), "NaN"))
        image, answer = cli.array("image", path, "--total")
        np.testing.assert_array_equal(image, [[np.nan, -np.inf, 0]])
        self.assertEqual(answer.json["sum"], "NaN")
        com, answer = cli.array("com", path)
        self.assertTrue(np.isnan(com).all())
        self.assertEqual((answer.json["positions_without_counts"], answer.json["mean"]), (3, [None, None]))
        for verb in (["image", path, "--total"], ["mean", path], ["com", path], ["frame", path, 0, 0]):
            with self.subTest(verb):
                self.assertEqual(cli.run(*verb, "-o", self.folder / f"{verb[0]}.png").code, 0)


if __name__ == "__main__":
    unittest.main()
