"""Stored ratios of benchmarks, on made-up figures."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import _ratios  # noqa: E402


class Stored(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.results = pathlib.Path(scratch.name) / "bench" / "results"
        self.results.mkdir(parents=True)
        patch = mock.patch.dict(os.environ, SEQTO_SOURCE_DIR=scratch.name)
        patch.start()
        self.addCleanup(patch.stop)

    def run_with(self, flag, time, speed):
        ratios = _ratios.Ratios("made_up", ["net"], [flag])
        ratios.add("time", time, "lower")
        if speed is not None:
            ratios.add("speed", speed, "higher")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = ratios.finish()
        return code, said.getvalue()

    def test_written_and_read_back(self):
        self.assertEqual(self.run_with("--write", 1.5, 8)[0], 0)
        stored = json.loads((self.results / "made_up.json").read_text())
        self.assertEqual(stored["ratios"], {"time": {"value": 1.5, "better": "lower"}, "speed": {"value": 8.0, "better": "higher"}})
        self.assertEqual(stored["networks"], ["net"])
        self.assertGreaterEqual(stored["machine"]["cores"], 1)

    def test_ten_per_cent_are_allowed_either_way(self):
        self.run_with("--write", 1.0, 11)
        for time, speed, code in ((1.09, 11, 0), (1.11, 11, 5), (0.5, 11, 0), (1, 10.1, 0), (1, 9.9, 5), (1, 99, 0)):
            with self.subTest(time=time, speed=speed):
                self.assertEqual(self.run_with("--check", time, speed)[0], code)

    def test_both_figures_are_printed(self):
        self.run_with("--write", 1.0, 10)
        code, said = self.run_with("--check", 1.2, 10)
        self.assertEqual(code, 5)
        self.assertRegex(said, r"WORSE +time: 1\.200 found, 1\.000 stored")
        self.assertRegex(said, r"ok +speed: 10\.000 found, 10\.000 stored")

    def test_a_check_writes_nothing(self):
        self.run_with("--write", 1.0, 10)
        before = (self.results / "made_up.json").read_text()
        self.run_with("--check", 2.0, 10)
        self.assertEqual((self.results / "made_up.json").read_text(), before)

    def test_what_was_not_measured_is_said(self):
        self.run_with("--write", 1.0, 10)
        code, said = self.run_with("--check", 1.0, None)
        self.assertEqual(code, 0)
        self.assertIn("not measured  speed", said)

    def test_nothing_stored(self):
        self.assertEqual(self.run_with("--check", 1.0, 10)[0], 3)


class Printed(unittest.TestCase):
    def test_lines_of_ratios_and_times_of_kernels(self):
        text = ("candidate: rewrite 0.6 ms\nratio rewrite and load / load 0.97 lower\n"
                "avx2/int8/conv/axis0/min_time:0.200      250 ns      249 ns  100 bytes_per_second=1G/s\n"
                "portable/int8/conv/axis0/min_time:0.200     1000 ns      999 ns  100 bytes_per_second=1G/s\n")
        found = _ratios.printed_ratios(text)
        self.assertEqual(found["rewrite and load / load"], {"value": 0.97, "better": "lower"})
        self.assertEqual(found["avx2 faster than portable, int8/conv/axis0"], {"value": 4.0, "better": "higher"})
        self.assertEqual(len(found), 2)


class Pages(unittest.TestCase):
    def test_header(self):
        text = _ratios.header("x --write", ["net", "other"], "bench/x.py")
        self.assertIn("`./dev bench x --write` on 20", text)
        self.assertIn("cores. Networks: net, other.", text)

    def test_the_memory_of_a_tune_is_the_stored_one(self):
        root = pathlib.Path(__file__).parents[2]
        stored = json.loads((root / "bench/results/start.json").read_text())["ratios"]["memory of tune / goal"]["value"]
        row = next(line for line in (root / "docs/design/performance.md").read_text().splitlines() if "peak memory of the whole tune" in line)
        self.assertIn(f"**{stored:.2f}** of the goal", row)


class OneThread(unittest.TestCase):
    def test_sessions_of_a_script_and_of_the_quantizer(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "script.py")
            script.write_text("import sys\nimport onnxruntime as ort\nfrom onnxruntime.quantization import calibrate, quant_utils\n"
                              "made = [m.SessionOptions() for m in (ort, calibrate.onnxruntime, quant_utils)]\n"
                              "print([m.intra_op_num_threads for m in made], sys.argv[1:])\n")
            said = subprocess.run([sys.executable, "-B", pathlib.Path(_ratios.__file__).with_name("_one_thread.py"), script, "a"],
                                  check=True, capture_output=True, text=True).stdout
        self.assertEqual(said, "[1, 1, 1] ['a']\n")


if __name__ == "__main__":
    unittest.main()
