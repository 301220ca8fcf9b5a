"""What `tune` goes by where the model's outputs are not one set of classes: several outputs, maps."""

import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

SAMPLES = 90


def detector(path):
    """Scores of ten classes and a box in pixels, each from a layer of its own."""
    nodes = [
        models.node("Conv", ["x", "w"], ["c"]),
        models.node("Relu", ["c"], ["r"]),
        models.node("GlobalAveragePool", ["r"], ["p"]),
        models.node("Flatten", ["p"], ["f"]),
        models.node("Gemm", ["f", "w_scores"], ["scores"]),
        models.node("Gemm", ["f", "w_box"], ["box"]),
    ]
    weights = [("w", models.weight(32, 3, 3, 3)), ("w_scores", models.weight(32, 10, seed=1)),
               ("w_box", 100 * models.weight(32, 4, seed=2))]
    return models.save(path, nodes, [("x", ["n", 3, 8, 8])], [("scores", ["n", 10]), ("box", ["n", 4])], weights)


def segmenter(path, *behind, shape=("n", 4, 8, 8), type=onnx.TensorProto.FLOAT):
    """A map of four classes, the last of which hardly ever fires; `behind` reads "scores" and writes "map"."""
    nodes = [
        models.node("Conv", ["x", "w1"], ["c"], pads=[1, 1, 1, 1]),
        models.node("Relu", ["c"], ["r"]),
        models.node("Conv", ["r", "w2"], ["scores" if behind else "map"]),
        *behind,
    ]
    last = models.weight(4, 16, 1, 1, seed=1)
    last[3] *= 0.001
    return models.save(path, nodes, [("x", ["n", 3, 8, 8])], [("map", list(shape), type)],
                       [("w1", models.weight(16, 3, 3, 3)), ("w2", last)])


def nmse(wanted, found, channels):
    """As docs/reference/metrics.md has it: `channels` is the axis of each output's channels, or None."""
    outputs = []
    for a, b, axis in zip(wanted, found, channels):
        a, b = a.astype(np.float64), b.astype(np.float64)
        rest = tuple(i for i in range(1, a.ndim) if i != axis)
        away = a - a.mean((0,) + (rest if a.ndim > 2 else ()), keepdims=True)
        signal = np.maximum((away ** 2).sum(rest).mean(0), 1e-7 * (a ** 2).sum(rest).mean(0))
        outputs.append(np.minimum(1, ((a - b) ** 2).sum(rest) / signal).reshape(len(a), -1).mean(1))
    return np.mean(outputs, axis=0).mean()


class OutputsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "data.npz"
        np.savez(self.data, x=np.random.default_rng(3).normal(size=(SAMPLES, 3, 8, 8)).astype(np.float32))

    def tune(self, model, *flags):
        out = self.folder / "out"
        done = models.seqto("tune", model, "--data", self.data, "--calibration-samples", 20, "--search-samples", 20, "--compat", "onnxruntime",
                            "-o", out, "-q", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.said = " ".join(done.stdout.split())
        lines = [json.loads(line) for line in (out / "study.jsonl").read_text().splitlines()]
        return json.loads((out / "summary.json").read_text()), [line["trial"] for line in lines if "trial" in line]

    def outputs(self, model, names):
        found = self.folder / "found.npz"
        done = models.seqto("run", model, "--data", self.data, "-o", found)
        self.assertEqual(done.returncode, 0, done.stderr)
        arrays = np.load(found)
        return [arrays[name] for name in names]

    def check_front(self, model, summary, names, channels):
        count = summary["samples"]["evaluation"]
        wanted = [a[-count:] for a in self.outputs(model, names)]
        self.assertGreater(len(summary["front"]), 0)
        for point in summary["front"]:
            found = [a[-count:] for a in self.outputs(self.folder / "out" / point["file"], names)]
            np.testing.assert_allclose(point["losses"]["nmse"], nmse(wanted, found, channels), rtol=1e-3, atol=1e-12)
            low, high = point["intervals"]["nmse"]
            self.assertTrue(low <= point["losses"]["nmse"] <= high)

    def check_worst(self, model, summary, names):
        """The mean hides an output that loses more than others."""
        count = summary["samples"]["evaluation"]
        wanted = [a[-count:] for a in self.outputs(model, names)]
        points = [point for point in summary["front"] if point["losses"]["nmse"] > 0]
        self.assertTrue(points)
        for point in points:
            found = [a[-count:] for a in self.outputs(self.folder / "out" / point["file"], names)]
            of_each = [nmse([a], [b], [None]) for a, b in zip(wanted, found)]
            worst = point["worst_output"]
            self.assertEqual((worst["name"], worst["outputs"]), (names[int(np.argmax(of_each))], len(names)))
            self.assertAlmostEqual(worst["nmse"] / max(of_each), 1, places=3)
        self.assertRegex(self.said, r"'(scores|box)' loses most of 2 outputs: nmse ")
        self.assertIn("loses most of 2 outputs", (self.folder / "out/report.html").read_text())
        limits = ["--max-loss", f"worst_output={worst['nmse'] / 2}", "--json"]
        done = models.seqto("check", self.folder / "out", "--id", point["name"], *limits)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertAlmostEqual(json.loads(done.stdout)["limits"][0]["found"], worst["nmse"])

    def check_changed(self, model, summary, classes):
        """The share of places whose class, `classes(outputs)`, is not the float model's, with its interval."""
        count = summary["samples"]["evaluation"]
        wanted = classes(self.outputs(model, ["map"])[0][-count:])
        changed = []
        for point in summary["front"]:
            found = classes(self.outputs(self.folder / "out" / point["file"], ["map"])[0][-count:])
            share = (wanted != found).mean()
            changed.append(share)
            self.assertAlmostEqual(point["losses"]["top1_disagreement"], share, places=6)
            low, high = point["intervals"]["top1_disagreement"]
            self.assertTrue(low <= share <= high)
        self.assertGreater(max(changed), 0)

    def test_of_scores_of_classes_at_each_pixel_the_changed_pixels_count(self):
        model = segmenter(self.folder / "segmenter.onnx", models.node("Softmax", ["scores"], ["map"], axis=1))
        summary, _ = self.tune(model)
        self.assertEqual((summary["task"], summary["objectives"]), ("segment", ["kl", "size", "latency"]))
        self.check_changed(model, summary, lambda maps: maps.argmax(1))
        self.assertRegex(summary["answer"], r"[0-9.]+ % of the pixels change \(")
        self.assertIn("changed: pixels unlike float's", self.said)
        self.assertIn("pixels changed", (self.folder / "out/report.html").read_text())

    def test_a_map_is_one_of_classes_where_it_is_asked_for(self):
        model = segmenter(self.folder / "segmenter.onnx")
        for task in ("segment", "classify"):
            summary, _ = self.tune(model, "--task", task, "--max-evaluations", 8, "--no-resume")
            self.assertEqual(summary["task"], "segment")
            self.check_changed(model, summary, lambda maps: maps.argmax(1))

    def test_whole_numbers_are_equal_or_not(self):
        """An ArgMax in the graph: class maps, or one class."""
        behind = models.node("ArgMax", ["scores"], ["map"], axis=1, keepdims=0)
        model = segmenter(self.folder / "argmax.onnx", behind, shape=("n", 8, 8), type=onnx.TensorProto.INT64)
        summary, _ = self.tune(model)
        self.assertEqual((summary["task"], summary["objectives"]), ("labels", ["top1_disagreement", "size", "latency"]))
        self.check_changed(model, summary, lambda maps: maps)
        self.assertIn("of the labels change", summary["answer"])
        done = models.seqto("check", self.folder / "out" / summary["front"][0]["file"], "--reference", model, "--data", self.data,
                            "--max-loss", "1", "--json")
        self.assertEqual(json.loads(done.stdout)["limits"][0]["figure"], "top1_disagreement", done.stderr)

    def test_masks_of_nan_and_infinity_lose_nothing(self):
        """Constant ones, and -inf wherever it is."""
        for value in (np.nan, -np.inf, np.inf):
            mask = np.zeros((1, 4, 8, 8), np.float32)
            mask[:, :, :2] = value
            model = segmenter(self.folder / "masked.onnx", models.node("Sum", ["scores", "mask"], ["map"]))
            masked = onnx.load(model)
            masked.graph.initializer.append(onnx.numpy_helper.from_array(mask, "mask"))
            onnx.save(masked, model)
            summary, _ = self.tune(model, "--max-evaluations", 8, "--no-resume")
            for point in summary["front"]:
                self.assertLess(point["losses"]["nmse"], 0.5, value)
                self.assertIsNotNone(point["losses"]["kl"], value)
            done = models.seqto("check", self.folder / "out" / summary["front"][0]["file"], "--reference", model, "--data", self.data,
                                "--max-loss", "1", "--json")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertNotIn("holds NaN or infinity", done.stdout)

    def test_of_a_model_with_masks_the_sample_with_nan_is_named(self):
        """-inf is a mask, the logarithm of a negative pixel is none."""
        model = segmenter(self.folder / "log.onnx", models.node("ReduceMax", ["x"], ["brightest"], axes=[1, 2, 3], keepdims=1),
                          models.node("Log", ["brightest"], ["log"]), models.node("Sum", ["scores", "mask", "log"], ["map"]))
        masked = onnx.load(model)
        mask = np.zeros((1, 4, 8, 8), np.float32)
        mask[:, 3] = -np.inf
        masked.graph.initializer.append(onnx.numpy_helper.from_array(mask, "mask"))
        onnx.save(masked, model)
        x = np.abs(np.load(self.data)["x"]) + 0.1
        x[1::2] *= -1
        np.savez(self.folder / "one.npz", x=x)
        done = models.seqto("tune", model, "--data", self.folder / "one.npz", "-o", self.folder / "out", "--schemes", "int8_weights,float32",
                            "--seed", 0)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"for sample '\d?[13579]', from Log")

    def test_a_mask_as_an_output_of_its_own(self):
        model = onnx.load(segmenter(self.folder / "two.onnx"))
        for value in (np.nan, -np.inf):
            given = onnx.ModelProto()
            given.CopyFrom(model)
            given.graph.initializer.append(onnx.numpy_helper.from_array(np.full((1, 4), value, np.float32), "constant"))
            given.graph.node.append(models.node("Identity", ["constant"], ["mask"]))
            given.graph.output.insert(0, onnx.helper.make_tensor_value_info("mask", onnx.TensorProto.FLOAT, [1, 4]))
            onnx.save(given, self.folder / "two.onnx")
            summary, _ = self.tune(self.folder / "two.onnx", "--max-evaluations", 8, "--no-resume")
            self.assertEqual(summary["task"], "raw")
            self.assertTrue(any(0 < point["losses"]["nmse"] < 0.5 for point in summary["front"]), value)

    def test_of_several_outputs_every_one_counts(self):
        model = detector(self.folder / "detector.onnx")
        summary, trials = self.tune(model)
        self.assertEqual(summary["objectives"], ["nmse", "size", "latency"])
        self.assertIn("the model has several float outputs: nmse takes the place of kl", summary["notes"])
        self.check_front(model, summary, ["scores", "box"], [None, None])
        self.check_worst(model, summary, ["scores", "box"])
        box_alone = [t for t in trials if t["plan"].get("box_node") == "int4_weights" and
                     {layer for layer, scheme in t["plan"].items() if scheme != "float32"} == {"box_node"}]
        self.assertTrue(box_alone)
        for trial in box_alone:  # which the scores do not see
            self.assertLess(abs(trial["losses"]["kl"]), 1e-9)
            self.assertGreater(trial["losses"]["nmse"], 0)

    def test_a_map_is_not_one_set_of_classes(self):
        model = segmenter(self.folder / "segmenter.onnx")
        summary, _ = self.tune(model)
        self.assertEqual(summary["objectives"], ["nmse", "size", "latency"])
        self.check_front(model, summary, ["map"], [1])
        done = models.seqto("-v", "tune", model, "--data", self.data, "--max-evaluations", 2, "-o", self.folder / "told")
        self.assertIn("task: raw (the model's output is a map or a sequence, not one set of classes; --task segment where", done.stderr)

    def test_values_that_are_whole_numbers_are_no_classes(self):
        model = models.save(self.folder / "value.onnx", [
            models.node("Flatten", ["x"], ["f"]), models.node("MatMul", ["f", "w"], ["y"])], [("x", ["n", 3, 8, 8])], [("y", ["n", 1])],
                            [("w", models.weight(192, 1))])
        x = np.load(self.data)["x"]
        for distinct in (SAMPLES, 3):
            values = np.arange(SAMPLES, dtype=np.int64) % distinct
            np.savez(self.data, x=x, y=values)
            done = models.seqto("-v", "tune", model, "--data", self.data, "--metric", "mae", "--max-evaluations", 2, "-o",
                                self.folder / str(distinct))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("; 3 classes" in done.stderr, distinct == 3, done.stderr)
            self.assertNotIn("90 classes", done.stderr)
            self.assertRegex(done.stdout, r"mse .*nmse .*mae +latency")

    def test_a_detector_without_boxes_is_told_of(self):
        model = segmenter(self.folder / "segmenter.onnx")
        for words in (["tune", model, "--max-evaluations", 2, "-o", self.folder / "boxes"],
                      ["check", model, "--reference", model, "--max-loss", 1]):
            done = models.seqto(*words, "--data", self.data, "--task", "detect")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("warning: --task detect, and outputs without a form of boxes with scores found", done.stderr)
        notes = json.loads((self.folder / "boxes/summary.json").read_text())["notes"]
        self.assertTrue(any("--metric map50_95=FILE.json says how they are read" in note for note in notes), notes)

    def test_what_was_asked_for_stays(self):
        summary, _ = self.tune(detector(self.folder / "detector.onnx"), "--objectives", "kl,size")
        self.assertEqual(summary["objectives"], ["kl", "size"])
        self.assertFalse(any("takes the place" in note for note in summary["notes"]))

    def test_probabilities_are_told_of(self):
        """kl takes their softmax again, and so hardly moves."""
        for last, told in (([models.node("Softmax", ["f"], ["y"])], True), ([models.node("Identity", ["f"], ["y"])], False)):
            nodes = [models.node("Conv", ["x", "w"], ["c"]), models.node("GlobalAveragePool", ["c"], ["p"]),
                     models.node("Flatten", ["p"], ["f"]), *last]
            model = models.save(self.folder / "model.onnx", nodes, [("x", ["n", 3, 8, 8])], [("y", ["n", 16])],
                                [("w", models.weight(16, 3, 3, 3))])
            summary, _ = self.tune(model, "--max-evaluations", 4, "--no-resume")
            self.assertEqual(summary["objectives"][0], "kl")
            self.assertEqual(any("probabilities already" in note for note in summary["notes"]), told, last)

    def test_a_limit_without_a_name_is_of_the_loss_that_the_outputs_call_for(self):
        model = detector(self.folder / "detector.onnx")
        summary, _ = self.tune(model, "--max-loss", "0.001", "--max-size", "60%")
        self.assertEqual([limit["figure"] for limit in summary["limits"]], ["size_ratio", "nmse"])
        spoiled = onnx.load(model)  # a second output that is nothing any more, which the first does not see
        for initializer in spoiled.graph.initializer:
            if initializer.name == "w_box":
                initializer.CopyFrom(onnx.numpy_helper.from_array(np.zeros((32, 4), np.float32), "w_box"))
        onnx.save(spoiled, self.folder / "spoiled.onnx")
        files = [self.folder / "spoiled.onnx", "--reference", model, "--data", self.data, "--json"]
        done = models.seqto("check", *files, "--max-loss", "0.1")
        self.assertEqual(done.returncode, 5, done.stderr)
        limit, = json.loads(done.stdout)["limits"]
        scores, box = self.outputs(model, ["scores", "box"])
        self.assertEqual(limit["figure"], "nmse")
        self.assertAlmostEqual(limit["found"], nmse([scores, box], [scores, 0 * box], [None, None]), places=5)
        self.assertEqual(models.seqto("check", *files, "--max-loss", "kl=0.1").returncode, 0)
        self.assertIn("as in kl=0.1", models.seqto("check", *files, "--max-loss", "much").stderr)
        pair = [model, self.folder / "spoiled.onnx", "--data", self.data]
        self.assertEqual(models.seqto("validate", *pair, "--max-loss", "0.1").returncode, 5)
        self.assertEqual(models.seqto("validate", *pair, "--max-loss", "kl=0.1").returncode, 0)
        study = self.folder / "out"
        done = models.seqto("check", study, "--max-loss", "1", "--json")
        self.assertEqual(json.loads(done.stdout)["limits"][0]["figure"], "nmse")

    def test_the_table_of_an_audit_shows_that_loss(self):
        model, quantized = detector(self.folder / "detector.onnx"), self.folder / "quantized.onnx"
        done = models.seqto("quantize", model, "--data", self.data, "--activation-type", "uint8", "-o", quantized)
        self.assertEqual(done.returncode, 0, done.stderr)
        words = ["audit", quantized, "--reference", model, "--data", self.data]
        header = models.seqto(*words).stdout.splitlines()[2]
        self.assertEqual(header.split(), ["arithmetic", "nmse"])
        audit = json.loads(models.seqto(*words, "--json").stdout)
        count = audit["samples"]
        names = ["scores", "box"]
        wanted = [a[:count] for a in self.outputs(model, names)]
        found = [a[:count] for a in self.outputs(quantized, names)]
        self.assertEqual(audit["loss"], "nmse")
        np.testing.assert_allclose(audit["arithmetic"]["here"]["losses"]["nmse"], nmse(wanted, found, [None, None]), rtol=1e-4)


if __name__ == "__main__":
    unittest.main()
