"""Random plans, a scheme and fields for each group, on the real models: valid, run, no tensor quantized twice."""

import collections
import json
import os
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "differential"))
import cases
import oracle
from testing.models import seqto

PLANS = 4
FIELDS = {
    "int8": {"per_channel": [True, False], "reduce_range": [True], "weight_clipping": ["mse"],
             "activation_type": ["int8", "uint8", "uint16"], "symmetric_activations": [True],
             "symmetric_weights": [False]},
    "int8w_int16a": {"per_channel": [True], "weight_type": ["int8", "int16"]},
    "int8_dynamic": {"weight_type": ["int8", "uint8"], "reduce_range": [True]},
    "int8_weights": {"weight_type": ["int8", "uint8"], "block_size": [32, 64]},
    "int4_weights": {"weight_type": ["int4", "uint4"], "block_size": [16, 32]},
}


def random_plan(rng, model):
    """Groups of neighbours often share a scheme, as a search has them; every boundary occurs all the same."""
    schemes = {layer["name"]: layer["schemes"] for layer in model["layers"]}
    plan, chosen, fields = {}, "float32", {}
    for group in model["groups"]:
        if rng.random() < 0.6:
            chosen = str(rng.choice([*FIELDS, "float16", "float32"]))
            fields = {k: v[rng.integers(len(v))] for k, v in FIELDS.get(chosen, {}).items() if rng.random() < 0.4}
            if model["opset"] < 13:  # the conversion that it needs gives tensors names that the ranges do not know
                fields.pop("per_channel", None)
        for layer in group:
            if chosen in schemes[layer]:
                plan[layer] = {"scheme": chosen, **fields} if fields else chosen
    return plan


def main():
    root = os.environ.get("SEQTO_CASES_DIR", "")
    if not root or not pathlib.Path(root).exists():
        print(f"skipped: no cases in {root!r}")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number, case in enumerate(cases.names(root)):
            model, inputs, ranges = cases.load(root, case)
            source, quantized = folder / "model.onnx", folder / "quantized.onnx"
            onnx.save(model, source)
            oracle.save_ranges(ranges, folder / "ranges.json")
            inspected = json.loads(seqto("inspect", source, "--json").stdout)
            for k in range(PLANS):
                plan = random_plan(np.random.default_rng([number, k]), inspected)
                (folder / "plan.json").write_text(json.dumps({"schemes": plan}))
                result = seqto("quantize", source, "-o", quantized, "--plan", folder / "plan.json", "--ranges",
                               folder / "ranges.json")
                assert result.returncode == 0, (case, k, result.stderr, plan)
                graph = onnx.load(quantized).graph
                times = collections.Counter(n.input[0] for n in graph.node if n.op_type == "QuantizeLinear")
                assert all(count == 1 for count in times.values()), (case, k, times.most_common(3))
                for output in oracle.session(str(quantized), True).run(None, inputs[0]):
                    assert output.dtype.kind != "f" or np.isfinite(output).all(), (case, k, plan)
            print(case, "ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
