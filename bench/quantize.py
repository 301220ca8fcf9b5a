"""seqto quantize beside onnxruntime's quantizer, in one run: a graph of 1,000 nodes with given ranges, and dynamic
quantization of a generated 450 MB model. Wall time of the whole process (and of
the small one that measures its memory) for ours; for onnxruntime's the call alone,
without starting Python and importing it. Medians of three on both sides. Memory is the peak of the process that quantizes."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from _ratios import Ratios

ROUNDS = 3
BINARY = os.environ["SEQTO_BINARY"]
PEAK = os.path.join(os.environ["SEQTO_SOURCE_DIR"], "tests", "testing", "peak.py")


def measured(*words):
    """Wall seconds, peak resident bytes and standard output of a process."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-S", PEAK, *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    wall = time.perf_counter() - start
    *output, peak = done.stdout.splitlines()
    return wall, int(peak), "\n".join(output)


def theirs(job, *words, script=__file__):
    """A job of the script in a process of its own, which prints the seconds of the call: medians over rounds of these, of the seconds
    of the whole process, and of its peak memory. The last word is the file that it writes."""
    runs = []
    for _ in range(ROUNDS):
        pathlib.Path(words[-1]).unlink(missing_ok=True)  # some file systems write the old one's blocks first
        runs.append(measured(sys.executable, "-B", script, job, *words))
    return [statistics.median(column) for column in zip(*((float(output.split()[-1]), wall, peak) for wall, peak, output in runs))]


def thousand_nodes(path):
    rng = np.random.default_rng(0)
    nodes, weights, name = [], [], "x"
    for i in range(500):
        w = f"w{i}"
        weights.append(numpy_helper.from_array(rng.normal(size=(8, 8, 3, 3)).astype(np.float32), w))
        nodes.append(helper.make_node("Conv", [name, w], [f"c{i}"], name=f"conv{i}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("LeakyRelu", [f"c{i}"], [f"r{i}"], name=f"relu{i}"))
        name = f"r{i}"
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8, 16, 16]) for n in ("x", name)]
    graph = helper.make_graph(nodes, "g", [info[0]], [info[1]], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    tensors = ["x"] + [o for n in nodes for o in n.output]
    return {t: (-1.0 - i % 7, 1.0 + i % 5) for i, t in enumerate(tensors)}


def big(path, layers=14, width=1024):
    """Layers of 4 and 4 times width: 8 width^2 weights each."""
    rng = np.random.default_rng(0)
    nodes, weights, name = [], [], "x"
    for i in range(layers):
        for part, shape in (("up", (width, 4 * width)), ("down", (4 * width, width))):
            w, out = f"{part}{i}_w", f"{part}{i}"
            weights.append(numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32), w))
            nodes.append(helper.make_node("MatMul", [name, w], [out], name=out))
            name = out
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16, width]) for n in ("x", name)]
    graph = helper.make_graph(nodes, "g", [info[0]], [info[1]], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def static_call(model, ranges, output):
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorData, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.registry import QDQRegistry
    from onnxruntime.quantization.quant_utils import load_model_with_shape_infer
    data = {t: TensorData(lowest=np.float32(low), highest=np.float32(high))
            for t, (low, high) in json.load(open(ranges)).items()}
    data = TensorsData(CalibrationMethod.MinMax, data)
    start = time.perf_counter()
    quantizer = QDQQuantizer(load_model_with_shape_infer(pathlib.Path(model)), False, False, QuantType.QInt8,
                             QuantType.QInt8, data, [], [], list(QDQRegistry), {})
    quantizer.quantize_model()
    quantizer.model.save_model_to_file(output)
    print(time.perf_counter() - start)


def dynamic_call(model, output):
    from onnxruntime.quantization import QuantType, quantize_dynamic
    start = time.perf_counter()
    quantize_dynamic(model, output, weight_type=QuantType.QInt8)
    print(time.perf_counter() - start)


def main():
    ratios = Ratios("quantize", ["1,000 generated nodes", "470 MB generated"])
    with tempfile.TemporaryDirectory() as work:
        at = lambda name: os.path.join(work, name)
        ranges = thousand_nodes(at("nodes.onnx"))
        json.dump(ranges, open(at("pairs.json"), "w"))
        json.dump({"data": {t: {"lowest": low, "highest": high} for t, (low, high) in ranges.items()}},
                  open(at("ranges.json"), "w"))
        ours = [measured(BINARY, "quantize", at("nodes.onnx"), "--ranges", at("ranges.json"), "--activation-type", "int8", "-o", at("a.onnx"))[0]
                for _ in range(ROUNDS)]
        reference, _, _ = theirs("static", at("nodes.onnx"), at("pairs.json"), at("b.onnx"))
        ours = statistics.median(ours)
        print(f"1,000 nodes, ranges given: seqto {ours:.3f} s, onnxruntime {reference:.1f} s: "
              f"{reference / ours:.0f} x faster (goal 50)")
        ratios.add("1,000 nodes: onnxruntime / seqto", reference / ours, "higher")

        big(at("big.onnx"))
        size = os.path.getsize(at("big.onnx"))
        runs = [measured(BINARY, "quantize", at("big.onnx"), "--mode", "dynamic", "-o", at("c.onnx")) for _ in range(ROUNDS)]
        ours, peak = (statistics.median(run[k] for run in runs) for k in range(2))
        reference, _, reference_peak = theirs("dynamic", at("big.onnx"), at("d.onnx"))
        print(f"{size / 1e6:.0f} MB dynamic: seqto {ours:.2f} s, onnxruntime {reference:.1f} s: {reference / ours:.0f} x "
              f"faster (goal 10); peak memory {peak / size:.2f} x the file (goal 1.3), onnxruntime "
              f"{reference_peak / size:.2f} x; files {os.path.getsize(at('c.onnx')) / 1e6:.1f} and "
              f"{os.path.getsize(at('d.onnx')) / 1e6:.1f} MB")
        ratios.add("470 MB dynamic: onnxruntime / seqto", reference / ours, "higher")
        ratios.add("470 MB dynamic: peak memory / file", peak / size, "lower")
    return ratios.finish()


if __name__ == "__main__":
    jobs = {"static": static_call, "dynamic": dynamic_call}
    job = jobs.get(sys.argv[1]) if len(sys.argv) > 1 else None
    sys.exit(job(*sys.argv[2:]) if job else main())
