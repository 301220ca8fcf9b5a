"""wer and cer of a recognizer of sounds: WAV files whose frames are letters, read whole, a vocabulary beside them; held
against jiwer's figures of the text that numpy reads off the outputs."""
import json
import pathlib
import sys
import tempfile
import unittest
import wave

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper as h

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import built_with, seqto  # noqa: E402

try:
    import jiwer
except ImportError:
    print("skipped: jiwer is missing (tools/setup.sh test)")
    sys.exit(77)
if built_with("SEQTO_ONNXRUNTIME:BOOL=OFF"):
    print("skipped: runs models")
    sys.exit(77)

FRAME = 16
LETTERS = "|abcdefgh"  # behind the blank


def recognizer(path):
    """Frames of samples, a hidden layer, scores of blank, word end and letters."""
    random = np.random.default_rng(5)
    turn = np.linalg.qr(random.standard_normal((FRAME, FRAME)))[0].astype(np.float32)
    read = np.zeros((FRAME, 1 + len(LETTERS)), np.float32)
    read[np.arange(1 + len(LETTERS)), np.arange(1 + len(LETTERS))] = 9
    constants = [onnx.numpy_helper.from_array(v, n) for n, v in
                 {"frames": np.array([1, -1, FRAME]), "turn": turn, "read": turn.T @ read}.items()]
    nodes = [h.make_node("Reshape", ["sound", "frames"], ["framed"], name="frame"),
             h.make_node("MatMul", ["framed", "turn"], ["hidden"], name="turn_frames"),
             h.make_node("MatMul", ["hidden", "read"], ["scores"], name="read_frames")]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("sound", T.FLOAT, [1, "samples"])],
                         [h.make_tensor_value_info("scores", T.FLOAT, [1, "frames", 1 + len(LETTERS)])], constants)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def say(path, text, random):
    """Each letter for one to three frames, a blank frame before one that comes twice."""
    frames, before = [], None
    for letter in text:
        token = 1 + LETTERS.index("|" if letter == " " else letter)
        for kind in [0] * (token == before) + [token] * random.integers(1, 4):
            frames.append(0.5 * (np.arange(FRAME) == kind) + random.normal(0, 0.09, FRAME))
        before = token
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(16000)
        file.writeframes((np.clip(np.concatenate(frames), -1, 1) * 32767).astype("<i2").tobytes())


