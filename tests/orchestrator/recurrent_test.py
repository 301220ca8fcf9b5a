"""Recurrent models: states are carried from window to window, as a loop over onnxruntime does it, in every word."""

import json
import os
import pathlib
import re
import sys
import tempfile
import unittest
import wave

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

WINDOW, STATE = 16, 8
SILERO = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", "")) / "silero_vad"


def recurrent(path):
    """state' = tanh(x W + state U), y = state' V; `gain` is a constant input."""
    nodes = [
        models.node("Mul", ["x", "gain"], ["scaled"]),
        models.node("MatMul", ["scaled", "w"], ["driven"]),
        models.node("MatMul", ["state", "u"], ["kept"]),
        models.node("Add", ["driven", "kept"], ["sum"]),
        models.node("Tanh", ["sum"], ["next"]),
        models.node("MatMul", ["next", "v"], ["y"]),
    ]
    weights = [("w", models.weight(WINDOW, STATE)), ("u", models.weight(STATE, STATE, seed=1) * np.float32(0.3)),
               ("v", models.weight(STATE, 5, seed=2))]
    inputs = [("x", ["batch", "window"]), ("state", ["batch", STATE]), ("gain", [])]
    return models.save(path, nodes, inputs, [("y", ["batch", 5]), ("next", ["batch", STATE])], weights)


def gated(path, layers=3, width=24, kind="GRU"):
    """x, 20 positions, through layers of GRU or LSTM to scores of each position."""
    gates = {"GRU": 3, "LSTM": 4}[kind]
    nodes, weights, name = [models.node("Transpose", ["x"], ["t"], perm=[1, 0, 2])], [("axis", np.array([1]))], "t"
    for i in range(layers):
        nodes += [models.node(kind, [name, f"w{i}", f"r{i}"], [f"h{i}"], hidden_size=width),
                  models.node("Squeeze", [f"h{i}", "axis"], [f"s{i}"])]
        weights += [(f"{name}{i}", models.weight(1, gates * width, width, seed=i) * np.float32(0.2)) for name in "wr"]
        name = f"s{i}"
    nodes += [models.node("Transpose", [name], ["b"], perm=[1, 0, 2]), models.node("MatMul", ["b", "v"], ["y"])]
    return models.save(path, nodes, [("x", [1, 20, width])], [("y", [1, 20, 7])], [*weights, ("v", models.weight(width, 7))])


def write_wav(path, seconds, seed, rate=8000):
    samples = np.random.default_rng(seed).normal(size=int(seconds * rate)).cumsum()
    samples = (samples / np.abs(samples).max() * 30000).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return samples.astype(np.float32) / 32768


