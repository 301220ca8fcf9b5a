"""The same files on 1, 2 and 8 threads, and again. What differs is named: the file, its tensor or its key, the options."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.studies import lines, without_times  # noqa: E402

THREADS = (1, 2, 8)
STATIC = ["--mode", "static", "--no-improve"]
RANGES = [[*STATIC, *more] for more in (
    [], ["--calibration-method", "entropy"], ["--calibration-method", "percentile"], ["--calibration-method", "mse"],
    ["--calibration-method", "mse", "--fast-ranges"])]
OTHER_RANGES = [[*STATIC, *more] for more in (
    ["--calibration-method", "moving_average"], ["--calibration-method", "distribution"],
    ["--calibration-method", "entropy", "--bins", 128, "--quantized-bins", 128],
    ["--calibration-method", "percentile", "--percentile", 99, "--symmetric-ranges", "false"],
    ["--calibration-method", "distribution", "--fast-ranges"], ["--calibration-method", "entropy", "--fast-ranges"],
    ["--fast-ranges"], ["--activation-type", "uint16", "--per-channel"], ["--format", "qoperator"])]
WEIGHTS = [["--mode", "dynamic"], ["--mode", "weights", "--weight-bits", 4, "--scale-search"]]
OTHER_WEIGHTS = [["--mode", "dynamic", "--per-token"], ["--mode", "weights"], ["--mode", "weights", "--weight-bits", 4],
                 ["--mode", "float16"], ["--mode", "weights", "--weight-clipping", "mse"]]
IMPROVED = [["--mode", "static", "--bias-correction", "full"], ["--mode", "static", "--improve"],
            ["--mode", "static", "--refine-ranges"]]
OTHER_IMPROVED = [["--mode", "static", flag] for flag in ("--center", "--equalize")] + [
    ["--mode", "static", "--bias-correction", "fast"], ["--mode", "static", "--rounding", "learned"],
    ["--mode", "static", "--smooth-quant", "--smooth-alpha", "auto"]]
SHORT = RANGES + WEIGHTS + IMPROVED[:2]
LONG = RANGES + WEIGHTS + IMPROVED + OTHER_RANGES + OTHER_WEIGHTS + OTHER_IMPROVED


class Job:
    def __init__(self, model, data, *more):
        self.model, self.words = model, ["--data", data, "--samples", 4, *more]


def weight(*shape, inputs, seed):
    return models.weight(*shape, seed=seed) / np.float32(np.sqrt(inputs))


def convolutions(folder):
    """Long sums for few places, which the runtime cuts where the number of threads says; in two dimensions, one, transposed."""
    nodes = [models.node("Conv", ["x", "w1"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]), models.node("Relu", ["a"], ["b"]),
             models.node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]), models.node("Relu", ["c"], ["d"]),
             models.node("Reshape", ["d", "line"], ["e"]),
             models.node("Conv", ["e", "w3"], ["f"], pads=[4, 4]), models.node("Relu", ["f"], ["g"]),
             models.node("ConvTranspose", ["g", "w4"], ["h"], strides=[2]),
             models.node("ReduceMean", ["h"], ["y"], axes=[2], keepdims=0)]
    weights = [("w1", weight(64, 3, 3, 3, inputs=27, seed=1)), ("w2", weight(64, 64, 3, 3, inputs=576, seed=2)),
               ("line", np.array([1, 64, 64], np.int64)), ("w3", weight(64, 64, 9, inputs=576, seed=3)),
               ("w4", weight(64, 16, 2, inputs=64, seed=4))]
    models.save(folder / "convolutions.onnx", nodes, [("x", [1, 3, 16, 16])], [("y", [1, 16])], weights)
    models.arrays(folder / "convolutions.npz", 12, (3, 16, 16))
    return Job(folder / "convolutions.onnx", folder / "convolutions.npz")


def products(folder):
    """Products of weights and of activations, with long sums for few places; a normalization, a softmax, a recurrence."""
    shapes = {"q": (96, 512), "k": (96, 512), "v": (96, 96), "up": (96, 384), "down": (384, 96), "w": (1, 128, 96),
              "r": (1, 128, 32)}
    weights = [(name, weight(*shape, inputs=shape[-2], seed=seed)) for seed, (name, shape) in enumerate(shapes.items())]
    weights += [("scale", np.ones(96, np.float32)), ("bias", np.zeros(96, np.float32)),
                *((name, np.array([value], np.int64)) for name, value in (("from", 0), ("to", 8), ("axis", 1)))]
    nodes = [models.node("Slice", ["x", "from", "to", "axis"], ["first"]),
             models.node("MatMul", ["first", "q"], ["queries"]), models.node("MatMul", ["x", "k"], ["keys"]),
             models.node("MatMul", ["x", "v"], ["values"]), models.node("Transpose", ["keys"], ["turned"], perm=[0, 2, 1]),
             models.node("MatMul", ["queries", "turned"], ["scores"]), models.node("Softmax", ["scores"], ["shares"]),
             models.node("MatMul", ["shares", "values"], ["mixed"]),
             models.node("LayerNormalization", ["mixed", "scale", "bias"], ["normal"]),
             models.node("MatMul", ["normal", "up"], ["wide"]), models.node("Relu", ["wide"], ["active"]),
             models.node("MatMul", ["active", "down"], ["narrow"]),
             models.node("Transpose", ["narrow"], ["steps"], perm=[1, 0, 2]),
             models.node("LSTM", ["steps", "w", "r"], ["all", "y"], hidden_size=32)]
    models.save(folder / "products.onnx", nodes, [("x", [1, 64, 96])], [("y", [1, 1, 32])], weights)
    models.arrays(folder / "products.npz", 12, (64, 96))
    return Job(folder / "products.onnx", folder / "products.npz")


def cases():
    """The small ones of SEQTO_CASES_DIR, for determinism_demand.py."""
    root = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", ""))
    for name in ("dscnn_kws", "mobilenet_v1_025", "resnet20", "resnet8", "tiny_encoder", "vit_pgd"):
        if not (root / name / "case.json").is_file():
            continue
        case = json.loads((root / name / "case.json").read_text())
        words = case.get("preprocess")
        folder = root / name
        more = ["--preprocess", folder / words if (folder / words).exists() else words] if words else []
        yield name, Job(folder / case["model"], folder / case["data"], *more)


def first_difference(one, two):
    """Where two ONNX files part, in words."""
    a, b = (onnx.load_from_string(data).graph for data in (one, two))
    tensors = [{t.name: numpy_helper.to_array(t) for t in graph.initializer} for graph in (a, b)]
    for name, value in tensors[0].items():
        if name not in tensors[1]:
            return f"tensor '{name}' is in one of them"
        other = tensors[1][name]
        if value.tobytes() != other.tobytes():
            at = np.flatnonzero(value.ravel() != other.ravel())
            there = f"{value.ravel()[at[0]]} and {other.ravel()[at[0]]}" if len(at) else "another form"
            return f"tensor '{name}': {there}, {len(at)} of {value.size} values"
    for first, second in zip(a.node, b.node):
        if first != second:
            return f"node '{first.name}'"
    return "the order of tensors or nodes, or what is written beside them"


def first_key(one, two, path=""):
    """Where two values of JSON part."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys()):
            if one.get(key) != two.get(key):
                return first_key(one.get(key), two.get(key), f"{path}/{key}")
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for i, pair in enumerate(zip(one, two)):
            if pair[0] != pair[1]:
                return first_key(*pair, f"{path}/{i}")
    return f"{path}: {one!r:.80} and {two!r:.80}"


