"""What OpenVINO's CPU plug-in made of a file: of each convolution and product, whether it runs on codes. Other layers are
fused into these or into one another, and the compiled graph does not tell what became of them."""
import collections
import importlib.util
import os
import pathlib
import sys

sys.path += map(str, pathlib.Path(os.environ["SEQTO_SOURCE_DIR"]).glob(".deps/runtimes/openvino/lib/python3*/site-packages"))
PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
KERNELS = ("Convolution", "Deconvolution", "MatMul", "FullyConnected")


class Refused(Exception):
    pass


def missing():
    """What is not there; empty: all is."""
    return "" if importlib.util.find_spec("openvino") else "no openvino in this Python (./dev setup runtimes)"


def read(path):
    import openvino
    core = openvino.Core()
    try:
        compiled = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_NUM_THREADS": 1})
    except RuntimeError as error:
        raise Refused(" ".join(str(error).split())[-160:]) from error
    kernels = collections.defaultdict(list)
    for node in compiled.get_runtime_model().get_ordered_ops():
        told = {key: str(getattr(value, "value", value)) for key, value in node.get_rt_info().items()}
        if told.get("layerType") not in KERNELS: continue
        for name in told["originalLayersNames"].split(","): kernels[name.split("/WithoutBiases")[0]].append(told["runtimePrecision"])
    return kernels


class Truth:
    def __init__(self, path):
        self.kernels = read(path)

    def of(self, node):
        if node.op_type not in PRODUCTS or node.name not in self.kernels: return None
        return "integers" if any(p in ("u8", "i8") for p in self.kernels[node.name]) else "float"


def runs(path):
    try:
        read(path)
    except Refused:
        return False
    return True


def version():
    import openvino
    return f"OpenVINO {openvino.__version__.split('-')[0]}"
