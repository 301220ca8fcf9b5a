"""Learned rounding from data to file: on the example network the loss falls, nothing but codes and biases changes, and
the bytes are the same each time. Per tensor and per channel, and with asymmetric weights."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

SAMPLES = 64


def outputs(path, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: v[None]})[0].reshape(1, -1) for v in x]).astype(np.float64)


def kl(a, b):
    log = lambda z: z - z.max(1, keepdims=True) - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True))
    return float((np.exp(log(a)) * (log(a) - log(b))).sum(1).mean())


def main():
    example = Path(__file__).parents[2] / "examples" / "digits"
    x = np.load(example / "digits.npz")["x"].astype(np.float32)
    learn, judge = x[:SAMPLES], x[SAMPLES : SAMPLES + 300]
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        data, model = scratch / "learn.npz", example / "model.onnx"
        np.savez(data, x=learn)
        float_outputs = outputs(model, judge)
        for flags in ([], ["--per-channel", "--activation-type", "uint8"], ["--symmetric-weights", "false"]):
            files = {}
            for name, rounding in (("nearest", "nearest"), ("learned", "learned"), ("again", "learned")):
                files[name] = scratch / f"{name}.onnx"
                subprocess.run([os.environ["SEQTO_BINARY"], "quantize", model, "-o", files[name], "--data", data, "--rounding",
                                rounding, *flags], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            assert files["learned"].read_bytes() == files["again"].read_bytes()
            before, after = (onnx.load(files[n]) for n in ("nearest", "learned"))
            assert [n.SerializeToString() for n in before.graph.node] == [n.SerializeToString() for n in after.graph.node]
            changed = set()
            for b, a in zip(before.graph.initializer, after.graph.initializer):
                if b.SerializeToString() == a.SerializeToString():
                    continue
                changed.add(a.name)
                assert a.name.endswith("_quantized"), a.name
                if a.data_type != onnx.TensorProto.INT32:
                    steps = np.abs(numpy_helper.to_array(a).astype(int) - numpy_helper.to_array(b).astype(int))
                    assert np.median(steps) <= 1, (a.name, np.median(steps))
            losses = [kl(float_outputs, outputs(files[n], judge)) for n in ("nearest", "learned")]
            print(*(flags or ["default"]), "KL %.3g nearest, %.3g learned, %d tensors changed" % (*losses, len(changed)))
            assert changed and losses[1] < losses[0], losses


if __name__ == "__main__":
    sys.exit(main())
