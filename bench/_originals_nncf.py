"""What NNCF's accuracy-aware loop chooses; run by originals.py in NNCF's environment.

usage: _originals_nncf.py INPUT.json OUTPUT.json

`replay`: the loop and the ranking are NNCF's own code, the candidates and their losses those that INPUT holds.
`whole`: nncf.quantize_with_accuracy_control on the model, with NNCF's quantizer, groups and candidates.
"""
import json
import sys
import types

import nncf
import numpy as np
import onnxruntime as ort
from nncf.quantization.algorithms.accuracy_control import algorithm, ranker
from nncf.quantization.algorithms.accuracy_control.ranker import GroupToRank

from _opened import opened

reverted = []  # what the loop returned to float, one after the other, steps back too


class Missing(Exception):
    pass


class Backend:
    """The loop asks it for facts of the graph alone, which `revert` below has no need of."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


class Losses:
    """Candidates are the frozen sets of the groups that are quantized."""

    def __init__(self, known, count):
        self.known, self.count, self.asked = known, count, []

    def is_metric_mode(self):
        return True

    def prepare_model(self, model):
        return model

    # NNCF divides by the float model's metric even where drops are absolute: 1 - KL, so that it is 1.
    def validate_prepared_model(self, model, dataset, indices=None):
        key = " ".join(map(str, sorted(model)))
        if key not in self.asked:
            self.asked.append(key)
        if key not in self.known:
            raise Missing(key)
        return 1 - self.known[key], [1 - self.known[key]] * self.count

    def validate(self, model, dataset, indices=None):
        return self.validate_prepared_model(model, dataset, indices)


def without(operations, quantizers, model, *_):
    return model - {q.number for q in quantizers}


def replay(given):
    count, evaluator = given["groups"], Losses(given["losses"], given["samples"])
    groups = [types.SimpleNamespace(number=i, node_name=str(i)) for i in range(count)]
    groups = [GroupToRank([g], [g]) for g in reversed(groups)]  # as NNCF lists quantizers: from the outputs on
    everything = frozenset(range(count))
    ranker.get_backend = lambda model: None
    ranker.revert_operations_to_floating_point_precision = without
    ranker.Ranker.find_groups_of_quantizers_to_rank = lambda self, graph: groups
    algorithm.build_graph = lambda model: None
    algorithm.get_number_of_quantized_ops = lambda *_: count
    restorer = algorithm.QuantizationAccuracyRestorer(ranking_subset_size=given["samples"], max_drop=given["max_drop"],
                                                      num_ranking_workers=1)
    def revert(operations, quantizers, model, *_):
        reverted.append(quantizers[0].number)
        return without(operations, quantizers, model)

    algorithm.revert_operations_to_floating_point_precision = revert
    worst, each = evaluator.validate(everything, None)
    first = types.SimpleNamespace(metric_value=1.0, values_for_each_item=[1.0] * given["samples"])
    full = types.SimpleNamespace(metric_value=worst, values_for_each_item=each, preparation_time=0, validation_time=1)
    algorithm.QuantizationAccuracyRestorer._collect_original_biases_and_weights = staticmethod(lambda *_: None)
    result = {}
    try:
        final = restorer._apply(None, first, everything, full, None, given["samples"], evaluator, 1 - worst, Backend())
        result["quantized"] = sorted(final)
    except Missing as missing:
        result["missing"] = str(missing)
    return result | {"asked": evaluator.asked, "reverted": reverted}


def softmax_logs(z):
    z = z.astype(np.float64) - z.max(1, keepdims=True)
    return z - np.log(np.exp(z).sum(1, keepdims=True))


def whole(given):
    model, name, calibration, search = opened(given)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4

    def answers(candidate, items):
        session = ort.InferenceSession(candidate.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return np.concatenate([session.run(None, {name: search[i][None]})[0].reshape(1, -1) for i in items])

    wanted = softmax_logs(answers(model, range(len(search))))

    def validate(candidate, items):
        items = [int(i) for i in items]
        found = softmax_logs(answers(candidate, items))
        each = (np.exp(wanted[items]) * (wanted[items] - found)).sum(1)
        return 1 - float(each.mean()), [1 - float(v) for v in each]

    rank, scores = ranker.Ranker.rank_groups_of_quantizers, []

    def ranked(self, groups, *args):
        order = rank(self, groups, *args)
        scores.append([[op.node_name for op in g.operations] for g in reversed(order)])
        return order

    ranker.Ranker.rank_groups_of_quantizers = ranked
    revert = algorithm.revert_operations_to_floating_point_precision

    def recorded(operations, *args):
        reverted.append([op.node_name for op in operations])
        return revert(operations, *args)

    algorithm.revert_operations_to_floating_point_precision = recorded
    minmax = nncf.quantization.range_estimator.RangeEstimatorParametersSet.MINMAX
    nncf.quantize_with_accuracy_control(
        model, nncf.Dataset(list(calibration), lambda v: {name: v[None]}), nncf.Dataset(list(range(len(search)))),
        validate, max_drop=given["max_drop"], subset_size=len(calibration), preset=nncf.QuantizationPreset.MIXED,
        advanced_quantization_parameters=nncf.AdvancedQuantizationParameters(
            disable_bias_correction=True, activations_range_estimator_params=minmax,
            overflow_fix=nncf.OverflowFix.DISABLE),
        advanced_accuracy_restorer_parameters=nncf.AdvancedAccuracyRestorerParameters(
            ranking_subset_size=len(search), num_ranking_workers=1, max_num_iterations=given["iterations"]))
    return {"ranked": scores[0] if scores else [], "reverted": reverted}


if __name__ == "__main__":
    given = json.load(open(sys.argv[1]))
    json.dump({"replay": replay, "whole": whole}[given["what"]](given), open(sys.argv[2], "w"))