class Determinism(unittest.TestCase):
    OPTIONS = SHORT

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-determinism-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def seqto(self, *words):
        done = models.seqto(*words)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")

    def quantized(self, job, options, threads):
        out = self.dir / "out.onnx"
        self.seqto("quantize", job.model, *job.words, *options, "--threads", threads, "-o", out, "-q")
        return out.read_bytes()

    def check(self, name, job):
        for options in self.OPTIONS:
            words = " ".join(map(str, options))
            with self.subTest(model=name, options=words):
                expected = self.quantized(job, options, 1)
                for threads in THREADS:
                    got = self.quantized(job, options, threads)
                    if got != expected:
                        self.fail(f"{name}, {words}: on {threads} threads {first_difference(expected, got)}")

    def test_convolutions(self):
        self.check("convolutions", convolutions(self.dir))

    def test_products(self):
        self.check("products", products(self.dir))

    def test_ranges(self):
        job = convolutions(self.dir)
        for method in ("minmax", "moving_average", "percentile"):
            written = []
            for threads in THREADS:
                out = self.dir / "ranges.json"
                self.seqto("calibrate", job.model, *job.words, "--calibration-method", method, "--threads", threads,
                           "-o", out, "-q")
                written.append(json.loads(out.read_text()))
                if written[0] != written[-1]:
                    self.fail(f"{method}, {threads} threads: ranges{first_key(written[0], written[-1])}")

    def tuned(self, name, threads, *more, stop_after=0):
        out = self.dir / name
        words = [models.BINARY, "tune", models.DIGITS, "--data", models.DIGITS_DATA, "--objectives", "kl", "size",
                 "--evaluation-samples", 20, "--max-evaluations", 8, "--threads", threads, "-o", out, "-q", *more]
        if stop_after:
            process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            study = out / "study.jsonl"
            while process.poll() is None and not (study.exists() and study.read_bytes().count(b"\n") >= stop_after):
                pass
            process.kill()
            process.wait()
        self.seqto(*words[1:])
        return out

    def check_same_study(self, what, one, two):
        first, second = ([without_times(json.loads(line)) for line in lines(out)] for out in (one, two))
        for study in (first, second):
            study[0]["header"].pop("environment_json")  # the threads, in words
        for number, pair in enumerate(zip(first, second)):
            if pair[0] != pair[1]:
                self.fail(f"{what}: line {number + 1} of study.jsonl, {first_key(*pair)}")
        self.assertEqual(len(first), len(second), what)
        for folder in ("models", "plans"):
            files = [{p.name: p.read_bytes() for p in (out / folder).iterdir()} for out in (one, two)]
            self.assertEqual(files[0].keys(), files[1].keys(), what)
            for name, data in files[0].items():
                if data != files[1][name]:
                    where = first_difference(data, files[1][name]) if name.endswith(".onnx") else ""
                    self.fail(f"{what}: {folder}/{name} {where}")

    def test_tune(self):
        whole = self.tuned("whole", 1)
        self.check_same_study("tune on 8 threads", whole, self.tuned("more", 8))
        self.check_same_study("tune on 2 threads that was killed", whole, self.tuned("killed", 2, stop_after=6))


if __name__ == "__main__":
    unittest.main()
