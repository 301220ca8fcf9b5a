"""An encoder of 110 million parameters (12 layers of 768, 12 heads, 30,522 words; random weights): `seqto quantize` beside
onnxruntime's quantizers of the same kind, in one run, medians of three on both sides. Wall time of the whole process and of the small
one that measures its memory for ours. For onnxruntime's two times: the call alone, without starting Python and importing it, and the
whole process, which is what a user waits for. Memory is the peak of the process, over the file.

usage: ./dev bench encoder [--tune SECONDS]     (--tune: also `seqto tune --max-time SECONDS`, and what its front is)
"""
import json
import logging
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

ROOT = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "tests"))
from testing import transformers  # noqa: E402
from quantize import BINARY, ROUNDS, measured, theirs  # noqa: E402
from _ratios import Ratios  # noqa: E402

KINDS = {"dynamic": ("--mode", "dynamic"), "8-bit weights": ("--mode", "weights", "--weight-bits", "8"),
         "4-bit weights": ("--mode", "weights", "--weight-bits", "4")}


def save_encoder(path, layers=12, words=30522):
    sizes = {"WIDTH": 768, "HEADS": 12, "SIZE": 64, "WIDE": 3072, "WORDS": words, "LAYERS": layers, "TOKENS": 128}
    for name, value in sizes.items(): setattr(transformers, name, value)
    onnx.save(transformers.encoder(fused=False), path)


def quantize_theirs(kind, model, output):
    from onnxruntime.quantization import QuantType, matmul_nbits_quantizer, quantize_dynamic
    logging.disable(logging.WARNING)
    start = time.perf_counter()
    if kind == "dynamic":
        quantize_dynamic(model, output, weight_type=QuantType.QInt8)
    else:
        quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load(model), bits=int(kind[0]), block_size=128)
        quantizer.process()
        quantizer.model.save_model_to_file(output)
    print(time.perf_counter() - start)


def tune(model, folder, seconds):
    ids = np.random.default_rng(1).integers(0, 30522, (256, 128))
    np.savez(os.path.join(folder, "ids.npz"), input_ids=ids)
    start = time.perf_counter()
    subprocess.run([BINARY, "tune", model, "--data", os.path.join(folder, "ids.npz"), "--max-time", seconds, "-o",
                    os.path.join(folder, "out")], check=True, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    summary = json.loads((pathlib.Path(folder) / "out" / "summary.json").read_text())
    before = summary["baseline"]
    for point in summary["front"]:
        print(f"  {point['name']:4} {before['size_bytes'] / point['size_bytes']:5.2f} x smaller, "
              f"{before['latency_ns']['median'] / point['latency_ns']['median']:5.2f} x as fast, KL {point['losses']['kl']:.3g}")
    print(f"tune --max-time {seconds}: {wall:.0f} s, {len(summary['front'])} points")
    assert wall <= 1.05 * float(seconds) and len(summary["front"]) > 1, "a front of two points or more within the time expected"


def main():
    ratios = Ratios("encoder", ["encoder of 110 million parameters, generated"])
    with tempfile.TemporaryDirectory() as work:
        at = lambda name: os.path.join(work, name)
        save_encoder(at("model.onnx"))
        size = os.path.getsize(at("model.onnx"))
        for kind, how in KINDS.items():
            # A new file each, as onnxruntime's.
            runs = [measured(BINARY, "quantize", at("model.onnx"), *how, "-o", at(f"ours {kind} {i}.onnx")) for i in range(ROUNDS)]
            seconds, peak = (statistics.median(run[k] for run in runs) for k in range(2))
            call, whole, reference_peak = theirs("theirs", kind, at("model.onnx"), at(f"theirs {kind}.onnx"), script=__file__)
            print(f"{kind}: seqto {seconds:.2f} s; onnxruntime's call {call:.1f} s, {call / seconds:.1f} x (goal 10), its script {whole:.1f} s, "
                  f"{whole / seconds:.1f} x; peak memory {peak / size:.2f} x the file (goal 1.3), onnxruntime {reference_peak / size:.2f} x; files "
                  f"{os.path.getsize(at(f'ours {kind} 0.onnx')) / 1e6:.1f} and {os.path.getsize(at(f'theirs {kind}.onnx')) / 1e6:.1f} MB", flush=True)
            ratios.add(f"{kind}: onnxruntime / seqto", call / seconds, "higher")
            ratios.add(f"{kind}: onnxruntime's whole script / seqto", whole / seconds, "higher")
            ratios.add(f"{kind}: peak memory / file", peak / size, "lower")
        if "--tune" in sys.argv: tune(at("model.onnx"), work, sys.argv[sys.argv.index("--tune") + 1])
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(quantize_theirs(*sys.argv[2:]) if sys.argv[1:2] == ["theirs"] else main())
