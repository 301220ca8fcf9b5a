"""Writes the recognizer in the files in which people ship an encoder and its decoder: with a cache of keys and values.

    python with_cache.py FOLDER [--check] [--of NET]

NET has encoder.onnx and decoder.onnx of train.py; this folder, if none is given.

needs: pip install numpy onnx; onnxruntime for --check, which writes words with each and compares them. FOLDER gets the four
files of Hugging Face's optimum, and the two JSON files of the recognizer:

    encoder_model.onnx            as encoder.onnx
    decoder_model.onnx            decoder.onnx, with its keys and values among the outputs: present.*
    decoder_with_past_model.onnx  the next token, from the keys and values of those before: past_key_values.*
    decoder_model_merged.onnx     both, in the branches of one If on use_cache_branch

Nothing is trained: the graphs are rewritten. Their weights have names of their own in each file, as exporters give them.
"""
import argparse
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
SIDES = ("decoder", "encoder")  # whose keys and values: of self_attn, and of encoder_attn
KEYS = [0, 2, 1, 3]             # [batch, heads, tokens, size], as they are kept


def value(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def cache(prefix, layer, side, part, heads, size):
    length = {"decoder": f"{prefix}_decoder_sequence_length", "encoder": "encoder_sequence_length"}[side]
    return value(f"{prefix}.{layer}.{side}.{part}", TensorProto.FLOAT, "batch_size", heads, length, size)


class Decoder:
    """The graph of decoder.onnx, node by name."""

    def __init__(self, net):
        self.model = onnx.load(net / "decoder.onnx")
        self.graph = self.model.graph
        self.layers = sum(node.name.endswith("/self_attn/Softmax") for node in self.graph.node)
        dims = next(numpy_helper.to_array(i) for i in self.graph.initializer
                    if i.name.startswith("constant_x0_0_") and list(i.dims) == [4])
        self.heads, self.size = int(dims[2]), int(dims[3])

    def node(self, name):
        return next(node for node in self.graph.node if node.name == name)

    def behind(self, name, *nodes):
        at = [node.name for node in self.graph.node].index(name) + 1
        for offset, node in enumerate(nodes):
            self.graph.node.insert(at + offset, node)

    def constant(self, name, *numbers):
        self.graph.initializer.append(numpy_helper.from_array(np.array(numbers), name))
        return name

    def show_keys_and_values(self):
        """present.*: keys are turned for their product behind that."""
        for layer in range(self.layers):
            for side, attention in zip(SIDES, ("self_attn", "encoder_attn")):
                scope = f"/layers.{layer}/{attention}"
                keys, values = self.node(f"{scope}/Transpose"), self.node(f"{scope}/Transpose_1")
                turned, shown = keys.output[0], f"present.{layer}.{side}.key"
                keys.attribute[0].CopyFrom(helper.make_attribute("perm", KEYS))
                keys.output[0] = shown
                self.behind(keys.name, helper.make_node("Transpose", [shown], [turned], f"{scope}/Transpose_4", perm=[0, 1, 3, 2]))
                before, values.output[0] = values.output[0], f"present.{layer}.{side}.value"
                self.rename(before, values.output[0])
                for part in ("key", "value"):
                    self.graph.output.append(cache("present", layer, side, part, self.heads, self.size))

    def rename(self, old, new):
        for node in self.graph.node:
            node.input[:] = [new if name == old else name for name in node.input]

    def read_keys_and_values(self):
        """past_key_values.*: of tokens they are lengthened by the new one's, of the encoder they are all."""
        graph = self.graph
        for layer in range(self.layers):
            for side in SIDES:
                for part in ("key", "value"):
                    past, present = f"past_key_values.{layer}.{side}.{part}", f"present.{layer}.{side}.{part}"
                    graph.input.append(cache("past_key_values", layer, side, part, self.heads, self.size))
                    if side == "encoder":
                        self.rename(present, past)
                        graph.output.remove(next(v for v in graph.output if v.name == present))
                        continue
                    made = next(node for node in graph.node if present in node.output)
                    made.output[0] = f"{made.name}_output_1"
                    self.behind(made.name, helper.make_node("Concat", [past, made.output[0]], [present],
                                                            f"/layers.{layer}/self_attn/Concat_{part}", axis=2))
        graph.input.remove(next(v for v in graph.input if v.name == "encoder_hidden_states"))
        self.begin_behind_the_past()
        self.drop_what_nobody_reads()

    def begin_behind_the_past(self):
        graph = self.graph
        graph.node.insert(0, helper.make_node("Shape", ["past_key_values.0.decoder.key"], ["past_length"], "/past/Shape",
                                              start=2, end=3))
        for node in [n for n in graph.node if n.op_type == "Slice"]:
            total = f"{node.name}/total"
            length = next(n for n in graph.node if node.input[2] in n.output)
            self.behind(length.name, helper.make_node("Add", ["past_length", node.input[2]], [total], f"{node.name}/Add"))
            node.input[2] = total
            if node.name != "/Slice_1":  # columns of the mask: all that is seen
                node.input[1] = "past_length"

    def drop_what_nobody_reads(self):
        graph = self.graph
        while True:
            read = {name for node in graph.node for name in node.input} | {v.name for v in graph.output}
            idle = [node for node in graph.node if not read & set(node.output)]
            if not idle:
                break
            for node in idle:
                graph.node.remove(node)
        for weight in [i for i in graph.initializer if i.name not in read]:
            graph.initializer.remove(weight)

    def number_weights(self, first):
        """As PyTorch's exporter calls those of MatMuls: otherwise in each file."""
        for node in self.graph.node:
            for weight in self.graph.initializer:
                if node.op_type == "MatMul" and node.input[1] == weight.name:
                    self.rename(weight.name, f"onnx::MatMul_{first}")
                    weight.name, first = f"onnx::MatMul_{first}", first + 1


def without_past(net):
    decoder = Decoder(net)
    decoder.show_keys_and_values()
    decoder.number_weights(900)
    return decoder


def with_past(net):
    decoder = Decoder(net)
    decoder.show_keys_and_values()
    decoder.read_keys_and_values()
    decoder.number_weights(700)
    return decoder


def same(a, b):
    return (a.data_type, list(a.dims), numpy_helper.to_array(a).tobytes()) == \
           (b.data_type, list(b.dims), numpy_helper.to_array(b).tobytes())


def stays_inside(weight):
    return not weight.dims or (len(weight.dims) == 1 and weight.data_type == TensorProto.INT64)


def merged(first, step):
    """Weights of both lie beside the If, each once; where the step has no new keys and values, it gives empty ones."""
    outer, bodies = [], []
    for branch, decoder in (("else_branch", first), ("then_branch", step)):
        graph = onnx.GraphProto()
        graph.CopyFrom(decoder.graph)
        renamed = {}
        for weight in [w for w in graph.initializer if not stays_inside(w)]:
            known = next((w for w in outer if same(w, weight)), None)
            if known is None:
                known = onnx.TensorProto()
                known.CopyFrom(weight)
                known.name = f"{weight.name}_merged_{len(outer)}"
                outer.append(known)
            renamed[weight.name] = known.name
            graph.initializer.remove(weight)
        for node in graph.node:
            node.input[:] = [renamed.get(name, name) for name in node.input]
        bodies.append((branch, graph))
    wanted = [v.name for v in first.graph.output]
    step_body = bodies[1][1]
    given = {v.name: v for v in step_body.output}
    for v in first.graph.output:
        if v.name not in given:
            empty = numpy_helper.from_array(np.zeros((0, first.heads, 1, first.size), np.float32))
            step_body.node.append(helper.make_node("Constant", [], [v.name], f"/{v.name}/Constant", value=empty))
            given[v.name] = v
    inputs = list(first.graph.input) + [v for v in step.graph.input if v.name not in {i.name for i in first.graph.input}]
    bodies = {branch: helper.make_graph(list(graph.node), branch, [], [given[name] for name in wanted] if graph is step_body
                                        else list(first.graph.output), list(graph.initializer)) for branch, graph in bodies}
    condition = value("use_cache_branch", TensorProto.BOOL, 1)
    node = helper.make_node("If", ["use_cache_branch"], wanted, "optimum::if", **bodies)
    graph = helper.make_graph([node], "merged", [*inputs, condition], list(first.graph.output), outer)
    model = helper.make_model(graph, opset_imports=list(first.model.opset_import), ir_version=8)
    return model


def write(folder, net=HERE):
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(net / "encoder.onnx", folder / "encoder_model.onnx")
    for name in ("generation_config.json", "vocab.json"):
        shutil.copy(net / name, folder)
    first, step = without_past(net), with_past(net)
    for name, model in (("decoder_model", first.model), ("decoder_with_past_model", step.model),
                        ("decoder_model_merged", merged(first, step))):
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, folder / f"{name}.onnx")


