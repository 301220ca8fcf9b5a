"""The Python on docs/guide/python.md: it runs, and prints what the page says, figures apart."""

import contextlib
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

FIGURE = re.compile(r"\d+(\.\d+)?")


class Guide(unittest.TestCase):
    def test_blocks(self):
        path = package.SOURCE / "docs/guide/python.md"
        blocks = [b for b in pages.Page(path, path.read_text()).blocks() if b.info.split()[0] in ("python", "text")]
        names, printed, ran = {}, "", 0
        self.addCleanup(os.chdir, os.getcwd())
        with tempfile.TemporaryDirectory(prefix="seqto-guide-") as folder:
            os.chdir(folder)
            shutil.copytree(package.SOURCE / "examples/digits", "examples/digits")
            for block in blocks:
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
            self.assertTrue(os.path.exists("static.onnx") and os.path.exists("dynamic.onnx"))
        self.assertGreater(ran, 3)


if __name__ == "__main__":
    unittest.main()
