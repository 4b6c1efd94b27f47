"""What `inspect` says of files and folders: catalogs, digests, metadata, statements of the user, explanations."""
import hashlib
import json
import pathlib
import shutil
import unittest

import h5py

import acquisitions
import cli
import formats
from acquisitions import counts
from test_pack import Temporary


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Folders(Temporary):
    def pack(self, source, name):
        answer = cli.run("pack", source, self.folder / name)
        self.assertEqual(answer.code, 0, repr(answer))
        return self.folder / name

    def test_packs_and_saved_copies_are_listed_with_the_originals(self):
        (self.folder / "sub").mkdir()
        (source,) = formats.npy(self.folder / "sub", formats.counts(), "a")
        packs = [self.pack(source, "z.h5"), self.pack(source, "sub/b.qem"), self.pack(source, "sub/odd_master.h5")]
        # By contents, whatever the name.
        shutil.copy(packs[0], self.folder / "sub/copy.bin")
        answer = cli.run("inspect", self.folder, "--digest")
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual(answer.json["issues"], [], "a pack with the name of a master is no broken master")
        listed = [(a["path"].removeprefix(f"{self.folder}/"), a["format"]) for a in answer.json["acquisitions"]]
        pack = "Lossless Pack Format v1"
        self.assertEqual([p for p, _ in listed], ["sub/a.npy", "sub/b.qem", "sub/copy.bin", "sub/odd_master.h5", "z.h5"])
        self.assertEqual([f for _, f in listed[2:]], [pack, pack, pack])
        for described in answer.json["acquisitions"]:
            for member in described["members"]:
                self.assertEqual(member["sha256"], sha256(pathlib.Path(member["path"])))
        table = cli.run("inspect", self.folder, plain=True)
        for path, _ in listed:
            self.assertIn(path, table.stdout)

    def test_a_folder_of_packs_alone(self):
        (source,) = formats.npy(self.folder, formats.counts(), "a")
        self.pack(source, "a.h5")
        self.pack(source, "a.qem")
        source.unlink()
        answer = cli.run("inspect", self.folder)
        self.assertEqual((answer.code, len(answer.json["acquisitions"]), answer.json["issues"]), (0, 2, []), repr(answer))
        # Named twice, it is listed once.
        answer = cli.run("inspect", self.folder / "a.h5", self.folder, self.folder / "a.h5")
        self.assertEqual([a["path"].rsplit("/")[-1] for a in answer.json["acquisitions"]], ["a.h5", "a.qem"])

    def test_damaged_packs_are_issues_beside_the_rest(self):
        (source,) = formats.npy(self.folder, formats.counts(), "a")
        for name in ("cut.h5", "cut.qem"):
            path = self.pack(source, name)
            path.write_bytes(path.read_bytes()[:100])
        (self.folder / "empty.qem").write_bytes(b"")
        answer = cli.run("inspect", self.folder)
        self.assertEqual((answer.code, len(answer.json["acquisitions"])), (0, 1), repr(answer))
        issues = [i["path"].rsplit("/")[-1] for i in answer.json["issues"]]
        self.assertEqual(sorted(issues), ["cut.h5", "cut.qem", "empty.qem"])

    def test_an_empty_folder_is_refused(self):
        cli.refused(self, cli.run("inspect", self.folder), "no_acquisition")


class Digests(Temporary):
    def test_every_member_of_every_format(self):
        for name, files, _ in formats.originals(self.folder):
            for entry in files:
                with self.subTest(name, entry=entry.name):
                    answer = cli.run("inspect", entry, "--digest")
                    self.assertEqual(answer.code, 0, repr(answer))
                    (described,) = answer.json["acquisitions"]
                    got = {m["path"].rsplit("/")[-1]: m["sha256"] for m in described["members"]}
                    self.assertEqual(got, {path.name: sha256(path) for path in files})

    def test_a_raw_that_two_xml_files_name(self):
        """Each XML is digested with it; the RAW alone says which files to give instead."""
        xml, raw = formats.empad(self.folder, formats.patterns().reshape(-1, 128, 128), formats.SCAN)
        xml.rename(self.folder / "first.xml")
        for name, text in (("first.xml", None), ("second.xml", (self.folder / "first.xml").read_text())):
            path = self.folder / name
            if text is not None:
                path.write_text(text)
            answer = cli.run("inspect", path, "--digest")
            self.assertEqual(answer.code, 0, repr(answer))
            (described,) = answer.json["acquisitions"]
            self.assertEqual({m["path"].rsplit("/")[-1]: m["sha256"] for m in described["members"]}, {raw.name: sha256(raw), name: sha256(path)})
        document = cli.refused(self, cli.run("inspect", raw, "--digest"), "ambiguous_source")
        self.assertEqual(document["candidates"], ["first.xml", "second.xml"])
        self.assertIn("XML", document["hint"])
        folder = cli.run("inspect", self.folder, "--digest")
        self.assertEqual((folder.code, len(folder.json["acquisitions"])), (0, 1), repr(folder))
        self.assertEqual([i["code"] for i in folder.json["issues"]], ["ambiguous_source"])


