"""The exit codes of unit.main(): what ctest shows as skipped ran nothing."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = """
import sys, unittest
sys.path.insert(0, {tests!r})
from testing import unit

class Own(unittest.TestCase):
    def test_one(self): {one}
    def test_two(self): {two}
    def test_three(self):
        with self.subTest(): {three}

unit.main()
"""
SKIP, PASS, FAIL = "self.skipTest('no luck')", "pass", "self.fail()"


class Codes(unittest.TestCase):
    def test_codes_and_counts(self):
        for deeds, code, said in (((SKIP, SKIP, SKIP), 77, "skipped 3: no luck\n"), ((SKIP, PASS, SKIP), 0, "skipped 2: no luck\n"),
                                  ((SKIP, SKIP, PASS), 0, "skipped 2: no luck\n"), ((SKIP, FAIL, SKIP), 1, "skipped 2: no luck\n"),
                                  ((PASS, PASS, PASS), 0, "")):
            with self.subTest(deeds=deeds), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "own.py"
                path.write_text(SCRIPT.format(tests=str(pathlib.Path(__file__).parents[1]), **dict(zip(("one", "two", "three"), deeds))))
                done = subprocess.run([sys.executable, "-B", path], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (code, said), done.stderr)


if __name__ == "__main__":
    unittest.main()
