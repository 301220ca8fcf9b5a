"""What an improver is worth beside what it is used with: KL of uniform static int8, or as the row says, with it over that without, on five sets of
calibration samples of every case, generated network and example that has data. Below 1 it pays. Both sides of a row in one run,
judged on samples that are in none of the sets.

usage: ./dev bench improvers [--write] [--row equalize]     (SEQTO_BENCH_CASE=resnet8,dscnn_kws for some cases; --write: into bench/results,
with --row beside the other rows there)
"""
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

from _cases import make_inputs
from _ratios import header


SETS, CALIBRATION, EVALUATION = 5, 50, 256
FAST = ["--activation-type", "uint8", "--weight-type", "int8", "--per-channel"]
SMALL = ["digits", "resnet8", "dscnn_kws", "tiny_encoder"]
TRANSFORMERS = ["tiny_encoder", "tiny_lm", "vit_pgd"]  # what smoothing is for
# The same function with a few channels of each norm, or of what each gate multiplies, 20 to 50 times as large, as in large
# language models.
UNEVEN = {", uneven norms": "norms", ", uneven gates": "gates"}
DYNAMIC = ["--mode", "dynamic"]
INT4 = ["--mode", "weights", "--weight-type", "int4", "--rounding", "nearest"]
POWERS = ["--activation-type", "int8", "--weight-type", "int8", "--symmetric-activations", "--power-of-two-scales"]
NETWORKS = ["digits", "resnet8", "resnet20", "dscnn_kws", "squeezenet11", "shufflenetv2_x05"]
ROWS = [  # name, cases, flags without, flags with
    ("refine_ranges", SMALL, FAST, [*FAST, "--refine-ranges"]),
    ("smooth_alpha auto", TRANSFORMERS, [*FAST, "--smooth-quant"], [*FAST, "--smooth-quant", "--smooth-alpha", "auto"]),
    ("smooth_alpha auto, dynamic", TRANSFORMERS, [*DYNAMIC, "--smooth-quant"],
     [*DYNAMIC, "--smooth-quant", "--smooth-alpha", "auto"]),
    ("smooth_quant", TRANSFORMERS, FAST, [*FAST, "--smooth-quant"]),
    ("smooth_quant, dynamic", TRANSFORMERS, DYNAMIC, [*DYNAMIC, "--smooth-quant"]),
    ("equalize", [*TRANSFORMERS, *("tiny_lm" + form for form in UNEVEN)], FAST, [*FAST, "--equalize"]),
    ("equalize, dynamic", [*TRANSFORMERS, *("tiny_lm" + form for form in UNEVEN)], DYNAMIC, [*DYNAMIC, "--equalize"]),
    ("power_of_two_scales", NETWORKS, POWERS[:-1], POWERS),
    ("method mse, power_of_two_scales", NETWORKS, [*POWERS, "--method", "minmax"], POWERS),
    ("scale_search, int4", TRANSFORMERS, INT4, [*INT4, "--scale-search"]),
]


def case_samples(name, work):
    """A case's model and its samples, an array for each name; (None, None) where the case is absent."""
    if name == "digits":
        folder = os.path.join(os.environ["SEQTO_SOURCE_DIR"], "examples", "digits")
        return os.path.join(folder, "model.onnx"), dict(np.load(os.path.join(folder, "digits.npz")))
    case = os.path.join(os.environ["SEQTO_CASES_DIR"], name)
    if not os.path.isdir(case):
        return None, None
    info = json.load(open(os.path.join(case, "case.json")))
    at = lambda key: os.path.normpath(os.path.join(case, info[key]))
    data = at("data")
    if os.path.isdir(data):
        data = os.path.join(work, "all.npz")
        make_inputs(case, data, CALIBRATION + 450)
    return at("model"), dict(np.load(data))


