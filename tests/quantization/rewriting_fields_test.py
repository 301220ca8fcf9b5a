"""center, equalize and smooth_quant as fields of a scheme: on all layers they are the flags; on one, its tensors alone."""
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import save, seqto, weight  # noqa: E402

FLAGS = {"center": "--center", "equalize": "--equalize", "smooth_quant": "--smooth-quant"}
node = helper.make_node


def convolutions(path):
    """Two linear bottlenecks, each with channels that lie apart, behind a layer whose channels differ in size."""
    sizes = np.geomspace(0.05, 1, 8, dtype=np.float32)[:, None, None, None]
    nodes, weights, tensor = [], [], "x"
    for block, width in (("a", 3), ("b", 6)):
        names = [f"{block}_{part}" for part in ("expand", "relu", "squeeze")]
        weights += [(f"{block}_we", weight(8, width, 1, 1, seed=ord(block)) * sizes), (f"{block}_be", weight(8, seed=2)),
                    (f"{block}_ws", weight(6, 8, 1, 1, seed=ord(block) + 1)),
                    (f"{block}_bs", np.float32([20, -20, 10, -10, 5, 0]))]
        nodes += [node("Conv", [tensor, f"{block}_we", f"{block}_be"], [f"{block}0"], name=names[0]),
                  node("Relu", [f"{block}0"], [f"{block}1"], name=names[1]),
                  node("Conv", [f"{block}1", f"{block}_ws", f"{block}_bs"], [f"{block}2"], name=names[2])]
        tensor = f"{block}2"
    nodes += [node("Conv", [tensor, "wl"], ["c"], name="last"), node("GlobalAveragePool", ["c"], ["p"], name="pool"),
              node("Flatten", ["p"], ["y"], name="flatten")]
    weights.append(("wl", weight(5, 6, 1, 1, seed=9)))
    return save(path, nodes, [("x", [1, 3, 6, 6])], [("y", [1, 5])], weights)


def products(path):
    """Two normalizations with outlier channels, each before a product."""
    outliers = np.ones(16, np.float32)
    outliers[[3, 11]] = 60
    nodes = [node("LayerNormalization", ["x", "g", "b"], ["n"], name="norm", axis=-1),
             node("MatMul", ["n", "w0"], ["h"], name="first"),
             node("LayerNormalization", ["h", "g2", "b2"], ["n2"], name="norm2", axis=-1),
             node("MatMul", ["n2", "w1"], ["y"], name="second")]
    weights = [("g", outliers), ("g2", outliers[::-1].copy()), ("b", weight(16, seed=1)), ("b2", weight(16, seed=4)),
               ("w0", weight(16, 16, seed=2)), ("w1", weight(16, 16, seed=3))]
    return save(path, nodes, [("x", [1, 4, 16])], [("y", [1, 4, 16])], weights)


def quantize(folder, model, *flags, fails=0):
    result = seqto("quantize", model, "--data", folder / "data.npz", "-o", folder / "q.onnx", *flags)
    assert result.returncode == fails, result.stderr
    return (folder / "q.onnx").read_bytes() if fails == 0 else result.stderr


def plan(folder, schemes):
    (folder / "plan.json").write_text(json.dumps({"schemes": schemes}))
    return folder / "plan.json"


def layers(model, scheme):
    listed = json.loads(seqto("inspect", model, "--json").stdout)["layers"]
    return [layer["name"] for layer in listed if scheme in layer["schemes"]]


def tensors(data):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load_from_string(data).graph.initializer}


