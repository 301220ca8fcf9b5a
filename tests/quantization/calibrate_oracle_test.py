"""Calibration and quantization from data to file against onnxruntime's quantize_static: the models must be identical.

Both run the float model on one thread, since the order of sums in a convolution depends on the number of threads.
The example in the repository is always compared; the real models where SEQTO_CASES_DIR has them.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
import canonical  # noqa: E402
import cases  # noqa: E402

SAMPLES = 12
NewOptions = onnxruntime.SessionOptions


def one_thread():
    options = NewOptions()
    options.intra_op_num_threads = 1
    return options


def check(name, model, samples, scratch, activation="int8"):
    source, theirs, ours, data = (scratch / n for n in ("model.onnx", "expected.onnx", "actual.onnx", "data.npz"))
    onnx.save(model, source)
    np.savez(data, **{k: np.concatenate([s[k] for s in samples]) for k in samples[0]})
    kind = {"int8": onnxruntime.quantization.QuantType.QInt8, "uint8": onnxruntime.quantization.QuantType.QUInt8}[activation]
    cache = scratch / f"ranges-{activation}.json"
    onnxruntime.SessionOptions = one_thread
    onnxruntime.quantization.quantize_static(str(source), str(theirs), cases.Samples(samples), activation_type=kind,
                                             calibration_cache_path=str(cache))
    onnxruntime.SessionOptions = NewOptions
    seqto = os.environ["SEQTO_BINARY"]
    quiet = dict(check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([seqto, "quantize", source, "-o", ours, "--data", data, "--threads", "1", "--activation-type", activation], **quiet)
    difference = canonical.compare(onnx.load(theirs), onnx.load(ours))
    assert difference is None, f"{name} {activation}:\n    {difference}"
    # Their ranges are read by us, ours by them.
    subprocess.run([seqto, "quantize", source, "-o", ours, "--ranges", cache, "--activation-type", activation], **quiet)
    difference = canonical.compare(onnx.load(theirs), onnx.load(ours))
    assert difference is None, f"{name} {activation} from onnxruntime's ranges:\n    {difference}"
    back = scratch / "back.json"
    subprocess.run([seqto, "calibrate", source, "-o", back, "--data", data, "--threads", "1"], **quiet)
    onnxruntime.quantization.quantize_static(str(source), str(ours), None, activation_type=kind, calibration_cache_path=str(back))
    difference = canonical.compare(onnx.load(theirs), onnx.load(ours))
    assert difference is None, f"{name} {activation} by onnxruntime from our ranges:\n    {difference}"
    print(f"{name} {activation}: identical")


def main():
    example = Path(__file__).parents[2] / "examples" / "digits"
    x = np.load(example / "digits.npz")["x"][:SAMPLES].astype(np.float32)
    jobs = [("examples/digits", onnx.load(example / "model.onnx"), [{"x": v[None]} for v in x])]
    root = os.environ.get("SEQTO_CASES_DIR", "")
    if os.path.isdir(root):
        for name in ("resnet20", "dscnn_kws", "shufflenetv2_x05", "mobilenetv2"):
            folder = Path(root) / name
            case = json.loads((folder / "case.json").read_text())
            model = onnx.load(folder / case["model"])
            for i, node in enumerate(model.graph.node):
                node.name = node.name or f"node_{i}"
            jobs.append((name, model, cases.inputs(folder, case, model, SAMPLES)))
    else:
        print(f"skipped: the real models, SEQTO_CASES_DIR '{root}' is not there")
    for job in jobs:
        for activation in ("int8", "uint8"):
            with tempfile.TemporaryDirectory() as scratch:
                check(*job, Path(scratch), activation)
    return 0


if __name__ == "__main__":
    sys.exit(main())
