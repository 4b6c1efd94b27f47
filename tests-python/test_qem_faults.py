"""Real faults while a `.qem` file is written: a kill at every step, a full disk, an interrupt.

After each of them the destination is absent or complete, never half; what else is left is a draft that says so by its
name, and the next run succeeds and removes it.
"""
import re
import shutil
import signal
import subprocess
import unittest

import numpy as np

import acquisitions
import cli
import qem_oracle
from acquisitions import counts, exclude
from test_faults import PIPES, TRACED
from test_pack import Temporary

PARTIAL = re.compile(r"\.copy\.qem\.[A-Za-z0-9]{6}\.partial")


@TRACED
class Faults(Temporary):
    def setUp(self):
        super().setUp()
        raw = counts((30, 40), (9, 9))
        self.source = acquisitions.write(self.folder / "source", raw, exclude(raw, [5]), companion=True)
        self.out = self.folder / "out"
        self.out.mkdir()
        self.file = self.out / "copy.qem"

    def traced(self, inject):
        tracer = ["strace", "-f", "-o", self.folder / "trace", "-e", f"trace={inject.split(':')[0]}", "-e", f"inject={inject}"]
        command = [*tracer, cli.BINARY, "pack", self.source.master, self.file, "--threads", 2, "--json"]
        process = subprocess.Popen([str(c) for c in command], **PIPES)
        _, stderr = process.communicate(timeout=60)
        return process.returncode, stderr

    def never_half(self):
        names = [p.name for p in self.out.iterdir() if not PARTIAL.fullmatch(p.name)]
        if self.file.exists():
            np.testing.assert_array_equal(qem_oracle.Qem(self.file).array(), self.source.raw)
            self.assertEqual(names, ["copy.qem"])
            return True
        self.assertEqual(names, [])
        return False

    def second_run_succeeds(self):
        answer = cli.run("pack", self.source.master, self.file)
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual([p.name for p in self.out.iterdir()], ["copy.qem"])
        self.assertTrue(self.never_half())

    def start_over(self):
        shutil.rmtree(self.out)
        self.out.mkdir()

    def everywhere(self, call, fault, most=80):
        """The fault at the first, second, … time that a thread enters `call`, until a run gets through."""
        faults = 0
        for when in range(1, most):
            code, stderr = self.traced(f"{call}:{fault}:when={when}")
            if code == 0:
                self.assertTrue(self.never_half())
                self.assertGreater(faults, 0, f"{call} is never called: {stderr}")
                return
            faults += 1
            if fault.startswith("error"):
                self.assertEqual(code, 2, stderr)
                self.assertEqual(list(self.out.iterdir()), [])
            else:
                self.assertEqual(code, -signal.SIGKILL, stderr)
                if not self.never_half() and any(self.out.iterdir()):
                    self.second_run_succeeds()
                self.start_over()
        self.fail(f"{call} was still at fault at step {most}")

    def test_killed_while_writing(self):
        self.everywhere("pwrite64", "signal=KILL")

    def test_killed_while_syncing(self):
        self.everywhere("fsync", "signal=KILL")

    def test_killed_while_naming(self):
        self.everywhere("renameat2", "signal=KILL")

    def test_a_full_disk(self):
        self.everywhere("pwrite64", "error=ENOSPC")

    def test_a_disk_that_does_not_sync(self):
        self.everywhere("fsync", "error=EIO")


if __name__ == "__main__":
    unittest.main()
