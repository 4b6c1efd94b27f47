"""How files may lie: names of any script, links, protection against writing, locks of other programs. In every format."""
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import h5py
import numpy as np

import cli
import formats
from test_pack import Temporary

NAME = "Messung Ä µ 試料 e\u0301 1"
# As the command is started by somebody whom permissions stop.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class Access(Temporary):
    def everything(self, folder, stem="scan"):
        """(name, files, array) of every format, of a pack and of a `.qem` file."""
        folder.mkdir(parents=True, exist_ok=True)
        yield from formats.originals(folder, stem)
        for suffix in ("h5", "qem"):
            own = folder / f"packed {suffix}"
            own.mkdir()
            source = formats.npy(self.folder, formats.counts(), f"source of {stem} {suffix}")[0]
            path = own / f"{stem}.{suffix}"
            answer = cli.run("pack", source, path)
            self.assertEqual(answer.code, 0, repr(answer))
            yield f"pack {suffix}", [path], formats.counts()

    def reads(self, entry, array, run=cli.run, where=None):
        """The acquisition is described, and every count comes out, into a file beside nothing else."""
        described = run("inspect", entry)
        self.assertEqual(described.code, 0, repr(described))
        self.assertEqual(len(described.json["acquisitions"]), 1, repr(described))
        out = (where or self.folder) / f"out {NAME}.npy"
        out.unlink(missing_ok=True)
        verb = ("image", entry, "--total", "-o", out) if array.ndim == 2 else ("unpack", entry, out)
        answer = run(*verb)
        self.assertEqual(answer.code, 0, repr(answer))
        got = np.load(out, allow_pickle=False)
        self.assertEqual(got.shape, array.shape)
        np.testing.assert_array_equal(got, array)
        return described.json["acquisitions"][0]


class Names(Access):
    def test_names_of_any_script(self):
        for name, files, array in self.everything(self.folder / NAME, NAME):
            for entry in files:
                with self.subTest(name, entry=entry.name):
                    described = self.reads(entry, array)
                    self.assertIn(NAME, described["members"][0]["path"])

    def test_a_folder_whose_name_is_no_text(self):
        """Names are bytes; these are Latin-1. Only the JSON document has to write them as text."""
        folder = self.folder / os.fsdecode(b"gr\xf6\xdfe")
        written = list(self.everything(self.folder / "text"))
        (self.folder / "text").rename(folder)
        for name, files, array in written:
            for entry in files:
                with self.subTest(name, entry=entry.name):
                    self.reads(folder / entry.relative_to(self.folder / "text"), array)
        answer = cli.run("inspect", folder)
        self.assertEqual((answer.code, answer.json["issues"]), (0, []), repr(answer))

    def test_a_folder_of_any_script_is_listed(self):
        names = [name for name, *_ in self.everything(self.folder / NAME, NAME)]
        answer = cli.run("inspect", self.folder / NAME)
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual((len(answer.json["acquisitions"]), answer.json["issues"]), (len(names), []), repr(answer))


class Pipes(Access):
    def test_a_pipe_is_refused_and_not_waited_for(self):
        for suffix in ("npy", "raw", "xml", "h5", "dm4", "emd", "qem", "bin"):
            with self.subTest(suffix):
                pipe = self.folder / f"pipe.{suffix}"
                os.mkfifo(pipe)
                document = cli.refused(self, cli.run("inspect", pipe, timeout=20), "unknown_format")
                self.assertIn("no regular file", document["message"])


