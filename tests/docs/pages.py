"""Markdown pages as the tests of the documentation see them: blocks of code, spans of code, links, headings."""

import dataclasses
import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ.get("SEQTO_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
FENCE = re.compile(r"^```(.*)$")
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *#*$", re.M)


@dataclasses.dataclass
class Block:
    info: str  # of a fence: "sh", "text varies" ...; "indented" without one
    lines: list
    first: int  # line number of the first line, from 0
    last: int  # behind the last one

    def is_shell(self):
        return self.info.split()[:1] == ["sh"]


@dataclasses.dataclass
class Page:
    path: pathlib.Path
    text: str

    @property
    def name(self):
        return self.path.relative_to(SOURCE).as_posix()

    def blocks(self):
        found, lines, at = [], self.text.splitlines(), 0
        while at < len(lines):
            if fence := FENCE.match(lines[at]):
                end = next(i for i in range(at + 1, len(lines)) if lines[i].startswith("```"))
                found.append(Block(fence[1].strip(), lines[at + 1:end], at + 1, end))
                at = end
            elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()):
                end = at
                while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                    end += 1
                found.append(Block("indented", [line[4:] for line in lines[at:end]], at, end))
                at = end - 1
            at += 1
        return found

    def prose(self):
        """The text without its blocks."""
        lines = self.text.splitlines()
        for block in self.blocks():
            for i in range(block.first, block.last):
                lines[i] = ""
        return "\n".join(lines)

    def spans(self):
        return SPAN.findall(self.prose())

    def links(self):
        return [a or b for a, b in LINK.findall(SPAN.sub("", self.prose()))]

    def anchors(self):
        """As the common viewers make them of headings."""
        plain = (re.sub(r"[^\w\- ]", "", SPAN.sub(r"\1", heading).lower()) for heading in HEADING.findall(self.prose()))
        return {heading.replace(" ", "-") for heading in plain}


def all_pages():
    patterns = ("*.md", "docs/**/*.md", "bench/results/*.md", "examples/*/*.md")
    return [Page(path, path.read_text(encoding="utf-8")) for pattern in patterns for path in sorted(SOURCE.glob(pattern))]


def commands(lines):
    """Shell lines, each with its continuations and its here-document; comments and empty lines left out."""
    rest = iter(lines)
    for line in rest:
        command = line.rstrip()
        while command.endswith("\\"):
            command = command[:-1] + next(rest).rstrip()
        if here := re.search(r"<<'(\w+)'", command):
            for text in rest:
                command += "\n" + text
                if text == here[1]:
                    break
        if command.strip() and not command.lstrip().startswith("#"):
            yield command
