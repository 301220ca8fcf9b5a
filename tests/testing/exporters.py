"""Small models in the forms that exporters write: the names, the order and the detours of each, with random weights.

FORMS names them; build(name) gives the model and the shape of a sample of each of its inputs."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INT64_MAX = 9223372036854775807
SIDE = 16


class Builder:
    """Collects a graph. `constants` says where constants go: to "initializers" or to "nodes"."""

    def __init__(self, opset, ir_version, producer, version, constants="initializers", domains=()):
        self.opset, self.ir_version, self.producer, self.version = opset, ir_version, producer, version
        self.constants, self.domains = constants, domains
        self.nodes, self.initializers, self.infos = [], [], []
        self.rng = np.random.default_rng(7)

    def node(self, op, inputs, output, name="", **attributes):
        outputs = [output] if isinstance(output, str) else output
        self.nodes.append(helper.make_node(op, inputs, outputs, name, **attributes))
        return outputs[0]

    def constant(self, name, value, where=None):
        value = np.asarray(value)
        if (where or self.constants) == "nodes":
            tensor = numpy_helper.from_array(value)
            self.nodes.append(helper.make_node("Constant", [], [name], f"Constant_of_{name}", value=tensor))
        else:
            self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def weight(self, name, *shape, where=None):
        fan_in = np.prod(shape[1:]) if len(shape) > 2 else shape[0]
        return self.constant(name, (self.rng.normal(size=shape) * (1.5 / np.sqrt(fan_in))).astype(np.float32), where)

    def bias(self, name, size, where=None):
        return self.constant(name, (self.rng.normal(size=size) * 0.1).astype(np.float32), where)

    def norm(self, prefix, channels, names=("weight", "bias", "running_mean", "running_var")):
        values = (self.rng.uniform(0.5, 1.5, channels), self.rng.normal(size=channels) * 0.1,
                  self.rng.normal(size=channels) * 0.1, self.rng.uniform(0.5, 1.5, channels))
        return [self.constant(f"{prefix}.{n}", v.astype(np.float32)) for n, v in zip(names, values)]

    def model(self, inputs, outputs, name="torch-jit-export", as_inputs=False, metadata=()):
        def info(values):
            return [v if isinstance(v, onnx.ValueInfoProto) else helper.make_tensor_value_info(v[0], TensorProto.FLOAT, v[1])
                    for v in values]
        inputs = info(inputs)
        if as_inputs:
            inputs += [helper.make_tensor_value_info(i.name, i.data_type, i.dims) for i in self.initializers]
        graph = helper.make_graph(self.nodes, name, inputs, info(outputs), self.initializers, value_info=info(self.infos))
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(*d) for d in self.domains)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=self.ir_version,
                                  producer_name=self.producer, producer_version=self.version)
        helper.set_model_props(model, dict(metadata))
        return model


# --- PyTorch, the exporter by TorchScript ----------------------------------------------------------


def torch_block(b, tensor, k, channels_in, channels, **attributes):
    """Conv_k and Relu_(k+1); tensors are numbers, weights have the module's names."""
    weight, bias = b.weight(f"layer{k}.weight", channels, channels_in, 3, 3), b.bias(f"layer{k}.bias", channels)
    b.node("Conv", [tensor, weight, bias], f"{100 + k}", f"Conv_{k}", dilations=[1, 1], group=1, kernel_shape=[3, 3],
           **{"pads": [1, 1, 1, 1], "strides": [1, 1], **attributes})
    return b.node("Relu", [f"{100 + k}"], f"{101 + k}", f"Relu_{k + 1}")


def torch_resize(b, tensor, like, k):
    """interpolate(size=...): Resize with sizes that are computed, an empty roi and empty scales up to opset 12."""
    shape = b.node("Shape", [tensor], f"{200 + k}", f"Shape_{k}")
    axes, starts, ends = (b.constant(f"{201 + k + i}", np.int64([v]), "nodes") for i, v in enumerate((0, 0, 2)))
    front = b.node("Slice", [shape, starts, ends, axes], f"{205 + k}", f"Slice_{k}")
    other = b.node("Shape", [like], f"{206 + k}", f"Shape_{k + 1}")
    back = [b.constant(f"{207 + k + i}", np.int64([v]), "nodes") for i, v in enumerate((2, INT64_MAX, 0))]
    size = b.node("Slice", [other, back[0], back[1], back[2]], f"{211 + k}", f"Slice_{k + 1}")
    sizes = b.node("Concat", [front, b.node("Cast", [size], f"{212 + k}", f"Cast_{k}", to=TensorProto.INT64)],
                   f"{213 + k}", f"Concat_{k}", axis=0)
    empty = [b.constant(f"{214 + k + i}", np.float32([]), "nodes") if b.opset < 13 else "" for i in range(2)]
    return b.node("Resize", [tensor, *empty, sizes], f"{216 + k}", f"Resize_{k}",
                  coordinate_transformation_mode="asymmetric", cubic_coeff_a=-0.75, mode="nearest", nearest_mode="floor")


