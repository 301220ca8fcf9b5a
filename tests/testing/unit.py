"""unittest.main() that tells what was skipped, and ends with ctest's code for it where no test ran."""

import sys
import unittest
from collections import Counter

SKIPPED = 77  # SKIP_RETURN_CODE of cmake/tests.cmake


class Result(unittest.TextTestResult):
    ran = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.ran += 1

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        self.ran += err is None


class Runner(unittest.TextTestRunner):
    resultclass = Result


def main():
    result = unittest.main("__main__", testRunner=Runner, exit=False).result
    for reason, count in Counter(reason for _, reason in result.skipped).items():
        print(f"skipped {count}: {reason}")
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if result.skipped and not result.ran else 0)
