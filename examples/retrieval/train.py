"""Trains a text encoder for retrieval and writes model.onnx and tokenizer.json beside this file.

    python train.py                    the small net, beside this file
    python train.py --full OUT_FOLDER  a larger one
    python train.py --check [FOLDER]   measures the files that are there

needs: pip install jax numpy onnx onnxruntime tokenizers. The tests use the committed files.

The form is that of BERT as exporters give it. A text's embedding is the mean of its tokens' states; a question lies near the
passage that answers it, by the cosine.
"""
import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto
from tokenizers import Tokenizer

import texts

sys.path.insert(0, str(Path(__file__).parents[1]))
from transformer import HIDDEN, Graph, Jax, attention, gelu, linear, norm, train  # noqa: E402

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = SPECIALS + texts.all_words()
LONGEST, WARMTH = 64, 0.05  # tokens of a text; what cosines are divided by in the training
CHECKED_PAIRS = 200
BERT = ("self/query", "self/key", "self/value", "output/dense")


@dataclasses.dataclass
class Size:
    width: int
    heads: int
    mlp: int
    layers: int
    batch: int
    steps: int
    rate: float
    spread: float = None  # of the weights at the start that add to the sum of the layers; deep nets need it small


SMALL = Size(width=48, heads=4, mlp=96, layers=2, batch=96, steps=2500, rate=4e-3)
FULL = Size(width=256, heads=8, mlp=512, layers=6, batch=256, steps=1500, rate=1e-3, spread=0.01)


