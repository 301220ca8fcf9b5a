"""The package seqto: models, data in all their forms, verbs, errors, interruptions."""

import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import package
import numpy as np
import onnx
import onnx.parser

import seqto
from testing import models

MODEL, DATA = str(models.DIGITS), str(models.DIGITS_DATA)
ARRAYS = dict(np.load(DATA))
X = ARRAYS["x"][:48].astype(np.float32)
TYPES = {"activation_type": "uint8", "weight_type": "int8"}


class Reader:
    def __init__(self, batches):
        self.batches = iter(batches)

    def get_next(self):
        return next(self.batches, None)


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="seqto-python-")
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)


class Models(Folder):
    def test_one_model_in_four_forms(self):
        model = seqto.load(MODEL)
        data = pathlib.Path(MODEL).read_bytes()
        for other in (pathlib.Path(MODEL), data, onnx.load(MODEL), model):
            self.assertEqual(seqto.load(other), model)
        self.assertEqual((model.opset, model.size_bytes), (17, len(data)))
        self.assertEqual([(v.name, v.type, v.shape) for v in model.inputs], [("x", "float32", (1, 1, 8, 8))])
        self.assertEqual(onnx.load_from_string(bytes(model)), model.to_onnx())
        with self.assertRaises(TypeError):
            seqto.load(3)

    def test_weights_are_shared_and_outlive_the_model(self):
        model = seqto.load(MODEL)
        proto = onnx.load(MODEL)
        for tensor in proto.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT:
                found = model.initializer(tensor.name)
                np.testing.assert_array_equal(found, onnx.numpy_helper.to_array(tensor))
        self.assertFalse(found.flags.writeable)
        del model
        self.assertTrue(np.isfinite(found).all())
        with self.assertRaises(KeyError):
            seqto.load(MODEL).initializer("none")

    def test_plans(self):
        plan = seqto.uniform_plan(MODEL, "int8", exclude=["op:Gemm"])
        self.assertEqual(set(plan.schemes.values()), {"int8"})
        self.assertEqual(seqto.Plan(plan.schemes), plan)
        detailed = seqto.Plan({"stem": "int8+per_channel=true", "block1_dw": {"scheme": "int8", "per_channel": False}})
        self.assertEqual(detailed.schemes, {"stem": "int8+per_channel=true", "block1_dw": "int8+per_channel=false"})
        detailed.save(self.dir / "plan.json")
        self.assertEqual(seqto.Plan.load(self.dir / "plan.json").hash, detailed.hash)
        with self.assertRaisesRegex(seqto.Error, "did you mean 'int8'"):
            seqto.Plan({"stem": "int9"})


