"""Real faults: a kill at every step, a full disk, a changing source, an occupied name, an interrupt, no permission.

After each of them the destination is absent or complete, never half; what else is left is recognisable, and the next
run succeeds and removes it.

Publication renames with renameat2 and needs no hard links, so a file system without them is no case of its own.
"""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import h5py
import numpy as np

import acquisitions
import cli
import pack_oracle
from acquisitions import counts, exclude
from test_pack import Temporary
from test_refusals import large_acquisition

PARTIAL = re.compile(r"\.packed\.h5\.(receipt\.json\.)?[A-Za-z0-9]{6}\.partial")
PIPES = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)


def strace_works():
    """Whether a child can be traced here, and calls can be tampered with."""
    try:
        done = subprocess.run(
            ["strace", "-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", "true"], capture_output=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


TRACED = unittest.skipUnless(strace_works(), "strace is absent or must not trace here")


class Faults(Temporary):
    """A small source, an output folder, and the judgement of what a fault left there."""

    def setUp(self):
        super().setUp()
        raw = counts((8, 8), (9, 9))
        self.source = acquisitions.write(self.folder / "source", raw, exclude(raw, [5]))
        self.out = self.folder / "out"
        self.out.mkdir()
        self.packed_file = self.out / "packed.h5"
        self.receipt_file = self.out / "packed.h5.receipt.json"

    def command(self, *args, source=None, scan=None):
        source, scan = source or self.source.master, scan or self.source.scan_argument
        return [str(c) for c in (cli.BINARY, "pack", source, self.packed_file, *scan, *args, "--threads", 2, "--json")]

    def traced(self, inject, *args):
        """Packs while strace tampers with one call → (exit code or minus signal, document, stderr)."""
        call = inject.split(":")[0]
        tracer = ["strace", "-f", "-o", self.folder / "trace", "-e", f"trace={call}", "-e", f"inject={inject}"]
        return self.finish(subprocess.Popen([str(t) for t in tracer] + self.command(*args), **PIPES))

    def finish(self, process):
        stdout, stderr = process.communicate(timeout=60)
        document = json.loads(stdout) if stdout.strip() else None
        return process.returncode, document, stderr

    def left(self):
        return sorted(p.name for p in self.out.iterdir())

    def complete(self):
        """The container is whole for a reader that shares no code, and for its receipt."""
        np.testing.assert_array_equal(pack_oracle.Pack(self.packed_file).raw(), self.source.raw)
        receipt = json.loads(self.receipt_file.read_text())
        self.assertEqual(receipt["outputSHA256"], hashlib.sha256(self.packed_file.read_bytes()).hexdigest())

    def never_half(self):
        """Absent or complete, and nothing but recognisable drafts beside it. Returns whether it is complete."""
        names = [n for n in self.left() if not PARTIAL.fullmatch(n)]
        if self.packed_file.exists():
            self.complete()
            self.assertEqual(names, ["packed.h5", "packed.h5.receipt.json"])
            return True
        # The receipt goes first; alone it must be whole, for it will be judged by what it says.
        self.assertIn(names, ([], ["packed.h5.receipt.json"]))
        if names:
            json.loads(self.receipt_file.read_text())
        return False

    def second_run_succeeds(self):
        """Without --force, whatever was left; and it is tidied up."""
        answer = cli.run("pack", self.source.master, self.packed_file, *self.source.scan_argument)
        self.assertEqual(answer.code, 0, repr(answer))
        self.complete()
        self.assertEqual(self.left(), ["packed.h5", "packed.h5.receipt.json"])

    def start_over(self):
        shutil.rmtree(self.out)
        self.out.mkdir()


@TRACED
class KilledAtEveryStep(Faults):
    def kill_everywhere(self, call, most=60):
        """Kills at the first, second, … time that a thread enters `call`, until a run gets through."""
        kills = orphans = 0
        for when in range(1, most):
            code, _, stderr = self.traced(f"{call}:signal=KILL:when={when}")
            if code == 0:
                self.assertTrue(self.never_half())
                self.assertGreater(kills, 0, f"{call} is never called: {stderr}")
                self.start_over()
                return orphans
            self.assertEqual(code, -signal.SIGKILL, stderr)
            kills += 1
            left = self.left()
            # Reads of the source and the loader's come first, and leave nothing.
            if self.never_half():
                self.start_over()
            elif left:
                orphans += "packed.h5.receipt.json" in left
                self.second_run_succeeds()
                self.start_over()
        self.fail(f"{call} was still killed at step {most}")

    def test_pwrite(self):
        self.kill_everywhere("pwrite64")

    def test_write(self):
        self.kill_everywhere("write")

    def test_fsync(self):
        self.assertGreater(self.kill_everywhere("fsync"), 0, "no kill fell between receipt and container")

    def test_rename(self):
        self.assertGreater(self.kill_everywhere("renameat2"), 0, "no kill fell between receipt and container")

    def test_truncate_and_lock(self):
        self.kill_everywhere("ftruncate")
        self.kill_everywhere("flock")


class KilledAnyTime(Faults):
    def test_at_growing_delays(self):
        """Without a tracer: wherever the clock strikes."""
        started = time.monotonic()
        self.second_run_succeeds()
        whole = time.monotonic() - started
        self.start_over()
        for k in range(12):
            process = subprocess.Popen(self.command(), **PIPES)
            time.sleep(whole * k / 12)
            process.kill()
            process.communicate(timeout=60)
            if not self.never_half():
                self.second_run_succeeds()
            self.start_over()


@TRACED
class Leftovers(Faults):
    """Between the two publications a kill leaves the receipt, and only the draft beside it tells why it is there."""

    def setUp(self):
        super().setUp()
        code, _, stderr = self.traced("renameat2:signal=KILL:when=2")
        self.assertEqual(code, -signal.SIGKILL, stderr)
        (self.draft,) = [p for p in self.out.iterdir() if p.suffix == ".partial"]
        self.assertEqual(sorted(set(self.left()) - {self.draft.name}), ["packed.h5.receipt.json"])
        self.receipt = self.receipt_file.read_bytes()

    def test_a_second_kill_does_not_stop_the_third_run(self):
        for call in ("unlink", "pwrite64", "renameat2"):
            for when in (1, 2):
                self.traced(f"{call}:signal=KILL:when={when}")
                self.assertFalse(self.never_half())
        self.second_run_succeeds()

    def test_the_receipt_of_a_container_kept_elsewhere_stays(self):
        self.draft.unlink()
        answer = cli.run("pack", self.source.master, self.packed_file, *self.source.scan_argument)
        document = cli.refused(self, answer, code="destination_exists")
        self.assertIn("--force", document["hint"])
        self.assertEqual(self.receipt_file.read_bytes(), self.receipt)
        self.assertEqual(self.left(), ["packed.h5.receipt.json"])

    def test_the_receipt_of_other_bytes_stays(self):
        with open(self.draft, "r+b") as file:
            file.seek(70000)
            file.write(b"\x55")
        answer = cli.run("pack", self.source.master, self.packed_file, *self.source.scan_argument)
        cli.refused(self, answer, code="destination_exists")
        self.assertEqual(self.receipt_file.read_bytes(), self.receipt)


@TRACED
class Replacing(Faults):
    def test_a_kill_while_replacing_leaves_the_old_container_or_the_new(self):
        self.second_run_succeeds()
        old = self.packed_file.read_bytes()
        for call in ("pwrite64", "fsync", "renameat2"):
            for when in (1, 2, 3):
                self.traced(f"{call}:signal=KILL:when={when}", "--force", "--profile", "u16")
                if self.packed_file.read_bytes() == old:
                    np.testing.assert_array_equal(pack_oracle.Pack(self.packed_file).raw(), self.source.raw)
                else:
                    self.complete()
        answer = cli.run("pack", self.source.master, self.packed_file, *self.source.scan_argument, "--force")
        self.assertEqual(answer.code, 0, repr(answer))
        self.complete()
        self.assertEqual(self.left(), ["packed.h5", "packed.h5.receipt.json"])


@TRACED
class FailingCalls(Faults):
    def fail_everywhere(self, call, error, codes=("io", "hdf5_write"), most=60):
        failures = 0
        for when in range(1, most):
            code, document, stderr = self.traced(f"{call}:error={error}:when={when}")
            if code == 0:
                self.assertTrue(self.never_half())
                self.assertGreater(failures, 0, stderr)
                self.start_over()
                return
            failures += 1
            self.assertEqual(code, 2, stderr)
            self.assertEqual(document["kind"], "Io", document)
            self.assertIn(document["code"], codes)
            self.assertEqual(self.left(), [], (call, when, document))
        self.fail(f"{call} still fails at step {most}")

    def test_no_space(self):
        self.fail_everywhere("pwrite64", "ENOSPC")
        self.fail_everywhere("ftruncate", "ENOSPC")

    def test_what_cannot_be_made_durable_is_not_published(self):
        self.fail_everywhere("fsync", "EIO", codes=("io",))

    def test_what_cannot_be_renamed_is_not_published(self):
        self.fail_everywhere("renameat2", "EACCES", codes=("io",))


class FullDisk(Faults):
    def test_a_full_disk(self):
        """Real file systems of several sizes, so that different steps find no space."""
        raw = np.random.default_rng(3).integers(0, 65535, (8, 8, 96, 96), np.uint16)
        self.source = acquisitions.write(self.folder / "large", raw)
        sizes = ["8k", "64k", "72k", "100k", "1m", "1200k"]
        codes = set()
        for size in sizes:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.out)]
            if subprocess.run(mount, capture_output=True).returncode != 0:
                self.skipTest("file systems must not be mounted here")
            try:
                code, document, stderr = self.finish(subprocess.Popen(self.command(), **PIPES))
                left = self.left()
            finally:
                subprocess.run(["umount", str(self.out)], check=True)
            self.assertEqual(code, 2, stderr)
            self.assertEqual(document["kind"], "Io", document)
            self.assertEqual(left, [], size)
            codes.add(document["code"])
        self.assertIn("io", codes)
        self.assertLessEqual(codes, {"io", "hdf5_write"})
        self.second_run_succeeds()


