"""--help fits a screen, --help-all and the reference page hold every flag, older names work."""

import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

PAGE = pathlib.Path(models.SOURCE) / "docs" / "reference" / "cli.md"


def said(*words):
    done = models.seqto(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def words():
    for word in re.findall(r"^  (\w+)  ", said("--help").partition("Words:")[2], re.M):
        below = re.findall(r"^  (\w+)  ", said(word, "--help").partition("Words:")[2], re.M)
        yield from ([(word, sub) for sub in below if (word, sub) != ("device", "serve")] if below else [(word,)])


class Help(unittest.TestCase):
    def test_a_screen(self):
        for path in [(), *words()]:
            lines = said(*path, "--help").splitlines()
            self.assertLessEqual(len(lines), 40, path)
            self.assertLessEqual(max(map(len, lines)), 100, path)
            self.assertLessEqual(max(map(len, said(*path, "--help-all").splitlines())), 100, path)

    def test_all_holds_the_rest(self):
        for path in words():
            few, every = (set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", said(*path, flag), re.M))
                          for flag in ("--help", "--help-all"))
            self.assertLessEqual(few, every, path)
            more = re.search(r"--help-all: (\d+) more", said(*path, "--help"))
            self.assertEqual(len(every) - len(few), int(more[1]), path)

    def test_other_names_are_among_all(self):
        for path, name in ((("tune",), "--text"), (("validate",), "--text"), (("calibrate",), "--method")):
            self.assertRegex(said(*path, "--help-all"), rf"also\s+{name}\b")

    def test_words_of_help(self):
        self.assertEqual(said("help", "tune", "--all"), said("tune", "--help-all"))

    def test_version(self):
        version = said("version").removeprefix("seqto ").rstrip()
        self.assertEqual(json.loads(said("version", "--json")), {"version": version})
        self.assertEqual(json.loads(said("--json", "version")), {"version": version})

    def test_reference_page(self):
        self.assertEqual(PAGE.read_text(), said("help", "--markdown"), "write it with `seqto help --markdown`")


class Names(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-help-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def test_older_and_other_names(self):
        for new, old in (("--calibration-method", "--method"), ("--op-types-to-quantize", "--op-types"),
                         ("--nodes-to-quantize", "--include"), ("--exclude", "--nodes-to-exclude"),
                         ("--format", "--quant-format")):
            value = {"--method": "entropy", "--op-types": "Conv", "--include": "stem", "--nodes-to-exclude": "stem",
                     "--quant-format": "qoperator"}[old]
            shown = []
            for name in (new, old):
                done = models.seqto("quantize", models.DIGITS, name, value, "-o", "x.onnx", "--print-config")
                self.assertEqual(done.returncode, 0, done.stderr)
                shown.append(done.stdout)
            self.assertEqual(*shown)
            self.assertIn(new[2:] + " = ", shown[0])

    def test_configuration_takes_either(self):
        config = self.dir / "q.toml"
        for name in ("method", "calibration-method"):
            config.write_text(f'{name} = "entropy"\n')
            done = models.seqto("quantize", models.DIGITS, "--config", config, "-o", "x.onnx", "--print-config")
            self.assertIn('calibration-method = "entropy"', done.stdout, done.stderr)

    def test_a_configuration_alone(self):
        config = self.dir / "c.toml"
        config.write_text(f'model = "{models.DIGITS}"\ndata = "{models.DIGITS_DATA}"\noutput = "{self.dir}/o"\n')
        done = models.seqto(config, "--print-config")
        self.assertEqual(done.stdout, models.seqto("tune", "--config", config, "--print-config").stdout, done.stderr)
        self.assertIn("model = ", done.stdout)


class Errors(unittest.TestCase):
    def says(self, text, *words, code=2, **env):
        done = models.seqto(*words, **env)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)

    def test_what_to_type_next(self):
        self.says("seqto tune: model is required\nRun `seqto tune --help`", "tune")
        self.says("'b c' found and not expected", "inspect", models.DIGITS, "b", "c")
        self.says("--mode weights", "quantize", models.DIGITS, "-o", "x.onnx")

    def test_groups_are_read_before_anything_runs(self):
        done = models.seqto("tune", models.DIGITS, "--data", models.DIGITS_DATA, "--group", "steem,head", "-o", "x", "-v")
        self.assertIn("'steem' matches no node; the nearest are: stem", done.stderr)
        self.assertNotIn("calibrate", done.stderr)


if __name__ == "__main__":
    unittest.main()
