"""Packs written by stempack, read by everybody else: the numpy oracle, h5py, and numpy's own arithmetic."""
import hashlib
import json
import pathlib
import tempfile
import unittest

import h5py
import numpy as np

import acquisitions
import cli
import pack_oracle
from acquisitions import counts, exclude, little_endian_sha256


def u8_counts():
    raw = counts((8, 8), (16, 18), np.uint8)
    return raw, exclude(raw, [5, 200])


def u16_low_counts():
    raw = counts((12, 8), (15, 17))
    return raw, exclude(raw, [0, 254])


def u16_unusual_constants():
    raw = counts((8, 8), (12, 12))
    mask = exclude(raw, [3], 0) | exclude(raw, [50], 1234) | exclude(raw, [143])
    return raw, mask


def u16_bright():
    raw = counts((8, 12), (16, 16))
    raw[..., 7, 7] += 700
    raw[3, 4, 8, 8] = 65535
    return raw, exclude(raw, [17])


def u16_restless_excluded():
    raw = counts((8, 8), (12, 14))
    mask = exclude(raw, [30])
    raw[..., 2, 2] = np.arange(64).reshape(8, 8)
    raw[0, 0, 2, 3] = 9
    mask[2, 2] = 2
    mask[2, 3] = 8
    return raw, mask


def u16_odd():
    raw = counts((7, 9), (100, 101))
    return raw, exclude(raw, [10, 5000])


def u16_prime_scan():
    raw = counts((1, 131), (9, 11))
    return raw, None


def u16_no_mask():
    return counts((8, 8), (10, 10)), None


def u16_dark():
    raw = np.zeros((8, 8, 6, 7), np.uint16)
    return raw, exclude(raw, [3])


def u16_dark_odd():
    return np.zeros((3, 5, 6, 7), np.uint16), None


def u16_dark_but_for_one():
    raw = np.zeros((16, 16, 5, 6), np.uint16)
    raw[-1, -1, -1, -1] = 300
    return raw, None


def u32_low_counts():
    return counts((8, 8), (12, 12), np.uint32), None


def u32_sentinel():
    raw = counts((8, 9), (14, 13), np.uint32)
    raw[2, 3, 4, 5] = 65535
    return raw, exclude(raw, [1, 77])


def u32_sentinel_low_counts():
    raw = counts((8, 8), (14, 13), np.uint32)
    return raw, exclude(raw, [60])


def u32_narrow_excluded():
    raw = counts((8, 8), (12, 12), np.uint32)
    raw[..., 4, 4] = 40000 + np.arange(64).reshape(8, 8)
    return raw, exclude(raw, [9], 65535)


def u16_many_scans():
    raw = counts((80, 80), (4, 5))
    return raw, exclude(raw, [7])


def u16_many_odd_scans():
    raw = counts((71, 67), (4, 5))
    raw[..., 0, 0] += 300
    return raw, exclude(raw, [7])


# name, maker, frames in a data file, profile that `auto` must choose, raw access of the result
COUNTS = (
    ("u8 counts", u8_counts, 20, "u8", "exact_exclusion_constants"),
    ("u16 counts that fit u8", u16_low_counts, 50, "u8", "exact_exclusion_constants"),
    ("excluded constants of every kind", u16_unusual_constants, None, "u8", "exact_exclusion_constants"),
    ("bright pixels", u16_bright, 40, "u16", "exact_retained_payload"),
    ("excluded pixels that change", u16_restless_excluded, None, "u16", "exact_retained_payload"),
    ("odd shapes", u16_odd, 10, "u16", "exact_retained_payload"),
    ("a prime number of scan positions", u16_prime_scan, None, "u16", "exact_no_exclusions"),
    ("no pixel mask", u16_no_mask, None, "u8", "exact_exclusion_constants"),
    ("nothing but zeros", u16_dark, None, "u8", "exact_exclusion_constants"),
    ("nothing but zeros in an odd scan", u16_dark_odd, None, "u16", "exact_no_exclusions"),
    ("one count in one frame", u16_dark_but_for_one, None, "u16", "exact_no_exclusions"),
    ("more scan positions than a shard", u16_many_scans, 3000, "u8", "exact_exclusion_constants"),
    ("more scan positions than a shard in u16", u16_many_odd_scans, 3000, "u16", "exact_retained_payload"),
    ("u32 counts that fit u8", u32_low_counts, None, "u8", "exact_exclusion_constants"),
    ("u32 with wide constants at excluded pixels", u32_sentinel, 30, "u16", "exact_extension_constants"),
    ("u32 low counts and wide constants", u32_sentinel_low_counts, None, "u16", "exact_extension_constants"),
    ("u32 with narrow values at excluded pixels", u32_narrow_excluded, None, "u16", "exact_retained_payload"),
)


