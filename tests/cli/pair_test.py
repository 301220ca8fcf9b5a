"""An encoder and its decoder in one study, as docs/guide/speech.md has it: joined, tuned within one budget, taken apart again."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

BANDS, WIDTH, WIDE, WORDS, SAMPLES = 20, 64, 128, 40, 160


def block(x, i):
    """A residual pair of products, and its weights."""
    return ([helper.make_node("MatMul", [x, f"up{i}"], [f"wide{i}"], name=f"up_node{i}"),
             helper.make_node("Relu", [f"wide{i}"], [f"bent{i}"], name=f"relu{i}"),
             helper.make_node("MatMul", [f"bent{i}", f"down{i}"], [f"narrow{i}"], name=f"down_node{i}"),
             helper.make_node("Add", [x, f"narrow{i}"], [f"sum{i}"], name=f"add{i}")],
            [(f"up{i}", models.weight(WIDTH, WIDE, seed=10 + i)), (f"down{i}", models.weight(WIDE, WIDTH, seed=20 + i))])


def encoder(path):
    first, first_weights = block("x0", 0)
    second, second_weights = block("sum0", 1)
    nodes = [helper.make_node("MatMul", ["input_features", "win"], ["x0"], name="in"), *first, *second,
             helper.make_node("LayerNormalization", ["sum1", "ones", "zeros"], ["last_hidden_state"], name="norm")]
    return models.save(path, nodes, [("input_features", ["batch", "frames", BANDS])],
                       [("last_hidden_state", ["batch", "frames", WIDTH])],
                       [("win", models.weight(BANDS, WIDTH, seed=1)), *first_weights, *second_weights,
                        ("ones", np.ones(WIDTH, np.float32)), ("zeros", np.zeros(WIDTH, np.float32))])


def decoder(path):
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["embedded"], name="embedding")]
    weights = [("table", models.weight(WORDS, WIDTH, seed=2)), ("head", models.weight(WIDTH, WORDS, seed=3))]
    for name, source in (("q", "embedded"), ("k", "encoder_hidden_states"), ("v", "encoder_hidden_states")):
        nodes.append(helper.make_node("MatMul", [source, f"w{name}"], [name], name=f"{name}_node"))
        weights.append((f"w{name}", models.weight(WIDTH, WIDTH, seed=ord(name))))
    nodes += [helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 2, 1], name="turn"),
              helper.make_node("MatMul", ["q", "turned"], ["scores"], name="scores_node"),
              helper.make_node("Softmax", ["scores"], ["shares"], axis=-1, name="softmax"),
              helper.make_node("MatMul", ["shares", "v"], ["context"], name="context_node"),
              helper.make_node("Add", ["embedded", "context"], ["x1"], name="residual")]
    last, last_weights = block("x1", 0)
    nodes += [*last, helper.make_node("MatMul", ["sum0", "head"], ["logits"], name="head_node")]
    return models.save(path, nodes, [("input_ids", ["batch", "tokens"], TensorProto.INT64),
                                     ("encoder_hidden_states", ["batch", "frames", WIDTH])],
                       [("logits", ["batch", "tokens", WORDS])], [*weights, *last_weights])


def answers(path, feeds):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


class Pair(unittest.TestCase):
    def test_one_study_for_both(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            encoder(folder / "encoder.onnx"), decoder(folder / "decoder.onnx")
            pair = onnx.compose.merge_models(
                onnx.load(folder / "encoder.onnx"), onnx.load(folder / "decoder.onnx"), prefix1="encoder/",
                io_map=[("last_hidden_state", "encoder_hidden_states")], outputs=["logits"])
            onnx.save(pair, folder / "pair.onnx")
            random = np.random.default_rng(0)
            feeds = {"encoder/input_features": random.normal(size=(SAMPLES, 30, BANDS)).astype(np.float32),
                     "input_ids": random.integers(0, WORDS, (SAMPLES, 12))}
            np.savez(folder / "pair.npz", **feeds)
            done = models.seqto("tune", folder / "pair.onnx", "--data", folder / "pair.npz", "--task", "generate", "--max-size",
                                "40%", "--quick", "-o", folder / "out")
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = json.loads((folder / "out/summary.json").read_text())
            selected = folder / "out" / summary["selected_file"]
            self.assertLessEqual(selected.stat().st_size, 0.4 * summary["baseline"]["size_bytes"])
            for name in ("selected", "float", "full"):
                whole = folder / "out/models" / f"{name}.onnx"
                onnx.utils.extract_model(whole, folder / "e.onnx", ["encoder/input_features"], ["encoder/last_hidden_state"])
                onnx.utils.extract_model(whole, folder / "d.onnx", ["encoder/last_hidden_state", "input_ids"], ["logits"])
                one = {k: v[:1] for k, v in feeds.items()}
                states = answers(folder / "e.onnx", {"encoder/input_features": one["encoder/input_features"]})
                apart = answers(folder / "d.onnx", {"encoder/last_hidden_state": states, "input_ids": one["input_ids"]})
                np.testing.assert_array_equal(apart, answers(whole, one))


if __name__ == "__main__":
    unittest.main()
