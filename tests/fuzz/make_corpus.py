"""The seeds of tests/fuzz/corpus, made by the program itself where it writes such files:

    .deps/venv/bin/python -B tests/fuzz/make_corpus.py

Files that are there and are not made here were once found; they stay."""

import io
import json
import pathlib
import shutil
import sys
import tarfile
import tempfile
import wave

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

CORPUS = pathlib.Path(__file__).parent / "corpus"
GOLDEN = models.SOURCE / "tests/data/golden"


def put(target, name, content):
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    (CORPUS / target / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def put_json(target, name, value):
    put(target, name, json.dumps(value))


def seqto(*words):
    done = models.seqto(*words)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def text_model(body, inputs, outputs, constants="", opset=17):
    """In ONNX's text form, with shapes as "float[1,4] x"; constants are filled afterwards by their shapes."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
                                    f"g ({inputs}) => ({outputs}) {{ {body} }}")
    for constant in filter(None, constants.split(";")):
        name, *dims = constant.split()
        values = models.weight(*map(int, dims))
        # Variances are positive.
        model.graph.initializer.append(numpy_helper.from_array(np.abs(values) if len(dims) == 1 else values, name))
    return model


# Small, and with each operator that the quantizer knows in one of them.
MODELS = {
    "cnn": text_model("""c = Conv <pads: ints = [1,1,1,1]> (x, w, b)  n = BatchNormalization(c, s, b, b, s)  r = Relu(n)
        m = MaxPool <kernel_shape: ints = [2,2]> (r)  a = AveragePool <kernel_shape: ints = [2,2]> (r)
        k = Concat <axis: int = 1> (m, a)  p = GlobalAveragePool(k)  f = Flatten(p)
        y = Gemm <transB: int = 1> (f, v, e)""",
                      "float[1,3,8,8] x", "float[1,2] y", "w 4 3 3 3;b 4;s 4;v 2 8;e 2"),
    "residual": text_model("""c = Conv(x, w)  l = LeakyRelu(c)  h = Clip(l)  i = Sigmoid(c)  a = Add(h, i)  d = Mul(a, i)
        t = ConvTranspose(d, u)  y = Softmax(t)  z = ReduceMean <axes: ints = [2,3]> (d)""",
                           "float[N,2,4,4] x", "float[N,2,4,4] y, float[N,2,1,1] z", "w 2 2 1 1;u 2 2 1 1"),
    "attention": text_model("""e = Gather(t, x)  q = MatMul(e, wq)  k = MatMul(e, wk)  v = MatMul(e, wv)
        kt = Transpose <perm: ints = [0,2,1]> (k)  s = MatMul(q, kt)  p = Softmax(s)  o = MatMul(p, v)
        n = LayerNormalization <axis: int = -1> (o, g, g)  tt = Transpose <perm: ints = [1,0]> (t)
        y = MatMul(n, tt)""", "int64[1,S] x", "float[1,S,6] y", "t 6 8;wq 8 8;wk 8 8;wv 8 8;g 8"),
    "bodies": text_model("""m = MatMul(x, w)
        y = If (c) <then_branch = a () => (float[1,4] p) { p = MatMul(m, v) },
                    else_branch = b () => (float[1,4] q) { q = Relu(m) }>""",
                         "float[1,4] x, bool c", "float[1,4] y", "w 4 4;v 4 4"),
    "recurrent": text_model("""h, l, k = LSTM <hidden_size: int = 2> (x, w, r)  i, j = GRU <hidden_size: int = 2> (x, g, u)
        y = Identity(h)""",
                            "float[3,1,4] x", "float[3,1,1,2] y", "w 1 8 4;r 1 8 2;g 1 6 4;u 1 6 2"),
    "shapes": text_model("""s = Shape(x)  o = Constant <value_ints: ints = [1,-1]> ()  r = Reshape(x, o)
        t, u = Split <axis: int = 1> (r)  y = MatMul(t, w)""",
                         "float[2,4] x", "float[1,3] y", "w 4 3"),
}


def onnx_files(work):
    for name, model in MODELS.items():
        path = work / f"{name}.onnx"
        onnx.save(model, path)
        put("onnx", path.name, path.read_bytes())
    np.savez(work / "x.npz", x=models.weight(8, 3, 8, 8))
    cnn, data = work / "cnn.onnx", work / "x.npz"
    forms = {"qdq": (cnn, ["--data", data]), "qoperator": (cnn, ["--data", data, "--format", "qoperator"]),
             "channels": (cnn, ["--data", data, "--per-channel", "--no-improve"]),
             "dynamic": (work / "attention.onnx", ["--mode", "dynamic"]),
             "stored": (work / "attention.onnx", ["--mode", "weights"]),
             "blocks": (work / "attention.onnx", ["--mode", "weights", "--weight-type", "int4"]),
             "half": (cnn, ["--mode", "float16"]), "bodies_dynamic": (work / "bodies.onnx", ["--mode", "dynamic"])}
    for name, (model, flags) in forms.items():
        seqto("quantize", model, "-o", work / "made.onnx", *flags)
        put("onnx", f"{name}.onnx", (work / "made.onnx").read_bytes())
    called = helper.make_model(
        helper.make_graph([helper.make_node("twice", ["x"], ["y"], domain="own")], "g",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)], ir_version=8,
        functions=[helper.make_function("own", "twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
                                        [helper.make_opsetid("", 17)])])
    put("onnx", "function.onnx", called.SerializeToString())


def external_files():
    for name, entries in {"whole": {"location": "weights.bin"},
                          "part": {"location": "weights.bin", "offset": "4", "length": "32"},
                          "below": {"location": "sub/weights.bin", "checksum": "0" * 40},
                          "link": {"location": "link.bin", "length": "32"},
                          "outside": {"location": "../weights.bin", "offset": "0", "length": "9223372036854775807"},
                          "device": {"location": "/dev/zero", "length": "32"}}.items():
        model = text_model("y = MatMul(x, w)", "float[1,4] x", "float[1,2] y")
        weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4, 2],
                                             data_location=TensorProto.EXTERNAL)
        for key, value in entries.items():
            weight.external_data.add(key=key, value=value)
        put("external", f"{name}.onnx", model.SerializeToString())


def data_files(work):
    for path in GOLDEN.iterdir():
        if path.suffix in (".npy", ".npz") and path.stat().st_size < 1000:
            put("arrays", path.name, path.read_bytes())
        elif path.suffix in (".png", ".jpg"):
            put("image", path.name, path.read_bytes())
    np.savez_compressed(work / "packed.npz", x=models.weight(3, 1, 2), y=np.arange(3))
    put("arrays", "packed.npz", (work / "packed.npz").read_bytes())
    for name, array in {"floats": models.weight(1, 2), "int64": np.arange(3), "bools": np.array([True, False]),
                        "strings": np.array(["a", "bc"], object)}.items():
        tensor = numpy_helper.from_array(array, "x")
        put("tensor", f"{name}.pb", tensor.SerializeToString())
    listed = helper.make_tensor("x", TensorProto.FLOAT16, [3], [1.0, 2.0, 3.0])
    put("tensor", "listed.pb", listed.SerializeToString())
    for name, (channels, width, rate) in {"mono": (1, 2, 16000), "stereo": (2, 1, 8000)}.items():
        file = io.BytesIO()
        with wave.open(file, "wb") as sound:
            sound.setnchannels(channels)
            sound.setsampwidth(width)
            sound.setframerate(rate)
            sound.writeframes(bytes(range(256)) * 2)
        put("sound", f"{name}.wav", file.getvalue())
    put("labels", "labels.csv", 'file,label\na.png,0\n"b,c.png",3\n')
    put("labels", "targets.csv", "file,target_x,target_y,transcript\na.wav,0.5,1e3,a word\n")
    put("labels", "data.yaml", "path: .\nval: [image.txt, ../image.txt]\nkpt_shape: [17, 3]\nnames:\n  0: &a 'cat'\n")
    put("labels", "yolo.txt", "0 0.5 0.5 0.2 0.1\n3 0.1 0.1 0.05 0.05\n")
    put_json("labels", "coco.json", {"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 7, "name": "x"}],
                                     "annotations": [{"image_id": 1, "category_id": 7, "bbox": [1, 2, 3, 4], "iscrowd": 0}]})
    put_json("labels", "vocab.json", {"<pad>": 0, "|": 1, "a": 2, "<unk>": 3})
    put_json("labels", "decoder.json", {"classes": 2, "decode": "yolov3", "input": [64, 64], "sigmoid": True,
                                        "heads": [{"output": "y", "anchors": [[1, 2], [3, 4]]}], "strides": [8, 16]})


def study_files(work):
    """Without what tells of a machine."""
    onnx.save(text_model("c = Conv(x, w)  r = Relu(c)  f = Flatten(r)  y = MatMul(f, v)", "float[1,1,4,4] x",
                         "float[1,2] y", "w 2 1 3 3;v 8 2"), work / "small.onnx")
    np.savez(work / "small.npz", x=models.weight(24, 1, 4, 4))
    made = work / "study"
    seqto("tune", work / "small.onnx", "--data", work / "small.npz", "-o", made, "--quick", "--objectives", "kl,size",
          "--schemes", "int8,int8_weights", "--max-evaluations", "4")
    lines, kinds = [], set()
    for line in (made / "study.jsonl").read_text().splitlines():
        value = json.loads(line)
        if "header" in value:
            value["header"] |= {"environment_json": '{"cpu": "one"}', "model_path": "small.onnx"}
        kind = value.get("note", "trial" if "trial" in value else line)
        if not lines or len(line) < 1200 and (kind == "trial" or kind not in kinds):
            lines.append(json.dumps(value))
        kinds.add(kind)
    put("study", "study.jsonl", "\n".join(lines[:14]) + "\n")
    for place, line in enumerate(lines[1:8]):
        put("study", f"line_{place}.jsonl", lines[0] + "\n" + line + "\n")
    summary = json.loads((made / "summary.json").read_text())
    summary["environment"], summary["model"] = {"cpu": "one"}, "small.onnx"
    put_json("summary", "summary.json", {key: value for key, value in summary.items() if len(json.dumps(value)) < 6000})
    for path in sorted(made.rglob("*plan*.json"))[:2]:
        put("plan", path.name, path.read_bytes())
    options = json.loads(json.loads(lines[0])["header"]["options_json"])
    put_json("settings", "quantize.json", options["quantize"])
    put_json("settings", "improvers.json", {"learn_rounding": True, "correct_biases": "fast", "smooth": True, "center": True})
    put_json("settings", "calibrate.json", {"method": "entropy", "bins": 128, "percentile": 99.9, "symmetric": True,
                                            "tensor_methods": [["x*", "mse"]]})
    put_json("settings", "layer.json", {"per_channel": True, "method": "percentile:99.9", "block_size": 16})
    put_json("settings", "overrides.json", {"x": [{"quant_type": "QInt16", "scale": 0.1, "zero_point": 0},
                                                  {"axis": 0, "symmetric": True, "rmin": -1, "rmax": 1,
                                                   "convert": {"quant_type": "QUInt8", "recv_nodes": ["c"]}}]})
    put_json("settings", "preprocessor_config.json", {"do_resize": True, "size": {"shortest_edge": 256}, "resample": 3,
                                                      "crop_size": {"height": 224, "width": 224}, "do_normalize": True,
                                                      "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
                                                      "rescale_factor": 0.00392})
    plan = {"schemes": {"c_node": "int8"}}
    put_json("plan", "fields.json", {"schema_version": 1, "schemes": {"c": {"scheme": "int8", "per_channel": True}}})
    put_json("plan", "groups.json", {"groups": [["conv*", "op:Relu"], ["mul"]]})
    trials = [json.loads(line)["trial"] for line in lines if "trial" in line and "trial" in json.loads(line)]
    put_json("plan", "trial.json", {"trial": trials[-1]})
    put_json("plan", "result.json", {"number": 3, "trial": trials[-1]})
    put_json("plan", "error.json", {"number": 3, "error": "why"})
    put_json("plan", "proposal.json", {"number": 2, "part": "search", "step": "one-in", "excluded": ["c"]} | plan)
    put_json("plan", "lock.json", {"schema_version": 1, "candidate": "selected", "model_sha256": "0", "recipe": None,
                                   "reference_sha256": "0", "data": "1", "versions": {"seqto": "0", "runner": "r"},
                                   "machine": "m", "figures": {"kl": {"value": 0.1, "interval": [0.0, 0.2]}}})
    seqto("calibrate", work / "small.onnx", "--data", work / "small.npz", "-o", work / "ranges.json")
    put("ranges", "minmax.json", (work / "ranges.json").read_bytes())
    put_json("ranges", "histogram.json", {"x": {"lowest": -1, "highest": 2, "histogram": {"counts": [1, 2],
                                                                                          "edges": [-1, 0, 2]}}})


def dialect_files():
    put_json("dialect", "seqto.json", {"schema_version": 1, "schemes": {"conv": "int8", "mul": "int8_dynamic"}})
    put_json("dialect", "onnxruntime.json", {"nodes_to_exclude": ["mul"], "extra_options": {"TensorQuantOverrides": {
        "c": [{"quant_type": "QInt16", "scale": 0.1, "zero_point": 3}], "w": [{"axis": 0, "symmetric": True}]}}})
    put_json("dialect", "names.json", ["conv", "mul"])
    put_json("dialect", "nncf.json", {"ignored_scope": {"names": ["conv"], "patterns": ["m.*"], "types": ["Relu"],
                                                        "subgraphs": [{"inputs": ["conv"], "outputs": ["flatten"]}],
                                                        "validate": False}})
    put_json("dialect", "older.json", {"ignored_scopes": ["conv", "{re}m.*"]})
    put("dialect", "tensorrt.txt", "trtexec --layerPrecisions=*:int8,conv:fp16,mul:fp32 --int8")
    put_json("dialect", "aimet.json", {"version": "2.0.0", "encodings": [
        {"name": "c", "output_dtype": "int8", "y_scale": 0.1, "y_zero_point": 0},
        {"name": "w", "output_dtype": "int8", "y_scale": [0.1, 0.2], "axis": 0}]})
    put_json("dialect", "aimet_0.json", {"version": "0.6.1", "activation_encodings": {"c": [
        {"bitwidth": 8, "dtype": "int", "is_symmetric": "False", "max": 1, "min": -1, "offset": -128, "scale": 0.01}]},
        "param_encodings": {"w": [{"bitwidth": 8, "dtype": "int", "offset": -128, "scale": 0.01}]}})
    put_json("dialect", "aimet_1.json", {"version": "1.0.0", "activation_encodings": [
        {"name": "c", "bw": 8, "dtype": "INT", "enc_type": "PER_TENSOR", "is_sym": False, "offset": [-128],
         "scale": [0.01]}], "param_encodings": []})
    put_json("dialect", "quark.json", {"exclude": ["conv", "^m.*", [["conv"], ["flatten"]]],
                                       "layer_type_config": [[None, ["Relu"]]]})


def text_files():
    put("config", "tune.toml", 'model = "m.onnx"\nschemes = ["int8", "float32"]\nmax-size = "30%"\nsamples = 20\n'
        'tolerance = 0.5\nimprove = true\n[dim]\n"input:1" = 128\n')
    put("config", "target.toml", (models.SOURCE / "targets/esp-dl.toml").read_bytes()[:3000])
    put_json("config", "published.json", {
        "run_type": "onnx", "onnx_hub": {"activate": True, "start": 0, "end": 200,
                                         "filter": {"enabled": True, "name": "net", "opset": 10}},
        "tvm": {"devices": {"id": 0, "selected": "default", "default": {
            "key": "android", "host_type": "default", "target": "opencl", "host": "llvm", "address": "0.0.0.0",
            "port": 9092}}},
        "onnx": {"threshold": 0, "preprocess_model": False, "quantize_static": False},
        "options": {"preprocessing_setting": "imagenet", "nodes_to_exclude": [], "skipped_nodes": []},
        "images": {"images_folder_rel_path": "/i/", "calibration_images_rel_path": "/c/", "random_enabled": True,
                   "random_k": 4, "chunk": 2}, "visualizer": {"labels": ["Size"], "active_labels": [True]}})
    put_json("summary", "published.json", {
        "dissimilarities": [12.5, 3.0], "size": {"original": "1.0 MB", "quantized": ["0.3 MB", "0.4 MB"]},
        "benchmarks": {"original": 0.1, "quantized": [0.05, 0.06]}, "activations": [["c", 0.5]],
        "excluded_nodes": ["c"], "skipped_nodes": []})
    put_json("hub", "manifest.json", [{
        "model": "Net", "model_path": "vision/net.onnx", "onnx_version": "1.9", "opset_version": 17,
        "metadata": {"model_sha": "ab" * 32, "model_bytes": 12, "tags": ["vision"],
                     "model_with_data_path": "vision/net.tar.gz", "model_with_data_sha": "cd" * 32,
                     "model_with_data_bytes": 20,
                     "io_ports": {"inputs": [{"name": "x", "shape": ["N", 1, 8], "type": "tensor(float)"}],
                                  "outputs": [{"name": "y", "shape": ["N", 10], "type": "tensor(float)"}]}}}])


def archives():
    """With names that leave the folder, links and pipes beside the usual."""
    kinds = {"plain": [("net/net.onnx", tarfile.REGTYPE), ("net/test_data_set_0/input_0.pb", tarfile.REGTYPE)],
             "upwards": [("../net.onnx", tarfile.REGTYPE)], "absolute": [("/net.onnx", tarfile.REGTYPE)],
             "link": [("net", tarfile.SYMTYPE), ("net/net.onnx", tarfile.REGTYPE)], "pipe": [("net", tarfile.FIFOTYPE)],
             "twice": [("net", tarfile.REGTYPE), ("net", tarfile.REGTYPE)], "folder": [("net", tarfile.DIRTYPE)]}
    for name, members in kinds.items():
        for suffix, how in ((".tar.gz", "w:gz"), (".tar", "w:")) if name == "plain" else ((".tar", "w:"), ):
            file = io.BytesIO()
            with tarfile.open(fileobj=file, mode=how) as archive:
                for member, kind in members:
                    info = tarfile.TarInfo(member)
                    info.type, info.linkname = kind, "/etc"
                    info.size = 5 if kind == tarfile.REGTYPE else 0
                    archive.addfile(info, io.BytesIO(b"bytes"))
            # Python fills up to twenty blocks with zeros; two end an archive.
            content = file.getvalue()
            put("archive", name + suffix, content if how == "w:gz" else content.rstrip(b"\0") + bytes(1536))


def messages():
    import base64
    bytes_of = lambda data: base64.b64encode(data).decode()  # noqa: E731
    small = text_model("y = Neg(x)", "float[2] x", "float[2] y").SerializeToString()
    tensor = {"type": "float32", "dims": [2], "base64": bytes_of(np.ones(2, np.float32).tobytes())}
    proto = {"type": "uint8", "dims": [len(small)], "base64": bytes_of(small)}
    load = {"id": 2, "verb": "load", "optimization": "none", "model": {"proto": proto, "weights": [tensor | {"name": "w"}]}}
    lines = [{"id": 1, "verb": "hello", "protocol": 1}, load, {"id": 3, "verb": "run", "session": 1, "inputs": [tensor]},
             {"id": 4, "verb": "run_many", "session": 1, "samples": [[tensor], [tensor]]},
             {"id": 5, "verb": "time", "session": 1, "inputs": [tensor], "repeats": 3},
             {"id": 6, "verb": "optimize", "model": load["model"]},
             {"id": 7, "verb": "place", "model": load["model"], "inputs": [tensor], "runs": 1}, {"id": 8, "verb": "memory"},
             {"id": 9, "verb": "cancel", "request": 3}, {"id": 10, "verb": "unload", "session": 1},
             {"id": 11, "verb": "shutdown"}]
    # Without the cancelling, which may come before what it cancels.
    put("worker", "session.jsonl", "".join(json.dumps(line) + "\n" for line in lines if line["verb"] != "cancel"))
    for line in lines:
        put("worker", f"{line['verb']}.jsonl", json.dumps(line) + "\n")
    put("worker", "load_file.jsonl", json.dumps({"id": 1, "verb": "load", "file": "m.onnx"}) + "\n" + json.dumps(lines[2]))
    put("worker", "blob.jsonl", json.dumps({"blob": "ab", "bytes": 4}) + "\n1234" + json.dumps(
        {"id": 1, "verb": "run", "session": 1, "inputs": [{"type": "float32", "dims": [1], "blob": "ab"}]}) + "\n")
    put_json("worker", "tensors.json", [tensor, tensor])
    put_json("worker", "nodes.json", [{"node": "n", "op_type": "Neg", "provider": "p", "ns": 3}])
    put_json("worker", "error.json", {"code": "unavailable", "message": "why"})


if __name__ == "__main__":
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="seqto-corpus-"))
    try:
        onnx_files(scratch)
        external_files()
        data_files(scratch)
        study_files(scratch)
        dialect_files()
        text_files()
        archives()
        messages()
    finally:
        shutil.rmtree(scratch)