class WhilePacking(Faults):
    """A run is stopped while it packs, something happens to its files, and it goes on."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.large = pathlib.Path(folder.name) / "large"
        large_acquisition(cls.large, 2048, 192)

    def setUp(self):
        super().setUp()
        shutil.copytree(self.large, self.folder / "copy")
        self.master = self.folder / "copy/scan_master.h5"
        self.data = self.folder / "copy/scan_data_000001.h5"

    @contextlib.contextmanager
    def stopped(self):
        """Stops the process once its draft exists; lets it go on after the body and waits for it."""
        process = subprocess.Popen(self.command("--profile", "u16", source=self.master, scan=["--scan", "32x64"]), **PIPES)
        try:
            deadline = time.monotonic() + 60
            while not self.left() and time.monotonic() < deadline:
                time.sleep(0.002)
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            self.assertTrue(all(PARTIAL.fullmatch(n) for n in self.left()), "it ended before it could be stopped")
            yield
            process.send_signal(signal.SIGCONT)
            self.code, self.document, self.stderr = self.finish(process)
        finally:
            process.kill()

    def refused(self, codes, left=()):
        self.assertEqual(self.code, 2, self.stderr)
        self.assertIn(self.document["code"], codes, self.document)
        self.assertEqual(self.left(), sorted(left))
        return self.document

    def test_a_member_rewritten_in_place(self):
        with self.stopped():
            status = self.data.stat()
            with open(self.data, "r+b") as file:
                file.seek(status.st_size // 2)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(byte)
            os.utime(self.data, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.assertIn("scan_data_000001.h5", self.refused(["source_changed"])["message"])

    def test_a_master_rewritten_in_place(self):
        with self.stopped():
            with h5py.File(self.master, "r+") as file:
                file["entry/data"].attrs["note"] = "changed"
        self.assertIn("scan_master.h5", self.refused(["source_changed"])["message"])

    def test_a_member_removed(self):
        with self.stopped():
            self.data.unlink()
        self.assertIn("scan_data_000001.h5", self.refused(["source_changed"])["message"])

    def test_a_member_replaced(self):
        other = self.folder / "other.h5"
        shutil.copy2(self.data, other)
        with self.stopped():
            other.rename(self.data)
        self.refused(["source_changed"])

    def test_a_member_cut(self):
        with self.stopped():
            os.truncate(self.data, self.data.stat().st_size // 2)
        self.refused(["source_changed", "corrupt_payload", "io"])

    def test_a_destination_that_appears(self):
        with self.stopped():
            self.packed_file.write_bytes(b"somebody's work")
        self.refused(["destination_exists"], ["packed.h5"])
        self.assertEqual(self.packed_file.read_bytes(), b"somebody's work")

    def test_a_receipt_that_appears(self):
        with self.stopped():
            self.receipt_file.write_bytes(b"somebody's receipt")
        self.refused(["destination_exists"], ["packed.h5.receipt.json"])
        self.assertEqual(self.receipt_file.read_bytes(), b"somebody's receipt")

    def test_another_run_for_the_same_name(self):
        """The living draft is not taken for a leftover; whoever is second is refused."""
        with self.stopped():
            answer = cli.run("pack", self.source.master, self.packed_file, *self.source.scan_argument)
            self.assertEqual(answer.code, 0, repr(answer))
        self.refused(["destination_exists"], ["packed.h5", "packed.h5.receipt.json"])
        self.complete()

    def test_a_folder_that_vanishes(self):
        with self.stopped():
            shutil.rmtree(self.out)
        self.assertEqual(self.code, 2, self.stderr)
        self.assertFalse(self.out.exists())


@TRACED
class BetweenThePublications(Faults):
    def slow_second_rename(self):
        tracer = ["strace", "-f", "-o", "/dev/null", "-e", "trace=renameat2"]
        inject = ["-e", "inject=renameat2:delay_enter=1500000:when=2"]
        process = subprocess.Popen(tracer + inject + self.command(), **PIPES)
        deadline = time.monotonic() + 60
        while not self.receipt_file.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(self.packed_file.exists())
        return process

    def test_a_destination_that_appears_takes_the_receipt_back(self):
        process = self.slow_second_rename()
        self.packed_file.write_bytes(b"somebody's work")
        code, document, stderr = self.finish(process)
        self.assertEqual((code, document["code"]), (2, "destination_exists"), stderr)
        self.assertEqual(self.left(), ["packed.h5"])
        self.assertEqual(self.packed_file.read_bytes(), b"somebody's work")

    def test_the_receipt_of_a_living_run_is_no_leftover(self):
        process = self.slow_second_rename()
        answer = cli.run("pack", self.source.master, self.packed_file, *self.source.scan_argument)
        cli.refused(self, answer, code="destination_exists")
        code, _, stderr = self.finish(process)
        self.assertEqual(code, 0, stderr)
        self.complete()


class Interrupted(Faults):
    def judge(self, code, document, stderr):
        """130 and nothing, or too late and everything."""
        if code == 0:
            self.complete()
            self.assertEqual(self.left(), ["packed.h5", "packed.h5.receipt.json"])
        else:
            self.assertEqual(code, 130, stderr)
            self.assertEqual(document["code"], "cancelled")
            self.assertEqual(self.left(), [])
        self.start_over()

    @TRACED
    def test_at_steps(self):
        codes = set()
        for call, whens in (("openat", (25, 40)), ("pwrite64", (1, 4, 7)), ("fsync", (1, 2, 4)), ("renameat2", (1, 2))):
            for when in whens:
                code, document, stderr = self.traced(f"{call}:signal=INT:when={when}")
                if code == -signal.SIGINT:
                    # Before the handler stands, the signal simply ends the program.
                    self.assertEqual(self.left(), [])
                    continue
                codes.add(code)
                self.judge(code, document, stderr)
        self.assertEqual(codes, {0, 130}, "interrupts before and after the last moment to turn back")

    def test_at_growing_delays(self):
        master, _ = large_acquisition(self.folder / "large", 2048, 192)
        process = codes = None
        for k in range(5):
            process = subprocess.Popen(self.command("--profile", "u16", source=master, scan=["--scan", "32x64"]), **PIPES)
            deadline = time.monotonic() + 60
            while not self.left() and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(0.06 * k)
            process.send_signal(signal.SIGINT)
            code, document, stderr = self.finish(process)
            if code == 0:
                # The machine was faster than the clock of this test.
                self.assertEqual(self.left(), ["packed.h5", "packed.h5.receipt.json"])
                self.start_over()
            else:
                self.judge(code, document, stderr)
            codes = (codes or []) + [code]
        self.assertIn(130, codes)


class NoPermission(Faults):
    def unprivileged(self, command):
        """Runs as nobody when this is root, whom permissions do not stop."""
        if os.geteuid() != 0:
            return self.finish(subprocess.Popen(command, **PIPES))
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is absent, and root may write anywhere")
        binary = self.folder / "stempack"
        shutil.copy2(cli.BINARY, binary)
        for path in (self.folder, self.folder / "source", binary):
            path.chmod(0o755)
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if subprocess.run([*drop, "cat", self.source.master], capture_output=True).returncode != 0:
            self.skipTest("an unprivileged user cannot get at the temporary folder")
        return self.finish(subprocess.Popen([*drop, str(binary), *command[1:]], **PIPES))

    def test_a_read_only_folder(self):
        self.out.chmod(0o555)
        code, document, stderr = self.unprivileged(self.command())
        self.assertEqual((code, document["code"]), (2, "io"), stderr)
        self.assertIn(str(self.out), document["message"])
        self.assertIn(str(self.out), stderr)
        self.assertEqual(self.left(), [])
        self.out.chmod(0o777)
        self.second_run_succeeds()

    def test_a_folder_that_cannot_be_made_durable(self):
        """Files can be made in it, but it cannot be opened to be synced."""
        self.out.chmod(0o333)
        code, document, stderr = self.unprivileged(self.command())
        self.out.chmod(0o777)
        self.assertEqual((code, document["code"]), (2, "io"), stderr)
        self.assertIn(str(self.out), document["message"])
        self.assertEqual(self.left(), [])

    def test_a_folder_that_is_not_there(self):
        self.out.rmdir()
        code, document, stderr = self.finish(subprocess.Popen(self.command(), **PIPES))
        self.assertEqual((code, document["code"]), (2, "io"), stderr)
        self.assertIn(str(self.out), document["message"])
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
