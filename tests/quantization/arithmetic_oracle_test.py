"""The arithmetic alone against onnxruntime's own functions, bit for bit: scales, zero points, codes, biases.

Arrays of every magnitude from subnormal to near the largest float, with the odd ones: zero, one value, one sign, ties.
"""
import json
import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.base_quantizer import BaseQuantizer
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
from onnxruntime.quantization.quant_utils import (compute_data_quant_params, compute_scale_zp, get_qmin_qmax_for_qType,
                                                  quantize_onnx_initializer, snap_zero_point_to_uint8)

logging.disable(logging.CRITICAL)
TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int16": TensorProto.INT16, "uint16": TensorProto.UINT16}
COUNT = int(os.environ.get("SEQTO_ARITHMETIC_COUNT", 2000))


class Driver:
    def __init__(self):
        self.process = subprocess.Popen([os.environ["SEQTO_DRIVER"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        assert reply["status"] == "ok", (reply, request)
        return reply


def floats(a):
    return [float(v) for v in np.asarray(a, np.float32).ravel()]


def same_floats(expected, actual, context):
    a, b = np.asarray(expected, np.float32).ravel(), np.asarray(actual, np.float64).astype(np.float32).ravel()
    assert a.tobytes() == b.tobytes(), f"expected {a[:8]}, found {b[:8]}: {context}"


def same_ints(expected, actual, context):
    a, b = [int(v) for v in np.asarray(expected).ravel()], [int(v) for v in np.asarray(actual).ravel()]
    assert a == b, f"expected {a[:12]}, found {b[:12]}: {context}"


def array(rng):
    shape = tuple(int(d) for d in rng.integers(1, 6, rng.integers(1, 5)))
    v = rng.normal(0, 1, shape) * 10.0 ** rng.uniform(-4, 4)
    kind = rng.integers(0, 14)
    if kind == 0:
        v = np.zeros(shape)
    elif kind == 1:
        v = np.full(shape, rng.normal())
    elif kind == 2:
        v = v * 1e-39  # subnormal
    elif kind == 3:
        v = v * 1e33
    elif kind == 4:
        v = np.abs(v)
    elif kind == 5:
        v = -np.abs(v)
    elif kind == 6:
        v = rng.normal(0, 1, (1,))
    elif kind == 7:  # halves: rounding to even
        v = np.append(rng.integers(-127, 127, 30) + 0.5, [127, -127])
    elif kind == 8 and v.shape[0] > 1:
        v[0] = 0
    elif kind == 9:
        v.flat[0] = 1e6
    elif kind == 10:
        v = v * 1e-36
    return v.astype(np.float32)


def check_scale(driver, rng, v):
    name = str(rng.choice(list(TYPES)))
    symmetric, reduce = bool(rng.integers(2)), bool(rng.random() < 0.3)
    least = [None, None, 1e-4, 1.0][rng.integers(4)]
    low, high = v.min(), v.max()
    request = dict(type=name, symmetric=symmetric, reduce_range=reduce, min_real_range=least, rmin=float(low), rmax=float(high))
    if rng.random() < 0.25:
        zero, scale = snap_zero_point_to_uint8(low, high, min_real_range=least)
        request["snapped"] = True
    else:
        limits = get_qmin_qmax_for_qType(TYPES[name], reduce_range=reduce, symmetric=symmetric)
        zero, scale = compute_scale_zp(low, high, *limits, symmetric, least)
    reply = driver.ask(function="scale_zero_point", **request)
    same_floats(scale, reply["scale"], request)
    same_ints(zero, reply["zero_point"], request)


def check_quantize(driver, rng, v):
    name = str(rng.choice(list(TYPES)))
    axis = int(rng.integers(v.ndim)) if rng.random() < 0.5 else None
    symmetric = bool(rng.integers(2)) or axis is not None
    reduce = bool(rng.random() < 0.3)
    least = [None, None, 1e-4, 1.0][rng.integers(4)]
    slices = [v.ravel()] if axis is None else [v.take(i, axis).ravel() for i in range(v.shape[axis])]
    pairs = [compute_data_quant_params(s, TYPES[name], symmetric, reduce, least) for s in slices]
    zero, scale = (pairs[0] if axis is None else (np.asarray([p[0] for p in pairs]), np.asarray([p[1] for p in pairs])))
    expected = quantize_onnx_initializer(numpy_helper.from_array(v, "w"), TYPES[name], zero, scale, axis)
    request = dict(type=name, dims=list(v.shape), values=floats(v), symmetric=symmetric, reduce_range=reduce,
                   min_real_range=least, axis=axis)
    reply = driver.ask(function="quantize", **request)
    same_floats(scale, reply["scale"], request)
    same_ints(zero, reply["zero_point"], request)
    same_ints(numpy_helper.to_array(expected), reply["values"], request)


def check_bias(driver, rng, v):
    bias = v.ravel()
    per_channel = bool(rng.integers(2))
    weight_scale = (10.0 ** rng.uniform(-9, 1, bias.size if per_channel else ())).astype(np.float32)
    input_scale = np.float32(10.0 ** rng.uniform(-9, 1))
    added = []
    quantizer = SimpleNamespace(weight_qType=TensorProto.INT8, quantized_value_map={}, model=SimpleNamespace(
        initializer=lambda: [numpy_helper.from_array(bias, "b")], initializer_extend=added.extend,
        add_initializer=added.append))
    BaseQuantizer.quantize_bias_static_impl(quantizer, "b", np.asarray(input_scale), np.asarray(weight_scale), 1.0)
    arrays = {t.name: numpy_helper.to_array(t) for t in added}
    request = dict(bias=floats(bias), input_scale=float(input_scale), weight_scale=floats(weight_scale))
    reply = driver.ask(function="quantize_bias", **request)
    same_floats(arrays["b_quantized_scale"], reply["scale"], request)
    same_ints(arrays["b_quantized"], reply["values"], request)

    changed, scale = QDQQuantizer._adjust_weight_scale_for_int32_bias(
        None, np.asarray(input_scale), np.array(weight_scale), "w", helper.make_tensor("b", TensorProto.FLOAT, [bias.size], floats(bias)),
        per_channel)
    reply = driver.ask(function="adjust_weight_scale", per_channel=per_channel, **request)
    assert bool(changed) == reply["changed"], request
    same_floats(scale, reply["scale"], request)
    return bool(changed)


def main():
    driver, adjusted = Driver(), 0
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        with np.errstate(all="ignore"):
            v = array(rng)
            check_scale(driver, rng, v)
            check_quantize(driver, rng, v)
            adjusted += check_bias(driver, rng, v)
    assert COUNT < 1000 or adjusted > COUNT // 50, f"only {adjusted} weights were adjusted"
    print(f"{COUNT} arrays, {adjusted} weights adjusted for their bias")


if __name__ == "__main__":
    sys.exit(main())
