"""Compiles an ONNX model by TVM: tvm_compile.py MODEL.onnx FOLDER TARGET-JSON, into model.so and model.json in FOLDER.

Run by seqto (src/runner/tvm_compile.cc) as a process of its own, since the compiler may crash. What TVM does not take
is one line on stderr that begins with "error: ", and exit code 1.
"""

import json
import os
import shutil
import subprocess
import sys

import onnx
import tvm
import tvm_ffi
from tvm.relax.frontend.onnx import from_onnx
from tvm.support import cc, ndk


def link_plainly(linker):
    """For Android and other systems whose compiler is not here: compiled models need nothing of their libraries."""

    def link(output, objects, options=None):
        objects = [objects] if isinstance(objects, str) else list(objects)
        subprocess.run([linker, "-shared", "-o", output, *objects], check=True, capture_output=True, text=True)

    link.output_format = "so"
    link.object_format = "o"
    return link


def linker_for(triple):
    """What makes a shared library of objects for the machine `triple`; None is TVM's own choice, the C++ compiler."""
    if not triple:
        return None
    if "android" in triple and "TVM_NDK_CC" in os.environ:
        return ndk.create_shared
    compiler = shutil.which(triple + "-g++")
    if compiler and "android" not in triple:
        return cc.cross_compiler(compiler)
    machine = triple.split("-")[0]
    for name in ["ld.lld", *(f"ld.lld-{version}" for version in range(25, 12, -1)), f"{machine}-linux-gnu-ld"]:
        if shutil.which(name):
            return link_plainly(name)
    raise RuntimeError(f"no linker for {triple}: install g++ for it, or lld, or set TVM_NDK_CC to the NDK's clang++")


def shapes_of(model):
    weights = {w.name for w in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    return inputs, {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in inputs}


def describe(model, module, target, shapes):
    """The order of inputs is that of the compiled function; its parameters' names may be cleaned."""
    inputs, _ = shapes_of(model)
    parameters = [p.name for p in module["main"].params]
    if len(parameters) != len(inputs):
        raise RuntimeError(f"TVM made a function of {len(parameters)} inputs; the model has {len(inputs)}")
    by_name = {i.name: i for i in inputs}
    if set(parameters) == set(by_name):
        inputs = [by_name[name] for name in parameters]
    return {
        "kind": target["kind"],
        "target": target,
        "tvm": tvm.__version__,
        "inputs": [{"name": i.name, "type": i.type.tensor_type.elem_type, "dims": shapes[i.name]} for i in inputs],
        "outputs": [o.name for o in model.graph.output],
    }


def compile_model(path, folder, target):
    # Kernels for NVIDIA GPUs stay CUDA C, compiled by the machine that runs them (tvm/cuda_compiler.cc): else what
    # comes out would depend on the packages beside this Python.
    if target["kind"] == "cuda" and tvm_ffi.get_global_func("ffi.Module.create.cuda", allow_missing=True):
        tvm_ffi.registry.remove_global_func("ffi.Module.create.cuda")
    model = onnx.load(path)
    _, shapes = shapes_of(model)
    module = from_onnx(model, shape_dict=shapes)
    description = describe(model, module, target, shapes)
    compiled_for = tvm.target.Target(target)
    with compiled_for:
        executable = tvm.compile(module, target=compiled_for)
    linker = linker_for(target.get("host", target).get("mtriple"))
    executable.export_library(os.path.join(folder, "model.so"), **({"fcompile": linker} if linker else {}))
    with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as file:
        json.dump(description, file)


def main():
    path, folder, target = sys.argv[1:]
    try:
        compile_model(path, folder, json.loads(target))
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: {' '.join(map(str, error.cmd))}: {error.stderr.strip()}")
    except Exception as error:  # whatever the compiler throws is the model's fault
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        sys.exit(f"error: {type(error).__name__}: {lines[-1] if len(lines) > 8 else ' '.join(lines)}")


main()
