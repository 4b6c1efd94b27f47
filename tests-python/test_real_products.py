"""Every product of every four-dimensional file of the corpus, against arrays read here with NumPy and h5py alone."""
import hashlib
import json
import os
import pathlib
import struct
import tempfile
import unittest
import warnings

import h5py
import hdf5plugin  # noqa: F401  registers the filters that h5py reads with
import numpy as np

import cli
import schemas

REAL = pathlib.Path(os.environ.get("STEMPACK_CORPUS", cli.ROOT.parent / "shared/corpus")) / "real"
# Scan shapes that the files record, beside those of arrays that have four axes themselves.
RECORDED = {"test_00_master.h5": (4, 4), "fixture_master.h5": (1, 1), "w4_u16_96_nxem_master.h5": (3, 7)}


def factors(frames):
    """A scan shape to state where none is recorded: the most square one."""
    rows = max(r for r in range(1, int(frames**0.5) + 1) if frames % r == 0)
    return rows, frames // rows


def read_master(path):
    """Frames behind the numbered links of a master in their order, and the mask of the detector."""
    with h5py.File(path) as file:
        links = [k for k in file["entry/data"] if k.startswith("data_")]
        links.sort(key=lambda k: int(k.rsplit("_", 1)[1]))
        frames = np.concatenate([file["entry/data"][k][()] for k in links])
        place = "entry/instrument/detector/detectorSpecific/pixel_mask"
        mask = file[place][()] if place in file else np.zeros(frames.shape[1:], np.uint32)
    return frames, mask != 0


def read_datacube(path):
    """The one array of four axes of an EMD 1 file."""
    found = []
    with h5py.File(path) as file:
        file.visititems(lambda name, d: found.append(d[()]) if isinstance(d, h5py.Dataset) and d.ndim == 4 else None)
    (cube,) = found
    return cube


def read_dm4(path):
    """The image of four axes in a DM4 file: tags are walked, everything else is passed by."""
    data = path.read_bytes()
    version, _, little = struct.unpack_from(">IQI", data)
    assert (version, little) == (4, 1)
    simple = {2: "<i2", 3: "<i4", 4: "<u2", 5: "<u4", 6: "<f4", 7: "<f8", 8: "u1", 9: "i1", 10: "u1", 11: "<i8", 12: "<u8"}
    tags = {}

    def group(at, name):
        count = struct.unpack_from(">Q", data, at + 2)[0]
        at += 10
        for index in range(count):
            kind, length = struct.unpack_from(">BH", data, at)
            label = data[at + 3 : at + 3 + length].decode("latin-1") or str(index)
            size = struct.unpack_from(">Q", data, at + 3 + length)[0]
            at += 11 + length
            place = f"{name}.{label}"
            if kind == 20:
                group(at, place)
            else:
                words = struct.unpack_from(">Q", data, at + 4)[0]
                info = struct.unpack_from(f">{words}Q", data, at + 12)
                begin = at + 12 + 8 * words
                if words == 1 and info[0] in simple:
                    tags[place] = np.frombuffer(data, simple[info[0]], 1, begin)[0]
                elif words == 3 and info[0] == 20 and info[1] in simple:
                    tags[place] = np.frombuffer(data, simple[info[1]], info[2], begin)
            at += size

    group(16, "")
    found = []
    for place in [p for p in tags if p.endswith(".ImageData.Data")]:
        image = place.removesuffix(".Data")
        sizes = [int(tags[f"{image}.Dimensions.{i}"]) for i in range(10) if f"{image}.Dimensions.{i}" in tags]
        if len(sizes) == 4:
            kinds = {1: "<i2", 2: "<f4", 6: "u1", 7: "<i4", 9: "i1", 10: "<u2", 11: "<u4", 12: "<f8"}
            pixels = tags[place].view(kinds[int(tags[f"{image}.DataType"])])
            found.append(pixels.reshape(sizes[::-1]))
    (cube,) = found
    return cube


def read_empad(path):
    """EMPAD-G1: records of 128×128 float32 and 256 words that are no pixels; the name gives the scan."""
    records = np.fromfile(path, "<f4").reshape(-1, 128 * 128 + 256)
    return np.ascontiguousarray(records[:, : 128 * 128]).reshape(4, 4, 128, 128)


