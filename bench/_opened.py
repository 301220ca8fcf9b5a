"""What the scripts of other tools start from; they run in environments that hold onnx and numpy."""
import numpy as np
import onnx


def opened(given):
    """The model at an opset those tools take, its input's name, the calibration's and the search's samples."""
    data = np.load(given["data"])["x"]
    calibration, search = data[:given["calibration"]], data[given["calibration"]:][:given["samples"]]
    model = onnx.load(given["model"])
    if model.opset_import[0].version < 13:
        model = onnx.version_converter.convert_version(model, 13)
    weights = {i.name for i in model.graph.initializer}
    return model, next(i.name for i in model.graph.input if i.name not in weights), calibration, search
