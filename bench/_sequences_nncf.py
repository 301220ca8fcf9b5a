"""NNCF's ONNX run for sequences.py, in a Python that has it: weights in 4 bits, the more sensitive ones in 8.

usage: _sequences_nncf.py MODEL DATA.npz OUT_PREFIX COUNT
Writes OUT_PREFIX<i>.onnx: COUNT shares of the weights in 4 bits, evenly up to all; each as it comes, and as `<i>s` with
its scale estimation and AWQ, where they run.
"""
import sys

import nncf
import numpy as np
import onnx

BLOCK, SAMPLES = 32, 64


def main(source, data, prefix, count):
    arrays = np.load(data)
    model = onnx.load(source)
    names = [i.name for i in model.graph.input]
    samples = [{name: arrays[name][k:k + 1] for name in names} for k in range(min(SAMPLES, len(arrays[names[0]])))]
    for i in range(1, count + 1):
        for suffix, more in ("", {}), ("s", {"awq": True, "scale_estimation": True}):
            try:
                made = nncf.compress_weights(onnx.load(source), mode=nncf.CompressWeightsMode.INT4_ASYM, ratio=i / count,
                                             group_size=BLOCK, dataset=nncf.Dataset(samples), subset_size=len(samples),
                                             **more)
                onnx.save(made, f"{prefix}{i}{suffix}.onnx")
            except Exception as error:
                print(f"NNCF at {i}/{count}{suffix}: {type(error).__name__}: {error}"[:200], file=sys.stderr)


main(*sys.argv[1:4], int(sys.argv[4]))
