"""What --print-encoding tells is what the file holds: scales, zero points, codes and biases, read by onnx itself."""

import hashlib
import json
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import DIGITS, DIGITS_DATA, seqto


def encoded(folder, *flags):
    out = folder / "out.onnx"
    done = seqto("-q", "quantize", DIGITS, "--data", DIGITS_DATA, "--samples", 16, "--print-encoding", *flags, "-o", out)
    assert done.returncode == 0, done.stderr
    values = {i.name: i for i in onnx.load(str(out)).graph.initializer}
    encoding = json.loads(done.stdout)
    assert encoding["hash"] == hash_of(done.stdout), flags
    return encoding, values


def hash_of(text):
    """As formats.md has it: numbers stay as they are printed."""
    mark = "<number>"
    rest = json.loads(text, parse_float=lambda number: mark + number + mark)
    del rest["hash"]
    compact = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    compact = compact.replace(f'"{mark}', "").replace(f'{mark}"', "")
    return hashlib.sha256(compact.encode()).hexdigest()[:16]


def sha256(tensor):
    return hashlib.sha256(tensor.raw_data or numpy_helper.to_array(tensor).tobytes()).hexdigest()


def check_tensors(encoding, values, least_codes):
    """Returns how many tensors were found; constants have codes in the file."""
    found = codes = 0
    for name, entry in encoding["tensors"].items():
        owner = entry.get("same_as", name)
        scale, zero = values.get(f"{owner}_scale"), values.get(f"{owner}_zero_point")
        assert scale is not None, name
        np.testing.assert_array_equal(np.ravel(numpy_helper.to_array(scale)), np.float32(entry["scale"]), name)
        np.testing.assert_array_equal(np.ravel(numpy_helper.to_array(zero)).astype(np.int32), entry["zero_point"], name)
        found += 1
        if "codes" in entry:
            assert sha256(values[f"{name}_quantized"]) == entry["codes"]["sha256"], name
            codes += 1
    assert codes >= least_codes, encoding["tensors"].keys()
    return found


def check_biases(encoding, values):
    for name, entry in encoding["biases"].items():
        stored = values.get(f"{name}_quantized", values.get(name))
        assert sha256(stored) == entry["sha256"] and list(stored.dims) == entry["dims"], name
    return len(encoding["biases"])


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        hashes = set()
        for flags in (["--no-improve"], ["--per-channel"], ["--activation-type", "uint8", "--weight-type", "uint8"]):
            encoding, values = encoded(folder, *flags)
            assert check_tensors(encoding, values, least_codes=2) > 4 and check_biases(encoding, values) >= 2, flags
            assert all(layer["scheme"] == "int8" for layer in encoding["layers"].values())
            assert encoded(folder, *flags)[0] == encoding  # the same every time
            hashes.add(encoding["hash"])
        assert len(hashes) == 3
        encoding, values = encoded(folder, "--format", "qoperator")
        assert check_tensors(encoding, values, least_codes=2) > 4 and check_biases(encoding, values) >= 2
        encoding, values = encoded(folder, "--mode", "weights")
        folded = {name: forms["folded 8"] for name, forms in encoding["weights"].items()}
        assert folded
        for name, (codes, *_) in folded.items():
            assert sha256(values[f"{name}_quantized"]) == codes["sha256"], name
        # Learned codes and corrected biases are those of the file, too.
        for flags in ([], ["--format", "qoperator"], ["--mode", "weights"]):
            plain, _ = encoded(folder, *flags)
            encoding, values = encoded(folder, "--bias-correction", "fast", "--rounding", "learned", *flags)
            codes = "weights" if "weights" in flags else "tensors"
            assert encoding[codes] != plain[codes] and encoding["biases"] != plain.get("biases"), flags
            assert check_biases(encoding, values) >= 2, flags
            if codes == "tensors":
                check_tensors(encoding, values, least_codes=2)
    print("ok")


if __name__ == "__main__":
    main()
