"""Trains a speech recogniser of letters and writes encoder.onnx, decoder.onnx and their two JSON files beside this file.

    python train.py                    the small net, beside this file
    python train.py --full OUT_FOLDER  a larger one
    python train.py --check [FOLDER]   measures the files that are there

needs: pip install jax numpy onnx onnxruntime. The tests use the committed files.

The form is that of Whisper as Hugging Face's optimum exports it: an encoder of log-mel energies and a decoder that
writes the word letter by letter.
"""
import argparse
import dataclasses
import json
import multiprocessing
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

import voice
from mel import BANDS, FRAMES, log_mel

sys.path.insert(0, str(Path(__file__).parents[1]))
from transformer import HIDDEN, Graph, Jax, attention, gelu, linear, norm, train  # noqa: E402

PAD, START, END = 0, 1, 2
VOCAB = {token: i for i, token in enumerate(["<pad>", "<s>", "</s>", *voice.LETTERS])}
MAX_LENGTH = voice.LONGEST + 2
CONFIG = {"decoder_start_token_id": START, "eos_token_id": END, "pad_token_id": PAD, "max_length": MAX_LENGTH}
CHECKED_WORDS = 500


@dataclasses.dataclass
class Size:
    width: int
    heads: int
    mlp: int
    layers: int  # of the encoder, and of the decoder
    words: int   # spoken for the training
    batch: int
    steps: int
    rate: float
    spread: float = None  # of the weights at the start that add to the sum of the layers; deep nets need it small


SMALL = Size(width=40, heads=4, mlp=80, layers=2, words=12000, batch=48, steps=4000, rate=4e-3)
FULL = Size(width=192, heads=6, mlp=384, layers=4, words=30000, batch=48, steps=1500, rate=1e-3, spread=0.02)


def spoken_word(of):
    """Features and word of (seed, number, held out)."""
    seed, i, held_out = of
    rng = np.random.default_rng([seed, i])
    word = voice.draw_word(rng, held_out)
    return log_mel(voice.as_int16(voice.speak(word, rng)) / 32768), word


def spoken(count, seed, held_out):
    """Features, tokens with start and end, words."""
    of = [(seed, i, held_out) for i in range(count)]
    if count < 1000:
        drawn = [spoken_word(i) for i in of]
    else:
        with multiprocessing.get_context("spawn").Pool() as pool:
            drawn = pool.map(spoken_word, of, chunksize=100)
    tokens, words = np.full((count, MAX_LENGTH), PAD), [word for _, word in drawn]
    for row, word in zip(tokens, words):
        row[:len(word) + 2] = [START, *(VOCAB[letter] for letter in word), END]
    return np.stack([features for features, _ in drawn]), tokens, words


