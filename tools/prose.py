#!/usr/bin/env python3
"""Length of sentences and lines in the pages: a part of `./dev lint`, and of the suite (tests/docs/prose_test.py).

    prose.py [PAGE ...]     prints each finding as PAGE:LINE: what; exit code 1 where there is one

Tables, headings and code are left out. A span of code and the text of a link count as the words that they show."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/docs"))
import pages  # noqa: E402

MOST_WORDS, MOST_COLUMNS, MOST_ENTRY_LINES = 30, 200, 2
CHECKED = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SKILL.md", "docs/**/*.md")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
NO_PROSE = re.compile(r"^\s*(?:\||#|<|\[!\[)")
SPAN = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"!?\[([^\]\[]*)\]\([^)\s]+\)")
# A full stop of an abbreviation, of three dots or inside a number ends nothing.
END = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\.\.)(?<=[.!?])[)\"*]*\s+")


def checked_pages():
    found = {path: None for pattern in CHECKED for path in sorted(ROOT.glob(pattern))}
    return [pages.Page(path, path.read_text(encoding="utf-8")) for path in found]


def paragraphs(page):
    """(number of the first line, text) of paragraphs and of items of lists."""
    start, parts = 0, []
    for number, line in enumerate(page.prose().splitlines() + [""], 1):
        if parts and (not line.strip() or NO_PROSE.match(line) or ITEM.match(line)):
            yield start, " ".join(parts)
            parts = []
        if line.strip() and not NO_PROSE.match(line) and not line.startswith("```"):
            if not parts:
                start = number
            parts.append(ITEM.sub("", line).strip() if not parts else line.strip())


def sentences(text):
    """Without the marks of Markdown; a span of code is one word."""
    plain = LINK.sub(r"\1", SPAN.sub("@", text))
    return [s for s in END.split(plain) if s.strip()]


def words(sentence):
    return [word for word in sentence.split() if re.search(r"[\w@]", word)]


def findings(page):
    for number, text in paragraphs(page):
        for sentence in sentences(text):
            if len(words(sentence)) > MOST_WORDS:
                yield number, f"a sentence of {len(words(sentence))} words, at most {MOST_WORDS} expected: {sentence}"
    for number, line in enumerate(page.prose().splitlines(), 1):
        if len(line) > MOST_COLUMNS and not NO_PROSE.match(line):
            yield number, f"a line of {len(line)} characters, at most {MOST_COLUMNS} expected"


def unreleased(text):
    """(line number, lines) of each entry of the changelog's first part."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("## ")), len(lines))
    last = next((i for i in range(first + 1, len(lines)) if lines[i].startswith("## ")), len(lines))
    entry = []
    for i in range(first + 1, last + 1):
        ends = i == last or not lines[i].strip() or lines[i].startswith(("- ", "#"))
        if ends and entry:
            yield i - len(entry) + 1, entry
            entry = []
        if i < last and lines[i].strip() and not lines[i].startswith("#"):
            entry.append(lines[i])


def changelog_findings(text):
    for number, entry in unreleased(text):
        if len(entry) > MOST_ENTRY_LINES:
            yield number, f"an entry of {len(entry)} lines, at most {MOST_ENTRY_LINES} expected"
        for offset, line in enumerate(entry):
            if len(line) > MOST_COLUMNS:
                yield number + offset, f"a line of {len(line)} characters, at most {MOST_COLUMNS} expected"


def main(names):
    count = 0
    for page in checked_pages():
        if not names or page.name in names:
            for number, what in findings(page):
                print(f"{page.name}:{number}: {what}")
                count += 1
    if not names or "CHANGELOG.md" in names:
        for number, what in changelog_findings((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")):
            print(f"CHANGELOG.md:{number}: {what}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
