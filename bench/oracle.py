"""`seqto lint` against what ONNX Runtime made of the graph: for each node of generated graphs that onnxruntime's quantizer wrote, and
of the cases quantized by seqto, whether the verdict is that of the optimized graph.

- integers: what the QuantizeLinear behind it gives comes from another operator than QuantizeLinear, or its own output from one on codes
- conversion, fused: the pair's node is there, or is not
- float: the output comes from an operator in float, or was fused into one
- fused, of an activation: it is not there, and a QuantizeLinear or an operator on codes stands in its place
- other: not counted

usage: ./dev bench oracle [--count 1000] [--seed 0] [--show N] [--target T]      (--show: the first N verdicts that were wrong)

With `--target onnxruntime-web-wasm` it is the graph that ONNX Runtime for the web makes, under Node. With `--target openvino-cpu`
the files are those that `quantize --target` writes, and OpenVINO's compiled graph tells of convolutions and products alone.
`./dev setup runtimes` brings both. With `--target qnn-htp` it is Qualcomm's compiler that says of each group of nodes whether
it takes it; `./dev setup qnn` brings it. For `onnxruntime-cpu-x86-1.20` it is the graph of that release, which pip brings.
"""
import collections
import contextlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

import numpy as np
import onnx
import onnxruntime as ort

ROOT = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"])

sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "differential")]
import graphs  # noqa: E402
import _oracle_openvino as openvino_graph  # noqa: E402
import _oracle_qnn as qnn_graph  # noqa: E402
import _oracle_release  # noqa: E402
import _oracle_web as web_graph  # noqa: E402
from _ratios import Ratios, folder as results_folder  # noqa: E402

# Named as this file.
_spec = importlib.util.spec_from_file_location("quantizer_oracle", ROOT / "tests" / "differential" / "oracle.py")
quantizer = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(quantizer)

BINARY = os.environ["SEQTO_BINARY"]
TARGET = sys.argv[sys.argv.index("--target") + 1] if "--target" in sys.argv else "onnxruntime-cpu-x86"
ON_OPENVINO, ON_WEB, ON_QNN = TARGET == "openvino-cpu", TARGET == "onnxruntime-web-wasm", TARGET == "qnn-htp"
COMPILED = openvino_graph if ON_OPENVINO else qnn_graph if ON_QNN else None  # tells of nodes, not of a graph
RELEASE = TARGET.partition("-x86-")[2]
OTHER = web_graph.Web() if ON_WEB and not web_graph.missing() else web_graph.Release(RELEASE) if RELEASE else None
BEGIN, END = "<!-- ./dev bench oracle --write: -->", "<!-- end -->"
ON_CODES = ("QLinear", "QGemm", "MatMulInteger", "DynamicQuantize", "QAttention", "ConvInteger")
MOVERS = ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "MaxPool")
DROPPED = ("Relu", "Clip")  # where the QuantizeLinear behind them does the same
KEEPS_CODES = MOVERS + ("NhwcMaxPool", "Gather", "GatherElements", "Flatten", "Expand", "Tile", "Split", "Resize", "ReduceMax", "ReduceMin",
                        "DepthToSpace", "SpaceToDepth")
CODE_TYPES = {onnx.TensorProto.UINT8, onnx.TensorProto.INT8, onnx.TensorProto.UINT16, onnx.TensorProto.INT16}
PAIR = ("QuantizeLinear", "DequantizeLinear")


def optimized(path, output):
    """Throws where the runtime ends on the file, when it loads or when it runs it."""
    if ON_WEB or RELEASE: OTHER.optimize(path, output)
    else: _oracle_release.optimize(ort, path, output)
    if ON_WEB: OTHER.run(path, [_oracle_release.random_sample(onnx.load(path))])
    return onnx.load(output)


def verdicts(path, target=TARGET):
    done = subprocess.run([BINARY, "--json", "lint", path, "--target", target], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 5): raise RuntimeError(done.stderr)
    return json.loads(done.stdout)["nodes"]


