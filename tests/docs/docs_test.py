"""The pages tell the truth: links lead somewhere, flags exist, commands run and say what the page says they say.

Every block ```sh is run, command by command, in an empty folder that holds examples/ and has `seqto` on its PATH; pages
start anew. A block ```text behind it is what it prints on stdout, compared with figures and ids left out; `text varies`:
only its first line is. A comment at a command's end, as in `# code 5`, names its exit code. Indented commands need what is
not here (a network, a board, somebody's model) and are not run; their flags are checked all the same.

    docs_test.py --write [PAGE ...]     writes what was printed into the pages
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from testing import models, unit  # noqa: E402
import pages  # noqa: E402

SOURCE = pages.SOURCE
FLAG = re.compile(r"(?<![\w-])--[a-z][a-zA-Z0-9-]*")
CALL = re.compile(r"(?:^|[\s/(])seqto ((?:--json |-[vq] )*)([a-z]+)(?: ([a-z]+))?")
# Flags of other programs that the pages speak of.
FOREIGN = {"--preset", "--build", "--install", "--prefix", "--key", "--port", "--count", "--seed", "--int8",
           "--precisionConstraints", "--layerPrecisions", "--plugin", "--tracker", "--expose", "--ablate", "--write",
           "--no-deps", "--only-binary", "--python-version", "--check", "--full", "--of"}
PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")
CODE = re.compile(r"#.*\bcode (\d+)\b")
TUNE_OF_DEMO = re.compile(r"^    build/bin/(seqto tune (?:.*\\\n)*.*)$", re.M)


class Links(unittest.TestCase):
    def test_they_lead_somewhere(self):
        every = {page.path: page for page in pages.all_pages()}
        for page in every.values():
            for link in page.links():
                if re.match(r"[a-z]+:", link):
                    continue
                name, _, anchor = link.partition("#")
                target = (page.path.parent / name).resolve() if name else page.path
                with self.subTest(page=page.name, link=link):
                    self.assertTrue(target.exists())
                    if anchor and target in every:
                        self.assertIn(anchor, every[target].anchors())

    def test_every_page_is_in_the_index(self):
        index = pages.Page(SOURCE / "docs/README.md", (SOURCE / "docs/README.md").read_text(encoding="utf-8"))
        listed = {(index.path.parent / link).resolve() for link in index.links()}
        for path in sorted((SOURCE / "docs").rglob("*.md")):
            if path != index.path and path.parent.name != "decisions":  # the index names their folder
                with self.subTest(page=path.name):
                    self.assertIn(path.resolve(), listed)

    def test_named_sources_exist(self):
        known = {path.name for folder in ("src", "cli", "include") for path in (SOURCE / folder).rglob("*.*")}
        for name in ("ARCHITECTURE.md", "docs/design/paper_map.md", "docs/reference/platforms.md"):
            page = pages.Page(SOURCE / name, (SOURCE / name).read_text(encoding="utf-8"))
            for span in page.spans():
                if re.fullmatch(r"[\w/]+\.(cc|h|js)", span):
                    with self.subTest(page=name, source=span):
                        whole = span.startswith(("src/", "cli/", "include/"))
                        self.assertTrue((SOURCE / span).exists() or (not whole and pathlib.Path(span).name in known))

    def test_mentioned_pages_exist(self):
        """`docs/...` in sources, messages, scripts and comments; the changelog tells of pages as they were."""
        folders = ("bench", "cli", "cmake", "docs", "examples", "include", "src", "tests", "tools", "tvm")
        found = 0
        for path in sorted(path for folder in folders for path in (SOURCE / folder).rglob("*")):
            if path.suffix not in (".cc", ".h", ".py", ".sh", ".cmake", ".md", ".txt"):
                continue
            for page in PAGE.findall(path.read_text(encoding="utf-8", errors="replace")):
                found += 1
                with self.subTest(file=path.relative_to(SOURCE).as_posix(), page=page):
                    self.assertTrue((SOURCE / page).exists())
        self.assertGreater(found, 50)


class Skill(unittest.TestCase):
    """SKILL.md, by which an agent uses the command, says nothing that the program does not."""

    TEXT = (SOURCE / "SKILL.md").read_text(encoding="utf-8")

    def rows(self, heading):
        table = self.TEXT.partition(f"| {heading} |")[2].partition("\n\n")[0]
        return [re.findall(r"`([^`]+)`|\| (\d+) \|", row)[0] for row in table.splitlines()[2:]]

    def test_its_messages_are_the_programs(self):
        said = " ".join(path.read_text(encoding="utf-8") for folder in ("src", "cli") for path in (SOURCE / folder).rglob("*.cc"))
        said = re.sub(r'"\s*"', "", said)
        messages = [text for text, _ in self.rows("message | do")]
        self.assertGreater(len(messages), 5)
        for message in messages:
            with self.subTest(message=message):
                self.assertTrue(message in said)

    def test_its_codes_are_the_commands(self):
        codes = {code for _, code in self.rows("code | do")}
        page = (SOURCE / "docs/reference/commands.md").read_text(encoding="utf-8")
        self.assertEqual(codes, set(re.findall(r"^\| (\d+) \|", page, re.M)))


class Flags(unittest.TestCase):
    helps = {}

    def flags_of(self, *words):
        if words not in self.helps:
            done = models.seqto(*words, "--help-all")
            self.helps[words] = set(FLAG.findall(done.stdout)) if done.returncode == 0 else None
        return self.helps[words]

    def every_flag(self):
        names = re.findall(r"^  (\w+)  ", models.seqto("--help").stdout.partition("Words:")[2], re.M)
        below = [("hub", "list"), ("hub", "fetch"), ("hub", "verify"), ("plan", "convert"), ("worker",)]
        return set().union(*(self.flags_of(*words) or () for words in [(), *((name,) for name in names), *below]))

    def test_calls(self):
        """Each flag behind `seqto WORD` is one of that word's, and the word exists."""
        for page in pages.all_pages():
            lines = [c for block in page.blocks() if block.info == "indented" or block.is_shell()
                     for c in pages.commands(block.lines)]
            for text in lines + page.spans():
                for call in CALL.finditer(text.split(" # ")[0]):
                    rest = re.split(r"[|;&]", text[call.end():])[0]
                    if call[2] in ("hub", "plan", "device") and call[3]:
                        words = (call[2], call[3])
                    else:
                        words = (call[2],)
                    if words == ("device", "serve"):
                        continue  # it hands its flags on
                    with self.subTest(page=page.name, command=text):
                        known = self.flags_of(*words)
                        self.assertIsNotNone(known, f"no such word: {' '.join(words)}")
                        self.assertEqual(set(FLAG.findall(rest)) - known - self.flags_of(), set())

    def test_flags_in_the_text(self):
        known = self.every_flag() | FOREIGN
        for page in pages.all_pages():
            if page.name in ("CHANGELOG.md", "CONTRIBUTING.md", "docs/reference/cli.md"):
                continue  # history, flags of other programs, older names (tests/cli/help_test.py)
            for span in page.spans():
                with self.subTest(page=page.name, span=span):
                    self.assertEqual(set(FLAG.findall(span)) - known, set())


