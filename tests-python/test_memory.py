"""Peak memory: a reader needs its window and its index, whatever the size of the file and whatever a header claims.

Measured is the resident memory of the process. A file that is mapped and walked through counts as much as one that is
read whole.
"""
import pathlib
import struct
import unittest

import h5py
import numpy as np

import cli
import formats
from test_pack import Temporary
from test_refusals import measured

BUDGET = 64 << 20
# The program, its libraries, the stacks of its threads, and what the allocator keeps.
PROGRAM = 24 << 20
# Frames of 512 × 512 counts of 16 bits; with 1024 of them eight times the budget.
SCAN, DETECTOR = (32, 32), (512, 512)
FRAMES = SCAN[0] * SCAN[1]
FRAME_BYTES = 2 * DETECTOR[0] * DETECTOR[1]


def marks():
    """The only two frames that are not zero: the first and the last."""
    rng = np.random.default_rng(2)
    return [rng.integers(0, 9000, DETECTOR).astype("<u2") for _ in range(2)]


def hollow(file, path, shape, dtype, chunks=None):
    """A dataset whose place in the file is given and never written: a hole as long as the array."""
    group, name = path.rsplit("/", 1)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if chunks:
        plist.set_chunk(chunks)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple(shape)
    dataset = h5py.Dataset(h5py.h5d.create(file.require_group(group).id, name.encode(), h5py.h5t.py_create(np.dtype(dtype)), space, plist))
    return dataset


def arina(folder, chunks):
    with h5py.File(folder / "scan_data_000001.h5", "w") as file:
        dataset = hollow(file, "entry/data/data", (FRAMES, *DETECTOR), "<u2", chunks)
        dataset[0], dataset[-1] = marks()
    with h5py.File(folder / "scan_master.h5", "w") as master:
        master["entry/data/data_000001"] = h5py.ExternalLink("scan_data_000001.h5", "/entry/data/data")
    return folder / "scan_master.h5", ["--scan", f"{SCAN[0]}x{SCAN[1]}"]


def emd(folder, chunks):
    with h5py.File(folder / "scan.h5", "w") as file:
        file.attrs["authoring_program"], file.attrs["version_major"] = "emdfile", 1
        dataset = hollow(file, "datacube_root/datacube/data", (*SCAN, *DETECTOR), "<u2", chunks)
        dataset[0, 0], dataset[-1, -1] = marks()
    return folder / "scan.h5", []


def dm4(folder):
    first, last = (m.tobytes() for m in marks())
    between = formats.Hole((FRAMES - 2) * FRAME_BYTES)
    return formats.dm(folder, (*SCAN, *DETECTOR), first, between, last)[0], []


def npy(folder, order="C"):
    path = folder / "scan.npy"
    array = np.lib.format.open_memmap(path, "w+", "<u2", (*SCAN, *DETECTOR), fortran_order=order == "F")
    array[0, 0], array[-1, -1] = marks()
    array.flush()
    return path, []


WRITERS = {
    "ARINA, a chunk for each frame": lambda folder: arina(folder, (1, *DETECTOR)),
    "ARINA, chunks that cross frames": lambda folder: arina(folder, (4, 256, 256)),
    "ARINA, contiguous": lambda folder: arina(folder, None),
    "EMD, contiguous": lambda folder: emd(folder, None),
    "EMD, chunks of several frames": lambda folder: emd(folder, (1, 4, *DETECTOR)),
    "DM4": dm4,
    "npy": npy,
}


