"""Calibration against plain inference of the same images and against min-max of its kind: time as ratios, peak memory over
the number of samples.

One run interleaves all contestants; the figures are medians over ROUNDS of the CPU time of a whole process (one thread:
what other programs do meanwhile does not count), model loading and image decoding included on every side of seqto.
onnxruntime's calibrator gets decoded arrays for nothing, and what Python's imports take is taken off its time.

SEQTO_CASES_DIR holds the models; ./dev bench calibrate
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _one_thread import sessions_on_one_thread
from _ratios import Ratios

ROUNDS = int(os.environ.get("ROUNDS", 3))
IMAGES = int(os.environ.get("IMAGES", 100))
SEQTO = os.environ["SEQTO_BINARY"]
IMPORTS = "onnxruntime's imports"


def measure(command):
    """CPU seconds, wall seconds and peak MB of a process."""
    before = time.perf_counter()
    with open(os.devnull, "w") as null:
        process = subprocess.Popen([str(c) for c in command], stdout=null, stderr=null)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - before, usage.ru_maxrss / 1024


def contestants(model, images, preprocess, out):
    data = ["--data", images, "--preprocess", preprocess, "--threads", "1"]
    calibrate = [SEQTO, "calibrate", model, *data, "-o", out / "ranges.json"]
    return {
        "plain inference": [SEQTO, "run", model, *data, "-o", out / "outputs.npz"],
        "minmax, fast": [*calibrate, "--fast-ranges"],
        "minmax, exact": calibrate,
        **{f"{m}, fast": [*calibrate, "--fast-ranges", "--method", m] for m in ("entropy", "percentile", "mse")},
        **{f"{m}, exact": [*calibrate, "--method", m] for m in ("entropy", "percentile", "mse")},
        IMPORTS: [sys.executable, "-B", __file__, "--onnxruntime", model, "0"],
        "onnxruntime's minmax": [sys.executable, "-B", __file__, "--onnxruntime", model, str(IMAGES)],
    }


def onnxruntime_minmax(model, count):
    """The calibrator alone; its inputs are the arrays of one decoded batch, again and again. Of no images: its imports."""
    import numpy as np
    import onnxruntime

    sessions_on_one_thread()
    from onnxruntime.quantization import CalibrationMethod, create_calibrator

    if not count:
        return
    session = onnxruntime.InferenceSession(model)
    shape = [d if isinstance(d, int) else 1 for d in session.get_inputs()[0].shape]
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)

    class Reader:
        left = count

        def get_next(self):
            self.left -= 1
            return {session.get_inputs()[0].name: values} if self.left >= 0 else None

    with tempfile.TemporaryDirectory() as folder:
        calibrator = create_calibrator(model, augmented_model_path=folder + "/augmented.onnx", calibrate_method=CalibrationMethod.MinMax)
        calibrator.collect_data(Reader())
        calibrator.compute_data()


def main():
    root = Path(os.environ["SEQTO_CASES_DIR"])
    if not root.is_dir():
        print("calibrate: skipped, the cases are not there")
        return 0
    folder = root / "mobilenetv2"
    case = json.loads((folder / "case.json").read_text())
    source = sorted(p for p in (folder / case["data"]).iterdir() if p.suffix.lower() in (".jpg", ".jpeg", ".png"))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)

        def images(count):
            target = out / f"images{count}"
            target.mkdir()
            for i in range(count):
                (target / f"{i:05}{source[i % len(source)].suffix}").symlink_to(source[i % len(source)].resolve())
            return target

        sides = contestants(folder / case["model"], images(IMAGES), folder / case["preprocess"], out)
        results = {name: [] for name in sides}
        for _ in range(ROUNDS):
            for name, command in sides.items():
                results[name].append(measure(command))
        ratios = Ratios("calibrate", ["mobilenetv2"])
        medians = {name: [statistics.median(r[k] for r in rows) for k in range(3)] for name, rows in results.items()}
        imports = medians.pop(IMPORTS)
        plain = medians["plain inference"][0]
        print(f"{'mobilenetv2, ' + str(IMAGES) + ' images, 1 thread':32} {'CPU s':>8} {'ratio':>6} {'min-max':>8} {'wall s':>8} {'peak MB':>8}")
        for name, (cpu, wall, peak) in medians.items():
            if name.startswith("onnxruntime's"):
                cpu, wall = cpu - imports[0], wall - imports[1]
            least = medians.get(f"minmax, {name.rsplit(', ')[-1]}")
            beside = f"{cpu / least[0]:.2f}" if least else ""
            if name != "plain inference":
                ratios.add(f"{name} / plain inference", cpu / plain, "lower")
            print(f"{name:32} {cpu:8.2f} {cpu / plain:6.2f} {beside:>8} {wall:8.2f} {peak:8.0f}")
        many = images(10 * IMAGES)
        for method in ("minmax", "percentile"):
            for flag in ("--fast-ranges", "--exact-ranges"):
                few_mb, many_mb = (measure([SEQTO, "calibrate", folder / case["model"], "--data", d, "--preprocess", folder / case["preprocess"],
                                            "--threads", "1", "-o", out / "r.json", "--method", method, flag])[2]
                                   for d in (out / f"images{IMAGES}", many))
                print(f"peak memory of {method} {flag}: {few_mb:.0f} MB for {IMAGES} images, {many_mb:.0f} MB for {10 * IMAGES}")
    return ratios.finish()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--onnxruntime":
        onnxruntime_minmax(sys.argv[2], int(sys.argv[3]))
        sys.exit(0)
    sys.exit(main())
