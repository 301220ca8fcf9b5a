"""What AIMET's mixed precision chooses; run by originals.py in AIMET's environment.

usage: _originals_aimet.py INPUT.json OUTPUT.json

`replay`: sorting and binary search are AIMET's own code, the candidates and their losses those that INPUT holds.
`whole`: aimet_onnx.analyze_per_layer_sensitivity on AIMET's own simulation of the quantized model.
"""
import json
import sys

import numpy as np


def replay(given):
    from aimet_onnx.common.amp.utils import binary_search, sort_accuracy_list
    from aimet_onnx.common.defs import QuantizationDataType
    int8 = ((8, QuantizationDataType.int), (8, QuantizationDataType.int))
    groups = list(range(given["groups"]))
    scores = [(g, int8, -given["losses"][str(g)], 0) for g in groups]
    order = [entry[0] for entry in sort_accuracy_list(scores, {g: i for i, g in enumerate(groups)})]
    asked = []

    def accuracy(count):
        key = " ".join(map(str, sorted(order[:count + 1])))
        asked.append(key)
        return -given["losses"][key]

    values = [lambda i=i: accuracy(i) for i in range(len(order))]
    chosen = {}
    for target in given["targets"]:
        i = binary_search(values, -target)
        # The loop falls back to float where not even the first entry will do.
        chosen[str(target)] = order[:i + 1] if accuracy(i) >= -target or i > 0 else []
    return {"order": order, "chosen": chosen, "asked": asked}


def whole(given):
    import aimet_onnx
    import onnxruntime as ort
    from _opened import opened
    model, name, calibration, search = opened(given)

    def logs(session):
        z = np.concatenate([session.run(None, {name: v[None]})[0].reshape(1, -1) for v in search]).astype(np.float64)
        z -= z.max(1, keepdims=True)
        return z - np.log(np.exp(z).sum(1, keepdims=True))

    wanted = logs(ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]))
    sim = aimet_onnx.QuantizationSimModel(model, param_type=aimet_onnx.int8, activation_type=aimet_onnx.int8)
    with aimet_onnx.compute_encodings(sim):
        for v in calibration:
            sim.session.run(None, {name: v[None]})

    def kl(session):
        return float((np.exp(wanted) * (wanted - logs(session))).sum(1).mean())

    return {"sensitivity": aimet_onnx.analyze_per_layer_sensitivity(sim, kl)}


if __name__ == "__main__":
    given = json.load(open(sys.argv[1]))
    json.dump({"replay": replay, "whole": whole}[given["what"]](given), open(sys.argv[2], "w"))
