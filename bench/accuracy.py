"""Accuracy of uniform static int8 on every case: onnxruntime's quantizer, seqto with each improver alone and with the
recommended ones together, NNCF. The same calibration samples for all, the same evaluation samples; all contestants of a
case in one run; latency interleaved, ONNX Runtime on one CPU thread, relative to the float model. Prints the page
bench/results/accuracy_table.md; progress goes to stderr.

usage: ./dev bench accuracy      SEQTO_BENCH_CASE=resnet8[,resnet20]  some cases only, in this order
                                 SEQTO_NNCF_PYTHON=PATH  a Python that has nncf, instead of a venv in .cache/nncf
                                 SEQTO_BENCH_SETS=1  five sets of calibration samples, each evaluated on all other
                                 samples: `--improve` and NNCF with full bias correction alone, KL and its standard error
       accuracy.py --print       the page of the cases that were measured before (build/accuracy/CASE.json), without
                                 measuring: the way to put a long run together from several
"""
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime import quantization as ortq

import _peers
from _cases import make_inputs

CALIBRATION, EVALUATION, ROUNDS = 50, 450, 15
SET_STARTS = [0, 100, 200, 300, 400]
PATIENCE_S = 1800
NNCF_VERSION = _peers.NNCF[1][0].split("==")[1]
PLAIN = "seqto U8S8 per channel"
BASE = ["--activation-type", "uint8", "--weight-type", "int8", "--per-channel"]
IMPROVERS = {
    "percentile": ["--method", "percentile"],
    "entropy": ["--method", "entropy"],
    "entropy, 2048 bins": ["--method", "entropy", "--bins", "2048"],
    "mse": ["--method", "mse"],
    "weight clipping": ["--weight-clipping", "mse"],
    "center": ["--center"],
    "equalize": ["--equalize"],
    "smooth-quant": ["--smooth-quant"],
    "bias correction, fast": ["--bias-correction", "fast"],
    "bias correction, full": ["--bias-correction", "full"],
    "learned rounding": ["--rounding", "learned"],
    "refined ranges": ["--refine-ranges"],
    "improve": ["--improve"],
    "improve, refined ranges": ["--improve", "--refine-ranges"],
}
NNCF_SCRIPT = """
import sys, numpy as np, onnx, nncf
source, data, output, fast = sys.argv[1:]
x = np.load(data)["x"]
model = onnx.load(source)
weights = {i.name for i in model.graph.initializer}
name = next(i.name for i in model.graph.input if i.name not in weights)
q = nncf.quantize(model, nncf.Dataset(list(x), lambda v: {name: v[None]}), preset=nncf.QuantizationPreset.MIXED,
                  subset_size=len(x), fast_bias_correction=fast == "fast")
onnx.save(q, output)
"""


class Reader(ortq.CalibrationDataReader):
    def __init__(self, name, x):
        self.samples = iter({name: v[None]} for v in x)

    def get_next(self):
        return next(self.samples, None)


def input_name(model):
    weights = {i.name for i in model.graph.initializer}
    return next(i.name for i in model.graph.input if i.name not in weights)


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def outputs(path, x):
    s = session(path)
    name = s.get_inputs()[0].name
    return np.stack([s.run(None, {name: v[None]})[0].reshape(-1) for v in x]).astype(np.float64)


def divergences(reference, candidate):
    """KL of each sample."""
    log = lambda z: z - z.max(1, keepdims=True) - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True))
    p, q = log(reference), log(candidate)
    return (np.exp(p) * (p - q)).sum(1)


def losses(reference, candidate):
    return {"kl": float(divergences(reference, candidate).mean()),
            "disagreement": float((reference.argmax(1) != candidate.argmax(1)).mean())}


def latencies(paths, x):
    """Median run time of each model over the float one's; one run of each in turn."""
    sessions = {k: session(p) for k, p in paths.items()}
    times = {k: [] for k in sessions}
    for r in range(ROUNDS + 3):
        for k, s in sessions.items():
            start = time.perf_counter()
            s.run(None, {s.get_inputs()[0].name: x[r % len(x)][None]})
            if r >= 3:
                times[k].append(time.perf_counter() - start)
    medians = {k: statistics.median(v) for k, v in times.items()}
    return {k: v / medians["float"] for k, v in medians.items()}


