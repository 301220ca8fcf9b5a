"""What the forms of a model cost on an NVIDIA GPU: each form's latency over float's on the same device, and its squared error
against float on the CPU, over the output's power. SEQTO_BENCH_DEVICES names devices with
the ONNX Runtime that has them, as "cuda=/path/libonnxruntime.so.1.31.1,tvm:cuda -arch=sm_90="; without it nothing is run.

Columns: device, network, form, latency over float's with its interval, squared error."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from _cases import case_words
from _ratios import folder, header

SOURCE = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"])
CASES = pathlib.Path(os.environ["SEQTO_CASES_DIR"])
FORMS = {"int8": ["quantize", "--per-channel", "--symmetric-activations"], "int8_weights": ["quantize", "--mode", "weights"],
         "float16": ["quantize", "--mode", "float16"]}
NETWORKS = {"digits": (SOURCE / "examples/digits/model.onnx", ["--data", SOURCE / "examples/digits/digits.npz"])}


def seqto(*words, env=None):
    done = subprocess.run([os.environ["SEQTO_BINARY"], *map(str, words), "-q"], capture_output=True, text=True, check=False,
                          env={**os.environ, **(env or {})})
    return done.stdout if done.returncode == 0 else None


def outputs(model, data, out, *flags, env=None):
    out.unlink(missing_ok=True)
    seqto("run", model, *data, "--samples", 32, *flags, "-o", out, env=env)
    return [np.asarray(a, np.float64) for a in np.load(out).values()] if out.exists() else None


def squared_error(expected, found):
    if found is None:
        return float("nan")
    return max(float(((a - b) ** 2).mean() / (a ** 2).mean()) for a, b in zip(expected, found) if a.shape == b.shape)


def rows(work, name, model, data, devices):
    forms = {"float": model}
    for form, words in FORMS.items():
        path = work / f"{name}.{form}.onnx"
        if seqto(words[0], model, "-o", path, *words[1:], *(data if form == "int8" else [])) is not None:
            forms[form] = path
    expected = outputs(model, data, work / "expected.npz")
    for device, library in devices.items():
        env = {"SEQTO_ORT_LIBRARY": library} if library else {}
        for form, path in forms.items():
            apart = squared_error(expected, outputs(path, data, work / "found.npz", "--device", device, env=env))
            text = "1"
            if form != "float":
                reply = seqto("bench", model, path, *data, "--samples", 2, "--launches", 3, "--max-time", 4, "--device",
                              device, "--json", env=env)
                found = json.loads(reply)["comparisons"][0] if reply else None
                text = "does not run" if found is None else "{:.2f} ({:.2f} to {:.2f})".format(
                    found["ratio"], *found["ratio_interval"])
            yield f"| {device} | {name} | {form} | {text} | {apart:.1e} |"


def gpu():
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True,
                              check=False).stdout.strip()
    except OSError:
        return "none"


def main():
    devices = dict(pair.rsplit("=", 1) if pair.startswith("tvm") else pair.split("=", 1)
                   for pair in os.environ.get("SEQTO_BENCH_DEVICES", "").split(",") if pair)
    if not devices:
        print("skipped: SEQTO_BENCH_DEVICES names no device")
        return
    networks = dict(NETWORKS)
    for name in os.environ.get("SEQTO_BENCH_CASES", "resnet8,mobilenet_v1_025,squeezenet11,tiny_encoder").split(","):
        if (CASES / name).exists():
            networks[name] = case_words(name)
    text = header("gpu", networks, "bench/gpu.py") + f"GPU: {gpu()}.\n\n" \
        "| device | network | form | latency over float's | squared error |\n|---|---|---|---|---|\n"
    print(text, end="", flush=True)
    with tempfile.TemporaryDirectory() as work:
        for name, (model, data) in networks.items():
            for row in rows(pathlib.Path(work), name, model, data, devices):
                print(row, flush=True)
                text += row + "\n"
    if "--write" in sys.argv:
        (folder() / "gpu.md").write_text("# Forms on a GPU\n\n" + text)


main()