def on_all_layers(folder, model, fields):
    for field in fields:
        for scheme, flags in (("int8", ["--activation-type", "int8"]), ("int8_dynamic", ["--mode", "dynamic", "--weight-type", "int8"])):
            names = layers(model, scheme)
            plain = quantize(folder, model, "--plan", plan(folder, {n: scheme for n in names}))
            given = quantize(folder, model, "--plan", plan(folder, {n: {"scheme": scheme, field: True} for n in names}))
            assert given == quantize(folder, model, *flags, FLAGS[field]), (field, scheme)
            # Convolutions do not take part in the dynamic form by default.
            assert (given != plain) == bool(names), (field, scheme)
            back = quantize(folder, model, FLAGS[field], "--plan",
                            plan(folder, {n: {"scheme": scheme, field: False} for n in names}))
            assert back == plain, (field, scheme)


def on_one_layer(folder, model, field, layer, its, others):
    """The constants named in `its` are others, those of `others` stay."""
    names = layers(model, "int8")
    plain = tensors(quantize(folder, model, "--plan", plan(folder, {n: "int8" for n in names})))
    schemes = {n: {"scheme": "int8", field: True} if n == layer else "int8" for n in names}
    given = tensors(quantize(folder, model, "--plan", plan(folder, schemes)))
    changed = {n for n in plain if n in given and not np.array_equal(plain[n], given[n])}
    assert all(any(n.startswith(i) for n in changed) for i in its), (field, layer, changed)
    assert not any(n.startswith(o) for n in changed for o in others), (field, layer, changed)


def refusals(folder, model):
    names = layers(model, "int8")
    asking = plan(folder, {n: {"scheme": "int8", "equalize": True} for n in names})
    without = seqto("quantize", model, "-o", folder / "q.onnx", "--plan", asking)
    assert without.returncode == 2 and "--data" in without.stderr, without.stderr
    assert seqto("calibrate", model, "--data", folder / "data.npz", "-o", folder / "r.json").returncode == 0
    assert "leave --ranges out" in quantize(folder, model, "--plan", asking, "--ranges", folder / "r.json", fails=2)
    wrong = plan(folder, {names[0]: {"scheme": "int8_weights", "center": True}})
    assert "field center found, which scheme int8_weights does not have" in quantize(folder, model, "--plan", wrong, fails=2)
    few = ["--calibration-samples", "8", "--search-samples", "8", "--max-evaluations", "6", "-o", folder / "t"]
    differ = seqto("tune", model, "--data", folder / "data.npz", "--schemes", "int8+equalize=true,int8,float32",
                   "--no-improve", *few)
    assert differ.returncode == 2 and "differ in center, equalize or smooth_quant" in differ.stderr, differ.stderr
    alike = seqto("tune", model, "--data", folder / "data.npz", "--schemes", "int8+equalize=true,int8_weights,float32",
                  "--no-improve", *few)
    assert alike.returncode == 0, alike.stderr
    study = [json.loads(line) for line in (folder / "t" / "study.jsonl").read_text().splitlines()]
    assert json.loads(study[0]["header"]["options_json"])["improvers"] == {"equalize": "least_noise_in_either_axis"}, study[0]
    assert any("int8+equalize=true" in line or '"equalize":true' in line
               for line in (folder / "t" / "study.jsonl").read_text().splitlines()[1:])


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        np.savez(folder / "data.npz", x=rng.normal(size=(40, 3, 6, 6)).astype(np.float32))
        model = convolutions(folder / "conv.onnx")
        on_all_layers(folder, model, ("center", "equalize"))
        on_one_layer(folder, model, "equalize", "a_squeeze", ("a_we", "a_ws"), ("b_we", "b_ws", "wl"))
        on_one_layer(folder, model, "center", "last", ("b_bs",), ("a_bs",))
        refusals(folder, model)
        np.savez(folder / "data.npz", x=rng.normal(size=(16, 4, 16)).astype(np.float32))
        model = products(folder / "matmul.onnx")
        on_all_layers(folder, model, ("smooth_quant",))
        on_one_layer(folder, model, "smooth_quant", "second", ("w1",), ("w0",))
    print("fields center, equalize, smooth_quant: as the flags on all layers, on one its tensors alone")


if __name__ == "__main__":
    main()