class Links(Access):
    def linked(self, name, files, relative=False):
        """A folder with links to all files of an acquisition, under their own names."""
        folder = self.folder / "links" / name
        folder.mkdir(parents=True)
        for path in files:
            target = os.path.relpath(path, folder) if relative else path
            (folder / path.name).symlink_to(target)
        return folder

    def test_all_members_behind_links(self):
        for name, files, array in self.everything(self.folder / "real"):
            for relative in (False, True):
                folder = self.linked(f"{name} {relative}", files, relative)
                for path in files:
                    with self.subTest(name, member=path.name, relative=relative):
                        self.reads(folder / path.name, array)

    def test_one_member_alone_behind_a_link(self):
        """The others are found where it really lies."""
        for name, files, array in self.everything(self.folder / "real"):
            for path in files:
                with self.subTest(name, member=path.name):
                    folder = self.linked(f"{name} {path.name}", [path])
                    self.reads(folder / path.name, array)

    def test_links_of_other_names(self):
        """Contents decide; what names say about companions is read where the file really lies."""
        for name, files, array in self.everything(self.folder / "real"):
            for number, path in enumerate(files):
                for link in (f"today{path.suffix}", f"today_master{path.suffix}", f"today_data_000009{path.suffix}"):
                    with self.subTest(name, member=path.name, link=link):
                        folder = self.folder / "renamed" / f"{name} {number} {link}"
                        folder.mkdir(parents=True)
                        (folder / link).symlink_to(path)
                        self.reads(folder / link, array)

    def test_a_link_with_a_member_missing_where_it_leads(self):
        for name, lost, code in (("ARINA", "scan_data_000002.h5", "missing_member"), ("EMPAD-G1", "scan.raw", "missing_member")):
            with self.subTest(name):
                own = self.folder / "real" / name
                own.mkdir(parents=True)
                files, _ = formats.ORIGINALS[name](own, "scan")
                folder = self.linked(name, files[:1])
                (own / lost).unlink()
                document = cli.refused(self, cli.run("inspect", folder / files[0].name), code)
                self.assertIn(lost, document["message"])
                self.assertTrue(document["hint"])

    def test_links_that_lead_nowhere_or_in_a_circle(self):
        (self.folder / "gone_master.h5").symlink_to("nowhere.h5")
        (self.folder / "round.npy").symlink_to("round.npy")
        for name in ("gone_master.h5", "round.npy"):
            document = cli.refused(self, cli.run("inspect", self.folder / name), "io")
            self.assertIn(name, document["message"])
        answer = cli.run("inspect", self.folder)
        self.assertEqual((answer.code, len(answer.json["issues"])), (0, 2), repr(answer))

    def test_a_linked_folder_that_is_named(self):
        own = self.folder / "real"
        own.mkdir()
        formats.ORIGINALS["ARINA"](own, "scan")
        (self.folder / "link").symlink_to(own)
        answer = cli.run("inspect", self.folder / "link")
        self.assertEqual(len(answer.json["acquisitions"]), 1, repr(answer))

    def test_one_of_several_shards_without_a_master(self):
        """A link to one shard is not the whole acquisition."""
        own = self.folder / "real"
        own.mkdir()
        master, *shards, _companion = formats.arina(own, formats.counts().reshape(-1, *formats.DETECTOR), scan=formats.SCAN, shards=3)
        master.unlink()
        folder = self.linked("one", shards[:1])
        answer = cli.run("inspect", folder / shards[0].name)
        self.assertEqual(answer.json["acquisitions"][0]["frame_count"], 6, repr(answer))