def masked(text):
    """Without what differs from machine to machine."""
    text = re.sub(r"\b[0-9a-f]{8}(?:[0-9a-f]{8})?\b", "ID", text)
    text = re.sub(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?", "#", text)
    text = re.sub(r"# (?:ns|µs|ms|s|kB|MB|B)\b", "#", text)
    text = re.sub(r"as fast\b|# x (?:slower|faster)", "SPEED", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines()]


class Reader:
    """Does what a page says, in a folder of its own."""

    def __init__(self, page):
        self.page = page
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-docs-"))
        (self.dir / "bin").mkdir()
        (self.dir / "bin/seqto").symlink_to(pathlib.Path(models.BINARY).resolve())
        (self.dir / "work").mkdir()
        shutil.copytree(SOURCE / "examples", self.dir / "work/examples")

    def close(self):
        shutil.rmtree(self.dir)

    def run(self, command):
        bare = command.split(" #")[0].strip()
        if bare == "./dev test":
            return ""  # this is a part of it
        if bare == "./dev demo":  # the build is there
            command = TUNE_OF_DEMO.search((SOURCE / "dev").read_text())[1]
        code = CODE.search(command)
        done = subprocess.run(["bash", "-c", command], cwd=self.dir / "work", capture_output=True, text=True, timeout=600,
                              env={"PATH": f"{self.dir}/bin:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(self.dir),
                                   "COLUMNS": "100", "LANG": "C.UTF-8"})
        if done.returncode != int(code[1] if code else 0):
            raise AssertionError(f"{self.page.name}: `{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def follow(self):
        """The blocks of recorded output with what was printed now."""
        printed = None
        for block in self.page.blocks():
            if block.info == "sh":
                printed = "".join(self.run(command) for command in pages.commands(block.lines))
            elif block.info.split()[:1] == ["text"] and printed is not None:
                yield block, printed
                printed = None
            elif block.info.startswith("sh"):
                printed = None


class Commands(unittest.TestCase):
    def check(self, page):
        if "| jq " in page.text and not shutil.which("jq"):
            self.skipTest("jq is missing (tools/setup.sh test)")
        reader = Reader(page)
        self.addCleanup(reader.close)
        for block, printed in reader.follow():
            recorded, now = masked("\n".join(block.lines)), masked(printed)
            if "varies" in block.info:
                recorded, now = recorded[:1], now[:1]
            self.assertEqual(recorded, now, f"{page.name}:{block.first + 1}; docs_test.py --write records it anew")

    def test_first_screen(self):
        readme = next(page for page in pages.all_pages() if page.name == "README.md")
        first = next(block for block in readme.blocks() if block.is_shell())
        self.assertEqual([command.split("#")[0].strip() for command in pages.commands(first.lines)],
                         ["./dev demo", "./dev test"])
        self.assertLess(first.last, 24)
        self.assertLessEqual(len(readme.text.splitlines()), 110)
        for block in readme.blocks():
            if block.info.startswith("text"):
                self.assertLessEqual(len(block.lines), 12)


def add_pages():
    for page in pages.all_pages():
        if any(block.info == "sh" for block in page.blocks()):
            name = "test_" + re.sub(r"\W", "_", page.name.removesuffix(".md"))
            setattr(Commands, name, lambda self, page=page: self.check(page))


def write(names):
    for page in pages.all_pages():
        if names and page.name not in names:
            continue
        reader = Reader(page)
        lines = page.text.splitlines()
        try:
            for block, printed in reversed(list(reader.follow())):
                lines[block.first:block.last] = printed.rstrip().splitlines()
        finally:
            reader.close()
        if "\n".join(lines) + "\n" != page.text:
            page.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            print(f"wrote {page.name}")


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        write([name for name in sys.argv[1:] if name != "--write"])
    else:
        # Commands need the runtime, and under a sanitizer they take too long; links and flags are the same everywhere.
        if not models.built_with("SEQTO_ONNXRUNTIME:BOOL=OFF") and not models.sanitized():
            add_pages()
        unit.main()