class Truth:
    """What became of each tensor of the model in the optimized graph."""

    def __init__(self, model, after):
        self.readers = collections.defaultdict(list)
        for n in model.graph.node:
            for i in n.input: self.readers[i].append(n)
        self.equal = collections.defaultdict(list)  # nodes that the runtime may merge
        for n in model.graph.node: self.equal[(n.op_type, *n.input)].append(n)
        self.makers = {o: n for n in model.graph.node for o in n.output}
        self.made = {o: n for n in after.graph.node for o in n.output}
        self.named = {(n.op_type, n.name): n for n in after.graph.node}
        self.quantized = {n.input[0] for n in after.graph.node if n.op_type == "QuantizeLinear"}
        self.dequantized = {n.output[0] for n in after.graph.node if n.op_type == "DequantizeLinear"}
        self.pairs = {n.name.split("/duplicated")[0] for n in after.graph.node if n.op_type in PAIR}
        self.constants = {i.name for i in after.graph.initializer}
        # Scales of those that the runtime made anew where it moved a Transpose: nothing tells what they were.
        self.unnamed = {n.input[1] for n in after.graph.node if n.op_type == "QuantizeLinear" and n.name.startswith("QuantizeLinear")}
        self.codes = {i.name for i in after.graph.initializer if i.data_type in CODE_TYPES}
        for n in after.graph.node:
            if n.op_type == "QuantizeLinear" or n.op_type.startswith(("QLinear", "DynamicQuantizeLinear")) or \
                    (n.op_type == "QGemm" and len(n.input) > 7) or (n.op_type in KEEPS_CODES and n.input[0] in self.codes):
                self.codes.update(n.output)

    def of_pair(self, node):
        """The runtime renames what signed codes become, and gives each reader a DequantizeLinear of its own."""
        same = self.equal[(node.op_type, *node.input)] if node.op_type == "QuantizeLinear" else [node]
        if any(n.name and n.name in self.pairs for n in same): return "conversion"
        if node.op_type == "QuantizeLinear":
            if self.in_front(node.input[0]): return "conversion"
            return None if node.input[1] in self.unnamed else "fused"
        return "conversion" if self.behind(node.output[0]) else "fused"

    def in_front(self, tensor):
        """Whether a QuantizeLinear reads the tensor, or what it was moved from."""
        while tensor not in self.quantized and tensor + "_q" not in self.pairs:
            maker = self.makers.get(tensor)
            if maker is None or maker.op_type not in MOVERS + DROPPED: return False
            tensor = maker.input[0]
            if tensor in self.makers and self.makers[tensor].op_type == "DequantizeLinear": return False  # codes already
        return True

    def behind(self, tensor):
        """Whether a DequantizeLinear makes the tensor, or what it is moved to."""
        if any(name.split("/duplicated")[0] in (tensor, tensor + "_post_dq") or name.startswith(tensor + "_post_dq") for name in self.dequantized): return True
        return any(r.op_type in MOVERS and self.behind(r.output[0]) for r in self.readers[tensor])

    def behind_layout(self, node):
        """The node before the Transpose that another layout takes."""
        while node is not None and node.op_type in ("Transpose", "ReorderOutput"): node = self.made.get(node.input[0])
        return node

    def of(self, node):
        return self.of_pair(node) if node.op_type in PAIR else self.of_layer(node)

    def of_layer(self, node):
        """"integers", "float", or nothing where the graph does not tell."""
        for k, output in enumerate(node.output):
            equal = [n.output[k] for n in self.equal[(node.op_type, *node.input)]]
            if output not in self.made and node.op_type in DROPPED:
                quantized = [self.made.get(r.output[0]) for r in self.readers[output] if r.op_type == "QuantizeLinear"]
                if any(q is not None and q.op_type == "QuantizeLinear" and q.input[0] not in equal for q in quantized): return "fused"
            own = self.made.get(output) or (self.named.get((node.op_type, node.name)) if node.name else None)
            own = own or next((self.made[o] for o in equal if o in self.made), None)
            if own is not None and node.op_type != "Transpose": own = self.behind_layout(own)
            if own is not None and own.op_type not in PAIR:
                return "integers" if own.op_type.startswith(ON_CODES) or any(i in self.codes for i in own.input) else "float"
            for reader in self.readers[output]:
                if reader.op_type != "QuantizeLinear": continue
                behind = self.behind_layout(self.made.get(reader.output[0]))
                if behind is not None and node.op_type in DROPPED: return "fused"
                if behind is not None and behind.op_type not in PAIR: return "integers"
        return None


