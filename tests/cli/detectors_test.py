"""Detectors as users have them: outputs whose form is found, pictures in a letterbox, and one that finds nothing any more."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

sys.path.insert(0, str(models.SOURCE / "examples/detector"))
import heads  # noqa: E402
from shapes import SIDE  # noqa: E402


def write(path, head):
    model, read = heads.build(head)
    onnx.save(model, path)
    return read


class Detectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-detectors-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        subprocess.run([sys.executable, "-B", str(models.SOURCE / "examples/detector/shapes.py"), str(cls.dir / "data"), "--count", "60"],
                       check=True)
        cls.data = ["--data", cls.dir / "data/images", "--labels", cls.dir / "data/labels"]

    def gate(self, model):
        """The figures of a model beside itself."""
        done = models.seqto("check", model, "--reference", model, *self.data, "--max-accuracy-drop", "map50_95=0.01",
                            "--metric", "map50_95", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def found(self, model, *data):
        """The figure of a model whose form nobody told, and the log."""
        done = models.seqto("-v", "validate", model, model, *data, "--metric", "map50_95", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["metrics"]["map50_95"]["reference"], done.stderr

    def measured(self, model, read):
        (self.dir / "read.json").write_text(json.dumps(read))
        done = models.seqto("run", model, *self.data, "-o", self.dir / "o.npz", "--metric", f"map50_95={self.dir / 'read.json'}", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["metrics"]["map50_95"]

    def check_found(self, model, described, shares):
        figure, log = self.found(model, *self.data)
        self.assertAlmostEqual(figure, described, places=6, msg=log)
        self.assertEqual("read as shares of the picture" in log, shares, log)

    def test_the_form_is_found(self):
        """By the float model alone, as its exporter would have described it."""
        for shares in (False, True):
            for form in ("yolov8", "yolov5", "yolox", "end_to_end", "detr"):
                model = self.dir / f"{form}.onnx"
                read = write(model, heads.Head(form=form, shares=shares))
                # Of what transformers exports nothing is suppressed.
                described = self.measured(model, {**read, "nms_threshold": 1} if form == "detr" else read)
                self.assertGreater(described, 0.3, form)
                self.check_found(model, described, shares and form != "yolox")
                told = self.gate(model)
                drop = next(limit for limit in told["limits"] if "map50_95" in limit["figure"])
                self.assertEqual(drop["found"], 0, told)
                if shares or form not in ("yolov8", "end_to_end"):
                    continue
                out = self.dir / f"{form}_{shares}"
                done = models.seqto("-v", "tune", model, *self.data, "--schemes", "int8", "--max-evaluations", 4, "--evaluation-samples", 30,
                                    "--calibration-samples", 20, "--objectives", "nmse,size", "-o", out)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("task: detect, read as", done.stderr)
                summary = json.loads((out / "summary.json").read_text())
                self.assertEqual(summary["task"], "detect")
                self.assertRegex(summary["answer"], r"map50_95 0\.\d+ instead of 0\.\d+")

    def test_corners_are_found(self):
        """Left, top, right, bottom of each cell: the values tell, where no exporter does."""
        for form in ("yolov8", "yolov5", "detr"):
            model = self.dir / "corners.onnx"
            read = write(model, heads.Head(form=form, corners=True))
            described = self.measured(model, {**read, "nms_threshold": 1} if form == "detr" else read)
            self.assertGreater(described, 0.3, form)
            self.assertAlmostEqual(self.found(model, *self.data)[0], described, places=6, msg=form)

    def test_a_data_yaml_tells_all(self):
        model = self.dir / "yaml.onnx"
        (self.dir / "read.json").write_text(json.dumps(write(model, heads.Head(form="yolov8"))))
        described = self.dir / "shapes.yaml"
        described.write_text("path: data\nval: images\nnames:\n  0: disc\n  1: square\n  2: triangle\n")

        def figures(*data):
            done = models.seqto("run", model, *data, "-o", self.dir / "o.npz", "--metric", f"map50_95={self.dir / 'read.json'}",
                                "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["metrics"]

        told = figures("--data", described)
        self.assertEqual(told, figures(*self.data, "--preprocess", "yolo"))
        self.assertGreater(told["map50_95"], 0.3)
        both = models.seqto("run", model, "--data", described, "--labels", self.dir / "data/labels", "-o", self.dir / "o.npz")
        self.assertEqual(both.returncode, 2, both.stderr)
        self.assertIn("the folder labels beside images", both.stderr)

    def test_names_tell_what_no_shape_does(self):
        """[1, places, 7]: three classes, as a data.yaml names, or two and objectness."""
        model = self.dir / "last.onnx"
        described = self.dir / "last.yaml"
        described.write_text("path: data\nval: images\nnames: [disc, square, triangle]\n")
        for shares in (False, True):
            told = self.measured(model, write(model, heads.Head(form="yolov8_last", shares=shares)))
            self.assertAlmostEqual(self.found(model, "--data", described)[0], told, places=6)

    def test_default_int8_of_each_form(self):
        for i, form in enumerate(heads.FORMS):
            head = dataclasses.replace(heads.drawn(i), form=form, bytes_in=False)
            model, out = self.dir / "float.onnx", self.dir / "int8.onnx"
            read = write(model, head)
            done = models.seqto("quantize", model, *self.data[:2], "-o", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            float_figure, int8_figure = self.measured(model, read), self.measured(out, read)
            self.assertGreater(int8_figure, 0.96 * float_figure, (head, float_figure, int8_figure))

    def test_lists_of_boxes(self):
        """As many as a NonMaxSuppression in the graph leaves: from picture to picture, and from plan to plan."""
        model, out = self.dir / "listed.onnx", self.dir / "listed"
        read = write(model, heads.Head(form="listed", corners=True))
        described = self.measured(model, read)
        self.assertGreater(described, 0.3)
        self.assertLess(self.measured(model, {**read, "class_numbers": "index"}), 0.05)
        self.assertEqual(read.pop("class_numbers"), "from_one")
        self.assertEqual(self.measured(model, read), described, "as the boxes agree with the labels")
        said = 'classes of boxes: read as "class_numbers": "from_one"'
        self.assertEqual(self.found(model, *self.data)[1].count(said), 1)
        self.check_found(model, described, False)
        written = np.load(self.dir / "o.npz")
        found = [len(written[f"score_list.{i}"]) for i in range(60)]
        self.assertGreater(len(set(found)), 2)
        self.assertEqual(written["box_list.7"].shape, (found[7], 4))
        done = models.seqto("-v", "tune", model, *self.data, "--schemes", "int8", "--max-evaluations", 12, "--evaluation-samples", 30,
                            "--calibration-samples", 20, "--metric", f"map50_95={self.dir / 'read.json'}", "--objectives", "nmse,size",
                            "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("task: detect, read as", done.stderr)
        trials = [json.loads(line)["trial"] for line in (out / "study.jsonl").read_text().splitlines() if '"trial"' in line]
        self.assertEqual([t["failure"] for t in trials if t.get("failure")], [])
        self.assertEqual(done.stderr.count(said), 1, done.stderr)
        summary = json.loads((out / "summary.json").read_text())
        self.assertRegex(summary["answer"], r"map50_95 0\.\d+ instead of 0\.\d+")
        full = next(t for t in trials if t["id"] == "full")
        self.assertTrue(0 < full["losses"]["nmse"] < 0.5, full["losses"])
        done = models.seqto("check", out / "models/full.onnx", "--reference", model, *self.data, "--max-loss", "nmse=0.5")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_rows_with_the_picture_first(self):
        """The same lists in one output, as YOLOv7 writes them: read without being told, with the same figure."""
        model = self.dir / "rows.onnx"
        described = self.measured(model, write(model, heads.Head(form="listed", corners=True)))
        rows = onnx.load(model)
        column = lambda name, out: models.node("Unsqueeze", [name, "one"], [out])
        rows.graph.node.extend([
            models.node("Cast", ["label_list"], ["label_float"], to=onnx.TensorProto.FLOAT),
            models.node("Sub", ["label_float", "first"], ["class_list"]), column("class_list", "class_column"),
            column("score_list", "score_column"), models.node("Mul", ["score_column", "none"], ["picture"]),
            models.node("Concat", ["picture", "box_list", "class_column", "score_column"], ["output"], axis=1)])
        constants = {"one": np.int64([1]), "none": np.float32(0), "first": np.float32(1)}
        rows.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in constants.items())
        del rows.graph.output[:]
        rows.graph.output.append(onnx.helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, ["objects", 7]))
        onnx.save(rows, model)
        told = self.gate(model)
        drop = next(limit for limit in told["limits"] if "map50_95" in limit["figure"])
        self.assertEqual(drop["found"], 0, told)
        read = {"outputs": ["output"], "decode": "found", "box": "xyxy", "row": "batch_box_class_score", "input": [SIDE, SIDE]}
        self.assertAlmostEqual(self.measured(model, read), described, places=6)

    def test_a_dead_detector_is_a_failed_trial(self):
        """Boxes in pixels and scores in one tensor of 8 bits: each score becomes 0, whatever the loss."""
        out = self.dir / "dead"
        model = models.save(self.dir / "coarse.onnx",
                            [models.node("Conv", ["x", "boxes"], ["b"], strides=[16, 16]), models.node("Mul", ["b", "far"], ["p"]),
                             models.node("Conv", ["x", "scores"], ["l"], strides=[16, 16]), models.node("Sigmoid", ["l"], ["s"]),
                             models.node("Concat", ["p", "s"], ["both"], axis=1), models.node("Reshape", ["both", "rows"], ["y"])],
                            [("x", [1, 3, 64, 64])], [("y", [1, 6, 16])],
                            [("boxes", models.weight(4, 3, 16, 16)), ("scores", models.weight(2, 3, 16, 16, seed=1) / 9),
                             ("far", np.float32([300])), ("rows", np.array([1, 6, -1]))])
        np.savez(self.dir / "coarse.npz", x=np.random.default_rng(5).random((60, 3, 64, 64), dtype=np.float32))
        done = models.seqto("tune", model, "--data", self.dir / "coarse.npz", "--schemes", "int8", "--no-float-unlike-concat", "--no-improve", "--max-evaluations",
                            30, "--evaluation-samples", 30, "--calibration-samples", 20, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = "a detector that finds something expected"
        failed = [t for t in (json.loads(line).get("trial", {}) for line in (out / "study.jsonl").read_text().splitlines())
                  if said in t.get("failure", "")]
        self.assertGreater(len(failed), 0, done.stderr)
        for trial in failed:
            self.assertEqual(trial["plan"]["both_node"], "int8", "others live")

    def test_letterbox_is_pillows(self):
        rng = np.random.default_rng(3)
        for width, height in ((90, 51), (31, 77), (200, 200), (1, 300)):
            picture = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
            folder = self.dir / f"box{width}"
            folder.mkdir()
            picture.save(folder / "a.png")
            model = models.save(self.dir / "pass.onnx", [models.node("Identity", ["x"], ["y"])], [("x", [1, 3, 64, 96])],
                                [("y", [1, 3, 64, 96])])
            done = models.seqto("run", model, "--data", folder, "--preprocess", "yolo", "-o", self.dir / "box.npz")
            self.assertEqual(done.returncode, 0, done.stderr)
            scale = min(96 / width, 64 / height)
            w, h = max(1, round(width * scale)), max(1, round(height * scale))
            wanted = np.full((64, 96, 3), 114, np.uint8)
            left, top = (96 - w) // 2, (64 - h) // 2
            wanted[top:top + h, left:left + w] = np.asarray(picture.resize((w, h), Image.BILINEAR))
            wanted = wanted.transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 255)
            np.testing.assert_array_equal(np.load(self.dir / "box.npz")["y"][0], wanted)

    def test_boxes_go_into_the_letterbox(self):
        """Pictures with the half of another colour beside them: what is found stays right."""
        wide = self.dir / "wide"
        shutil.copytree(self.dir / "data", wide)
        for file in (wide / "images").iterdir():
            picture = Image.open(file)
            picture.crop((0, 24, 96, 72)).save(file)
            label = wide / "labels" / (file.stem + ".txt")
            kept = []
            for line in label.read_text().splitlines():
                kind, x, y, w, h = line.split()
                low, high = max((float(y) - float(h) / 2) * 2 - 0.5, 0), min((float(y) + float(h) / 2) * 2 - 0.5, 1)
                if high - low > float(h):  # half of it at least
                    kept.append(f"{kind} {x} {(low + high) / 2} {w} {high - low}")
            label.write_text("\n".join(kept))
        model = self.dir / "float.onnx"
        read = write(model, heads.Head(form="yolov8"))
        (self.dir / "read.json").write_text(json.dumps(read))
        figures = []
        for recipe in ("yolo", '{"resize": {"width": 96, "height": 96}}'):
            done = models.seqto("run", model, "--data", wide / "images", "--labels", wide / "labels", "--preprocess", recipe, "-o",
                                self.dir / "o.npz", "--metric", f"map50={self.dir / 'read.json'}", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            figures.append(json.loads(done.stdout)["metrics"]["map50"])
        # Drawn out to twice their height they still are discs, squares and triangles, though not those of the training.
        self.assertGreater(figures[0], 0.6, figures)
        self.assertGreater(figures[0], figures[1], figures)

    def test_errors(self):
        model = models.save(self.dir / "open.onnx", [models.node("Identity", ["x"], ["y"])], [("x", [1, 3, "h", "w"])],
                            [("y", [1, 3, "h", "w"])])
        for recipe, part in (("yolo", "a letterbox without a size"), ('{"resize": {"fill": 300}}', "an integer from 0 to 255"),
                             ('{"resize": {"short_side": 9, "fill": 3}}', "short_side"),
                             ('{"resize": {"width": 9, "height": 9, "fill": 3}, "crop": 4}', "crop")):
            done = models.seqto("run", model, "--data", self.dir / "data/images", "--preprocess", recipe, "-o", self.dir / "o.npz")
            self.assertEqual((done.returncode, part in done.stderr), (3, True), done.stderr)
        done = models.seqto("run", model, *self.data, "-o", self.dir / "o.npz", "--metric", "map50")
        self.assertEqual((done.returncode, "outputs of an unknown form" in done.stderr), (2, True), done.stderr)


if __name__ == "__main__":
    unittest.main()