class Data(unittest.TestCase):
    def test_all_forms_of_data_give_the_same_ranges(self):
        wanted = seqto.calibrate(MODEL, X)
        batches = [{"x": X[i:i + 16]} for i in range(0, 48, 16)]
        forms = {
            "dict": {"x": X},
            "a path, the first of them": DATA,
            "batches": batches,
            "a generator": (b for b in batches),
            "a reader": Reader([{"x": x[None]} for x in X]),
            "arrays with labels": [(X[i:i + 8], np.zeros(8, int)) for i in range(0, 48, 8)],
            "of another type": X.astype(np.float64),
            "not contiguous": np.ascontiguousarray(X.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2),
        }
        for name, data in forms.items():
            with self.subTest(name):
                found = seqto.calibrate(MODEL, data, **({"samples": 48} if isinstance(data, str) else {}))
                self.assertEqual({t: found[t] for t in found}, {t: wanted[t] for t in wanted})

    def test_a_reader_may_fill_one_buffer_again_and_again(self):
        buffer = np.empty_like(X[:1])

        def batches():
            for x in X:
                buffer[0] = x
                yield {"x": buffer}

        found, wanted = seqto.calibrate(MODEL, batches()), seqto.calibrate(MODEL, X)
        self.assertEqual(found["x"], wanted["x"])

    def test_what_is_wrong_is_named(self):
        for data, words in (([], "no samples"), (X[:, :, :4], "8, 8.*expected"), ({"z": X}, "without 'x'"),
                            ({"x": X, "y": [1]}, "1 labels for 48"), ([{"x": X[0, 0]}], "expected")):
            with self.assertRaisesRegex(seqto.Error, words) as raised:
                seqto.calibrate(MODEL, data)
            self.assertEqual(raised.exception.code, seqto.Code.invalid_input)
        for data in (3, b"x.npz"):
            with self.assertRaises(TypeError):
                seqto.calibrate(MODEL, data)

    def test_what_holds_no_numbers_is_named(self):
        for data, words in ((X.astype(object), "array of object found for the input 'x'; one of float32 expected"),
                            (np.zeros(X.shape, "M8[s]"), "array of datetime64.* found for the input 'x'"),
                            (X.astype(complex), "array of complex128 found"), (["a.npy"], "array of str.* found"),
                            ([None], "array of object found"), ({"x": [[1, 2], [3]]}, "no array of numbers found for the input 'x'"),
                            ({"x": X, "y": np.ones(48, np.float32)}, "array of float32 found for the labels; one of int64"),
                            (np.float32(3), r"shape \[\]"), ({"X": X}, "data of 'X' without 'x'"),
                            ([(X, np.zeros(48, int), X)], "3 arrays for a model of 1 inputs")):
            with self.subTest(words), self.assertRaisesRegex(seqto.Error, words) as raised:
                seqto.calibrate(MODEL, data)
            self.assertEqual(raised.exception.code, seqto.Code.invalid_input)

    def test_ranges(self):
        ranges = seqto.calibrate(MODEL, X, method="percentile", percentile=99.0)
        with tempfile.TemporaryDirectory() as folder:
            ranges.save(pathlib.Path(folder) / "ranges.json", "percentile")
            again = seqto.Ranges.load(pathlib.Path(folder) / "ranges.json")
        self.assertEqual({t: again[t] for t in again}, {t: ranges[t] for t in ranges})
        self.assertIn("logits", ranges)
        with self.assertRaises(KeyError):
            ranges["none"]


