"""`.qem` files written by stempack, read by everybody else: the plain Python oracle and numpy's own arithmetic."""
import hashlib
import json
import os
import pathlib
import struct
import unittest

import numpy as np

import acquisitions
import cli
import qem_oracle
from acquisitions import counts, exclude, little_endian_sha256
from cli import ROOT
from test_pack import Temporary
from test_refusals import measured

CORPUS = pathlib.Path(os.environ.get("STEMPACK_CORPUS", ROOT.parent / "shared/corpus")) / "qem"


def header(path):
    data = path.read_bytes()
    return json.loads(data[56 : 56 + struct.unpack_from("<Q", data, 8)[0]])


def body(path):
    data = path.read_bytes()
    return data[struct.unpack_from("<Q", data, 16)[0] :]


def bright():
    raw = counts((27, 20), (18, 35))
    raw[..., 7, 7] += 700
    raw[3, 4, 8, 8] = 40000
    return raw, exclude(raw, [17, 400])


def small():
    raw = counts((6, 7), (16, 17), np.uint8)
    return raw, exclude(raw, [5])


class Written(Temporary):
    def pack(self, raw, mask, *args, name="out.qem"):
        source = acquisitions.write(self.folder / "source", raw, mask, frames_per_file=200, companion=True)
        path = self.folder / name
        answer = cli.run("pack", source.master, path, *args)
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual(answer.json["profile"], "qem")
        self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), answer.json["output_sha256"])
        return source, path, answer

    def test_the_oracle_reads_what_is_written(self):
        for make in (bright, small):
            with self.subTest(make.__name__), self.subfolder():
                raw, mask = make()
                source, path, answer = self.pack(raw, mask)
                file = qem_oracle.Qem(path)
                np.testing.assert_array_equal(file.array(), raw)
                self.assertEqual(np.flatnonzero(~file.valid()).tolist(), source.excluded)
                self.assertEqual(answer.json["logical_sha256"], little_endian_sha256(raw))
                for verify in (cli.run("verify", path, "--strict"), cli.run("verify", path, "--against", source.master)):
                    self.assertEqual(verify.code, 0, repr(verify))
                sealed = cli.run("verify", path, "--expect-sha256", answer.json["output_sha256"], "--require-seal")
                self.assertTrue(sealed.json["sealed"])

    def subfolder(self):
        return self._Subfolder(self)

    class _Subfolder:
        """A folder of its own for a part of a test."""

        def __init__(self, test):
            self.test = test

        def __enter__(self):
            self.before = self.test.folder
            self.test.folder = self.before / f"part-{len(list(self.before.iterdir()))}"
            self.test.folder.mkdir()

        def __exit__(self, *_):
            self.test.folder = self.before

    def test_products_are_those_of_numpy(self):
        raw, mask = bright()
        source, path, _ = self.pack(raw, mask)
        working = source.working.astype(np.uint64)
        total, _ = cli.array("image", path, "--total")
        np.testing.assert_array_equal(total, working.sum((2, 3)))
        disk, answer = cli.array("image", path, "--disk", "9,17,6.5")
        y, x = np.mgrid[:18, :35]
        np.testing.assert_array_equal(disk, (working * ((y - 9) ** 2 + (x - 17) ** 2 <= 6.5**2)).sum((2, 3)))
        self.assertEqual(answer.json["source"]["kind"], "qem")
        pattern, _ = cli.array("mean", path, "--sum")
        np.testing.assert_array_equal(pattern, working.sum((0, 1)))
        com, _ = cli.array("com", path)
        moments = np.stack([(working * y.astype(np.uint64)).sum((2, 3)), (working * x.astype(np.uint64)).sum((2, 3))])
        np.testing.assert_allclose(com, moments / np.maximum(working.sum((2, 3)), 1), rtol=1e-13)
        frame, _ = cli.array("frame", path, 26, 19, "--raw")
        np.testing.assert_array_equal(frame, raw[26, 19])
        frame, _ = cli.array("frame", path, 3, 4)
        np.testing.assert_array_equal(frame, source.working[3, 4])
        back, _ = cli.array("unpack", path)
        np.testing.assert_array_equal(back, raw)
        part, _ = cli.array("unpack", path, "--working", "--region", "2:5,3:4")
        np.testing.assert_array_equal(part, source.working[2:5, 3:4])

    def test_every_container_holds_the_same_array(self):
        raw, mask = bright()
        source, path, _ = self.pack(raw, mask)
        pack, again = self.folder / "through.h5", self.folder / "again.qem"
        for command in (("pack", path, pack), ("pack", pack, again)):
            answer = cli.run(*command)
            self.assertEqual(answer.code, 0, repr(answer))
        for file in (path, pack, again):
            _, answer = cli.array("unpack", file)
            self.assertEqual(answer.json["logical_sha256"], little_endian_sha256(raw), file.name)
        for file, other in ((path, pack), (pack, path), (again, path), (again, source.master), (pack, source.master)):
            answer = cli.run("verify", file, "--against", other)
            self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual(body(again), body(path))
        different = raw.copy()
        different[26, 19, 17, 34] += 1
        other = acquisitions.write(self.folder / "other", different, mask, companion=True)
        answer = cli.run("verify", path, "--against", other.master)
        self.assertEqual(answer.code, 1)
        (failed,) = [c for c in answer.json["checks"] if not c["ok"]]
        self.assertEqual(failed["name"], "against-values")
        self.assertIn("(26, 19)", failed["detail"])

    def test_every_sample_type_keeps_one_digest_through_all_containers(self):
        rng = np.random.default_rng(9)
        # More than 512 scan positions, tiles that do not divide the detector, counts up to the limit of the type stored.
        for sample, most, stored in (("u1", 255, "u1"), ("i1", 127, "u1"), ("u2", 65535, "u2"), ("i2", 32767, "u2"), ("u4", 65535, "u2"), ("i4", 65535, "u2"), ("u8", 65535, "u2")):
            raw = rng.poisson(1.5, (31, 19, 9, 35)).astype(f"<{sample}")
            raw[30, 18, 8, 34], raw[..., 3, 3] = most, 5
            expected = little_endian_sha256(raw.astype(stored))
            with self.subTest(sample), self.subfolder():
                source, one, pack, two = (self.folder / n for n in ("raw.npy", "one.qem", "pack.h5", "two.qem"))
                np.save(source, raw)
                for command in ((source, one), (one, pack), (pack, two)):
                    answer = cli.run("pack", *command)
                    self.assertEqual(answer.code, 0, repr(answer))
                for file in (one, pack, two):
                    _, answer = cli.array("unpack", file)
                    self.assertEqual(answer.json["logical_sha256"], expected, file.name)
                    self.assertEqual(cli.run("verify", file, "--against", source).code, 0, file.name)
                self.assertEqual(body(one), body(two))
        bits = rng.integers(0, 2**32, (31, 19, 3, 5), np.uint32)
        bits.flat[:6] = [0x80000000, 1, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00001]
        source, one, two = (self.folder / n for n in ("raw.npy", "one.qem", "two.qem"))
        np.save(source, bits.view(np.float32))
        for command in ((source, one), (one, two)):
            self.assertEqual(cli.run("pack", *command).code, 0)
        back, answer = cli.array("unpack", two)
        self.assertEqual(back.tobytes(), bits.tobytes())
        self.assertEqual(answer.json["logical_sha256"], hashlib.sha256(bits.tobytes()).hexdigest())

    def test_the_public_identity_of_an_array_of_floats(self):
        """A worked value: one frame of zeros."""
        array, file = self.folder / "zeros.npy", self.folder / "zeros.qem"
        np.save(array, np.zeros((1, 1, 128, 128), np.float32))
        self.assertEqual(cli.run("pack", array, file).code, 0)
        self.assertEqual(
            cli.run("info", file).json["tensor_identity_sha256"],
            "0357265d2450541eccd678f0c3bc87cf3b75a11d74d09053ef37ab390dd570e6",
        )
        np.save(array, np.zeros((1, 1, 128, 128), np.uint16))
        self.assertEqual(cli.run("pack", array, file, "--force").code, 0)
        self.assertNotIn("tensor_identity_sha256", cli.run("info", file).json)

    def test_overrides_are_set_kept_and_cleared(self):
        raw, mask = small()
        _, path, _ = self.pack(raw, mask)
        pair = ("--override", "scan_step_row=0.41", "--override", "scan_step_col=0.42")
        stated, kept, cleared = (self.folder / f"{n}.qem" for n in ("stated", "kept", "cleared"))
        self.assertEqual(cli.run("pack", path, stated, *pair, "--evidence", "lattice of gold").code, 0)
        self.assertEqual(cli.run("pack", stated, kept).code, 0)
        self.assertEqual(cli.run("pack", stated, cleared, "--clear-overrides").code, 0)
        for file, expected in ((stated, 0.41), (kept, 0.41), (cleared, None)):
            (found,) = cli.run("inspect", file).json["acquisitions"]
            self.assertAlmostEqual(found["quantities"]["scan_step_row"]["value"], 0.5)
            override = found.get("overrides", {}).get("quantities", {}).get("scan_step_row", {})
            self.assertEqual(override.get("value"), expected)
            self.assertEqual(body(file), body(path))
        cli.refused(self, cli.run("pack", path, self.folder / "no.qem", "--override", "scan_step_row=1", "--evidence", "x"), "invalid_override", "Usage")
        cli.refused(self, cli.run("pack", path, self.folder / "no.h5", *pair, "--evidence", "x"), kind="Usage")
        self.assertFalse((self.folder / "no.qem").exists())

    def test_nothing_of_this_machine_is_written(self):
        raw, mask = small()
        source, path, _ = self.pack(raw, mask)
        self.assertNotIn(str(self.folder).encode(), path.read_bytes())
        files = header(path)["metadata"]["source_files"]
        for file in files:
            self.assertEqual(file["sha256"], hashlib.sha256((source.folder / file["name"]).read_bytes()).hexdigest())
        self.assertEqual(header(path)["metadata"]["original_source_identity_sha256"], source.identity)

    def test_refusals(self):
        raw, mask = small()
        source, path, _ = self.pack(raw, mask)
        before = path.read_bytes()
        cli.refused(self, cli.run("pack", source.master, path), "destination_exists", "Usage")
        cli.refused(self, cli.run("pack", source.master, path, "--profile", "u8"), kind="Usage")
        cli.refused(self, cli.run("pack", source.master, self.folder / "x.h5", "--profile", "qem"), "not_a_qem_name", "Usage")
        cli.refused(self, cli.run("image", path, "--total", "--scan", "2x21", "-o", self.folder / "o.npy"), kind="Conflict")
        self.assertEqual(path.read_bytes(), before)
        self.assertEqual(cli.run("pack", source.master, path, "--force").code, 0)
        self.assertEqual(path.read_bytes(), before)
        plan = cli.run("pack", source.master, self.folder / "x.qem", "--plan")
        self.assertGreaterEqual(plan.json["output_maximum_bytes"], len(before))
        info = cli.run("info", path)
        self.assertEqual((info.json["profile"], info.json["excluded"]), ("qem", source.excluded))

    def test_a_flipped_byte_is_found(self):
        raw, mask = small()
        _, path, _ = self.pack(raw, mask)
        whole = path.read_bytes()
        damaged = self.folder / "damaged.qem"
        for at in range(0, len(whole), max(1, len(whole) // 40)):
            damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            self.assertNotEqual(cli.run("verify", damaged).code, 0, f"byte {at}")


class Memory(Temporary):
    def test_neither_file_nor_array_is_ever_held_as_a_whole(self):
        # Numbers without any pattern: the file is as large as the array, and both are far beyond the budget.
        raw = np.random.default_rng(3).integers(0, 60000, (64, 64, 96, 96), np.uint16)
        source, path, back = (self.folder / n for n in ("source.npy", "out.qem", "back.npy"))
        np.save(source, raw)
        budget = 32 << 20
        # Besides what is budgeted: the program with its libraries and its allocator's reserves.
        limit = budget + (20 << 20)
        pack, again = self.folder / "pack.h5", self.folder / "again.qem"
        for command in (
            ("pack", source, path),
            ("verify", path, "--strict"),
            ("unpack", path, back),
            ("image", path, "--total", "-o", self.folder / "total.npy"),
            ("pack", path, pack),
            ("pack", pack, again),
            ("verify", again, "--against", source),
        ):
            code, peak, document = measured(*command, "--max-memory", "32M")
            self.assertEqual(code, 0, f"{command[0]}: {document}")
            # A source that is encoded itself holds one encoded block besides what the writer plans for.
            block = 512 * raw[0, 0].nbytes if path in command[1:2] and command[0] == "pack" else 0
            self.assertLess(peak, limit + block, f"peak resident memory of {command[0]}")
        self.assertGreater(path.stat().st_size, 1.3 * limit)
        self.assertEqual(back.read_bytes(), source.read_bytes())


@unittest.skipUnless(CORPUS.is_dir(), f"the corpus is absent ({CORPUS})")
class Corpus(Temporary):
    def test_a_retired_float_file_is_saved_with_the_current_codec(self):
        source, path = CORPUS / "valid/f32-xor-widths.qem", self.folder / "out.qem"
        answer = cli.run("pack", source, path)
        self.assertEqual(answer.code, 0, repr(answer))
        file = qem_oracle.Qem(path)
        self.assertEqual(file.codec, qem_oracle.LANES)
        self.assertEqual(file.array().tobytes(), np.load(CORPUS / "valid/f32-xor-widths.npy").tobytes())
        self.assertEqual(cli.run("verify", path, "--against", source).code, 0)

    def test_metadata_of_others_survive_a_copy(self):
        for name in ("valid/u16-rich-metadata.qem", "tolerated/unknown-keys-pretty-json.qem"):
            source, path = CORPUS / name, self.folder / pathlib.Path(name).name
            self.assertEqual(cli.run("pack", source, path, "--clear-overrides").code, 0)
            was, now = header(source), header(path)
            was["scientific_metadata"]["calibration_overrides"] = {}
            self.assertEqual(was, now)
            self.assertEqual(body(source), body(path))


if __name__ == "__main__":
    unittest.main()
