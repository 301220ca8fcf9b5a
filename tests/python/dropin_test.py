"""seqto.onnxruntime.quantization beside onnxruntime.quantization: signatures, defaults, and equal models."""

import contextlib
import copy
import importlib
import inspect
import io
import json
import logging
import os
import pathlib
import re
import tempfile
import unittest

import package  # noqa: F401
import numpy as np
import onnx
import onnxruntime
import onnxruntime.quantization as theirs
from onnx import helper, numpy_helper

import seqto
import seqto.onnxruntime.quantization as ours
import canonical
import cases
import deviations
import graphs
import operator_deviations
import operator_graphs
import operators_test
import oracle
from testing import models, unit
from testing.samples import Samples

COUNT = int(os.environ.get("SEQTO_DROPIN_COUNT", 40))
FAILED_ONCE = (61,)  # seeds whose mends every run looks at
CASES = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", package.SOURCE / "../shared/cases"))
NAMES = ["quantize_static", "quantize_dynamic", "quantize", "get_qdq_config", "create_calibrator", "quant_pre_process",
         "StaticQuantConfig", "DynamicQuantConfig", "MinMaxCalibrater", "CalibraterBase", "load_tensors_data",
         "save_tensors_data", "write_calibration_table", "calibrate.HistogramCalibrater", "calibrate.EntropyCalibrater",
         "calibrate.PercentileCalibrater", "calibrate.DistributionCalibrater", "preprocess.quant_pre_process",
         "quant_utils.load_model_with_shape_infer", "quant_utils.save_and_reload_model_with_shape_infer"]


def silently(function, *arguments, **keywords):
    with contextlib.redirect_stdout(io.StringIO()), oracle.limit(15):
        return function(*arguments, **keywords)


def is_sorted(graph):
    made = {t for node in graph.node for t in node.output}
    for node in graph.node:
        if made.intersection(node.input):
            return False
        made.difference_update(node.output)
    return True


class Signatures(unittest.TestCase):
    def test_names_and_defaults(self):
        for name in NAMES:
            with self.subTest(name):
                *path, name = name.split(".")
                a, b = (inspect.signature(getattr(importlib.import_module(".".join([module.__name__, *path])), name)).parameters
                        for module in (theirs, ours))
                self.assertEqual([(p.name, p.kind, str(p.default)) for p in a.values()],
                                 [(p.name, p.kind, str(p.default)) for p in b.values()])

    def test_enumerations(self):
        for name in ("QuantType", "QuantFormat", "CalibrationMethod", "QuantizationMode"):
            a, b = getattr(theirs, name), getattr(ours, name)
            self.assertEqual([(e.name, e.value, str(e)) for e in a], [(e.name, e.value, str(e)) for e in b])
        for kind in theirs.QuantType:
            self.assertEqual(ours.QuantType[kind.name].tensor_type, kind.tensor_type)

    def test_registries(self):
        for name in ("QDQRegistry", "QLinearOpsRegistry", "IntegerOpsRegistry"):
            a, b = (getattr(importlib.import_module(f"{module.__name__}.registry"), name) for module in (theirs, ours))
            self.assertEqual(set(a), set(b))

    def test_helpers_are_theirs(self):
        a, b = (importlib.import_module(f"{module.__name__}.quant_utils") for module in (theirs, ours))
        for name in ("QUANT_OP_NAME", "DEQUANT_OP_NAME", "TENSOR_NAME_QUANT_SUFFIX", "QUANT_INPUT_SUFFIX", "ms_domain",
                     "DEQUANT_OUTPUT_SUFFIX", "MODEL_SIZE_THRESHOLD", "onnx_domain", "find_by_name", "compute_scale_zp"):
            self.assertEqual(getattr(a, name), getattr(b, name))
        self.assertFalse(hasattr(ours, "QDQQuantizer"))
        with self.assertRaisesRegex(AttributeError, "quantize_static"):
            ours.QDQQuantizer
        with self.assertRaisesRegex(ImportError, "QDQQuantizer"):
            from seqto.onnxruntime.quantization import QDQQuantizer  # noqa: F401

    def test_their_readers_are_readers(self):
        self.assertIsInstance(Samples([]), ours.CalibrationDataReader)