class Verbs(Folder):
    def run_command(self, *words):
        done = models.seqto("-q", *words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_files_beside_the_model_are_used(self):
        from PIL import Image
        (self.dir / "images").mkdir()
        Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(self.dir / "images/a.png")
        model = self.dir / "model.onnx"
        model.write_bytes(pathlib.Path(MODEL).read_bytes())
        plain = seqto.calibrate(model, self.dir / "images")
        (self.dir / "preprocessor_config.json").write_text(json.dumps(
            {"image_processor_type": "ViTImageProcessor", "do_resize": False, "do_rescale": False, "do_normalize": False}))
        beside = seqto.calibrate(model, self.dir / "images")
        self.assertAlmostEqual(plain["x"][1], 63 / 255, places=6)
        self.assertEqual(beside["x"][1], 63)

    def test_quantize_writes_what_the_command_writes(self):
        np.savez(self.dir / "x.npz", x=X)
        for flags, keywords in ((["--activation-type", "uint8"], {"activation_type": "uint8"}),
                                (["--activation-type", "uint8", "--method", "entropy", "--per-channel"],
                                 {"activation_type": "uint8", "method": "entropy", "per_channel": True}),
                                (["--improve", "--bias-correction", "fast", "--activation-type", "uint8"],
                                 {"improve": True, "bias_correction": "fast", "activation_type": "uint8"}),
                                (["--equalize", "--exclude", "stem"], {"equalize": True, "exclude": ["stem"]}),
                                (["--mode", "dynamic"], {"mode": "dynamic"}),
                                (["--mode", "weights", "--weight-bits", "4"], {"mode": "weights", "weight_bits": 4}),
                                (["--mode", "float16"], {"mode": "float16"})):
            with self.subTest(flags):
                data = None if "mode" in keywords else X
                given = [] if data is None else ["--data", self.dir / "x.npz"]
                self.run_command("quantize", MODEL, *given, *flags, "-o", self.dir / "q.onnx")
                made = seqto.quantize(MODEL, data, **keywords)
                self.assertEqual(made.model, seqto.load(self.dir / "q.onnx"))

    def test_quantize_improves_unasked(self):
        plain, better = seqto.quantize(MODEL, X, **TYPES), seqto.quantize(MODEL, X)
        loss = lambda q: seqto.validate(MODEL, q.model, X, limits={"kl": 1}).to_dict()["limits"][0]["found"]
        self.assertLess(loss(better), loss(plain))
        self.assertNotEqual(plain.encoding, better.encoding)
        for bits in (4, 8):
            stored = [seqto.quantize(MODEL, data, mode="weights", weight_bits=bits) for data in (None, X)]
            self.assertLess(loss(stored[1]), loss(stored[0]))
            self.assertEqual(seqto.quantize(MODEL, X, mode="weights", weight_bits=bits, improve=False).model, stored[0].model)

    def test_verify(self):
        made = seqto.quantize(MODEL, X, verify=True, **TYPES)
        self.assertEqual(made.notes, seqto.quantize(MODEL, X, **TYPES).notes)
        with self.assertRaisesRegex(seqto.Error, "verify without data found"):
            seqto.quantize(MODEL, mode="weights", verify=True)

    def test_a_graph_that_ends_the_runtime_raises_an_error(self):
        model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float16[1,2,8] x) => (float16[2,1,4] y) '
                                        '{ t = Transpose<perm=[1,0,2]>(x)  h = MatMul(t, w)  y = MatMul(h, v) }')
        for name, rows in (("w", 8), ("v", 4)):
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((rows, 4), np.float16), name))
        x = np.ones((6, 2, 8), np.float16)
        for verb in (lambda: seqto.validate(model, model, x),
                     lambda: seqto.quantize(model, x, verify=True, exclude=["op:MatMul"], widen_float16=False, **TYPES)):
            try:
                verb()  # newer runtimes may take it
            except seqto.Error as error:
                self.assertEqual(error.code, seqto.Code.unavailable, error)

    def test_encodings(self):
        made = seqto.quantize(MODEL, X, **TYPES)
        encoding = made.encoding
        np.savez(self.dir / "x.npz", x=X)
        printed = models.seqto("-q", "quantize", MODEL, "--data", self.dir / "x.npz", "--activation-type", "uint8",
                               "--print-encoding", "-o", self.dir / "q.onnx").stdout
        self.assertEqual(encoding.to_json(), printed.rstrip("\n"))
        self.assertEqual(encoding.hash, json.loads(printed)["hash"])
        self.assertEqual(encoding.layers["stem"]["scheme"], "int8")
        self.assertEqual(encoding.tensors["x"]["type"], "uint8")
        self.assertIn("stem_clip", encoding.removed)
        self.assertEqual(encoding.biases["stem_bias"]["layer"], "stem")
        self.assertEqual((encoding.weights, encoding.deviations, encoding.notes), ({}, [], []))
        quantizer = seqto.Quantizer(MODEL, seqto.calibrate(MODEL, X), **TYPES)
        again, other = (quantizer.encode(seqto.uniform_plan(MODEL, "int8", exclude=e)) for e in ([], ["op:Gemm"]))
        self.assertEqual(again, encoding)
        self.assertEqual(len({again, encoding, other}), 2)
        stored = seqto.quantize(MODEL, mode="weights").encoding
        self.assertIn("stem_weight", stored.weights)
        self.assertEqual(json.loads(stored.to_json())["hash"], stored.hash)

    def test_plans_and_ranges_in_place_of_a_mode(self):
        ranges, plan = seqto.calibrate(MODEL, X), seqto.uniform_plan(MODEL, "int8", exclude=["op:Gemm"])
        made = seqto.quantize(MODEL, ranges=ranges, plan=plan, **TYPES)
        self.assertEqual(seqto.Quantizer(MODEL, ranges, **TYPES).quantize(plan), made.model)
        with self.assertRaisesRegex(seqto.Error, "no data found") as raised:
            seqto.quantize(MODEL)
        self.assertEqual(int(raised.exception.code), 2)
        for field in ("rounding=learned", "equalize=true", "method=entropy"):
            with self.assertRaisesRegex(seqto.Error, "no data found"):
                seqto.quantize(MODEL, ranges=ranges, plan=seqto.Plan({"stem": f"int8+{field}"}))
        self.assertEqual(seqto.quantize(MODEL, ranges=ranges, plan=plan.schemes, **TYPES).model, made.model)
        for given, words in (({"plan": 3, "ranges": ranges}, "3 found; a seqto.Plan"),
                             ({"plan": plan, "ranges": 3}, "3 found; seqto.Ranges")):
            with self.assertRaisesRegex(TypeError, words):
                seqto.quantize(MODEL, **given)
        with self.assertRaisesRegex(TypeError, "found; seqto.Ranges"):
            seqto.Quantizer(MODEL, {"x": (0, 1)})
        with self.assertRaisesRegex(seqto.Error, "nothing to quantize"):
            seqto.quantize(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Relu(x) }'),
                           mode="weights")

    def test_a_target_gets_what_it_takes(self):
        seqto.quantize(MODEL, X, target="esp-dl").save(self.dir / "made.onnx")
        self.assertEqual(models.seqto("lint", self.dir / "made.onnx", "--target", "esp-dl", "--strict").returncode, 0)
        for given, words in (({"mode": "dynamic"}, r"mode='dynamic' \(int8_dynamic\) for esp-dl found, which takes int8"),
                             ({"mode": "weights", "weight_bits": 2}, "int4_weights.bits=2"),
                             ({"plan": {"stem": "int8_weights"}}, "esp-dl refuses")):
            with self.assertRaisesRegex(seqto.Error, words):
                seqto.quantize(MODEL, target="esp-dl", **given)
        self.assertIn(" target: str | None = None", seqto.quantize.__nb_signature__[0][0])

    def test_a_quantizer_refuses_plans_of_other_models(self):
        quantizer = seqto.Quantizer(MODEL, seqto.calibrate(MODEL, X), **TYPES)
        for verb in (quantizer.quantize, quantizer.encode):
            with self.assertRaisesRegex(seqto.Error, "'other' found, none of them a layer of the model") as raised:
                verb(seqto.Plan({"other": "int8"}))
            self.assertEqual(raised.exception.code, seqto.Code.invalid_input)
        quantizer.quantize(seqto.Plan({"stem": "int8", "other": "int8"}))
        self.assertRegex(quantizer.notes[0], "1 of the plan's 2 layers are none of the model's")
        quantizer.quantize(seqto.Plan())
        self.assertEqual(quantizer.notes, [])

    def test_files_that_cannot_be_written_or_read(self):
        plan, file = seqto.Plan({"stem": "int8"}), self.dir / "file"
        file.write_text("no folder")
        for path in (self.dir, self.dir / "none" / "plan.json"):
            with self.assertRaisesRegex(seqto.Error, "cannot be written"):
                plan.save(path)
            with self.assertRaisesRegex(seqto.Error, "cannot be read"):
                seqto.Plan.load(path)
        for model, data in ((MODEL, X), (seqto.load(MODEL), DATA), (MODEL, DATA)):
            with self.assertRaisesRegex(seqto.Error, "file: Not a directory; a .*folder.* was expected") as raised:
                seqto.tune(model, data, file)
            self.assertEqual(raised.exception.code, seqto.Code.invalid_input)
        for folder in (self.dir / "none", file):
            with self.assertRaisesRegex(seqto.Error, "no summary.json found") as raised:
                seqto.Study(folder).front
            self.assertEqual(raised.exception.code, seqto.Code.invalid_input)

    def test_analyze_validate_bench(self):
        quantized = seqto.quantize(MODEL, X, **TYPES).model
        sensitivity = seqto.analyze(MODEL, quantized, X)
        self.assertGreater(sensitivity.activations[0].score, sensitivity.activations[-1].score)
        self.assertGreater(sensitivity.weights[0].sqnr, 20)
        self.assertTrue(seqto.validate(MODEL, MODEL, X))
        parity = seqto.validate(MODEL, quantized, X)
        self.assertFalse(parity.passed)
        self.assertRegex(parity.failures[0], "logits")
        result = seqto.bench([MODEL, quantized], launches=1, rounds=2)
        self.assertEqual(len(result.latencies_ns), 2)
        for batches in (lambda: Reader([{"x": X[:8]}, {"x": X[8:16]}]), lambda: iter([X[:8], X[8:16]])):
            self.assertTrue(seqto.validate(MODEL, MODEL, batches()))
            self.assertEqual(len(seqto.bench([MODEL, quantized], batches(), launches=1, rounds=2).latencies_ns), 2)
        self.assertGreater(min(result.latencies_ns), 0)
        with self.assertRaisesRegex(seqto.Error, "no tensor of the model found that is quantized in the other"):
            seqto.analyze(MODEL, MODEL, X)
        for one in (MODEL, pathlib.Path(MODEL), quantized):  # no list of letters
            self.assertEqual(len(seqto.bench(one, launches=1, rounds=2).latencies_ns), 1)
        for wrong, words in (({"models": []}, "no model found"), ({"models": MODEL, "launches": 0}, "launches of 0"),
                             ({"models": MODEL, "rounds": 0}, "rounds of 0")):
            with self.assertRaisesRegex(seqto.Error, words):
                seqto.bench(**wrong)
        with self.assertRaisesRegex(TypeError, "int found; a list expected"):
            seqto.bench(3)

    def test_a_negative_number_of_samples_is_an_error(self):
        class Rows:
            def __len__(self):
                return len(X)

            def __getitem__(self, i):
                return X[i]

        for data in (X, [{"x": X}], Rows(), "random"):
            with self.assertRaisesRegex(seqto.Error, r"a negative number of samples found; 0 \(all\) or more expected"):
                seqto.calibrate(MODEL, data, samples=-1)

    def test_tune(self):
        labels = ARRAYS["y"]
        steps = []
        study = seqto.tune(seqto.load(MODEL), {"x": ARRAYS["x"], "y": labels}, self.dir / "out", strategy="incremental",
                           objectives=["kl", "size"], max_evaluations=4, evaluation_samples=40,
                           progress=lambda verb, done, total, note: steps.append(verb))
        self.assertEqual(study.summary["evaluations"], 4)
        self.assertLess(study.int8.size_bytes, study.float.size_bytes)
        self.assertIn(study.selected.name, [*[p.name for p in study.front], "int8", "float", "ort-int8"])
        self.assertEqual(study.model("int8").size_bytes, study.int8.size_bytes)
        self.assertIn("top1", study.float.metrics)
        self.assertIn(study.answer.split(":")[0], repr(study))
        files = [study.folder / name for name in ("summary.json", "report.html", "plots/front.svg")]
        written = [file.stat().st_mtime_ns for file in files]
        self.assertIn("float", str(study))
        self.assertIn("<svg", study._repr_html_())
        self.assertEqual([file.stat().st_mtime_ns for file in files], written, "who looks writes nothing")
        self.assertTrue(steps)
        again = seqto.Study(self.dir / "out")
        self.assertEqual(again.front, study.front)
        with self.assertRaisesRegex(seqto.Error, "(?s)nosuch"):
            study.path("nosuch")

    def test_tune_encoder_and_decoder(self):
        speech = models.SOURCE / "examples" / "speech"
        features = np.random.default_rng(0).normal(0, 0.5, (40, 80, 112)).astype(np.float32)
        np.savez(self.dir / "sounds.npz", input_features=features)
        study = seqto.tune((speech / "encoder.onnx", speech / "decoder.onnx"), self.dir / "sounds.npz", self.dir / "out",
                           objectives=["kl", "size"], max_evaluations=4, improve=False, correct_weights=False)
        self.assertEqual(study.summary["task"], "generate")
        halves = sorted(p.name for p in (self.dir / "out" / "models" / "selected").iterdir())
        self.assertEqual(halves, ["decoder.onnx", "encoder.onnx", "generation_config.json"])