def encoder(net, size, features):
    width, x = size.width, features
    for name, inner, stride in (("/conv1", BANDS, 1), ("/conv2", width, 2)):
        x = net.op("Conv", name, x, net.weight(name, "weight", (width, inner, 3)), net.weight(name, "bias", (width,), 0),
                   kernel_shape=[3], strides=[stride], pads=[1, 1])
        x = gelu(net, name.replace("conv", "activation_fn"), x)
    x = net.op("Transpose", "", x, perm=(0, 2, 1))
    x = net.op("Add", "", x, net.weight("/embed_positions", "weight", (FRAMES // 2, width), sinusoids(FRAMES // 2, width)))
    for i in range(size.layers):
        layer = f"/layers.{i}"
        y = norm(net, f"{layer}/self_attn_layer_norm", x, width)
        x = net.op("Add", layer, x, attention(net, f"{layer}/self_attn", y, y, width, size.heads, spread=size.spread))
        x = net.op("Add", layer, x, mlp(net, layer, x, size))
    return norm(net, "/layer_norm", x, width)


def decoder(net, size, ids, states):
    width = size.width
    table = net.weight("/embed_tokens", "weight", (len(VOCAB), width), spread=width ** -0.5)
    places = net.weight("/embed_positions", "weight", (MAX_LENGTH, width), spread=width ** -0.5)
    later = net.fixed("", "causal_mask", np.triu(np.full((MAX_LENGTH, MAX_LENGTH), HIDDEN, np.float32), 1))
    mask = net.first("", net.first("", later, ids), ids, axis=1)
    x = net.op("Gather", "/embed_tokens", table, ids)
    x = net.op("Add", "", x, net.first("/embed_positions", places, ids))
    for i in range(size.layers):
        layer = f"/layers.{i}"
        y = norm(net, f"{layer}/self_attn_layer_norm", x, width)
        x = net.op("Add", layer, x, attention(net, f"{layer}/self_attn", y, y, width, size.heads, mask, spread=size.spread))
        y = norm(net, f"{layer}/encoder_attn_layer_norm", x, width)
        x = net.op("Add", layer, x, attention(net, f"{layer}/encoder_attn", y, states, width, size.heads, spread=size.spread))
        x = net.op("Add", layer, x, mlp(net, layer, x, size))
    x = norm(net, "/layer_norm", x, width)
    return net.op("MatMul", "/proj_out", x, net.op("Transpose", "/proj_out", table, perm=(1, 0)))


def mlp(net, layer, x, size):
    x = norm(net, f"{layer}/final_layer_norm", x, size.width)
    x = gelu(net, f"{layer}/activation_fn", linear(net, f"{layer}/fc1", x, size.width, size.mlp))
    return linear(net, f"{layer}/fc2", x, size.mlp, size.width, spread=size.spread)


def sinusoids(count, width):
    angle = np.arange(count)[:, None] / 10000 ** (np.arange(width // 2) / (width // 2 - 1))
    return np.concatenate([np.sin(angle), np.cos(angle)], 1)


def logits(params, size, features, ids, rng=None):
    """`params` are two tables: of the encoder and of the decoder."""
    states = encoder(Jax(params["encoder"], rng), size, features)
    return decoder(Jax(params["decoder"], rng), size, ids, states)


def trained(size):
    features, tokens, _ = spoken(size.words, seed=0, held_out=False)
    print(f"{size.words} words spoken after {time.process_time():.0f} s of processor time", flush=True)
    params = {"encoder": {}, "decoder": {}}
    logits(params, size, features[:1], tokens[:1, :-1], np.random.default_rng(0))
    print("parameters", {part: sum(w.size for w in of.values()) for part, of in params.items()}, flush=True)
    rng = np.random.default_rng(1)

    def batch(i):
        take = rng.integers(0, len(tokens), size.batch)
        return features[take], tokens[take]

    def loss(params, batch):
        features, tokens = batch
        scores = jax.nn.log_softmax(logits(params, size, features, tokens[:, :-1]))
        seen = tokens[:, 1:] != PAD
        return -(jnp.take_along_axis(scores, tokens[:, 1:, None], 2)[..., 0] * seen).sum() / seen.sum()

    return train(params, loss, batch, size.steps, size.rate)


def export(params, size, folder):
    folder.mkdir(parents=True, exist_ok=True)
    graph = Graph(params["encoder"])
    encoder(graph, size, "input_features")
    onnx.save(graph.model("encoder", [("input_features", TensorProto.FLOAT, ["batch_size", BANDS, FRAMES])],
                          "last_hidden_state", ["batch_size", FRAMES // 2, size.width]), folder / "encoder.onnx")
    graph = Graph(params["decoder"])
    decoder(graph, size, "input_ids", "encoder_hidden_states")
    inputs = [("input_ids", TensorProto.INT64, ["batch_size", "decoder_sequence_length"]),
              ("encoder_hidden_states", TensorProto.FLOAT, ["batch_size", "encoder_sequence_length", size.width])]
    onnx.save(graph.model("decoder", inputs, "logits", ["batch_size", "decoder_sequence_length", len(VOCAB)]),
              folder / "decoder.onnx")
    for name, value in (("generation_config", CONFIG), ("vocab", VOCAB)):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def sessions(folder):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return [onnxruntime.InferenceSession(folder / f"{part}.onnx", options) for part in ("encoder", "decoder")]


def greedy(encode, decode, features):
    """The likeliest letter of each place, until all words have ended."""
    states = encode.run(None, {"input_features": features})[0]
    ids = np.full((len(features), 1), START)
    while ids.shape[1] < MAX_LENGTH and not (ids == END).any(1).all():
        scores = decode.run(None, {"input_ids": ids, "encoder_hidden_states": states})[0]
        ids = np.concatenate([ids, scores[:, -1:].argmax(-1)], 1)
    letters = {i: token for token, i in VOCAB.items()}
    ended = np.cumsum(ids == END, 1) > 0
    return ["".join(letters[i] for i in row[1:][~end[1:]]) for row, end in zip(ids, ended)]


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def check(folder):
    features, _, words = spoken(CHECKED_WORDS, seed=1, held_out=True)
    heard = greedy(*sessions(folder), features)
    wrong = sum(edits(word, h) for word, h in zip(words, heard))
    print(f"{CHECKED_WORDS} held-out words: character error rate {wrong / sum(map(len, words)):.4f}, "
          f"words wrong {np.mean([w != h for w, h in zip(words, heard)]):.4f}")


def compare(params, size, folder):
    features, tokens, _ = spoken(16, seed=2, held_out=True)
    encode, decode = sessions(folder)
    states = encode.run(None, {"input_features": features})[0]
    found = decode.run(None, {"input_ids": tokens[:, :-1], "encoder_hidden_states": states})[0]
    expected = logits(params, size, features, tokens[:, :-1])
    print(f"onnxruntime and jax: logits differ by at most {np.abs(found - expected).max():.2g}")


def main():
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description="Trains the example's speech recogniser.")
    parser.add_argument("--full", type=Path, metavar="OUT_FOLDER", help="a larger net")
    parser.add_argument("--check", type=Path, metavar="FOLDER", nargs="?", const=here, help="only measure")
    args = parser.parse_args()
    if args.check is None:
        start, size = time.monotonic(), FULL if args.full else SMALL
        params = trained(size)
        export(params, size, args.full or here)
        compare(params, size, args.full or here)
        print(f"trained in {(time.monotonic() - start) / 60:.1f} minutes, {time.process_time() / 60:.1f} of processor time")
    check(args.check or args.full or here)


if __name__ == "__main__":
    main()
