"""Bits for the layers of small transformers: KL of what strategies and other tools make of them, at equal bytes.

`chain` of `tune` against its other strategies (docs/design/search.md), against the fixed rule of onnxruntime-genai's
builder (mixed_layers, last_matmul) as onnxruntime writes it, and against NNCF's mixed precision in its ONNX backend. A
language model, the same with its KV cache fed back, a text encoder, and the project's own encoder for retrieval and
recognizer of words. Losses are recomputed here with onnxruntime on samples that no side saw: KL of the next token at every
position, of the class for the encoder; 1 - cosine of the embedding for retrieval.

A row is one other side at 20 sizes. Of the rule these are four presets with five ways of rounding; of NNCF 20 shares in
4 bits, plain and with scale estimation and AWQ, the better of both. Against each file stands what chain, with 4 bits in
three block sizes and 8 bits in two, finds in its bytes: its study goes on with them as --max-size. Of strategies they are
20 budgets, evenly from the cheapest scheme everywhere to the next one everywhere, of the same two schemes: the best plan
of the front within each. chain's study goes on with the budget, or with the bytes of the other plan where that leaves
more than 1 %. All sides start from the model in opset 21 without the exporter's metadata. A table that embedding and head
share counts once for every side.

usage: ./dev bench sequences [--write]    SEQTO_BENCH_CASE=tiny_lm,retrieval  some cases only
       SEQTO_BENCH_NETS=DIR  retrieval and speech from DIR/retrieval, DIR/speech, as their train.py --full makes them
       SEQTO_BENCH_STRATEGIES=dynamic_program  some strategies only, or none
       SEQTO_BENCH_KEEP=DIR               what was made before is taken from there, and left there
       --kept                             rows of what is there alone: a long run put together from several
       SEQTO_NNCF_PYTHON=PATH             a Python that has nncf, instead of a venv in .cache/nncf
"""
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter

import _peers
from _ratios import header
from _sequences_cases import CASES, Judge
from _sequences_tools import for_other_tools, genai, nncf

SIZES, BLOCK, RESAMPLES = 20, 32, 1000
SCHEMES = [f"int4_weights+block_size={BLOCK}", f"int8_weights+block_size={BLOCK}"]
MORE = ["int4_weights+block_size=64", "int4_weights+block_size=128", "int8_weights"]
OURS = "chain"
KEPT = "--kept" in sys.argv
STRATEGIES = ["dynamic_program", "greedy_bits", "weighted_error", "weight_quantization_error",
              "hessian_input_activation", "mean_activation_variance", "mean_activation_magnitude", "mixed_layers"]


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def tune(model, data, strategy, out, schemes, *flags):
    """`data`: the path, and the loss of the search."""
    subprocess.run([os.environ["SEQTO_BINARY"], "-q", "tune", model, "--data", data[0], "-o", out, "--strategy", strategy,
                    "--objectives", f"{data[1]},size", "--schemes", ",".join(schemes), "--calibration-samples", "48",
                    "--search-samples", "48", "--evaluation-samples", "48", *map(str, flags)],
                   check=True, stdout=subprocess.DEVNULL)
    return json.loads((out / "summary.json").read_text())


def tuned(model, data, strategy, out, schemes, *flags):
    """The front: (bytes, path) of each plan."""
    kept = out / "front"
    if not kept.is_dir() and KEPT:
        return []
    if not kept.is_dir():
        front = tune(model, data, strategy, out, schemes, "--max-front", 80, *flags)["front"]
        kept.mkdir()
        for point in front:
            shutil.copy(out / point["file"], kept)
    return sorted((path.stat().st_size, path) for path in kept.iterdir())


def filled(model, data, out, schemes, budgets):
    """What `chain` selects within each budget, (bytes, path), where it can be met."""
    kept = out / "filled"
    kept.mkdir(exist_ok=True)
    least = min(path.stat().st_size for path in (out / "front").iterdir())
    for budget in (budget for budget in budgets if budget >= least):
        path = kept / f"{budget}.onnx"
        if not path.exists() and not KEPT:
            summary = tune(model, data, OURS, out, schemes, "--max-front", 6, "--max-size", budget)
            shutil.copy(out / summary["selected_file"], path)
    found = {int(path.stem): (path.stat().st_size, path) for path in kept.iterdir()}
    return {budget: point for budget, point in found.items() if point[0] <= budget}


def budgets_of(study):
    """Evenly between the two cheapest schemes everywhere."""
    trials = [json.loads(line).get("trial", {}) for line in study.read_text().splitlines()]
    low, high = sorted({trial["size_bytes"] for trial in trials if trial.get("step") == "uniform"})[:2]
    return [round(low + (high - low) * i / SIZES) for i in range(1, SIZES + 1)]


def within(side, size):
    return max((point for point in side if point[0] <= size), default=None)


def points_within(theirs, budgets):
    """Their best plans, each with the bytes that chain may take against it."""
    points = [(budget, within(theirs, budget)) for budget in budgets]
    return [(budget if point[0] > 0.99 * budget else point[0], point) for budget, point in points if point]


