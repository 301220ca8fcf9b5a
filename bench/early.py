"""A twentieth of the time: the published procedure as a script on onnxruntime.quantization runs to its end, then `seqto tune
--max-time` gets a twentieth of what it took, on the same inputs. The fronts' shares of the box of loss and size (scaled to
each side's own float and fully quantized model) are printed side by side with wall and processor seconds (user and system,
children included). `own s` is the script's own clock, which starts behind its imports and the first session; wall and
processor seconds are whole processes. `tune` runs twice: with candidates in a worker, and --in-process, as the script has
them. One core each; the runtime's threads under the script's sessions take a second where there is one.

usage: ./dev bench early        (SEQTO_BENCH_CASE=resnet20 for one case)
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

from _cases import case_on_one_core, make_inputs
from published import CALIBRATION, EVALUATION
from search import CASES, figures, hypervolume


def timed(command, **kwargs):
    """Wall and processor seconds of a process and its children."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **kwargs)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.perf_counter() - start,
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def early(case, scripts):
    info = json.load(open(os.path.join(case, "case.json")))
    model = os.path.normpath(os.path.join(case, info["model"]))
    with tempfile.TemporaryDirectory() as work:
        inputs, found, data, out = (os.path.join(work, name) for name in ("inputs.npz", "script.json", "data.npz", "out"))
        np.savez(data, input=make_inputs(case, inputs, CALIBRATION + EVALUATION))
        script_wall, script_cpu = timed([sys.executable, os.path.join(scripts, "seqto_baseline.py"), model, inputs, "--calib",
                                         str(CALIBRATION), "--eval", str(EVALUATION), "-o", found],
                                        stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": work})  # it leaves its files
        script = json.load(open(found))
        full = script["trials"][0]
        theirs = hypervolume([(t["size_bytes"], t["kl"]) for t in script["trials"]],
                             lambda p: (p[0] / script["base_size"], p[1] / full["kl"]))
        limit = script["wall_s"] / 20
        print(f"{os.path.basename(case):17} {'script':12} {script['wall_s']:7.1f} {script_wall:8.2f} {script_cpu:8.2f} {theirs:6.3f}",
              flush=True)
        for name, flags in (("tune", []), ("in-process", ["--in-process"])):
            wall, cpu = timed([os.environ["SEQTO_BINARY"], "-q", "tune", model, "--data", data, "--calibration-samples",
                               str(CALIBRATION), "--objectives", "kl,size", "--jobs", "1", "--max-time", str(limit),
                               "--no-resume", "-o", out, *flags])
            summary = json.load(open(os.path.join(out, "summary.json")))
            print(f"{'':17} {name:12} {limit:7.2f} {wall:8.2f} {cpu:8.2f} {figures(summary)['hv']:6.3f} "
                  f"{len(summary['front']):6} {script_wall / wall:6.1f} {script_cpu / cpu:6.1f}", flush=True)


def main():
    wanted = os.environ.get("SEQTO_BENCH_CASE")
    print(f"{'case':17} {'':12} {'own s':>7} {'wall s':>8} {'cpu s':>8} {'share':>6} {'points':>6} {'wall':>6} {'cpu':>6}")
    for name in [wanted] if wanted else CASES:
        os.environ["SEQTO_BENCH_CASE"] = name
        case, scripts = case_on_one_core("early")
        if not case:
            return 0
        early(case, scripts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
