"""Small transformers as sequences.py measures them: what a search sees of each, and what a file loses on the rest."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx.compose
import onnxruntime as ort

OWN = Path(__file__).parents[1] / "examples"
NETS = Path(os.environ.get("SEQTO_BENCH_NETS", OWN))
PAST = 16  # positions that are in the cache when a sample of the search begins


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


# --- Cases: `tune` is what searches and calibrations see, answer() what a model says of one of the others, loss() of two
# --- answers


class Scored:
    """Rows of scores; the builder's fixed rule is for blocks of so many."""
    objective, blocks = "kl", 4

    def answer(self, run, sample):
        return log_softmax(self.logits(run, sample))

    @staticmethod
    def loss(p, q):
        """The mean over its positions."""
        return (np.exp(p) * (p - q)).sum(-1).mean()


class Pages(Scored):
    """A language model; samples are pages of 64 tokens."""
    file = "model.onnx"

    def __init__(self, folder):
        self.model = folder / self.file
        pages = np.load(folder / "inputs.npz")["input_ids"]
        self.seen, self.held_out = np.concatenate([np.load(folder / "lm_calib.npz")["input_ids"], pages[:114]]), pages[114:]

    def tune(self):
        return {"input_ids": self.seen}

    def logits(self, run, page):
        return run(input_ids=page[None])[0][0]


class CachedPages(Pages):
    """The same with a KV cache: the second half of a page reads what the model itself kept of the first."""
    file = "model_kv.onnx"

    def feeds(self, run, tokens, kept):
        names = [name for name in run.inputs if name.startswith("past")]
        empty = np.zeros((len(tokens), 2, 0, 64), np.float32)
        kept = kept or [empty] * len(names)
        past = kept[0].shape[2]
        here = np.broadcast_to(np.arange(past, past + tokens.shape[1]), tokens.shape).astype(np.int64)
        return {"input_ids": tokens, "attention_mask": np.ones((len(tokens), past + tokens.shape[1]), np.int64),
                "position_ids": here, **dict(zip(names, kept))}

    def tune(self):
        run = Runs(self.model)
        kept = run(**self.feeds(run, self.seen[:, :PAST], None))[1:]
        return self.feeds(run, self.seen[:, PAST:], kept)

    def logits(self, run, page):
        half = len(page) // 2
        first = run(**self.feeds(run, page[None, :half], None))
        return np.concatenate([first[0][0], run(**self.feeds(run, page[None, half:], first[1:]))[0][0]])


class Paragraphs(Scored):
    """A text encoder with a head for classes."""

    def __init__(self, folder):
        self.model = folder / "model.onnx"
        arrays = np.load(folder / "inputs.npz")
        self.names = ["input_ids", "attention_mask", "token_type_ids"]
        self.seen = {name: arrays[name][:300] for name in self.names}
        self.held_out = np.stack([arrays[name][300:] for name in self.names], 1)

    def tune(self):
        return self.seen

    def logits(self, run, sample):
        return run(**{name: sample[i][None] for i, name in enumerate(self.names)})[0]


def made(script, *flags):
    """A folder with what a script beside one of our own nets writes."""
    folder = Path(tempfile.mkdtemp())
    subprocess.run([sys.executable, "-B", script, folder, *flags], check=True)
    return folder


class Questions:
    """Our own text encoder, `--full` of it where there is one: texts of their own lengths, the cosine of their embeddings."""
    objective, blocks = "cosine", None

    def __init__(self, folder):
        import tokenizers
        self.model = folder / "model.onnx"
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        texts = made(OWN / "retrieval" / "texts.py", "--count", "300")
        lines = [line for name in ("questions", "passages") for line in (texts / f"{name}.txt").read_text().splitlines()]
        self.held_out = [np.array([tokenizer.encode(line).ids]) for line in lines[::2]]
        seen = [tokenizer.encode(line).ids for line in lines[1::2]]
        longest = max(map(len, seen))
        self.seen = {"input_ids": np.array([ids + [0] * (longest - len(ids)) for ids in seen]),
                     "attention_mask": np.array([[1] * len(ids) + [0] * (longest - len(ids)) for ids in seen])}

    def tune(self):
        return self.seen

    def answer(self, run, sample):
        mean = run(input_ids=sample, attention_mask=np.ones_like(sample))[0][0].mean(0).astype(np.float64)
        return mean / np.linalg.norm(mean)

    @staticmethod
    def loss(p, q):
        return max(1 - p @ q, 1e-12)


class Words(Scored):
    """Our own recognizer, encoder and decoder as one: held-out words as the float model writes them."""
    blocks = None

    def __init__(self, folder):
        self.folder = made(OWN / "speech" / "voice.py", "--count", "300")
        sys.path.insert(0, str(OWN / "speech"))
        import mel
        encoder, decoder = (onnx.load(folder / f"{half}.onnx") for half in ("encoder", "decoder"))
        self.model = self.folder / "pair.onnx"
        pair = onnx.compose.merge_models(encoder, decoder, prefix1="encoder/",
                                         io_map=[("last_hidden_state", "encoder_hidden_states")])
        del pair.opset_import[1:]  # it has those of both
        onnx.save(pair, self.model)
        config = json.loads((folder / "generation_config.json").read_text())
        run, self.samples = Runs(self.model), []
        for path in sorted(self.folder.glob("*.wav")):
            features, tokens = mel.features(path)[None], [config["decoder_start_token_id"]]
            while len(tokens) < config["max_length"] and tokens[-1] != config["eos_token_id"]:
                tokens.append(int(self.logits(run, (features, tokens))[-1].argmax()))
            self.samples.append((features, tokens[:-1]))
        self.held_out = self.samples[150:]

    def tune(self):
        # The loss of an array's padding would count: words of the commonest length.
        lengths = [len(tokens) for _, tokens in self.samples[:150]]
        length = max(set(lengths), key=lengths.count)
        seen = [sample for sample in self.samples[:150] if len(sample[1]) >= length]
        return {"encoder/input_features": np.concatenate([features for features, _ in seen]),
                "input_ids": np.array([tokens[:length] for _, tokens in seen])}

    def logits(self, run, sample):
        features, tokens = sample
        return run(**{"encoder/input_features": features, "input_ids": np.array([tokens])})[0][0]


# A folder of the cases, or of our own nets.
CASES = {"tiny_lm": ("tiny_lm", Pages), "tiny_lm_kv": ("tiny_lm", CachedPages), "tiny_encoder": ("tiny_encoder", Paragraphs),
         "retrieval": (NETS / "retrieval", Questions), "speech": (NETS / "speech", Words)}


class Runs:
    def __init__(self, path):
        self.session = session(path)
        self.inputs = [i.name for i in self.session.get_inputs()]

    def __call__(self, **feeds):
        return self.session.run(None, feeds)


class Judge:
    """Losses of files on the held-out samples, each file once."""

    def __init__(self, case):
        self.case, self.known = case, {}
        run = Runs(case.model)
        self.reference = [case.answer(run, sample) for sample in case.held_out]

    def losses(self, path):
        if path not in self.known:
            run = Runs(path)
            self.known[path] = np.array([self.case.loss(p, self.case.answer(run, sample))
                                         for p, sample in zip(self.reference, self.case.held_out)])
        return self.known[path]