class Calls(unittest.TestCase):
    def test_keywords(self):
        with self.assertRaisesRegex(TypeError, "activaton_type.*did you mean 'activation_type'"):
            seqto.quantize(MODEL, X, activaton_type="int8")
        for flag, field in (("smooth_quant", "smooth"), ("calibration_method", "method"), ("rounding", "learned_rounding"), ("op_types_to_quantize", "op_types")):
            with self.assertRaisesRegex(TypeError, f"did you mean '{field}'"):
                seqto.quantize(MODEL, X, **{flag: True})
        with self.assertRaisesRegex(TypeError, "per_channel.*bool expected"):
            seqto.quantize(MODEL, X, per_channel="yes")
        for wrong, words in (({"include": 3}, "include.*int found; a list"), ({"exclude": "stem"}, "exclude.*not a string"),
                             ({"weight_only": 3}, "weight_only.*3 found; a dict")):
            with self.assertRaisesRegex(TypeError, words):
                seqto.quantize(MODEL, X, **wrong)
        for wrong, words in (({"limits": ["kl"]}, "limits.*a dict expected"), ({"devices": []}, "devices: none found"),
                             ({"devices": 3}, "devices: int found"), ({"metrics": 3}, "metrics: int found")):
            with self.assertRaisesRegex(TypeError, words):
                seqto.tune(MODEL, X, "unwritten", **wrong)
        for wrong in (["a"], "plan.json"):
            with self.assertRaisesRegex(TypeError, "a dict expected"):
                seqto.Plan(wrong)
        with self.assertRaisesRegex(TypeError, "GraphProto found"):
            seqto.load(onnx.load(MODEL).graph)
        with self.assertRaisesRegex(seqto.Error, "weight_bits=3 found"):
            seqto.quantize(MODEL, mode="weights", weight_bits=3)
        with self.assertRaisesRegex(TypeError, "int4_block_siz.*did you mean 'int4_block_size'"):
            seqto.quantize(MODEL, mode="weights", weight_only={"int4_block_siz": 32})
        with self.assertRaisesRegex(seqto.Error, "did you mean 'uint8'"):
            seqto.quantize(MODEL, X, activation_type="uint9")

    def test_every_option_of_the_library_is_a_keyword(self):
        signature = seqto.tune.__nb_signature__[0][0]
        for name in ("strategy", "calibration_samples", "activation_type", "percentile", "learned_rounding", "threads",
                     "labels", "weight_only", "limits"):
            self.assertRegex(signature, rf"[ ,]{name}: ")
        self.assertRegex(seqto.tune.__doc__, "max_evaluations: trials of any kind; 0: no limit")

    def test_the_log_is_pythons(self):
        with self.assertLogs("seqto", logging.INFO) as seen, tempfile.TemporaryDirectory() as folder:
            seqto.tune(MODEL, "random", pathlib.Path(folder) / "out", strategy="incremental", samples=30, max_evaluations=2)
        self.assertRegex("\n".join(seen.output), "random numbers")

    def test_progress_in_bars(self):
        made = []

        class tqdm:  # what is asked of tqdm's own
            def __init__(self, desc, total):
                self.desc, self.total, self.n, self.closed = desc, total, 0, False
                made.append(self)

            def set_postfix_str(self, text, refresh):
                self.text = text

            def refresh(self):
                self.drawn = self.n

            def close(self):
                self.closed = True

        seqto.calibrate(MODEL, X, progress=tqdm)
        self.assertTrue(made and all(bar.closed and bar.drawn == bar.n for bar in made))
        seqto.calibrate(MODEL, X, progress=False)
        with unittest.mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}):
            with self.assertRaisesRegex(TypeError, "needs the package tqdm"):
                seqto.calibrate(MODEL, X, progress=True)
        auto = types.ModuleType("tqdm.auto")
        auto.tqdm = tqdm
        before = len(made)
        with unittest.mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": auto}):
            seqto.quantize(MODEL, X, progress=True)
        self.assertGreater(len(made), before)


