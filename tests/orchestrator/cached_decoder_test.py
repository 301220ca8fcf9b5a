"""`seqto tune ENCODER DECODER DECODER_WITH_CACHE...`: all files that are shipped, under one plan. What they write is held
against onnxruntime's runs of the float files, with a cache and without."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import SOURCE, built_with, node, save, seqto, weight  # noqa: E402

if built_with("SEQTO_ONNXRUNTIME:BOOL=OFF"):
    print("skipped: runs models")
    sys.exit(77)

sys.path.insert(0, str(SOURCE / "examples/speech"))
import mel  # noqa: E402
import voice  # noqa: E402
import with_cache  # noqa: E402

ENCODER, FIRST, STEP, MERGED = (f"{name}.onnx" for name in ("encoder_model", "decoder_model", "decoder_with_past_model",
                                                            "decoder_model_merged"))
WORDS = 30


def features(count):
    for i in range(count):
        random = np.random.default_rng([7, i])
        sound = voice.speak(voice.draw_word(random, True), random)
        yield mel.log_mel(voice.as_int16(sound) / 32768)[None].astype(np.float32)


def interface(path):
    graph = onnx.load(str(path), load_external_data=False).graph
    return [[(v.name, v.type.tensor_type.elem_type) for v in part] for part in (graph.input, graph.output)]


def branches(path):
    graph = onnx.load(str(path)).graph
    return graph, {a.name: a.g for a in graph.node[0].attribute}


def operators(nodes):
    return {n.op_type for n in nodes}


class CachedDecoder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = pathlib.Path(cls.folder.name)
        cls.files = cls.dir / "files"
        with_cache.write(cls.files)
        subprocess.run([sys.executable, SOURCE / "examples/speech/voice.py", cls.dir / "wavs", "--count", "90", "--seed", "4"],
                       check=True)
        cls.sounds = list(features(WORDS))
        cls.floats = with_cache.Files(cls.files)
        cls.wanted = [cls.floats.write(x, with_cache.again) for x in cls.sounds]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def tune(self, name, *decoders, more=()):
        out = self.dir / name
        done = seqto("tune", *(self.files / f for f in (ENCODER, *decoders)), "--data", self.dir / "wavs", "--log-mel", "--quick",
                     "--max-evaluations", 6, "--improve", "--tolerance", "100%", *more, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        selected = out / "models/selected"
        first = [] if decoders[0] == MERGED else [FIRST]
        self.assertEqual(sorted(p.name for p in selected.iterdir()),
                         sorted({ENCODER, *first, *decoders, "generation_config.json"}))
        for path in selected.glob("*.onnx"):
            self.assertEqual(interface(path), interface(self.files / path.name))
            onnx.checker.check_model(str(path))
        notes = json.loads((out / "summary.json").read_text())["notes"]
        for decoder in decoders[len(first):]:
            self.assertTrue(any(note.startswith(f"{decoder}: ") and "behind the cache" in note for note in notes), notes)
        self.assertFalse([note for note in notes if "do not fit" in note])
        return selected

    def require_words(self, selected, ways, most):
        """All ways write the same words, and at most so many of them are not float's."""
        quantized = with_cache.Files(selected)
        written = [[quantized.write(x, with_cache.WAYS[way]) for x in self.sounds] for way in ways]
        for way in written[1:]:
            self.assertLessEqual(sum(a != b for a, b in zip(way, written[0])), 1)
        self.assertLessEqual(sum(a != b for a, b in zip(written[0], self.wanted)), most)

    def test_the_float_files_write_the_same(self):
        for way in list(with_cache.WAYS.values())[1:]:
            self.assertEqual([self.floats.write(x, way) for x in self.sounds], self.wanted)

    def test_all_files_under_one_plan(self):
        for scheme, operator, most in (("int8_weights", "Cast", 2), ("int4_weights", "MatMulNBits", 6),
                                       ("int8_dynamic", "MatMulInteger", 4)):
            with self.subTest(scheme):
                selected = self.tune(scheme, FIRST, STEP, MERGED, more=("--schemes", scheme, "--objectives", "kl,size"))
                self.require_words(selected, with_cache.WAYS, most)
                for file in (FIRST, STEP, MERGED):
                    self.assertLess((selected / file).stat().st_size, 0.75 * (self.files / file).stat().st_size)
                whole, parts = branches(selected / MERGED)
                for graph in (onnx.load(str(selected / STEP)).graph, *parts.values()):
                    self.assertIn(operator, operators(graph.node))
                # The step's weights are among those of the other branch: none is stored twice.
                read = {name: {i for n in graph.node for i in n.input} for name, graph in parts.items()}
                stored = {i.name for i in whole.initializer}
                self.assertEqual(read["then_branch"] & stored - read["else_branch"], set())
                values = [numpy_helper.to_array(i).tobytes() for i in whole.initializer]
                self.assertEqual(len(values), len(set(values)))

    def test_codes_are_the_pairs(self):
        """Learned codes and smoothed weights: a step reads what the decoder without a cache has."""
        selected = self.tune("codes", FIRST, STEP, more=("--schemes", "int8_weights", "--objectives", "kl,size"))
        quantized = with_cache.Files(selected)
        for x in self.sounds[:5]:
            hidden = quantized.hidden(x)
            step = with_cache.WAYS["with a cache"](quantized, hidden)
            for length in range(1, 6):
                ids = np.array([[1, 5, 9, 4, 7, 3][:length]])
                np.testing.assert_allclose(step(ids), quantized.without_cache(hidden, ids), rtol=0, atol=2e-3)

    def test_static_layers_in_a_merged_decoder(self):
        # With every operator in int8 the published model may be better and smaller, and nothing static is left to select.
        selected = self.tune("static", MERGED, more=("--schemes", "int8", "--op-types-to-quantize", "MatMul,Add,Mul,Gather",
                                                     "--objectives", "kl,size"))
        self.require_words(selected, ["merged"], 6)
        for graph in branches(selected / MERGED)[1].values():
            self.assertIn("QuantizeLinear", operators(graph.node))

    def test_the_next_token_is_an_objective(self):
        schemes = ("--schemes", "int8_weights,int8_dynamic")
        limit = ("--max-loss", "decode_latency_ratio=100")
        selected = self.tune("timed", FIRST, STEP, more=(*schemes, *limit))
        summary = json.loads((selected.parents[1] / "summary.json").read_text())
        self.assertEqual([(each["figure"], each["met"]) for each in summary["limits"]], [("decode_latency_ratio", True)])
        self.assertEqual(summary["objectives"], ["kl", "size", "latency", "decode_latency"])
        for point in [summary["baseline"], summary["fully_quantized"], *summary["front"]]:
            self.assertGreater(point["decode_latency_ns"]["median"], 0)
            # A token reads what was kept, the whole pair hears the sound again.
            self.assertLess(point["decode_latency_ns"]["median"], point["latency_ns"]["median"])
        for point in summary["front"]: self.assertIn("over_float", point["decode_latency_ns"])
        again = json.loads((self.tune("timed", FIRST, STEP, more=(*schemes, *limit)).parents[1] / "summary.json").read_text())
        self.assertGreater(again["fully_quantized"]["decode_latency_ns"]["median"], 0, "of a study that is gone on with")
        untimed = self.tune("untimed", FIRST, STEP, more=(*schemes, "--objectives", "kl,size"))
        self.assertNotIn("decode_latency_ns", json.loads((untimed.parents[1] / "summary.json").read_text())["baseline"])
        self.bad("add latency", self.files / ENCODER, self.files / FIRST, self.files / STEP, "--objectives", "kl,size,decode_latency")
        self.bad("was not measured", self.files / ENCODER, self.files / FIRST, self.files / STEP, "--objectives", "kl,size", *limit, out="never_timed")

    def bad(self, said, *words, out="bad"):
        done = seqto("tune", *words, "--data", self.dir / "wavs", "--log-mel", "--quick", "-o", self.dir / out)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(said, done.stderr)

    def test_what_does_not_belong_is_told(self):
        encoder, first, step = (self.files / name for name in (ENCODER, FIRST, STEP))
        other = onnx.load(str(step))
        for tensor in other.graph.initializer:
            if tensor.name == "onnx::MatMul_703":
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + np.float32(1e-4), tensor.name))
        onnx.save(other, str(self.dir / "other.onnx"))
        self.bad("whose weights decoder_model.onnx does not have", encoder, first, self.dir / "other.onnx")
        self.bad("no input past_key_values.*", encoder, first, self.copy(first, "copy.onnx"))
        self.bad("names of their own", encoder, first, self.copy(step, ENCODER))
        self.bad("that no output of decoder.onnx gives", encoder, SOURCE / "examples/speech/decoder.onnx", step)
        self.assertFalse((self.dir / "bad/study.jsonl").exists())

    def copy(self, file, name):
        to = self.dir / "copies" / name
        to.parent.mkdir(exist_ok=True)
        return pathlib.Path(shutil.copy(file, to))

    def test_evaluators_need_no_cache(self):
        out = self.dir / "asked"
        words = [*(self.files / f for f in (ENCODER, FIRST, STEP)), "--data", self.dir / "wavs", "--log-mel", "--quick", "--schemes",
                 "int8_weights,float32", "--objectives", "kl,size,latency,decode_latency", "-o", out]
        self.assertEqual(seqto("tune", *words, "--begin").returncode, 0)
        proposals = seqto("ask", out, "-q")
        self.assertEqual(proposals.returncode, 0, proposals.stderr)
        done = seqto("eval", out, proposals.stdout.splitlines()[0], "-q")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_errors_in_written_texts_judge(self):
        out = self.dir / "judged"
        done = seqto("tune", self.files / ENCODER, self.files / FIRST, "--data", self.dir / "wavs", "--log-mel", "--labels",
                     self.dir / "wavs/said.csv", "--metric", f"wer={self.files / 'vocab.json'}", "--objectives", "wer,size",
                     "--max-accuracy-drop", "wer=0.5", "--quick", "--max-evaluations", 8, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["objectives"], ["wer", "size"])
        # The samples that judged are some of all: whole words, no more of them wrong than among all.
        letters = {i: t for t, i in json.loads((self.files / "vocab.json").read_text()).items()}
        rows = [line.split(",") for line in (self.dir / "wavs/said.csv").read_text().split()[1:]]
        judged = summary["samples"]["evaluation"]
        by_all = {}
        for which, files in (("baseline", self.floats), ("selected", with_cache.Files(out / "models/selected"))):
            wrong = 0
            for name, said in rows:
                tokens = files.write(mel.features(self.dir / "wavs" / name)[None], with_cache.again)
                wrong += "".join(letters[t] for t in tokens if t > 2) != said
            by_all[which] = wrong
        points = {"baseline": summary["baseline"],
                  "selected": next(p for p in summary["front"] if p["id"] == summary["selected"])}
        for which, point in points.items():
            wrong = point["metrics"]["wer"] * judged
            self.assertAlmostEqual(wrong, round(wrong), places=6)
            self.assertLessEqual(round(wrong), by_all[which])
            self.assertGreaterEqual(round(wrong), by_all[which] - (len(rows) - judged))

    def test_a_translator_with_masks(self):
        """Inputs of the encoder that its decoder reads as well, and a table that both hold; cache_position of the step."""
        folder, width, tokens = self.dir / "translator", 24, 32
        folder.mkdir()
        ids = [("input_ids", ["b", "t"], T.INT64)]
        mask = ("encoder_attention_mask", ["b", "s"], T.INT64)
        table = ("table", weight(tokens, width) / 4)
        save(folder / "encoder.onnx",
             [node("Gather", ["table", "input_ids"], ["embedded"]), node("MatMul", ["embedded", "we"], ["mixed"]),
              node("Cast", ["attention_mask"], ["shown"], to=T.FLOAT), node("Unsqueeze", ["shown", "last"], ["masks"]),
              node("Mul", ["mixed", "masks"], ["last_hidden_state"])],
             [("input_ids", ["b", "s"], T.INT64), ("attention_mask", ["b", "s"], T.INT64)],
             [("last_hidden_state", ["b", "s", width])], [table, ("we", weight(width, width, seed=1) / 4), ("last", np.array([-1]))])
        heart = [node("Gather", ["table", "input_ids"], ["embedded"]), node("Gather", ["places", "positions"], ["placed"]),
                 node("Add", ["embedded", "placed"], ["there"]), node("MatMul", ["there", "Q"], ["asked"]),
                 node("MatMul", ["asked", "keys"], ["fits"]), node("Cast", ["encoder_attention_mask"], ["shown"], to=T.FLOAT),
                 node("Unsqueeze", ["shown", "middle"], ["masks"]), node("Mul", ["fits", "masks"], ["seen"]),
                 node("MatMul", ["seen", "values"], ["read"]), node("Add", ["read", "asked"], ["both"]),
                 node("MatMul", ["both", "HEAD"], ["logits"])]
        counted = [node("Shape", ["input_ids"], ["shape"]), node("Gather", ["shape", "one"], ["length"]),
                   node("Range", ["zero", "length", "one"], ["positions"])]
        made = [node("MatMul", ["encoder_hidden_states", "K"], ["present.0.encoder.key"]),
                node("MatMul", ["encoder_hidden_states", "V"], ["present.0.encoder.value"])]
        shapes = [("0.encoder.key", ["b", "s", width]), ("0.encoder.value", ["b", "s", width])]
        weights = {"Q": weight(width, width, seed=3), "K": weight(width, width, seed=4) / 3, "V": weight(width, width, seed=5) / 3,
                   "HEAD": 4 * weight(width, tokens, seed=6), "places": weight(8, width, seed=7), "zero": np.array(0),
                   "one": np.array(1)}

        def decoder(name, nodes, inputs, outputs, names):
            for n in nodes:
                n.input[:] = [names.get(i, i) for i in n.input]
            read = {i for n in nodes for i in n.input}
            save(folder / name, nodes, inputs, [("logits", ["b", "t", tokens]), *outputs],
                 [table, ("middle", np.array([1])), *((names.get(w, w), a) for w, a in weights.items() if names.get(w, w) in read)])

        turn = lambda source: node("Transpose", [source], ["keys"], perm=[0, 2, 1])
        copy = lambda source: node("Identity", [source], ["values"])
        clone = lambda nodes: [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
        decoder(FIRST, [*counted, *made, turn("present.0.encoder.key"), copy("present.0.encoder.value"), *clone(heart)],
                [*ids, mask, ("encoder_hidden_states", ["b", "s", width])], [("present." + n, d) for n, d in shapes], {})
        decoder(STEP, [turn("past_key_values.0.encoder.key"), copy("past_key_values.0.encoder.value"), *clone(heart)],
                [*ids, mask, ("cache_position", ["t"], T.INT64), *(("past_key_values." + n, d) for n, d in shapes)], [],
                {"Q": "w1", "HEAD": "w2", "positions": "cache_position"})
        (folder / "config.json").write_text('{"decoder_start_token_id": 1, "eos_token_id": 2, "max_length": 6}')
        random = np.random.default_rng(0)
        lengths = random.integers(4, 10, 60)
        hidden = (np.arange(9)[None] < lengths[:, None]).astype(np.int64)
        np.savez(folder / "texts.npz", input_ids=random.integers(3, tokens, (60, 9)) * hidden, attention_mask=hidden)
        out = folder / "out"
        done = seqto("tune", folder / "encoder.onnx", folder / FIRST, folder / STEP, "--data", folder / "texts.npz", "--quick",
                     "--max-evaluations", 6, "--schemes", "int8_weights", "--objectives", "kl,size", "--tolerance", "100%", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        run = lambda name, **feeds: (lambda s: dict(zip([o.name for o in s.get_outputs()], s.run(
            None, {i.name: feeds[i.name] for i in s.get_inputs()}))))(
                onnxruntime.InferenceSession(str(out / "models/selected" / name), providers=["CPUExecutionProvider"]))
        texts = np.load(folder / "texts.npz")
        for i in range(8):
            given = {"input_ids": texts["input_ids"][i:i + 1], "attention_mask": texts["attention_mask"][i:i + 1]}
            states = run("encoder.onnx", **given)["last_hidden_state"]
            feeds = {"encoder_attention_mask": given["attention_mask"], "encoder_hidden_states": states}
            first = run(FIRST, input_ids=np.array([[1]]), **feeds)
            past = {n.replace("present", "past_key_values"): v for n, v in first.items() if n.startswith("present")}
            step = run(STEP, input_ids=np.array([[7]]), cache_position=np.array([1]), **feeds, **past)["logits"][0, -1]
            both = run(FIRST, input_ids=np.array([[1, 7]]), **feeds)["logits"][0, -1]
            np.testing.assert_allclose(step, both, rtol=0, atol=1e-4 * np.abs(both).max())
        self.assertLess((out / "models/selected" / STEP).stat().st_size, 0.9 * (folder / STEP).stat().st_size)


if __name__ == "__main__":
    unittest.main()
