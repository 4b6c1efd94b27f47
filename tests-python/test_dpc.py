"""Deflections, integrated phases and spectra through the command, against NumPy."""
import pathlib
import tempfile
import unittest

import numpy as np

import cli


def deflections(counts):
    """Centre of mass minus its scan mean, one rounding at the end."""
    counts = counts.astype(np.float64)
    total = counts.sum((2, 3))
    rows, cols = np.arange(counts.shape[2])[:, None], np.arange(counts.shape[3])
    moments = [(counts * rows).sum((2, 3)), (counts * cols).sum((2, 3))]
    centres = [np.divide(m, total, out=np.zeros_like(m), where=total > 0) for m in moments]
    return np.stack([c - c.mean() for c in centres])


def turned(field, degrees, exchanged=False):
    row, col = field
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    if exchanged:
        return np.stack([cos * row + sin * col, cos * col - sin * row])
    return np.stack([cos * row - sin * col, sin * row + cos * col])


def integrated(field):
    k_row, k_col = np.fft.fftfreq(field.shape[1])[:, None], np.fft.fftfreq(field.shape[2])
    square = k_row**2 + k_col**2
    square[0, 0] = 1
    phase = -0.25j * (k_row * np.fft.fft2(field[0]) + k_col * np.fft.fft2(field[1])) / square
    phase[0, 0] = 0
    return -np.fft.ifft2(phase).real


def curl(field):
    down = (field[1][2:, 1:-1] - field[1][:-2, 1:-1]) / 2
    along = (field[0][1:-1, 2:] - field[0][1:-1, :-2]) / 2
    return ((down - along) ** 2).mean()


class Dpc(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "a.npy"
        # A disk that is pushed about by the gradient of a bump; the scan is no power of two, one position is empty.
        rows, cols = np.mgrid[:11, :14]
        bump = np.exp(-((rows - 5.3) ** 2 + 1.5 * (cols - 6.1) ** 2) / 14)
        push = np.gradient(bump)
        y, x = np.mgrid[:24, :26]
        at = lambda p, size: size / 2 + 9 * p[..., None, None]
        distance = (y - at(push[0], 24)) ** 2 + (x - at(push[1], 26)) ** 2
        self.counts = np.random.default_rng(4).poisson(20 * np.exp(-distance / 18)).astype(np.uint16)
        self.counts[2, 3] = 0
        np.save(self.path, self.counts)

    def test_deflections_with_and_without_a_turn(self):
        want = deflections(self.counts)
        got, answer = cli.array("dpc", self.path)
        self.assertEqual(got.dtype, np.float32)
        np.testing.assert_array_equal(got, want.astype(np.float32))
        self.assertEqual(answer.json["rotation"], {"degrees": 0.0, "exchanged": False, "evidence": "none recorded"})
        self.assertEqual(answer.json["fft_transforms"], 0)
        for degrees, extra in [(33.5, []), (-120.0, []), (33.5, ["--exchanged"])]:
            got, answer = cli.array("dpc", self.path, "--rotation", degrees, *extra)
            np.testing.assert_allclose(got, turned(want, degrees, bool(extra)), rtol=2e-6, atol=2e-6)
            self.assertEqual(answer.json["rotation"]["evidence"], "stated")

    def test_the_prepared_rounding(self):
        counts = self.counts.astype(np.float64)
        total = counts.sum((2, 3))
        moment = (counts * np.arange(24)[:, None]).sum((2, 3))
        narrow = np.divide(moment, total, out=np.zeros_like(moment), where=total > 0).astype(np.float32)
        mean = np.float32(sum(float(v) for v in narrow.ravel()) / narrow.size)
        got, answer = cli.array("dpc", self.path, "--prepared-rounding")
        np.testing.assert_array_equal(got[0], narrow - mean)
        self.assertEqual(answer.json["rounding"], "prepared")

    def test_the_phase_of_a_scan_of_any_size(self):
        got, answer = cli.array("dpc", self.path, "--integrate", "--rotation", 20)
        np.testing.assert_allclose(got, integrated(turned(deflections(self.counts), 20)), atol=2e-5)
        self.assertEqual((answer.json["product"], answer.json["fft_transforms"]), ("idpc", 3))

    def test_the_automatic_turn_has_the_least_curl(self):
        got, answer = cli.array("dpc", self.path, "--rotation", "auto")
        rotation = answer.json["rotation"]
        self.assertEqual(rotation["evidence"], "least curl")
        field = deflections(self.counts)
        curls = {
            (a, e): curl(turned(field, a, e)) for a in np.linspace(0, 180, 180) for e in (False, True)
        }
        found = curl(turned(field, rotation["degrees"], rotation["exchanged"]))
        self.assertLessEqual(found, min(curls.values()) * (1 + 1e-4))

    def test_the_spectrum_of_an_image(self):
        image, answer = cli.array("image", self.path, "--total")
        self.assertEqual(answer.json["fft_transforms"], 0)
        got, answer = cli.array("image", self.path, "--total", "--fft")
        want = np.log1p(np.abs(np.fft.fftshift(np.fft.fft2(image.astype(np.float64)))))
        self.assertEqual(got.dtype, np.float32)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        self.assertEqual(answer.json["fft_transforms"], 1)

    def test_a_bad_angle_and_a_scan_without_interior_are_refused(self):
        self.assertEqual(cli.run("dpc", self.path, "--rotation", "much", "-o", "x.npy").code, 2)
        np.save(self.path, self.counts[:2])
        answer = cli.run("dpc", self.path, "--rotation", "auto", "-o", self.path.with_name("x.npy"))
        self.assertEqual((answer.code, answer.json["code"]), (2, "scan_too_small"))


if __name__ == "__main__":
    unittest.main()
