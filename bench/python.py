"""The Python package beside onnxruntime.quantization, in one run: the same script through either import line. Seconds are
of the call, memory is the peak of the process; and what an import and a call through Python cost."""
import contextlib
import importlib
import io
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from _ratios import Ratios

PACKAGE = os.path.join(os.environ["SEQTO_BUILD_DIR"], "python")
PEAK = os.path.join(os.environ["SEQTO_SOURCE_DIR"], "tests", "testing", "peak.py")
ENVIRONMENT = dict(os.environ, PYTHONPATH=PACKAGE, SEQTO_WORKER=os.environ["SEQTO_BINARY"])
SAMPLES = 100
MODULES = {"onnxruntime": "onnxruntime.quantization", "seqto": "seqto.onnxruntime.quantization"}


def job(module, model, method, cache, output):
    """In a process of its own: the seconds of one call."""
    logging.disable(logging.CRITICAL)
    q = importlib.import_module(module)
    rng, left = np.random.default_rng(0), [SAMPLES]

    class Reader(q.CalibrationDataReader):
        def get_next(self):
            left[0] -= 1
            return {"input": rng.normal(size=(1, 3, 224, 224)).astype(np.float32)} if left[0] >= 0 else None

    cached = {"calibration_cache_path": cache} if cache else {}
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        q.quantize_static(model, output, Reader(), calibrate_method=q.CalibrationMethod[method], **cached)
    print(time.perf_counter() - start)


def measured(*words):
    done = subprocess.run([sys.executable, "-S", PEAK, sys.executable, "-B", __file__, *words], env=ENVIRONMENT,
                          stdout=subprocess.PIPE, text=True, check=True)
    seconds, peak = done.stdout.split()[-2:]
    return float(seconds), int(peak)


def imports():
    """Milliseconds of `import seqto`, and of a call that does next to nothing."""
    script = ("import time; t = time.perf_counter(); import seqto; a = time.perf_counter() - t; p = seqto.Plan({'a': 'int8'}); "
              "t = time.perf_counter(); [p.hash for _ in range(1000)]; print(1e3 * a, time.perf_counter() - t)")
    runs = [subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True)
            for _ in range(11)]
    return [statistics.median(column) for column in zip(*[map(float, run.stdout.split()) for run in runs])]


def main():
    ratios = Ratios("python", ["mobilenetv2"])
    load, call = imports()
    print(f"import seqto: {load:.0f} ms (goal 100); a call: {call:.4f} ms (goal 1)")
    case = os.path.join(os.environ["SEQTO_CASES_DIR"], "mobilenetv2")
    if not os.path.isdir(case):
        print("quantize_static: skipped, the cases are not there")
        return ratios.finish()
    model = os.path.join(case, json.load(open(os.path.join(case, "case.json")))["model"])
    with tempfile.TemporaryDirectory() as work:
        cache, output = os.path.join(work, "ranges.json"), os.path.join(work, "q.onnx")
        measured(MODULES["seqto"], model, "MinMax", cache, output)
        quantized = {name: min(measured(module, model, "MinMax", cache, output)[0] for _ in range(3))
                     for name, module in MODULES.items()}
        whole = {name: measured(module, model, "Entropy", "", output) for name, module in MODULES.items()}
    faster = quantized["onnxruntime"] / quantized["seqto"]
    print(f"quantize_static, ranges given: seqto {quantized['seqto']:.3f} s, onnxruntime {quantized['onnxruntime']:.3f} s: "
          f"{faster:.0f} x faster (goal 5)")
    (ours, our_peak), (theirs, their_peak) = whole["seqto"], whole["onnxruntime"]
    print(f"quantize_static, entropy over {SAMPLES} samples: seqto {ours:.1f} s, {our_peak / 1e6:.0f} MB; onnxruntime "
          f"{theirs:.1f} s, {their_peak / 1e6:.0f} MB: {theirs / ours:.1f} x faster, {our_peak / their_peak:.3f} of the memory (goal 0.1)")
    ratios.add("quantize_static, ranges given: onnxruntime / seqto", faster, "higher")
    ratios.add("quantize_static, entropy: onnxruntime / seqto", theirs / ours, "higher")
    ratios.add("quantize_static, entropy: memory of seqto / onnxruntime", our_peak / their_peak, "lower")
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(job(*sys.argv[1:]) if len(sys.argv) == 6 else main())