def files():
    """(path, raw array of four axes, excluded pixels, words that state the scan)."""
    for path in sorted([*REAL.glob("arina/*_master.h5"), *REAL.glob("eiger/*_master.h5"), *REAL.glob("written/arina/*_master.h5")]):
        frames, excluded = read_master(path)
        scan = RECORDED.get(path.name) or factors(len(frames))
        stated = [] if path.name in RECORDED else ["--scan", f"{scan[0]}x{scan[1]}"]
        yield path, frames.reshape(*scan, *frames.shape[1:]), excluded, stated
    whole = [(p, read_datacube) for p in (*sorted(REAL.glob("emd1/*py4*.h5")), *sorted(REAL.glob("written/emd1/*.h5")))]
    whole += [(p, read_dm4) for p in sorted(REAL.glob("written/dm4/*.dm4"))]
    whole += [(p, np.load) for p in sorted(REAL.glob("written/npy/*.npy"))]
    for path, read in whole:
        cube = read(path)
        stated = []
        if cube.ndim == 3:
            scan = factors(len(cube))
            cube, stated = cube.reshape(*scan, *cube.shape[1:]), ["--scan", f"{scan[0]}x{scan[1]}"]
        yield path, cube, np.zeros(cube.shape[2:], bool), stated
    path = REAL / "empad/scan_x4_y4.raw"
    # Its XML records another scan too; the one in its name, which fits its length, is stated.
    yield path, read_empad(path), np.zeros((128, 128), bool), ["--scan", "4x4"]


def added(terms):
    """Sums along the first axis: exact for integers, for floats with the rounding error of every addition carried
    beside the sum, in order; what is not finite stays the plain sum."""
    if terms.dtype.kind in "ui":
        return terms.sum(0, dtype=np.uint64 if terms.dtype.kind == "u" else np.int64)
    total, lost = np.zeros(terms.shape[1:]), np.zeros(terms.shape[1:])
    with np.errstate(invalid="ignore", over="ignore"):
        for term in terms.astype(np.float64):
            after = total + term
            large = np.abs(total) >= np.abs(term)
            lost += np.where(large, (total - after) + term, (term - after) + total)
            total = after
        return np.where(np.isfinite(total), total + lost, total)


class Truth:
    """Products by their definitions."""

    def __init__(self, raw, excluded):
        native = raw.astype(raw.dtype.newbyteorder("="))
        self.raw, self.excluded = native, excluded
        self.working = np.where(excluded, native.dtype.type(0), native)
        self.scan, self.detector = raw.shape[:2], raw.shape[2:]
        # Detector pixels first, then scan positions.
        self.pixels = np.ascontiguousarray(np.moveaxis(self.working.reshape(-1, raw[0, 0].size), 0, 1))
        self.mean_sum = added(self.working.reshape(-1, *self.detector))
        weights = [np.repeat(np.arange(self.detector[0]), self.detector[1]), np.tile(np.arange(self.detector[1]), self.detector[0])]
        wide = {"u": np.uint64, "i": np.int64, "f": np.float64}[native.dtype.kind]
        pixels = self.pixels.astype(wide)
        with np.errstate(invalid="ignore"):
            self.moments = [added(pixels), *(added(pixels * w.astype(wide)[:, None]) for w in weights)]

    def image(self, members):
        return added(self.pixels[members.ravel() & ~self.excluded.ravel()]).reshape(self.scan)

    def com(self):
        total, row, col = (m.astype(np.float64) for m in self.moments)
        there = (total != 0) & np.isfinite(total)
        none = np.nan if self.raw.dtype.kind == "f" else 0.0
        with np.errstate(invalid="ignore", divide="ignore"):
            centres = [np.where(there, m / np.where(there, total, 1), none) for m in (row, col)]
        return np.stack(centres).reshape(2, *self.scan)

    def dpc(self):
        planes = []
        for plane in self.com():
            there = [v for v in plane.ravel().tolist() if v == v]
            mean = sum(there) / len(there) if there else np.nan
            planes.append((plane - mean).astype(np.float32))
        return np.stack(planes)

    def idpc(self):
        rows, cols = np.nan_to_num(self.dpc().astype(np.float64))
        k_row, k_col = np.fft.fftfreq(self.scan[0])[:, None], np.fft.fftfreq(self.scan[1])
        square = k_row**2 + k_col**2
        square[0, 0] = 1
        phase = -0.25j * (k_row * np.fft.fft2(rows) + k_col * np.fft.fft2(cols)) / square
        phase[0, 0] = 0
        return -np.fft.ifft2(phase).real

    def disk(self):
        """(row, column, radius) of what lies above half of the median-filtered mean pattern; None in the dark."""
        pattern = self.mean_sum.astype(np.float64)
        pattern = np.where(self.excluded | ~np.isfinite(pattern), np.nan, pattern)
        padded = np.pad(pattern, 1, constant_values=np.nan)
        rows, cols = self.detector
        near = np.stack([padded[r : r + rows, c : c + cols] for r in range(3) for c in range(3)])
        with warnings.catch_warnings():
            # Neighbourhoods of nothing but excluded pixels.
            warnings.simplefilter("ignore")
            medians = np.nan_to_num(np.nanmedian(near, 0))
        if not medians.max() > 0:
            return None
        weight = np.where(2 * medians > medians.max(), medians, 0)
        y, x = np.mgrid[:rows, :cols]
        area = np.count_nonzero(weight)
        return (weight * y).sum() / weight.sum(), (weight * x).sum() / weight.sum(), np.sqrt(area / np.pi)


