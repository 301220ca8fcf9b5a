"""Small transformers as sequences.py measures them: what a search sees of each, and what a file loses on the rest."""
import numpy as np
import onnxruntime as ort

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


# --- Cases: `tune` is what searches and calibrations see, logits() what a model says of one of the others


class Pages:
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


class Paragraphs:
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


CASES = {"tiny_lm": ("tiny_lm", Pages), "tiny_lm_kv": ("tiny_lm", CachedPages), "tiny_encoder": ("tiny_encoder", Paragraphs)}


class Runs:
    def __init__(self, path):
        self.session = session(path)
        self.inputs = [i.name for i in self.session.get_inputs()]

    def __call__(self, **feeds):
        return self.session.run(None, feeds)


class Judge:
    """KL of files on the held-out samples, each file once."""

    def __init__(self, case):
        self.case, self.known = case, {}
        run = Runs(case.model)
        self.reference = [log_softmax(case.logits(run, sample)) for sample in case.held_out]

    def losses(self, path):
        """Of each sample the mean over its positions."""
        if path not in self.known:
            run = Runs(path)
            found = []
            for p, sample in zip(self.reference, self.case.held_out):
                q = log_softmax(self.case.logits(run, sample))
                found.append((np.exp(p) * (p - q)).sum(-1).mean())
            self.known[path] = np.array(found)
        return self.known[path]
