"""Our quantizer against onnxruntime's, exactly: structure, scales, zero points, weights, opsets, bitwise outputs.

    differential_test.py [--count N] [--seed S]    N random graphs from seed S on, then the real models
                         [--only]                  only the graph of seed S, with the files kept
                         [--graphs | --cases]      one half alone
                         [--self-test]             checks the comparison itself, without our quantizer

Both sides get the same model, the same ranges (as onnxruntime's JSON cache) and the same random options. Where ours
reports deviations (docs/reference/compatibility.md), each must be expected for that model, and our model must be valid and run.
"""
import argparse
import atexit
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import canonical  # noqa: E402
import cases  # noqa: E402
import coverage  # noqa: E402
import deviations  # noqa: E402
import graphs  # noqa: E402
from graph_emitters import EMITTERS  # noqa: E402
import oracle  # noqa: E402

DRIVER = os.environ.get("SEQTO_DRIVER", "build/bin/seqto_differential_driver")
# The runtime's optimizer on correct models: it gives integers to a ReduceMax that has no such kernel, to QLinear kernels
# scales in float16 that they do not take, limits the scales of one kernel, takes an int32 bias for a weight of MatMul; it
# loses the shape of a Conv that it fuses with a Clip, where the bound of an earlier Clip is a constant behind a pair (seeds
# 19167, and 4009057 for an ArgMax: as written it runs, and so it does without constant folding or without that pair; Abs of a
# constant is quantized there because it was asked for); it quantizes the float16 bias of a Conv with a DequantizeLinear that
# opsets below 19 do not have; it gives DequantizeLinear an axis at opsets that have none. Nor can it put some pairs of the
# source beside new ones.
RUNTIME_FAULTS = ("of operator (MatMulIntegerToFloat)", "Unrecognized attribute: axis for operator DequantizeLinear", "of operator (QLinear", "operator (ReduceMax)", "parameter out of computation range",
                  "Op (FusedConv) [ShapeInferenceError]", "Op (ArgMax) [ShapeInferenceError]", "_bias_scale) of operator (DequantizeLinear)")
# Valid float models that the runtime does not run even as written: of two Casts that cancel out it keeps none, and forgets
# those who read the second in the body of an If (operators_test.py, seed 502328); between two Transposes it loses a Gemm of
# constants (dynamic, seed 6000902); of two Pads before an AveragePool it makes more padding than its kernel takes (operators,
# seed 271246).
SOURCE_FAULTS = ("Missing Input", "Failed to find node output or a constant initializer", "Pad should be smaller than kernel")
FAILED_ONCE = (271665, 272687, 272954, 504459, 905730, 907481, 1004509, 1007916, 1008508, 3000400, 3004148, 3009541, 3009571, 4008895, 940601, 52005, 940898)  # seeds whose mends every run looks at
EQUAL = 0.5  # the least share of graphs that are compared to the last bit
NEARNESS = FARTHER, AS_NEAR, NEARER = ", farther from float", ", as near to float", ", nearer to float"
folder, driver = None, None  # of this worker process


def start_worker(keep, parent=None):
    global folder
    folder = Path(keep or tempfile.mkdtemp(prefix="seqto-differential-", dir=parent))
    if not keep and not parent:
        atexit.register(shutil.rmtree, folder, True)
    folder.mkdir(parents=True, exist_ok=True)


