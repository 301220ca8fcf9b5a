"""What every form of testing/exporters.py goes through: prepare, quantize in all modes, a short tune."""

import json
import pathlib
import shutil
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

from testing import exporters, models

SAMPLES = 60
MODES = {"static": [], "per channel": ["--per-channel"], "dynamic": ["--mode", "dynamic"], "weights": ["--mode", "weights"]}


def outputs(path, data):
    """All outputs that are numbers, those of maps too, of the first samples; each flattened."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rows = []
    for i in range(20):
        for found in session.run(None, {name: array[i:i + 1] for name, array in data.items()}):
            if isinstance(found, list): rows.append(np.float32([v for entry in found for v in entry.values()]))
            elif found.dtype == np.float32: rows.append(found.ravel())
    return np.concatenate(rows)


def code_tensors(path):
    """Weights in codes: of two dimensions and more, or in the blob of an operator."""
    return [t.name for t in onnx.load(str(path)).graph.initializer if t.data_type in (TensorProto.INT8, TensorProto.UINT8) and len(t.dims) > 1]


class ExporterChecks(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-exporters-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.model, self.arrays, self.out = self.dir / "model.onnx", self.dir / "x.npz", self.dir / "out.onnx"

    def given(self, name):
        """The form as a file, and inputs for it."""
        model, inputs = exporters.build(name)
        onnx.save(model, self.model)
        rng = np.random.default_rng(1)
        data = {n: rng.normal(size=(SAMPLES, *shape)).astype(np.float32) for n, shape in inputs.items()}
        np.savez(self.arrays, **data)
        return data

    def seqto(self, *words, code=0):
        done = models.seqto(*words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def assert_near(self, path, data, bound):
        expected, found = outputs(self.model, data), outputs(path, data)
        self.assertLess(np.linalg.norm(found - expected) / np.linalg.norm(expected), bound)

    def check_prepare(self, names):
        for name in names:
            with self.subTest(name):
                data = self.given(name)
                for flags in ([], ["--skip-optimization"], ["--opset", "17"]):
                    self.seqto("prepare", self.model, "-o", self.out, *flags)
                    onnx.checker.check_model(str(self.out), full_check=True)
                    self.assert_near(self.out, data, 1e-4)

    def check_quantize(self, layers):
        """`layers`: how many weights become codes in each mode, at the least."""
        for name, counts in layers.items():
            data = self.given(name)
            for (mode, flags), count in zip(MODES.items(), counts, strict=True):
                with self.subTest(name, mode=mode):
                    static = ["--data", self.arrays, "--samples", "30"] if "--mode" not in flags else []
                    self.seqto("quantize", self.model, *static, *flags, "-o", self.out)
                    onnx.checker.check_model(str(self.out))
                    self.assertGreaterEqual(len(code_tensors(self.out)), count)
                    self.assert_near(self.out, data, 0.1)

    def tune(self, code=0):
        return self.seqto("-q", "tune", self.model, "--data", self.arrays, "--objectives", "mse,size", "--calibration-samples", "20",
                          "--max-evaluations", "4", "-o", self.dir / "study", code=code)

    def check_tune(self, names):
        for name in names:
            with self.subTest(name):
                data = self.given(name)
                shutil.rmtree(self.dir / "study", ignore_errors=True)
                self.tune()
                summary = json.loads((self.dir / "study" / "summary.json").read_text())
                point = next(p for p in summary["front"] if p["id"] == summary["selected"])
                self.assert_near(self.dir / "study" / point["file"], data, 0.1)
