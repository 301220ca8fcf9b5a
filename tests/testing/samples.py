"""Inputs as onnxruntime's calibrators want them, and the interval of a mean over samples."""

import numpy as np
from onnxruntime.quantization import CalibrationDataReader


class Samples(CalibrationDataReader):
    """`inputs`: one dict of arrays a sample."""

    def __init__(self, inputs):
        self.inputs = inputs
        self.rewind()

    def rewind(self):
        self.rest = iter(self.inputs)

    def get_next(self):
        return next(self.rest, None)


def bootstrapped(values):
    """The 95 % interval of the mean, of so many resamples that two of them differ by a hundredth of a standard error."""
    means = np.random.default_rng(0).choice(values, (50_000, len(values))).mean(1)
    return np.quantile(means, (0.025, 0.975))