def say(*words):
    print(*words, file=sys.stderr, flush=True)


class Case:
    def __init__(self, folder, scratch):
        info = json.loads((folder / "case.json").read_text())
        self.name, self.model, self.scratch = folder.name, folder / info["model"], scratch
        self.inputs = make_inputs(folder, scratch / "inputs.npz", CALIBRATION + EVALUATION)
        self.data = scratch / "calibration.npz"
        self.calibrate_on(0)

    def calibrate_on(self, first):
        """So many samples from the first; all others are for evaluation."""
        self.calibration, self.others = self.inputs[first:first + CALIBRATION], np.ones(len(self.inputs), bool)
        self.others[first:first + CALIBRATION] = False
        self.evaluation = self.inputs[self.others]
        np.savez(self.data, x=self.calibration)

    def onnxruntime(self, path, activation, per_channel):
        model = onnx.load(self.model)
        reader = Reader(input_name(model), self.calibration)
        ortq.quantize_static(str(self.model), str(path), reader, per_channel=per_channel,
                             activation_type=activation, weight_type=ortq.QuantType.QInt8)

    def seqto(self, path, flags):
        command = [os.environ["SEQTO_BINARY"], "quantize", self.model, "-o", path, "--data", self.data, "-q", *flags]
        subprocess.run(command, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def nncf(self, path, python, speed):
        source = self.scratch / "opset13.onnx"
        model = onnx.load(self.model)
        if model.opset_import[0].version < 13:  # it takes nothing older
            model = onnx.version_converter.convert_version(model, 13)
        onnx.save(model, source)
        subprocess.run([python, "-c", NNCF_SCRIPT, source, self.data, path, speed], check=True, timeout=PATIENCE_S,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def run(self, methods):
        """Figures by method; {"fails": reason} where a quantizer cannot do the model."""
        paths, figures = {"float": self.model}, {}
        reference = outputs(self.model, self.evaluation)
        for name, make in methods.items():
            path = self.scratch / f"{len(paths)}.onnx"
            start = time.perf_counter()
            try:
                make(self, path)
                seconds = time.perf_counter() - start
                figures[name] = {**losses(reference, outputs(path, self.evaluation)), "seconds": seconds}
                paths[name] = path
            except Exception as error:  # a quantizer that cannot do a model is a result
                figures[name] = {"fails": reason(error)}
            found = (f"{k} {v if k == 'fails' else format(v, '.4g')}" for k, v in figures[name].items())
            say(f"{self.name:17} {name:32}", *found)
        for name, ratio in latencies(paths, self.evaluation).items():
            if name != "float":
                figures[name]["latency"] = ratio
        return figures


def reason(error):
    """The last line of what a quantizer or the runtime says, without paths of this machine."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"more than {PATIENCE_S} s"
    text = (getattr(error, "stderr", None) or str(error).encode()).decode(errors="replace").strip()
    last = (text or type(error).__name__).splitlines()[-1]
    return " ".join(w for w in last.split() if "/" not in w)[:160]


def methods_of(root):
    command = [os.environ["SEQTO_BINARY"], "quantize", "--help"]
    help_text = subprocess.run(command, capture_output=True, text=True).stdout
    known = lambda flags: all(word in help_text for word in flags)
    methods = {
        "onnxruntime S8S8 per tensor": lambda c, p: c.onnxruntime(p, ortq.QuantType.QInt8, False),
        "onnxruntime U8S8 per channel": lambda c, p: c.onnxruntime(p, ortq.QuantType.QUInt8, True),
        PLAIN: lambda c, p: c.seqto(p, BASE),
    }
    for name, flags in IMPROVERS.items():
        if known(flags):
            methods[f"+ {name}"] = lambda c, p, flags=flags: c.seqto(p, BASE + flags)
        else:
            say(f"accuracy: {' '.join(flags)} skipped, this build has no such flag")
    python = _peers.python_with(root, _peers.NNCF, "accuracy")
    if python:
        for speed in ("fast", "full"):
            methods[f"NNCF {NNCF_VERSION}, {speed} bias correction"] = lambda c, p, s=speed: c.nncf(p, python, s)
    return methods


def compare_sets(folders, methods):
    """A row for each set of calibration samples."""
    chosen = {name: make for name, make in methods.items()
              if name == "+ improve" or name.startswith("NNCF") and name.endswith("full bias correction")}
    print("| case, calibrated on |", " | ".join(chosen), "|\n|---" + "|---" * len(chosen) + "|")
    for folder in folders:
        with tempfile.TemporaryDirectory() as scratch:
            case = Case(folder, Path(scratch))
            reference = outputs(case.model, case.inputs)
            for first in (f for f in SET_STARTS if f + CALIBRATION <= len(case.inputs)):
                case.calibrate_on(first)
                cells = []
                for make in chosen.values():
                    try:
                        path = case.scratch / "candidate.onnx"
                        make(case, path)
                        each = divergences(reference[case.others], outputs(path, case.evaluation))
                        cells.append(f"{each.mean():.4g} +- {each.std() / len(each) ** 0.5:.2g}, at most {each.max():.2g}")
                    except Exception as error:
                        cells.append(f"fails: {reason(error)}")
                print(f"| {case.name}, samples {first} to {first + CALIBRATION - 1} |", " | ".join(cells), "|", flush=True)


def table(results, key, form):
    methods = dict.fromkeys(name for figures in results.values() for name in figures)
    lines = ["| | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    for name in methods:
        cells = [form(f[name][key]) if key in f.get(name, {}) else "fails" for f in results.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(results, absent):
    fails = [f"- {case}, {name}: {f['fails']}"
             for case, figures in results.items() for name, f in figures.items() if "fails" in f]
    fails += [f"- {case}: {why}" for case, why in absent.items()]
    better = {name: sum(f[name]["kl"] < f[PLAIN]["kl"] for f in results.values() if "kl" in f[name])
              for name in next(iter(results.values())) if name.startswith("+")}
    return f"""# Uniform int8 on every case

This page is what `./dev bench accuracy` (`bench/accuracy.py`) printed on {datetime.date.today()}: onnxruntime
{ort.__version__}, one CPU thread, {CALIBRATION} calibration and up to {EVALUATION} evaluation samples, all contestants of a case
in one run. "+" is seqto's U8S8 per channel with this more; [accuracy.md](../../docs/design/accuracy.md) tells what each does and which to use.

Mean KL divergence from the float model:

{table(results, "kl", lambda v: f"{v:.3g}")}

Cases of {len(results)} in which it is lower than without:

{chr(10).join(f"- {name[2:]}: {count}" for name, count in better.items())}

Share of the samples with another best class:

{table(results, "disagreement", lambda v: f"{100 * v:.1f} %")}

Median latency over the float model's (files of equal form differ where other work shares the machine):

{table(results, "latency", lambda v: f"{v:.2f}")}

Seconds to quantize, calibration and start included:

{table(results, "seconds", lambda v: f"{v:.1f}")}

Not measured, and why:

{chr(10).join(fails) or "nothing"}
"""


def main():
    cases, root = Path(os.environ["SEQTO_CASES_DIR"]), Path(os.environ["SEQTO_SOURCE_DIR"])
    kept = Path(os.environ["SEQTO_BUILD_DIR"]) / "accuracy"
    wanted = [n for n in os.environ.get("SEQTO_BENCH_CASE", "").split(",") if n]
    folders = {f.parent.name: f.parent for f in sorted(cases.glob("*/case.json"))}
    if not folders:
        say("accuracy: skipped, the cases are not there")
        return 0
    absent = {n: "no samples come with it" for n, f in folders.items()
              if not json.loads((f / "case.json").read_text())["data"]}
    names = [n for n in wanted or folders if n in folders and n not in absent]
    if os.environ.get("SEQTO_BENCH_SETS"):
        compare_sets([folders[n] for n in names], methods_of(root))
        return 0
    if sys.argv[1:] != ["--print"]:
        methods = methods_of(root)
        kept.mkdir(parents=True, exist_ok=True)
        for name in names:
            with tempfile.TemporaryDirectory() as scratch:
                figures = Case(folders[name], Path(scratch)).run(methods)
            (kept / f"{name}.json").write_text(json.dumps(figures))
    files = {n: kept / f"{n}.json" for n in names}
    absent.update((n, "not measured") for n, f in files.items() if not f.exists())
    results = {n: json.loads(f.read_text()) for n, f in files.items() if f.exists()}
    print(page(results, absent) if results else "nothing was measured yet", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
