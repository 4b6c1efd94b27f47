"""The documentation against the program: every verb and option is described, and nothing else is."""
import json
import re
import unittest

import cli
import schemas
from cli import ROOT


class CommandLine(unittest.TestCase):
    def help(self, *verb):
        answer = cli.run(*verb, "--help", plain=True)
        self.assertEqual(answer.code, 0, repr(answer))
        return answer.stdout

    def test_every_verb_and_option_is_described(self):
        page = (ROOT / "docs/reference/cli.md").read_text()
        sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.M | re.S))
        listed = re.search(r"Commands:\n(.*?)\n\n", self.help(), re.S)[1]
        verbs = set(re.findall(r"^  (\w+) ", listed, re.M)) - {"help"}
        self.assertEqual(verbs, set(sections) - {"Output"})
        common = page.split("\n## ", 1)[0]
        for verb in sorted(verbs):
            options = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", self.help(verb))) - {"--help", "--version", "--output"}
            described = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", sections[verb]))
            general = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", common))
            with self.subTest(verb):
                self.assertEqual(options - described - general, set(), "options that are not described")
                self.assertEqual(described - options, set(), "options that do not exist")

    def test_every_schema_is_listed(self):
        page = (ROOT / "docs/reference/json.md").read_text()
        listed = dict(re.findall(r"^\| \[(stempack\.[a-z]+/\d)\]\((schemas/[^)]+)\)", page, re.M))
        there = {json.loads(p.read_text())["properties"]["schema"]["const"]: f"schemas/{p.name}" for p in schemas.FOLDER.iterdir()}
        self.assertEqual(listed, there)


class Schemas(unittest.TestCase):
    """The checker must be able to fail."""

    GOOD = {"schema": "stempack.demo/1", "dir": "d", "source": "s", "pack": "p", "verified": True, "pictures": ["a.png"]}

    def test_a_fitting_document_passes(self):
        schemas.check(self.GOOD)

    def test_everything_else_does_not(self):
        without = {k: v for k, v in self.GOOD.items() if k != "pack"}
        for bad in (
            without,
            {**self.GOOD, "verified": 1},
            {**self.GOOD, "pictures": [1]},
            {**self.GOOD, "extra": 1},
            {**self.GOOD, "schema": "stempack.nothing/1"},
        ):
            with self.subTest(bad), self.assertRaises(AssertionError):
                schemas.check(bad)


if __name__ == "__main__":
    unittest.main()
