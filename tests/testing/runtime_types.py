"""What onnxruntime knows of a model's tensors: the oracle for shape inference."""

import pathlib
import tempfile

import onnx
import onnxruntime
from onnx import TensorProto


def described(model):
    """Type and shape of every tensor that the file tells: {name: (type, [size, symbol or None ...] or None)}."""
    found = {}
    for v in (*model.graph.value_info, *model.graph.output):
        tensor = v.type.tensor_type
        if not tensor.elem_type: continue
        shape = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]
        found[v.name] = (tensor.elem_type, shape if tensor.HasField("shape") else None)
    return found


KINDS = {"tensor(float)": TensorProto.FLOAT, "tensor(float16)": TensorProto.FLOAT16, "tensor(uint8)": TensorProto.UINT8,
         "tensor(int8)": TensorProto.INT8, "tensor(uint16)": TensorProto.UINT16, "tensor(int16)": TensorProto.INT16,
         "tensor(int32)": TensorProto.INT32, "tensor(int64)": TensorProto.INT64, "tensor(bool)": TensorProto.BOOL}


def session(model, **settings):
    """`settings` of the session; raises what the runtime raises where it has no kernel."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for key, value in settings.items():
        setattr(options, key, value)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def typed(model):
    """As described(), of what the runtime's own inference says of every tensor of the graph."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    del shown.graph.value_info[:]
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=o) for n in shown.graph.node for o in n.output if o)
    none = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return {o.name: (KINDS[o.type], [d or None for d in o.shape]) for o in session(shown, graph_optimization_level=none).get_outputs()}


def fused(model):
    """The model with the runtime's extended fusions, and without types of what lies inside, as its Python optimizer leaves it."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder, "fused.onnx"))
        session(model, graph_optimization_level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, optimized_model_filepath=path)
        result = onnx.load(path)
    del result.graph.value_info[:]
    return result