class Imports(unittest.TestCase):
    def test_in_any_order_beside_others(self):
        names = ["onnx", "onnxruntime", "seqto"]
        use = ("import numpy as np; x = np.zeros((2, 1, 8, 8), np.float32); "
               f"q = bytes(seqto.quantize({MODEL!r}, x, activation_type='uint8').model); "
               "onnx.checker.check_model(onnx.load_from_string(q)); onnxruntime.InferenceSession(q)")
        for order in (names, names[::-1], ["seqto", "onnx", "onnxruntime"], ["onnxruntime", "seqto", "onnx"]):
            with self.subTest(order):
                done = subprocess.run([sys.executable, "-c", "; ".join(f"import {n}" for n in order) + "; " + use],
                                      capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_imports_neither_numpy_nor_onnx(self):
        done = subprocess.run([sys.executable, "-c", "import sys, seqto; print('numpy' in sys.modules, 'onnx' in sys.modules)"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout.split(), ["False", "False"], done.stderr)

    def test_shows_one_symbol(self):
        core = next((package.PACKAGE / "seqto").glob("_core*.so"))
        shown = subprocess.run(["nm", "-D", "--defined-only", core], capture_output=True, text=True, check=True).stdout
        self.assertEqual([line.split()[-1] for line in shown.splitlines()], ["PyInit__core"])

    def test_the_command(self):
        done = subprocess.run([sys.executable, "-m", "seqto", "inspect", MODEL], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, models.seqto("inspect", MODEL).stdout)
        done = subprocess.run([sys.executable, "-m", "seqto", "inspekt"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
