"""Completion and manual page: tried in the shells themselves, and equal to --help flag by flag."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

LONG = re.compile(r"--[a-z0-9][a-z0-9-]*")


def said(*words):
    done = models.seqto(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def words_of(*path):
    """Below the program or one of its words, as --help lists them."""
    text = said(*path, "--help")
    return re.findall(r"^  (\w+)  ", text.partition("Words:")[2], re.M)


def all_words():
    """Those with flags of their own: `device serve` hands its on."""
    for word in words_of():
        if word == "device":
            continue
        below = words_of(word)
        yield from ([(word, sub) for sub in below] if below else [(word,)])


def flags_of(*path):
    """The long flags of a word, from the first column of its --help-all."""
    flags = set()
    for line in said(*path, "--help-all").splitlines():
        if line.startswith("  -"):
            flags.update(LONG.findall(line[2:].partition("  ")[0]))
    return flags


class Completion(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-completion-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def script(self, shell):
        path = self.dir / shell
        path.write_text(said("completion", shell))
        return path

    def bash(self, *line):
        """What bash would offer for the last of these words."""
        code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); cd "$HOME"; _seqto; '
                'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", code, "bash", self.bash_script, "seqto", *line], capture_output=True,
                              text=True, timeout=60, env={"HOME": str(self.dir), "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash(self):
        self.bash_script = self.script("bash")
        (self.dir / "model.onnx").touch()
        self.assertEqual(self.bash("tu"), ["tune"])
        self.assertEqual(self.bash(""), words_of())
        self.assertEqual(self.bash("--json", "va"), ["validate"])
        self.assertEqual(self.bash("hub", ""), ["list", "fetch", "verify"])
        self.assertEqual(self.bash("hub", "fetch", "--of"), ["--offline"])
        self.assertEqual(self.bash("tune", "--strateg"), ["--strategy"])
        self.assertEqual(self.bash("tune", "--strategy", "n"), ["nsga2"])
        self.assertEqual(self.bash("tune", "--strategy", "=", "n"), ["nsga2"])
        self.assertEqual(self.bash("tune", "--strategy", "="), self.bash("tune", "--strategy", ""))
        self.assertEqual(self.bash("tune", "--schemes", "int8,fl"), ["int8,float32", "int8,float16"])
        self.assertEqual(self.bash("quantize", "--mode", ""), ["static", "dynamic", "weights", "float16"])
        self.assertEqual(self.bash("tune", "mo"), ["model.onnx"])
        self.assertEqual(self.bash("tune", "--data", "mo"), ["model.onnx"])
        self.assertEqual(self.bash("quantize", "--preprocess", "i"), ["imagenet"])
        self.assertEqual(self.bash("tune", "--max-evaluations", ""), [])
        self.assertEqual(self.bash("completion", "z"), ["zsh"])
        self.assertNotIn("worker", self.bash(""))

    def test_every_flag_is_offered(self):
        self.bash_script = self.script("bash")
        fish, zsh = said("completion", "fish"), said("completion", "zsh")
        for path in all_words():
            flags = flags_of(*path)
            self.assertLessEqual(flags, set(self.bash(*path, "--")), path)
            for flag in flags:
                self.assertIn(f"\"__seqto_at ' {' '.join(path)}'\"", fish)
                self.assertRegex(fish, rf"__seqto_at ' {' '.join(path)}'\".* -l {flag[2:]} ")
                self.assertRegex(zsh, rf"'\*?{flag}=?\[")

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("no fish here")
        script = self.script("fish")

        def offered(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], text=True,
                                  capture_output=True, timeout=60, env={"HOME": str(self.dir), "PATH": "/usr/bin:/bin"})
            self.assertEqual(done.stderr, "")
            return sorted(row.split("\t")[0] for row in done.stdout.splitlines())

        self.assertEqual(offered("seqto tu"), ["tune"])
        self.assertEqual(offered("seqto hub "), ["fetch", "list", "verify"])
        self.assertEqual(offered("seqto tune --strategy n"), ["nsga2"])
        self.assertEqual(offered("seqto tune --max-ev"), ["--max-evaluations"])

    def test_zsh_can_read_it(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh here")
        done = subprocess.run(["zsh", "-n", self.script("zsh")], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_unknown_shell(self):
        done = models.seqto("completion", "tcsh")
        self.assertEqual(done.returncode, 2)
        self.assertIn("bash,zsh,fish", done.stderr)

    def test_man(self):
        page = said("man")
        self.assertLess(page.count("\n"), 1000)
        shared = page.partition("\n.SH SHARED FLAGS\n")[2].replace("\\-", "-")
        for path in all_words():
            self.assertIn(f"\n.SS {' '.join(path)}\n", page)
            section = page.partition(f"\n.SS {' '.join(path)}\n")[2].partition("\n.SS ")[0].replace("\\-", "-")
            for flag in flags_of(*path) - {"--help"}:
                self.assertRegex(section + shared, rf"\.B .*{flag}\b", path)
        if not shutil.which("groff"):
            self.skipTest("no groff here")
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=page, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("EXIT STATUS", re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout))


if __name__ == "__main__":
    unit.main()
