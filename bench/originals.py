"""Whether `greedy_revert` and `sensitivity_list` choose as their originals do: NNCF's accuracy-aware loop and AIMET's
mixed precision. Each original is asked twice: its own code decides over our candidates and their losses, where every
decision has to be the same; and it looks at the layers with its own quantizer, where the orders are compared. KL on the
same samples is the metric of all.

usage: ./dev bench originals      SEQTO_BENCH_CASE=resnet20[,dscnn_kws]  other cases
                                  SEQTO_NNCF_PYTHON=PATH, SEQTO_AIMET_ONNX_PYTHON=PATH  instead of what pip installs
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import _peers
from _cases import make_inputs

CALIBRATION, SEARCH = 50, 32
SHARES = (0.5, 0.2, 0.05)  # of the fully quantized model's loss: what may remain


def inputs(folder, path):
    info = json.loads((folder / "case.json").read_text())
    make_inputs(folder, path, CALIBRATION + 2 * SEARCH + 8)
    return folder / info["model"]


class Searched:
    """What a strategy measured on the search samples, int8 or float for each group; groups by their numbers."""

    def __init__(self, model, data, out, strategy):
        flags = {"strategy": strategy, "schemes": "int8,float32", "objectives": "kl,size",
                 "calibration-samples": CALIBRATION, "search-samples": 2 * SEARCH, "search-evaluations": 1000000,
                 "max-front": 1}
        subprocess.run([os.environ["SEQTO_BINARY"], "-q", "tune", model, "--data", data, "-o", out,
                        *(word for name, value in flags.items() for word in (f"--{name}", str(value)))],
                       check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (out / "study.jsonl").read_text().splitlines()]
        notes = {line["note"]: line["value"] for line in lines if "note" in line}
        self.groups = [group["layers"] for group in notes["what if"]["groups"]]
        number = {layer: g for g, layers in enumerate(self.groups) for layer in layers}
        self.asked, self.losses = [], {}
        for line in lines:
            trial = line.get("trial", {})
            if trial.get("part") != "search":
                continue
            key = " ".join(map(str, sorted({number[layer] for layer in trial["plan"]})))
            self.asked.append(key)
            self.losses[key] = trial["losses"]["kl"]

    def key(self, groups):
        return " ".join(map(str, sorted(groups)))

    def names(self, groups):
        return ", ".join(self.groups[g][0] for g in groups)


def ask(python, script, scratch, **given):
    question, answer = scratch / "question.json", scratch / "answer.json"
    question.write_text(json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in given.items()}))
    done = subprocess.run([python, "-B", Path(__file__).parent / script, question, answer], capture_output=True,
                          text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return {"failed": said[-1] if said else f"exit code {done.returncode}"}
    return json.loads(answer.read_text())


def correlation(ours, theirs):
    """Spearman's, of the groups that both rank; NaN for fewer than three."""
    common = [g for g in ours if g in theirs]
    if len(common) < 3:
        return float("nan"), len(common)
    return spearmanr([ours[g] for g in common], [theirs[g] for g in common]).statistic, len(common)


def nncf(say, python, model, data, scratch):
    ours = Searched(model, data, scratch / "greedy_revert", "greedy_revert")
    full = set(range(len(ours.groups)))
    worst = ours.losses[ours.key(full)]

    def replay(max_drop):
        return ask(python, "_originals_nncf.py", scratch, what="replay", max_drop=max_drop, groups=len(full),
                   losses=ours.losses, samples=SEARCH)

    found = replay(-1.0)
    if "failed" in found:
        return say(f"NNCF fails: {found['failed']}")
    same = 0
    while same < min(len(ours.asked), len(found["asked"])) and ours.asked[same] == found["asked"][same]:
        same += 1
    verdict = "the same" if same == len(ours.asked) == len(found["asked"]) else f"DIFFERENT from candidate {same} on"
    again = len(found["reverted"]) - len(set(found["reverted"]))
    say(f"NNCF's loop over our candidates: {len(full)} groups, {len(found['asked'])} candidates asked for by it, "
        f"{len(ours.asked)} by greedy_revert, {verdict}; {again} groups returned more than once; first: "
        f"{ours.names(found['reverted'][:3])}")
    for share in SHARES:
        left = replay(share * worst).get("quantized")
        back = len(full) - len(full if left is None else left)
        measured = left is not None and ours.key(left) in ours.losses
        say(f"  until {share:4.0%} of the loss remain: {back} groups in float, a "
            f"candidate that greedy_revert measured {'too' if measured else 'NOT'}")
    whole = ask(python, "_originals_nncf.py", scratch, what="whole", model=model, data=data, calibration=CALIBRATION,
                samples=SEARCH, max_drop=-1.0, iterations=1)
    if "failed" in whole:
        return say(f"NNCF's own quantizer fails: {whole['failed']}")
    # Both by their first ranking: what the return of one group alone leaves. NNCF's groups by the first of their
    # operations that ours has; it does not rank what it does not quantize.
    first = {g: ours.losses[ours.key(full - {g})] for g in full}
    place = {layer: g for g, layers in enumerate(ours.groups) for layer in layers}
    theirs = {}
    for position, operations in enumerate(whole["ranked"]):
        for operation in operations:
            if operation in place:
                theirs.setdefault(place[operation], position)
    rho, count = correlation(first, theirs)
    say(f"NNCF with its own quantizer: {len(whole['ranked'])} groups; first rankings of the {count} groups that both "
        f"have correlate by {rho:.2f}; its first: {ours.names(sorted(theirs, key=theirs.get)[:3])}; ours: "
        f"{ours.names(sorted(first, key=first.get)[:3])}")


