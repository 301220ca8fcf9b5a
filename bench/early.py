"""A twentieth of the time: the published procedure as a script on onnxruntime.quantization runs to its end, then `seqto tune
--max-time` gets a twentieth of what it took, on the same inputs. The fronts' shares of the box of loss and size (scaled to
each side's own float and fully quantized model) are printed side by side; one core each.

usage: ./dev bench early        (SEQTO_BENCH_CASE=resnet20 for another case)
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from _cases import case_on_one_core, make_inputs
from published import CALIBRATION, EVALUATION
from search import figures, hypervolume


def main():
    case, scripts = case_on_one_core("early")
    if not case:
        return 0
    info = json.load(open(os.path.join(case, "case.json")))
    model = os.path.normpath(os.path.join(case, info["model"]))
    with tempfile.TemporaryDirectory() as work:
        inputs, found, data, out = (os.path.join(work, name) for name in ("inputs.npz", "script.json", "data.npz", "out"))
        np.savez(data, input=make_inputs(case, inputs, CALIBRATION + EVALUATION))
        subprocess.run([sys.executable, os.path.join(scripts, "seqto_baseline.py"), model, inputs, "--calib",
                        str(CALIBRATION), "--eval", str(EVALUATION), "-o", found],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        script = json.load(open(found))
        full = script["trials"][0]
        theirs = hypervolume([(t["size_bytes"], t["kl"]) for t in script["trials"]],
                             lambda p: (p[0] / script["base_size"], p[1] / full["kl"]))
        start = time.perf_counter()
        subprocess.run([os.environ["SEQTO_BINARY"], "-q", "tune", model, "--data", data, "--calibration-samples",
                        str(CALIBRATION), "--objectives", "kl,size", "--jobs", "1", "--max-time",
                        str(script["wall_s"] / 20), "-o", out], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        ours = figures(json.load(open(os.path.join(out, "summary.json"))))["hv"]
    print(f"{os.path.basename(case)}: the script {theirs:.3f} of the box after {script['wall_s']:.1f} s, "
          f"seqto {ours:.3f} after {seconds:.1f} s, a {script['wall_s'] / seconds:.0f}th of the time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
