"""Another release of ONNX Runtime, in a process of its own: the graphs that it makes. What is run there:

    {"model": PATH, "optimized": PATH} a line: optimizes the model to the second file and runs it; answers {} or {"error": TEXT}
"""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx


def packages(release):
    """Where the release lies; pip brings it."""
    folder = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"]) / ".deps/runtimes" / f"onnxruntime-{release}-python"
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, f"onnxruntime=={release}.*"], check=True)
    return str(folder)


def random_sample(model):
    constants, rng = {i.name for i in model.graph.initializer}, np.random.default_rng(0)
    sample = {}
    for value in model.graph.input:
        if value.name in constants: continue
        tensor = value.type.tensor_type
        shape = [d.dim_value or 1 for d in tensor.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        sample[value.name] = rng.normal(size=shape).astype(kind) if kind.kind == "f" else np.zeros(shape, kind)
    return sample


def optimize(runtime, path, output):
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.optimized_model_filepath = output
    runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, random_sample(onnx.load(path)))


def main():
    import onnxruntime
    print(json.dumps({"version": onnxruntime.__version__}), flush=True)
    for line in sys.stdin:
        asked, answer = json.loads(line), {}
        try:
            optimize(onnxruntime, asked["model"], asked["optimized"])
        except Exception as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
