"""Weights in 8 and 4 bits. 8 bits and folded 4 bits: the model with them gives exactly what the float model gives with the weights that
numpy quantizes and dequantizes; it passes the checker, loads, runs, and costs no node once it is loaded.
MatMulNBits: codes, scales and zero points equal onnxruntime's own kernels bit for bit."""

import itertools
import os
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper
    from onnxruntime.capi import _pybind_state as state
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import save, seqto, weight
from testing.weights import awkward

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


def along(name, array, order, keep, block, function):
    """Applies function to groups: axes in `order`, the first `keep` of which name a channel, in blocks of the rest."""
    moved = np.transpose(array, order)
    flat = moved.reshape(int(np.prod(moved.shape[:keep])), -1)
    n = flat.shape[1]
    if block and block < n:
        unit = 4 if name == "transposed" else 1  # its blocks are whole kernels of 2 x 2
        parts = -(-n // block)
        block = unit * -(-(n // unit) // parts)  # as few blocks as that takes, all of one length
        padded = np.pad(flat, ((0, 0), (0, -n % block))).reshape(flat.shape[0], -1, block)
        done = function(padded).reshape(flat.shape[0], -1)[:, :n]
    else:
        done = function(flat)
    return np.transpose(done.reshape(moved.shape), np.argsort(order))


def lstm_weights():
    return [("w", weight(1, 256, 12, seed=1)), ("r", weight(1, 256, 64, seed=2))]


# name -> nodes, input shape, output shape, weights, order of axes and number of them that name a channel
CASES = {
    "conv": ([helper.make_node("Conv", ["x", "w"], ["y"])], [1, 6, 8, 8], [1, 160, 6, 6],
             [("w", weight(160, 6, 3, 3))], (0, 1, 2, 3), 1),
    "depthwise": ([helper.make_node("Conv", ["x", "w"], ["y"], group=64)], [1, 64, 8, 8], [1, 64, 6, 6],
                  [("w", weight(64, 1, 3, 3))], (0, 1, 2, 3), 1),
    "transposed": ([helper.make_node("ConvTranspose", ["x", "w"], ["y"])], [1, 20, 4, 4], [1, 12, 5, 5],
                   [("w", weight(20, 12, 2, 2))], (1, 0, 2, 3), 1),
    "matmul": ([helper.make_node("MatMul", ["x", "w"], ["y"])], [3, 70], [3, 24], [("w", weight(70, 24))], (1, 0), 1),
    "batched_matmul": ([helper.make_node("MatMul", ["x", "w"], ["y"])], [2, 3, 48], [2, 3, 64],
                       [("w", weight(2, 48, 64))], (0, 2, 1), 2),
    "gemm": ([helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], [3, 70], [3, 24], [("w", weight(24, 70))],
             (0, 1), 1),
    "gather": ([helper.make_node("Cast", ["x"], ["i"], to=onnx.TensorProto.INT64),
                helper.make_node("Gather", ["w", "i"], ["y"])], [5], [5, 48], [("w", weight(50, 48))], (0, 1), 1),
    "lstm": ([helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=64)], [7, 2, 12], [7, 1, 2, 64],
             lstm_weights(), (0, 1, 2), 2),
}


def one(folder, name, block, function, flags):
    nodes, in_shape, out_shape, weights, order, keep = CASES[name]
    files = [folder / f"{name}_{kind}.onnx" for kind in ("float", "expected", "written", "optimized")]
    save(files[0], nodes, [("x", in_shape)], [("y", out_shape)], weights)
    exact = [(n, along(name, w, order, keep, block, function)) for n, w in weights]
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


def four_bits(block_of):
    """Blocks along the last axis as MatMulNBits rounds them, and back."""
    def function(blocks):
        low, high = blocks.min(axis=-1, keepdims=True), blocks.max(axis=-1, keepdims=True)
        if block_of == "symmetric":
            scale = np.where(np.abs(high) > np.abs(low), high, low) / np.float32(-8)
            zero = np.full_like(scale, 8)
        else:
            low, high = np.minimum(low, 0), np.maximum(high, 0)
            scale = (high - low) / np.float32(15)
            with np.errstate(invalid="ignore", divide="ignore"):
                zero = np.where(scale != 0, np.floor(-low / scale + np.float32(0.5)), 0).astype(np.float32)
        with np.errstate(divide="ignore"):
            reciprocal = np.where(scale != 0, np.float32(1) / scale, 0).astype(np.float32)
        exact = np.clip(blocks * reciprocal + zero, 0, 15)
        codes = np.floor(exact) + (exact - np.floor(exact) >= 0.5)
        return (codes - zero).astype(np.float32) * scale
    return function


def weights_in_4_bits(folder):
    """Folded; weights that are too small for it are stored in 8 bits instead."""
    for name in CASES:
        for symmetry in ("symmetric", "asymmetric"):
            flags = ["--weight-type", "int4" if symmetry == "symmetric" else "uint4", "--int4-format", "folded",
                     "--weight-block-size", 16]
            if name in ("conv", "gather", "batched_matmul", "lstm"):
                one(folder, name, 16, four_bits(symmetry), flags)


def kernel(w, block, bits, symmetric):
    rows, columns = w.shape
    blocks = -(-rows // block)
    padded = np.pad(w, ((0, blocks * block - rows), (0, 0)))
    codes = np.zeros((columns, blocks, block * bits // 8), np.uint8)
    scales = np.zeros((columns, blocks), np.float32)
    zeros = np.zeros((columns, -(-blocks * bits // 8)), np.uint8)
    run = {2: state.quantize_matmul_2bits, 4: state.quantize_matmul_4bits, 8: state.quantize_matmul_8bits}[bits]
    run(codes, padded, scales, zeros, block, columns, rows, symmetric)
    return codes, scales, zeros


def matmul_nbits(folder):
    source, target = folder / "nbits.onnx", folder / "nbits_out.onnx"
    for rows, columns, block, bits, symmetric in itertools.product((96, 100), (17,), (16, 32, 64), (2, 4), (True, False)):
        w = awkward(rows, columns, rows + block)
        for op, stored in (("MatMul", w), ("Gemm", w.T.copy())):
            attributes = {"transB": 1} if op == "Gemm" else {}
            inputs = ["x", "w", "c"] if op == "Gemm" else ["x", "w"]
            save(source, [helper.make_node(op, inputs, ["y"], **attributes)], [("x", [5, rows])], [("y", [5, columns])],
                 [("w", stored), ("c", weight(columns))][: len(inputs) - 1])
            result = seqto("quantize", source, "-o", target, "--mode", "weights", "--weight-bits", bits,
                           "--weight-block-size", block, "--symmetric-weights", str(symmetric).lower())
            assert result.returncode == 0, result.stderr
            model = onnx.load(target)
            onnx.checker.check_model(model, full_check=True)
            node = [n for n in model.graph.node if n.op_type == "MatMulNBits"][0]
            arrays = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
            got = [arrays[name] for name in node.input[1:]]
            expected = kernel(w, block, bits, symmetric)[: 2 if symmetric else 3]
            for a, b in zip(expected, got, strict=True):
                assert np.array_equal(a.view(np.uint8), b.view(np.uint8)), (rows, block, bits, symmetric, op)
            x = R.normal(size=(5, rows)).astype(np.float32)
            near, exact = outputs(target, {"x": x})[0], outputs(source, {"x": x})[0]
            assert np.abs(near - exact).max() < (0.25 if bits == 4 else 1) * np.abs(exact).max()


def qdq(folder):
    source, target = folder / "qdq.onnx", folder / "qdq_out.onnx"
    for rows, block, symmetric in itertools.product((96, 100), (16, 32), (True, False)):
        w = awkward(rows, 18, rows + block)
        save(source, [helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", [5, rows])], [("y", [5, 18])], [("w", w)],
             opset=21, ir_version=10)
        result = seqto("quantize", source, "-o", target, "--mode", "weights", "--weight-bits", 4, "--int4-format", "qdq",
                       "--weight-block-size", block, "--symmetric-weights", str(symmetric).lower())
        assert result.returncode == 0, result.stderr
        model = onnx.load(target)
        onnx.checker.check_model(model, full_check=True)
        packed, blocks = np.zeros((rows * 18 + 1) // 2, np.uint8), -(-rows // block)
        scales, zeros = np.zeros((blocks, 18), np.float32), np.zeros((18 * blocks + 1) // 2, np.uint8)
        state.quantize_qdq_matmul_4bits(packed, w, scales, zeros, block, 18, rows, symmetric)
        raw = {i.name: np.frombuffer(i.raw_data, np.uint8) for i in model.graph.initializer}
        got = [raw[name] for name in model.graph.node[0].input]
        for a, b in zip([packed, scales.view(np.uint8).ravel(), zeros][: len(got)], got, strict=True):
            assert np.array_equal(a, b), (rows, block, symmetric)
        x = R.normal(size=(5, rows)).astype(np.float32)
        near, exact = outputs(target, {"x": x})[0], outputs(source, {"x": x})[0]
        assert np.abs(near - exact).max() < 0.25 * np.abs(exact).max()


def gather(folder):
    source, target = folder / "gather.onnx", folder / "gather_out.onnx"
    nodes = [helper.make_node("Cast", ["x"], ["i"], to=onnx.TensorProto.INT64),
             helper.make_node("Gather", ["w", "i"], ["y"])]
    w = awkward(96, 64, 1).T.copy()  # rows of 96: three blocks of 32
    save(source, nodes, [("x", [64])], [("y", [64, 96])], [("w", w)])
    for symmetric in (True, False):
        result = seqto("quantize", source, "-o", target, "--mode", "weights", "--weight-bits", 4,
                       "--weight-block-size", 32, "--symmetric-weights", str(symmetric).lower())
        assert result.returncode == 0, result.stderr
        onnx.checker.check_model(str(target), full_check=True)
        assert onnx.load(target).graph.node[1].op_type == "GatherBlockQuantized"
        blocks = w.reshape(-1, 32)
        low, high = blocks.min(1, keepdims=True), blocks.max(1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            if symmetric:
                scale = np.where(np.abs(high) > np.abs(low), high, low) / np.float32(-8)
                codes = np.where(scale == 0, 0, np.clip(np.rint(blocks / scale), -8, 7))
            else:
                low, high = np.minimum(low, 0), np.maximum(high, 0)
                scale = (high - low) / np.float32(15)
                zero = np.where(scale == 0, 8, np.clip(np.rint(-low / scale), 0, 15)).astype(np.float32)
                codes = np.where(scale == 0, 8, np.clip(np.rint(blocks / scale + zero), 0, 15)) - zero
        expected = (codes.astype(np.float32) * scale).reshape(w.shape)
        got = outputs(target, {"x": np.arange(64, dtype=np.float32)})[0]
        assert np.array_equal(expected, got), symmetric


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        weights_in_8_bits(folder)
        weights_in_4_bits(folder)
        matmul_nbits(folder)
        qdq(folder)
        gather(folder)
    print("ok")


if __name__ == "__main__":
    main()
