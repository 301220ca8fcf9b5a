"""read(lower(e)) == e: what src/quantization/read finds in a written file is what its encoding says, in every form.

    read_back_test.py [--count N] [--seed S]    N random graphs from seed S on, then the small ones of the real models
                      [--all]                   all of the real models

Compared by the driver (read_back.h): scales, zero points and axes of tensors, codes of constants, biases, and the values
that stored weights stand for; then the same with other codes and biases, as learning finds them.
"""
import argparse
import json
import os
import pathlib
import sys
import time
from collections import Counter

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cases  # noqa: E402
import differential_test as base  # noqa: E402
import graphs  # noqa: E402
import operator_graphs  # noqa: E402
import operators_test  # noqa: E402
import oracle  # noqa: E402

LARGEST_BYTES = 2 << 20
STORED = {  # name -> scheme and options
    "int8 weights": ("int8_weights", {}),
    "int8 weights in blocks": ("int8_weights", {"int8_block_size": 16, "int8_symmetric": False}),
    "MatMulNBits": ("int4_weights", {}),
    "MatMulNBits, symmetric": ("int4_weights", {"int4_block_size": 16, "int4_symmetric": True, "weight_bits": 8}),
    "int4 in DequantizeLinear": ("int4_weights", {"int4_format": "qdq", "int4_block_size": 32}),
    "int4 folded": ("int4_weights", {"int4_format": "folded", "int4_block_size": 32}),
    "float16": ("float16", {}),
}


def forms(seed, model, static):
    """name -> (scheme, options)"""
    found = {"QDQ": ("int8", oracle.random_options(np.random.default_rng([seed, 2]), model))} if static else {}
    for form, scheme in (("qoperator", "int8"), ("dynamic", "int8_dynamic")):
        found[form] = (scheme, dict(operators_test.random_options(form, seed, model), format="qoperator"))
    return found | {name: (scheme, dict(oracle.DEFAULTS, op_types=[], **options)) for name, (scheme, options) in STORED.items()}


def check(label, model, ranges, asked, counts):
    source, cache, _, ours = base.put_down(model, ranges)
    failures = []
    for name, (scheme, options) in asked.items():
        reply = base.ask_driver(dict(base.for_driver(model, source, options), ranges=str(cache), options=options, output=str(ours), scheme=scheme, read_back=True))
        counts[f"{name}: {reply['status']}"] += 1
        counts[f"{name}: layers corrected"] += reply.get("corrected", 0)
        failures += [f"{label}, {name}: {text}" for text in reply.get("unlike", [])]
    return failures


def of_graph(seed, generate, static, counts):
    case = generate(seed)
    try:
        ranges = oracle.observe(case.model, case.inputs, oracle.float_tensors(case.model, []))
    except Exception:
        counts["source refused by the runtime"] += 1
        return []
    return check(f"seed {seed}", case.model, ranges, forms(seed, case.model, static), counts)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--count", type=int, default=int(os.environ.get("SEQTO_READ_BACK_COUNT", 250)))
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--all", action="store_true")
    a = a.parse_args()
    base.start_worker(None)
    counts, failures, start = Counter(), [], time.time()
    for seed in range(a.seed, a.seed + a.count):  # every second one has operators of com.microsoft
        failures += of_graph(seed, operator_graphs.generate if seed % 2 else graphs.generate, seed % 2 == 0, counts)
    root = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", ""))
    for name in cases.names(root) if root.is_dir() else []:
        model, _, ranges = cases.load(root, name)
        if model.ByteSize() > LARGEST_BYTES and not a.all:
            continue
        failures += check(f"case {name}", model, ranges, forms(0, model, True) | {"QDQ": ("int8", dict(oracle.DEFAULTS, op_types=[]))}, counts)
    print(json.dumps(counts, indent=1))
    print("\n".join(failures[:40]))
    print(f"{a.count} graphs and the cases in {time.time() - start:.0f} s; {len(failures)} values unlike")
    unseen = [name for name in ("QDQ", "qoperator", "dynamic", *STORED) if counts[f"{name}: ok"] < a.count // 20]
    assert not unseen, f"hardly a graph was written as {unseen}"
    uncorrected = {name for name in ("QDQ", "qoperator", *STORED) if counts[f"{name}: layers corrected"] < a.count // 20}
    assert uncorrected <= {"float16"}, f"hardly a layer had other codes as {uncorrected}"
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
