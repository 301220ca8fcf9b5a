"""What a user gets wrong: the exit code, a message that says what to do, and nothing half-written left behind."""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy as np
import onnx
from onnx import helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

USAGE, INVALID, UNAVAILABLE = 2, 3, 4


def png(path, width=8, height=8, value=100):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes([value, y, 7]) * width for y in range(height))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return path


class Errors(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-errors-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.out = self.dir / "out"
        self.model = models.conv(self.dir / "m.onnx")
        self.data = models.arrays(self.dir / "d.npz")

    def fails(self, code, said, *words, env=None):
        """`said`: what the message must hold, in any case of letters."""
        done = models.seqto(*words, env=env)
        message = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, message)
        for word in said:
            self.assertIn(word.lower(), message.lower())
        if code in (INVALID, UNAVAILABLE):
            self.assertIn("seqto: [", message)
            self.assertGreaterEqual(message.count(";"), 1, message)
        self.assertNotIn("internal error", message)
        self.assertEqual([p for p in self.dir.rglob("*") if ".tmp-" in p.name or ".probe" in p.name], [])
        self.assertFalse(self.out.is_file(), "half-written output")
        for left in ("models", "plans", "summary.json", "report.html"):
            self.assertFalse((self.out / left).exists(), left)
        return message

    def test_a_sample_that_the_model_cannot_run_is_named(self):
        """A convolution of 3 x 3 on an image of 2 x 2: which of many files it is."""
        nodes = [models.node("Conv", ["x", "w"], ["c"]), models.node("GlobalAveragePool", ["c"], ["p"]), models.node("Flatten", ["p"], ["y"])]
        model = models.save(self.dir / "open.onnx", nodes, [("x", [1, 3, "h", "v"])], [("y", [1, 4])], [("w", models.weight(4, 3, 3, 3))])
        (self.dir / "as_is.json").write_text("{}")
        images = self.dir / "images"
        images.mkdir()
        for i in range(24):
            png(images / f"{i:02}.png", value=10 * i)
        png(images / "small.png", width=2, height=2)
        data = ["--data", images, "--preprocess", self.dir / "as_is.json", "-q"]
        for words in (["run", model, "-o", self.dir / "o.npz"], ["validate", model, model],
                      ["check", model, "--reference", model, "--max-loss", 1], ["calibrate", model, "-o", self.dir / "r.json"],
                      ["quantize", model, "-o", self.dir / "q.onnx"], ["analyze", model], ["tune", model, "-o", self.dir / "study"]):
            with self.subTest(words=words[:1]):
                done = models.seqto(*words, *data)
                self.assertEqual(done.returncode, INVALID, done.stderr)
                self.assertIn("; the sample was small.png", done.stderr)

    def every_word_fails(self, said, model):
        """All words that load a model refuse it alike."""
        self.fails(INVALID, said, "inspect", model)
        self.fails(INVALID, said, "prepare", model, "-o", self.out)
        self.fails(INVALID, said, "quantize", model, "--data", self.data, "-o", self.out)
        self.fails(INVALID, said, "run", model, "--data", self.data, "-o", self.out)
        self.fails(INVALID, said, "tune", model, "--data", self.data, "-o", self.out)

    def tune_fails(self, code, said, model, data, *words, **more):
        return self.fails(code, said, "tune", model, "--data", data, "-o", self.out, "--calibration-samples", 5,
                          "--strategy", "incremental", *words,
                          **more)

    # --- models

    def test_missing_model(self):
        self.every_word_fails(["nowhere.onnx", "no such file", "check the path"], self.dir / "nowhere.onnx")

    def test_model_is_a_folder(self):
        self.fails(INVALID, ["directory", "a file was expected"], "inspect", self.dir)

    def test_not_onnx(self):
        text = self.dir / "notes.onnx"
        text.write_text("These are notes, not a model.\n" * 10)
        self.every_word_fails(["notes.onnx", "not an ONNX model", "was expected"], text)
        self.every_word_fails(["not an ONNX model"], png(self.dir / "picture.onnx"))
        empty = self.dir / "empty.onnx"
        empty.touch()
        self.every_word_fails(["not an ONNX model", "0 bytes"], empty)

    def test_truncated(self):
        whole = models.DIGITS.read_bytes()
        for size in (len(whole) // 2, 10):
            cut = self.dir / f"cut{size}.onnx"
            cut.write_bytes(whole[:size])
            self.every_word_fails(["truncated", f"{size} bytes", "export it again"], cut)

    def test_external_weights_missing_or_cut(self):
        model = onnx.load(str(self.model))
        path = self.dir / "external.onnx"
        onnx.save(model, str(path), save_as_external_data=True, location="external.bin", size_threshold=0)
        weights = self.dir / "external.bin"
        bytes_of = path.read_bytes()
        spoiled = onnx.load(str(path), load_external_data=False)
        for entry in spoiled.graph.initializer[0].external_data:
            if entry.key == "offset":
                entry.value = "0x40"
        if not any(e.key == "offset" for e in spoiled.graph.initializer[0].external_data):
            spoiled.graph.initializer[0].external_data.add(key="offset", value="0x40")
        path.write_bytes(spoiled.SerializeToString())
        self.fails(INVALID, ["the offset '0x40' of external data"], "inspect", path)
        path.write_bytes(bytes_of)
        weights.write_bytes(weights.read_bytes()[:100])
        self.fails(INVALID, ["external.bin"], "inspect", path)
        weights.unlink()
        self.fails(INVALID, ["no such file as external.bin", "weights of 'w'", f"expected in {self.dir}", "copy it there"], "inspect", path)

    def test_versions(self):
        self.every_word_fails(["IR version 99", "at most 13"], models.conv(self.dir / "ir.onnx", ir_version=99))
        self.every_word_fails(["opset 99", "7 to 26"], models.conv(self.dir / "new.onnx", opset=99))
        self.every_word_fails(["opset 3", "7 to 26"], models.conv(self.dir / "old.onnx", opset=3))

    def test_nothing_quantizable(self):
        relu = models.save(self.dir / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])], [("x", [1, 3, 8, 8])],
                           [("y", [1, 3, 8, 8])])
        said = ["nothing to quantize:", "Conv"]
        self.tune_fails(INVALID, said, relu, self.data)
        self.fails(INVALID, said, "quantize", relu, "--data", self.data, "-o", self.out)

    def test_a_model_in_the_layout_of_a_processor(self):
        model = onnx.load(str(self.model))
        model.graph.node[0].domain = "com.microsoft.nchwc"
        model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
        path = self.dir / "nchwc.onnx"
        onnx.save(model, path)
        said = ["1 Conv of com.microsoft.nchwc found", "take the model before that", "ORT_ENABLE_EXTENDED"]
        for mode in ("static", "dynamic", "weights", "float16"):
            self.fails(INVALID, said, "quantize", path, "--data", self.data, "--mode", mode, "-o", self.out)
        self.tune_fails(INVALID, said, path, self.data)

    def test_what_is_no_layer(self):
        """Operators of others that share a name with ONNX's, and float64: listed with the reason."""
        foreign = onnx.load(str(self.model))
        foreign.graph.node[0].domain = "own"
        foreign.opset_import.append(helper.make_opsetid("own", 1))
        onnx.save(foreign, self.dir / "foreign.onnx")
        double = models.save(self.dir / "double.onnx", [helper.make_node("Gemm", ["x", "w"], ["y"], "dense")],
                             [("x", [1, 3], onnx.TensorProto.DOUBLE)], [("y", [1, 4], onnx.TensorProto.DOUBLE)], [("w", np.ones((3, 4)))])
        for path, reason in ((self.dir / "foreign.onnx", "is an operator of own, not of ONNX"), (double, "is float64")):
            first = json.loads(models.seqto("inspect", path, "--json").stdout)["layers"][0]
            self.assertFalse(first["quantizable"], first)
            self.assertEqual(first["schemes"], ["float32"])
            self.assertIn(reason, first["reason"])

    def test_functions_of_another_opset(self):
        function = helper.make_function("own", "Block", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])],
                                        [helper.make_opsetid("", 13)])
        model = onnx.load(str(self.model))
        model.functions.append(function)
        model.opset_import.append(helper.make_opsetid("own", 1))
        onnx.save(model, self.dir / "function.onnx")
        self.every_word_fails(["function 'own.Block' of opset 13", "model of opset 17", "Relu", "without functions"],
                              self.dir / "function.onnx")

    def test_weights_of_float64(self):
        double = models.save(self.dir / "double.onnx", [helper.make_node("Gemm", ["x", "w"], ["y"], "dense")],
                             [("x", [1, 3], onnx.TensorProto.DOUBLE)], [("y", [1, 4], onnx.TensorProto.DOUBLE)], [("w", np.ones((3, 4)))])
        self.fails(INVALID, ["Gemm 'dense' with weights of float64", "float32"], "quantize", double, "--mode", "dynamic", "-o", self.out)

    def test_nan_and_infinity(self):
        negative = models.arrays(self.dir / "negative.npz", shift=-100)
        zero = self.dir / "zero.npz"
        np.savez(zero, x=np.zeros((20, 3, 8, 8), np.float32))
        logarithm = models.conv(self.dir / "log.onnx", before=["Log"])
        reciprocal = models.conv(self.dir / "reciprocal.onnx", before=["Reciprocal"])
        self.tune_fails(INVALID, ["nan", "for sample '", "from Log 'before_0', whose output 't0' is the first",
                                  "finite values were expected", "preprocessing"], logarithm, negative)
        said = models.seqto("check", logarithm, "--reference", logarithm, "--data", negative, "--max-loss", 1).stdout
        self.assertIn("the reference's output holds NaN or infinity for sample '0', from Log 'before_0', whose output 't0'", said)
        given = self.dir / "given.npz"
        np.savez(given, x=np.full((20, 3, 8, 8), np.nan, np.float32))
        self.fails(5, ["for sample '0', from the input 'x'"], "check", self.model, "--reference", self.model, "--data", given, "--max-loss", 1)
        shutil.rmtree(self.out)
        self.tune_fails(INVALID, ["infinity", "finite values were expected"], reciprocal, zero)
        # What a layer makes of infinity is NaN; a tensor that holds infinity alone stays float (exports_test.py).
        for model, data in ((logarithm, negative), (reciprocal, zero)):
            said = ["tensor '", "holds NaN", "finite values were expected"]
            self.fails(INVALID, said, "calibrate", model, "--data", data, "-o", self.out)
            self.fails(INVALID, said, "quantize", model, "--data", data, "-o", self.out)

    def test_nan_in_calibration_samples_only(self):
        x = np.abs(models.weight(20, 3, 8, 8)) + 1
        x[3, 1, 2, 2] = -1  # the logarithm of one pixel of one calibration sample
        np.savez(self.dir / "one.npz", x=x.astype(np.float32))
        self.tune_fails(INVALID, ["tensor '", "NaN", "sample '3'"],
                        models.conv(self.dir / "log.onnx", before=["Log"]), self.dir / "one.npz")

    # --- data

    def test_data_missing(self):
        self.tune_fails(INVALID, ["nowhere"], self.model, self.dir / "nowhere")

    def test_inputs_and_arrays(self):
        add = models.save(self.dir / "two.onnx", [
            helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Conv", ["s", "w"], ["y"])
        ], [("a", [1, 3, 8, 8]), ("b", [1, 3, 8, 8])], [("y", [1, 4, 6, 6])], [("w", models.weight(4, 3, 3, 3))])
        self.tune_fails(INVALID, ["the arrays x found", "expected: a, b"], add, self.data)
        x = models.weight(20, 3, 8, 8)
        np.savez(self.dir / "other.npz", a=x, c=x)
        self.tune_fails(INVALID, ["c found", "b missing"], add, self.dir / "other.npz")
        np.save(self.dir / "x.npy", x)
        self.tune_fails(INVALID, ["inputs"], add, self.dir / "x.npy")

    def test_shapes(self):
        self.tune_fails(INVALID, ["9", "8"], self.model, models.arrays(self.dir / "s.npz", shape=(3, 9, 8)))
        self.tune_fails(INVALID, ["1", "3"], self.model, models.arrays(self.dir / "c.npz", shape=(1, 8, 8)))
        self.tune_fails(INVALID, [], self.model, models.arrays(self.dir / "r.npz", shape=(192,)))

    def test_images(self):
        images = self.dir / "images"
        images.mkdir()
        self.tune_fails(INVALID, ["images", "no images found", "expected"], self.model, images)
        (images / "notes.txt").write_text("not an image")
        self.tune_fails(INVALID, ["images", "no images found", "expected"], self.model, images)
        (images / "a.jpg").write_bytes(b"\xff\xd8\xff\xe0 garbage" * 20)
        self.tune_fails(INVALID, ["a.jpg"], self.model, images)
        (images / "a.jpg").unlink()
        png(images / "a.png", 9, 9)
        self.tune_fails(INVALID, ["9", "8"], self.model, images)
        png(images / "a.png")
        self.tune_fails(INVALID, ["[1, 3, 8, 8] found", "[1, 5, 8, 8] expected"], models.conv(self.dir / "five.onnx", channels=5), images)

    def test_a_later_image_is_unreadable(self):
        images = self.dir / "images"
        images.mkdir()
        for i in range(12):
            png(images / f"{i:02}.png", value=20 * i)
        (images / "03.png").write_bytes((images / "03.png").read_bytes()[:60])
        self.tune_fails(INVALID, ["03.png"], self.model, images)

    def test_labels(self):
        images = self.dir / "images"
        images.mkdir()
        for i in range(12):
            png(images / f"{i:02}.png", value=20 * i)
        labels = self.dir / "labels.csv"
        # Images without a row are left out (docs/reference/preprocess.md): here too few rows for the samples asked for.
        labels.write_text("file,label\n" + "".join(f"{i:02}.png,{i % 4}\n" for i in range(5)))
        self.tune_fails(INVALID, ["5 samples found"], self.model, images, "--labels", labels)
        labels.write_text("file,label\n00.png,1\n01.png,cat\n")
        self.tune_fails(INVALID, ["line 3", "cat"], self.model, images, "--labels", labels)
        labels.write_text("file,label\n" + "".join(f"{i:02}.png,{i % 4}\n" for i in range(13)))
        self.tune_fails(INVALID, ["12.png"], self.model, images, "--labels", labels)
        self.tune_fails(INVALID, ["nowhere.csv"], self.model, images, "--labels", self.dir / "nowhere.csv")

    def test_too_few_samples(self):
        self.fails(INVALID, ["5 samples found", "8 for calibration"], "tune", self.model, "--data", self.data, "-o", self.out,
                   "--samples", 5, "--calibration-samples", 8)

    def test_few_samples_are_divided(self):
        for flags, said in ((["--samples", 8], "4 samples to calibrate, 2 to search, 2 to judge"),
                            (["--samples", 10, "--calibration-samples", 50], "5 samples to calibrate, 2 to search, 3 to judge"),
                            (["--evaluation-samples", 100], "10 samples to calibrate, 2 to search, 8 to judge")):
            done = models.seqto("tune", self.model, "--data", self.data, "-o", self.out, "--max-evaluations", 6, "--no-resume", *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(said, done.stderr)

    def test_no_sample_left_for_the_evaluation(self):
        self.fails(INVALID, ["4 samples found", "for the evaluation"], "tune", self.model, "--data", self.data, "-o", self.out,
                   "--samples", 4, "--calibration-samples", 4)

    # --- the world

    def test_output_not_writable(self):
        blocked = self.dir / "file" / "below"
        (self.dir / "file").write_text("")
        for out in (blocked, pathlib.Path("/proc/nope")):
            self.fails(INVALID, [str(out), "choose another"], "tune", self.model, "--data", self.data, "-o", out,
                       "--calibration-samples", 5)
            self.fails(INVALID, ["choose another"], "quantize", self.model, "--data", self.data, "-o", out / "q.onnx")
            self.fails(INVALID, ["choose another"], "calibrate", self.model, "--data", self.data, "-o", out / "r.json")
            self.fails(INVALID, ["choose another"], "prepare", self.model, "-o", out / "p.onnx")
            self.fails(INVALID, ["choose another"], "run", self.model, "--data", self.data, "-o", out / "o.npz")
        self.assertEqual((self.dir / "file").read_text(), "")

    def test_output_is_a_folder(self):
        folder = self.dir / "folder"
        folder.mkdir()
        self.fails(INVALID, ["folder"], "quantize", self.model, "--data", self.data, "-o", folder)
        self.assertEqual(list(folder.iterdir()), [])

    def test_study_of_another_model(self):
        words = ["--data", self.data, "-o", self.out, "--calibration-samples", 5, "-q", "--strategy", "incremental"]
        first = models.seqto("tune", self.model, *words)
        self.assertEqual(first.returncode, 0, first.stderr)
        before = {p: p.read_bytes() for p in self.out.rglob("*") if p.is_file()}
        other = models.conv(self.dir / "other.onnx", before=["Relu"])
        for model, more, differs in ((other, [], "model"), (self.model, ["--per-channel"], "option quantize per_channel"),
                                     (self.model, ["--samples", 19], "data")):
            done = models.seqto("tune", model, *words, *more)
            self.assertEqual(done.returncode, INVALID, done.stderr)
            self.assertIn(differs, done.stderr)
            self.assertIn("study", done.stderr)
        self.assertEqual({p: p.read_bytes() for p in self.out.rglob("*") if p.is_file()}, before)

    def test_runtime_not_found(self):
        missing = {"SEQTO_ORT_LIBRARY": "/nonexistent.so"}
        said = ["/nonexistent.so", "1.20 or newer", "pip install onnxruntime", "SEQTO_ORT_LIBRARY"]
        self.tune_fails(UNAVAILABLE, said, self.model, self.data, env=missing)
        self.fails(UNAVAILABLE, said, "run", self.model, "--data", self.data, "-o", self.out, env=missing)
        self.fails(UNAVAILABLE, said, "quantize", self.model, "--data", self.data, "-o", self.out, env=missing)
        self.assertEqual(models.seqto("inspect", self.model, env=missing).returncode, 0)

    def test_runtime_of_another_kind(self):
        compiler = shutil.which("cc")
        if not compiler:
            self.skipTest("no C compiler")
        for source, said in (('static const char* v(void) { return "1.17.0"; } '
                              'static const void* get(unsigned n) { (void)n; return 0; } '
                              'static const struct { const void* (*get)(unsigned); const char* (*version)(void); } '
                              'base = {get, v}; const void* OrtGetApiBase(void) { return &base; }', ["1.17.0", "too old"]),
                             ("int nothing;", ["OrtGetApiBase"])):
            library = self.dir / "libold.so"
            library.unlink(missing_ok=True)
            subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)], input=source, text=True,
                           check=True)
            self.tune_fails(UNAVAILABLE, [*said, str(library), "1.20 or newer"], self.model, self.data,
                            env={"SEQTO_ORT_LIBRARY": str(library)})

    def test_unknown_device(self):
        self.tune_fails(UNAVAILABLE, ["'abacus'", "cpu"], self.model, self.data, "--device", "abacus")

    # --- usage

    def test_usage(self):
        self.fails(USAGE, ["words:"])
        self.fails(USAGE, ["model"], "inspect")
        self.tune_fails(USAGE, ["--frobnicate"], self.model, self.data, "--frobnicate")
        self.fails(USAGE, ["'magic'", "incremental", "chain"], "tune", self.model, "--data", self.data, "-o", self.out,
                   "--strategy", "magic")
        self.tune_fails(USAGE, ["'speed'", "kl", "size"], self.model, self.data, "--objectives", "kl,speed")
        self.tune_fails(USAGE, ["'int7'", "int8"], self.model, self.data, "--schemes", "int7")
        self.tune_fails(USAGE, ["float9"], self.model, self.data, "--activation-type", "float9")
        self.fails(USAGE, ["0 calibration samples"], "tune", self.model, "--data", self.data, "-o", self.out,
                   "--calibration-samples", 0)
        self.tune_fails(USAGE, ["--length: 0 found; a number above 0 expected"], self.model, self.data, "--length", 0)
        self.tune_fails(USAGE, ["--samples: -1 found; 0 or more expected"], self.model, self.data, "--samples", -1)
        for flag, value in (("--max-time", "nan"), ("--max-time", "inf"), ("--max-time", -1), ("--max-evaluations", -3),
                            ("--ranking-samples", -1), ("--evaluation-samples", -1)):
            self.tune_fails(USAGE, [f"{flag}: {value} found; 0 or more expected"], self.model, self.data, flag, value)
        self.tune_fails(USAGE, ["threshold of nan found"], self.model, self.data, "--threshold", "nan")
        self.fails(USAGE, ["a threshold with strategy chain found", "strategy incremental"], "tune", self.model, "--data", self.data, "-o",
                   self.out, "--threshold", 0.1)
        self.tune_fails(USAGE, ["--threads"], self.model, self.data, "--threads", "many")
        self.fails(USAGE, ["--data", "--ranges"], "quantize", self.model, "-o", self.out)

    def test_improvers_that_would_do_nothing(self):
        for flags, mode, scheme in ((("--rounding", "learned", "--weight-type", "int8"), "dynamic", "int8_dynamic"),
                                    (("--bias-correction", "fast", "--weight-type", "int8"), "dynamic", "int8_dynamic"),
                                    (("--smooth-quant",), "weights", "int8_weights"),
                                    (("--scale-search",), "static", "int8")):
            with self.subTest(flags=flags):
                done = models.seqto("quantize", models.DIGITS, "--data", models.DIGITS_DATA, "--mode", mode, *flags, "-o",
                                    self.dir / "x.onnx")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{' '.join(flags[:1])}", done.stderr)
                self.assertIn(f"with layers in {scheme} found, where it does nothing", done.stderr)

    def test_exclude_matches_nothing(self):
        self.tune_fails(USAGE, ["'comv'", "nearest are: conv", "correct the pattern"], self.model, self.data,
                        "--exclude", "comv")
        self.tune_fails(USAGE, ["'op:Comv'", "nearest are: Conv"], self.model, self.data, "--exclude", "op:Comv")

    def test_plan_and_ranges(self):
        broken = self.dir / "broken.json"
        for text in ("{", "[]", '{"schemes": 3}', '{"schemes": {"conv": 1}}'):
            broken.write_text(text)
            self.fails(INVALID, ["[plan]"], "quantize", self.model, "--data", self.data, "-o", self.out, "--plan", broken)
        broken.write_text('{"schemes": {"conv": "int8"}, "options": {"conv": {"per_channel": true}}}')
        self.fails(INVALID, ["'options' found", "one of schema_version, schemes, recipe expected", '"scheme": scheme, field'],
                   "quantize", self.model, "--data", self.data, "-o", self.out, "--plan", broken)
        broken.write_text('{"schema_version": 2, "schemes": {"conv": "int8"}}')
        self.fails(INVALID, ["schema_version 2 found", "1 expected"], "quantize", self.model, "--data", self.data, "-o", self.out, "--plan", broken)
        broken.write_text('{"schemes": {"conv": "int8", "conv": "float32"}}')
        self.fails(INVALID, ["'conv' found twice"], "quantize", self.model, "--data", self.data, "-o", self.out, "--plan", broken)
        broken.write_text('{"schemes": {"convolution": "int8", "head": "int8_weights"}}')
        self.fails(INVALID, ["'convolution', 'head' found, none of them a layer", "a plan for this model expected", "seqto inspect"],
                   "quantize", self.model, "--data", self.data, "-o", self.out, "--plan", broken)
        self.assertFalse(self.out.exists())
        broken.write_text('{"schemes": {"conv": "int8_weights", "head": "int8_weights"}}')
        self.fails(0, ["1 of the plan's 2 layers", "'head'", "no effect"], "quantize", self.model, "-o", self.dir / "o.onnx", "--plan", broken)
        for text in ("{", '{"data": {"x": {"lowest": "a", "highest": 1}}}'):
            broken.write_text(text)
            self.fails(INVALID, ["broken.json", "seqto calibrate"], "quantize", self.model, "-o", self.out, "--ranges",
                       broken)
        bounds = {key: {"data": [1.0, 2.0], "dtype": "float32", "CLS": "numpy.array"} for key in ("lowest", "highest")}
        broken.write_text(json.dumps({"CLS": "TensorsData", "data": {"x": {**bounds, "CLS": "TensorData"}}}))
        self.fails(INVALID, ["2 bounds of 'x' found, one for each channel", "per_channel=False"], "quantize", self.model, "-o", self.out,
                   "--ranges", broken)
        broken.write_text('{"data": {}}')
        self.fails(INVALID, ["range"], "quantize", self.model, "-o", self.out, "--ranges", broken)

    def test_tensor_methods_fit_a_tensor(self):
        for words in (["quantize", self.model, "-o", self.out], ["calibrate", self.model, "-o", self.out]):
            self.fails(USAGE, ["--tensor-method conv_out=mse found", "fits no tensor"], *words, "--data", self.data, "--tensor-method", "conv_out=mse")
        model = onnx.load(str(self.model))
        for node in model.graph.node:
            for names in (node.input, node.output):
                names[:] = ["c[0]" if name == "c" else name for name in names]
        onnx.save(model, str(self.model))
        plain, own = ([], ["--tensor-method", "c[0]=percentile", "--percentile", 90])
        found = []
        for words in (plain, own):
            done = models.seqto("calibrate", self.model, "--data", self.data, "-o", self.dir / "r.json", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            found.append(json.loads((self.dir / "r.json").read_text())["data"])
        self.assertEqual({name for name in found[0] if found[0][name]["highest"] != found[1][name]["highest"]}, {"c[0]"})

    def test_report_of_nothing(self):
        self.fails(INVALID, ["study.jsonl"], "report", self.dir)
        (self.dir / "study.jsonl").write_text("this is no study\n")
        self.fails(INVALID, ["study.jsonl"], "report", self.dir)


if __name__ == "__main__":
    unit.main()
