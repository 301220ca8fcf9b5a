"""A text encoder in int8: does a text's embedding depend on the batch, and what does it cost that it does not?

Forms of the case tiny_encoder up to its last normalization, made by `seqto`: float; dynamic int8 with one scale for the batch,
as onnxruntime writes it ("dynamic") and with sums before normalizations ("own"); with a scale for each token; static int8;
products for Q, K and V with a scale for each token and the others static ("mixed"); weights alone. Of the pages that
calibration did not see: texts whose embedding (mean of the counted positions) has other bits in batches of 64 and filled up to
128 positions; its cosine with float's; the share of each text's ten nearest that are float's too. Times of one thread, all forms
in turn, over those of onnxruntime's dynamic int8.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import utils

from _cases import case_on_one_core
from _ratios import Ratios

NAMES = ("input_ids", "attention_mask", "token_type_ids")
CALIBRATION, TEXTS, BATCH, FILLED, NEAREST = 114, 256, 64, 128, 10
DYNAMIC = ["--mode", "dynamic", "--per-channel"]
FORMS = {"float": None, "dynamic": [*DYNAMIC, "--compat", "onnxruntime"], "own": DYNAMIC, "per token": [*DYNAMIC, "--per-token"],
         "static": ["--data"], "mixed": ["--plan", "--data"], "weights": ["--mode", "weights"]}
# What `quantize` takes by itself on x86; with a plan it has to be said.
FAST = ["--activation-type", "uint8", "--per-channel", "--exclude-output-op-types", "MatMul,Gemm"]


def encoder(case, folder):
    path = os.path.join(case, "model.onnx")
    last = [n for n in onnx.load(path).graph.node if n.op_type == "LayerNormalization"][-1].output[0]
    features = os.path.join(folder, "float.onnx")
    utils.extract_model(path, features, list(NAMES), [last])
    return features


def mixed_plan(features, folder):
    """Of each block's six products with a constant the first three, for Q, K and V, have a scale for each token."""
    graph = onnx.load(features, load_external_data=False).graph
    constants = {i.name for i in graph.initializer}
    products = [n.name for n in graph.node if n.op_type == "MatMul" and n.input[1] in constants]
    assert len(products) % 6 == 0, products
    rows = {"scheme": "int8_dynamic", "per_token": True}
    schemes = {n.name: "int8_weights" for n in graph.node if n.op_type == "Gather" and n.input[0] in constants}
    schemes |= {n: rows if i % 6 < 3 else "int8" for i, n in enumerate(products)}
    path = os.path.join(folder, "mixed.json")
    with open(path, "w") as file:
        json.dump({"schema_version": 1, "schemes": schemes}, file)
    return path


class Form:
    def __init__(self, path, texts):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.texts, self.lengths = texts, texts["attention_mask"].sum(1)
        self.bytes = os.path.getsize(path)

    def run(self, rows, length):
        width = min(length, self.texts["input_ids"].shape[1])
        feed = {name: np.zeros((len(rows), length), np.int64) for name in NAMES}
        for name in NAMES:
            feed[name][:, :width] = self.texts[name][rows, :width]
        return self.session.run(None, feed)[0]

    def embeddings(self):
        self.alone = [self.run([i], n)[0] for i, n in enumerate(self.lengths)]
        vectors = np.stack([features.mean(0) for features in self.alone])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def changed(self, batch, filled):
        count = 0
        for begin in range(0, len(self.lengths), batch):
            rows = list(range(begin, min(begin + batch, len(self.lengths))))
            found = self.run(rows, max(filled, int(self.lengths[rows].max())))
            count += sum(not np.array_equal(found[k, :self.lengths[i]], self.alone[i]) for k, i in enumerate(rows))
        return count

    def seconds(self, batch):
        start = time.perf_counter()
        self.run(list(range(batch)), FILLED)
        return time.perf_counter() - start


def neighbours(vectors):
    near = vectors @ vectors.T
    np.fill_diagonal(near, -2)
    return [set(row) for row in np.argsort(-near, 1)[:, :NEAREST]]


def main():
    os.environ.setdefault("SEQTO_BENCH_CASE", "tiny_encoder")
    case, _ = case_on_one_core("invariance")
    if not case:
        return 0
    ratios = Ratios("invariance", ["tiny_encoder"])
    with tempfile.TemporaryDirectory() as folder:
        data = np.load(os.path.join(case, "inputs.npz"))
        calibration = os.path.join(folder, "calibration.npz")
        np.savez(calibration, **{name: data[name][:CALIBRATION] for name in NAMES})
        texts = {name: data[name][CALIBRATION:CALIBRATION + TEXTS] for name in NAMES}
        features, forms = encoder(case, folder), {}
        for name, words in FORMS.items():
            path = features if words is None else os.path.join(folder, name.replace(" ", "_") + ".onnx")
            if words is not None:
                if "--plan" in words:
                    words = ["--plan", mixed_plan(features, folder), *FAST, "--data"]
                words = [*words, calibration, "--quick"] if words[-1] == "--data" else words
                subprocess.run([os.environ["SEQTO_BINARY"], "-q", "quantize", features, "-o", path, *words], check=True,
                               stdout=subprocess.DEVNULL)
            forms[name] = Form(path, texts)
        vectors = {name: form.embeddings() for name, form in forms.items()}
        times = {name: {1: [], 16: []} for name in forms}
        for _ in range(60):
            for name, form in forms.items():
                for batch, taken in times[name].items():
                    taken.append(form.seconds(batch))
        print(f"{'':10} {'of float':>9} {'batch':>6} {'filled':>6} {'least cosine':>12} {'overlap':>8} {'time 1':>7} {'time 16':>8}")
        wanted = neighbours(vectors["float"])
        for name, form in forms.items():
            cosine = (vectors[name] * vectors["float"]).sum(1).min()
            overlap = np.mean([len(a & b) / NEAREST for a, b in zip(wanted, neighbours(vectors[name]))])
            of_dynamic = {batch: statistics.median(taken) / statistics.median(times["dynamic"][batch])
                          for batch, taken in times[name].items()}
            batched, filled = form.changed(BATCH, 0), form.changed(1, FILLED)
            print(f"{name:10} {form.bytes / forms['float'].bytes:9.3f} {batched:6} {filled:6} {cosine:12.6f} {overlap:8.4f} "
                  f"{of_dynamic[1]:7.2f} {of_dynamic[16]:8.2f}")
            if name in ("per token", "mixed"):
                ratios.add(f"{name}: texts changed by batch or padding", (batched + filled) / TEXTS, "lower")
                ratios.add(f"{name}: time over dynamic, batch 16", of_dynamic[16], "lower")
                ratios.add(f"{name}: neighbours kept", overlap, "higher")
                ratios.add(f"{name}: least cosine", cosine, "higher")
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(main())