class Protected(Access):
    def unprivileged(self):
        """A `run` of somebody who may not write, and a folder where they may."""
        where = self.folder / "theirs"
        where.mkdir()
        if os.geteuid() != 0:
            return cli.run, where
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is absent, and root may write anywhere")
        binary = self.folder / "stempack"
        shutil.copy2(cli.BINARY, binary)
        for path in (self.folder, binary):
            path.chmod(0o755)
        where.chmod(0o777)
        if subprocess.run([*NOBODY, str(binary), "--version"], capture_output=True).returncode != 0:
            self.skipTest("an unprivileged user cannot get at the temporary folder")

        def run(*args):
            command = [*NOBODY, str(binary), *map(str, args), "--json"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            return cli.Answer(done.returncode, done.stdout, done.stderr)

        return run, where

    def test_write_protected_files_in_write_protected_folders(self):
        run, where = self.unprivileged()
        for name, files, array in self.everything(self.folder / "real"):
            folder = files[0].parent
            for path in files:
                path.chmod(0o444)
            folder.chmod(0o555)
            try:
                before = sorted(folder.iterdir())
                for entry in files:
                    with self.subTest(name, entry=entry.name):
                        self.reads(entry, array, run, where)
                self.assertEqual(sorted(folder.iterdir()), before)
                with self.subTest(name, what="nothing can be written there"):
                    verb = ("image", files[0], "--total", "-o") if array.ndim == 2 else ("unpack", files[0])
                    document = cli.refused(self, run(*verb, folder / "out.npy"), "io")
                    self.assertIn(str(folder), document["message"])
            finally:
                folder.chmod(0o755)

    def test_files_that_may_not_be_read(self):
        run, where = self.unprivileged()
        for name, files, _ in self.everything(self.folder / "real"):
            for member in files:
                with self.subTest(name, member=member.name):
                    mode = member.stat().st_mode
                    member.chmod(0)
                    answer = run("inspect", files[0])
                    if "em_metadata" in member.name:
                        # A companion that cannot be read costs what it records, and that is said.
                        self.assertEqual(answer.code, 0, repr(answer))
                        self.assertIn(member.name, str(answer.json["acquisitions"][0]["warnings"]))
                        continue
                    if answer.code == 0:
                        # Described without its frames being looked at, which is where it ends.
                        answer = run("mean", files[0], "-o", where / "mean.npy")
                    member.chmod(mode)
                    document = cli.refused(self, answer, "io")
                    self.assertIn(member.name, document["message"])
                    self.assertIn("ermission denied", document["message"])


LOCKS = {
    "flock": "import fcntl; f = open(sys.argv[1], 'r+b'); fcntl.flock(f, fcntl.LOCK_EX)",
    "a record lock": "import fcntl; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX)",
    "h5py": "import h5py; f = h5py.File(sys.argv[1], 'r+', locking=True)",
    "h5py for reading": "import h5py; f = h5py.File(sys.argv[1], 'r', locking=True)",
}


@contextlib.contextmanager
def held(how, path):
    """Another process that has the file open and locked."""
    script = f"import sys; {LOCKS[how]}; print('held', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if other.stdout.readline().strip() != "held":
            raise AssertionError(f"{path} could not be locked")
        yield
    finally:
        other.communicate()


class Locked(Access):
    def test_what_another_program_locks_is_read(self):
        for name, files, array in self.everything(self.folder / "real"):
            for how in LOCKS:
                for member in files:
                    if "h5py" in how and not h5py.is_hdf5(member):
                        continue
                    with self.subTest(name, how=how, member=member.name), held(how, member):
                        self.reads(files[0], array)

    def test_an_environment_that_insists_on_locks(self):
        """Then a locked file is refused by what can be done about it."""
        files, _ = formats.ORIGINALS["EMD"](self.folder, "scan")
        command = [str(cli.BINARY), "inspect", str(files[0]), "--json"]
        with held("h5py", files[0]):
            done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"HDF5_USE_FILE_LOCKING": "TRUE"})
        document = cli.refused(self, cli.Answer(done.returncode, done.stdout, done.stderr), "file_locked", "Io")
        self.assertIn("scan.h5", document["message"])
        self.assertIn("HDF5_USE_FILE_LOCKING", document["hint"])

    def test_a_file_that_is_marked_as_being_written(self):
        """HDF5's latest format carries a mark as long as somebody has the file open for writing, and after a crash."""
        own = self.folder / "real"
        own.mkdir()
        path = own / "scan.h5"
        with h5py.File(path, "w", libver="latest") as file:
            file.attrs["authoring_program"], file.attrs["version_major"] = "emdfile", 1
            file["datacube_root/datacube/data"] = formats.counts()
        self.reads(path, formats.counts())
        with held("h5py", path):
            document = cli.refused(self, cli.run("inspect", path), "being_written", "Changed")
            self.assertIn("scan.h5", document["message"])
            self.assertIn("h5clear", document["hint"])
            # The rest of the folder loads.
            formats.npy(own, formats.counts(), "another")
            answer = cli.run("inspect", own)
            self.assertEqual([i["code"] for i in answer.json["issues"]], ["being_written"], repr(answer))
            self.assertEqual(len(answer.json["acquisitions"]), 1)
        self.reads(path, formats.counts())

    def test_a_file_that_is_not_yet_written(self):
        path = self.folder / "scan_master.h5"
        with h5py.File(path, "w", libver="earliest") as file:
            file["x"] = np.arange(10)
            document = cli.refused(self, cli.run("inspect", path), "unreadable_hdf5")
            self.assertIn("scan_master.h5", document["message"])
            self.assertIn("not written to its end", document["hint"])


if __name__ == "__main__":
    unittest.main()
