"""Draws pictures of discs, squares and triangles, and what is in them: a data set in YOLO's form.

    python shapes.py FOLDER [--count 300] [--seed 0]

writes FOLDER/images/*.png and FOLDER/labels/*.txt. needs: pip install numpy pillow
"""
import argparse
from pathlib import Path

import numpy as np

SIDE, NAMES, MOST = 96, ("disc", "square", "triangle"), 4


def inside(kind, x, y, half):
    """Of pixels at x, y from the middle."""
    if kind == 0:
        return x * x + y * y <= half * half
    if kind == 1:
        return (np.abs(x) <= half) & (np.abs(y) <= half)
    return (y <= half) & (y >= -half) & (np.abs(x) <= (y + half) / 2)


def draw(rng):
    """A picture, [SIDE, SIDE, 3] in bytes, and its objects: class, middle x and y, width, height in pixels."""
    yy, xx = np.mgrid[:SIDE, :SIDE] + 0.5
    ground = rng.uniform(0, 255, 3)[None, None] + rng.normal(0, 25, 3) * (xx / SIDE - 0.5)[..., None]
    picture, objects = ground + rng.normal(0, rng.uniform(2, 18), (SIDE, SIDE, 3)), []
    for _ in range(rng.integers(1, MOST + 1)):
        half = np.exp(rng.uniform(np.log(5), np.log(26)))
        x, y = rng.uniform(half, SIDE - half, 2)
        if any(abs(x - o[1]) < (half + o[3] / 2) * 0.8 and abs(y - o[2]) < (half + o[4] / 2) * 0.8 for o in objects):
            continue
        kind = int(rng.integers(3))
        colour = rng.uniform(0, 255, 3)
        if np.abs(colour - ground[int(y), int(x)]).sum() < 120:
            continue
        picture = np.where(inside(kind, xx - x, yy - y, half)[..., None], colour + rng.normal(0, 8, (SIDE, SIDE, 3)), picture)
        objects.append((kind, x, y, 2 * half, 2 * half))
    return np.clip(picture, 0, 255).astype(np.uint8), objects


def main():
    from PIL import Image
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for name in ("images", "labels"):
        (asked.folder / name).mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(asked.seed)
    for i in range(asked.count):
        picture, objects = draw(rng)
        Image.fromarray(picture).save(asked.folder / "images" / f"{i:04}.png")
        lines = [f"{kind} " + " ".join(f"{v / SIDE:.6f}" for v in box) for kind, *box in objects]
        (asked.folder / "labels" / f"{i:04}.txt").write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
