"""Groups in `seqto inspect`: printed, merged by flag, taken back from a file."""

import json
import pathlib
import sys
import tempfile

try:
    from onnx import helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import save, seqto, weight

OWN = [["a", "relu_a"], ["b", "relu_b"], ["c"]]


def groups(path, *flags):
    result = seqto("inspect", path, "--json", *flags)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["groups"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        check(pathlib.Path(folder))


def check(folder):
    nodes = [helper.make_node("Conv", ["x", "wa"], ["ta"], "a"), helper.make_node("Relu", ["ta"], ["ra"], "relu_a"),
             helper.make_node("Conv", ["ra", "wb"], ["tb"], "b"), helper.make_node("Relu", ["tb"], ["rb"], "relu_b"),
             helper.make_node("Conv", ["rb", "wc"], ["y"], "c")]
    weights = [(f"w{k}", weight(3, 3, 1, 1, seed=i)) for i, k in enumerate("abc")]
    model = save(folder / "m.onnx", nodes, [("x", [1, 3, 4, 4])], [("y", [1, 3, 4, 4])], weights)
    assert groups(model) == OWN
    merged = [["a", "relu_a", "c"], ["b", "relu_b"]]
    assert groups(model, "--group", "a,c") == merged
    assert groups(model, "--group", "a,c", "--group", "b,c") == [["a", "relu_a", "b", "relu_b", "c"]]
    file = folder / "groups.json"
    file.write_text(json.dumps({"groups": merged}))
    assert groups(model, "--groups", file) == merged
    assert "a, relu_a, c" in seqto("inspect", model, "--group", "a,c", "--all").stdout
    file.write_text("[]")
    for flags, code, text in [(("--group", "nothing"), 2, "nearest"), (("--groups", file), 3, "[groups]")]:
        result = seqto("inspect", model, *flags)
        assert result.returncode == code and text in result.stderr, (result.returncode, result.stderr)


if __name__ == "__main__":
    main()
