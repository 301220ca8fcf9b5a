"""Logarithms of mel energies, as Whisper reads them and `seqto --log-mel` computes them: 112 frames of 80 bands.

needs: pip install numpy
"""
import wave

import numpy as np

FRAMES, BANDS = 112, 80


def mel_bands():
    """Slaney's mel scale: triangles of unit area, [201, 80]."""
    def hertz(mel):
        return np.where(mel < 15, 200 / 3 * mel, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
    corners = hertz(np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), BANDS + 2))
    bins = np.linspace(0, 8000, 201)[:, None]
    up = (bins - corners[:-2]) / (corners[1:-1] - corners[:-2])
    down = (corners[2:] - bins) / (corners[2:] - corners[1:-1])
    return np.maximum(0, np.minimum(up, down)) * 2 / (corners[2:] - corners[:-2])


MEL = mel_bands()


def log_mel(sound):
    """As Whisper and `seqto --log-mel`: [80, FRAMES] of a sound that zeros fill up."""
    padded = np.pad(np.pad(sound, (0, FRAMES * 160 - len(sound))), 200, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 400)[::160][:FRAMES]
    power = np.abs(np.fft.rfft(frames * np.hanning(401)[:-1])) ** 2
    logs = np.log10(np.maximum(power @ MEL, 1e-10))
    return ((np.maximum(logs, logs.max() - 8) + 4) / 4).T.astype(np.float32)


def features(path):
    """Of a WAV file of 16 bits at 16 kHz."""
    with wave.open(str(path)) as file:
        return log_mel(np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768)
