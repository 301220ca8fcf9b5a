"""What the terminal shows: progress, width, colours, Ctrl-C; and that --json leaves stdout to the result alone."""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.hub_server import Hub  # noqa: E402

ESCAPE = re.compile(r"\x1b\[[0-9;]*[mK]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """A program behind a terminal of so many columns; all that it writes is in `text`."""

    def __init__(self, *words, columns=100, **env):
        self.text = ""
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
            os.execve(models.BINARY, [models.BINARY, *map(str, words)], {**kept, "TERM": "xterm", **env})
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self, until=None):
        """Up to this expression, or to the end."""
        end = time.monotonic() + 300
        while time.monotonic() < end:
            if until and re.search(until, self.text):
                return
            if select.select([self.end], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.end, 65536).decode(errors="replace")
                except OSError:  # the other side is gone
                    return
        raise AssertionError(f"no end after 300 s: {self.text}")

    def press(self, key):
        os.write(self.end, key)

    def finish(self):
        self.read()
        os.close(self.end)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def lines(self):
        """As they stand at last: what was overwritten is gone."""
        plain = [ESCAPE.sub("", line.rpartition("\r")[2] if not line.endswith("\r") else line.rstrip("\r").rpartition(
            "\r")[2]) for line in self.text.split("\n")]
        return [line for line in plain if line]


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-terminal-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def tune(self, *words, out="out"):
        return ["tune", models.DIGITS, "--data", models.DIGITS_DATA, "-o", self.dir / out, *words]


class Shown(Case):
    def test_progress_and_table(self):
        begin = time.monotonic()
        terminal = Terminal(*self.tune(), columns=80)
        self.assertEqual(terminal.finish(), 0, terminal.text)
        took = time.monotonic() - begin
        said = re.search(r"about (?:(\d+):(\d\d) min|(\d+) s) in all", terminal.text)
        seconds = int(said[3] or 60 * int(said[1] or 0) + int(said[2] or 0))
        # Other work may come and go while this runs.
        self.assertTrue(seconds / 3 < took < 3 * seconds, (said[0], took))
        shown = [ESCAPE.sub("", part) for part in terminal.text.split("\r")]
        steps = [part.rstrip() for part in shown if part.startswith("step ")]
        line = r"step ([1-6]) of 6, [a-z ]+ [━─]{10} \d+ %, (\d+ s left|ends \d\d:\d\d)(, best kl \S+ at [\d.]+ kB|, [a-z ]+)?"
        for step in steps:
            self.assertRegex(step, f"^{line}$")  # whole, or without its last part
            self.assertLess(len(step), 80)
        numbers = [int(step[5]) for step in steps]
        self.assertEqual((numbers[0], numbers[-1]), (1, 6))
        self.assertEqual(numbers, sorted(numbers))
        self.assertTrue(any("best kl" in step for step in steps), steps)
        self.assertEqual(len([line for line in terminal.lines() if line.startswith("step")]), 0, terminal.lines())
        for said in ("samples to calibrate", "; about ", "a first model is there"):
            self.assertIn(said, terminal.text)
        table = [line for line in terminal.lines() if "kB" in line and "info" not in line]
        self.assertGreater(len(table), 5)
        for line in table:
            self.assertLessEqual(len(line), 80, line)

    def test_width(self):
        done = models.seqto("-q", *self.tune("--max-evaluations", 30))
        self.assertEqual(done.returncode, 0, done.stderr)
        for most, terminal in ((80, Terminal("report", self.dir / "out", columns=80)),
                               (30, Terminal("report", self.dir / "out", columns=30)),
                               (50, Terminal("report", self.dir / "out", columns=250, COLUMNS="50"))):
            self.assertEqual(terminal.finish(), 0)
            table = terminal.lines()[:-1]  # without the report's path
            self.assertLessEqual(max(map(len, table)), most)
            self.assertTrue(any(re.search(r"^\s+float", line) for line in table), table)
        wide = models.seqto("report", self.dir / "out", env={"COLUMNS": "300"}).stdout
        self.assertIn("95 %", wide)  # intervals where there is room

    def test_tables_of_layers_and_tensors(self):
        few = ("--data", models.DIGITS_DATA, "--samples", 10)
        calls = (("inspect", models.DIGITS),
                 ("quantize", models.DIGITS, *few, "-o", self.dir / "q.onnx", "--explain"), ("analyze", models.DIGITS, *few))
        for words in calls:
            narrow = Terminal("-q", *words, columns=44)
            self.assertEqual(narrow.finish(), 0, narrow.text)
            rows = [line for line in narrow.lines() if ("dw" in line or "pw" in line) and "," not in line]
            self.assertGreater(len(rows), 3)
            self.assertLessEqual(max(map(len, rows)), 44)
            piped = models.seqto("-q", *words, env={"COLUMNS": "30"}).stdout  # for a program: nothing is cut
            self.assertIn("block5_dw", piped)
            self.assertNotIn("…", piped)

    def test_colours(self):
        models.seqto("-q", *self.tune("--max-evaluations", 30))
        for env, expected in (({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            terminal = Terminal(*self.tune("--max-evaluations", 30), **env)  # its log says that it goes on
            self.assertEqual(terminal.finish(), 0, terminal.text)
            self.assertIn("going on after", terminal.text)
            self.assertEqual(bool(COLOUR.search(terminal.text)), expected, env)
        done = models.seqto("-v", "report", self.dir / "out")
        self.assertNotIn("\x1b", done.stdout + done.stderr)

    def test_verdicts(self):
        """Tables of `validate`, `bench`, `check`, `report A B` and `hub list`: fitted and coloured on a terminal, plain elsewhere."""
        few, int8 = ("--data", models.DIGITS_DATA, "--samples", 40), self.dir / "int8.onnx"
        self.assertEqual(models.seqto("quantize", models.DIGITS, *few, "-o", int8).returncode, 0)
        for out in ("a", "b"):
            self.assertEqual(models.seqto("-q", *self.tune("--max-evaluations", 8, out=out)).returncode, 0)
        loose, hub = ("--abs-tol", 9, "--mean-tol", 9), Hub()
        self.addCleanup(hub.close)
        hub.add("A network whose name is longer than most", b"none")
        env = {"SEQTO_HUB_URL": hub.url, "SEQTO_HUB_CACHE": str(self.dir / "cache"), "no_proxy": "*"}
        pair = (models.DIGITS, int8)
        calls = ((("validate", *pair, *few, *loose), "output", 0, "32"), (("validate", *pair, *few), "output", 5, "1;31"),
                 (("bench", *pair, "--launches", 1, "--rounds", 4), "model", 0, "(?:1;31|32)"),
                 (("check", self.dir / "a", "--max-size", "90%", "--max-loss", 1), "figure", 0, "32"),
                 (("check", self.dir / "a", "--max-size", "1%"), "figure", 5, "1;31"),
                 (("report", self.dir / "a", self.dir / "b", "-o", self.dir / "both"), "model", 0, None),
                 (("hub", "list"), "model", 0, None))
        for words, title, code, colour in calls:
            with self.subTest(words=words[:1]):
                narrow = Terminal("-q", *words, columns=46, **env)
                self.assertEqual(narrow.finish(), code, narrow.text)
                lines = [ESCAPE.sub("", line.rstrip("\r")) for line in narrow.text.split("\n")]
                first = next(i for i, line in enumerate(lines) if re.match(rf" *{title}\b", line))
                table = lines[first:lines.index("", first)]
                self.assertGreater(len(table), 1)
                self.assertLessEqual(max(map(len, table)), 46, table)
                if colour:
                    self.assertRegex(narrow.text, rf"\x1b\[{colour}m")
                plain = Terminal("-q", *words, columns=46, NO_COLOR="1", **env)
                self.assertEqual(plain.finish(), code, plain.text)
                self.assertIsNone(COLOUR.search(plain.text))
                piped = models.seqto("-q", *words, env={"COLUMNS": "30", **env})
                self.assertNotIn("\x1b", piped.stdout)
                self.assertNotIn("…", piped.stdout)

    def test_no_terminal(self):
        done = models.seqto(*self.tune("--max-evaluations", 10))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\r", done.stderr)
        self.assertRegex(done.stderr, r"(?m)^step 2 of 6, calibrate \d+ %")
        self.assertEqual(models.seqto("-q", "report", self.dir / "out").stderr, "")


class Interrupted(Case):
    def test_ctrl_c_saves_and_says_how_to_go_on(self):
        words = self.tune("--search-evaluations", 2000)
        terminal = Terminal(*words)
        terminal.read(until=r"search [━─]+ [1-9]\d? %")
        terminal.press(b"\x03")
        self.assertEqual(terminal.finish(), 130, terminal.text)
        self.assertIn("once more: at once", terminal.text)
        said = terminal.lines()[-1]
        self.assertRegex(said, r"^seqto: \[tune\] interrupted after \d+ trials; .*run the same command to go on")
        trials = int(re.search(r"after (\d+) trials", said)[1])
        self.assertGreater(trials, 3)
        study = (self.dir / "out/study.jsonl").read_text()
        self.assertNotIn("failed", study)  # what was under way is no failed candidate
        self.assertTrue((self.dir / "out/report.html").exists())
        again = models.seqto(*self.tune("--search-evaluations", 2000, "--max-evaluations", trials + 5))
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(f"going on after {trials} trials", again.stderr)

    def test_without_a_terminal(self):
        process = subprocess.Popen([models.BINARY, *map(str, self.tune("--search-evaluations", 2000))], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        study = self.dir / "out/study.jsonl"
        end = time.monotonic() + 120
        while not (study.exists() and study.read_text().count("\n") > 20) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (130, ""), err)
        self.assertIn("run the same command to go on", err)


class Json(Case):
    """Every word that has a result gives it as one JSON value on stdout, and nothing else."""

    def result(self, *words, code=0):
        done = models.seqto("-v", *words, "--json")
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)

    def test_every_word(self):
        model, data, int8 = models.DIGITS, models.DIGITS_DATA, self.dir / "int8.onnx"
        few = ("--data", data, "--samples", 20)
        self.assertIn("layers", self.result("inspect", model))
        self.assertIn("layers", json.loads(models.seqto("--json", "inspect", model).stdout))
        self.assertIn("actions", self.result("prepare", model, "-o", self.dir / "p.onnx"))
        self.assertGreater(self.result("calibrate", model, *few, "-o", self.dir / "r.json")["tensors"], 10)
        self.assertLess(self.result("quantize", model, *few, "-o", int8)["size_bytes"], 60000)
        self.assertIn("layers", self.result("quantize", model, *few, "-o", int8, "--explain"))
        self.assertIn("activations", self.result("analyze", model, *few))
        self.assertEqual(self.result("run", model, *few, "-o", self.dir / "y.npz")["outputs"], ["logits"])
        self.assertIn("outputs", self.result("validate", model, int8, *few, "--abs-tol", 9, "--mean-tol", 9))
        self.assertIn("outputs", self.result("validate", model, int8, *few, "--abs-tol", 0, code=5))
        self.assertIn("models", self.result("bench", model, int8, "--launches", 1, "--rounds", 2))
        self.assertIn("front", self.result(*self.tune("--max-evaluations", 6)))
        self.assertIn("front", self.result("report", self.dir / "out"))
        self.assertTrue(self.result("check", self.dir / "out", "--max-size", "100%"))
        self.assertTrue(self.result("check", self.dir / "out", "--max-size", "1%", code=5))
        self.result("plan", "convert", self.dir / "out/plans/float.json", "--model", model, "--to", "seqto")
        self.assertEqual(self.result("hub", "verify", "--hub-cache", self.dir / "cache"), [])

    def test_many_models(self):
        folder = self.dir / "models"
        folder.mkdir()
        shutil.copy(models.DIGITS, folder / "a.onnx")
        shutil.copy(models.DIGITS, folder / "b.onnx")
        value = self.result("tune", folder, "--data", models.DIGITS_DATA, "--max-evaluations", 4, "-o", self.dir / "all")
        self.assertEqual(len(value["models"] if isinstance(value, dict) else value), 2)

    def test_an_error_leaves_stdout_empty(self):
        done = models.seqto("--json", "inspect", self.dir / "absent.onnx")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertTrue(done.stderr.startswith("seqto: ["))


if __name__ == "__main__":
    unittest.main()
