"""Candidates a minute: a search of `seqto tune` against a loop over onnxruntime's quantizer that calibrates once and keeps
its ranges. Both quantize parts of the layers to static int8 (the loop random halves) and compare their outputs on
the same number of samples with the float model's; one core, one thread, one run. What comes before the first candidate is not counted.
Processor seconds, workers included: on one core they are the time, whatever else the machine does.

usage: ./dev bench rate        (SEQTO_BENCH_CASE=resnet20 for another case)
"""
import copy
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

from _cases import case_on_one_core, make_inputs
from _ratios import Ratios

CALIBRATION, SEARCH, EVALUATION = 50, 64, 16
SAMPLES = SEARCH // 2  # half to search on, half to confirm on
FEW, MANY, SCRIPTED = 10, 110, 10


def kl(wanted, found):
    logs = [x - np.logaddexp.reduce(x, axis=1, keepdims=True) for x in (wanted, found)]
    return float((np.exp(logs[0]) * (logs[0] - logs[1])).sum(axis=1).mean())


def script_seconds(path, inputs, work):
    """For each candidate."""
    import onnxruntime as ort
    from onnxruntime.quantization import CalibrationDataReader, QuantType
    from onnxruntime.quantization.calibrate import create_calibrator
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.quant_utils import load_model_with_shape_infer
    from onnxruntime.quantization.registry import QDQRegistry

    model = load_model_with_shape_infer(pathlib.Path(path))
    name = [i.name for i in model.graph.input if i.name not in {w.name for w in model.graph.initializer}][0]

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.rows = iter([{name: x[None]} for x in inputs[:CALIBRATION]])

        def get_next(self):
            return next(self.rows, None)

    ops = list(QDQRegistry)
    calibrator = create_calibrator(pathlib.Path(path), ops, os.path.join(work, "augmented.onnx"))
    calibrator.collect_data(Reader())
    ranges = calibrator.compute_data()
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3

    def outputs(proto):
        session = ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
        rows = [session.run(None, {name: x[None]})[0].reshape(1, -1) for x in inputs[CALIBRATION:CALIBRATION + SAMPLES]]
        return np.concatenate(rows).astype(np.float64)

    wanted = outputs(model.SerializeToString())
    layers = [n.name for n in model.graph.node if n.op_type in ("Conv", "Gemm", "MatMul")]
    draw = random.Random(0)
    start = time.process_time()
    for _ in range(SCRIPTED):
        quantizer = QDQQuantizer(copy.deepcopy(model), True, False, QuantType.QInt8, QuantType.QUInt8, ranges, [],
                                 draw.sample(layers, len(layers) // 2), ops, {})
        quantizer.quantize_model()
        kl(wanted, outputs(quantizer.model.model.SerializeToString()))
    return (time.process_time() - start) / SCRIPTED


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    case, _ = case_on_one_core("rate")
    if not case:
        return 0
    ratios = Ratios("rate", [os.path.basename(case)])
    info = json.load(open(os.path.join(case, "case.json")))
    model = os.path.normpath(os.path.join(case, info["model"]))
    with tempfile.TemporaryDirectory() as work:
        inputs = os.path.join(work, "inputs.npz")
        count = CALIBRATION + SEARCH + EVALUATION
        rows = make_inputs(case, inputs, count)
        data = os.path.join(work, "data.npz")
        np.savez(data, input=rows)

        def tune(strategy, evaluations):
            out = os.path.join(work, f"{strategy}_{evaluations}")
            start = children_seconds()
            subprocess.run([os.environ["SEQTO_BINARY"], "-q", "tune", model, "--data", data, "--strategy", strategy, "--seed", "1",
                            "--schemes", "int8,float32", "--objectives", "kl,size", "--search-samples", str(SEARCH),
                            "--search-evaluations", str(evaluations), "--max-front", "1", "--jobs", "1", "-o", out],
                           check=True, stdout=subprocess.DEVNULL)
            parts = [json.loads(line).get("trial", {}).get("part") for line in open(os.path.join(out, "study.jsonl"))]
            return children_seconds() - start, sum(p == "search" for p in parts)

        script = script_seconds(model, rows, work)
        print(f"{os.path.basename(case)}: a loop over onnxruntime's quantizer: {60 / script:.0f} candidates a minute")
        for strategy in ("random", "chain"):
            few, many = tune(strategy, FEW), tune(strategy, MANY)
            ours = (many[0] - few[0]) / (many[1] - few[1])
            print(f"  --strategy {strategy}: {60 / ours:.0f}, {script / ours:.1f} x")
            ratios.add(f"{strategy}: candidates a minute / script's", script / ours, "higher")
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(main())
