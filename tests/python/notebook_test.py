"""The notebook docs/guide/quick_start.ipynb: its cells run in order, and print what is stored in it, figures apart.

    notebook_test.py --write     stores what the cells print now

No Jupyter is needed: a cell's value is its last expression, shown as text and, where it can be, as HTML."""

import ast
import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import time
import unittest

import package

PATH = package.SOURCE / "docs/guide/quick_start.ipynb"
FIGURE = re.compile(r"\d[\d.,e-]*( [kM]?B| [nµm]?s)?")


def run(source, names):
    """The outputs of a cell, in the form of a notebook."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(compile(last, "<cell>", "eval"), names) if last else None
    outputs = []
    if said.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(said.getvalue())})
    if value is not None:
        shown = {"text/plain": lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = lines(value._repr_html_())
        outputs.append({"data": shown, "metadata": {}, "output_type": "execute_result"})
    return outputs


def lines(text):
    return text.rstrip("\n").splitlines(keepends=True)


def texts(outputs):
    """What a reader sees, without figures; of HTML that it is there."""
    for output in outputs:
        data = output.get("data", {"text/plain": output.get("text")})
        yield FIGURE.sub("#", re.sub(r"\s+", " ", "".join(data["text/plain"]))), sorted(data)


def execute(notebook):
    """Each cell of code with the outputs that it has now."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="seqto-notebook-") as folder:
        shutil.copytree(package.SOURCE / "examples/digits", os.path.join(folder, "examples/digits"))
        os.makedirs(os.path.join(folder, "docs/guide"))
        os.chdir(os.path.join(folder, "docs/guide"))
        try:
            names, count = {"__name__": "__main__"}, 0
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    count += 1
                    outputs = run("".join(cell["source"]), names)
                    for output in outputs:
                        if output["output_type"] == "execute_result":
                            output["execution_count"] = count
                    yield cell, count, outputs
        finally:
            os.chdir(here)


class Notebook(unittest.TestCase):
    def test_cells(self):
        started = time.monotonic()
        for cell, count, outputs in execute(json.loads(PATH.read_text(encoding="utf-8"))):
            with self.subTest(cell=count):
                self.assertEqual(cell["execution_count"], count)
                stored, now = list(texts(cell["outputs"])), list(texts(outputs))
                if "varies" in cell["metadata"].get("tags", ()):  # which points a search finds depends on latencies
                    stored, now = [[kinds for _, kinds in found] for found in (stored, now)]
                self.assertEqual(stored, now)
        self.assertLess(time.monotonic() - started, 120)  # some 5 seconds on a machine that does nothing else
        self.assertLess(PATH.stat().st_size, 100_000)


def write():
    notebook = json.loads(PATH.read_text(encoding="utf-8"))
    for cell, cell["execution_count"], cell["outputs"] in execute(notebook):
        pass
    PATH.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write() if "--write" in sys.argv[1:] else unittest.main()
