"""The op types that each form has rules for: keys of dictionaries, as in onnxruntime."""
from __future__ import annotations

import typing

_COMMON = ("Gather", "Transpose", "EmbedLayerNormalization")

IntegerOpsRegistry: dict[str, typing.Any] = dict.fromkeys(("Conv", "MatMul", "Attention", "LSTM", *_COMMON))
QLinearOpsRegistry: dict[str, typing.Any] = dict.fromkeys((
    "ArgMax", "Conv", "Gemm", "MatMul", "Add", "Mul", "Relu", "Clip", "LeakyRelu", "Sigmoid", "MaxPool",
    "GlobalAveragePool", "Split", "Pad", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Resize", "AveragePool", "Concat",
    "Softmax", "Where", *_COMMON))
QDQRegistry: dict[str, typing.Any] = dict.fromkeys((
    "Conv", "ConvTranspose", "Gemm", "Clip", "Relu", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Resize",
    "MaxPool", "AveragePool", "Slice", "Pad", "MatMul", "Split", "Gather", "GatherElements", "Where",
    "InstanceNormalization", "LayerNormalization", "BatchNormalization", "TopK", "CumSum"))