class Samples:
    """The first ones judge, at most half of all. Sets to calibrate on are drawn from the others."""

    def __init__(self, arrays, work):
        self.arrays, self.work = arrays, work
        self.count = len(next(iter(arrays.values())))
        self.first = min(EVALUATION, self.count // 2)
        self.judging = self.saved("judging", slice(self.first))

    def saved(self, name, rows):
        path = os.path.join(self.work, name + ".npz")
        np.savez(path, **{key: values[rows] for key, values in self.arrays.items()})
        return path

    def calibrating(self, seed):
        drawn = np.random.default_rng(seed).choice(np.arange(self.first, self.count), CALIBRATION, replace=False)
        return self.saved("calibrating", np.sort(drawn))


def with_uneven(what, path, out):
    """What MatMul alone reads, one channel in 32 times 20 to 50, and the rows that read it divided: by the gains of a norm, or the
    columns of the MatMul whose output a gate multiplies."""
    model = onnx.load(path)
    graph, random = model.graph, np.random.default_rng(0)
    constants = {i.name: i for i in graph.initializer}
    readers, producers = {}, {}
    for node in graph.node:
        producers.update(dict.fromkeys(node.output, node))
        for name in node.input:
            readers.setdefault(name, []).append(node)

    def alone(name):
        return name in constants and len(readers[name]) == 1

    def scale(name, factors):
        values = numpy_helper.to_array(constants[name])
        constants[name].CopyFrom(numpy_helper.from_array((values * factors).astype(np.float32), name))

    def gains_of(node):
        if node.op_type == "LayerNormalization":
            return [name for name in node.input[1:] if alone(name)] if what == "norms" else []
        if node.op_type != "Mul":
            return []
        if what == "norms":
            return [name for name in node.input if alone(name)]
        made = [producers[name] for name in node.input if name in producers and len(readers[name]) == 1]
        return [made.input[1] for made in made if made.op_type == "MatMul" and alone(made.input[1])][:1]

    changed = 0
    for node in graph.node:
        gains = gains_of(node)
        layers = readers.get(node.output[0], [])
        if not gains or not layers or any(l.op_type != "MatMul" or not alone(l.input[1]) for l in layers):
            continue
        size = numpy_helper.to_array(constants[gains[0]]).shape
        if len(size) != (1 if what == "norms" else 2) or size[-1] < 32:
            continue
        factors = np.ones(size[-1])
        factors[random.choice(size[-1], size[-1] // 32, replace=False)] = random.uniform(20, 50, size[-1] // 32)
        for name in gains:
            scale(name, factors)
        for layer in layers:
            scale(layer.input[1], 1 / factors[:, None])
        changed += 1
    if not changed:
        raise RuntimeError(f"{path} has no {what} that MatMul alone reads")
    onnx.save(model, out)
    return out


def kl(model, candidate, samples):
    """Mean KL, as `seqto tune` tells it, from the gate's own measurement."""
    done = subprocess.run([os.environ["SEQTO_BINARY"], "-q", "--json", "check", candidate, "--reference", model, "--data", samples,
                           "--max-loss", "kl=1e9"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return next(limit["found"] for limit in json.loads(done.stdout)["limits"] if limit["figure"] == "kl")


def measured(model, calibrating, judging, work, flags):
    out = os.path.join(work, "candidate.onnx")
    subprocess.run([os.environ["SEQTO_BINARY"], "-q", "quantize", model, "--data", calibrating, *flags, "-o", out], check=True,
                   stdout=subprocess.DEVNULL)
    return kl(model, out, judging)


def main():
    wanted = [name for name in os.environ.get("SEQTO_BENCH_CASE", "").split(",") if name]
    lines = ["| improver | case | ratio, median | least | most | pays in |", "|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    seen = []
    part = sys.argv[sys.argv.index("--row") + 1] if "--row" in sys.argv else ""
    for row, cases, without, with_it in ROWS:
        if part not in row:
            continue
        logs = []
        for name in cases:
            form = next((form for form in UNEVEN if name.endswith(form)), "")
            if wanted and name.removesuffix(form) not in wanted:
                continue
            ratios = []
            with tempfile.TemporaryDirectory() as work:
                model, arrays = case_samples(name.removesuffix(form), work)
                if not model:
                    continue
                seen.append(name)
                samples = Samples(arrays, work)
                if form:
                    model = with_uneven(UNEVEN[form], model, os.path.join(work, "uneven.onnx"))
                for seed in range(1, SETS + 1):
                    data = samples.calibrating(seed)
                    a, b = (measured(model, data, samples.judging, work, flags) for flags in (without, with_it))
                    ratios.append(max(b, 1e-12) / max(a, 1e-12))
            logs.append(math.log(statistics.median(ratios)))
            lines.append(f"| {row} | {name} | {statistics.median(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} | "
                         f"{sum(r < 1 for r in ratios)} of {SETS} |")
            print(lines[-1], flush=True)
        if logs:
            lines.append(f"| {row} | **all, geometric mean** | **{math.exp(sum(logs) / len(logs)):.3f}** | | | |")
            print(lines[-1], flush=True)
    if "--write" in sys.argv[1:]:
        folder = os.path.join(os.environ["SEQTO_SOURCE_DIR"], "bench", "results")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "improvers.md")
        if part:  # the other rows stay
            stored = open(path).read()
            kept = [line for line in stored.splitlines() if line.startswith("| ")][1:]
            kept = [line for line in kept if part not in line.split("|")[1]]
            lines[2:2] = kept
            seen += [line.split("|")[2].strip() for line in kept if "**" not in line]
        with open(path, "w") as file:
            head = header("improvers --write", list(dict.fromkeys(seen)), "bench/improvers.py")
            if part:  # so does their date
                before, today = (re.search(r"--write` on ([^;]*);", text)[1] for text in (stored, head))
                head = head.replace(f"on {today};", f"on {before}, rows with '{part}' on {today};")
            file.write("# improvers\n\n" + head)
            file.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