def torch_view(b, tensor, k, *rest):
    """x.view(x.size(0), ...): Shape, Gather, Unsqueeze, Concat, Reshape; Unsqueeze has its axes as an attribute up to opset
    12."""
    shape = b.node("Shape", [tensor], f"{300 + k}", f"Shape_{k}")
    index = b.constant(f"{301 + k}", np.int64(0), "nodes")
    parts = [b.node("Gather", [shape, index], f"{302 + k}", f"Gather_{k}", axis=0)]
    parts += [b.constant(f"{310 + k + i}", np.int64(v), "nodes") for i, v in enumerate(rest)]
    raised = []
    for i, part in enumerate(parts):
        inputs, attributes = [part], {"axes": [0]}
        if b.opset >= 13:
            inputs, attributes = [part, b.constant(f"{330 + k + i}", np.int64([0]), "nodes")], {}
        raised.append(b.node("Unsqueeze", inputs, f"{320 + k + i}", f"Unsqueeze_{k + i}", **attributes))
    target = b.node("Concat", raised, f"{340 + k}", f"Concat_{k}", axis=0)
    return b.node("Reshape", [tensor, target], f"{341 + k}", f"Reshape_{k}")


def torch_pad(b, tensor, k, amounts):
    """F.pad at opset 11: the pads are filled up, turned round and cast in the graph."""
    given = b.constant(f"{400 + k}", np.int64(amounts), "nodes")
    count = b.constant(f"{401 + k}", np.int64([8 - len(amounts)]), "nodes")
    zeros = b.node("ConstantOfShape", [count], f"{402 + k}", f"ConstantOfShape_{k}",
                   value=numpy_helper.from_array(np.int64([0])))
    pairs = b.node("Reshape", [b.node("Concat", [given, zeros], f"{403 + k}", f"Concat_{k}", axis=0),
                               b.constant(f"{404 + k}", np.int64([-1, 2]), "nodes")], f"{405 + k}", f"Reshape_{k}")
    ends = [b.constant(f"{406 + k + i}", np.int64([v]), "nodes") for i, v in enumerate((-1, -INT64_MAX, 0, -1))]
    turned = b.node("Slice", [pairs, *ends], f"{411 + k}", f"Slice_{k}")
    flat = b.node("Reshape", [b.node("Transpose", [turned], f"{412 + k}", f"Transpose_{k}", perm=[1, 0]),
                              b.constant(f"{413 + k}", np.int64([-1]), "nodes")], f"{414 + k}", f"Reshape_{k + 1}")
    pads = b.node("Cast", [flat], f"{415 + k}", f"Cast_{k}", to=TensorProto.INT64)
    value = b.constant(f"{416 + k}", np.float32(0), "nodes")
    return b.node("Pad", [tensor, pads, value], f"{417 + k}", f"Pad_{k}", mode="constant")


def torch_detector(opset, ir_version, version):
    """A detector of two scales: Slices with int64's largest number (a Focus layer), Resize by sizes, a head that is
    reshaped by what it computes."""
    b = Builder(opset, ir_version, "pytorch", version)
    parts = []
    for i, (row, column) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
        tensor = "input"
        for axis, start in ((2, row), (3, column)):
            names = [b.constant(f"s{i}{axis}{n}", np.int64([v]), "nodes")
                     for n, v in (("a", start), ("b", INT64_MAX), ("c", axis), ("d", 2))]
            tensor = b.node("Slice", [tensor, *names], f"{10 * i + axis}", f"Slice_{10 * i + axis}")
        parts.append(tensor)
    fine = torch_block(b, b.node("Concat", parts, "50", "Concat_50", axis=1), 1, 12, 16)
    coarse = torch_block(b, torch_pad(b, fine, 70, [0, 1, 0, 1]), 3, 16, 32, strides=[2, 2], pads=[0, 0, 0, 0])
    merged = b.node("Concat", [torch_resize(b, coarse, fine, 40), fine], "60", "Concat_60", axis=1)
    weight = b.weight("head.weight", 12, 48, 1, 1)
    head = b.node("Conv", [merged, weight, b.bias("head.bias", 12)], "61", "Conv_61", dilations=[1, 1], group=1,
                  kernel_shape=[1, 1], pads=[0, 0, 0, 0], strides=[1, 1])
    b.node("Transpose", [torch_view(b, head, 0, 12, -1)], "output", "Transpose_62", perm=[0, 2, 1])
    return b.model([("input", ["batch", 3, SIDE, SIDE])], [("output", ["batch", "anchors", 12])]), {"input": (3, SIDE, SIDE)}


def torch_scales():
    """Opset 11 once more: interpolate(scale_factor=2) has scales, and an empty roi in its initializers."""
    b = Builder(11, 6, "pytorch", "1.6")
    tensor = torch_block(b, torch_block(b, "input", 1, 3, 16, strides=[2, 2]), 3, 16, 16)
    roi, scales = b.constant("roi", np.float32([])), b.constant("scales", np.float32([1, 1, 2, 2]))
    tensor = b.node("Resize", [tensor, roi, scales], "70", "Resize_5", coordinate_transformation_mode="pytorch_half_pixel",
                    cubic_coeff_a=-0.75, mode="linear", nearest_mode="floor")
    tensor = torch_block(b, tensor, 6, 16, 8)
    b.node("Sigmoid", [tensor], "output", "Sigmoid_8")
    return b.model([("input", [1, 3, SIDE, SIDE])], [("output", [1, 8, SIDE, SIDE])]), {"input": (3, SIDE, SIDE)}