def compare(path, scratch, found, wrong, by_file):
    model = onnx.load(path)
    try:
        truth = COMPILED.Truth(path) if COMPILED else Truth(model, optimized(path, scratch))
    except Exception as error:
        if is_foretold(path): return "foretold"
        wrong.append(f"{path}: refused: {' '.join(str(error).split())[:200]}")
        return "refused"
    told = {v["node"]: v for v in verdicts(path)}
    for i, n in enumerate(model.graph.node):
        v = told.get(n.name or f"node_{i}")
        if v is None or v["verdict"] == "other": continue
        true = truth.of(n)
        if true is None and not COMPILED: true = "float" if v["verdict"] == "float" else None  # fused into what reads it
        if true is None: continue
        right = v["verdict"] == true
        found[(n.op_type, right)] += 1
        by_file[pathlib.Path(path).stem] += not right
        if not right:
            readers = ",".join(sorted({r.op_type for o in n.output for r in model.graph.node if o in r.input}))
            why = getattr(truth, "why", lambda _: "")(n)
            wrong.append(f"{path}: {n.op_type} {n.name}, read by {readers}: {v['verdict']} said, {true} found; {v['reason']} {why}")
    return "models"


def is_foretold(path):
    """Whether lint refuses a node, or the file."""
    with contextlib.suppress(RuntimeError): return any(v["verdict"] == "refused" for v in verdicts(path))
    return True


def generated(seed, folder):
    case = graphs.generate(seed, float16=False)
    if COMPILED: return written_for_target(case.model, "random", folder / f"q{seed}.onnx", folder)
    options = quantizer.random_options(np.random.default_rng([seed, 2]), case.model)
    model, ranges, output = folder / "m.onnx", folder / "r.json", folder / f"q{seed}.onnx"
    onnx.save(case.model, model)
    if RELEASE: OTHER.optimize(model, folder / "optimized.onnx")  # graphs that it refuses in float tell nothing
    quantizer.save_ranges(quantizer.observe(case.model, case.inputs, quantizer.float_tensors(case.model, options["op_types"])), ranges)
    quantizer.quantize(model, ranges, options, output)
    return output


