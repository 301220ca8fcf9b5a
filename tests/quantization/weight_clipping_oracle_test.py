"""--weight-clipping mse against numpy: never a larger error than min-max, and that of the best scale of a fine search."""
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import save, seqto  # noqa: E402


def model(path):
    rng = np.random.default_rng(0)
    w = rng.laplace(size=(8, 4, 3, 3)).astype(np.float32)  # long tails
    w[1] *= 0.01
    w[2] = 0
    w[3] = rng.uniform(-1, 1, w[3].shape)
    return save(path, [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")], [("x", [1, 4, 8, 8])],
                [("y", [1, 8, 6, 6])], [("w", w)]), w.astype(np.float64)


def stored(path):
    values = {i.name: numpy_helper.to_array(i).astype(np.float64) for i in onnx.load(path).graph.initializer}
    code, scale, zero = values["w_quantized"], values["w_scale"], values["w_zero_point"]
    shape = (-1, 1, 1, 1) if scale.ndim else ()
    return (code - zero.reshape(shape)) * scale.reshape(shape)


def best_symmetric(w):
    return min(np.square(np.clip(np.rint(w / s), -128, 127) * s - w).sum()
               for s in np.abs(w).max() / 127 * np.linspace(0.45, 1, 500))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        path, w = model(scratch / "model.onnx")
        np.savez(scratch / "data.npz", x=np.random.default_rng(1).normal(size=(3, 4, 8, 8)).astype(np.float32))
        for flags in ([], ["--per-channel"], ["--symmetric-weights", "false"],
                      ["--weight-type", "uint8", "--activation-type", "uint8"], ["--reduce-range", "--per-channel"]):
            errors = {}
            for clipping in ("none", "mse"):
                result = seqto("quantize", path, "--data", scratch / "data.npz", "-o", scratch / "q.onnx",
                               "--weight-clipping", clipping, *flags)
                assert result.returncode == 0, result.stderr
                difference = np.square(stored(scratch / "q.onnx") - w)
                errors[clipping] = difference.sum((1, 2, 3)) if "--per-channel" in flags else difference.sum()[None]
            # The stored scales are float32 and the sums here double.
            assert (errors["mse"] <= errors["none"] * (1 + 1e-6)).all(), (flags, errors)
            if flags in ([], ["--per-channel"]):
                assert errors["mse"].sum() < errors["none"].sum(), (flags, errors)
            if flags == ["--per-channel"]:
                best = np.array([best_symmetric(c) if c.any() else 0 for c in w])
                assert (errors["mse"] <= 1.1 * best + 1e-12).all(), (errors["mse"], best)
            print(flags, "squared error", errors["none"].sum(), "->", errors["mse"].sum())
    return 0


if __name__ == "__main__":
    sys.exit(main())
