"""What the strategies find: the same plans to choose from, samples and number of evaluations (five for each group) on
every case; fronts are compared on samples that no search has seen. All sides in one run.

usage: ./dev bench search        (SEQTO_BENCH_CASE=resnet20 for one case, SEQTO_BENCH_STRATEGIES=chain,random for some)
"""
import json
import math
import os
import subprocess
import sys
import tempfile
import time

CASES = ["mobilenetv2", "mobilenet_v1_025", "squeezenet11", "shufflenetv2_x05", "resnet20", "vit_pgd", "dscnn_kws"]
STRATEGIES = ["chain", "dynamic_program", "sensitivity_list", "greedy_revert", "nsga2", "random"]


def data_flags(case):
    info = json.load(open(os.path.join(case, "case.json")))
    at = lambda name: os.path.normpath(os.path.join(case, info[name]))
    flags = ["--data", at("data")]
    for name in ("labels", "preprocess"):
        if info.get(name):
            flags += ["--" + name, at(name)]
    return at("model"), flags


def tune(binary, model, data, out, *flags):
    start = time.perf_counter()
    subprocess.run([binary, "-q", "tune", model, *data, "--calibration-samples", "50", "-o", out, *flags], check=True,
                   stdout=subprocess.DEVNULL)
    return json.load(open(os.path.join(out, "summary.json"))), time.perf_counter() - start


def hypervolume(points, scale):
    """Share of the box from (0, 0) to (1, 1) that (size, loss) points dominate, both scaled by `scale`."""
    volume, worst = 0.0, 1.0
    for size, loss in sorted((scale(p) for p in points)):
        if size < 1 and loss < worst:
            volume += (1 - size) * (worst - max(loss, 0))
            worst = max(loss, 0)
    return volume


def figures(summary):
    base, full = summary["baseline"], summary["fully_quantized"]
    worst = full["losses"]["kl"]
    points = [(p["size_bytes"], p["losses"]["kl"]) for p in summary["front"]]
    linear = lambda p: (p[0] / base["size_bytes"], p[1] / worst)
    # From the published loss down to a ten-thousandth of it: what the linear scale cannot tell apart.
    decades = lambda p: (p[0] / base["size_bytes"], 1 + math.log10(max(p[1] / worst, 1e-4)) / 4)
    kept = [p for p in summary["front"] if p["size_reduction_kept"] >= 0.98]
    best = min(kept, key=lambda p: p["losses"]["kl"], default=None)
    small = [p for p in summary["front"] if p["size_bytes"] <= 0.75 * full["size_bytes"]]
    return {"hv": hypervolume(points, linear), "hv_log": hypervolume(points, decades),
            "kl_lower_at_98": 1 - best["losses"]["kl"] / worst if best else math.nan,
            "disagreement_at_98": best["losses"]["top1_disagreement"] if best else math.nan,
            "full_disagreement": full["losses"]["top1_disagreement"],
            "small_kl_ratio": min((p["losses"]["kl"] for p in small), default=math.inf) / worst,
            "evaluations": summary["evaluations"]}


def main():
    cases, binary = os.environ["SEQTO_CASES_DIR"], os.environ["SEQTO_BINARY"]
    if not os.path.isdir(cases):
        print("search: skipped, the cases are not there")
        return 0
    wanted = os.environ.get("SEQTO_BENCH_CASE")
    strategies = os.environ.get("SEQTO_BENCH_STRATEGIES", ",".join(STRATEGIES)).split(",")
    print(f"{'case':18} {'strategy':17} {'evals':>5} {'s':>6} {'hv':>7} {'hv log':>7} {'KL lower at 98 %':>17} "
          f"{'disagree (full)':>16} {'KL at 75 %':>11}")
    for name in [wanted] if wanted else CASES:
        model, data = data_flags(os.path.join(cases, name))
        inspected = json.loads(subprocess.run([binary, "-q", "--json", "inspect", model], check=True,
                                              capture_output=True).stdout)
        groups = len(inspected["groups"])
        for strategy in strategies:
            with tempfile.TemporaryDirectory() as out:
                summary, seconds = tune(binary, model, data, out, "--strategy", strategy, "--objectives", "kl,size",
                                        "--schemes", "float32,float16,int8_weights,int4_weights",
                                        "--search-evaluations", str(5 * groups))
            f = figures(summary)
            print(f"{name:18} {strategy:17} {f['evaluations']:5} {seconds:6.1f} {f['hv']:7.4f} {f['hv_log']:7.4f} "
                  f"{100 * f['kl_lower_at_98']:15.2f} % {100 * f['disagreement_at_98']:6.2f} "
                  f"({100 * f['full_disagreement']:5.2f}) {f['small_kl_ratio']:11.4f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