def torch_old():
    """Opset 9, IR 3: every weight is an input as well, Upsample, Pad by attribute, normalizations left in."""
    b = Builder(9, 3, "pytorch", "1.1")
    tensor = b.node("Pad", ["input.1"], "80", "", mode="constant", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.0)
    tensor = b.node("Conv", [tensor, b.weight("conv1.weight", 16, 3, 3, 3)], "81", "", kernel_shape=[3, 3], strides=[2, 2])
    tensor = b.node("BatchNormalization", [tensor, *b.norm("bn1", 16)], "82", "", epsilon=1e-5, momentum=0.9)
    tensor = b.node("Relu", [tensor], "83")
    scales = b.constant("84", np.float32([1, 1, 2, 2]), "nodes")
    tensor = b.node("Upsample", [tensor, scales], "85", "", mode="nearest")
    tensor = b.node("Conv", [tensor, b.weight("conv2.weight", 16, 16, 3, 3), b.bias("conv2.bias", 16)], "86", "",
                    kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    tensor = b.node("GlobalAveragePool", [b.node("Relu", [tensor], "87")], "88")
    shape = b.node("Gather", [b.node("Shape", [tensor], "89"), b.constant("90", np.int64(0), "nodes")], "91", axis=0)
    rows = b.node("Unsqueeze", [shape], "92", axes=[0])
    rest = b.node("Unsqueeze", [b.constant("93", np.int64(-1), "nodes")], "94", axes=[0])
    tensor = b.node("Reshape", [tensor, b.node("Concat", [rows, rest], "95", axis=0)], "96")
    b.node("Gemm", [tensor, b.weight("fc.weight", 10, 16), b.bias("fc.bias", 10)], "97", alpha=1.0, beta=1.0, transB=1)
    return b.model([("input.1", [1, 3, SIDE, SIDE])], [("97", [1, 10])], as_inputs=True), {"input.1": (3, SIDE, SIDE)}


def torch_lstm():
    """nn.LSTM at opset 12: states of zeros whose shape is computed, then a layer on the last step."""
    b = Builder(12, 6, "pytorch", "1.8")
    turned = b.node("Transpose", ["input"], "20", "Transpose_0", perm=[1, 0, 2])
    shape = b.node("Shape", [turned], "21", "Shape_1")
    batch = b.node("Gather", [shape, b.constant("22", np.int64(1), "nodes")], "23", "Gather_3", axis=0)
    one, width = b.constant("24", np.int64([1]), "nodes"), b.constant("25", np.int64([12]), "nodes")
    sizes = b.node("Concat", [one, b.node("Unsqueeze", [batch], "26", "Unsqueeze_6", axes=[0]), width], "27", "Concat_7", axis=0)
    states = [b.node("ConstantOfShape", [sizes], f"{28 + i}", f"ConstantOfShape_{8 + i}",
                     value=numpy_helper.from_array(np.float32([0]))) for i in range(2)]
    weights = [b.constant(n, (b.rng.normal(size=s) * 0.3).astype(np.float32))
               for n, s in (("30", (1, 48, 8)), ("31", (1, 48, 12)), ("32", (1, 96)))]
    b.nodes.append(helper.make_node("LSTM", [turned, *weights, "", *states], ["33", "34", "35"], "LSTM_10", hidden_size=12))
    steps = b.node("Squeeze", ["33"], "36", "Squeeze_11", axes=[1])
    last = b.node("Gather", [steps, b.constant("37", np.int64(-1), "nodes")], "38", "Gather_13", axis=0)
    b.node("Gemm", [last, b.weight("fc.weight", 6, 12), b.bias("fc.bias", 6)], "output", "Gemm_14", alpha=1.0, beta=1.0, transB=1)
    return b.model([("input", ["batch", 10, 8])], [("output", ["batch", 6])]), {"input": (10, 8)}


def torch_scoped():
    """PyTorch 1.13 and later: names of modules with slashes, weights with numbers, a bias behind an Identity."""
    b = Builder(17, 8, "pytorch", "2.1.0")
    b.bias("conv1.bias", 16)
    b.node("Identity", ["conv1.bias"], "onnx::Conv_40", "Identity_0")
    tensor = b.node("Conv", ["input", b.weight("onnx::Conv_39", 16, 3, 3, 3), "onnx::Conv_40"], "/conv1/Conv_output_0", "/conv1/Conv",
                    dilations=[1, 1], group=1, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    low, high = (b.constant(f"/act/Constant{i}_output_0", np.float32(v), "nodes") for i, v in (("", 0), ("_1", 6)))
    tensor = b.node("Clip", [tensor, low, high], "/act/Clip_output_0", "/act/Clip")
    other = b.node("Conv", [tensor, b.weight("onnx::Conv_42", 16, 1, 3, 3), "onnx::Conv_40"], "/conv2/Conv_output_0", "/conv2/Conv",
                   dilations=[1, 1], group=16, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    scaled = b.node("Mul", [other, b.node("HardSigmoid", [other], "/act_1/HardSigmoid_output_0", "/act_1/HardSigmoid", alpha=1 / 6, beta=0.5)],
                    "/act_1/Mul_output_0", "/act_1/Mul")
    tensor = b.node("Add", [tensor, scaled], "/Add_output_0", "/Add")
    tensor = b.node("ReduceMean", [tensor], "/ReduceMean_output_0", "/ReduceMean", axes=[2, 3], keepdims=0)
    b.node("Gemm", [tensor, b.weight("fc.weight", 10, 16), b.bias("fc.bias", 10)], "output", "/fc/Gemm", alpha=1.0, beta=1.0, transB=1)
    return b.model([("input", ["batch", 3, SIDE, SIDE])], [("output", ["batch", 10])], "main_graph"), {"input": (3, SIDE, SIDE)}


# --- PyTorch, the exporter by dynamo ---------------------------------------------------------------


def dynamo_linear(b, tensor, k, size_in, size):
    """A weight that is turned in the graph, as where constants are not folded."""
    turned = b.node("Transpose", [b.weight(f"blocks.{k}.weight", size, size_in)], f"val_{10 * k}", f"node_Transpose_{10 * k}", perm=[1, 0])
    product = b.node("MatMul", [tensor, turned], f"val_{10 * k + 1}", f"node_MatMul_{10 * k + 1}")
    return b.node("Add", [product, b.bias(f"blocks.{k}.bias", size)], f"linear_{k}", f"node_linear_{k}")


def dynamo_metadata(b, model):
    """What the exporter notes with every node."""
    for node in model.graph.node:
        for key, value in (("namespace", f": Model/{node.name}"), ("pkg.torch.onnx.class_hierarchy", "['Model', 'aten.op']")):
            entry = node.metadata_props.add()
            entry.key, entry.value = key, value
    return model


DYNAMO_DOMAINS = [("pkg.onnxscript.torch_lib.common", 1)]


def dynamo_conv():
    """Opset 18: Clip with an optional input left out, Split by its number, Resize with empty names, Reshape with allowzero."""
    b = Builder(18, 10, "pytorch", "2.7.0", domains=DYNAMO_DOMAINS)
    tensor = b.node("Conv", ["x", b.weight("conv1.weight", 16, 3, 3, 3), b.bias("conv1.bias", 16)], "conv2d", "node_conv2d",
                    group=1, pads=[1, 1, 1, 1], auto_pad="NOTSET", strides=[2, 2], dilations=[1, 1])
    tensor = b.node("Clip", [tensor, b.constant("val_2", np.float32(0)), ""], "clamp_min", "node_clamp_min")
    b.nodes.append(helper.make_node("Split", [tensor], ["split_0", "split_1"], "node_Split_3", axis=1, num_outputs=2))
    gate = b.node("Sigmoid", ["split_1"], "sigmoid", "node_sigmoid")
    tensor = b.node("Mul", ["split_0", gate], "mul", "node_mul")
    tensor = b.node("Resize", [tensor, "", b.constant("val_5", np.float32([1, 1, 2, 2]))], "upsample", "node_Resize_6",
                    keep_aspect_ratio_policy="stretch", antialias=0, mode="nearest", nearest_mode="floor",
                    coordinate_transformation_mode="asymmetric", extrapolation_value=0.0, exclude_outside=0, cubic_coeff_a=-0.75)
    tensor = b.node("Conv", [tensor, b.weight("conv2.weight", 8, 8, 3, 3), b.bias("conv2.bias", 8)], "conv2d_1", "node_conv2d_1",
                    group=1, pads=[1, 1, 1, 1], auto_pad="NOTSET", strides=[4, 4], dilations=[1, 1])
    tensor = b.node("Reshape", [tensor, b.constant("val_9", np.int64([1, 128]))], "view", "node_view", allowzero=1)
    b.node("Gemm", [tensor, b.weight("fc.weight", 10, 128), b.bias("fc.bias", 10)], "linear", "node_linear", beta=1.0, transB=1, alpha=1.0, transA=0)
    b.infos = [("conv2d", [1, 16, 8, 8]), ("clamp_min", [1, 16, 8, 8]), ("mul", [1, 8, 8, 8]), ("view", [1, 128])]
    model = b.model([("x", [1, 3, SIDE, SIDE])], [("linear", [1, 10])], "main_graph")
    return dynamo_metadata(b, model), {"x": (3, SIDE, SIDE)}


def dynamo_transformer():
    """Opset 20: LayerNormalization, Gelu, attention in single operators, an open batch, weights behind Transposes."""
    b = Builder(20, 10, "pytorch", "2.9.0", domains=DYNAMO_DOMAINS)

    def norm(tensor, name):
        ones, zeros = b.constant(f"{name}.weight", np.ones(16, np.float32)), b.constant(f"{name}.bias", np.zeros(16, np.float32))
        return b.node("LayerNormalization", [tensor, ones, zeros], f"layer_{name}", f"node_layer_{name}", axis=-1, epsilon=1e-5, stash_type=1)

    normed = norm("x", "norm_1")
    heads = []
    for k, name in enumerate("qkv"):
        shaped = b.node("Reshape", [dynamo_linear(b, normed, k + 1, 16, 16), b.constant(f"val_shape_{k}", np.int64([-1, 6, 2, 8]))],
                        f"view_{k}", f"node_view_{k}", allowzero=1)
        heads.append(b.node("Transpose", [shaped], f"transpose_{k}", f"node_transpose_{k}", perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]))
    scale = b.constant("val_scale", np.float32(8 ** -0.25))
    query, key = (b.node("Mul", [heads[i], scale], f"val_scaled_{i}", f"node_Mul_{i}") for i in range(2))
    scores = b.node("MatMul", [query, key], "val_scores", "node_MatMul_scores")
    mask = b.constant("val_mask", np.triu(np.full((6, 6), -np.inf), 1).astype(np.float32))
    weights = b.node("Softmax", [b.node("Add", [scores, mask], "val_masked", "node_Add_masked")], "val_weights", "node_Softmax", axis=-1)
    mixed = b.node("Transpose", [b.node("MatMul", [weights, heads[2]], "attention", "node_attention")], "transpose_3", "node_transpose_3", perm=[0, 2, 1, 3])
    flat = b.node("Reshape", [mixed, b.constant("val_flat", np.int64([-1, 6, 16]))], "view_3", "node_view_3", allowzero=1)
    tensor = b.node("Add", ["x", dynamo_linear(b, flat, 4, 16, 16)], "add", "node_add")
    wide = b.node("Gelu", [dynamo_linear(b, norm(tensor, "norm_2"), 5, 16, 32)], "gelu", "node_gelu", approximate="none")
    tensor = b.node("Add", [tensor, dynamo_linear(b, wide, 6, 32, 16)], "add_1", "node_add_1")
    mean = b.node("ReduceMean", [tensor, b.constant("val_axes", np.int64([1]))], "mean", "node_mean", noop_with_empty_axes=0, keepdims=0)
    b.node("Identity", [dynamo_linear(b, mean, 7, 16, 5)], "output", "node_output")
    b.infos = [("layer_norm_1", ["s77", 6, 16]), ("add", ["s77", 6, 16])]
    model = b.model([("x", ["s77", 6, 16])], [("output", ["s77", 5])], "main_graph")
    return dynamo_metadata(b, model), {"x": (6, 16)}


# --- TensorFlow ------------------------------------------------------------------------------------


def tf_image():
    """tf2onnx: pixels last outside, Transposes around what wants them first, additions of biases, names of a function's call."""
    b = Builder(13, 7, "tf2onnx", "1.13.0 2c1db5")
    base = "StatefulPartitionedCall/model"

    def conv(tensor, name, size_in, size, group=1, op="Conv2D"):
        weight = b.weight(f"{base}/{name}/{op}/ReadVariableOp:0", size, size_in // group, 3, 3)
        b.node("Conv", [tensor, weight], f"{base}/{name}/{op}:0", f"{base}/{name}/{op}", dilations=[1, 1], group=group,
               kernel_shape=[3, 3], strides=[1, 1], auto_pad="SAME_UPPER")
        shift = b.constant(f"const_fold_opt__{name}", (b.rng.normal(size=(1, size, 1, 1)) * 0.1).astype(np.float32))
        return b.node("Add", [f"{base}/{name}/{op}:0", shift], f"{base}/{name}/BiasAdd:0", f"{base}/{name}/BiasAdd")

    def relu6(tensor, name):
        low, high = (b.constant(f"const_{n}__{name}", np.float32(v)) for n, v in (("zero", 0), ("six", 6)))
        return b.node("Clip", [tensor, low, high], f"{base}/{name}/Relu6:0", f"{base}/{name}/Relu6")

    tensor = b.node("Transpose", ["input_1"], f"{base}/conv2d/Conv2D__6:0", f"{base}/conv2d/Conv2D__6", perm=[0, 3, 1, 2])
    tensor = relu6(conv(tensor, "conv2d", 3, 16), "re_lu")
    tensor = relu6(conv(tensor, "depthwise", 16, 16, group=16, op="depthwise"), "re_lu_1")
    tensor = b.node("MaxPool", [tensor], f"{base}/pool/MaxPool:0", f"{base}/pool/MaxPool", kernel_shape=[2, 2], strides=[2, 2], auto_pad="VALID")
    tensor = b.node("GlobalAveragePool", [conv(tensor, "conv2d_1", 16, 24)], f"{base}/mean/Mean:0", f"{base}/mean/Mean")
    tensor = b.node("Squeeze", [tensor, b.constant("axes_const__40", np.int64([2, 3]))], f"{base}/mean/Mean_Squeeze__41:0", f"{base}/mean/Mean_Squeeze__41")
    tensor = b.node("MatMul", [tensor, b.weight(f"{base}/dense/MatMul/ReadVariableOp:0", 24, 10)], f"{base}/dense/MatMul:0", f"{base}/dense/MatMul")
    tensor = b.node("Add", [tensor, b.bias(f"{base}/dense/BiasAdd/ReadVariableOp:0", 10)], f"{base}/dense/BiasAdd:0", f"{base}/dense/BiasAdd")
    b.node("Softmax", [tensor], "Identity:0", f"{base}/dense/Softmax", axis=-1)
    return b.model([("input_1", ["unk__42", SIDE, SIDE, 3])], [("Identity:0", ["unk__43", 10])], "tf2onnx"), {"input_1": (SIDE, SIDE, 3)}


def tf_resize():
    """tf2onnx at opset 11: sizes computed of a shape, one empty constant as roi and as scales."""
    b = Builder(11, 6, "tf2onnx", "1.8.4")
    tensor = b.node("Transpose", ["x:0"], "conv/Conv2D__4:0", "conv/Conv2D__4", perm=[0, 3, 1, 2])
    tensor = b.node("Conv", [tensor, b.weight("conv/kernel:0", 16, 3, 3, 3), b.bias("conv/bias:0", 16)], "conv/Conv2D:0", "conv/Conv2D",
                    kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1], dilations=[1, 1], group=1)
    tensor = b.node("LeakyRelu", [tensor], "leaky/LeakyRelu:0", "leaky/LeakyRelu", alpha=0.2)
    shape = b.node("Cast", [b.node("Shape", [tensor], "Resize__20:0", "Resize__20")], "Resize__21:0", "Resize__21", to=TensorProto.INT64)
    ends = [b.constant(f"const_{n}__22", np.int64([v])) for n, v in (("starts", 0), ("ends", 2))]
    sizes = b.node("Concat", [b.node("Slice", [shape, *ends], "Resize__23:0", "Resize__23"), b.constant("const_fold_opt__24", np.int64([SIDE, SIDE]))],
                   "Resize__25:0", "Resize__25", axis=0)
    empty = b.constant("const_empty_float__26", np.float32([]))
    tensor = b.node("Resize", [tensor, empty, empty, sizes], "Resize__27:0", "Resize__27", mode="linear",
                    coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    tensor = b.node("Conv", [tensor, b.weight("conv_1/kernel:0", 4, 16, 1, 1), b.bias("conv_1/bias:0", 4)], "conv_1/Conv2D:0", "conv_1/Conv2D",
                    kernel_shape=[1, 1], strides=[1, 1], dilations=[1, 1], group=1)
    b.node("Transpose", [b.node("Sigmoid", [tensor], "Sigmoid:0", "Sigmoid")], "Identity:0", "Sigmoid__30", perm=[0, 2, 3, 1])
    return b.model([("x:0", [1, SIDE, SIDE, 3])], [("Identity:0", [1, SIDE, SIDE, 4])], "tf2onnx"), {"x:0": (SIDE, SIDE, 3)}


def tf_sequence():
    """tf2onnx: a Conv1D as a Conv2D with a dimension that comes and goes, its kernel in three dimensions behind an Unsqueeze."""
    b = Builder(15, 8, "tf2onnx", "1.14.0")
    b.weight("sequential/conv1d/kernel_squeezed:0", 12, 6, 5)
    tensor = b.node("Transpose", ["conv1d_input"], "sequential/conv1d/Conv1D__10:0", "sequential/conv1d/Conv1D__10", perm=[0, 2, 1])
    axes = b.constant("const_axes__11", np.int64([2]))
    kernel = b.node("Unsqueeze", ["sequential/conv1d/kernel_squeezed:0", axes], "sequential/conv1d/Conv1D/ExpandDims_1:0", "sequential/conv1d/Conv1D/ExpandDims_1")
    tensor = b.node("Unsqueeze", [tensor, axes], "sequential/conv1d/Conv1D/ExpandDims:0", "sequential/conv1d/Conv1D/ExpandDims")
    tensor = b.node("Conv", [tensor, kernel, b.bias("sequential/conv1d/bias:0", 12)], "sequential/conv1d/Conv1D:0", "sequential/conv1d/Conv1D",
                    kernel_shape=[1, 5], strides=[1, 1], dilations=[1, 1], group=1)
    tensor = b.node("Squeeze", [tensor, axes], "sequential/conv1d/Conv1D/Squeeze:0", "sequential/conv1d/Conv1D/Squeeze")
    tensor = b.node("Relu", [tensor], "sequential/conv1d/Relu:0", "sequential/conv1d/Relu")
    tensor = b.node("Reshape", [b.node("Transpose", [tensor], "Relu__14:0", "Relu__14", perm=[0, 2, 1]), b.constant("const_shape__15", np.int64([-1, 12 * 16]))],
                    "sequential/flatten/Reshape:0", "sequential/flatten/Reshape")
    tensor = b.node("MatMul", [tensor, b.weight("sequential/dense/MatMul/ReadVariableOp:0", 12 * 16, 6)], "sequential/dense/MatMul:0", "sequential/dense/MatMul")
    b.node("Add", [tensor, b.bias("sequential/dense/BiasAdd/ReadVariableOp:0", 6)], "dense", "sequential/dense/BiasAdd")
    return b.model([("conv1d_input", ["unk__20", 20, 6])], [("dense", ["unk__21", 6])], "tf2onnx"), {"conv1d_input": (20, 6)}


def keras():
    """keras2onnx: each layer between two Transposes, normalizations left in, a scalar that is unsqueezed, an import of
    ai.onnx.ml that no node needs, an Identity at the end."""
    b = Builder(12, 7, "keras2onnx", "1.7.0", domains=[("ai.onnx.ml", 1)])

    def layer(tensor, k, size_in, size):
        before = b.node("Transpose", [tensor], f"adjusted_input{k}", f"Transpose{k}", perm=[0, 3, 1, 2])
        out = b.node("Conv", [before, b.weight(f"conv2d_{k}/kernel:0", size, size_in, 3, 3), b.bias(f"conv2d_{k}/bias:0", size)],
                     f"convolution_output{k}", f"conv2d_{k}", auto_pad="SAME_UPPER", dilations=[1, 1], group=1, kernel_shape=[3, 3], strides=[2, 2])
        after = b.node("Transpose", [out], f"conv2d_{k}0", f"Transpose{k}_1", perm=[0, 2, 3, 1])
        before = b.node("Transpose", [after], f"adjusted_norm{k}", f"Transpose{k}_2", perm=[0, 3, 1, 2])
        out = b.node("BatchNormalization", [before, *b.norm(f"batch_normalization_{k}", size, ("gamma:0", "beta:0", "moving_mean:0", "moving_variance:0"))],
                     f"norm_output{k}", f"batch_normalization_{k}", epsilon=0.001, momentum=0.99)
        after = b.node("Transpose", [out], f"batch_normalization_{k}0", f"Transpose{k}_3", perm=[0, 2, 3, 1])
        return b.node("Relu", [after], f"activation_{k}0", f"activation_{k}")

    tensor = layer(layer("input_1", 1, 3, 16), 2, 16, 24)
    factor = b.node("Unsqueeze", [b.constant("scale", np.float32(0.5))], "scale_unsqueezed", "Unsqueeze", axes=[0])
    tensor = b.node("Mul", [tensor, factor], "lambda_10", "lambda_1")
    tensor = b.node("GlobalAveragePool", [b.node("Transpose", [tensor], "pool_input", "Transpose9", perm=[0, 3, 1, 2])], "pool_output", "pool")
    tensor = b.node("Squeeze", [tensor], "pooled", "Squeeze", axes=[2, 3])
    tensor = b.node("Add", [b.node("MatMul", [tensor, b.weight("dense/kernel:0", 24, 10)], "dense0", "dense"), b.bias("dense/bias:0", 10)], "biased_tensor_name", "Add")
    tensor = b.node("Softmax", [tensor], "dense/Softmax:01", "Softmax", axis=-1)
    b.node("Identity", [tensor], "dense", "Identity1")
    return b.model([("input_1", ["N", SIDE, SIDE, 3])], [("dense", ["N", 10])], "model"), {"input_1": (SIDE, SIDE, 3)}


# --- PaddlePaddle ----------------------------------------------------------------------------------


def paddle():
    """paddle2onnx: every constant in a node, sizes of -1, scales as Mul and Add, Resize with empty constants, Identity at the
    outputs."""
    b = Builder(11, 7, "PaddlePaddle", "", constants="nodes")

    def conv(tensor, k, size_in, size, stride):
        out = b.node("Conv", [tensor, b.weight(f"conv2d_{k}.w_0", size, size_in, 3, 3)], f"conv2d_{k}.tmp_0", f"p2o.Conv.{k}", dilations=[1, 1],
                     group=1, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[stride, stride])
        out = b.node("BatchNormalization", [out, *b.norm(f"batch_norm_{k}", size, ("w_0", "b_0", "w_1", "w_2"))], f"batch_norm_{k}.tmp_2",
                     f"p2o.BatchNormalization.{k}", epsilon=1e-5, momentum=0.9)
        three, six = b.constant(f"p2o.Constant.{k}3", np.float32([3])), b.constant(f"p2o.Constant.{k}6", np.float32([6]))
        low, high = b.constant(f"p2o.Constant.{k}low", np.float32(0)), b.constant(f"p2o.Constant.{k}high", np.float32(6))
        gate = b.node("Clip", [b.node("Add", [out, three], f"p2o.Add.{k}", f"p2o.Add.{k}"), low, high], f"p2o.Clip.{k}", f"p2o.Clip.{k}")
        product = b.node("Mul", [out, gate], f"p2o.Mul.{k}", f"p2o.Mul.{k}")
        return b.node("Div", [product, six], f"hardswish_{k}.tmp_0", f"p2o.Div.{k}")

    scaled = b.node("Mul", ["x", b.constant("scale_0.w", np.float32([0.8]))], "p2o.Mul.in", "p2o.Mul.in")
    scaled = b.node("Add", [scaled, b.constant("scale_0.b", np.float32([0.1]))], "scale_0.tmp_0", "p2o.Add.in")
    fine = conv(scaled, 0, 3, 12, 1)
    coarse = conv(fine, 1, 12, 16, 2)
    shape = b.node("Shape", [coarse], "p2o.Shape.0", "p2o.Shape.0")
    ends = [b.constant(f"p2o.Constant.{n}", np.int64([v])) for n, v in (("s", 0), ("e", 2), ("a", 0))]
    sizes = b.node("Concat", [b.node("Slice", [shape, *ends], "p2o.Slice.0", "p2o.Slice.0"), b.constant("p2o.Constant.size", np.int64([SIDE, SIDE]))],
                   "p2o.Concat.0", "p2o.Concat.0", axis=0)
    empty = [b.constant(f"p2o.Constant.empty{i}", np.float32([])) for i in range(2)]
    up = b.node("Resize", [coarse, *empty, sizes], "nearest_interp_v2_0.tmp_0", "p2o.Resize.0", mode="nearest",
                coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    tensor = conv(b.node("Concat", [up, fine], "concat_0.tmp_0", "p2o.Concat.1", axis=1), 2, 28, 8, 2)
    tensor = b.node("Reshape", [b.node("GlobalAveragePool", [tensor], "pool2d_0.tmp_0", "p2o.Pool.0"), b.constant("p2o.Constant.shape", np.int64([0, -1]))],
                    "flatten_0.tmp_0", "p2o.Reshape.0")
    tensor = b.node("MatMul", [tensor, b.weight("linear_0.w_0", 8, 6)], "linear_0.tmp_0", "p2o.MatMul.0")
    tensor = b.node("Add", [tensor, b.bias("linear_0.b_0", 6)], "linear_0.tmp_1", "p2o.Add.9")
    tensor = b.node("Softmax", [tensor], "softmax_0.tmp_0", "p2o.Softmax.0", axis=-1)
    b.node("Identity", [tensor], "save_infer_model/scale_0.tmp_0", "p2o.Identity.0")
    return b.model([("x", [-1, 3, SIDE, SIDE])], [("save_infer_model/scale_0.tmp_0", [-1, 6])], "Model from PaddlePaddle."), {"x": (3, SIDE, SIDE)}


# --- scikit-learn ----------------------------------------------------------------------------------


def sklearn_outputs(zipmap):
    label = helper.make_tensor_value_info("output_label", TensorProto.INT64, ["N"])
    if not zipmap: return [label, ("probabilities", ["N", 3])]
    entry = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    return [label, helper.make_value_info("output_probability", helper.make_sequence_type_proto(entry))]


def sklearn_linear():
    """skl2onnx, StandardScaler and LogisticRegression: operators of ai.onnx.ml alone, probabilities as maps."""
    b = Builder(12, 8, "skl2onnx", "1.16.0", domains=[("ai.onnx.ml", 1)])
    b.node("Scaler", ["float_input"], "variable", "Scaler", domain="ai.onnx.ml", offset=[0.1] * 8, scale=[1.2] * 8)
    b.nodes.append(helper.make_node("LinearClassifier", ["variable"], ["label", "probability_tensor"], "LinearClassifier", domain="ai.onnx.ml",
                                    classlabels_ints=[0, 1, 2], coefficients=b.rng.normal(size=24), intercepts=[0.1, 0.0, -0.1],
                                    multi_class=1, post_transform="SOFTMAX"))
    b.node("Normalizer", ["probability_tensor"], "probabilities", "Normalizer", domain="ai.onnx.ml", norm="L1")
    b.node("Cast", ["label"], "output_label", "Cast", to=TensorProto.INT64)
    b.node("ZipMap", ["probabilities"], "output_probability", "ZipMap", domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])
    return b.model([("float_input", ["N", 8])], sklearn_outputs(True), "a1b2c3"), {"float_input": (8,)}


def sklearn_mlp(zipmap):
    """skl2onnx, StandardScaler and MLPClassifier: layers as MatMul and Add, the label picked from an array of classes."""
    b = Builder(15, 8, "skl2onnx", "1.16.0", domains=[("ai.onnx.ml", 1)])
    tensor = b.node("Scaler", ["X"], "variable", "Scaler", domain="ai.onnx.ml", offset=[0.1] * 8, scale=[1.2] * 8)
    tensor = b.node("Cast", [tensor], "cast_input", "Cast", to=TensorProto.FLOAT)
    for k, (size_in, size) in enumerate(((8, 32), (32, 16), (16, 3))):
        i = str(k or "")
        tensor = b.node("MatMul", [tensor, b.weight(f"coefficient{i}", size_in, size)], f"mul_result{i}", f"MatMul{i}")
        tensor = b.node("Add", [tensor, b.bias(f"intercepts{i}", size)], f"add_result{i}", f"Add{i}")
        if k < 2: tensor = b.node("Relu", [tensor], f"next_activations{i}", f"Relu{i}")
    probabilities = b.node("Softmax", [tensor], "out_activations_result" if zipmap else "probabilities", "Softmax", axis=1)
    best = b.node("ArgMax", [probabilities], "argmax_output", "ArgMax", axis=1)
    label = b.node("ArrayFeatureExtractor", [b.constant("classes", np.int32([0, 1, 2])), best], "array_feature_extractor_result", "ArrayFeatureExtractor", domain="ai.onnx.ml")
    label = b.node("Reshape", [b.node("Cast", [label], "cast2_result", "Cast1", to=TensorProto.FLOAT), b.constant("shape_tensor", np.int64([-1]))], "reshaped_result", "Reshape")
    b.node("Cast", [label], "output_label", "Cast2", to=TensorProto.INT64)
    if zipmap: b.node("ZipMap", [probabilities], "output_probability", "ZipMap", domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])
    return b.model([("X", ["N", 8])], sklearn_outputs(zipmap), "d4e5f6"), {"X": (8,)}


FORMS = {
    "torch_opset9_ir3": torch_old,
    "torch_opset11_detector": lambda: torch_detector(11, 6, "1.8"),
    "torch_opset11_scales": torch_scales,
    "torch_opset12_lstm": torch_lstm,
    "torch_opset13_detector": lambda: torch_detector(13, 7, "1.12"),
    "torch_scoped": torch_scoped,
    "dynamo_opset18": dynamo_conv,
    "dynamo_opset20": dynamo_transformer,
    "tf2onnx_opset11": tf_resize,
    "tf2onnx_opset13": tf_image,
    "tf2onnx_conv1d": tf_sequence,
    "keras2onnx": keras,
    "paddle2onnx": paddle,
    "skl2onnx_linear": sklearn_linear,
    "skl2onnx_mlp": lambda: sklearn_mlp(False),
    "skl2onnx_mlp_maps": lambda: sklearn_mlp(True),
}


def build(name):
    """The model, and the shape of one sample of each input."""
    model, inputs = FORMS[name]()
    onnx.checker.check_model(model)
    return model, inputs
