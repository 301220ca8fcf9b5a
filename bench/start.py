"""How long `seqto --version` takes, and how much memory a whole tune needs against its goal of 300 MB + 3 x the model."""
import json
import os
import resource
import subprocess
import tempfile
import time


def main():
    binary = os.environ["SEQTO_BINARY"]
    times = []
    for _ in range(15):
        start = time.perf_counter()
        subprocess.run([binary, "--version"], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    print(f"start: --version {1e3 * sorted(times)[7]:.1f} ms in the median (goal 50)")
    case = os.path.join(os.environ["SEQTO_CASES_DIR"], "mobilenetv2")
    if not os.path.isdir(case):
        print("memory: skipped, the cases are not there")
        return
    info = json.load(open(os.path.join(case, "case.json")))
    at = lambda name: os.path.normpath(os.path.join(case, info[name]))
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([binary, "-q", "tune", at("model"), "--data", at("data"), "--labels", at("labels"), "--preprocess",
                        at("preprocess"), "--calibration-samples", "50", "--evaluation-samples", "150", "-o", work],
                       check=True, stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    goal = 300e6 + 3 * os.path.getsize(at("model"))
    print(f"memory: peak of the whole tune {peak / 1e6:.0f} MB, {peak / goal:.2f} of the goal {goal / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
