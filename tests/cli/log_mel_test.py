"""Whisper's log-mel energies of sound files, held against the definition in numpy, and its own extractor where that is there."""
import pathlib
import sys
import tempfile
import unittest
import wave

import numpy as np
from onnx import helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

RATE, SECONDS, FRAMES = 16000, 5, 300


def mel_bands(count):
    """Slaney's mel scale: triangles of unit area, [201, count]."""
    def hertz(mel): return np.where(mel < 15, 200 / 3 * mel, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
    corners = hertz(np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), count + 2))
    bins = np.linspace(0, 8000, 201)[:, None]
    up = (bins - corners[:-2]) / (corners[1:-1] - corners[:-2])
    down = (corners[2:] - bins) / (corners[2:] - corners[1:-1])
    return np.maximum(0, np.minimum(up, down)) * 2 / (corners[2:] - corners[:-2])


def log_mel(sound, bands):
    padded = np.pad(sound.astype(np.float64), 200, mode="reflect")
    frames = np.stack([padded[i * 160:i * 160 + 400] for i in range(len(sound) // 160)])
    power = np.abs(np.fft.rfft(frames * np.hanning(401)[:-1])) ** 2
    logs = np.log10(np.maximum(power @ mel_bands(bands), 1e-10))
    return ((np.maximum(logs, logs.max() - 8) + 4) / 4).T


def save_wave(path, sound, rate=RATE, channels=1):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels), file.setsampwidth(2), file.setframerate(rate)
        file.writeframes(np.round(sound * 32767).astype("<i2").tobytes())


class LogMel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        rng = np.random.default_rng(0)
        time = np.arange(RATE * SECONDS) / RATE
        sweep = 0.4 * np.sin(2 * np.pi * (100 + 700 * time) * time) * np.abs(np.sin(3 * time)) + 0.01 * rng.normal(size=len(time))
        cls.sound = np.round(sweep * 32767).astype(np.float32) / 32768
        save_wave(cls.dir / "sound.wav", sweep)

    def model(self, bands, frames):
        return models.save(self.dir / "model.onnx", [helper.make_node("Identity", ["mel"], ["out"])],
                           [("mel", ["batch", bands, frames])], [("out", ["batch", bands, frames])])

    def run_on(self, model, *flags, file="sound.wav"):
        return models.seqto("run", model, "--data", self.dir / file, *flags, "-o", self.dir / "out.npz")

    def windows(self, bands, frames, *flags):
        done = self.run_on(self.model(bands, frames), "--log-mel", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(self.dir / "out.npz")["out"]

    def test_windows_are_what_the_definition_gives(self):
        found = self.windows(80, FRAMES)
        self.assertEqual(found.shape, (1, 80, FRAMES))  # what is left is no whole window
        np.testing.assert_allclose(found[0], log_mel(self.sound[:FRAMES * 160], 80), atol=2e-4)
        found = self.windows(128, "frames", "--window", 32000, "--hop", 16000)
        self.assertEqual(found.shape, (4, 128, 200))
        np.testing.assert_allclose(found[3], log_mel(self.sound[48000:80000], 128), atol=2e-4)

    def test_thirty_seconds_where_the_model_leaves_it_open(self):
        found = self.windows(80, "frames")
        padded = np.zeros(480000, np.float32)
        padded[:len(self.sound)] = self.sound
        np.testing.assert_allclose(found[0], log_mel(padded, 80), atol=2e-4)
        try:
            from transformers import WhisperFeatureExtractor
        except ImportError:
            self.skipTest("the package transformers is not there: its extractor was not compared")
        wanted = WhisperFeatureExtractor(feature_size=80)(self.sound, sampling_rate=RATE, return_tensors="np")
        np.testing.assert_allclose(found[0], wanted.input_features[0], atol=2e-4)

    def test_what_does_not_fit_is_said(self):
        save_wave(self.dir / "slow.wav", self.sound, rate=8000)
        save_wave(self.dir / "both.wav", self.sound, channels=2)
        model = self.model(80, FRAMES)
        for flags, file, code, words in [
                (("--log-mel",), "slow.wav", 3, "a sample rate of 8000 Hz found; 16000 Hz expected"),
                (("--log-mel",), "both.wav", 3, "one channel expected"),
                (("--log-mel", "--window", "500"), "sound.wav", 2, "a multiple of 160"),
                (("--log-mel", "--window", "32000"), "sound.wav", 3, "200 frames"),
                ((), "sound.wav", 3, "--log-mel")]:
            with self.subTest(flags=flags, file=file):
                done = self.run_on(model, *flags, file=file)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(words, done.stderr)
        flat = models.save(self.dir / "flat.onnx", [helper.make_node("Identity", ["x"], ["out"])], [("x", ["batch", 400])],
                           [("out", ["batch", 400])])
        done = self.run_on(flat, "--log-mel")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("[batch, bands, frames]", done.stderr)


if __name__ == "__main__":
    unit.main()
