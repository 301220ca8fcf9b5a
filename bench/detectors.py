"""Heads of detectors by chance, behind trained nets (examples/detector): what the default static int8 leaves of map50_95, beside
the same with the last layers quantized too, the same without cut ranges, and onnxruntime's static QDQ in the same types (uint8
activations, int8 weights per channel; its defaults are int8 per tensor), in one run.

- lost: more than 1 % of the float model's figure
- dead: less than a tenth of it is left
- speed: float's time over the file's, one thread, rounds in turn; the geometric mean over the heads

The heads of seeds 0 to 499 were looked at while the defaults were mended. Later ones say what the defaults do to heads not seen.

usage: ./dev bench detectors [--count 500] [--seed 0] [--write] [--show]     (--show: a line for each head that lost; --write: into
bench/results, from another seed than 0 below the page's first table)
"""
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from PIL import Image

from _ratios import header

ROOT = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "examples" / "detector"))
import heads  # noqa: E402

BINARY = os.environ["SEQTO_BINARY"]
CALIBRATION, ROUNDS = 100, 40
MENDED_ON = 500  # heads below this seed were seen when the defaults were mended
WHOLE_RANGES = ["--activation-type", "uint8", "--per-channel", "--center", "--equalize", "--rounding", "learned", "--unify-concat",
                "--float-unlike-concat"]
QUANTIZED_ENDS = ["--improve", "--activation-type", "uint8", "--per-channel", "--no-float-unlike-concat"]
PREPROCESS = {True: "none", False: "unit"}  # where the graph divides by 255, and where it does not


def seqto(*args):
    done = subprocess.run([BINARY, "-q", "--json", *map(str, args)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def mean_precision(model, read, data, head, work):
    (work / "read.json").write_text(json.dumps(read))
    told = seqto("run", model, "--data", data / "images", "--labels", data / "labels", "--preprocess", PREPROCESS[head.bytes_in],
                 "--metric", f"map50_95={work / 'read.json'}", "-o", work / "outputs.npz")
    return json.loads(told)["metrics"]["map50_95"]


class Pictures(CalibrationDataReader):
    def __init__(self, folder, head):
        self.files, self.scale = iter(sorted(folder.glob("*.png"))[:CALIBRATION]), 1 if head.bytes_in else 255

    def get_next(self):
        file = next(self.files, None)
        if file is None:
            return None
        pixels = np.asarray(Image.open(file).convert("RGB"), np.float32).transpose(2, 0, 1)[None] / np.float32(self.scale)
        return {"images": pixels}


def times(files):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = [ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"]) for file in files]
    x = {"images": np.random.default_rng(0).random((1, 3, heads.SIDE, heads.SIDE), dtype=np.float32)}
    seen = [[] for _ in sessions]
    for _ in range(ROUNDS):
        for own, session in zip(seen, sessions):
            begin = time.perf_counter()
            session.run(None, x)
            own.append(time.perf_counter() - begin)
    return [statistics.median(own) for own in seen]


def compared(seed, calibration, data, work):
    head = heads.drawn(seed)
    model, read = heads.build(head)
    files = [work / f"{name}.onnx" for name in ("float", "ours", "ends", "whole", "theirs")]
    onnx.save(model, files[0])
    for file, flags in ((files[1], []), (files[2], QUANTIZED_ENDS), (files[3], WHOLE_RANGES)):
        seqto("quantize", files[0], "--data", calibration / "images", "--preprocess", PREPROCESS[head.bytes_in], *flags, "-o", file)
    quantize_static(files[0], files[4], Pictures(calibration / "images", head), quant_format=QuantFormat.QDQ,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True)
    return head, [mean_precision(file, read, data, head, work) for file in files], times(files)


def write(first, count, table):
    """The page; heads from another seed than 0 come below those from 0."""
    page = ROOT / "bench" / "results" / "detectors.md"
    seen = "looked at while the defaults were mended" if first < MENDED_ON else "not looked at before"
    part = f"{seen[0].upper()}{seen[1:]}: the heads of seeds {first} to {first + count - 1}.\n\n{table}"
    command = "detectors --write" + (f" --seed {first} --count {count}" if first else "")
    text = header(command, [f"{count} heads"], "bench/detectors.py") + part
    if first:
        page.write_text(page.read_text().split("\n## ")[0] + f"\n## From seed {first}\n\n" + text)
    else:
        page.write_text("# detectors\n\n" + text)


def main():
    option = lambda name, otherwise: int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else otherwise
    count, first = option("--count", 500), option("--seed", 0)
    names = ("seqto", "seqto, --no-float-unlike-concat", "seqto, ranges not cut", "onnxruntime, U8S8 per channel")
    kept, speeds = {name: [] for name in names}, {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for name, number, seed in (("calibration", CALIBRATION, 1), ("data", 200, 2)):
            subprocess.run([sys.executable, "-B", str(ROOT / "examples/detector/shapes.py"), str(work / name), "--count", str(number),
                            "--seed", str(seed)], check=True)
        for seed in range(first, first + count):
            head, found, taken = compared(seed, work / "calibration", work / "data", work)
            for i, name in enumerate(names):
                kept[name].append(found[i + 1] / found[0])
                speeds[name].append(taken[0] / taken[i + 1])
            if "--show" in sys.argv and kept["seqto"][-1] < 0.99:
                print(seed, head, " ".join(f"{v:.4f}" for v in found), flush=True)
    lines = ["| quantizer | heads | lost | dead | left of map50_95, median | least | speed |", "|---|---|---|---|---|---|---|"]
    for name in names:
        left = kept[name]
        speed = math.exp(statistics.mean(math.log(s) for s in speeds[name]))
        lines.append(f"| {name} | {count} | {sum(v < 0.99 for v in left)} | {sum(v < 0.1 for v in left)} | "
                     f"{statistics.median(left):.4f} | {min(left):.4f} | {speed:.2f} |")
    print("\n".join(lines))
    if "--write" in sys.argv:
        write(first, count, "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
