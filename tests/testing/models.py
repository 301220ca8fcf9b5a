"""Small models and arrays for tests of the command line, and how it is called."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SOURCE = pathlib.Path(os.environ.get("SEQTO_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BINARY = os.environ.get("SEQTO_BINARY", str(SOURCE / "build/bin/seqto"))
DIGITS = SOURCE / "examples/digits/model.onnx"
DIGITS_DATA = SOURCE / "examples/digits/digits.npz"


def built_with(setting):
    """Whether the build under test has it, as in "SEQTO_SANITIZE:STRING=address"."""
    cache = pathlib.Path(os.environ.get("SEQTO_BUILD_DIR", SOURCE / "build")) / "CMakeCache.txt"
    return cache.exists() and any(line.startswith(setting) for line in cache.read_text().splitlines())


def sanitized():
    return built_with("SEQTO_SANITIZE:STRING=address") or built_with("SEQTO_SANITIZE:STRING=thread")


def openvino_libraries():
    """ONNX Runtime with OpenVINO's provider; none under AddressSanitizer, which refuses the way that OpenVINO loads libraries."""
    return [] if sanitized() else sorted((SOURCE / ".deps/openvino").glob("libonnxruntime.so*"))


def seqto(*words, env=None, timeout=300):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})})


def save(path, nodes, inputs, outputs, weights=(), opset=17, ir_version=8):
    """`inputs` and `outputs` are pairs of name and shape, float, or triples with an element type behind them; `weights`
    pairs of name and array."""
    info = [[helper.make_tensor_value_info(name, *types or [TensorProto.FLOAT], shape) for name, shape, *types in part]
            for part in (inputs, outputs)]
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights]
    graph = helper.make_graph(nodes, "g", *info, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    onnx.save(model, str(path))
    return path


def node(op, inputs, outputs, **attributes):
    """A node that is called after its first output."""
    return helper.make_node(op, inputs, outputs, name=outputs[0] + "_node", **attributes)


def weight(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def conv(path, channels=3, before=(), **options):
    """One convolution on 8 x 8 pixels; `before` are op types between the input and it."""
    nodes, name = [], "x"
    for i, op in enumerate(before):
        nodes.append(helper.make_node(op, [name], [f"t{i}"], name=f"before_{i}"))
        name = f"t{i}"
    nodes.append(helper.make_node("Conv", [name, "w"], ["c"], name="conv"))
    nodes.append(helper.make_node("GlobalAveragePool", ["c"], ["p"], name="pool"))
    nodes.append(helper.make_node("Flatten", ["p"], ["y"], name="flatten"))
    return save(path, nodes, [("x", [1, channels, 8, 8])], [("y", [1, 4])],
                [("w", weight(4, channels, 3, 3))], **options)


def arrays(path, samples=20, shape=(3, 8, 8), shift=0.0):
    np.savez(path, x=weight(samples, *shape, seed=1) + np.float32(shift))
    return path


RUNTIME = """#!{python}
import sys
sys.path.insert(0, {source!r})
import runtime_worker
{code}
runtime_worker.RUNTIMES[{name!r}] = Own
sys.argv = ["worker", {name!r}, *sys.argv[sys.argv.index("--threads"):]]
runtime_worker.main()
"""


def own_runtime(folder, name, code):
    """A program as a runtime in the folder that SEQTO_RUNTIMES names; `code` has the class Own."""
    worker = pathlib.Path(folder) / name / "worker"
    worker.parent.mkdir(parents=True, exist_ok=True)
    worker.write_text(RUNTIME.format(python=sys.executable, source=str(SOURCE / "src/runner"), name=name, code=code), encoding="utf-8")
    worker.chmod(0o755)
