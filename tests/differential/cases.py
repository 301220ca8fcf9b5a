"""The real models below SEQTO_CASES_DIR: each with four inputs and the ranges of onnxruntime's own calibrator."""
import csv
import functools
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationMethod, create_calibrator
from PIL import Image

from oracle import DEFAULT_OPS, session

sys.path.append(str(Path(__file__).parents[1]))
from testing.samples import Samples  # noqa: E402

SAMPLES = 4


def names(root):
    return sorted(p.parent.name for p in Path(root).glob("*/case.json"))


def image(path, p):
    picture = Image.open(path).convert("RGB")
    resize, crop = p.get("resize"), p.get("crop")
    if resize:
        size = (resize.get("width"), resize.get("height"))
        if "short_side" in resize:
            factor = resize["short_side"] / min(picture.size)
            size = tuple(max(resize["short_side"], round(d * factor)) for d in picture.size)
        if size != picture.size:
            picture = picture.resize(size, getattr(Image, resize.get("filter", "bilinear").upper()))
    if crop:
        left, top = ((d - crop) // 2 for d in picture.size)
        picture = picture.crop((left, top, left + crop, top + crop))
    a = np.asarray(picture, np.float32)
    if p["channel_order"] == "bgr":
        a = a[:, :, ::-1]
    a = (a * np.float32(p["scale"]) - np.array(p["mean"], np.float32)) / np.array(p["std"], np.float32)
    return np.ascontiguousarray((a.transpose(2, 0, 1) if p["layout"] == "nchw" else a)[None], np.float32)


def files(folder, case, count):
    labels = folder / case["labels"]
    if labels.is_dir():
        return sorted(p.name for p in (folder / case["data"]).iterdir())[:count]
    with open(labels) as f:
        return [row["file"] for row in csv.DictReader(f)][:count]


def inputs(folder, case, model, count=SAMPLES):
    """Real samples where the case has some, else random ones of the right types and shapes."""
    initializers = {i.name for i in model.graph.initializer}
    graph_inputs = [i for i in model.graph.input if i.name not in initializers]
    first = graph_inputs[0].name
    if not case["data"]:
        rng = np.random.default_rng(0)
        return [{i.name: random_value(rng, i) for i in graph_inputs} for _ in range(count)]
    if case["data"].endswith(".npz"):
        arrays = dict(np.load(folder / case["data"]))
        types = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in graph_inputs}
        array_of = {name: arrays.get(name, arrays.get("x")) for name in types}  # "x" of a model with one input
        return [{name: array_of[name][k][None].astype(dtype) for name, dtype in types.items()} for k in range(count)]
    p = json.loads((folder / case["preprocess"]).read_text())
    return [{first: image(folder / case["data"] / f, p)} for f in files(folder, case, count)]


def random_value(rng, value):
    tensor = value.type.tensor_type
    shape = [d.dim_value or (512 if i and i == len(tensor.shape.dim) - 1 else 1) for i, d in enumerate(tensor.shape.dim)]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype == np.int64:
        return np.full(shape, 16000, np.int64)  # the only integer input among them is a sampling rate
    return (rng.normal(0, 0.3, shape)).astype(dtype)


@functools.lru_cache(maxsize=2)
def load(root, name):
    """(model, inputs, ranges)"""
    folder = Path(root) / name
    case = json.loads((folder / "case.json").read_text())
    model = onnx.load(folder / case["model"])
    samples = inputs(folder, case, model)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "model.onnx"
        onnx.save(model, source)
        calibrator = create_calibrator(source, DEFAULT_OPS, str(Path(scratch) / "augmented.onnx"), CalibrationMethod.MinMax)
        calibrator.collect_data(Samples(samples))
        data = calibrator.compute_data()
    ranges = {t: tuple(np.float32(np.asarray(v).item()) for v in data[t].range_value) for t in data.keys()}
    session(model, optimize=True).run(None, samples[0])
    return model, samples, ranges