class ErrorRates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        (cls.dir / "wavs").mkdir()
        recognizer(cls.dir / "ctc.onnx")
        random = np.random.default_rng(11)
        rows, cls.said = ["file,transcript"], []
        for i in range(48):
            words = ["".join(random.choice(list("abcdefgh"), random.integers(1, 5))) for _ in range(random.integers(1, 5))]
            say(cls.dir / "wavs" / f"{i:02}.wav", " ".join(words), random)
            if i % 5 == 0: words[0] = words[0] + "x"  # mistakes of the transcript
            if i % 7 == 0: words.append("abc")
            cls.said.append(" ".join(words))
            rows.append(f'{i:02}.wav,"{cls.said[-1].upper() if i % 2 else cls.said[-1]}"')
        (cls.dir / "said.csv").write_text("\n".join(rows) + "\n")
        (cls.dir / "vocab.json").write_text(json.dumps({"<pad>": 0, "<unk>": 40, **{c: i + 1 for i, c in enumerate(LETTERS)}}))
        (cls.dir / "tokens.txt").write_text("<blk> 0\n" + "".join(f"{'▁' if c == '|' else c} {i + 1}\n" for i, c in enumerate(LETTERS)))
        cls.data = ["--data", cls.dir / "wavs", "--labels", cls.dir / "said.csv"]

    def measured(self, *flags):
        """The figures of the model itself as a gate sees them."""
        return seqto("--json", "check", self.dir / "ctc.onnx", "--reference", self.dir / "ctc.onnx", "--no-latency", *flags)

    def test_rates_are_jiwers(self):
        done = self.measured(*self.data, "--metric", f"wer={self.dir / 'vocab.json'}", "--metric", f"cer={self.dir / 'tokens.txt'}",
                             "--max-loss", "wer=1", "--max-loss", "cer=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)["figures"]
        session = onnxruntime.InferenceSession(self.dir / "ctc.onnx")
        heard = []
        for i in range(48):
            with wave.open(str(self.dir / "wavs" / f"{i:02}.wav")) as file:
                sound = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
            best = session.run(None, {"sound": sound[None]})[0][0].argmax(-1)
            kept = [t for k, t in enumerate(best) if t != 0 and (k == 0 or t != best[k - 1])]
            heard.append(" ".join("".join(LETTERS[t - 1] for t in kept).replace("|", " ").split()))
        self.assertNotEqual(heard, self.said)
        for metric, rate in (("wer", jiwer.wer), ("cer", jiwer.cer)):
            self.assertAlmostEqual(found[metric]["value"], rate(self.said, heard), places=6)
            self.assertLess(found[metric]["interval"][0], found[metric]["value"])

    def test_frames_may_come_before_the_batch(self):
        model = onnx.load(self.dir / "ctc.onnx")
        model.graph.node.append(h.make_node("Transpose", ["scores"], ["turned"], name="turn", perm=[1, 0, 2]))
        model.graph.output[0].CopyFrom(h.make_tensor_value_info("turned", T.FLOAT, ["frames", 1, 1 + len(LETTERS)]))
        onnx.save(model, self.dir / "turned.onnx")
        flags = [*self.data, "--metric", f"wer={self.dir / 'vocab.json'}", "--max-loss", "wer=1", "--no-latency"]
        wanted = json.loads(self.measured(*flags[:-1]).stdout)["figures"]["wer"]
        done = seqto("--json", "check", self.dir / "turned.onnx", "--reference", self.dir / "turned.onnx", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["figures"]["wer"], wanted)

    def test_tune_goes_by_them(self):
        out = self.dir / "out"
        done = seqto("tune", self.dir / "ctc.onnx", *self.data, "--metric", f"wer={self.dir / 'vocab.json'}", "--objectives", "wer,size",
                     "--strategy", "incremental", "--max-evaluations", "4", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((out / "summary.json").read_text())
        self.assertGreater(summary["baseline"]["metrics"]["wer"], 0)
        self.assertIn("wer", summary["baseline"]["lower_is_better"])

    def test_a_rate_of_words_tells_the_task(self):
        out = self.dir / "kl"
        done = seqto("tune", self.dir / "ctc.onnx", *self.data, "--metric", f"wer={self.dir / 'vocab.json'}", "--quick",
                     "--max-evaluations", "3", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual((summary["task"], summary["objectives"][0]), ("transcribe", "kl"))
        self.assertIn("task: transcribe", done.stderr)

    def test_what_is_missing_is_said(self):
        def error(*flags):
            done = self.measured(*flags, "--max-loss", "wer=1")
            return done.returncode, done.stderr
        code, text = error("--data", self.dir / "wavs", "--metric", f"wer={self.dir / 'vocab.json'}")
        self.assertEqual(code, 3), self.assertIn("file,transcript", text)
        code, text = error(*self.data, "--metric", "wer")
        self.assertEqual(code, 2), self.assertIn("wer=FILE", text)
        for name, content, found in (("a.json", '{"a": 1}', "none of <blank>"), ("b.json", '{"<pad>": "x"}', "no number"),
                                     ("c.txt", "a\n", "the line 'a'"), ("d.json", '{"<pad>": 0, "z": 99}', "for a vocabulary of more")):
            (self.dir / name).write_text(content)
            code, text = error(*self.data, "--metric", f"wer={self.dir / name}")
            self.assertEqual(code, 3, text), self.assertIn(found, text)


if __name__ == "__main__":
    unittest.main()
