"""Peak memory of calibration does not depend on the number of samples, whatever the method."""
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing import models  # noqa: E402

FEW, MANY, SIDE = 10, 60, 256


def model(path):
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array((rng.normal(size=s) * 0.2).astype(np.float32), n) for n, s in (("w1", (64, 3, 3, 3)), ("w2", (8, 64, 3, 3)))]
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"], "conv1", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"], "relu"),
             helper.make_node("Conv", ["b", "w2"], ["y"], "conv2", pads=[1, 1, 1, 1])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, SIDE, SIDE])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def peak_mb(path, images, out, flags):
    command = [os.environ["SEQTO_BINARY"], "calibrate", path, "--data", images, "--preprocess", "unit", "--threads", "1", "-o", out, *flags]
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # a child starts with its parent's peak
    assert usage.ru_maxrss > own, "the process is too small to be measured"
    return usage.ru_maxrss / 1024


def main():
    if models.sanitized():
        print("skipped: AddressSanitizer keeps memory that was given back")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model(folder / "model.onnx")
        rng = np.random.default_rng(1)
        for name, count in (("few", FEW), ("many", MANY)):
            (folder / name).mkdir()
            for i in range(count):
                pixels = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / name / f"{i:04}.png", compress_level=1)
        for flags in (["--method", "minmax"], ["--method", "percentile"], ["--method", "mse", "--fast-ranges"]):
            few, many = (peak_mb(folder / "model.onnx", folder / n, folder / "r.json", flags) for n in ("few", "many"))
            # All activations of all samples would be 1.8 GB more, all decoded images 10 MB.
            assert many < few * 1.05, f"{flags}: {few:.1f} MB for {FEW} samples, {many:.1f} MB for {MANY}"
            print(f"{' '.join(flags)}: {few:.1f} MB for {FEW} samples, {many:.1f} MB for {MANY}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