@unittest.skipUnless(REAL.is_dir(), f"the corpus is not at {REAL} (STEMPACK_CORPUS)")
class RealProducts(unittest.TestCase):
    def product(self, path, verb, *words):
        got, answer = cli.array(verb, path, *words)
        self.assertEqual(answer.json["source"]["kind"], "original")
        return got, answer.json

    def check_detectors(self, path, stated, truth):
        disk = truth.disk()
        y, x = np.mgrid[: truth.detector[0], : truth.detector[1]]
        for kind, inner, outer in (("bf", None, 1), ("abf", 0.5, 1), ("adf", 1, 2)):
            if disk is None:
                with tempfile.TemporaryDirectory() as folder:
                    answer = cli.run("image", path, f"--{kind}", *stated, "-o", pathlib.Path(folder) / "x.npy")
                cli.refused(self, answer, "no_disk")
                continue
            got, document = self.product(path, "image", f"--{kind}", *stated)
            detector = document["detector"]
            self.assertEqual(detector["evidence"], "measured")
            (row, col), radius = detector["centre"], detector["bright_field_radius"]
            np.testing.assert_allclose([row, col, radius], disk, rtol=1e-9)
            # The geometry as it is printed: a rim must not depend on the last bit of two programs.
            distance = (y - row) ** 2 + (x - col) ** 2
            members = distance <= (outer * radius) ** 2
            if inner is not None:
                members &= distance > (inner * radius) ** 2
            np.testing.assert_array_equal(got, truth.image(members))
            self.assertEqual(detector["pixels"], np.count_nonzero(members & ~truth.excluded))

    def test_every_product_of_every_file(self):
        seen = []
        for path, raw, excluded, stated in files():
            seen.append(path)
            with self.subTest(path.name):
                truth = Truth(raw, excluded)
                self.check_detectors(path, stated, truth)
                got, document = self.product(path, "image", "--total", *stated)
                np.testing.assert_array_equal(got, truth.image(np.ones(truth.detector, bool)))
                self.assertEqual(document["fft_transforms"], 0)

                got, document = self.product(path, "com", *stated)
                np.testing.assert_array_equal(got, truth.com())
                got, document = self.product(path, "dpc", *stated)
                np.testing.assert_array_equal(got, truth.dpc())
                got, document = self.product(path, "dpc", "--integrate", *stated)
                np.testing.assert_allclose(got, truth.idpc(), rtol=1e-5, atol=2e-5)

                got, _ = self.product(path, "mean", "--sum", *stated)
                np.testing.assert_array_equal(got, truth.mean_sum)
                got, _ = self.product(path, "mean", *stated)
                np.testing.assert_array_equal(got, truth.mean_sum / np.float64(np.prod(truth.scan)))
                rows, cols = (max(1, n - 1) for n in truth.scan)
                got, document = self.product(path, "mean", "--sum", "--scan-rect", f"0:{rows},0:{cols}", *stated)
                part = truth.working[:rows, :cols].reshape(-1, *truth.detector)
                np.testing.assert_array_equal(got, added(part))
                self.assertEqual(document["positions"], rows * cols)

                last = (truth.scan[0] - 1, truth.scan[1] - 1)
                for place in {(0, 0), (truth.scan[0] // 2, truth.scan[1] // 2), last}:
                    got, _ = self.product(path, "frame", *place, "--raw", *stated)
                    self.assertEqual(got.tobytes(), truth.raw[place].tobytes())
                    got, _ = self.product(path, "frame", *place, *stated)
                    self.assertEqual(got.tobytes(), truth.working[place].tobytes())
        self.assertTrue(seen)

        # Nothing of four axes was left out.
        listed = cli.run("inspect", REAL).json["acquisitions"]
        frames = [a for a in listed if a["format"] != "Velox EMD scalar image"]
        others = {str(p.resolve()) for p in seen}
        missing = [a["path"] for a in frames if not {str(pathlib.Path(m["path"]).resolve()) for m in a["members"]} & others]
        self.assertEqual(missing, [])

    def test_scalar_images_as_they_are_recorded(self):
        for name in ("STEM_HAADF_Diffraction_Micro.emd", "fixture_velox.emd"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                path = REAL / "velox" / name
                with h5py.File(path) as file:
                    (group,) = file["Data/Image"].values()
                    want = group["Data"][()][..., 0]
                got, answer = cli.array("image", path, "--total")
                np.testing.assert_array_equal(got, want)
                out = pathlib.Path(folder) / "image.h5"
                self.assertEqual(cli.run("image", path, "--total", "--digest", "-o", out).code, 0)
                with h5py.File(out) as file:
                    np.testing.assert_array_equal(file["images/scalar_image"][()], want)
                    document = json.loads(file["metadata"][()])
                schemas.check(document)
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                self.assertEqual([m["sha256"] for m in document["source"]["members"]], [digest])
                self.assertEqual((document["result"]["values"], document["result"]["fft_transforms"]), ("raw", 0))


if __name__ == "__main__":
    unittest.main()