def compared(judge, pairs):
    """Geometric mean of our KL over theirs with its interval, the worst of them, and how the bytes compare."""
    a, b = (np.stack([judge.losses(pair[side][1]) for pair in pairs]) for side in (0, 1))
    ratios = a.mean(1) / b.mean(1)
    draw = np.random.default_rng(0).integers(0, a.shape[1], (RESAMPLES, a.shape[1]))
    means = [np.exp(np.log(a[:, d].mean(1) / b[:, d].mean(1)).mean()) for d in draw]
    worst = int(ratios.argmax())
    worst_again = [a[worst, d].mean() / b[worst, d].mean() for d in draw]
    return {"mean": float(np.exp(np.log(ratios).mean())), "interval": np.quantile(means, (0.025, 0.975)),
            "worst": float(ratios[worst]), "worst_interval": np.quantile(worst_again, (0.025, 0.975)),
            "at": pairs[worst][1][0], "not_above": int((ratios <= 1).sum()), "sizes": len(pairs),
            "bytes": min(ours[0] / theirs[0] for ours, theirs in pairs)}


def rows_of(name, folder):
    of, kind = CASES[name]
    case = kind(Path(os.environ["SEQTO_CASES_DIR"]) / of)
    data, source, unshared = (folder / "tune.npz", case.objective), folder / "model.onnx", folder / "unshared.onnx"
    np.savez(data[0], **case.tune())
    onnx.save(onnx.version_converter.convert_version(onnx.load(case.model), 21), source)
    shared = for_other_tools(source, unshared)
    judge = Judge(case)
    rows = []

    def add(side, out, schemes, points):
        ours = filled(source, data, out, schemes, [size for size, _ in points])
        pairs = [(ours.get(size), point) for size, point in points]
        for mine, their in pairs:
            say(f"{name:13} {side:26} {their[0]:9} {judge.losses(their[1]).mean():.3g}   ours "
                + (f"{mine[0]:9} {judge.losses(mine[1]).mean():.3g}" if mine else "none"))
        if pairs := [pair for pair in pairs if pair[0]]:
            rows.append(row(name, side, compared(judge, pairs)))
            print(rows[-1], flush=True)

    tuned(source, data, OURS, folder / "all", SCHEMES + MORE)
    def add_tool(side, points): add(side, folder / "all", SCHEMES + MORE, [(point[0], point) for point in points])
    if case.blocks:
        add_tool("genai mixed_layers", genai(unshared, shared, folder))
    by_share = {}
    for size, path in nncf(unshared, shared, data[0], folder, SIZES):
        share = path.stem.removesuffix("s")
        if share not in by_share or judge.losses(path).mean() < judge.losses(by_share[share][1]).mean():
            by_share[share] = (size, path)
    if by_share:
        add_tool(f"NNCF {_peers.NNCF[1][0].split('==')[1]}", sorted(by_share.values()))
    strategies = [s for s in STRATEGIES if (case.blocks or s != "mixed_layers") and s in os.environ.get("SEQTO_BENCH_STRATEGIES", s).split(",")]
    ours = tuned(source, data, OURS, folder / OURS, SCHEMES) if strategies else []
    if not ours:
        return rows
    budgets = budgets_of(folder / OURS / "study.jsonl")
    for strategy in strategies:
        # Beyond the last budget no side's plans are asked for.
        bound = ["--max-size", budgets[-1]] if strategy == "dynamic_program" else []
        theirs = tuned(source, data, strategy, folder / strategy, SCHEMES, *bound)
        add(strategy, folder / OURS, SCHEMES, points_within(theirs, budgets))
    return rows


def row(name, side, found):
    low, high = found["interval"]
    worst_low, worst_high = found["worst_interval"]
    return (f"| {name} | {side} | {found['sizes']} | {found['mean']:.2f} ({low:.2f}-{high:.2f}) | {found['worst']:.2f} "
            f"({worst_low:.2f}-{worst_high:.2f}) at {found['at'] / 1e6:.2f} MB | {found['not_above']} | {found['bytes']:.3f} |")


def main():
    cases = Path(os.environ["SEQTO_CASES_DIR"])
    wanted = os.environ.get("SEQTO_BENCH_CASE", ",".join(CASES)).split(",")
    names = [name for name in wanted if name in CASES and (cases / CASES[name][0]).is_dir()]
    logging.disable(logging.WARNING)  # of onnxruntime's quantizer, a line a layer
    if not names:
        print("sequences: skipped, the cases are not there")
        return 0
    head = ["| case | other side | sizes | KL, ours / theirs | at worst | not above | least bytes, ours / theirs |",
            "|---|---|---|---|---|---|---|"]
    print("\n".join(head), flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            folder = Path(os.environ.get("SEQTO_BENCH_KEEP", scratch)) / name
            folder.mkdir(parents=True, exist_ok=True)
            rows += rows_of(name, folder)
    if "--write" in sys.argv:
        page = Path(os.environ["SEQTO_SOURCE_DIR"]) / "bench" / "results" / "sequences.md"
        names = [name for name in names if any(row.startswith(f"| {name} |") for row in rows)]
        page.write_text("# sequences\n\n" + header("sequences --write", names, "bench/sequences.py") + "\n".join(head + rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
