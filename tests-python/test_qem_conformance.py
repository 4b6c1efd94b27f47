"""The conformance bundle: its files are what its manifest says, for the plain oracle and for stempack alike."""
import hashlib
import json
import unittest

import cli
import qem_conformance
import qem_oracle
from qem_conformance import CASES, FAULTS, FOLDER
from test_pack import Temporary


class Bundle(Temporary):
    def test_everybody_decodes_what_the_formulas_say(self):
        manifest = json.loads((FOLDER / "manifest.json").read_text())
        self.assertEqual({e["file"] for e in manifest["accepted"]}, {p.name for p in FOLDER.glob("*.qem")})
        for entry in manifest["accepted"]:
            with self.subTest(entry["file"]):
                path = FOLDER / entry["file"]
                array = CASES[path.stem]()
                self.assertEqual(entry, qem_conformance.entry(path, array))
                self.assertEqual(qem_oracle.Qem(path).array().tobytes(), array.tobytes())
                back, answer = cli.array("unpack", path)
                self.assertEqual((back.shape, back.dtype, back.tobytes()), (array.shape, array.dtype, array.tobytes()))
                self.assertEqual(answer.json["logical_sha256"], entry["array_sha256"])
                self.assertEqual(cli.run("verify", path, "--strict", "--expect-sha256", entry["sha256"], "--require-seal").code, 0)

    def test_every_fault_is_refused(self):
        self.assertEqual(json.loads((FOLDER / "manifest.json").read_text())["faults"], FAULTS)
        for source in FOLDER.glob("*.qem"):
            for name in FAULTS:
                path = self.folder / f"{source.stem}-{name}.qem"
                path.write_bytes(qem_conformance.fault(name, source.read_bytes()))
                with self.subTest(path.name):
                    self.assertNotEqual(cli.run("verify", path).code, 0)
                    with self.assertRaises(qem_oracle.Refused):
                        qem_oracle.Qem(path).array()

    def test_the_readme_names_every_file(self):
        text = (FOLDER / "README.md").read_text()
        for name in [*CASES, *FAULTS]:
            self.assertIn(f"`{name}", text)


if __name__ == "__main__":
    unittest.main()
