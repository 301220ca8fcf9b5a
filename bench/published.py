"""The published procedure on mobilenetv2: seqto tune against the script on onnxruntime.quantization, one core and one
thread each, and against the pure inference time of the same candidates. All three in one run; ratios are printed.

usage: ./dev bench published        (SEQTO_BENCH_CASE=resnet20 for a quick one)
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from _cases import baseline, case_on_one_core, make_inputs
from _ratios import Ratios

CALIBRATION, EVALUATION = 50, 150


def timed(command, **kwargs):
    start = time.perf_counter()
    subprocess.run(command, check=True, **kwargs)
    return time.perf_counter() - start


def inference_seconds(models, inputs):
    """Only run() is on the clock: inputs are made, sessions loaded and warmed up before."""
    import onnxruntime as ort

    total = 0.0
    for path in models:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        session.run(None, {name: inputs[0][None]})
        for x in inputs:
            start = time.perf_counter()
            session.run(None, {name: x[None]})
            total += time.perf_counter() - start
    return total


def main():
    case, scripts = case_on_one_core("published")
    if not case:
        return 0
    binary = os.environ["SEQTO_BINARY"]
    info = json.load(open(os.path.join(case, "case.json")))
    at = lambda name: os.path.normpath(os.path.join(case, info[name]))
    with tempfile.TemporaryDirectory() as work:
        inputs_file = os.path.join(work, "inputs.npz")
        make_inputs(case, inputs_file, CALIBRATION + EVALUATION)
        script = timed([*baseline(scripts), at("model"), inputs_file, "--calib", str(CALIBRATION), "--eval", str(EVALUATION),
                        "-o", os.path.join(work, "script.json")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        out = os.path.join(work, "out")
        ours = timed([binary, "-q", "tune", at("model"), "--data", at("data"), "--labels", at("labels"),
                      "--preprocess", at("preprocess"), "--strategy", "incremental", "--schemes", "int8,float32",
                      "--calibration-samples", str(CALIBRATION), "--evaluation-samples", str(EVALUATION), "-o", out],
                     stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in open(os.path.join(out, "study.jsonl"))]
        trials = [line["trial"] for line in lines if "trial" in line]
        notes = {line["note"]: line["value"] for line in lines if "note" in line}
        cache = {"data": {t: {"lowest": r[0], "highest": r[1]} for t, r in notes["ranges"].items()}}
        json.dump(cache, open(os.path.join(work, "ranges.json"), "w"))
        models = []
        for trial in trials:
            if trial["id"] == "float":
                models.append(at("model"))
                continue
            plan, model = os.path.join(work, "plan.json"), os.path.join(work, trial["id"] + ".onnx")
            json.dump({"schemes": trial["plan"]}, open(plan, "w"))
            subprocess.run([binary, "-q", "quantize", at("model"), "--ranges", os.path.join(work, "ranges.json"), "--plan",
                            plan, "-o", model], check=True, stdout=subprocess.DEVNULL)
            models.append(model)
        x = np.load(inputs_file)["x"][CALIBRATION:]
        floor = inference_seconds(models, x)
        script_trials = len(json.load(open(os.path.join(work, "script.json")))["trials"])
    print(f"published: {os.path.basename(case)}, one core: script {script:.1f} s ({script_trials} trials), seqto {ours:.1f} s "
          f"({len(trials) - 1} trials), pure inference of the same candidates {floor:.1f} s")
    print(f"published: script / seqto = {script / ours:.2f} (goal >= 4), seqto / inference = {ours / floor:.2f} (goal <= 1.3)")
    ratios = Ratios("published", [os.path.basename(case)])
    ratios.add("script / seqto", script / ours, "higher")
    ratios.add("seqto / inference", ours / floor, "lower")
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(main())
