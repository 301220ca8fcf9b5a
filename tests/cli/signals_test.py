"""Signals that ask for an end, and a reader that goes away: a run ends with its message and leaves nothing behind."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

INTERRUPTED = 130


class Signals(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-signals-"))
        self.addCleanup(shutil.rmtree, self.dir)
        (self.dir / "tmp").mkdir()

    def tune(self, *flags, **how):
        shutil.rmtree(self.dir / "out", ignore_errors=True)
        words = ["tune", models.DIGITS, "--data", models.DIGITS_DATA, "-o", self.dir / "out", *flags]
        return subprocess.Popen([models.BINARY, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True, env={**os.environ, "TMPDIR": str(self.dir / "tmp")}, **how)

    def wait_for_study(self, process, lines=2):
        study = self.dir / "out/study.jsonl"
        while process.poll() is None and not (study.exists() and study.read_bytes().count(b"\n") >= lines):
            time.sleep(0.001)
        self.assertIsNone(process.poll(), "it ended before the signal")

    def check_clean(self, process):
        left = [path for folder in (pathlib.Path("/dev/shm"), self.dir / "tmp") if folder.is_dir()
                for path in folder.iterdir() if f"-{process.pid}-" in path.name]
        self.assertEqual(left, [])

    def test_asked_to_end(self):
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                process = self.tune()
                self.wait_for_study(process)
                process.send_signal(number)
                said = process.communicate(timeout=120)[1]
                self.assertEqual(process.returncode, INTERRUPTED, said)
                self.assertIn("interrupted", said)
                self.check_clean(process)

    def test_begun_by_nohup(self):
        process = self.tune("--max-evaluations", 6,
                            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for_study(process)
        process.send_signal(signal.SIGHUP)
        said = process.communicate(timeout=300)[1]
        self.assertEqual(process.returncode, 0, said)

    def test_nobody_reads(self):
        process = self.tune("-v")
        process.stderr.readline()
        process.stderr.close()
        self.assertEqual(process.wait(120), INTERRUPTED)
        self.check_clean(process)

    def test_nobody_reads_the_answer(self):
        process = subprocess.Popen([models.BINARY, "help", "--help-all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        self.assertIn(process.wait(60), (0, INTERRUPTED))  # what is printed may fit into the pipe
        self.assertEqual(said, b"")

    @unittest.skipIf(models.sanitized(), "main begins later")
    def test_at_the_very_start(self):
        for after in (0.03, 0.06, 0.1, 0.15, 0.2):
            with self.subTest(after=after):
                process = self.tune()
                time.sleep(after)
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=120)[1]
                self.assertEqual(process.returncode, INTERRUPTED, said)
                self.check_clean(process)


if __name__ == "__main__":
    unit.main()
