"""Weights in 8 bits and float16: the model with them gives exactly what the float model gives with the weights that
numpy quantizes and dequantizes; it passes the checker, loads, runs, and costs no node once it is loaded."""

import os
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import save, seqto, weight

R = np.random.default_rng(3)


def session(path, optimized=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if optimized:
        options.optimized_model_filepath = str(optimized)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def outputs(path, feed):
    return session(path).run(None, feed)


def symmetric(blocks):
    """Groups along the last axis, quantized to int8 and back, as float32 arithmetic gives it."""
    largest = np.abs(blocks).max(axis=-1, keepdims=True).astype(np.float64)
    scale = np.where(largest == 0, 1, 2 * largest / 254).astype(np.float32)
    return np.clip(np.rint(blocks / scale), -128, 127).astype(np.float32) * scale


def asymmetric(blocks):
    low = np.minimum(blocks.min(axis=-1, keepdims=True), 0).astype(np.float64)
    high = np.maximum(blocks.max(axis=-1, keepdims=True), 0).astype(np.float64)
    exact = (high - low) / 255
    zero = np.rint(-low / exact).astype(np.float32)
    scale = exact.astype(np.float32)
    return (np.clip(np.rint(blocks / scale) + zero, 0, 255) - zero).astype(np.float32) * scale


def along(array, order, keep, block, function):
    """Applies function to groups: axes in `order`, the first `keep` of which name a channel, in blocks of the rest."""
    moved = np.transpose(array, order)
    flat = moved.reshape(int(np.prod(moved.shape[:keep])), -1)
    n = flat.shape[1]
    if block and block < n:
        padded = np.pad(flat, ((0, 0), (0, -n % block))).reshape(flat.shape[0], -1, block)
        done = function(padded).reshape(flat.shape[0], -1)[:, :n]
    else:
        done = function(flat)
    return np.transpose(done.reshape(moved.shape), np.argsort(order))


def lstm_weights():
    return [("w", weight(1, 64, 12, seed=1)), ("r", weight(1, 64, 16, seed=2))]


# name -> nodes, input shape, output shape, weights, order of axes and number of them that name a channel
CASES = {
    "conv": ([helper.make_node("Conv", ["x", "w"], ["y"])], [1, 6, 8, 8], [1, 40, 6, 6],
             [("w", weight(40, 6, 3, 3))], (0, 1, 2, 3), 1),
    "depthwise": ([helper.make_node("Conv", ["x", "w"], ["y"], group=64)], [1, 64, 8, 8], [1, 64, 6, 6],
                  [("w", weight(64, 1, 3, 3))], (0, 1, 2, 3), 1),
    "transposed": ([helper.make_node("ConvTranspose", ["x", "w"], ["y"])], [1, 20, 4, 4], [1, 12, 5, 5],
                   [("w", weight(20, 12, 2, 2))], (1, 0, 2, 3), 1),
    "matmul": ([helper.make_node("MatMul", ["x", "w"], ["y"])], [3, 70], [3, 24], [("w", weight(70, 24))], (1, 0), 1),
    "batched_matmul": ([helper.make_node("MatMul", ["x", "w"], ["y"])], [2, 3, 40], [2, 3, 24],
                       [("w", weight(2, 40, 24))], (0, 2, 1), 2),
    "gemm": ([helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], [3, 70], [3, 24], [("w", weight(24, 70))],
             (0, 1), 1),
    "gather": ([helper.make_node("Cast", ["x"], ["i"], to=onnx.TensorProto.INT64),
                helper.make_node("Gather", ["w", "i"], ["y"])], [5], [5, 48], [("w", weight(50, 48))], (0, 1), 1),
    "lstm": ([helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=16)], [7, 2, 12], [7, 1, 2, 16],
             lstm_weights(), (0, 1, 2), 2),
}


def one(folder, name, block, function, flags):
    nodes, in_shape, out_shape, weights, order, keep = CASES[name]
    files = [folder / f"{name}_{kind}.onnx" for kind in ("float", "expected", "written", "optimized")]
    save(files[0], nodes, [("x", in_shape)], [("y", out_shape)], weights)
    exact = [(n, along(w, order, keep, block, function)) for n, w in weights]
    save(files[1], nodes, [("x", in_shape)], [("y", out_shape)], exact)
    result = seqto("quantize", files[0], "-o", files[2], "--mode", "weights", *flags)
    assert result.returncode == 0, result.stderr
    onnx.checker.check_model(str(files[2]), full_check=True)
    assert os.path.getsize(files[2]) < os.path.getsize(files[0]), name
    feed = {"x": R.uniform(0, 40, in_shape).astype(np.float32)}
    expected, got = outputs(files[1], feed)[0], outputs(files[2], feed)[0]
    assert np.array_equal(expected, got), (name, flags, np.abs(expected - got).max())
    session(files[0], files[3])
    plain = len(onnx.load(files[3]).graph.node)
    session(files[2], files[3])
    assert len(onnx.load(files[3]).graph.node) == plain, (name, flags)


def weights_in_8_bits(folder):
    for name in CASES:
        one(folder, name, 0, symmetric, [])
        one(folder, name, 0, asymmetric, ["--weight-type", "uint8"])
        # 16 divides some of the sums and leaves a rest in others; a block of a transposed convolution is whole kernels.
        one(folder, name, 16, symmetric, ["--weight-block-size", 16])


def main():
    with tempfile.TemporaryDirectory() as folder:
        weights_in_8_bits(pathlib.Path(folder))
    print("ok")


if __name__ == "__main__":
    main()
