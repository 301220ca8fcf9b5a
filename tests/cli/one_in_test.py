"""analyze --one-in: a float16 decoder in blocks gives the losses of whole candidates, each weight is read once, and the
plan for a size is one that `quantize` takes."""
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.decoder import SMALL, Decoder  # noqa: E402
from testing.models import seqto  # noqa: E402


def log_shares(path, ids):
    session = onnxruntime.InferenceSession(path)
    rows = [session.run(None, {"input_ids": r[None], "attention_mask": np.ones_like(r[None])})[0][0] for r in ids]
    logits = np.array(rows, np.float64)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def kl(wanted, found):
    return (np.exp(wanted) * (wanted - found)).sum(-1).mean()


def widen(path, output):
    """The same model in float32, by our own rules: every float16 becomes float32."""
    model = onnx.load(path)
    for i in model.graph.initializer:
        if i.data_type == onnx.TensorProto.FLOAT16:
            i.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(i).astype(np.float32), i.name))
    for v in [*model.graph.input, *model.graph.output]:
        if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16: v.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for n in model.graph.node:
        for a in n.attribute:
            if n.op_type == "Cast" and a.i == onnx.TensorProto.FLOAT16: a.i = onnx.TensorProto.FLOAT
    onnx.save(model, output)


def table(model, *flags):
    done = seqto("--json", "analyze", model, "--task", "generate", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_whole_candidates(folder):
    half, single = folder / "half.onnx", folder / "single.onnx"
    Decoder(half, **SMALL)
    widen(half, single)
    ids = np.random.default_rng(3).integers(0, SMALL["words"], (3, 24))
    np.savez(folder / "ids.npz", input_ids=ids)
    flags = ["--one-in", "int8_weights,int4_weights", "--data", folder / "ids.npz"]
    found = table(half, *flags, "--size", "0.45", "--plan-out", folder / "plan.json")
    assert found["loss"] == "kl" and found["blocks"] > 5, found
    assert found["read_bytes"] <= 1.05 * found["model_bytes"] + 2 * SMALL["words"] * SMALL["width"], "the tied table is read twice"
    also = table(single, *flags)
    # What an exporter notes of each node is in no file that is written, so sizes go without it.
    noted = onnx.load(single)
    for node in noted.graph.node:
        note = node.metadata_props.add()
        note.key, note.value = "pkg.torch.onnx.stack_trace", "x" * 1000
    onnx.save(noted, folder / "noted.onnx")
    noted = table(folder / "noted.onnx", *flags)
    assert noted["model_bytes"] == also["model_bytes"]
    saved = lambda found: [s["bytes_saved"] for g in found["groups"] for s in g["schemes"]]
    assert saved(noted) == saved(also)
    wanted = log_shares(single, ids)
    compared = 0
    for ours, other in zip(found["groups"], also["groups"]):
        assert ours["layers"] == other["layers"]
        for a, b in zip(ours["schemes"], other["schemes"]):
            assert abs(a["losses"]["kl"] - b["losses"]["kl"]) <= 1e-3 * b["losses"]["kl"] + 1e-8, (a, b)
            assert a["bytes_saved"] < b["bytes_saved"], "of a file in float16 and of one in float32"
            plan = folder / "one.json"
            plan.write_text(json.dumps({"schema_version": 1, "schemes": a["plan"]}))
            done = seqto("quantize", single, "--plan", plan, "-o", folder / "one.onnx")
            assert done.returncode == 0, done.stderr
            whole = kl(wanted, log_shares(folder / "one.onnx", ids))
            assert abs(a["losses"]["kl"] - whole) <= 0.02 * whole + 1e-7, (ours["layers"], a, whole)
            compared += 1
    assert compared >= 24, compared
    for share in (0.4, 0.5, 0.7):
        table(single, *flags, "--size", share, "--plan-out", folder / "plan.json")
        done = seqto("quantize", single, "--plan", folder / "plan.json", "-o", folder / "q.onnx")
        assert done.returncode == 0, done.stderr
        assert 0.8 * share < (folder / "q.onnx").stat().st_size / single.stat().st_size <= share, share


def tied_table(folder):
    """What reads a weight elsewhere counts: the table is stored once, and a head in float reads its codes."""
    model, plan, file = folder / "single.onnx", folder / "one.json", folder / "one.onnx"
    data = ["--data", folder / "ids.npz"]
    found = table(model, "--one-in", "int8,int8_dynamic,int8_weights,int4_weights+bits=4", *data)
    ids = np.load(folder / "ids.npz")["input_ids"]
    wanted = log_shares(model, ids)
    tables = {n.name for n in onnx.load(model).graph.node if n.op_type == "Gather" and n.input[1] == "input_ids"}
    tied = [s for g in found["groups"] if tables & set(g["layers"]) for s in g["schemes"]]
    assert len(tied) == 4, tied
    assert tied[3]["plan"]["embedded_Gather"]["bits"] == 4, "what is asked for is not widened"
    for entry in tied:
        plan.write_text(json.dumps({"schema_version": 1, "schemes": entry["plan"]}))
        done = seqto("quantize", model, "--plan", plan, *(data if entry["scheme"] == "int8" else []), "-o", file)
        assert done.returncode == 0, done.stderr
        saved = found["model_bytes"] - file.stat().st_size
        assert entry["bytes_saved"] > 0 and abs(entry["bytes_saved"] - saved) < 0.02 * saved + 1000, (entry, saved)
        whole = kl(wanted, log_shares(file, ids))
        assert abs(entry["losses"]["kl"] - whole) <= 0.1 * whole + 1e-7, (entry, whole)
    done = seqto("--json", "analyze", model, "--task", "generate", "--one-in", "int8_dynamic", *data, "--size", 0.34,
                 "--plan-out", folder / "dynamic.json")
    assert done.returncode == 0, done.stderr


def bodies_and_exclusions(folder):
    """A body reads what no edge tells of: such a graph is one block."""
    from onnx import TensorProto as T, helper as h
    random = np.random.default_rng(2)
    constants = [onnx.numpy_helper.from_array(random.standard_normal((32, 32)).astype(np.float32), n) for n in ("w1", "w2", "captured")]
    constants.append(onnx.numpy_helper.from_array(np.array(True), "yes"))
    body = lambda op: h.make_graph([h.make_node(op, ["h", "captured"], ["r"])], op, [], [h.make_tensor_value_info("r", T.FLOAT, None)])
    nodes = [h.make_node("MatMul", ["x", "w1"], ["h"], name="first"),
             h.make_node("If", ["yes"], ["b"], name="branch", then_branch=body("MatMul"), else_branch=body("Add")),
             h.make_node("MatMul", ["b", "w2"], ["y"], name="second")]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 32])], [h.make_tensor_value_info("y", T.FLOAT, [1, 32])], constants)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), folder / "body.onnx")
    flags = ["--one-in", "int8_weights", "--data", "random"]
    found = table(folder / "body.onnx", *flags)
    layers = {n for g in found["groups"] for n in g["layers"]}
    assert found["blocks"] == 1 and {"first", "second"} <= layers, found
    assert all(s["losses"]["mse"] > 0 for g in found["groups"] for s in g["schemes"]), found
    left = table(folder / "body.onnx", *flags, "--exclude", "second")
    assert {n for g in left["groups"] for s in g["schemes"] for n in s["plan"]} == {"first"}, left