def written_for_target(model, data, output, folder):
    path = model
    if isinstance(model, onnx.ModelProto):
        path = folder / "m.onnx"
        onnx.save(model, path)
    if ON_QNN: path = with_fixed_shapes(path, data, folder / "fixed.onnx")
    if not COMPILED.runs(str(path)): raise RuntimeError("refused in float too")
    done = subprocess.run([BINARY, "quantize", path, "--data", data, "--samples", "4", "--quick", "--target", TARGET, "-o", output],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0: raise RuntimeError(done.stderr)
    return output


def with_fixed_shapes(path, data, output):
    """One sample, of the size of the data's; lengths that neither says are 32."""
    model = onnx.load(path)
    arrays = np.load(data) if data != "random" else {}
    constants = {i.name for i in model.graph.initializer}
    dims = [f"{v.name}:{k}={1 if k == 0 else arrays[v.name].shape[k] if v.name in arrays else 32}"
            for v in model.graph.input if v.name not in constants
            for k, d in enumerate(v.type.tensor_type.shape.dim) if not d.HasField("dim_value")]
    if not dims: return path
    done = subprocess.run([BINARY, "prepare", path, "-o", output, *(f for d in dims for f in ("--dim", d))], capture_output=True, text=True, check=False)
    if done.returncode != 0: raise RuntimeError(done.stderr)
    return output


def of_cases(folder):
    for case in sorted(pathlib.Path(os.environ.get("SEQTO_CASES_DIR", "")).glob("*/case.json")):
        data = case.parent / "inputs.npz"
        model = case.parent / json.loads(case.read_text()).get("model", "model.onnx")
        if COMPILED:
            with contextlib.suppress(RuntimeError):
                yield written_for_target(model, data if data.exists() else "random", folder / f"{case.parent.name}.onnx", folder)
            continue
        for name, flags in (("s8", []), ("u8", ["--activation-type", "uint8", "--per-channel"]), ("qop", ["--format", "qoperator"])):
            output = folder / f"{case.parent.name}_{name}.onnx"
            how = ["--data", data] if data.exists() else ["--data", "random"]
            done = subprocess.run([BINARY, "quantize", model, *how, "--samples", "4", *flags, "-o", output], capture_output=True, check=False)
            if done.returncode == 0: yield output


def main():
    if lacking := COMPILED.missing() if COMPILED else web_graph.missing() if ON_WEB else "":
        print("skipped:", lacking)
        return 0
    value = lambda flag, otherwise: int(sys.argv[sys.argv.index(flag) + 1]) if flag in sys.argv else otherwise
    count, first, show = value("--count", 1000), value("--seed", 0), value("--show", 0)
    found, wrong, by_file, files = collections.Counter(), [], collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        scratch = str(folder / "optimized.onnx")
        for seed in range(first, first + count):
            try:
                with contextlib.redirect_stderr(None): path = generated(seed, folder)
            except Exception:
                continue  # what onnxruntime's quantizer refuses
            files[compare(str(path), scratch, found, wrong, by_file)] += 1
            path.unlink(missing_ok=True)
        for path in of_cases(folder):
            files[compare(str(path), scratch, found, wrong, by_file)] += 1
    right, all_nodes = sum(c for (_, r), c in found.items() if r), sum(found.values())
    for line in wrong[:show]: print(line.replace(name, ""))
    by_op = collections.Counter(op for op, r in found.elements() if not r)
    print("cases with wrong verdicts:", {f: c for f, c in by_file.items() if c and not f[1:].isdigit()})
    refused, models = files["refused"] + files["foretold"], files["models"]
    runtime = COMPILED.version() if COMPILED else OTHER.version if OTHER else f"onnxruntime {ort.__version__}"
    print(f"{TARGET}, {runtime}: {right} of {all_nodes} nodes right ({right / all_nodes:.2%}, goal 99.9 %) in {files['models']} models; "
          f"{refused} that the runtime refuses, {files['foretold']} of them foretold; wrong by operator: {dict(by_op.most_common(12))}")
    ratios = Ratios("oracle_openvino" if ON_OPENVINO else "oracle_qnn" if ON_QNN else "oracle_web" if ON_WEB else f"oracle_{RELEASE}".rstrip("_"), ["generated graphs, cases"])
    ratios.add("nodes wrong", max(1e-9, 1 - right / all_nodes), "lower")
    if COMPILED: ratios.add("files refused, of those whose float model is taken", max(1e-9, refused / (refused + models)), "lower")
    ratios.counts = {"target": TARGET, "runtime": runtime, "files": models, "nodes": all_nodes, "right": right, "refused": refused, "foretold": files["foretold"]}
    done = ratios.finish()
    if "--write" in sys.argv: write_table()
    return done


def write_table():
    """The figures of all targets, in the page about them; none of those that are only documented."""
    lines = ["| target | how it is known | runtime | files | nodes predicted | right | files refused | of them foretold |", "|---|---|---|---|---|---|---|---|"]
    counts = [json.loads(path.read_text()).get("counts") for path in sorted(results_folder().glob("oracle*.json"))]
    measured = {c["target"]: c for c in counts if c}
    tables = {path.stem: tomllib.loads(path.read_text()) for path in sorted((ROOT / "targets").glob("*.toml"))}
    for name in [*measured, *(n for n in tables if n not in measured)]:
        c, known = measured.get(name), tables[name]["known"]
        figures = [c["files"], c["nodes"], c["right"] / c["nodes"], c["refused"], c.get("foretold", "")] if c else [""] * 5
        runtime = c["runtime"] if c else f"as `{tables[name]['extends']}`" if known == "run" else ""
        cells = [f"`{name}`", known, runtime, *(f"{f:.2%}" if isinstance(f, float) else f"{f:,}" if f != "" else "" for f in figures)]
        lines.append("".join(f"| {cell} " if cell else "| " for cell in cells) + "|")
    page = ROOT / "docs/reference/targets.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    sys.exit(main())
