"""determinism_test.py with more options, and on the small cases of SEQTO_CASES_DIR."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import determinism_test  # noqa: E402
from testing import models  # noqa: E402


class LongDeterminism(determinism_test.Determinism):
    OPTIONS = determinism_test.LONG

    def test_cases(self):
        self.check("digits", determinism_test.Job(models.DIGITS, models.DIGITS_DATA))
        for name, job in determinism_test.cases():
            self.check(name, job)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "LongDeterminism"])
