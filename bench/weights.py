"""Weights in 4 bits: onnxruntime's quantizers of MatMulNBits (round to nearest, HQQ, GPTQ, k-quant) beside `seqto quantize --mode weights`,
on a language model, its form with a key-value cache and an encoder. KL of what held-out pages give, bytes, and time of a batch
over the float model's. Both sides get the model without the exporter's notes on nodes, and the same calibration pages.
GPTQ of onnxruntime reads a column of an upper triangle (`Hinv1[i:, i]`), so it corrects nothing: a page says where it equals rounding.

For each of their sizes: the least KL of ours that is no larger, over the least of theirs (goal: 0.5). 1 % more bytes are none.

usage: ./dev bench weights [--write]     (SEQTO_BENCH_CASE=tiny_encoder for one case; --write: into bench/results)
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

import _peers
from _ratios import folder, header

PEER = ("torch", ["torch", "onnx", "onnx_ir", _peers.ONNXRUNTIME, "ml_dtypes", "sympy"])  # HQQ needs the first
BLOCKS = (32, 128)
OURS = (16, 32, 64, 128)
BATCH, ROUNDS, DRAWS = 8, 15, 2000


# --- the cases: (model, samples to calibrate with, samples to judge by)

def pages(folder, count):
    ids = np.load(folder / "lm_calib.npz")
    held_out = np.load(folder / "inputs.npz")
    return ids[ids.files[0]], held_out[held_out.files[0]][count:]


def language_model(folder):
    train, test = pages(folder, 114)
    return "model.onnx", {"input_ids": train}, {"input_ids": test}


def with_cache(folder):
    def fed(ids):
        past = {f"past_key_values.{i}.{k}": np.zeros((len(ids), 2, 0, 64), np.float32) for i in range(4) for k in ("key", "value")}
        positions = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        return {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.ascontiguousarray(positions), **past}
    train, test = pages(folder, 114)
    return "model_kv.onnx", fed(train), fed(test)


def encoder(folder):
    arrays = np.load(folder / "inputs.npz")
    part = lambda rows: {k: arrays[k][rows] for k in arrays.files if k != "y"}
    return "model.onnx", part(slice(114)), part(slice(114, None))


CASES = {"tiny_lm": ("tiny_lm", language_model), "tiny_lm_kv": ("tiny_lm", with_cache), "tiny_encoder": ("tiny_encoder", encoder)}


def without_notes(source, path):
    model = onnx.load(source)
    for node in model.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output]:
        value.ClearField("metadata_props")
    onnx.save(model, path)


# --- theirs, in a process of another environment

def write_theirs(model, samples, out):
    import logging
    from onnxruntime.quantization import CalibrationDataReader
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits
    logging.disable(logging.INFO)
    arrays = dict(np.load(samples))

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.rest = iter(self)

        def __iter__(self):
            return ({k: v[i:i + 1] for k, v in arrays.items()} for i in range(len(next(iter(arrays.values())))))

        def __deepcopy__(self, memo):
            return self

        def get_next(self):
            return next(self.rest, None)

    tables = {"op_types_to_quantize": ("MatMul", "Gather"), "quant_axes": (("MatMul", 0), ("Gather", 1))}
    for block in BLOCKS:
        for name, options in {
            "RTN": {}, "RTN, tables too": tables,
            "k-quant": {"algo_config": nbits.KQuantWeightOnlyQuantConfig()},
            "HQQ": {"algo_config": nbits.HQQWeightOnlyQuantConfig(block_size=block)},
            "GPTQ": {"algo_config": nbits.GPTQWeightOnlyQuantConfig(calibration_data_reader=Reader())},
            "GPTQ, mse": {"algo_config": nbits.GPTQWeightOnlyQuantConfig(calibration_data_reader=Reader(), mse=True)},
        }.items():
            try:
                quantizer = nbits.MatMulNBitsQuantizer(model, bits=4, block_size=block, **options)
                quantizer.process()
                quantizer.model.save_model_to_file(os.path.join(out, f"{name}, {block}.onnx"))
            except Exception as error:  # k-quant and GPTQ take no last block that is short
                print(f"  onnxruntime {name}, {block}: {type(error).__name__}: {str(error)[:80]}")


# --- ours

def write_ours(model, samples, out):
    for block in OURS:
        improved = ["--data", samples, "--improve"]
        for name, flags in {"nearest": [], "improved": improved, "improved, tables left": [*improved, "--op-types-to-quantize", "MatMul"]}.items():
            done = subprocess.run([os.environ["SEQTO_BINARY"], "-q", "quantize", model, "--mode", "weights", "--weight-bits", "4",
                                   "--weight-block-size", str(block), *flags, "-o", os.path.join(out, f"{name}, {block}.onnx")],
                                  capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr)


# --- both sides measured alike

def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def batches(samples):
    count = len(next(iter(samples.values())))
    return [{k: v[at:at + BATCH] for k, v in samples.items()} for at in range(0, count, BATCH)]


def log_probabilities(path, samples):
    opened = session(path)
    logits = np.concatenate([opened.run(None, batch)[0] for batch in batches(samples)]).astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def judged(path, reference, samples):
    found = log_probabilities(path, samples)
    kl = (np.exp(reference) * (reference - found)).sum(-1)
    each = kl.reshape(len(kl), -1).mean(1)
    means = np.random.default_rng(0).choice(each, (DRAWS, len(each))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    same = (reference.argmax(-1) == found.argmax(-1)).mean()
    return {"bytes": os.path.getsize(path), "kl": each.mean(), "low": low, "high": high, "same": same}


def times(paths, batch):
    """Median over rounds of each one's time over that of the first in the same round."""
    opened = [session(path) for path in paths]
    ratios = [[] for _ in opened]
    for turn in range(ROUNDS + 1):
        taken = []
        for each in opened:
            start = time.perf_counter()
            each.run(None, batch)
            taken.append(time.perf_counter() - start)
        if turn:
            for ratio, seconds in zip(ratios, taken):
                ratio.append(seconds / taken[0])
    return [float(np.median(ratio)) for ratio in ratios]