def refusals(folder):
    data = ["--data", folder / "ids.npz"]
    for flags, word in ((["--one-in", "int3"], "int3"), (["--one-in", "int4_weights", "--size", "0.5"], "--plan-out"),
                        (["--one-in", "int4_weights", "--quantized", folder / "q.onnx"], "--quantized"),
                        (["--one-in", "int4_weights", "--size", "0.0001", "--plan-out", folder / "p.json"], "--size")):
        done = seqto("analyze", folder / "single.onnx", *data, *flags)
        assert done.returncode == 2 and word in done.stderr, (flags, done.returncode, done.stderr)
    assert not (folder / "p.json").exists()


def sizes_of_files(folder):
    """What the exporter notes of each node is in no file that is written, and is not saved by any scheme."""
    case = Path(os.environ.get("SEQTO_CASES_DIR", "")) / "tiny_lm"
    if not (case / "case.json").is_file():
        print("SKIP sizes_of_files: no cases")
        return
    model, plan, file = case / "model.onnx", folder / "lm.json", folder / "lm.onnx"
    for share in (0.25, 0.5):
        done = seqto("analyze", model, "--one-in", "int4_weights,int8_weights", "--data", case / "inputs.npz", "--samples", 1,
                     "--size", share, "--plan-out", plan)
        assert done.returncode == 0, done.stderr
        done = seqto("quantize", model, "--plan", plan, "-o", file)
        assert done.returncode == 0, done.stderr
        assert 0.8 * share < file.stat().st_size / model.stat().st_size <= share, (share, file.stat().st_size)


def convolutions(folder):
    """A network of convolutions, static schemes too: the same mechanism."""
    example = Path(os.environ["SEQTO_SOURCE_DIR"]) / "examples" / "digits"
    done = seqto("--json", "analyze", example / "model.onnx", "--data", example / "digits.npz", "--samples", "32",
                 "--one-in", "int8,int8_weights")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["task"] == "classify" and found["blocks"] > 1
    kinds = {s["scheme"] for g in found["groups"] for s in g["schemes"] if s.get("losses", {}).get("kl", 0) > 0}
    assert kinds == {"int8", "int8_weights"}, kinds


with tempfile.TemporaryDirectory() as name:
    as_whole_candidates(Path(name))
    tied_table(Path(name))
    refusals(Path(name))
    bodies_and_exclusions(Path(name))
    convolutions(Path(name))
    sizes_of_files(Path(name))
