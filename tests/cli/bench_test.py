"""`seqto bench`: figures that fit together, verdicts that follow from them, and reasons that the graphs show. No absolute times."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

USAGE, INVALID = 2, 3
TRIES = 8  # of a timing
FEW = ["--launches", 3, "--rounds", 4, "--repeats", 2]


def chain(path, layers, size, batch=1):
    """`layers` products with size x size matrices."""
    nodes, weights, last = [], [], "x"
    for i in range(layers):
        out = "y" if i == layers - 1 else f"t{i}"
        nodes.append(models.node("MatMul", [last, f"w{i}"], [out]))
        weights.append((f"w{i}", models.weight(size, size, seed=i) / size))
        last = out
    return models.save(path, nodes, [("x", [batch, size])], [("y", [batch, size])], weights)


class Bench(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-bench-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def test_the_runtime_leaves_nothing_behind_it(self):
        home = {"HOME": str(self.dir), "XDG_CACHE_HOME": str(self.dir / "cache")}
        done = models.seqto("bench", models.DIGITS, *FEW, env=home)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(self.dir.iterdir()), [], "telemetry of the runtime")

    def bench(self, *words):
        done = models.seqto("bench", *words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def quantized(self, model, name, *words):
        done = models.seqto("quantize", model, "-o", self.dir / name, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.dir / name

    def check_figures(self, found):
        self.assertEqual(len(found["comparisons"]), len(found["models"]) - 1)
        for m in found["models"]:
            self.assertEqual(m["size_bytes"], pathlib.Path(m["path"]).stat().st_size)
            latency = m["latency_ns"]
            self.assertLess(0, latency["p50"])
            self.assertLessEqual(latency["p50"], latency["p90"])
            self.assertLessEqual(latency["p90"], latency["p99"])
            self.assertEqual(len(m["load_ns"]["all"]), found["launches"])
            self.assertEqual(m["first_run_ns"]["median"], np.median(m["first_run_ns"]["all"]).round())
            self.assertGreater(m["runs_per_second"], 0)
            self.assertGreater(m["memory"]["peak_bytes"], m["memory"]["idle_bytes"])
        for c in found["comparisons"]:
            low, high = c["ratio_interval"]
            self.assertLessEqual(low, high)
            if c["speed"] == "slower":
                self.assertTrue(1 < low and c["why"], c)
                self.assertIn("slower than the original", c["verdict"])
            elif c["speed"] == "faster":
                self.assertLess(high, 1)
            else:
                self.assertIn("cannot be told apart", c["verdict"])

    def test_figures(self):
        found = self.bench(models.DIGITS, self.quantized(models.DIGITS, "q.onnx", "--mode", "dynamic"), *FEW, "--data",
                           models.DIGITS_DATA)
        self.check_figures(found)
        self.assertEqual((found["launches"], found["rounds"], found["random_inputs"], found["cut_short"]), (3, 12, False, ""))
        self.assertEqual([m["runs"] for m in found["models"]], [24, 24])

    def bench_until(self, speed, first, other):
        """Where other work takes the cores, "same" is a right answer of a few runs; the opposite never is."""
        for _ in range(TRIES):
            found = self.bench(first, other, *FEW)
            self.check_figures(found)
            if found["comparisons"][0]["speed"] != "same":
                break
        self.assertEqual(found["comparisons"][0]["speed"], speed)
        return found

    def test_slower_and_why(self):
        """128 layers are many times one, and a tiny model pays for every node that quantization adds."""
        one, many = chain(self.dir / "one.onnx", 1, 16), chain(self.dir / "many.onnx", 128, 16)
        self.assertTrue(self.bench_until("slower", one, many)["random_inputs"])
        tiny = chain(self.dir / "tiny.onnx", 8, 8)
        found = self.bench_until("slower", tiny, self.quantized(tiny, "tiny8.onnx", "--mode", "dynamic"))
        self.assertIn("too small", "\n".join(found["comparisons"][0]["why"]))
        for _ in range(TRIES):
            done = models.seqto("bench", tiny, self.dir / "tiny8.onnx", *FEW)
            self.assertEqual(done.returncode, 0)
            self.assertIn("RANDOM inputs", done.stdout)
            if "slower than the original" in done.stdout:
                break
        self.assertIn("slower than the original", done.stdout)

    def test_faster(self):
        self.bench_until("faster", chain(self.dir / "many.onnx", 64, 64), chain(self.dir / "one.onnx", 1, 64))

    def test_no_int8_kernel(self):
        """A transposed convolution is quantized in the file and computed in float."""
        nodes = [models.node("ConvTranspose", ["x", "w"], ["t"]), models.node("ConvTranspose", ["t", "v"], ["y"])]
        model = models.save(self.dir / "up.onnx", nodes, [("x", [1, 8, 24, 24])], [("y", [1, 8, 28, 28])],
                            [("w", models.weight(8, 8, 3, 3)), ("v", models.weight(8, 8, 3, 3, seed=1))])
        models.arrays(self.dir / "up.npz", shape=(8, 24, 24))
        quantized = self.quantized(model, "up8.onnx", "--data", self.dir / "up.npz", "--op-types", "ConvTranspose")
        comparison = self.bench(model, quantized, *FEW)["comparisons"][0]
        if comparison["speed"] != "faster":
            self.assertIn("no int8 kernel: 2 of 2 ConvTranspose", "\n".join(comparison["why"]))

    def test_sizes(self):
        relu = models.save(self.dir / "relu.onnx", [models.node("Relu", ["x"], ["y"])], [("x", [1, 8])], [("y", [1, 8])])
        shutil.copy(relu, self.dir / "same.onnx")
        comparison = self.bench(relu, self.dir / "same.onnx", *FEW)["comparisons"][0]
        self.assertTrue(comparison["same_size"])
        self.assertIn("Same size: nothing was quantizable", comparison["why"])
        shutil.copy(models.DIGITS, self.dir / "digits.onnx")
        comparison = self.bench(models.DIGITS, self.dir / "digits.onnx", *FEW)["comparisons"][0]
        self.assertTrue(any(w.startswith("Same size: nothing is quantized in it, though") for w in comparison["why"]))

    def test_weights_in_other_files_count(self):
        model = onnx.load(str(chain(self.dir / "in.onnx", 2, 64)))
        onnx.save(model, str(self.dir / "out.onnx"), save_as_external_data=True, location="out.bin", size_threshold=0)
        found = self.bench(self.dir / "in.onnx", self.dir / "out.onnx", *FEW)["models"]
        self.assertEqual(found[1]["size_bytes"], sum((self.dir / n).stat().st_size for n in ("out.onnx", "out.bin")))

    def test_memory_is_each_models_own(self):
        found = self.bench(chain(self.dir / "large.onnx", 4, 1600), chain(self.dir / "small.onnx", 4, 16), *FEW)["models"]
        weights = 4 * 1600 * 1600 * 4
        difference = found[0]["memory"]["peak_bytes"] - found[1]["memory"]["peak_bytes"]
        self.assertGreater(difference, 0.8 * weights)

    def test_limits_of_time_and_reports(self):
        found = self.bench(models.DIGITS, models.DIGITS, "--launches", 2, "--rounds", 1000000, "--max-time", 1, "--report",
                           self.dir / "r.html")
        self.assertIn("of 2000000 rounds within 1 s", found["cut_short"])
        self.assertIn("cannot be told apart" if found["comparisons"][0]["speed"] == "same" else "than the original",
                      (self.dir / "r.html").read_text())

    def test_one_model_and_errors(self):
        found = self.bench(models.DIGITS, *FEW)
        self.assertEqual(found["comparisons"], [])
        self.assertTrue(found["models"][0]["operators"])
        broken = models.save(self.dir / "broken.onnx", [models.node("Nonsense", ["x"], ["y"])], [("x", [1, 8])], [("y", [1, 8])])
        done = models.seqto("bench", models.DIGITS, broken)
        self.assertEqual(done.returncode, INVALID)
        self.assertIn("broken.onnx", done.stderr)
        self.assertEqual(models.seqto("bench").returncode, USAGE)


if __name__ == "__main__":
    unittest.main()
