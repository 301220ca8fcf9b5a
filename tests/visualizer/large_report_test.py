"""The report of a model of 500 layers: below 3 MB, nothing from elsewhere, and its graph is drawn."""

import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from visualizer.report_browser_test import SKIPPED, browse  # noqa: E402

BLOCKS = 166


def deep(path):
    """Residual blocks of Conv, Relu and Add; 500 layers with the two at the end."""
    nodes, weights, name = [], [], "x"
    for i in range(BLOCKS):
        weights.append((f"w{i}", models.weight(4, 4, 1, 1, seed=i) / 8))
        nodes += [models.node("Conv", [name, f"w{i}"], [f"c{i}"]), models.node("Relu", [f"c{i}"], [f"r{i}"]),
                  models.node("Add", [name, f"r{i}"], [f"a{i}"])]
        name = f"a{i}"
    nodes += [models.node("GlobalAveragePool", [name], ["p"]), models.node("Flatten", ["p"], ["y"])]
    return models.save(path, nodes, [("x", [1, 4, 8, 8])], [("y", [1, 4])], weights)


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model, data = deep(folder / "deep.onnx"), models.arrays(folder / "data.npz", samples=24, shape=(4, 8, 8))
        done = models.seqto("tune", model, "--data", data, "-o", folder / "out", "--objectives", "kl,size",
                            "--calibration-samples", 8, "--search-samples", 8, "--max-evaluations", 60, "-q")
        assert done.returncode == 0, done.stderr
        page = folder / "out" / "report.html"
        size = page.stat().st_size
        print(f"{3 * BLOCKS + 2} layers: report.html has {size} bytes")
        assert size < 3_000_000, size
        assert not re.search(r"(?:src|href)=[\"'](?:https?:)?//", page.read_text())
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if not browser:
            print("skipped: there is no chromium to open the page")
            return SKIPPED
        # So high that the graph is in view, which is when it is laid out.
        dom, said = browse(browser, page, "--dump-dom", "--window-size=1280,9000")
        assert "CONSOLE" not in said, said
        graph = dom.split('id="graph"', 1)[1].split("</svg>")[0]
        assert len(re.findall(r"data-node=", graph)) == 3 * BLOCKS + 3
        assert len(re.findall(r"marker-end=", graph)) == 4 * BLOCKS + 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
