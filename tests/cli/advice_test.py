"""What `quantize` advises where int8 ruined a model: it repeats what the user gave, and is nothing that the target refuses."""
import pathlib
import re
import shlex
import sys
import tempfile
import unittest

import numpy as np
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import node, save, seqto  # noqa: E402


def picture(path, colour):
    """Of one colour, 8 x 8 pixels."""
    Image.new("RGB", (8, 8), tuple(int(c) for c in colour)).save(path)


class Advice(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        # The scores of three classes lie close together and far from that of the fourth, so that they share a code.
        nodes = [node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1]), node("Conv", ["p", "w", "b"], ["c"]), node("Flatten", ["c"], ["y"])]
        means = np.broadcast_to(np.eye(4, 3, dtype=np.float32)[:, :, None, None] / 64, (4, 3, 8, 8))
        self.model = save(self.dir / "scores.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4])],
                          [("w", means), ("b", np.float32([0, 0, 0, -300]))])
        self.images = self.dir / "my images"
        self.images.mkdir()
        rng = np.random.default_rng(0)
        for i in range(24): picture(self.images / f"{i}.png", rng.integers(0, 256, 3))

    def advice(self, *flags):
        done = seqto("quantize", self.model, "--data", self.images, "--preprocess", "unit", "-o", self.dir / "q.onnx", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r"warning: differs from float .*?; try (.*)", done.stderr)[1]

    def test_a_search_gets_what_quantize_got(self):
        said = self.advice("--improve", "--per-channel", "--activation-type", "int8", "--exclude", "p_*", "--samples", 20)
        words = shlex.split(said[:said.index(", which leaves")].replace("-o DIR", f"-o {shlex.quote(str(self.dir / 'study'))}"))
        self.assertEqual(words[:3], ["seqto", "tune", str(self.model)])
        for given in (["--data", str(self.images)], ["--preprocess", "unit"], ["--exclude", "p_*"], ["--samples", "20"]):
            self.assertIn(given, [words[i:i + 2] for i in range(len(words))])
        done = seqto(*words[1:], "--quick", "--max-evaluations", 4)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_flags_of_a_file_count_as_given(self):
        config = self.dir / "flags.toml"
        config.write_text('improve = true\nper-channel = true\nactivation-type = "int8"\n')
        said = self.advice("--config", config)
        self.assertIn("--activation-type int8", said)
        self.assertNotIn("--config", said, "a search takes no file of another word")

    def test_of_a_target_with_one_scale_for_a_weight(self):
        said = self.advice("--target", "vitis-xint8", "--improve")
        self.assertTrue(said.startswith("seqto tune"), said)
        self.assertIn("--target vitis-xint8", said)

    def test_a_scale_for_each_channel_where_it_can_be_had(self):
        self.assertEqual(self.advice("--improve", "--activation-type", "int8"), "--per-channel")

    def test_where_nothing_can_be_in_float(self):
        said = self.advice("--target", "esp-dl", "--improve")
        self.assertEqual(said, "--activation-type int16: esp-dl computes nothing in float")
        done = seqto("quantize", self.model, "--data", self.images, "--target", "esp-dl", *said.split(":")[0].split(), "-o", self.dir / "q.onnx")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