class Bounded(Temporary):
    def within(self, *args, budget=BUDGET):
        code, peak, document = measured(*args, "--max-memory", f"{budget >> 20}M")
        self.assertEqual(code, 0, document)
        self.assertLessEqual(peak, budget + PROGRAM, f"{args}: {peak >> 20} MiB")
        return document

    def sums(self, source, *args):
        out = self.folder / "sum.npy"
        out.unlink(missing_ok=True)
        self.within("mean", source, "--sum", "-o", out, *args)
        return np.load(out)

    def test_sums_over_files_larger_than_the_budget(self):
        expected = sum(m.astype(np.uint64) for m in marks())
        for number, (name, write) in enumerate(WRITERS.items()):
            with self.subTest(name):
                folder = self.folder / str(number)
                folder.mkdir()
                path, args = write(folder)
                self.assertGreater(max(p.stat().st_size for p in folder.iterdir()), 8 * BUDGET)
                np.testing.assert_array_equal(self.sums(path, *args), expected)
                for file in folder.iterdir():
                    file.unlink()

    def test_an_empad_raw_larger_than_the_budget(self):
        rows, cols, record = 80, 100, 130 * 128 * 4
        xml = formats.empad_xml(self.folder, (rows, cols))
        first, last = formats.patterns()[0, :2]
        with open(self.folder / "scan.raw", "wb") as raw:
            raw.write(first.tobytes())
            raw.seek((rows * cols - 1) * record)
            raw.write(last.tobytes())
            raw.truncate(rows * cols * record)
        np.testing.assert_array_equal(self.sums(xml), first.astype("f8") + last)
        self.within("inspect", xml, "--digest")

    def test_an_array_that_lies_the_other_way_round(self):
        """Every frame is strewn over the whole file; a window is laid out anew within the budget."""
        path = self.folder / "scan.npy"
        array = np.lib.format.open_memmap(path, "w+", "<u2", (16, 16, *DETECTOR), fortran_order=True)
        array[0, 0], array[-1, -1] = marks()
        array.flush()
        del array
        out = self.folder / "sum.npy"
        self.within("mean", path, "--sum", "-o", out)
        np.testing.assert_array_equal(np.load(out), sum(m.astype(np.uint64) for m in marks()))

    def test_copies_larger_than_the_budget(self):
        """Counts that do not compress, so that the copies are larger than the budget too."""
        shape = (32, 32, 256, 256)
        counts = np.random.default_rng(3).integers(0, 1 << 12, shape[2:]).astype("<u2")
        source = self.folder / "scan.npy"
        array = np.lib.format.open_memmap(source, "w+", "<u2", shape)
        expected = np.zeros(shape[2:], np.uint64)
        for i in range(shape[0] * shape[1]):
            frame = np.roll(counts, i * 977)
            array[divmod(i, shape[1])] = frame
            expected += frame
        array.flush()
        del array
        for suffix in ("h5", "qem"):
            with self.subTest(suffix):
                copy = self.folder / f"copy.{suffix}"
                self.within("pack", source, copy)
                self.assertGreater(copy.stat().st_size, BUDGET)
                np.testing.assert_array_equal(self.sums(copy), expected)
                self.within("inspect", copy, "--digest")
                self.within("verify", copy)
                copy.unlink()


