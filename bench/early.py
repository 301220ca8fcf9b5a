"""A twentieth of the time: the published procedure as a script on onnxruntime.quantization runs to its end, then `seqto tune
--max-time` gets a twentieth of what it took, on the same inputs. The fronts' shares of the box of loss and size (scaled to
each side's own float and fully quantized model) are printed side by side with wall and processor seconds (user and system,
children included). `own s` is the script's own clock, which starts behind its imports and the first session; wall and
processor seconds are whole processes. `found s` is when, from the start of the process, the study holds a front that is
better than the script's last one, and behind it the script's whole seconds over that. `tune` runs twice: with candidates in
a worker, and --in-process, as the script has them. One core and one thread each.

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

from _ratios import Ratios
from _cases import baseline, case_on_one_core, make_inputs
from published import CALIBRATION, EVALUATION
from search import CASES, figures, hypervolume


def timed(command, watch=lambda seconds: None, **kwargs):
    """Wall and processor seconds of a process and its children; `watch` is called some hundred times a second."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, **kwargs) as process:
        while process.poll() is None:
            watch(time.perf_counter() - start)
            time.sleep(0.002)
    wall = time.perf_counter() - start
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Found:
    """When which candidates were in a study, for those that are reported."""

    def __init__(self, study):
        self.study, self.size, self.points = study, 0, []  # of (seconds, bytes, KL)

    def __call__(self, seconds):
        if not os.path.exists(self.study) or os.path.getsize(self.study) == self.size:
            return
        with open(self.study, "rb") as file:
            file.seek(self.size)
            new = file.read()
        new = new[:new.rfind(b"\n") + 1]  # the rest is being written
        self.size += len(new)
        for line in new.splitlines():
            trial = json.loads(line).get("trial", {})
            if trial.get("outcome") == "ok" and "part" not in trial and trial["id"] not in ("float", "published"):
                self.points.append((seconds, trial["size_bytes"], trial["losses"]["kl"]))

    def better_than(self, share, base, worst):
        """Seconds until a front had more than that share of the box; infinite where none had."""
        for i, (seconds, _, _) in enumerate(self.points):
            if hypervolume([p[1:] for p in self.points[:i + 1]], lambda p: (p[0] / base, p[1] / worst)) > share:
                return seconds
        return float("inf")


def early(case, scripts, ratios):
    info = json.load(open(os.path.join(case, "case.json")))
    model = os.path.normpath(os.path.join(case, info["model"]))
    with tempfile.TemporaryDirectory() as work:
        inputs, script_json, data = (os.path.join(work, name) for name in ("inputs.npz", "script.json", "data.npz"))
        np.savez(data, input=make_inputs(case, inputs, CALIBRATION + EVALUATION))
        script_wall, script_cpu = timed([*baseline(scripts), model, inputs, "--calib", str(CALIBRATION), "--eval",
                                         str(EVALUATION), "-o", script_json],
                                        stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": work})  # it leaves its files
        script = json.load(open(script_json))
        full = script["trials"][0]
        theirs = hypervolume([(t["size_bytes"], t["kl"]) for t in script["trials"]],
                             lambda p: (p[0] / script["base_size"], p[1] / full["kl"]))
        limit = script["wall_s"] / 20
        print(f"{os.path.basename(case):17} {'script':12} {script['wall_s']:7.1f} {script_wall:8.2f} {script_cpu:8.2f} {theirs:6.3f}",
              flush=True)
        for name, flags in (("tune", []), ("in-process", ["--in-process"])):
            out = os.path.join(work, name)
            found = Found(os.path.join(out, "study.jsonl"))
            wall, cpu = timed([os.environ["SEQTO_BINARY"], "-q", "tune", model, "--data", data, "--calibration-samples",
                               str(CALIBRATION), "--objectives", "kl,size", "--jobs", "1", "--max-time", str(limit),
                               "-o", out, *flags], found)
            summary = json.load(open(os.path.join(out, "summary.json")))
            first = found.better_than(theirs, summary["baseline"]["size_bytes"],
                                      summary["fully_quantized"]["losses"]["kl"])
            print(f"{'':17} {name:12} {limit:7.2f} {wall:8.2f} {cpu:8.2f} {figures(summary)['hv']:6.3f} "
                  f"{len(summary['front']):6} {script_wall / wall:6.1f} {script_cpu / cpu:6.1f} {first:8.3f} "
                  f"{script_wall / first:6.1f}", flush=True)
            ratios.add(f"{os.path.basename(case)}, {name}: share of the box", figures(summary)["hv"], "higher")
            ratios.add(f"{os.path.basename(case)}, {name}: script / found", script_wall / first, "higher")


def main():
    wanted = os.environ.get("SEQTO_BENCH_CASE")
    print(f"{'case':17} {'':12} {'own s':>7} {'wall s':>8} {'cpu s':>8} {'share':>6} {'points':>6} {'wall':>6} {'cpu':>6} "
          f"{'found s':>8} {'whole':>6}")
    names = [wanted] if wanted else CASES
    ratios = Ratios("early", names)
    for name in names:
        os.environ["SEQTO_BENCH_CASE"] = name
        case, scripts = case_on_one_core("early")
        if not case:
            return 0
        early(case, scripts, ratios)
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(main())
