"""One transformer in several exports: the same layers decide together, and a search of each comes to the same front."""

import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, transformers  # noqa: E402
from testing.runtime_types import session  # noqa: E402


def layers_of_weights(model):
    """By node: the matrices that it reads, packed ones by the names of their parts."""
    names = {c.name for c in model.graph.initializer if len(c.dims) == 2 and min(c.dims) > 2 and c.name != "mask"} - {"cos", "sin"}
    parts = {n: {f"{part}{n[3:]}" for part in "qkv"} if n.startswith("qkv") else {n} for n in names}
    return {n.name: set().union(*(parts.get(i, set()) for i in n.input)) for n in model.graph.node}


class TransformerGroups(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        t = transformers
        self.forms = {"decoder": [t.decoder(), t.fused_decoder(packed=False), t.fused_decoder(packed=True)],
                      "encoder": [t.encoder(fused=False), t.encoder(fused=True)]}

    def json_of(self, *words):
        done = models.seqto(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def groups(self, model):
        onnx.save(model, self.dir / "m.onnx")
        return self.json_of("inspect", self.dir / "m.onnx", "--json")["groups"]

    def matrices(self, model):
        reads = layers_of_weights(model)
        found = [frozenset().union(*(reads[n] for n in group)) for group in self.groups(model)]
        return {group for group in found if group}

    def test_the_forms_are_one_network(self):
        ids = np.random.default_rng(5).integers(0, transformers.WORDS, (1, transformers.TOKENS))
        for forms in self.forms.values():
            first, *others = (session(model).run(None, {"input_ids": ids})[0] for model in forms)
            for other in others: np.testing.assert_allclose(other, first, atol=1e-4)

    def test_the_same_matrices_decide_together(self):
        wanted = {"decoder": {frozenset({"table"})}, "encoder": {frozenset({"table"}), frozenset({"head"})}}
        for i in range(transformers.LAYERS):
            wanted["decoder"] |= {frozenset(f"{n}{i}" for n in names) for names in (("q", "k", "v"), ("o",), ("gate", "up"), ("down",))}
            wanted["encoder"] |= {frozenset(f"{n}{i}" for n in names) for names in (("q", "k", "v"), ("o",), ("up",), ("down",))}
        for kind, forms in self.forms.items():
            for form, model in enumerate(forms):
                with self.subTest(kind=kind, form=form):
                    self.assertEqual(self.matrices(model), wanted[kind])

    def test_what_an_attention_does_without_weights_is_one_group(self):
        groups = self.groups(self.forms["decoder"][0])
        self.assertEqual([len([g for g in groups if f"attended{i}_scores_node" in g]) for i in range(2)], [1, 1])
        for i in range(2):
            group = next(g for g in groups if f"attended{i}_scores_node" in g)
            self.assertLessEqual({f"{n}{i}_node" for n in ("q_turned", "k_turned", "k_all", "v_all", "attended")}, set(group))
            self.assertFalse([n for n in group if "made" in n or "norm" in n])
        for form in (1, 2):
            self.assertIn(["attended0_node"], self.groups(self.forms["decoder"][form]))
        encoder = self.groups(self.forms["encoder"][0])  # biases stay with their layers
        self.assertIn([f"{n}_{what}0_node" for n in "qkv" for what in ("product", "made")], encoder)

    def test_siblings_that_meet_in_a_sum_stay_apart(self):
        nodes = [models.node("MatMul", ["x", "a"], ["left"]), models.node("MatMul", ["x", "b"], ["right"]), models.node("Add", ["left", "right"], ["sum"]),
                 models.node("Mul", ["sum", "sum"], ["y"])]
        models.save(self.dir / "sum.onnx", nodes, [("x", [1, 4])], [("y", [1, 4])], [(n, models.weight(4, 4)) for n in "ab"])
        groups = self.json_of("inspect", self.dir / "sum.onnx", "--json")["groups"]
        self.assertEqual(groups, [["left_node"], ["right_node", "sum_node", "y_node"]])

    def front(self, model, name):
        onnx.save(model, self.dir / "m.onnx")
        words = ["--objectives", "kl,size", "--schemes", "float32,int8_weights,int4_weights", "--no-improve", "--calibration-samples", "4",
                 "--search-samples", "12", "--evaluation-samples", "24", "--search-evaluations", "80", "--seed", "1"]
        done = models.seqto("tune", self.dir / "m.onnx", "--data", self.dir / "ids.npz", *words, "-o", self.dir / name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.dir / name / "summary.json").read_text())

    def test_a_search_of_each_form_comes_to_the_same_front(self):
        ids = np.random.default_rng(6).integers(0, transformers.WORDS, (40, transformers.TOKENS))
        np.savez(self.dir / "ids.npz", input_ids=ids)
        for kind, forms in self.forms.items():
            summaries = [self.front(model, f"{kind}{i}") for i, model in enumerate(forms)]
            first, *others = ([p["losses"]["kl"] for p in summary["front"]] for summary in summaries)
            for other in others:
                # A packed matrix pads its blocks of codes otherwise, so a point or two fall on the other side of a neighbour.
                same = [kl for kl in first if np.isclose(other, kl, rtol=1e-3).any()]
                self.assertGreaterEqual(len(same), 0.9 * max(len(first), len(other)))


if __name__ == "__main__":
    unittest.main()