# --- writing words

START, END, LONGEST = 1, 2, 10


class Files:
    """A folder of them, written by seqto or by this script."""

    def __init__(self, folder):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.sessions = {p.stem: onnxruntime.InferenceSession(str(p), options, providers=["CPUExecutionProvider"])
                         for p in Path(folder).glob("*.onnx")}

    def run(self, name, **feeds):
        session = self.sessions[name]
        return dict(zip([o.name for o in session.get_outputs()],
                        session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})))

    def hidden(self, features):
        return self.run("encoder_model", input_features=features)["last_hidden_state"]

    def without_cache(self, hidden, ids):
        return self.run("decoder_model", input_ids=ids, encoder_hidden_states=hidden)["logits"][0, -1]

    def write(self, features, steps):
        """Tokens, the likeliest one after the other; `steps(hidden)` is asked for each."""
        hidden, tokens = self.hidden(features), [START]
        step = steps(self, hidden)
        while len(tokens) < LONGEST and tokens[-1] != END:
            tokens.append(int(step(np.array([tokens])).argmax()))
        return tokens


def again(files, hidden):
    return lambda ids: files.without_cache(hidden, ids)


def cached(first, rest):
    """The first token by one file, the others by another, which reads what was kept."""
    def steps(files, hidden):
        kept = {}
        session = {i.name: i for i in files.sessions[rest].get_inputs()}
        shape = [1, *(session["past_key_values.0.decoder.key"].shape[i] for i in (1,)), 0,
                 session["past_key_values.0.decoder.key"].shape[3]]

        def step(ids):
            if not kept:
                nothing = {name: np.zeros(shape, np.float32) for name in session if name.startswith("past")}
                out = files.run(first, input_ids=ids, encoder_hidden_states=hidden, use_cache_branch=np.array([False]), **nothing)
            else:
                out = files.run(rest, input_ids=ids[:, -1:], encoder_hidden_states=hidden, use_cache_branch=np.array([True]), **kept)
            for name, tensor in out.items():
                if name.startswith("present") and tensor.size:
                    kept[name.replace("present", "past_key_values")] = tensor
            return out["logits"][0, -1]
        return step
    return steps


WAYS = {"without a cache": again, "with a cache": cached("decoder_model", "decoder_with_past_model"),
        "merged": cached("decoder_model_merged", "decoder_model_merged")}


def check(folder, count):
    import mel
    import voice
    files, differ = Files(folder), 0
    for i in range(count):
        rng = np.random.default_rng([5, i])
        features = mel.log_mel(voice.as_int16(voice.speak(voice.draw_word(rng, True), rng)) / 32768)[None].astype(np.float32)
        written = [files.write(features, steps) for steps in WAYS.values()]
        differ += any(tokens != written[0] for tokens in written)
    print(f"{count} words: {differ} are written otherwise with a cache")


def main():
    parser = argparse.ArgumentParser(description="Writes the recognizer's files with a cache.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--of", type=Path, default=HERE, metavar="NET", help="where the net's two files are")
    parser.add_argument("--check", action="store_true", help="write words with each and compare them")
    args = parser.parse_args()
    write(args.folder, args.of)
    if args.check:
        check(args.folder, 50)


if __name__ == "__main__":
    main()