class Pair(unittest.TestCase):
    """One call through both doors."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="seqto-dropin-")
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        logging.disable(logging.NOTSET)
        logging.getLogger().setLevel(logging.CRITICAL)
        self.logged = io.StringIO()
        handler, log = logging.StreamHandler(self.logged), logging.getLogger("seqto")
        log.setLevel(logging.INFO)
        log.propagate = False
        log.addHandler(handler)
        self.addCleanup(log.removeHandler, handler)

    def made(self, module, function, model, *arguments, **keywords):
        """The model that a function writes, or what it raised."""
        output = self.dir / f"{module.__name__}.onnx"
        try:
            silently(getattr(module, function), model, output, *arguments, **keywords)
            return onnx.load(output)
        except Exception as error:
            return error

    def difference(self, a, b):
        self.assertNotIsInstance(b, Exception, b)
        return canonical.compare(a, b)


class Generated(Pair):
    def arguments(self, seed, form, model):
        """Options of both sides, as the differential suite draws them."""
        if form == "QDQ":
            o = dict(oracle.random_options(np.random.default_rng([seed, 2]), model), compat_onnxruntime=True)
            return o, oracle.oracle_arguments(o)
        o = dict(operators_test.random_options(form.lower(), seed, model), compat_onnxruntime=True)
        keywords = oracle.oracle_arguments(o)
        if o["matmul_const_b_only"] is not None:
            keywords["extra_options"]["MatMulConstBOnly"] = o["matmul_const_b_only"]
        if o["enable_subgraph"]:
            keywords["extra_options"]["EnableSubgraph"] = True
        if form == "dynamic":
            del keywords["activation_type"]
        else:
            keywords["quant_format"] = theirs.QuantFormat.QOperator
        return o, keywords

    def allowed(self, form, model, inputs, o):
        """Ids of docs/reference/compatibility.md at which the models may differ."""
        if form == "dynamic":
            return operator_deviations.allowed("dynamic", model, {}, o)
        ranges = oracle.observe(model, inputs, oracle.float_tensors(model, o["op_types"]))
        if form == "QDQ":
            return deviations.allowed(model, ranges, o)
        return operator_deviations.allowed("qoperator", model, ranges, o)

    def run_seed(self, seed, form):
        case = (graphs if form == "QDQ" else operator_graphs).generate(seed)
        if not is_sorted(case.model.graph):
            return "not sorted"  # onnxruntime knows no types behind such nodes; seqto sorts them when it reads a model
        o, keywords = self.arguments(seed, form, case.model)
        source = self.dir / "source.onnx"
        onnx.save(case.model, source)
        call = ["quantize_dynamic", source] if form == "dynamic" else ["quantize_static", source, Samples(case.inputs)]
        a = self.made(theirs, *call, **copy.deepcopy(keywords))
        if isinstance(a, Exception):
            return "theirs refuses"
        if form != "dynamic":
            call[2].rewind()
        self.logged.truncate(0)
        b = self.made(ours, *call, **keywords)
        if isinstance(b, Exception) and deviations.rejects(case.model, o):
            return "ours refuses"
        difference = self.difference(a, b)
        if difference is None:
            return "equal"
        reported = set(re.findall(r"\bD\d+\b", self.logged.getvalue()))
        self.assertTrue(reported, f"seed {seed}, {form}:\n    {difference}")
        allowed = self.allowed(form, case.model, case.inputs, o)
        self.assertLessEqual(reported, allowed, f"seed {seed}, {form}: {difference}")
        return "deviates"

    def test_graphs(self):
        for form in ("QDQ", "QOperator", "dynamic"):
            verdicts = {}
            for seed in (*FAILED_ONCE, *range(COUNT)):
                with self.subTest(form=form, seed=seed):
                    verdict = self.run_seed(seed, form)
                    verdicts[verdict] = verdicts.get(verdict, 0) + 1
            print(form, verdicts)
            self.assertGreater(verdicts.get("equal", 0), COUNT // 4, verdicts)


class Calibrated(Pair):
    """Ranges of one's own: methods, and a real network on real samples."""

    def batches(self):
        x = np.load(models.DIGITS_DATA)["x"][:40].astype(np.float32)
        return [{"x": row[None]} for row in x]

    def both(self, model, batches, allowed=(), **keywords):
        a, b = (self.made(module, "quantize_static", model, Samples(batches), **keywords) for module in (theirs, ours))
        self.assertNotIsInstance(a, Exception, a)
        self.assertIsNone(self.difference(a, b))

    def test_methods(self):
        for method in ("MinMax", "Entropy", "Percentile"):
            with self.subTest(method):
                self.both(str(models.DIGITS), self.batches(), calibrate_method=theirs.CalibrationMethod[method])
        for extra in ({"CalibMovingAverage": True, "CalibMovingAverageConstant": 0.2}, {"CalibTensorRangeSymmetric": True}):
            with self.subTest(extra):
                self.both(str(models.DIGITS), self.batches(), extra_options=extra)

    def test_dynamic_weights_by_channel_need_no_opset(self):
        """Those of QDQ form need 13."""
        rng = np.random.default_rng(0)
        w = rng.normal(size=(16, 8)).astype(np.float32)
        float32 = onnx.TensorProto.FLOAT
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], "g",
                                  [helper.make_tensor_value_info("x", float32, [4, 16])],
                                  [helper.make_tensor_value_info("y", float32, [4, 8])],
                                  [numpy_helper.from_array(w, "w")])
        model = self.dir / "old.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6), model)
        a, b = (self.made(module, "quantize_dynamic", model, per_channel=True) for module in (theirs, ours))
        self.assertNotIsInstance(a, Exception, a)
        self.assertIsNone(self.difference(a, b))
        x = {"x": rng.normal(size=(4, 16)).astype(np.float32)}
        answers = [onnxruntime.InferenceSession(m.SerializeToString()).run(None, x)[0] for m in (a, b)]
        np.testing.assert_array_equal(*answers)
        refused = self.made(ours, "quantize_static", model, Samples([x]), per_channel=True)
        self.assertIn("13 or newer is needed", str(refused))

    def test_batches_are_run_as_they_are(self):
        model = onnx.load(models.DIGITS)
        for value in [*model.graph.input, *model.graph.output]:
            value.type.tensor_type.shape.dim[0].dim_param = "N"
        del model.graph.value_info[:]
        onnx.save(model, self.dir / "open.onnx")
        x = np.concatenate([b["x"] for b in self.batches()])
        self.both(str(self.dir / "open.onnx"), [{"x": x[:16]}, {"x": x[16:]}])

    def test_caches_are_each_others(self):
        for first, second in ((theirs, ours), (ours, theirs)):
            cache = self.dir / f"{first.__name__}.json"
            a = self.made(first, "quantize_static", str(models.DIGITS), Samples(self.batches()), calibration_cache_path=cache)
            b = self.made(second, "quantize_static", str(models.DIGITS), None, calibration_cache_path=cache)
            self.assertIsNone(self.difference(a, b))
        refused = self.made(ours, "quantize_static", str(models.DIGITS), None, calibration_cache_path=cache,
                            calibrate_method=ours.CalibrationMethod.Entropy)
        self.assertIsInstance(refused, ValueError)

    def test_smoothing(self):
        rng = np.random.default_rng(0)
        w = rng.normal(size=(16, 8)).astype(np.float32)
        nodes = [helper.make_node("Mul", ["x", "gain"], ["g"], "gain_node"), helper.make_node("MatMul", ["g", "w"], ["y"])]
        gain = np.ones(16, np.float32)
        gain[3] = 100  # an outlier channel, which the weights hardly read
        w[3] /= 100
        float32 = onnx.TensorProto.FLOAT
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", float32, [4, 16])],
                                  [helper.make_tensor_value_info("y", float32, [4, 8])],
                                  [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(gain, "gain")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        source, cache = self.dir / "smooth.onnx", self.dir / "smooth.json"
        onnx.save(model, source)
        batches = [{"x": rng.normal(size=(4, 16)).astype(np.float32)} for _ in range(20)]
        run = lambda m: np.concatenate([oracle.session(m, False).run(None, b)[0] for b in batches])
        errors = []
        for extra in ({}, {"SmoothQuant": True}, {"SmoothQuant": True, "SmoothQuantAlpha": 0.8}):
            made = self.made(ours, "quantize_static", source, Samples(batches), extra_options=extra, calibration_cache_path=cache)
            self.assertNotIsInstance(made, Exception, made)
            self.assertEqual(json.loads(cache.read_text()).get("smooth_quant", False), bool(extra))
            errors.append(np.linalg.norm(run(made) - run(model)))
        self.assertLess(max(errors[1:]), errors[0] / 2)
        self.assertNotEqual(errors[1], errors[2])
        refused = self.made(ours, "quantize_static", source, None, extra_options=extra, calibration_cache_path=cache)
        self.assertRegex(str(refused), "SmoothQuant requires")

    def test_configurations(self):
        for module in (theirs, ours):
            config = module.get_qdq_config(str(models.DIGITS), Samples(self.batches()), per_channel=True,
                                           nodes_to_exclude=lambda model, node: node.op_type == "Gemm")
            silently(module.quantize, str(models.DIGITS), str(self.dir / f"{module.__name__}.onnx"), config)
        a, b = (onnx.load(self.dir / f"{module.__name__}.onnx") for module in (theirs, ours))
        self.assertIsNone(canonical.compare(a, b))
        for config in (theirs.StaticQuantConfig(Samples(self.batches()), per_channel=True), theirs.DynamicQuantConfig()):
            a, b = (self.made(module, "quantize", str(models.DIGITS), quant_config=config) for module in (theirs, ours) if
                    getattr(config, "calibration_data_reader", Samples([])).rewind() is None)
            self.assertIsNone(self.difference(a, b))
        self.assertRegex(str(self.made(ours, "quantize", str(models.DIGITS), quant_config=3)), "or WeightOnlyQuantConfig")

    def test_overrides(self):
        tensor = next(l.id for l in seqto.load(str(models.DIGITS)).layers() if l.op_type == "Conv")
        node = next(n for n in onnx.load(models.DIGITS).graph.node if n.name == tensor)
        overrides = {node.output[0]: [{"quant_type": theirs.QuantType.QUInt16}],
                     node.input[0]: [{"scale": np.array(0.1, np.float32), "zero_point": np.array(3, np.int8)}]}
        self.both(str(models.DIGITS), self.batches(), extra_options={"TensorQuantOverrides": overrides})

    def test_calibrators(self):
        for method in ("MinMax", "Entropy", "Percentile"):
            for op_types in (["Conv"], None):
                found = []
                for module in (theirs, ours):
                    calibrator = silently(module.create_calibrator, str(models.DIGITS), op_types, str(self.dir / "augmented.onnx"),
                                          module.CalibrationMethod[method], extra_options={"percentile": 99.0})
                    self.assertTrue(type(calibrator).__name__.startswith(method))
                    silently(calibrator.collect_data, Samples(self.batches()))
                    data = silently(calibrator.compute_data)
                    found.append({t: tuple(np.asarray(v).item() for v in data[t].range_value) for t in data.keys()})
                self.assertEqual(*found)

    def test_calibrations_as_json(self):
        made = {}
        for module in (theirs, ours):
            cache = self.dir / f"{module.__name__}.json"
            self.made(module, "quantize_static", str(models.DIGITS), Samples(self.batches()), calibration_cache_path=cache)
            data = made[module] = module.load_tensors_data(cache)
            folder = self.dir / module.__name__
            folder.mkdir()
            silently(module.write_calibration_table, data, str(folder))
        for name in ("calibration.flatbuffers", "calibration.cache"):
            self.assertEqual(*((self.dir / module.__name__ / name).read_bytes() for module in (theirs, ours)), name)
        read = [theirs.TensorsData.from_dict(json.loads((self.dir / module.__name__ / "calibration.json").read_text()))
                for module in (theirs, ours)]
        a, b = ({t: [v.item() for v in data[t].range_value] for t in data} for data in read)
        self.assertEqual(a, b)
        encoder = importlib.import_module("seqto.onnxruntime.quantization.calibrate").CalibrationCacheEncoder
        text = json.dumps(made[ours], cls=encoder)
        self.assertEqual(json.loads(text)["data"].keys(), set(made[theirs].keys()))
        again = ours.TensorsData.from_dict(json.loads(text))
        self.assertEqual([again[t].range_value for t in again], [made[ours][t].range_value for t in made[ours]])

    def test_samples_wait_in_a_file(self):
        batches = [{"x": np.concatenate([b["x"]] * k)} for k, b in enumerate(self.batches(), 1)]
        model = onnx.load(models.DIGITS)
        for value in [*model.graph.input, *model.graph.output]:
            value.type.tensor_type.shape.dim[0].dim_param = "N"
        del model.graph.value_info[:]
        onnx.save(model, self.dir / "open.onnx")
        found = []
        for kept in (0, 10_000, 1 << 30):
            calibrator = ours.create_calibrator(str(self.dir / "open.onnx"), calibrate_method=ours.CalibrationMethod.Entropy)
            calibrator._batches = seqto._core.Batches(kept)
            calibrator.collect_data(Samples(batches))
            data = calibrator.compute_data()
            found.append({t: data[t].range_value for t in data})
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        os.environ["TMPDIR"] = "/proc"  # takes no file
        self.addCleanup(os.environ.pop, "TMPDIR")
        with self.assertRaisesRegex(seqto.Error, "set TMPDIR"):
            seqto._core.Batches(0).append(seqto.load(models.DIGITS), self.batches()[0])

    def test_pre_process(self):
        ours.quant_pre_process(str(models.DIGITS), self.dir / "prepared.onnx", skip_symbolic_shape=True)
        prepared = onnx.load(self.dir / "prepared.onnx")
        self.assertIn(("onnx.quant.pre_process", "onnxruntime.quant"), [(p.key, p.value) for p in prepared.metadata_props])

    @unittest.skipUnless(CASES.is_dir(), f"no cases in {CASES}")
    def test_a_real_network(self):
        for name in [n for n in cases.names(CASES) if n in ("mobilenetv2", "resnet20", "tiny_vit")][:1] or cases.names(CASES)[:1]:
            model, inputs, _ = cases.load(CASES, name)
            path = self.dir / "case.onnx"
            onnx.save(model, path)
            self.both(str(path), inputs)


if __name__ == "__main__":
    unit.main()
