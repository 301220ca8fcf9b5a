"""Weights that quantizers may disagree about."""
import numpy as np


def awkward(rows, columns, seed):
    """Ties, blocks of zeros, of one sign, of one value."""
    w = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)
    w[:, 0] = np.linspace(-1, 1, rows)
    w[:, 1] = np.round(w[:, 1] * 8) / 8
    w[: rows // 2, 2] = 0
    w[:, 3] = np.abs(w[:, 3]) + 1
    w[:, 4] = -3
    w[::2, 5] = 1.5
    w[1::2, 5] = -1.5
    return w