def loop(model, windows, resets, outputs=("y",), level="DISABLE_ALL"):
    """What onnxruntime gives when the state is fed back by hand; `resets` holds the windows that begin at zero."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names, results, state = [*outputs, "next"], [], None
    for i, window in enumerate(windows):
        if i in resets:
            state = np.zeros((1, STATE), np.float32)
        *values, state = session.run(names, {"x": window[None], "state": state, "gain": np.array(2, np.float32)})
        results.append(values)
    return [np.concatenate(values) for values in zip(*results)]


class Recurrent(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = recurrent(self.folder / "model.onnx")
        self.audio = self.folder / "audio"
        self.audio.mkdir()
        files = [write_wav(self.audio / f"{i}.wav", 0.05 + 0.02 * i, i) for i in range(4)]
        cut = [[samples[at:at + WINDOW] for at in range(0, len(samples) - WINDOW + 1, WINDOW)] for samples in files]
        self.windows = [window for windows in cut for window in windows]
        self.starts = set(np.cumsum([0, *map(len, cut)])[:-1].tolist())
        self.flags = ["--data", self.audio, "--window", WINDOW, "--state", "next=state", "--input", "gain=2",
                      "--sample-rate", 8000]

    def good(self, *words):
        done = models.seqto(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def outputs(self, *more):
        self.good("run", self.model, *self.flags, *more, "-o", self.folder / "out.npz")
        return np.load(self.folder / "out.npz")["y"]

    def test_run_is_the_loop(self):
        np.testing.assert_allclose(self.outputs(), *loop(self.model, self.windows, self.starts), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(self.outputs("--state-reset", "never"), *loop(self.model, self.windows, {0}),
                                   rtol=1e-5, atol=1e-6)
        every = {start + k for start in self.starts for k in range(0, 1000, 3)}
        within = {i for i in every if max(s for s in self.starts if s <= i) in {i - k for k in range(0, 1000, 3)}}
        np.testing.assert_allclose(self.outputs("--state-reset", 3), *loop(self.model, self.windows, within),
                                   rtol=1e-5, atol=1e-6)
        self.assertGreater(np.abs(self.outputs() - self.outputs("--state-reset", 1)).max(), 0.01)

    def test_weights_of_gates_are_not_learned_and_take_no_time(self):
        """They have three axes, as those of a convolution have whose every weight is an input of one output."""
        np.savez(self.folder / "gated.npz", x=models.weight(40, 20, 24))
        done = self.good("tune", gated(self.folder / "gated.onnx"), "--data", self.folder / "gated.npz", "--max-evaluations", 4,
                         "-o", self.folder / "gated")
        self.assertRegex(done.stderr, r"improve 1?\d s,")

    def tune_gated(self, kind, *flags):
        """The schemes of the study, what was said of a first model, and the summary."""
        np.savez(self.folder / "gated.npz", x=models.weight(40, 20, 24))
        done = self.good("tune", gated(self.folder / f"{kind}.onnx", kind=kind), "--data", self.folder / "gated.npz", *flags,
                         "--no-resume", "-o", self.folder / "gated")
        summary = json.loads((self.folder / "gated" / "summary.json").read_text())
        return summary["options"]["schemes"], re.findall(r"a first model is there: .*", done.stderr), summary

    def test_of_lstms_int8_dynamic_is_a_scheme_that_nobody_has_to_ask_for(self):
        """There is an operator for their gates, as for products; for those of a GRU there is none."""
        self.assertIn("int8_dynamic", self.tune_gated("LSTM", "--max-evaluations", 4)[0])
        self.assertNotIn("int8_dynamic", self.tune_gated("LSTM", "--max-evaluations", 4, "--objectives", "kl,size")[0])
        self.assertNotIn("int8_dynamic", self.tune_gated("LSTM", "--max-evaluations", 4, "--invariant")[0])
        self.assertNotIn("int8_dynamic", self.tune_gated("GRU", "--max-evaluations", 4)[0])

    def test_the_first_model_has_a_scheme_that_was_asked_for(self):
        for schemes, first in (("int8,int8_dynamic,int8_weights,float32", "int8_weights"),
                               ("int8_dynamic,float32", "int8_dynamic"), ("int4_weights,float32", None)):
            said = self.tune_gated("LSTM", "--max-evaluations", 4, "--schemes", schemes)[1]
            self.assertEqual(len(said), 1 if first else 0, said)
            if first:
                self.assertIn(f"selected.onnx, {first} everywhere, ", said[0])

    def test_a_summary_lists_what_is_quantized_of_recurrent_layers(self):
        _, _, summary = self.tune_gated("LSTM", "--max-evaluations", 4, "--schemes", "int8_dynamic,float32", "--objectives", "kl,size")
        quantized = 0
        for point in [summary["baseline"], *summary["front"]]:
            lstms = [layer["scheme"] for layer in point["layers"] if layer["name"] in ("h0_node", "h1_node", "h2_node")]
            self.assertEqual(len(lstms), 3, point["layers"])
            written = onnx.load(str(self.folder / "gated" / point["file"]))
            self.assertEqual(lstms.count("int8_dynamic"), [n.op_type for n in written.graph.node].count("DynamicQuantizeLSTM"))
            self.assertEqual(sum(point["schemes"].values()), len(point["layers"]))
            quantized += lstms.count("int8_dynamic")
        self.assertGreater(quantized, 0)

    def test_calibration_sees_the_carried_state(self):
        ranges = self.folder / "ranges.json"
        self.good("calibrate", self.model, *self.flags, "--op-types", "MatMul", "-o", ranges)
        model = onnx.load(str(self.model))
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in ("driven", "kept"))
        widened = self.folder / "widened.onnx"
        onnx.save(model, str(widened))
        driven, kept = loop(widened, self.windows, self.starts, ("driven", "kept"))
        found = json.loads(ranges.read_text())
        for name, values in (("driven", driven), ("kept", kept)):
            lowest, highest = (float(np.ravel(found["data"][name][key]["data"])[0]) for key in ("lowest", "highest"))
            self.assertAlmostEqual(lowest, float(values.min()), places=5)
            self.assertAlmostEqual(highest, float(values.max()), places=5)

    def test_tune_is_the_same_in_workers_and_in_process(self):
        trials = []
        for how in ([], ["--in-process"], ["--threads", "2"]):
            out = self.folder / f"study{len(trials)}"
            self.good("tune", self.model, *self.flags, "--calibration-samples", 30, "--objectives", "mse,size", *how, "-o",
                      out)
            lines = map(json.loads, (out / "study.jsonl").read_text().splitlines())
            trials.append([(t["id"], t["losses"]) for t in (line["trial"] for line in lines if "trial" in line)])
        self.assertGreater(len(trials[0]), 2)
        self.assertEqual(trials[0], trials[1])
        self.assertEqual(trials[0], trials[2])

    # Else a candidate's loss is of states that the float model had and it had not, and far above what int8 costs.
    def test_float_and_candidates_begin_every_part_alike(self):
        out, data = self.folder / "study", self.folder / "x.npz"
        np.savez(data, x=np.stack(self.windows))
        done = self.good("tune", self.model, "--data", data, "--state", "next=state", "--input", "gain=2", "--state-reset", 45,
                         "--calibration-samples", 30, "--objectives", "mse,size", "-o", out)
        begin = len(self.windows) - int(re.search(r"(\d+) to judge", done.stderr)[1])
        self.assertNotEqual(begin % 45, 0, "in the middle of a sequence")
        resets = {0, *(start - begin for start in range(0, len(self.windows), 45))}
        wanted, = loop(self.model, self.windows[begin:], resets)
        lines = map(json.loads, (out / "study.jsonl").read_text().splitlines())
        trials = [t for t in (line["trial"] for line in lines if "trial" in line) if t.get("losses")]
        judged = {t["id"]: t["losses"]["mse"] for t in trials if "part" not in t}
        for file in (out / "models").glob("*.onnx"):
            if file.stem in judged:
                found, = loop(file, self.windows[begin:], resets, level="ENABLE_ALL")
                mse = ((found - wanted)**2).mean()
                self.assertAlmostEqual(judged[file.stem], mse, delta=0.2 * mse + 1e-6)
        others = [t for t in trials if "part" in t and t["id"] in judged]
        self.assertEqual({t["part"] for t in others}, {"search", "acceptance"})
        for trial in others:
            self.assertLess(trial["losses"]["mse"], 10 * judged[trial["id"]] + 1e-6, trial["id"])

    def test_check_goes_by_the_loss_of_tune(self):
        out = self.folder / "q.onnx"
        self.good("quantize", self.model, *self.flags, "-o", out)
        done = self.good("check", out, "--reference", self.model, *self.flags, "--max-loss", 100, "--json")
        self.assertEqual([limit["figure"] for limit in json.loads(done.stdout)["limits"]], ["kl"])

    def test_improvers_run_parts_of_the_model(self):
        out = self.folder / "improved.onnx"
        for flag in ("--improve", "--smooth-quant"):
            self.good("quantize", self.model, *self.flags, flag, "-o", out)
            self.good("run", out, *self.flags, "-o", self.folder / "out.npz")
            self.assertTrue(np.isfinite(np.load(self.folder / "out.npz")["y"]).all())

    def test_analyze_runs_cut_models(self):
        done = self.good("analyze", self.model, *self.flags, "--json")
        errors = {e["tensor"]: e["xmodel_err"] for e in json.loads(done.stdout)["activations"]}
        self.assertIn("kept", errors)
        self.assertTrue(all(np.isfinite(list(errors.values()))))

    def test_a_missing_state_is_a_clear_error(self):
        done = models.seqto("run", self.model, *self.flags[:4], "--state", "y=state", "--input", "gain=2", "-o", "x.npz")
        self.assertNotEqual(done.returncode, 0)
        done = models.seqto("run", self.model, *self.flags[:4], "--input", "gain=2", "-o", "x.npz")
        self.assertEqual(done.returncode, 3)
        self.assertIn("--state OUTPUT=INPUT where they are recurrent states", done.stderr)

    @unittest.skipUnless((SILERO / "model.onnx").exists(), f"no case at {SILERO}")
    def test_silero_vad_is_tuned(self):
        flags = ["--data", SILERO / "test.wav", "--window", 576, "--hop", 512, "--lead", 64, "--input", "sr=16000",
                 "--state", "stateN=state", "--samples", 400]
        self.good("run", SILERO / "model.onnx", *flags, "-o", self.folder / "speech.npz")
        probabilities = np.load(self.folder / "speech.npz")["output"]
        # Over the first 13 seconds somebody speaks, with pauses: a model without its state says neither.
        self.assertLess(probabilities.min(), 0.1)
        self.assertGreater(probabilities.max(), 0.9)
        out = self.folder / "vad"
        done = self.good("tune", SILERO / "model.onnx", *flags, "--calibration-samples", 100, "--objectives", "mse,size", "--threshold", -1, "--strategy", "incremental",
                         "--max-evaluations", 8, "--json", "-o", out)
        summary = json.loads(done.stdout)
        self.assertEqual(summary["options"]["states"], ["stateN=state"])
        self.assertLess(summary["fully_quantized"]["size_bytes"], summary["baseline"]["size_bytes"])
        self.assertGreater(len(summary["front"]), 1)


if __name__ == "__main__":
    unit.main()