def goal(theirs, ours):
    """(size, ratio of KL) for each size of theirs."""
    found = []
    for size in sorted({one["bytes"] for one in theirs}):
        least = lambda side: min((one["kl"] for one in side if one["bytes"] <= 1.01 * size), default=None)
        a, b = least(ours), least(theirs)
        found.append((size, None if a is None else a / b))
    return found


def rounding_only(found):
    """The blocks for which GPTQ gives what rounding to nearest gives."""
    blocks = [b for b in BLOCKS if f"GPTQ, {b}" in found]
    return ", ".join(str(b) for b in blocks if np.isclose(found[f"GPTQ, {b}"]["kl"], found[f"RTN, {b}"]["kl"], rtol=1e-6))


def measure(name, python, work):
    case, inputs = CASES[name]
    case = pathlib.Path(os.environ["SEQTO_CASES_DIR"]) / case
    model, train, test = inputs(case)
    at = lambda part: os.path.join(work, part)
    without_notes(case / model, at("float.onnx"))
    np.savez(at("samples.npz"), **train)
    for side in ("theirs", "ours"):
        os.mkdir(at(side))
    subprocess.run([python, "-B", __file__, "theirs", at("float.onnx"), at("samples.npz"), at("theirs")], check=True)
    write_ours(at("float.onnx"), at("samples.npz"), at("ours"))
    paths = [at("float.onnx"), *(str(p) for side in ("theirs", "ours") for p in sorted(pathlib.Path(at(side)).iterdir()))]
    reference = log_probabilities(paths[0], test)
    taken = times(paths, batches(test)[0])
    lines = [f"\n{name}, float {os.path.getsize(paths[0]) / 1e6:.2f} MB:\n",
             "| file | MB | KL | 95 % interval | same first answer | time / float |", "|---|---|---|---|---|---|"]
    sides, stems = {"theirs": [], "ours": []}, {}
    for path, ratio in zip(paths[1:], taken[1:]):
        one = judged(path, reference, test)
        file = pathlib.Path(path)
        sides[file.parent.name].append(one)
        stems[file.stem] = one
        tool = "seqto" if file.parent.name == "ours" else "onnxruntime"
        lines.append(f"| {tool} {file.stem} | {one['bytes'] / 1e6:.3f} | {one['kl']:.6f} | {one['low']:.6f} to {one['high']:.6f} "
                     f"| {100 * one['same']:.1f} % | {ratio:.2f} |")
    lines.append("")
    if same := rounding_only(stems):
        lines.append(f"- GPTQ of onnxruntime {onnxruntime.__version__} equals its rounding (blocks of {same}): no column takes over what the others lose")
    for size, ratio in goal(sides["theirs"], sides["ours"]):
        lines.append(f"- at most {size / 1e6:.3f} MB: KL " + ("none of ours is that small" if ratio is None else f"{ratio:.2f} x theirs"))
    return lines


def main():
    root = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"])
    wanted = [name for name in os.environ.get("SEQTO_BENCH_CASE", "").split(",") if name]
    names = [name for name, (case, _) in CASES.items() if (not wanted or name in wanted)
             and os.path.isdir(os.path.join(os.environ["SEQTO_CASES_DIR"], case))]
    if not names:
        print("weights: skipped, the cases are not there")
        return 0
    python = _peers.python_with(root, PEER, "weights")
    if not python:
        return 0
    lines = []
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            found = measure(name, python, work)
        print("\n".join(found), flush=True)
        lines += found
    if "--write" in sys.argv[1:]:
        page = "# Weights in 4 bits\n\n" + header("weights", names, "bench/weights.py") + "\n".join(lines).lstrip() + "\n"
        (folder() / "weights.md").write_text(page)
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "theirs":
        sys.exit(write_theirs(*sys.argv[2:]))
    sys.exit(main())
