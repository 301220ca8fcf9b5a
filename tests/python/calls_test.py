"""Verbs beside what else the process does: other threads, one object in several of them, Ctrl-C."""

import _thread
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import package  # noqa: F401
import numpy as np

import seqto
from testing import models

MODEL, DATA = str(models.DIGITS), str(models.DIGITS_DATA)
X = np.load(DATA)["x"][:48].astype(np.float32)

# Another thread interrupts while a verb ends whose callback has raised; files of models given as values are gone then.
TWICE = """
import sys, tempfile, threading, _thread, time
import numpy as np, seqto
model, x = seqto.load(sys.argv[1]), np.zeros((400, 1, 8, 8), np.float32)
begun = threading.Event()
def interrupt():
    begun.wait()
    _thread.interrupt_main()
def refuse(*_):
    begun.set()
    raise ZeroDivisionError
threading.Thread(target=interrupt).start()
try:
    try:
        seqto.bench([model, model], x, launches=1, rounds=50, progress=refuse)
    except ZeroDivisionError:
        time.sleep(0.1)
except KeyboardInterrupt:
    print("interrupted")
"""


class Threads(unittest.TestCase):
    def test_other_threads_go_on(self):
        counted, over = [0], threading.Event()

        def count():
            while not over.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        seqto.quantize(MODEL, X)
        over.set()
        thread.join()
        self.assertGreater(counted[0], 20)

    def test_one_quantizer_in_several(self):
        quantizer = seqto.Quantizer(MODEL, seqto.calibrate(MODEL, X), activation_type="uint8")
        plans = [seqto.uniform_plan(MODEL, "int8", exclude=exclude) for exclude in ([], ["op:Gemm"], ["stem"])]
        plans.append(seqto.Plan({"stem": "int8", "none": "int8"}))
        wanted = [(quantizer.quantize(plan), quantizer.encode(plan)) for plan in plans]
        found = [[] for _ in plans]

        def work(i):
            for _ in range(40):
                found[i].append((quantizer.quantize(plans[i]), quantizer.encode(plans[i])))
                quantizer.notes

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(plans))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one, all_found in zip(wanted, found):
            self.assertEqual(all_found, [one] * 40)


class Interruptions(unittest.TestCase):
    def test_ctrl_c_and_errors_of_the_callback(self):
        def interrupt():
            time.sleep(0.4)
            _thread.interrupt_main()

        with tempfile.TemporaryDirectory() as folder:
            threading.Thread(target=interrupt).start()
            start = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                seqto.tune(MODEL, DATA, pathlib.Path(folder) / "out", isolated=False)
            self.assertLess(time.monotonic() - start, 30)

            def refuse(*_):
                raise ZeroDivisionError("no")

            with self.assertRaises(ZeroDivisionError):
                seqto.tune(MODEL, DATA, pathlib.Path(folder) / "other", isolated=False, progress=refuse)

    def test_a_second_ctrl_c(self):
        with tempfile.TemporaryDirectory(prefix="seqto-python-") as folder:
            done = subprocess.run([sys.executable, "-c", TWICE, MODEL], capture_output=True, text=True, timeout=120,
                                  env={**os.environ, "TMPDIR": folder})
            self.assertEqual((done.returncode, done.stdout), (0, "interrupted\n"), done.stderr)
            self.assertEqual(list(pathlib.Path(folder).glob("seqto-*")), [])


if __name__ == "__main__":
    unittest.main()