def aimet(say, python, model, data, scratch):
    ours = Searched(model, data, scratch / "sensitivity_list", "sensitivity_list")
    count = len(ours.groups)
    targets = [share * max(ours.losses.values()) for share in SHARES]
    found = ask(python, "_originals_aimet.py", scratch, what="replay", groups=count, losses=ours.losses,
                targets=targets)
    if "failed" in found:
        return say(f"AIMET fails: {found['failed']}")
    prefixes = [ours.key(found["order"][:i + 1]) for i in range(count)]
    path = [key for key in ours.asked if key not in map(str, range(count))]
    verdict = "the same" if path == prefixes[1:] else "DIFFERENT"
    say(f"AIMET's list over our candidates: {count} groups, {len(prefixes)} steps, {len(path) + 1} by "
        f"sensitivity_list, {verdict}; first: {ours.names(found['order'][:3])}")
    for share, target in zip(SHARES, targets):
        chosen = len(found["chosen"][str(target)])
        most = max((i + 1 for i, p in enumerate(prefixes) if ours.losses.get(p, np.inf) <= target), default=0)
        say(f"  at most {share:4.0%} of the loss: AIMET's binary search quantizes {chosen} groups; the longest part of "
            f"the list within it that sensitivity_list measured has {most}")
    whole = ask(python, "_originals_aimet.py", scratch, what="whole", model=model, data=data, calibration=CALIBRATION,
                samples=SEARCH)
    if "failed" in whole:
        return say(f"AIMET's own simulation fails: {whole['failed']}")
    # AIMET looks at single nodes: what a group loses is the sum.
    mine = {g: ours.losses[str(g)] for g in range(count)}
    theirs = {g: sum(whole["sensitivity"].get(layer, 0) for layer in layers) for g, layers in enumerate(ours.groups)}
    rho, both = correlation(mine, theirs)
    most = lambda losses: ours.names(sorted(losses, key=losses.get, reverse=True)[:3])
    say(f"AIMET with its own simulation: sensitivities of {both} groups correlate by {rho:.2f}; its most sensitive: "
        f"{most(theirs)}; ours: {most(mine)}")


def main():
    cases, root = Path(os.environ["SEQTO_CASES_DIR"]), Path(os.environ["SEQTO_SOURCE_DIR"])
    wanted = os.environ.get("SEQTO_BENCH_CASE", "resnet20,dscnn_kws").split(",")
    folders = [cases / name for name in wanted if (cases / name / "case.json").exists()]
    if not folders:
        print("originals: skipped, the cases are not there")
        return 0
    originals = [(compare, _peers.python_with(root, tool, "originals"))
                 for compare, tool in ((nncf, _peers.NNCF), (aimet, _peers.AIMET))]
    for folder in folders:
        with tempfile.TemporaryDirectory() as scratch:
            scratch = Path(scratch)
            model = inputs(folder, scratch / "inputs.npz")
            for compare, python in originals:
                if python:
                    say = lambda text: print(f"{folder.name:12} {text}", flush=True)
                    compare(say, python, model, scratch / "inputs.npz", scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