def claims(folder):
    """(name, file, options) of small files whose headers claim thousands of millions of frames."""
    huge = (1 << 20) - 1

    def put(name, content):
        path = folder / name
        path.write_bytes(content) if isinstance(content, bytes) else content(path)
        return path

    header = f"{{'descr': '<u2', 'fortran_order': False, 'shape': ({huge}, {huge}, 4096, 4096), }}"
    yield "npy", put("shape.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 255) + header.ljust(254).encode() + b"\n"), []
    yield "npy header", put("header.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + b"{'descr'"), []
    for version in (3, 4):
        path = formats.dm(folder, (huge, huge, 512, 512), b"\0" * 64, version=version, claimed=0xFFFFFFFF if version == 3 else 1 << 50)[0]
        yield f"DM{version}", path, []
    (folder / "scan.raw").write_bytes(bytes(66_560))
    yield "EMPAD", formats.empad_xml(folder, (1 << 31, 1 << 31)), []
    yield "EMPAD-G2", put("second.xml", formats.empad_xml(folder, (1 << 31, 1 << 31), 2).read_bytes()), []
    yield "EMPAD RAW", put("scan_x99999999_y99999999.raw", bytes(66_560)), []

    def stack(path, shape, chunks, dataset, written=False, **how):
        with h5py.File(path, "w") as file:
            file.attrs["authoring_program"], file.attrs["version_major"] = "emdfile", 1
            d = file.create_dataset(dataset, shape, "<u2", chunks=chunks, **how)
            if written:
                d[(0,) * (len(shape) - 2)] = 1

    cube, data = "datacube_root/datacube/data", "entry/data/data"
    for name, dataset, scan in (("EMD", cube, (1 << 20, 1 << 20)), ("ARINA", data, (1 << 40,))):
        ones = (1,) * len(scan)
        yield f"{name}, contiguous", put(f"{name}_contiguous.h5", lambda p: stack(p, (*scan, 512, 512), None, dataset)), []
        yield f"{name}, chunked", put(f"{name}_chunked.h5", lambda p: stack(p, (*scan, 512, 512), (*ones, 512, 512), dataset, True)), []
        # One packed chunk that is far larger than the budget once unpacked.
        small = (*ones[:-1], 2)
        yield f"{name}, one great chunk", put(
            f"{name}_great.h5", lambda p: stack(p, (*small, 16384, 8192), (*ones, 16384, 8192), dataset, True, compression="gzip", compression_opts=9)
        ), ["--scan", "1x2"] if name == "ARINA" else []

    def image(path):
        with h5py.File(path, "w") as file:
            group = file.create_group("Data/Image/0")
            group.create_dataset("Data", (1 << 20, 1 << 20, 1), "<u2", chunks=(1, 1 << 20, 1))
            group.create_dataset("Metadata", (1 << 40, 1), "u1", chunks=(1 << 20, 1))

    yield "Velox", put("image.emd", image), []
    # The lengths of a pack's manifest and of a `.qem` file's header.
    (source,) = formats.npy(folder, formats.counts(), "source")
    for name, at, word in (("copy.h5", 8, b"\xff" * 4), ("copy.qem", 8, b"\xff" * 7 + b"\x0f")):
        path = folder / name
        answer = cli.run("pack", source, path)
        assert answer.code == 0, answer
        content = bytearray(path.read_bytes())
        content[at : at + len(word)] = word
        path.write_bytes(content)
        yield name, path, []


class Claims(Temporary):
    def test_what_a_header_claims_is_not_allocated(self):
        for name, path, args in claims(self.folder):
            for verb in (("inspect", path), ("mean", path, "-o", self.folder / "mean.npy")):
                with self.subTest(name, verb=verb[0]):
                    code, peak, document = measured(*verb, *args, "--max-memory", "64M")
                    self.assertLessEqual(peak, 64 << 20, f"{peak >> 20} MiB: {document}")
                    if (verb[0], "great" in path.name) == ("inspect", True):
                        continue
                    self.assertEqual((code, document["schema"]), (2, "stempack.error/1"), document)


class Results(Temporary):
    """What is computed takes memory too; a small file may stand for any number of scan positions."""

    def test_results_of_many_scan_positions(self):
        array, out = self.folder / "array.npy", self.folder / "out.npy"
        np.save(array, np.ones((128, 128, 1, 1), np.uint8))
        pack = self.folder / "pack.h5"
        self.assertEqual(cli.run("pack", array, pack).code, 0)
        for command, budget in ((("image", pack, "--total"), 12), (("com", pack), 32), (("dpc", pack), 32)):
            with self.subTest(command[0]):
                enough = 2 * budget * 128 * 128
                cli.refused(self, cli.run(*command, "-o", out, "--max-memory", enough - 1), code="over_budget")
                self.assertFalse(out.exists())
                answer = cli.run(*command, "-o", out, "--force", "--max-memory", enough)
                self.assertEqual(answer.code, 0, repr(answer))
                out.unlink()

    def test_verification_stays_within_the_budget(self):
        array = self.folder / "array.npy"
        np.save(array, np.arange(64 * 128 * 20, dtype=np.uint16).reshape(64, 128, 4, 5))
        pack = self.folder / "pack.h5"
        self.assertEqual(cli.run("pack", array, pack).code, 0)
        for args in ((), ("--against", array)):
            cli.refused(self, cli.run("verify", pack, *args, "--max-memory", "64K"), code="over_budget")
            answer = cli.run("verify", pack, *args, "--max-memory", "2M")
            self.assertEqual(answer.code, 0, repr(answer))


if __name__ == "__main__":
    unittest.main()
