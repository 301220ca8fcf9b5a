"""What exporters leave beside a model is used where no flag says otherwise: pictures made ready as transformers' image
processors do (here by Pillow and numpy), the tokenizer of text, how sound is scaled."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import wave

import numpy as np
from onnx import TensorProto
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

PYTHON = pathlib.Path(__file__).parents[2] / ".deps/venv/bin/python"
PYTHON = str(PYTHON) if PYTHON.exists() else sys.executable
MEAN, STD = [0.5, 0.4, 0.3], [0.25, 0.5, 0.2]
VIT = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 20, "width": 24}, "resample": 2,
       "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": MEAN, "image_std": STD}
CLIP = {"feature_extractor_type": "CLIPFeatureExtractor", "do_resize": True, "size": 30, "resample": 3, "do_center_crop": True,
        "crop_size": 24, "do_normalize": True, "image_mean": MEAN, "image_std": STD}
CONVNEXT = {"image_processor_type": "ConvNextImageProcessor", "do_resize": True, "size": {"shortest_edge": 28}, "crop_pct": 0.875,
            "resample": 3, "do_normalize": False, "do_rescale": True}
MOBILEVIT = {"image_processor_type": "MobileViTImageProcessor", "do_resize": True, "size": {"shortest_edge": 32}, "resample": 2,
             "do_center_crop": True, "crop_size": {"height": 28, "width": 28}, "do_flip_channel_order": True, "do_normalize": False}


def made_ready(image, size=None, short=None, crop=None, resample=2, mean=(0, 0, 0), std=(1, 1, 1), flip=False):
    if short:
        w, h = image.size
        size = (short, int(short * h / w)) if w <= h else (int(short * w / h), short)
    image = image.resize(size, resample)
    if crop:
        left, top = (image.size[0] - crop) // 2, (image.size[1] - crop) // 2
        image = image.crop((left, top, left + crop, top + crop))
    values = (np.asarray(image, np.float32) / 255 - np.float32(mean)) / np.float32(std)
    return (values[..., ::-1] if flip else values).transpose(2, 0, 1)[None]


class FilesBeside(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-beside-"))
        self.addCleanup(shutil.rmtree, self.dir)
        (self.dir / "onnx").mkdir()
        self.model = models.save(self.dir / "onnx/model.onnx", [models.node("Relu", ["x"], ["r"]), models.node("Neg", ["x"], ["n"]),
                                                               models.node("Relu", ["n"], ["m"]), models.node("Sub", ["r", "m"], ["y"])],
                                 [("x", [1, 3, "h", "w"])], [("y", [1, 3, "h", "w"])])

    def pictures(self, times=1):
        (self.dir / "images").mkdir()
        random = np.random.default_rng(4)
        pictures = [Image.fromarray(random.integers(0, 256, shape, np.uint8)) for shape in ((40, 50, 3), (61, 37, 3)) * times]
        for i, picture in enumerate(pictures):
            picture.save(self.dir / f"images/{i}.png")
        return pictures

    def run_it(self, *flags, data="images", code=0):
        done = models.seqto("run", self.model, "--data", self.dir / data, "-o", self.dir / "out.npz", *flags,
                            env={"SEQTO_PYTHON": PYTHON})
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr, np.load(self.dir / "out.npz")["y"] if code == 0 else None

    def test_image_processors(self):
        pictures = self.pictures()
        cases = ((VIT, {"size": (24, 20), "mean": MEAN, "std": STD}),
                 (CLIP, {"short": 30, "crop": 24, "resample": 3, "mean": MEAN, "std": STD}),
                 (CONVNEXT, {"short": 32, "crop": 28, "resample": 3}),
                 (MOBILEVIT, {"short": 32, "crop": 28, "flip": True}))
        for config, recipe in cases:
            for folder in (self.dir, self.dir / "onnx"):
                with self.subTest(config=config, folder=folder.name):
                    file = folder / "preprocessor_config.json"
                    file.write_text(json.dumps(config))
                    said, found = self.run_it()
                    self.assertIn(f"preprocessing: {file}", said)
                    np.testing.assert_allclose(found, np.concatenate([made_ready(p, **recipe) for p in pictures]), atol=2e-6)
                    file.unlink()

    def test_those_of_the_original_are_all_models_of_a_bench(self):
        self.pictures()
        models.save(self.model, [models.node("Relu", ["x"], ["y"])], [("x", [1, 3, 20, 24])], [("y", [1, 3, 20, 24])])
        (self.dir / "preprocessor_config.json").write_text(json.dumps(VIT))
        (self.dir / "elsewhere").mkdir()
        shutil.copy(self.model, self.dir / "elsewhere/copy.onnx")
        done = models.seqto("bench", self.model, self.dir / "elsewhere/copy.onnx", "--data", self.dir / "images", "--launches", "1",
                            "--rounds", "2")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_tune_writes_is_read_as_the_model_is(self):
        self.pictures(times=10)
        models.save(self.model, [models.node("Conv", ["x", "w"], ["c"], strides=[4, 4]), models.node("ReduceMean", ["c"], ["m"], axes=[2, 3]),
                                 models.node("Softmax", ["m"], ["y"])],
                    [("x", [1, 3, "h", "w"])], [("y", [1, "classes"])], [("w", models.weight(8, 3, 5, 5))])
        (self.dir / "preprocessor_config.json").write_text(json.dumps(VIT))
        (self.dir / "config.json").write_text(json.dumps({"problem_type": "regression"}))
        for i, flags in enumerate(((), ("--prepare-models",))):
            with self.subTest(flags=flags):
                study = self.dir / f"study{i}"
                # The model's path has no folder: what lies beside it is found all the same.
                done = subprocess.run([models.BINARY, "tune", self.model.name, "--data", self.dir / "images", "-o", study, *flags],
                                      cwd=self.model.parent, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("task: regress (config.json says regression)", done.stderr)
                done = models.seqto("run", study / "models/selected.onnx", "--data", self.dir / "images", "-o", self.dir / "out.npz")
                self.assertIn(f"preprocessing: {study / 'models/preprocessor_config.json'}", done.stderr)
                self.assertEqual(json.loads((study / "models/config.json").read_text()), {"problem_type": "regression"})

    def test_a_flag_goes_before_it(self):
        pictures = self.pictures()
        (self.dir / "preprocessor_config.json").write_text(json.dumps(VIT))
        own = self.dir / "own.json"
        own.write_text(json.dumps({"resize": {"width": 8, "height": 8}, "scale": 1}))
        said, found = self.run_it("--preprocess", own)
        self.assertNotIn("preprocessing:", said)
        np.testing.assert_array_equal(found, np.concatenate([255 * made_ready(p, size=(8, 8)) for p in pictures]).round())

    def test_steps_that_are_no_recipe(self):
        self.pictures()
        file = self.dir / "preprocessor_config.json"
        short = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 8}}
        for change, key in (({"do_pad": True}, "do_pad"), (short, "do_center_crop"), ({"size": {"shortest_edge": 8, "longest_edge": 16}}, "size"),
                            ({"keep_aspect_ratio": True}, "keep_aspect_ratio"), ({"resample": -1}, "resample"),
                            ({"crop_size": {"height": 8, "width": 9}, "do_center_crop": True}, "crop_size"),
                            ({"image_std": [0, 1, 1]}, "image_std"), ({"image_mean": "x"}, "image_mean"), ({"size": []}, "size")):
            with self.subTest(change=change):
                file.write_text(json.dumps(VIT | change))
                said, _ = self.run_it(code=3)
                self.assertIn(f'"{key}"', said)
                self.assertIn("--preprocess none takes the files as they are", said)
                said, _ = self.run_it("--preprocess", file, code=3)
                self.assertIn(f'"{key}"', said)
        file.write_text(json.dumps(VIT | {"do_convert_annotations": True}))
        self.run_it()  # boxes of labels, no pixels
        file.write_text(json.dumps({key: value for key, value in VIT.items() if key != "resample"}))
        self.assertIn('"resample": nothing found', self.run_it("--preprocess", file, code=3)[0])

    @unittest.skipIf(subprocess.run([PYTHON, "-c", "import tokenizers"], stderr=subprocess.DEVNULL).returncode,
                     "the package tokenizers is not there")
    def test_a_tokenizer(self):
        models.save(self.model, [models.node("Gather", ["table", "input_ids"], ["y"])], [("input_ids", [1, "n"], TensorProto.INT64)],
                    [("y", [1, "n", 4])], [("table", models.weight(9, 4))])
        (self.dir / "texts").mkdir()
        (self.dir / "texts/a.txt").write_text("w1 w2 w8 w3")
        said, _ = self.run_it(data="texts", code=3)
        self.assertIn("tokenizer.json beside the model expected", said)
        file = self.dir / "tokenizer.json"
        file.write_text(json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None, "post_processor": None,
            "model": {"type": "WordLevel", "unk_token": "w0", "vocab": {f"w{i}": i for i in range(9)}}}))
        said, found = self.run_it(data="texts")
        self.assertIn(f"tokenizer: {file}", said)
        np.testing.assert_array_equal(found[0], models.weight(9, 4)[[1, 2, 8, 3]])

    def test_sound(self):
        models.save(self.model, [models.node("Identity", ["x"], ["y"])], [("x", [1, 400])], [("y", [1, 400])])
        values = np.random.default_rng(1).integers(-9000, 9000, 400).astype("<i2")
        (self.dir / "sound").mkdir()
        with wave.open(str(self.dir / "sound/a.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(values.tobytes())
        (self.dir / "preprocessor_config.json").write_text(json.dumps(
            {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "do_normalize": True, "sampling_rate": 16000}))
        (self.dir / "sound/a.txt").write_text("what is said")
        (self.dir / "tokenizer.json").write_text("{}")
        if "libsndfile" in (done := models.seqto("run", self.model, "--data", self.dir / "sound", "-o", self.dir / "out.npz")).stderr:
            self.skipTest(done.stderr)
        _, found = self.run_it(data="sound")
        np.testing.assert_allclose(found[0], (values - values.mean()) / values.std(), atol=1e-4)
        said, parts = self.run_it("--window", "400", "--hop", "200", data="sound")
        self.assertIn("preprocessing: ", said)
        np.testing.assert_array_equal(parts[0], found[0])
        _, found = self.run_it("--preprocess", "none", data="sound")
        np.testing.assert_allclose(found[0], values / 32768, atol=1e-6)
        (self.dir / "preprocessor_config.json").write_text(json.dumps({"feature_extractor_type": "EncodecFeatureExtractor"}))
        self.assertIn("the extractor EncodecFeatureExtractor found", self.run_it(data="sound", code=3)[0])
        said, found = self.run_it("--window", "400", data="sound")
        self.assertIn("the extractor EncodecFeatureExtractor found", said)
        np.testing.assert_allclose(found[0], values / 32768, atol=1e-6)


if __name__ == "__main__":
    unit.main()
