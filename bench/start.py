"""How long `seqto --version` takes, and how much memory a whole tune needs against its goal of 300 MB + 3 x the model."""
import json
import os
import resource
import statistics
import subprocess
import tempfile
import sys
import time

from _ratios import Ratios


def main():
    binary = os.environ["SEQTO_BINARY"]
    ratios = Ratios("start", ["mobilenetv2"])
    times = {binary: [], "true": []}
    for _ in range(51):
        for program, seconds in times.items():
            start = time.perf_counter()
            subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - start)
    own, least = (statistics.median(seconds) for seconds in times.values())
    print(f"start: --version {1e3 * own:.1f} ms in the median (goal 50), {own / least:.1f} x that of `true`")
    ratios.add("--version / true --version", own / least, "lower")
    case = os.path.join(os.environ["SEQTO_CASES_DIR"], "mobilenetv2")
    if not os.path.isdir(case):
        print("memory: skipped, the cases are not there")
        return ratios.finish()
    info = json.load(open(os.path.join(case, "case.json")))
    at = lambda name: os.path.normpath(os.path.join(case, info[name]))
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([binary, "-q", "tune", at("model"), "--data", at("data"), "--labels", at("labels"), "--preprocess",
                        at("preprocess"), "--calibration-samples", "50", "--evaluation-samples", "150", "-o", work],
                       check=True, stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    goal = 300e6 + 3 * os.path.getsize(at("model"))
    print(f"memory: peak of the whole tune {peak / 1e6:.0f} MB, {peak / goal:.2f} of the goal {goal / 1e6:.0f} MB")
    ratios.add("memory of tune / goal", peak / goal, "lower")
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(main())
