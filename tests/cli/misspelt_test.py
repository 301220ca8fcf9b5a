"""A misspelt name is answered with the nearest; `seqto` alone, help and version."""

import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

USAGE, INVALID = 2, 3


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-misspelt-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def fails(self, *words, code=USAGE):
        done = models.seqto(*words)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        return done.stderr

    def means(self, name, *words, code=USAGE):
        said = self.fails(*words, code=code)
        self.assertIn(f"did you mean '{name}'?", said, words)
        return said


class Words(Case):
    def test_misspelt(self):
        for word, meant in (("tun", "tune"), ("quantise", "quantize"), ("inspcet", "inspect"), ("versoin", "version")):
            self.assertIn(f"'{word}' found", self.means(meant, word))
        self.means("tune", "tun", "--help")
        self.means("tune", "--json", "tun", models.DIGITS, "--strategy", "chain")
        self.means("list", "hub", "lst")
        self.means("tune", "help", "tun")
        self.assertNotIn("did you mean", self.fails("xylophone"))

    def test_alone(self):
        said = self.fails()
        self.assertEqual(said, models.seqto("--help").stdout)
        for word in ("tune", "quantize", "help", "version"):
            self.assertRegex(said, rf"(?m)^  {word}  ")

    def test_help_and_version(self):
        for words in ((), ("tune",), ("hub", "list")):
            done = models.seqto("help", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, models.seqto(*words, "--help").stdout)
        self.assertEqual(models.seqto("version").stdout, models.seqto("--version").stdout)


class Names(Case):
    def test_flags(self):
        self.means("--threshold", "tune", models.DIGITS, "--treshold", "1")
        self.means("--threads", "quantize", models.DIGITS, "--thread=2", "-o", self.dir / "q.onnx")
        self.means("--data", "run", models.DIGITS, "--dat", models.DIGITS_DATA, "-o", self.dir / "y.npz")
        self.means("--json", "inspect", models.DIGITS, "--jsn")
        self.assertNotIn("did you mean", self.fails("inspect", models.DIGITS, "--xylophone"))
        self.assertIn("--offline found in front of its word; `seqto hub list --offline` expected",
                      self.fails("--offline", "hub", "list"))

    def test_values(self):
        tune = ("tune", models.DIGITS, "--data", models.DIGITS_DATA, "-o", self.dir / "out")
        for flag, value, meant in (("--schemes", "in8", "int8"), ("--schemes", "int8_dynamc,float32", "int8_dynamic"),
                                   ("--strategy", "chian", "chain"), ("--strategy", "incr", "incremental"),
                                   ("--objectives", "kl,sze", "size"), ("--metric", "acuracy", "accuracy"),
                                   ("--method", "entropi", "entropy"), ("--activation-type", "unit8", "uint8"),
                                   ("--rounding", "learnd", "learned"), ("--bias-correction", "ful", "full")):
            self.means(meant, *tune, flag, value)
        said = self.fails(*tune, "--exclude", "block5_dv")
        self.assertIn("the nearest are: block5_dw", said)
        self.means("float16", "quantize", models.DIGITS, "--mode", "flot16", "-o", self.dir / "q.onnx")

    def test_limits(self):
        few = ("--data", models.DIGITS_DATA, "--samples", 20, "--reference", models.DIGITS)
        self.means("mse", "check", models.DIGITS, *few, "--no-latency", "--max-loss", "mes=1", code=INVALID)


if __name__ == "__main__":
    unittest.main()