def ask_driver(request):
    global driver
    if driver is None or driver.poll() is not None:
        driver = subprocess.Popen([DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    driver.stdin.write(json.dumps(request) + "\n")
    driver.stdin.flush()
    with oracle.limit(60):
        line = driver.stdout.readline()
    if not line:
        raise RuntimeError(f"the driver died with {driver.wait()}")
    return json.loads(line)


def no_source(error):
    """The verdict where the float model itself does not run."""
    return "source refused by the runtime" if any(w in str(error) for w in SOURCE_FAULTS) else "FAIL generator"


def run(path, optimize, inputs):
    s = oracle.session(str(path), optimize)
    return [s.run(None, x) for x in inputs]


def refused(path, inputs):
    """The runtime's words when it does not load or run the file, as written or optimized."""
    try:
        for optimize in (False, True):
            run(path, optimize, inputs)
    except Exception as e:
        return str(e)[:600] or "refused"
    return None


def runs_no_source(words, source, inputs):
    """Whether it is a fault of the float model's too that our file shows."""
    return bool(words) and any(w in words for w in SOURCE_FAULTS) and bool(refused(source, inputs))


def invalid(source, path):
    """The checker's words about our model, where it had none about the source (beyond the order of its nodes)."""
    try:
        onnx.checker.check_model(source)
    except onnx.checker.ValidationError as e:
        if "sorted" not in str(e):
            return None
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as e:
        return str(e)[:300]
    return None


def unequal_outputs(expected, actual, inputs):
    """Bit by bit as written; optimized, the runtime fuses float nodes in the file's order, which costs roundings."""
    for optimize in (False, True):
        for x, y in zip(run(expected, optimize, inputs), run(actual, optimize, inputs)):
            for i, (u, v) in enumerate(zip(x, y)):
                if u.dtype != v.dtype or u.shape != v.shape:
                    return f"output {i} (optimized: {optimize})"
                if u.tobytes() != v.tobytes() and not (optimize and is_rounding(u, v)):
                    return f"output {i} (optimized: {optimize})"
    return None


def is_rounding(u, v):
    return u.dtype == np.float32 and np.allclose(u, v, rtol=1e-6, atol=1e-6, equal_nan=True)


def optimized_alike(path, inputs):
    """Whether the runtime's optimizer leaves what the file computes."""
    pairs = zip(run(path, False, inputs), run(path, True, inputs))
    return all(u.tobytes() == v.tobytes() or is_rounding(u, v) for x, y in pairs for u, v in zip(x, y))


def changed_by_the_optimizer(difference, theirs, ours, inputs):
    """Which of two equal files ("theirs", "ours") computes something else once the runtime has optimized it. Which of two
    equal nodes the optimizer keeps, and so what it moves through it, depends on the order of the nodes."""
    if not difference or "optimized: True" not in difference:
        return None
    changed = [name for name, path in (("theirs", theirs), ("ours", ours)) if not optimized_alike(path, inputs)]
    return changed[0] if len(changed) == 1 else None


def closeness(source, theirs, ours, inputs):
    """Whether the deviation pays: which of the two models is nearer to the float model, where onnxruntime's runs at all."""
    if refused(theirs, inputs):
        return ", theirs does not run"
    with np.errstate(all="ignore"):
        flat = lambda path: np.concatenate([np.nan_to_num(y.astype(np.float64)).ravel() for x in run(path, False, inputs) for y in x])
        expected, a, b = flat(source), flat(theirs), flat(ours)
        theirs_error, our_error = np.linalg.norm(a - expected), np.linalg.norm(b - expected)
    if our_error > 1.1 * theirs_error:
        return FARTHER
    return NEARER if our_error < 0.9 * theirs_error else AS_NEAR


def for_driver(model, source, options):
    """The source; with operators of com.microsoft, which ONNX's inference does not know, with the types that it tells
    onnxruntime's quantizer, and the tensors of which it tells none even at the opset that this one converts to."""
    if all(n.domain != "com.microsoft" for n in model.graph.node):
        return {"model": str(source)}
    typed = onnx.shape_inference.infer_shapes(model)
    onnx.save(typed, folder / "typed.onnx")
    return {"model": str(folder / "typed.onnx"), "untyped": oracle.untyped(oracle.converted(typed, options))}


def put_down(model, ranges):
    """Where the model, its ranges, and the models that both sides make of them lie."""
    source, cache, theirs, ours = (folder / n for n in ("model.onnx", "ranges.json", "expected.onnx", "actual.onnx"))
    onnx.save(model, source)
    oracle.save_ranges(ranges, cache)
    for path in (theirs, ours):
        path.unlink(missing_ok=True)
    return source, cache, theirs, ours


def compare(model, ranges, options, inputs):
    """(verdict, detail, deviations). Verdicts that begin with 'FAIL' are failures."""
    source, cache, theirs, ours = put_down(model, ranges)
    error = None
    try:
        oracle.cached_quantize(source, cache, options, theirs)
    except Exception as e:
        error = str(e) if isinstance(e, oracle.Refused) else f"{type(e).__name__}: {str(e)[:200]}"
    reply = ask_driver(dict(for_driver(model, source, options), ranges=str(cache), options=options, output=str(ours)))
    found = reply.get("deviations", [])
    if reply["status"] == "error":
        if error:
            return "both refuse", f"{error} | {reply['message']}", []
        why = deviations.rejects(model, options)
        return (why, "", [why]) if why else ("FAIL ours refuses", reply["message"], [])
    if words := invalid(model, ours):
        return "FAIL our model is not valid", words, found
    words = refused(ours, inputs)
    if runs_no_source(words, source, inputs):
        return no_source(words), words, []
    excused = words and (any(w in words for w in RUNTIME_FAULTS) or any(n.op_type == "QuantizeLinear" for n in model.graph.node))
    if words and not excused:
        return "FAIL our model does not run", words, found
    if found:
        allowed = deviations.allowed(model, ranges, options)
        if error or refused(theirs, inputs):
            allowed |= deviations.WHERE_IT_FAILS
        unexpected = set(found) - allowed
        if unexpected:
            return "FAIL unexpected deviation", f"{sorted(unexpected)} of {found}", found
        return "deviates" + ("" if error or words else closeness(source, theirs, ours, inputs)), "", found
    if error:
        return "FAIL onnxruntime refuses", error, []
    if difference := canonical.compare(onnx.load(theirs), onnx.load(ours)):
        return "FAIL structure", difference, []
    if words:
        return "equal, but refused by the runtime", words, []
    difference = unequal_outputs(theirs, ours, inputs)
    if changed := changed_by_the_optimizer(difference, theirs, ours, inputs):
        return f"equal, but the optimizer changes {changed}", difference, []
    return ("FAIL outputs", difference, []) if difference else ("equal", "", [])


def run_seed(seed):
    case = graphs.generate(seed)
    options = oracle.random_options(np.random.default_rng([seed, 2]), case.model)
    try:
        tensors = oracle.float_tensors(case.model, options["op_types"])
        ranges = oracle.observe(case.model, case.inputs, tensors)
    except Exception as e:
        return f"seed {seed}", no_source(e), str(e)[:300], [], case.kinds, options
    rng = np.random.default_rng([seed, 3])
    odd = rng.random()
    if ranges and odd < 0.03:  # symmetric ranges, as onnxruntime's symmetric calibration gives
        ranges = {t: (-max(abs(lo), abs(hi)), max(abs(lo), abs(hi))) for t, (lo, hi) in ranges.items()}
    elif ranges and odd < 0.05:
        del ranges[sorted(ranges)[rng.integers(len(ranges))]]
    try:
        verdict, detail, found = compare(case.model, ranges, options, case.inputs)
    except Exception as e:
        verdict, detail, found = "FAIL crash", f"{type(e).__name__}: {e}", []
    return f"seed {seed}", verdict, detail, found, entered(case.model, verdict, found, case.kinds, options), options


def entered(model, verdict, ids, kinds, options):
    """The case's features, and with "+" before them the rules and quirks that it went through."""
    if verdict.startswith("FAIL") or verdict == "both refuse":
        return kinds
    ours = folder / "actual.onnx"
    refused_by_id = verdict.startswith("X")
    return kinds + Counter("+" + r for r in coverage.rules(model, None if refused_by_id else onnx.load(ours), options, ids))


def run_case(job):
    name, root, number = job
    model, inputs, ranges = cases.load(root, name)
    options = oracle.random_options(np.random.default_rng([number, 4]), model)
    if number == 0:
        options = dict(oracle.DEFAULTS)
    options["op_types"] = []  # the ranges are those of the default list
    try:
        verdict, detail, found = compare(model, ranges, options, inputs[:1])
    except Exception as e:
        verdict, detail, found = "FAIL crash", f"{type(e).__name__}: {e}", []
    return f"case {name} row {number}", verdict, detail, found, Counter({"model " + name: 1}), options


def self_test(count):
    """Renaming everything inside changes nothing; one ulp of one scale is a difference."""
    start_worker(None)
    compared = 0
    for seed in range(count):
        case = graphs.generate(seed)
        options = oracle.random_options(np.random.default_rng([seed, 2]), case.model)
        ranges = oracle.observe(case.model, case.inputs, oracle.float_tensors(case.model, options["op_types"]))
        onnx.save(case.model, folder / "model.onnx")
        oracle.save_ranges(ranges, folder / "ranges.json")
        try:
            oracle.quantize(folder / "model.onnx", folder / "ranges.json", options, folder / "expected.onnx")
        except Exception:
            continue
        model = onnx.load(folder / "expected.onnx")
        difference = canonical.compare(model, canonical.renamed(model, seed))
        assert difference is None, f"seed {seed}: renaming is seen as a difference:\n    {difference}"
        scale = next((i for i in model.graph.initializer if i.name.endswith("_scale")), None)
        if scale is None:
            continue
        value = numpy_helper.to_array(scale).copy()
        value.flat[0] = np.nextafter(value.flat[0], value.dtype.type(9))
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        next(i for i in changed.graph.initializer if i.name == scale.name).CopyFrom(numpy_helper.from_array(value, scale.name))
        assert canonical.compare(model, changed), f"seed {seed}: one ulp of {scale.name} is not seen"
        compared += 1
    assert compared >= count // 2, f"only {compared} of {count} graphs could be compared"
    print(f"self-test: {compared} models")


def report(results, minimum):
    verdicts, kinds, rules, ids, farther, failures, total = Counter(), Counter(), Counter(), Counter(), Counter(), [], 0
    judged, shown = Counter(), Counter()
    for label, verdict, detail, found, features, options in results:
        total += 1
        verdicts[verdict] += 1
        ids.update(set(found))
        judged.update(set(found) if verdict.endswith(NEARNESS) else ())
        farther.update(set(found) if verdict.endswith(FARTHER) else ())
        rules.update(k[1:] for k in features if k.startswith("+"))
        if verdict == "equal":
            kinds.update({k: 1 for k in features if not k.startswith("+")})
        if verdict.startswith("FAIL"):
            failures.append(label)
            shown[verdict] += 1
            if shown[verdict] <= 8:
                odd = {k: v for k, v in options.items() if v != oracle.DEFAULTS[k]}
                print(f"{label}: {verdict}\n    {detail}\n    options {json.dumps(odd)}", flush=True)
    print("verdicts:", dict(verdicts.most_common()))
    print("deviations:", dict(sorted(ids.items())))
    apart = too_far(farther, judged)
    print("equal cases by rule:", ", ".join(f"{k} {n}" for k, n in sorted(kinds.items())))
    rare = [k for k in EMITTERS if minimum and kinds[k] < minimum]
    if rare:
        print(f"FAIL fewer than {minimum} equal cases of: {rare}")
    missing = [r for r in coverage.REQUIRED if minimum is not None and not rules[r]]
    print("rules and quirks:", ", ".join(f"{r} {n}" for r, n in sorted(rules.items())))
    if missing:
        print(f"FAIL never met: {missing}")
    if failures:
        print(f"{len(failures)} of {total} failed; again with --seed S --only: {failures[:40]}")
    uncompared = minimum is not None and verdicts["equal"] < EQUAL * total
    if uncompared:
        print(f"FAIL {verdicts['equal']} of {total} compared as equal, at least {EQUAL:.0%} expected")
    return not (failures or rare or missing or apart or uncompared)


def too_far(farther, judged):
    """Ids whose files are farther from float than onnxruntime's in more than two cases and a tenth of those that tell."""
    print("farther from float:", {i: f"{n} of {judged[i]}" for i, n in sorted(farther.items())})
    apart = [i for i, n in farther.items() if n > max(2, judged[i] // 10)]
    if apart:
        print(f"FAIL deviations that do not pay: {apart}")
    return apart


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--count", type=int, default=int(os.environ.get("SEQTO_DIFFERENTIAL_COUNT", 600)))
    a.add_argument("--seed", type=int, default=0)
    for flag in ("--only", "--graphs", "--cases", "--self-test"):
        a.add_argument(flag, action="store_true")
    a = a.parse_args()
    self_test(20)
    if a.self_test:
        return 0
    assert os.path.exists(DRIVER), f"{DRIVER} is not there; build seqto_differential_driver"
    start, ok = time.time(), True
    if a.only:
        keep = Path(tempfile.gettempdir()) / f"seqto-differential-{a.seed}"
        start_worker(keep)
        result = run_seed(a.seed)
        print(json.dumps(result[5]), f"\n{result[:4]}\nfiles: {keep}")
        return result[1].startswith("FAIL")
    with tempfile.TemporaryDirectory(prefix="seqto-differential-") as parent, multiprocessing.get_context("fork").Pool(
            min(2, os.cpu_count() or 1), start_worker, (None, parent)) as pool:
        if not a.cases:
            seeds = [*FAILED_ONCE, *range(a.seed, a.seed + a.count)]
            ok = report(pool.imap(run_seed, seeds, chunksize=4), 20 if a.count >= 1000 else 1 if a.count >= 500 else None)
            print(f"{a.count} graphs in {time.time() - start:.0f} s", flush=True)
        root = os.environ.get("SEQTO_CASES_DIR", "")
        if a.graphs:
            pass
        elif not os.path.isdir(root):
            print(f"skipped: real models, SEQTO_CASES_DIR '{root}' is not there")
        else:
            start = time.time()
            jobs = [(name, root, number) for name in cases.names(root) for number in range(8)]
            ok = report(pool.imap(run_case, jobs), None) and ok
            print(f"{len(jobs)} rows over real models in {time.time() - start:.0f} s")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
