"""The Python on the pages: it runs, and prints what they say, figures apart. `python MODULE` runs where the module is."""

import contextlib
import importlib.util
import io
import os
import re
import shutil
import sys
import tempfile
import unittest

import package

sys.path.insert(0, str(package.SOURCE / "tests/docs"))
import pages  # noqa: E402

FIGURE = re.compile(r"\d+(\.\d+)?(e-?\d+)?")


class Guide(unittest.TestCase):
    def run_blocks(self, page):
        path = package.SOURCE / page
        blocks = [b for b in pages.Page(path, path.read_text()).blocks() if b.info.split()[0] in ("python", "text")]
        names, printed, ran = {}, "", 0
        self.addCleanup(os.chdir, os.getcwd())
        with tempfile.TemporaryDirectory(prefix="seqto-guide-") as folder:
            os.chdir(folder)
            shutil.copytree(package.SOURCE / "examples/digits", "examples/digits")
            for block in blocks:
                if any(importlib.util.find_spec(name) is None for name in block.info.split()[1:] if name != "varies"):
                    continue
                text = "\n".join(block.lines) + "\n"
                if block.info == "text varies":
                    self.assertEqual(printed.split()[0], text.split()[0])
                    continue
                if block.info == "text":
                    self.assertEqual(FIGURE.sub("#", printed), FIGURE.sub("#", text))
                    continue
                with contextlib.redirect_stdout(io.StringIO()) as said:
                    exec(compile(text, f"{path.name}:{block.first}", "exec"), names)
                printed, ran = said.getvalue(), ran + 1
            self.assertGreater(ran, 3)
            return set(os.listdir())

    def test_the_guide(self):
        self.assertLessEqual({"static.onnx", "dynamic.onnx"}, self.run_blocks("docs/guide/python.md"))

    def test_own_parts(self):
        self.assertIn("own", self.run_blocks("docs/reference/own_parts.md"))


if __name__ == "__main__":
    unittest.main()