class Metadata(Temporary):
    def setUp(self):
        super().setUp()
        self.source = acquisitions.write(self.folder / "source", counts((2, 3), (9, 9)), companion=True)

    def test_interpreted_retained_and_left_out(self):
        with h5py.File(self.source.master, "r+") as master:
            for i in range(150):
                master[f"a/value_{i:03d}"] = i
        plain = cli.run("inspect", self.source.master)
        (described,) = plain.json["acquisitions"]
        self.assertNotIn("metadata", described)
        answer = cli.run("inspect", self.source.master, "--metadata")
        (described,) = answer.json["acquisitions"]
        metadata = described["metadata"]
        interpreted = {e["name"]: e["value"] for e in metadata["interpreted"]}
        retained = {e["key"]: e["value"] for e in metadata["retained"]}
        self.assertLessEqual({"scan_step_row", "scan_step_col", "camera_model"}, set(interpreted))
        # 153 in the master, of which a hundred stay, and six in the companion.
        self.assertEqual((len(retained), metadata["left_out"]), (106, 53))
        # What is interpreted is never among those left out, wherever it stands.
        steps = "electron_microscope/scan_controller/regular_scan/pixel_size_"
        self.assertEqual((retained[steps + "y"], retained[steps + "x"]), ("0.05 nm", "0.04 nm"))
        self.assertIn("entry/instrument/detector/description", retained)
        self.assertEqual(retained["a/value_007"], "7")
        text = cli.run("inspect", self.source.master, "--metadata", plain=True).stdout
        for said in ("a/value_007", "53", "pixel_size_y"):
            self.assertIn(said, text)

    def test_documents_come_whole_with_their_digest(self):
        xml, _ = formats.empad(self.folder, formats.patterns().reshape(-1, 128, 128), formats.SCAN)
        answer = cli.run("inspect", xml, "--metadata")
        (document,) = answer.json["acquisitions"][0]["metadata"]["documents"]
        self.assertEqual((document["filename"], document["sha256"]), (xml.name, sha256(xml)))
        self.assertEqual(document["content"], xml.read_text())

    def stated(self, *args):
        answer = cli.run("inspect", self.source.master, *args)
        self.assertEqual(answer.code, 0, repr(answer))
        (described,) = answer.json["acquisitions"]
        # What was recorded stays what it was.
        self.assertEqual({n: q["value"] for n, q in described["quantities"].items()}, {"scan_step_row": 0.5, "scan_step_col": 0.4})
        return described

    def test_statements_stand_beside_what_was_recorded(self):
        one = self.stated("--set", "scan_step=1.5angstrom", "--set", "beam_energy=300kV", "--evidence", "lab book")
        overrides = one["overrides"]
        self.assertEqual({n: (o["value"], o["unit"]) for n, o in overrides.items()}, {"scan_step_row": (1.5, "angstrom"), "scan_step_col": (1.5, "angstrom"), "beam_energy": (300, "keV")})
        self.assertEqual({o["evidence"] for o in overrides.values()}, {"lab book"})
        # CODATA 2022, as everybody may look it up.
        self.assertAlmostEqual(one["derived"]["wavelength"]["value"], 0.0196875, places=7)
        self.assertEqual(one["derived"]["wavelength"]["from"], ["overrides.beam_energy"])
        file = self.folder / "overrides.json"
        quantities = {"scan_step": {"value": 0.15, "unit": "nm"}, "beam_energy": {"value": 300000, "unit": "V"}}
        file.write_text(json.dumps({"schema": "stempack.overrides/1", "evidence": "lab book", "quantities": quantities}))
        other = self.stated("--overrides", file)["overrides"]
        for name, override in overrides.items():
            self.assertAlmostEqual(other[name]["value"], override["value"], places=12)
            self.assertEqual(other[name]["evidence"], "lab book")
        text = cli.run("inspect", self.source.master, "--overrides", file, plain=True).stdout
        self.assertIn("lab book", text)

    def test_statements_that_are_refused(self):
        for args in (
            ["--set", "beam_energy=300", "--evidence", "x"],
            ["--set", "beam_energy=-300kV", "--evidence", "x"],
            ["--set", "beam_energy=nankV", "--evidence", "x"],
            ["--set", "scan_step_row=1nm", "--evidence", "x"],
            ["--set", "weight=1kg", "--evidence", "x"],
            ["--set", "beam_energy=300kV"],
            ["--set", "beam_energy=300kV", "--set", "beam_energy=200kV", "--evidence", "x"],
        ):
            with self.subTest(args):
                document = cli.refused(self, cli.run("inspect", self.source.master, *args))
                self.assertEqual(document["kind"], "Usage", document)
        file = self.folder / "overrides.json"
        good = {"schema": "stempack.overrides/1", "evidence": "x", "quantities": {"beam_energy": {"value": 300, "unit": "kV"}}}
        for change in (
            {"schema": "other/1"},
            {"evidence": ""},
            {"quantities": {}},
            {"quantities": {"beam_energy": {"value": "300", "unit": "kV"}}},
            {"quantities": {"beam_energy": {"value": 300}}},
            {"more": 1},
        ):
            with self.subTest(change):
                file.write_text(json.dumps(good | change))
                document = cli.refused(self, cli.run("inspect", self.source.master, "--overrides", file))
                self.assertIn("overrides.json", document["message"])
        # Of several acquisitions nobody knows which is meant.
        acquisitions.write(self.folder / "more", counts((2, 3), (9, 9)))
        answer = cli.run("inspect", self.folder, "--set", "beam_energy=300kV", "--evidence", "x")
        cli.refused(self, answer, "several_acquisitions")


