"""A small voice that speaks made-up words: one sound a letter, by formants over pulses and by shaped noise.

    python voice.py OUT_FOLDER --count 64 --seed 1      writes 16-bit WAV files at 16 kHz and said.csv (file,transcript)

needs: pip install numpy. Files of the same seed are the same. Their words are held out: train.py never says them.
"""
import argparse
import csv
import wave
import zlib
from pathlib import Path

import numpy as np

RATE, STEP, SPAN = 16000, 80, 512  # the filter changes each 5 ms and is 32 ms long
LONGEST = 8                        # letters of a word
FREQUENCY = np.fft.rfftfreq(SPAN, 1 / RATE)
WINDOW = np.hanning(SPAN + 1)[:-1]

# Three formants (Hz), loudness of the pulses, loudness of the noise, its centre and its width (Hz).
SOUNDS = {
    "a": (750, 1250, 2500, 1.0, 0, 0, 1), "e": (500, 1850, 2500, 0.9, 0, 0, 1), "i": (290, 2300, 3000, 0.8, 0, 0, 1),
    "o": (480, 850, 2450, 0.9, 0, 0, 1), "u": (310, 700, 2250, 0.8, 0, 0, 1),
    "m": (250, 1000, 2200, 0.35, 0, 0, 1), "n": (250, 1600, 2600, 0.35, 0, 0, 1),
    "l": (360, 1200, 2900, 0.5, 0, 0, 1), "r": (400, 1200, 1600, 0.5, 0, 0, 1),
    "w": (280, 620, 2200, 0.4, 0, 0, 1), "y": (250, 2500, 3300, 0.4, 0, 0, 1),
    "f": (350, 1100, 2300, 0, 0.25, 5000, 3500), "s": (350, 1700, 2600, 0, 0.7, 6300, 1000),
    "c": (350, 1900, 2600, 0, 0.7, 3200, 700), "h": (500, 1500, 2500, 0, 0.2, 1500, 900),
    "v": (300, 1100, 2300, 0.25, 0.12, 5000, 3500), "z": (300, 1700, 2600, 0.25, 0.35, 6300, 1000),
    "p": (300, 800, 2200, 0, 0.6, 800, 500), "t": (300, 1800, 2700, 0, 0.8, 4600, 900),
    "k": (300, 2000, 2300, 0, 0.8, 2100, 450), "b": (250, 800, 2200, 0.12, 0.35, 800, 500),
    "d": (250, 1800, 2700, 0.12, 0.4, 4600, 900), "g": (250, 2000, 2300, 0.12, 0.4, 2100, 450),
}
VOWELS, STOPS, ENDS = "aeiou", "ptkbdg", "mnlrsfk"
CONSONANTS = "".join(letter for letter in SOUNDS if letter not in VOWELS)
LETTERS = "".join(sorted(SOUNDS))


def is_held_out(word):
    return zlib.crc32(word.encode()) % 10 == 0


def draw_word(rng, held_out):
    """Two to four syllables, three to LONGEST letters."""
    while True:
        word = ""
        for i in range(rng.integers(2, 5)):
            word += "" if i == 0 and rng.random() < 0.2 else rng.choice(list(CONSONANTS))
            word += rng.choice(list(VOWELS))
            word += rng.choice(list(ENDS)) if rng.random() < 0.25 else ""
        if len(word) <= LONGEST and is_held_out(word) == held_out:
            return word


def tracks(word, rng):
    """One row of SOUNDS for each 5 ms, smoothed at the borders: the formants glide as those of a mouth."""
    seconds_a_letter = rng.uniform(0.07, 0.115)
    rows = [(500, 1500, 2500, 0, 0, 3000, 1000)] * rng.integers(4, 12)
    for letter in word:
        sound, count = SOUNDS[letter], int(seconds_a_letter * rng.uniform(0.85, 1.07) * RATE / STEP)
        if letter in STOPS:
            burst = count // 3
            rows += [sound[:4] + (0,) + sound[5:]] * (count - burst) + [sound] * burst
        else:
            rows += [sound] * count
    rows += [(500, 1500, 2500, 0, 0, 3000, 1000)] * rng.integers(6, 12)
    rows = np.array(rows, float)
    smooth = np.stack([np.convolve(np.pad(column, 4, mode="edge"), np.hanning(11)[1:-1] / 5, "valid") for column in rows.T], 1)
    smooth[:, 4:] = rows[:, 4:]  # a burst begins at once
    return smooth


def pulses(count, rng):
    """A pulse for each opening of the vocal folds; the pitch falls towards the end."""
    pitch = rng.uniform(90, 230) * np.linspace(1, rng.uniform(0.75, 1), count)
    pitch *= 1 + 0.03 * np.sin(2 * np.pi * rng.uniform(3, 6) * np.arange(count) / RATE)
    return np.diff(np.floor(np.cumsum(pitch / RATE)), prepend=0) / np.sqrt(pitch / RATE)


def filtered(source, response):
    """The source through a filter that is another one each step."""
    padded = np.pad(source, SPAN // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, SPAN)[::STEP][:len(response)]
    parts = np.fft.irfft(np.fft.rfft(frames * WINDOW) * response) * WINDOW
    out = np.zeros(len(padded) + SPAN)
    for i, part in enumerate(parts):
        out[i * STEP:i * STEP + SPAN] += part
    return out[SPAN // 2:SPAN // 2 + len(source)] / (0.375 * SPAN / STEP)


def speak(word, rng):
    """Samples at 16 kHz, -1 to 1, by a speaker drawn by `rng`: at most 1.28 s."""
    rows = tracks(word, rng)
    count = len(rows) * STEP
    mouth = rng.uniform(0.9, 1.15)  # shorter ones have higher formants
    voiced = 1 / (1 + (FREQUENCY / 900) ** 2) ** 0.5 * np.ones((len(rows), 1))
    for formant, bandwidth in zip(rows.T[:3], (90, 120, 180)):
        peak = (formant * mouth * rng.uniform(0.97, 1.03))[:, None]
        voiced = voiced * peak ** 2 / np.hypot(FREQUENCY ** 2 - peak ** 2, FREQUENCY * bandwidth)
    centre, width = (rows[:, i, None] * mouth ** 0.5 for i in (5, 6))
    noise = np.exp(-0.5 * ((FREQUENCY - centre) / width) ** 2)
    sound = filtered(pulses(count, rng), voiced * rows[:, 3, None])
    sound += filtered(rng.normal(0, 1, count), noise * rows[:, 4, None])
    sound /= np.abs(sound).max()
    room = np.convolve(rng.normal(0, 1, count), [1, 0.6, 0.3], "same")
    sound += 10 ** rng.uniform(-2.2, -1.15) * room
    return np.clip(sound * rng.uniform(0.15, 0.6), -1, 1)


def as_int16(sound):
    return np.round(sound * 32767).astype("<i2")


def main():
    parser = argparse.ArgumentParser(description="Writes WAV files of made-up words, and said.csv.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(args.count):
        rng = np.random.default_rng([args.seed, i])
        word = draw_word(rng, held_out=True)
        rows.append((f"{i:04}.wav", word))
        with wave.open(str(args.out / rows[-1][0]), "wb") as file:
            file.setnchannels(1), file.setsampwidth(2), file.setframerate(RATE)
            file.writeframes(as_int16(speak(word, rng)).tobytes())
    with open(args.out / "said.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("file", "transcript"), *rows])


if __name__ == "__main__":
    main()
