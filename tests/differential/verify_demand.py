"""The graphs that the runtime's optimizer spoils are found, and no others: 1,500 random graphs with random options.

    verify_demand.py [--count N] [--seed S]

What computes another answer than as written is measured here by onnxruntime's own package, and found by what `quantize
--verify` calls.
"""
import argparse
import math
import multiprocessing
import os
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import differential_test as differential  # noqa: E402
import graphs  # noqa: E402
import oracle  # noqa: E402

BEYOND_ROUNDING = 0.1  # of an output's power, as in seqto/verify.h


def error(wanted, found):
    if wanted.dtype.kind != "f" and wanted.dtype.itemsize > 2:
        return 0
    wanted, found = (x.astype(np.float64) for x in (wanted, found))
    with np.errstate(all="ignore"):
        unlike = ~((wanted == found) | (np.isnan(wanted) & np.isnan(found)))
        if (unlike & ~(np.isfinite(wanted) & np.isfinite(found))).any():
            return math.inf
        difference, power = ((wanted - found)[unlike] ** 2).sum(), (wanted[np.isfinite(wanted)] ** 2).sum()
        return difference / power if difference and power else math.inf if difference else 0


def look_at(seed):
    """(seed, measured, found), or why there is no file."""
    case = graphs.generate(seed)
    options = oracle.random_options(np.random.default_rng([seed, 2]), case.model)
    try:
        ranges = oracle.observe(case.model, case.inputs, oracle.float_tensors(case.model, options["op_types"]))
    except Exception as e:
        return seed, str(e)[:80], None
    source, cache, _, ours = differential.put_down(case.model, ranges)
    np.savez(differential.folder / "inputs.npz", **{f"{i}:{name}": x for i, sample in enumerate(case.inputs) for name, x in sample.items()})
    reply = differential.ask_driver(dict(differential.for_driver(case.model, source, options), ranges=str(cache), options=options,
                                         output=str(ours), verify=str(differential.folder / "inputs.npz")))
    if reply["status"] == "error":
        return seed, reply["message"][:80], None
    both = [differential.run(ours, optimize, case.inputs) for optimize in (False, True)]
    return seed, max(error(u, v) for x, y in zip(*both) for u, v in zip(x, y)), reply["fault"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    written = spoiled = placed = 0
    wrong = []
    with tempfile.TemporaryDirectory(prefix="seqto-verify-") as parent, multiprocessing.get_context("fork").Pool(
            min(2, os.cpu_count() or 1), differential.start_worker, (None, parent)) as pool:
        for seed, measured, fault in pool.imap(look_at, range(a.seed, a.seed + a.count), chunksize=4):
            if isinstance(measured, str):
                continue
            written += 1
            spoiled += measured > BEYOND_ROUNDING
            placed += bool(fault and fault["tensor"])
            if (measured > BEYOND_ROUNDING) != bool(fault):
                wrong.append(f"seed {seed}: an error of {measured:.3g}, found {fault}")
    print(f"{written} files of {a.count} graphs; the optimizer changes the answer of {spoiled}; a node is named in {placed}")
    print(*wrong, sep="\n")
    return 1 if wrong or not spoiled else 0


if __name__ == "__main__":
    sys.exit(main())