class Explanations(Temporary):
    def test_every_format_says_why(self):
        files = {name: files[0] for name, files, _ in formats.originals(self.folder / "all")}
        (self.folder / "all/notes.txt").write_text("nothing")
        answer = cli.run("inspect", self.folder / "all", "--explain")
        self.assertEqual(answer.code, 0, repr(answer))
        explained = {e["path"]: e["candidates"] for e in answer.json["explanations"]}
        formats_known = {c["format"] for c in explained[str(self.folder / "all/notes.txt")]}
        self.assertEqual(formats_known, {"arina", "emd", "velox", "empad", "dm", "npy"})
        expected = {"ARINA": "arina", "EMPAD-G1": "empad", "EMPAD-G2": "empad", "EMD": "emd", "EMD in chunks": "emd", "DM4": "dm", "DM3": "dm", "npy": "npy", "Velox": "velox"}
        for name, path in files.items():
            best, *rest = explained[str(path)]
            self.assertEqual(best["format"], expected[name])
            self.assertTrue(all(c["score"] is None or c["score"] <= best["score"] for c in rest))
        for candidates in explained.values():
            self.assertEqual({c["format"] for c in candidates}, formats_known)
            self.assertTrue(all(c["why"] for c in candidates))
        self.assertTrue(all(c["score"] is None for c in explained[str(self.folder / "all/notes.txt")]))

    def test_what_does_not_open_is_explained(self):
        path = self.folder / "scan_master.h5"
        path.write_text("no HDF5")
        answer = cli.run("inspect", path, "--explain")
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertEqual([i["code"] for i in answer.json["issues"]], ["unknown_format"])
        self.assertEqual(len(answer.json["explanations"][0]["candidates"]), 6)
        text = cli.run("inspect", path, "--explain", plain=True).stdout
        self.assertEqual(text.count("refused:"), 6)
        for verb in (("inspect",), ("mean", "-o", self.folder / "mean.npy")):
            refusal = cli.refused(self, cli.run(verb[0], path, *verb[1:]), "unknown_format")
            self.assertIn(".qem", refusal["hint"])


if __name__ == "__main__":
    unittest.main()