class Temporary(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def packed(self, acquisition, *args):
        """Packs and returns (path, the JSON answer)."""
        out = self.folder / "packed.h5"
        answer = cli.run("pack", acquisition.master, out, *acquisition.scan_argument, *args)
        self.assertEqual(answer.code, 0, repr(answer))
        return out, answer.json


class RoundTrip(Temporary):
    def check(self, acquisition, profile, raw_access=None):
        raw, working = acquisition.raw, acquisition.working
        out, answer = self.packed(acquisition)
        self.assertEqual(answer["profile"], profile)
        self.assertTrue(answer["reason"])

        pack = self.oracle(out, acquisition, profile)
        if raw_access:
            self.assertEqual(pack.raw_access, raw_access)
        self.hdf5(out, pack)
        self.receipt(out, answer, acquisition, pack)

        ok = cli.run("verify", out, "--against", acquisition.master, *acquisition.scan_argument)
        self.assertEqual(ok.code, 0, repr(ok))
        self.assertIs(ok.json["ok"], True)
        info = cli.run("info", out)
        self.assertEqual(info.code, 0, repr(info))
        self.assertEqual(info.json["profile"], profile)
        self.assertEqual(info.json["shape"], list(raw.shape))
        self.assertEqual(info.json["excluded"], acquisition.excluded)
        self.assertEqual(info.json["raw_access"], pack.raw_access)

        for source, args in ((out, []), (acquisition.master, acquisition.scan_argument)):
            with self.subTest(source=source.name):
                self.arrays(source, args, raw, working)

    def oracle(self, out, acquisition, profile):
        pack = pack_oracle.Pack(out)
        self.assertEqual(pack.profile, profile)
        self.assertEqual(pack.shape, acquisition.raw.shape)
        self.assertEqual(pack.excluded, acquisition.excluded)
        self.assertEqual(pack.identity, acquisition.identity)
        np.testing.assert_array_equal(pack.working(), acquisition.working)
        raw = pack.raw()
        self.assertEqual(raw.dtype, acquisition.raw.dtype)
        np.testing.assert_array_equal(raw, acquisition.raw)
        mask = hashlib.sha256(acquisition.mask.astype("<u4").tobytes()).hexdigest()
        self.assertEqual(pack.json["detector_mask_sha256"], mask)
        if profile == "u16":
            self.assertIn("working_logical_sha256", pack.json)
        return pack

    def hdf5(self, out, pack):
        """h5py finds the datasets, and their bytes are the ranges of the index."""
        names = (
            (("payload", "payload_u32"), ("widths", "compact_headers_u32"))
            if pack.profile == "u8"
            else (("payload", "payload_lz4"), ("lengths", "payload_lengths_minus_one"), ("widths", "descriptor_widths_u8"))
        )
        with h5py.File(out, "r") as file:
            self.assertEqual(file.userblock_size, pack.user_block)
            shards = file["quantem_gpu/shards"]
            self.assertEqual(sorted(shards), [f"{i:03d}" for i in range(len(pack.records))])
            for i, record in enumerate(pack.records):
                for what, name in names:
                    dataset = shards[f"{i:03d}"][name]
                    offset, size = getattr(record, f"{what}_offset"), getattr(record, f"{what}_bytes")
                    self.assertEqual(dataset.ndim, 1)
                    self.assertEqual(dataset.dtype, np.dtype("<u4" if name.endswith("u32") else "u1"))
                    self.assertEqual(dataset.id.get_offset(), offset)
                    self.assertEqual(dataset[...].tobytes(), pack.data[offset : offset + size])

    def receipt(self, out, answer, acquisition, pack):
        path = pathlib.Path(f"{out}.receipt.json")
        self.assertEqual(pathlib.Path(answer["receipt"]).name, path.name)
        receipt = json.loads(path.read_text())
        digest = hashlib.sha256(out.read_bytes()).hexdigest()
        self.assertEqual(answer["output_sha256"], digest)
        self.assertEqual(answer["output_bytes"], out.stat().st_size)
        profile = "exact-uint8-bitpacked" if pack.profile == "u8" else "exact-uint16-lz4"
        want = {
            "schema": "quantem.gpu.lossless-pack-production/v1",
            "encodingProfile": profile,
            "outputBytes": out.stat().st_size,
            "outputSHA256": digest,
            "sourceIdentitySHA256": acquisition.identity,
            "sourceShape": list(acquisition.raw.shape),
            "badPixelIndices": acquisition.excluded,
            "shardCount": len(pack.records),
            "scansPerShard": pack.scans_per_shard,
        }
        for key, value in want.items():
            self.assertEqual(receipt[key], value, key)
        members = [(m["role"], m["bytes"], m["sha256"]) for m in receipt["sourceMembers"] if m["role"] in ("master", "data")]
        roles = ["master"] + ["data"] * len(acquisition.data_files)
        files = [(p.stat().st_size, hashlib.sha256(p.read_bytes()).hexdigest()) for p in acquisition.members]
        self.assertEqual(members, [(role, *file) for role, file in zip(roles, files)])

    def arrays(self, source, args, raw, working):
        """Every array that stempack hands out, against numpy."""
        got, answer = cli.array("unpack", source, "--raw", *args)
        self.assertEqual(got.dtype, raw.dtype)
        np.testing.assert_array_equal(got, raw)
        self.assertEqual(answer.json["logical_sha256"], little_endian_sha256(raw))
        self.assertEqual(answer.json["shape"], list(raw.shape))
        got, _ = cli.array("unpack", source, "--working", *args)
        np.testing.assert_array_equal(got, working)
        r, c = raw.shape[0] // 2, raw.shape[1] // 3
        got, _ = cli.array("unpack", source, "--region", f"{r}:{r + 1},{c}:{raw.shape[1]}", *args)
        np.testing.assert_array_equal(got, raw[r : r + 1, c:])

        wide = working.astype(np.uint64)
        height, width = raw.shape[2:]
        got, answer = cli.array("image", source, "--total", *args)
        self.assertIn(got.dtype, (np.uint32, np.uint64))
        np.testing.assert_array_equal(got, wide.sum((2, 3)))
        self.assertEqual(answer.json["sum"], int(wide.sum()))
        self.assertEqual(answer.json["dtype"], str(got.dtype))
        mask = np.random.default_rng(3).integers(0, 2, (height, width), np.uint8)
        np.save(self.folder / "mask.npy", mask)
        got, _ = cli.array("image", source, "--mask", self.folder / "mask.npy", *args)
        np.testing.assert_array_equal(got, (wide * mask).sum((2, 3)))
        y, x = np.mgrid[:height, :width]
        centre, inner, outer = (height / 2 - 0.25, width / 2 + 0.5), min(height, width) / 4, min(height, width) / 2.5
        d2 = (y - centre[0]) ** 2 + (x - centre[1]) ** 2
        got, _ = cli.array("image", source, "--disk", f"{centre[0]},{centre[1]},{inner}", *args)
        np.testing.assert_array_equal(got, (wide * (d2 <= inner**2)).sum((2, 3)))
        got, _ = cli.array("image", source, "--annulus", f"{centre[0]},{centre[1]},{inner},{outer}", *args)
        np.testing.assert_array_equal(got, (wide * ((d2 > inner**2) & (d2 <= outer**2))).sum((2, 3)))

        got, _ = cli.array("mean", source, "--sum", *args)
        self.assertEqual(got.dtype, np.uint64)
        np.testing.assert_array_equal(got, wide.sum((0, 1)))
        got, _ = cli.array("mean", source, *args)
        np.testing.assert_array_equal(got, wide.sum((0, 1)) / (raw.shape[0] * raw.shape[1]))

        got, _ = cli.array("com", source, *args)
        total = wide.sum((2, 3)).astype(float)
        moments = np.stack([(wide * y.astype(np.uint64)).sum((2, 3)), (wide * x.astype(np.uint64)).sum((2, 3))]).astype(float)
        want = np.divide(moments, total, out=np.zeros_like(moments), where=total > 0)
        self.assertEqual(got.dtype, np.float64)
        np.testing.assert_allclose(got, want, rtol=1e-15, atol=0)

        got, _ = cli.array("frame", source, r, c, *args)
        np.testing.assert_array_equal(got, working[r, c])
        got, _ = cli.array("frame", source, r, c, "--raw", *args)
        np.testing.assert_array_equal(got, raw[r, c])


def round_trip(make, frames_per_file, profile, raw_access):
    def test(self):
        raw, mask = make()
        self.check(acquisitions.write(self.folder / "source", raw, mask, frames_per_file=frames_per_file), profile, raw_access)

    return test


def stored_as(storage, dtype):
    def test(self):
        raw = counts((5, 7), (21, 26), dtype)
        mask = exclude(raw, [100])
        # A u8 profile needs a multiple of 32 scan positions.
        self.check(acquisitions.write(self.folder / "source", raw, mask, storage, frames_per_file=13), "u16")

    return test


def method(*words):
    return "test_" + "_".join(words).replace(" ", "_").replace("'", "")


for name, *rest in COUNTS:
    setattr(RoundTrip, method(name), round_trip(*rest))
for name in acquisitions.STORAGE:
    for dtype in (np.uint8, np.uint16, np.uint32):
        setattr(RoundTrip, method("stored as", name, dtype.__name__), stored_as(name, dtype))


class Profiles(Temporary):
    def test_a_stated_profile_is_followed(self):
        raw, mask = u16_low_counts()
        source = acquisitions.write(self.folder / "source", raw, mask)
        out, answer = self.packed(source, "--profile", "u16")
        self.assertEqual(answer["profile"], "u16")
        pack = pack_oracle.Pack(out)
        self.assertEqual((pack.profile, pack.raw_access), ("u16", "exact_retained_payload"))
        np.testing.assert_array_equal(pack.raw(), raw)

    def test_a_companion_gives_the_scan_shape(self):
        raw, mask = u16_low_counts()
        source = acquisitions.write(self.folder / "source", raw, mask, companion=True)
        self.assertEqual(source.scan_argument, [])
        out, _ = self.packed(source)
        np.testing.assert_array_equal(pack_oracle.Pack(out).raw(), raw)

    def test_a_plan_writes_nothing(self):
        raw, mask = u16_low_counts()
        source = acquisitions.write(self.folder / "source", raw, mask)
        before = sorted(self.folder.rglob("*"))
        answer = cli.run("pack", source.master, self.folder / "packed.h5", "--plan", *source.scan_argument)
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_a_small_budget_gives_the_same_values_in_more_shards(self):
        raw = counts((32, 32), (24, 24))
        source = acquisitions.write(self.folder / "source", raw, None, frames_per_file=300)
        out, _ = self.packed(source, "--max-memory", "64M")
        np.testing.assert_array_equal(pack_oracle.Pack(out).raw(), raw)

    def test_two_runs_write_the_same_container(self):
        raw, mask = u16_bright()
        source = acquisitions.write(self.folder / "source", raw, mask)
        first, _ = self.packed(source)
        kept = first.read_bytes()
        first.unlink()
        pathlib.Path(f"{first}.receipt.json").unlink()
        second, _ = self.packed(source)
        self.assertEqual(second.read_bytes(), kept)


class Evidence(Temporary):
    """What `verify` must find, and what it must not claim."""

    def setUp(self):
        super().setUp()
        raw, mask = u16_low_counts()
        self.source = acquisitions.write(self.folder / "source", raw, mask)
        self.out, self.answer = self.packed(self.source)

    def different(self, answer):
        self.assertEqual(answer.code, 1, repr(answer))
        self.assertIs(answer.json["ok"], False)
        self.assertTrue([c for c in answer.json["checks"] if not c["ok"]], repr(answer))

    def test_another_acquisition_is_different(self):
        raw, mask = u16_low_counts()
        raw[3, 3, 3, 3] += 1
        other = acquisitions.write(self.folder / "other", raw, mask)
        self.different(cli.run("verify", self.out, "--against", other.master, *other.scan_argument))

    def test_a_stated_digest_is_compared(self):
        good = cli.run("verify", self.out, "--expect-sha256", self.answer["output_sha256"])
        self.assertEqual((good.code, good.json["ok"]), (0, True), repr(good))
        self.different(cli.run("verify", self.out, "--expect-sha256", "0" * 64))

    def test_a_stated_receipt_is_compared(self):
        receipt = pathlib.Path(f"{self.out}.receipt.json")
        moved = self.folder / "elsewhere.json"
        receipt.rename(moved)
        good = cli.run("verify", self.out, "--receipt", moved)
        self.assertEqual((good.code, good.json["ok"]), (0, True), repr(good))
        document = json.loads(moved.read_text())
        document["outputSHA256"] = "1" * 64
        moved.write_text(json.dumps(document))
        self.different(cli.run("verify", self.out, "--receipt", moved))

    def test_every_kind_of_damage_is_found(self):
        """One bit in each region of the file that holds data."""
        pack = pack_oracle.Pack(self.out)
        record = pack.records[0]
        places = {
            "prelude": 3,
            "manifest": 40,
            "index": pack.index_at + 20,
            "payload": record.payload_offset + record.payload_bytes // 2,
            "headers": record.widths_offset + 1,
        }
        good = self.out.read_bytes()
        for region, place in places.items():
            for bit in (0, 5):
                with self.subTest(region=region, bit=bit):
                    data = bytearray(good)
                    data[place] ^= 1 << bit
                    damaged = self.folder / "damaged.h5"
                    damaged.write_bytes(data)
                    answer = cli.run("verify", damaged)
                    self.assertIn(answer.code, (1, 2), repr(answer))
                    if answer.code == 2:
                        cli.refused(self, answer)

    def test_a_cut_file_is_refused(self):
        data = self.out.read_bytes()
        for size in (0, 7, 23, 24, 100, len(data) // 2, len(data) - 4000):
            with self.subTest(size=size):
                cut = self.folder / "cut.h5"
                cut.write_bytes(data[:size])
                self.assertIn(cli.run("verify", cut).code, (1, 2))

    def test_a_mask_without_raw_values_gives_no_raw_array(self):
        """A conforming file that cannot prove its raw values: working reads work, raw reads are refused."""
        data = self.out.read_bytes()
        pack = pack_oracle.Pack(self.out)
        document = {k: v for k, v in pack.json.items() if k not in ("masked_detector_raw_values",)}
        text = json.dumps(document, separators=(",", ":")).encode()
        import struct
        import zlib

        block = bytearray(data)
        block[24 : pack.index_at] = text.ljust(pack.index_at - 24, b"\0")
        struct.pack_into("<2I", block, 8, len(text), zlib.crc32(text))
        legacy = self.folder / "legacy.h5"
        legacy.write_bytes(block)
        got, _ = cli.array("unpack", legacy, "--working")
        np.testing.assert_array_equal(got, self.source.working)
        cli.refused(self, cli.run("unpack", legacy, self.folder / "no.npy", "--raw"))
        self.assertFalse((self.folder / "no.npy").exists())
        self.assertEqual(cli.run("info", legacy).json["raw_access"], "mask_applied_only_legacy")


if __name__ == "__main__":
    unittest.main()
