"""Inputs as onnxruntime's calibrators want them."""

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
