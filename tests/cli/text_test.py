"""From text files to a study in one command: a bigram model whose perplexity numpy knows, and an embedding of lines."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

PYTHON = pathlib.Path(__file__).parents[2] / ".deps/venv/bin/python"
PYTHON = str(PYTHON) if PYTHON.exists() else sys.executable
WORDS, WIDTH, LENGTH, TOKENS = 48, 48, 16, 16 * 90
CLS, SEP = WORDS, WORDS + 1
TINY = 1e-2  # of each pair that was not seen


def tokenizer(framed):
    vocabulary = {f"w{i}": i for i in range(WORDS)} | {"[CLS]": CLS, "[SEP]": SEP}
    frame = {"type": "TemplateProcessing", "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
             "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                        {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
             "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]}
                                for name, i in (("[CLS]", CLS), ("[SEP]", SEP))}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None, "post_processor": frame if framed else None,
            "model": {"type": "WordLevel", "unk_token": "w0", "vocab": vocabulary}}


@unittest.skipIf(subprocess.run([PYTHON, "-c", "import tokenizers"], stderr=subprocess.DEVNULL).returncode,
                 "the package tokenizers is not there")
class Text(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-text-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        random = np.random.default_rng(7)
        cls.tokens = [0]
        while len(cls.tokens) < TOKENS:  # most words have a usual follower
            cls.tokens.append(int(random.integers(WORDS)) if random.random() < 0.3 else (3 * cls.tokens[-1] + 1) % WORDS)
        words = [f"w{i}" for i in cls.tokens]
        (cls.dir / "book.txt").write_text(" ".join(words))
        lengths = random.integers(3, 12, 90)
        (cls.dir / "lines.txt").write_text("\n".join(" ".join(random.choice(words, n)) for n in lengths))
        for name, framed in (("plain", False), ("framed", True)):
            (cls.dir / f"{name}.json").write_text(json.dumps(tokenizer(framed)))
        counts = np.full((WORDS, WORDS), TINY)
        for a, b in zip(cls.tokens, cls.tokens[1:]):
            counts[a, b] += 1
        cls.scores = np.log(counts / counts.sum(1, keepdims=True)).astype(np.float32)
        cls.bigrams = models.save(
            cls.dir / "bigrams.onnx", [models.node("Gather", ["table", "input_ids"], ["e"]),
                                       models.node("MatMul", ["e", "w"], ["logits"])],
            [("input_ids", ["batch", "tokens"], TensorProto.INT64)], [("logits", ["batch", "tokens", WORDS])],
            [("table", np.eye(WORDS, dtype=np.float32)), ("w", cls.scores)])
        cls.decoder = models.save(
            cls.dir / "decoder.onnx",
            [models.node("Gather", ["table", "input_ids"], ["e"]), models.node("MatMul", ["e", "w"], ["logits"]),
             models.node("Unsqueeze", ["e", "heads"], ["u"]),
             models.node("Concat", ["past_key_values.0.key", "u"], ["present.0.key"], axis=2)],
            [("input_ids", ["batch", "tokens"], TensorProto.INT64), ("past_key_values.0.key", ["batch", 1, "past", WORDS])],
            [("logits", ["batch", "tokens", WORDS]), ("present.0.key", ["batch", 1, "total", WORDS])],
            [("table", np.eye(WORDS, dtype=np.float32)), ("w", cls.scores), ("heads", np.array([1], np.int64))])
        ones, zeros = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
        cls.features = models.save(
            cls.dir / "features.onnx",
            [models.node("Gather", ["table", "input_ids"], ["e"]), models.node("MatMul", ["e", "w"], ["m"]),
             models.node("LayerNormalization", ["m", "ones", "zeros"], ["last_hidden_state"])],
            [(name, ["batch", "tokens"], TensorProto.INT64) for name in ("input_ids", "attention_mask")],
            [("last_hidden_state", ["batch", "tokens", WIDTH])],
            [("table", models.weight(WORDS + 2, WIDTH, seed=1)), ("w", models.weight(WIDTH, WIDTH, seed=2)),
             ("ones", ones), ("zeros", zeros)])

    def seqto(self, *words):
        return models.seqto(*words, env={**os.environ, "SEQTO_PYTHON": PYTHON})

    def study(self, name, *words):
        folder = self.dir / name
        done = self.seqto("tune", *words, "-o", folder, "--quick", "--max-evaluations", 6)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((folder / "report.html").exists())
        return json.loads((folder / "summary.json").read_text()), (folder / "report.html").read_text(), done.stderr

    def test_perplexity_is_numpys(self):
        done = self.seqto("run", self.bigrams, "--text", self.dir / "book.txt", "--tokenizer", self.dir / "plain.json",
                          "--length", LENGTH, "--metric", "perplexity", "-o", self.dir / "out.npz", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        windows = np.reshape(self.tokens, (-1, LENGTH))
        nats = -self.scores[windows[:, :-1], windows[:, 1:]].astype(np.float64)
        self.assertAlmostEqual(json.loads(done.stdout)["metrics"]["perplexity"], np.exp(nats.mean()), delta=1e-4)

    def test_a_language_model_from_text_to_report(self):
        summary, page, log = self.study("lm", self.bigrams, "--text", self.dir / "book.txt", "--tokenizer",
                                        self.dir / "plain.json", "--length", LENGTH)
        self.assertEqual((summary["task"], summary["objectives"][0]), ("generate", "kl"))
        self.assertIn("task: generate", log)
        for point in summary["front"]:
            self.assertIn("perplexity", point["intervals"])
            rows = point["kl_rows"]
            self.assertEqual((rows["width"], len(rows["by_position"])), (LENGTH // 8, 8))
            self.assertAlmostEqual(np.mean(rows["by_position"]), point["losses"]["kl"], delta=1e-5)
            self.assertLessEqual(rows["q99"], rows["q999"])
            self.assertLessEqual(rows["q999"], rows["max"])
        self.assertIn("Loss by position", page)

    def test_what_the_mask_hides_does_not_count(self):
        """Samples that a tokenizer filled up: run, as validate, scores the tokens alone, and writes all positions."""
        model = models.save(
            self.dir / "masked.onnx", [models.node("Gather", ["table", "input_ids"], ["e"]),
                                       models.node("MatMul", ["e", "w"], ["s"]),
                                       models.node("Cast", ["attention_mask"], ["f"], to=1),
                                       models.node("ReduceMean", ["f"], ["m"], keepdims=1, axes=[1]),
                                       models.node("Unsqueeze", ["m", "last"], ["u"]), models.node("Mul", ["u", "none"], ["z"]),
                                       models.node("Add", ["s", "z"], ["logits"])],
            [(name, ["batch", "tokens"], TensorProto.INT64) for name in ("input_ids", "attention_mask")],
            [("logits", ["batch", "tokens", WORDS])],
            [("table", np.eye(WORDS, dtype=np.float32)), ("w", self.scores), ("last", np.array([2], np.int64)),
             ("none", np.zeros(1, np.float32))])
        other = self.dir / "other.onnx"  # differs where the word 47 is
        shifted = self.scores.copy()
        shifted[WORDS - 1] += 1
        models.save(other, list(onnx.load(str(model)).graph.node),
                    [(name, ["batch", "tokens"], TensorProto.INT64) for name in ("input_ids", "attention_mask")],
                    [("logits", ["batch", "tokens", WORDS])],
                    [("table", np.eye(WORDS, dtype=np.float32)), ("w", shifted), ("last", np.array([2], np.int64)),
                     ("none", np.zeros(1, np.float32))])
        ids = np.reshape(self.tokens, (-1, LENGTH))[:20] % (WORDS - 1)
        mask = np.ones_like(ids)
        mask[:, 10:], ids[:, 10:] = 0, WORDS - 1
        np.savez(self.dir / "padded.npz", input_ids=ids, attention_mask=mask)
        done = self.seqto("run", model, "--data", self.dir / "padded.npz", "--metric", "perplexity", "-o", self.dir / "out.npz", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        nats = -self.scores[ids[:, :9], ids[:, 1:10]].astype(np.float64)
        self.assertAlmostEqual(json.loads(done.stdout)["metrics"]["perplexity"], np.exp(nats.mean()), delta=1e-4)
        self.assertEqual(np.load(self.dir / "out.npz")["logits"].shape, (20, LENGTH, WORDS))
        done = self.seqto("validate", model, other, "--data", self.dir / "padded.npz", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["outputs"][0]["max_abs"]), (0, 0), done.stdout)
        np.savez(self.dir / "padded.npz", input_ids=ids, attention_mask=np.ones_like(mask))
        done = self.seqto("validate", model, other, "--data", self.dir / "padded.npz", "--json")
        self.assertAlmostEqual(json.loads(done.stdout)["outputs"][0]["max_abs"], 1, delta=1e-5)

    def test_where_the_next_token_changes(self):
        """The words are those of onnxruntime's scores."""
        model = models.save(
            self.dir / "unsure.onnx", [models.node("Gather", ["table", "input_ids"], ["e"]),
                                       models.node("MatMul", ["e", "w"], ["logits"])],
            [("input_ids", ["batch", "tokens"], TensorProto.INT64)], [("logits", ["batch", "tokens", WORDS])],
            [("table", np.eye(WORDS, dtype=np.float32)), ("w", models.weight(WORDS, WORDS, seed=3))])
        summary, page, _ = self.study("changed", model, "--task", "generate", "--text", self.dir / "book.txt", "--tokenizer",
                                      self.dir / "plain.json", "--length", LENGTH, "--schemes", "int4_weights,float32",
                                      "--objectives", "kl,size", "--tolerance", "1")
        found = summary["changed_tokens"]
        self.assertEqual(found["samples"], summary["samples"]["evaluation"])
        self.assertTrue(0 < len(found["examples"]) <= found["changed"] <= found["samples"])
        windows = np.reshape(self.tokens, (-1, LENGTH))
        scores = [self.outputs(path, windows) for path in (model, self.dir / "changed" / summary["selected_file"])]
        before = 2
        for example in found["examples"]:
            row, at = int(example["sample"]), example["position"] - 1
            wanted, other = (side[row].argmax(-1) for side in scores)
            self.assertEqual((wanted != other).argmax(), at)
            self.assertEqual(example["before"], " ".join(f"w{t}" for t in windows[row, max(0, at - 23):at + 1]))
            self.assertEqual((example["reference"], example["candidate"]), (f"w{wanted[at]}", f"w{other[at]}"))
            shares = np.exp(scores[0][row, at]) / np.exp(scores[0][row, at]).sum()
            self.assertAlmostEqual(example["reference_share"], shares[wanted[at]], delta=1e-5)
            self.assertAlmostEqual(example["candidate_share"], shares[other[at]], delta=1e-5)
            self.assertLessEqual(example["reference_share"] - example["candidate_share"], before)
            before = example["reference_share"] - example["candidate_share"]
        self.assertIn("Where the next token changes", page)
        self.assertIn(f"“{found['examples'][0]['reference']}”", page)

    def test_a_tokenizer_that_is_not_there_loses_nothing(self):
        np.savez(self.dir / "ids.npz", input_ids=np.reshape(self.tokens, (-1, LENGTH)))
        summary, page, _ = self.study("no_words", self.bigrams, "--data", self.dir / "ids.npz", "--tokenizer", self.dir / "none.json")
        self.assertNotIn("changed_tokens", summary)
        self.assertIn("where the next token changes is not shown", "\n".join(summary["notes"]))

    @staticmethod
    def outputs(path, windows):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return session.run(None, {"input_ids": windows.astype(np.int64)})[0]

    def test_what_a_decoder_remembers_is_no_answer(self):
        """Texts of several lengths: so are the outputs present.*"""
        (self.dir / "texts").mkdir()
        for i, n in enumerate((9, 30, 200, 700)):
            (self.dir / f"texts/{i}.txt").write_text(" ".join(f"w{t}" for t in self.tokens[i * 100:i * 100 + n]))
        how = ("--text", self.dir / "texts", "--tokenizer", self.dir / "plain.json", "--length", LENGTH)
        summary, page, _ = self.study("decoder", self.decoder, *how)
        self.assertEqual((summary["task"], summary["objectives"][0]), ("generate", "kl"))
        self.assertIn("perplexity", summary["baseline"]["metrics"])
        self.assertEqual(summary["objectives"], ["kl", "size", "latency", "decode_latency"])
        for point in [summary["baseline"], *summary["front"]]:
            self.assertGreater(point["decode_latency_ns"]["median"], 0)
        self.assertIn('<th scope="col">decode</th>', page)
        locked = self.seqto("check", self.dir / "decoder", "--lock", self.dir / "lock.json")
        self.assertEqual(locked.returncode, 0, locked.stderr)
        self.assertIn("decode_latency_ratio", (self.dir / "lock.json").read_text())
        done = self.seqto("check", self.dir / "decoder" / summary["front"][0]["file"], "--reference", self.decoder, *how,
                          "--metric", "perplexity", "--max-loss", "perplexity=1000", "--no-latency")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_tokens_alone_are_enough(self):
        """An array input_ids; the empty past is made."""
        np.savez(self.dir / "ids.npz", input_ids=np.reshape(self.tokens, (-1, LENGTH)))
        done = self.seqto("run", self.decoder, "--data", self.dir / "ids.npz", "-o", self.dir / "out.npz")
        self.assertEqual(done.returncode, 0, done.stderr)
        windows = np.reshape(self.tokens, (-1, LENGTH))
        np.testing.assert_allclose(np.load(self.dir / "out.npz")["logits"], self.scores[windows], rtol=1e-6)
        done = self.seqto("calibrate", self.decoder, "--data", self.dir / "ids.npz", "-o", self.dir / "ranges.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("past_key_values.0.key", json.loads((self.dir / "ranges.json").read_text())["data"])
        self.assertNotIn("single value", done.stderr, "a past of nothing is no value")

    def test_decoding_needs_a_memory(self):
        done = self.seqto("tune", self.bigrams, "--text", self.dir / "book.txt", "--tokenizer", self.dir / "plain.json",
                          "--objectives", "kl,size,decode_latency", "-o", self.dir / "none")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("a decoder with inputs input_ids and past_*", done.stderr)

    def test_an_embedding_of_lines(self):
        summary, page, log = self.study("embed", self.features, "--text", self.dir / "lines.txt", "--tokenizer",
                                        self.dir / "framed.json")
        self.assertEqual((summary["task"], summary["objectives"][0]), ("embed", "cosine"))
        self.assertIn("task: embed, by the mean of positions", log)
        self.assertRegex(summary["answer"], r"embeddings at a cosine of 0\.9\d+[1-9]\d? to float's, [0-9.]+ % of each one's nearest kept")
        chosen = next(p for p in summary["front"] if p["id"] == summary["selected"])
        self.assertTrue(chosen["metrics"]["topk_overlap"] >= 0.99 or not summary["as_good_as_float"])
        self.assertEqual(summary["baseline"]["metrics"]["topk_overlap"], 1)
        for point in summary["front"]:
            self.assertTrue(0 <= point["metrics"]["topk_overlap"] <= 1)
            self.assertNotIn("kl_rows", point)
        self.assertNotIn("Loss by position", page)
        pooled, *_ = self.study("first", self.features, "--text", self.dir / "lines.txt", "--tokenizer",
                                self.dir / "framed.json", "--pooling", "first")
        self.assertNotEqual(pooled["fully_quantized"]["losses"]["cosine"], summary["fully_quantized"]["losses"]["cosine"])

    def test_a_metric_that_nobody_asked_for_is_left_out_where_it_scores_nothing(self):
        pooled = models.save(
            self.dir / "pooled.onnx",
            [models.node("Gather", ["table", "input_ids"], ["e"]), models.node("ReduceMean", ["e"], ["m"], axes=[1], keepdims=0),
             models.node("MatMul", ["m", "w"], ["logits"])],
            [("input_ids", ["batch", "tokens"], TensorProto.INT64)], [("logits", ["batch", 12])],
            [("table", models.weight(WORDS + 2, WIDTH, seed=1)), ("w", models.weight(WIDTH, 12, seed=2))])
        for model, said, *words in ((pooled, "perplexity is not reported: a first output of 12 values", "--task", "generate"),
                                    (self.features, "topk_overlap is not reported: --pooling whole", "--pooling", "whole")):
            with self.subTest(words=words):
                summary, _, log = self.study(f"unfit-{words[1]}", model, "--text", self.dir / "lines.txt", "--tokenizer",
                                             self.dir / "framed.json", *words)
                self.assertIn(said, log)
                self.assertIn(said, "\n".join(summary["notes"]))
                for point in summary["front"]:
                    self.assertNotIn(said.split()[0], point["metrics"])

    def test_another_tokenizer(self):
        other = json.loads((self.dir / "plain.json").read_text())
        other["model"]["vocab"]["w1"] = 297
        (self.dir / "other.json").write_text(json.dumps(other))
        done = self.seqto("run", self.bigrams, "--text", self.dir / "book.txt", "--tokenizer", self.dir / "other.json", "-o", self.dir / "o.npz")
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"the token 297 of 'input_ids' and a table of {WORDS} rows found", done.stderr)
        self.assertIn("give the tokenizer of this model", done.stderr)

    def test_what_is_missing_is_said(self):
        for words, part in (([], "give --tokenizer FILE"),
                            (["--tokenizer", self.dir / "book.txt"], "is no tokenizer.json"),
                            (["--tokenizer", self.dir / "plain.json", "--task", "generat"], "did you mean")):
            done = self.seqto("tune", self.bigrams, "--text", self.dir / "book.txt", *words, "-o", self.dir / "no")
            self.assertIn(done.returncode, (2, 3))
            self.assertIn(part, done.stderr)
            self.assertFalse((self.dir / "no" / "study.jsonl").exists())


if __name__ == "__main__":
    unit.main()
