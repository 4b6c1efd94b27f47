#!/usr/bin/env python3
"""Fails when the documentation no longer fits the tree: a dead relative link, a page that was merged only in part,
or an error code that docs/reference/errors.md does not list as the source declares it. `--write` brings that table up to date."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ERRORS = ROOT / "docs/reference/errors.md"
BEGIN, END = "<!-- codes: begin, written by scripts/check_docs.py --write -->", "<!-- codes: end -->"
VARIANT = re.compile(r'((?:\s*///[^\n]*\n)*)\s*\w+ = "(\w+)", (\w+);')


def codes():
    """(crate, code, kind, meaning) of every `error_codes!` in the workspace."""
    for source in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        text = source.read_text()
        for block in re.finditer(r"error_codes! \{(.*?)\n\}", text, re.S):
            for comment, code, kind in VARIANT.findall(block[1]):
                meaning = " ".join(line.strip().removeprefix("///").strip() for line in comment.strip().splitlines())
                yield source.relative_to(ROOT / "crates").parts[0], code, kind, meaning


def table():
    lines = ["| code | kind | meaning | from |", "|---|---|---|---|"]
    for crate, code, kind, meaning in sorted(set(codes()), key=lambda c: (c[1], c[0])):
        lines.append(f"| `{code}` | {kind} | {meaning} | {crate} |")
    return "\n".join(lines)


def faulty_pages():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("crates/*.md")]
    for page in pages:
        if page.name == "_template.md":
            continue
        if re.search(r"^(<{7}|>{7}) ", page.read_text(), re.M):
            yield f"{page.relative_to(ROOT)} holds both sides of a merge"
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
            if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)} links to {target}, which does not exist"


def main():
    text = ERRORS.read_text()
    head, rest = text.split(BEGIN, 1)
    old, tail = rest.split(END, 1)
    new = f"\n{table()}\n"
    if "--write" in sys.argv[1:]:
        ERRORS.write_text(head + BEGIN + new + END + tail)
        old = new
    found = list(faulty_pages())
    if old != new:
        found.append("docs/reference/errors.md is out of date; run scripts/check_docs.py --write")
    for sentence in found:
        print(f"docs: {sentence}", file=sys.stderr)
    if not found:
        print(f"docs: links and {new.count(chr(10)) - 3} error codes agree with the tree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