def tokenizer_json():
    """A word is a token; [CLS] before a text and [SEP] behind it."""
    special = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, token in enumerate(SPECIALS)]
    def token(name): return {"SpecialToken": {"id": name, "type_id": 0}}
    def text(name, kind): return {"Sequence": {"id": name, "type_id": kind}}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [token("[CLS]"), text("A", 0), token("[SEP]")],
            "pair": [token("[CLS]"), text("A", 0), token("[SEP]"), text("B", 1), {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [WORDS.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")},
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
    }


def encoded(tokenizer, lines, length=None):
    """Token ids and mask, as long as the longest line."""
    rows = [row.ids for row in tokenizer.encode_batch(lines)]
    ids = np.zeros((len(rows), length or max(map(len, rows))), np.int64)
    for i, row in enumerate(rows):
        ids[i, :len(row)] = row
    return ids, (ids != 0).astype(np.int64)


def network(net, size, ids, mask):
    width, scope = size.width, "/embeddings"
    unseen = net.op("Sub", "", 1.0, net.op("Cast", "", net.op("Unsqueeze", "", mask, (1, 2)), to=TensorProto.FLOAT))
    unseen = net.op("Mul", "", unseen, HIDDEN)
    words = net.weight(f"{scope}/word_embeddings", "weight", (len(WORDS), width), spread=0.1)
    places = net.weight(f"{scope}/position_embeddings", "weight", (LONGEST, width), spread=0.1)
    x = net.op("Gather", f"{scope}/word_embeddings", words, ids)
    x = net.op("Add", scope, x, net.first(f"{scope}/position_embeddings", places, ids))
    x = norm(net, f"{scope}/LayerNorm", x, width, 1e-12)
    for i in range(size.layers):
        layer = f"/encoder/layer.{i}"
        y = attention(net, f"{layer}/attention", x, x, width, size.heads, unseen, BERT, key_bias=True, spread=size.spread)
        x = net.op("Add", f"{layer}/attention/output", y, x)
        x = norm(net, f"{layer}/attention/output/LayerNorm", x, width, 1e-12)
        y = linear(net, f"{layer}/intermediate/dense", x, width, size.mlp)
        y = gelu(net, f"{layer}/intermediate/intermediate_act_fn", y)
        y = linear(net, f"{layer}/output/dense", y, size.mlp, width, spread=size.spread)
        x = net.op("Add", f"{layer}/output", y, x)
        x = norm(net, f"{layer}/output/LayerNorm", x, width, 1e-12)
    return x


def pooled(states, mask):
    """Mean over the tokens, of length 1."""
    total = (states * mask[..., None]).sum(1)
    return total / ((total * total).sum(-1, keepdims=True) ** 0.5)


def trained(size, tokenizer):
    params = {}
    network(Jax(params, np.random.default_rng(0)), size, *encoded(tokenizer, ["who ?"]))
    print("parameters", sum(w.size for w in params.values()), flush=True)

    def batch(i):
        passages, questions = zip(*texts.draw_pairs(size.batch, f"training {i}", held_out=False))
        return encoded(tokenizer, passages, 44), encoded(tokenizer, questions, 20)

    def loss(params, batch):
        passages, questions = (pooled(network(Jax(params), size, *of), of[1]) for of in batch)
        scores = questions @ passages.T / WARMTH
        right = jnp.arange(len(scores))
        return -sum(jax.nn.log_softmax(s)[right, right].mean() for s in (scores, scores.T)) / 2

    return train(params, loss, batch, size.steps, size.rate)


def export(params, size, folder):
    graph = Graph(params)
    network(graph, size, "input_ids", "attention_mask")
    shape = ["batch_size", "sequence_length"]
    inputs = [(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")]
    onnx.save(graph.model("bert", inputs, "last_hidden_state", [*shape, size.width]), folder / "model.onnx")


def states_of(folder, ids, mask):
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    return session.run(None, {"input_ids": ids, "attention_mask": mask})[0]


def compare(params, size, folder, tokenizer):
    ids, mask = encoded(tokenizer, [passage for passage, _ in texts.draw_pairs(32, 2, held_out=True)])
    difference = np.abs(states_of(folder, ids, mask) - network(Jax(params), size, ids, mask)) * mask[..., None]
    print(f"onnxruntime and jax: states differ by at most {difference.max():.2g}")


def recall(scores):
    """Of the right passage among the best 1 and the best 10."""
    rank = (scores >= np.diag(scores)[:, None]).sum(1) - 1
    return f"recall@1 {(rank < 1).mean():.3f}, recall@10 {(rank < 10).mean():.3f}"


def word_overlap(passages, questions):
    """Cosines of TF-IDF."""
    def counts(of): return np.array([np.bincount(row, minlength=len(WORDS)) for row in of])[:, len(SPECIALS):]
    p, q = counts(passages), counts(questions)
    rarity = np.log((1 + len(p)) / (1 + (p > 0).sum(0))) + 1
    p, q = (x * rarity / np.linalg.norm(x * rarity, axis=1, keepdims=True) for x in (p, q))
    return q @ p.T


def check(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    of = [encoded(tokenizer, lines) for lines in zip(*texts.draw_pairs(CHECKED_PAIRS, 1, held_out=True))]
    passages, questions = (pooled(states_of(folder, *x), x[1]) for x in of)
    print(f"{CHECKED_PAIRS} held-out questions: {recall(questions @ passages.T)}; "
          f"by TF-IDF {recall(word_overlap(of[0][0], of[1][0]))}")


def main():
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description="Trains the example's text encoder.")
    parser.add_argument("--full", type=Path, metavar="OUT_FOLDER", help="a larger net")
    parser.add_argument("--check", type=Path, metavar="FOLDER", nargs="?", const=here, help="only measure")
    args = parser.parse_args()
    folder, size = args.check or args.full or here, FULL if args.full else SMALL
    if args.check is None:
        start = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(), indent=1) + "\n", encoding="utf-8")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        params = trained(size, tokenizer)
        export(params, size, folder)
        compare(params, size, folder, tokenizer)
        print(f"trained in {(time.monotonic() - start) / 60:.1f} minutes, {time.process_time() / 60:.1f} of processor time")
    check(folder)


if __name__ == "__main__":
    main()
