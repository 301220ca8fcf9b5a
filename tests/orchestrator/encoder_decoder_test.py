"""`seqto tune ENCODER DECODER`: both in one study, and two files in the end. Tokens that the data lack are those that the
float models write; held against onnxruntime's answers, decoded here, and jiwer."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import SOURCE, built_with, node, seqto, weight  # noqa: E402

try:
    import jiwer
except ImportError:
    print("skipped: jiwer is missing (tools/setup.sh test)")
    sys.exit(77)
if built_with("SEQTO_ONNXRUNTIME:BOOL=OFF"):
    print("skipped: runs models")
    sys.exit(77)

SPEECH = SOURCE / "examples/speech"

QUICK = ("--quick", "--max-evaluations", 10, "--objectives", "kl,size")
VOCABULARY, WIDTH, MOST = 32, 24, 6


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def written(decoder, hidden, config, **others):
    """Token by token, the likeliest of the last position."""
    tokens = [config["decoder_start_token_id"]]
    while len(tokens) < config["max_length"]:
        scores = decoder.run(None, {"input_ids": np.array([tokens]), "encoder_hidden_states": hidden, **others})[0]
        forced = dict(config.get("forced_decoder_ids", []))
        begins = len(tokens) == 1 + max(forced, default=0)
        hidden_tokens = config.get("suppress_tokens", []) + config.get("begin_suppress_tokens", []) * begins
        scores[0, -1, hidden_tokens] = -np.inf
        token = forced.get(len(tokens), int(scores[0, -1].argmax()))
        if token == config["eos_token_id"]:
            break
        tokens.append(token)
    return tokens


def value(name, kind, *shape):
    return h.make_tensor_value_info(name, kind, shape)


def save(path, nodes, inputs, outputs, weights, opset):
    arrays = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = h.make_graph(nodes, "g", inputs, outputs, arrays)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8), str(path))


def translator(folder):
    """Names of nodes, weights and inputs are the same in both, as in exports of T5."""
    save(folder / "encoder.onnx",
         [node("Gather", ["table", "input_ids"], ["embedded"]), node("MatMul", ["embedded", "w"], ["mixed"]),
          node("Tanh", ["mixed"], ["bent"]), node("Cast", ["attention_mask"], ["mask"], to=T.FLOAT),
          node("Unsqueeze", ["mask", "last"], ["masks"]), node("Mul", ["bent", "masks"], ["last_hidden_state"])],
         [value("input_ids", T.INT64, "batch", "length"), value("attention_mask", T.INT64, "batch", "length")],
         [value("last_hidden_state", T.FLOAT, "batch", "length", WIDTH)],
         {"table": weight(VOCABULARY, WIDTH), "w": weight(WIDTH, WIDTH, seed=1) / 4, "last": np.array([-1])}, 17)
    save(folder / "decoder.onnx",
         [node("Gather", ["table", "input_ids"], ["embedded"]), node("MatMul", ["embedded", "w"], ["mixed"]),
          node("Transpose", ["encoder_hidden_states"], ["keys"], perm=[0, 2, 1]),
          node("MatMul", ["mixed", "keys"], ["fits"]), node("Cast", ["encoder_attention_mask"], ["mask"], to=T.FLOAT),
          node("Unsqueeze", ["mask", "middle"], ["masks"]), node("Mul", ["fits", "masks"], ["shown"]),
          node("Softmax", ["shown"], ["shares"], axis=-1), node("MatMul", ["shares", "encoder_hidden_states"], ["read"]),
          node("Add", ["read", "mixed"], ["both"]), node("MatMul", ["both", "head"], ["logits"])],
         [value("input_ids", T.INT64, "batch", "tokens"), value("encoder_attention_mask", T.INT64, "batch", "length"),
          value("encoder_hidden_states", T.FLOAT, "batch", "length", WIDTH)],
         [value("logits", T.FLOAT, "batch", "tokens", VOCABULARY)],
         {"table": weight(VOCABULARY, WIDTH, seed=2) / 10, "w": weight(WIDTH, WIDTH, seed=3), "middle": np.array([1]),
          "head": 4 * weight(WIDTH, VOCABULARY, seed=4)}, 18)


def shapes(path):
    model = onnx.load(str(path), load_external_data=False)
    kind = lambda v: (v.name, v.type.tensor_type.elem_type, [d.dim_value or d.dim_param for d in v.type.tensor_type.shape.dim])
    return [kind(v) for v in model.graph.input], [kind(v) for v in model.graph.output]


class EncoderDecoder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def good(self, *words):
        done = seqto(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def bad(self, code, said, *words):
        done = seqto(*words)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(said, done.stderr)

    def require_halves(self, out, encoder, decoder, feeds):
        """Files of the old names and interfaces that give the bits of the one model, with what says how they write."""
        halves = out / "models/selected"
        self.assertEqual(sorted(p.name for p in halves.iterdir()), sorted([encoder.name, decoder.name, "generation_config.json"]))
        for half in (encoder, decoder):
            self.assertEqual(shapes(halves / half.name), shapes(half))
            self.assertEqual(len(onnx.load(str(halves / half.name)).metadata_props), 0)
        first, second = session(halves / encoder.name), session(halves / decoder.name)
        hidden = first.run(None, {i.name: feeds[i.name] for i in first.get_inputs()})[0]
        # What stands between the files is what it was: either serves with float's of the other.
        wanted = session(encoder).run(None, {i.name: feeds[i.name] for i in first.get_inputs()})[0]
        scales = (hidden * wanted).sum((0, 1)) / (wanted * wanted).sum((0, 1))
        np.testing.assert_allclose(scales, 1, atol=0.1)
        apart = second.run(None, {"encoder_hidden_states": hidden, "input_ids": feeds["tokens"],
                                  **{i.name: feeds["attention_mask"] for i in second.get_inputs() if "mask" in i.name}})[0]
        one = session(out / "models/selected.onnx")
        names = [i.name for i in one.get_inputs()]
        token_input = "decoder_input_ids" if "decoder_input_ids" in names else "input_ids"
        together = one.run(None, {n: feeds["tokens"] if n == token_input else feeds[n] for n in names})[0]
        np.testing.assert_array_equal(apart, together)

    def test_speech(self):
        wavs, out = self.dir / "wavs", self.dir / "out"
        subprocess.run([sys.executable, SPEECH / "voice.py", wavs, "--count", "70", "--seed", "3"], check=True)
        vocabulary = SPEECH / "vocab.json"
        said = ("tune", SPEECH / "encoder.onnx", SPEECH / "decoder.onnx", "--data", wavs, "--log-mel", "--labels",
                wavs / "said.csv", "--metric", f"wer={vocabulary}", "--metric", f"cer={vocabulary}", *QUICK, "-o", out)
        self.good(*said)
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["task"], "generate")
        self.good("run", SPEECH / "encoder.onnx", "--data", wavs, "--log-mel", "-o", self.dir / "hidden.npz")
        hidden = np.load(self.dir / "hidden.npz")["last_hidden_state"]
        self.require_halves(out, SPEECH / "encoder.onnx", SPEECH / "decoder.onnx",
                            {"input_features": np.random.default_rng(0).normal(size=(2, *[d for d in shapes(
                                SPEECH / "encoder.onnx")[0][0][2][1:]])).astype(np.float32), "tokens": np.array([[1, 5, 9], [1, 3, 3]])})

        # The samples that the study judged by are among all: figures of all of them bound what the note can say.
        config = json.loads((SPEECH / "generation_config.json").read_text())
        letters = {i: token for token, i in json.loads(vocabulary.read_text()).items()}
        rows = [line.split(",") for line in (wavs / "said.csv").read_text().split()[1:]]
        decoder = session(SPEECH / "decoder.onnx")
        texts = {}
        for (name, transcript), row in zip(rows, hidden):
            tokens = written(decoder, row[None], config)
            texts[name] = ("".join(letters[t] for t in tokens if not letters[t].startswith("<")), transcript)
        notes = "\n".join(summary["notes"])
        for metric, figure in (("wer", jiwer.wer), ("cer", jiwer.cer)):
            found = re.search(metric + r" of (\d+) written texts: ([\d.]+) % by float", notes)
            self.assertTrue(found, notes)
            count, rate = int(found[1]), float(found[2]) / 100
            judged = summary["samples"]["evaluation"]
            self.assertEqual(count, judged)
            errors = [figure(transcript, text) for text, transcript in texts.values()]
            lowest, highest = (np.mean(sorted(errors)[::sign][:judged]) for sign in (1, -1))
            self.assertGreaterEqual(rate, 0.8 * lowest)  # words of one sample weigh by their letters
            self.assertLessEqual(rate, 1.2 * highest)
        study = (out / "study.jsonl").read_bytes()
        self.good(*said)
        trials = lambda text: [line for line in text.splitlines() if b'"trial"' in line]
        self.assertEqual(trials((out / "study.jsonl").read_bytes()), trials(study), "a second run measures nothing")
        self.good("report", out)

    def test_translation_writes_what_onnxruntime_writes(self):
        translator(self.dir)
        config = {"decoder_start_token_id": 1, "eos_token_id": VOCABULARY + 1, "max_length": MOST, "suppress_tokens": [7],
                  "begin_suppress_tokens": [3, 4], "forced_decoder_ids": [[2, 9], [1, None]]}
        (self.dir / "generation_config.json").write_text(json.dumps(config))
        config["forced_decoder_ids"] = [[2, 9]]
        random = np.random.default_rng(0)
        data = {"input_ids": random.integers(0, VOCABULARY, (48, 9)), "attention_mask": np.ones((48, 9), np.int64)}
        data["attention_mask"][::2, 6:] = 0
        np.savez(self.dir / "texts.npz", **data)
        encoder, decoder = session(self.dir / "encoder.onnx"), session(self.dir / "decoder.onnx")
        tokens = []
        for ids, mask in zip(data["input_ids"], data["attention_mask"]):
            hidden = encoder.run(None, {"input_ids": ids[None], "attention_mask": mask[None]})[0]
            tokens.append(written(decoder, hidden, config, encoder_attention_mask=mask[None]))
        self.assertGreater(len({tuple(t) for t in tokens}), 20)
        np.savez(self.dir / "known.npz", **data, decoder_input_ids=np.array(tokens))
        found = {}
        for name in ("texts", "known"):
            out = self.dir / name
            self.good("tune", self.dir / "encoder.onnx", self.dir / "decoder.onnx", "--data", self.dir / f"{name}.npz",
                      *QUICK, "-o", out)
            found[name] = {t["trial"]["id"]: t["trial"]["losses"] for t in
                           map(json.loads, (out / "study.jsonl").read_text().splitlines()) if "trial" in t}
            self.require_halves(out, self.dir / "encoder.onnx", self.dir / "decoder.onnx",
                                {"input_ids": data["input_ids"][:3], "attention_mask": data["attention_mask"][:3],
                                 "tokens": np.array(tokens)[:3]})
        self.assertEqual(found["texts"], found["known"])
        self.good("tune", self.dir / "encoder.onnx", "--data", self.dir / "texts.npz", *QUICK, "--no-resume", "-o", self.dir / "texts")
        self.assertFalse((self.dir / "texts/models/selected").exists(), "halves of another study")
        self.assertGreater(found["texts"]["full"]["kl"], 0)

    def test_texts_are_as_long_as_the_model_says(self):
        """In a file above the folder onnx, as published exports have it."""
        onnx_folder = self.dir / "onnx"
        onnx_folder.mkdir()
        translator(onnx_folder)
        (self.dir / "generation_config.json").write_text(json.dumps(
            {"decoder_start_token_id": 1, "eos_token_id": VOCABULARY + 1, "max_length": 150}))
        np.savez(self.dir / "texts.npz", input_ids=np.random.default_rng(0).integers(0, VOCABULARY, (12, 9)),
                 attention_mask=np.ones((12, 9), np.int64))
        for words, least in (((), 129), (("--length", 20), 20)):
            out = self.dir / f"out{least}"
            self.good("tune", onnx_folder / "encoder.onnx", onnx_folder / "decoder.onnx", "--data", self.dir / "texts.npz", *words,
                      *QUICK, "-o", out)
            rows = next(t["trial"]["kl_rows"] for t in map(json.loads, (out / "study.jsonl").read_text().splitlines())
                        if t.get("trial", {}).get("id") == "full")
            longest = rows["width"] * len(rows["by_position"])
            self.assertGreaterEqual(longest, least)
            self.assertLess(longest, 2 * least)

    def test_what_does_not_fit_is_told(self):
        translator(self.dir)
        encoder, decoder = self.dir / "encoder.onnx", self.dir / "decoder.onnx"
        random = np.random.default_rng(0)
        np.savez(self.dir / "texts.npz", input_ids=random.integers(0, VOCABULARY, (48, 9)),
                 attention_mask=np.ones((48, 9), np.int64))
        data = ("--data", self.dir / "texts.npz", *QUICK, "-o", self.dir / "out")
        self.bad(3, "generation_config.json", "tune", encoder, decoder, *data)
        self.bad(3, "encoder_hidden_states", "tune", decoder, encoder, *data)
        self.bad(2, "names several models", "tune", self.dir, decoder, *data)
        self.bad(2, "--prepare-models", "tune", encoder, decoder, "--prepare-models", *data)
        (self.dir / "config.json").write_text("[]")
        self.bad(3, "config.json: no JSON object", "tune", encoder, decoder, *data)
        (self.dir / "config.json").write_text('{"decoder_start_token_id": 1, "eos_token_id": 2}')
        self.bad(3, "no sample with a transcript", "tune", encoder, decoder, "--metric", f"wer={SPEECH / 'vocab.json'}", *data[:2],
                 "--objectives", "wer,size", "-o", self.dir / "out")
        model = onnx.load(str(encoder))
        model.graph.output.append(value("mixed", T.FLOAT, "batch", "length", WIDTH))
        onnx.save(model, str(encoder))
        self.bad(3, "an output mixed", "tune", encoder, decoder, *data)

    def test_a_study_of_both_goes_on_elsewhere(self):
        translator(self.dir)
        (self.dir / "config.json").write_text('{"decoder_start_token_id": 1, "eos_token_id": [2], "max_length": 5}')
        random = np.random.default_rng(0)
        np.savez(self.dir / "texts.npz", input_ids=random.integers(0, VOCABULARY, (48, 9)),
                 attention_mask=np.ones((48, 9), np.int64))
        out = self.dir / "out"
        self.good("tune", self.dir / "encoder.onnx", self.dir / "decoder.onnx", "--data", self.dir / "texts.npz", *QUICK,
                  "--begin", "-o", out)
        asked = self.good("ask", out).stdout.splitlines()
        shutil.move(self.dir / "encoder.onnx", self.dir / "gone.onnx")  # pair.onnx holds both
        told = json.loads(self.good("eval", out, asked[0]).stdout.splitlines()[0])
        self.assertIn("trial", told)


if __name__ == "__main__":
    unittest.main()
