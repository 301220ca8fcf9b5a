"""onnxruntime's calibrators: readers of samples, and the ranges that they give."""
from __future__ import annotations

import abc
import os
import typing
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path

from ... import _core

if typing.TYPE_CHECKING:
    import numpy as np


class CalibrationMethod(Enum):
    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3


class CalibrationDataReader(metaclass=abc.ABCMeta):
    """Gives samples one after the other: a dict of arrays for each run of the model, None at the end."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> typing.Any:
        return callable(getattr(subclass, "get_next", None)) or NotImplemented

    @abc.abstractmethod
    def get_next(self) -> dict[str, typing.Any] | None:
        raise NotImplementedError

    def __iter__(self) -> typing.Self:
        return self

    def __next__(self) -> dict[str, typing.Any]:
        result = self.get_next()
        if result is None:
            raise StopIteration
        return result

    def __len__(self) -> int:
        raise NotImplementedError

    def set_range(self, start_index: int, end_index: int) -> None:
        raise NotImplementedError


class TensorData:
    """The range of one tensor."""

    def __init__(self, **kwargs: typing.Any) -> None:
        for name, value in kwargs.items():
            if name not in ("avg", "std", "lowest", "highest", "hist", "hist_edges", "bins"):
                raise ValueError(f"Unexpected value {name!r}.")
            setattr(self, name, value)

    lowest: np.ndarray
    highest: np.ndarray

    @property
    def range_value(self) -> tuple[np.ndarray, np.ndarray]:
        return self.lowest, self.highest


class TensorsData:
    """The ranges of all tensors, by name; `ranges` are the same as the library has them."""

    def __init__(self, calibration_method: typing.Any, data: _core.Ranges | typing.Mapping[str, typing.Any]) -> None:
        self.calibration_method = calibration_method
        if not isinstance(data, _core.Ranges):
            ranges = _core.Ranges()
            for name, value in data.items():
                low, high = value if isinstance(value, tuple) else value.range_value
                ranges.set(name, float(low), float(high))
            data = ranges
        self.ranges = data

    @property
    def data(self) -> dict[str, TensorData]:
        return dict(self.items())

    def __iter__(self) -> Iterator[str]:
        return iter(self.ranges)

    def __len__(self) -> int:
        return len(self.ranges)

    def __contains__(self, key: str) -> bool:
        return key in self.ranges

    def __getitem__(self, key: str) -> TensorData:
        import numpy as np

        low, high = self.ranges[key]
        return TensorData(lowest=np.array(low, np.float32), highest=np.array(high, np.float32))

    def __setitem__(self, key: str, value: TensorData) -> None:
        if key not in self.ranges:
            raise RuntimeError(f"Only an existing tensor can be modified, {key!r} is not.")
        self.ranges.set(key, float(value.lowest), float(value.highest))

    def keys(self) -> list[str]:
        return self.ranges.keys()

    def values(self) -> list[TensorData]:
        return [self[key] for key in self.ranges]

    def items(self) -> list[tuple[str, TensorData]]:
        return [(key, self[key]) for key in self.ranges]


_METHODS = {"MinMax": "minmax", "Entropy": "entropy", "Percentile": "percentile", "Distribution": "distribution"}


def save_tensors_data(tensors_data: TensorsData, path: str | Path, *, smooth_quant: bool = False) -> None:
    """Writes ranges as onnxruntime's JSON."""
    if smooth_quant:
        raise ValueError("smooth_quant=True found; ranges of a smoothed model serve no other one")
    tensors_data.ranges.save(path, _METHODS[tensors_data.calibration_method.name])


def load_tensors_data(path: str | Path) -> TensorsData:
    """Reads them."""
    import json

    if not Path(path).exists():
        raise FileNotFoundError(f"Calibration cache not found: {path}")
    if not Path(path).is_file():
        raise ValueError(f"Calibration cache path is not a file: {path}")
    method = json.loads(Path(path).read_text())["calibration_method"]["value"].split(".")[-1]
    return TensorsData(CalibrationMethod[method], _core.Ranges.load(path))


class CalibraterBase:
    """Collects samples, and computes the ranges of the model's tensors from them when it is asked to."""

    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: typing.Any = "augmented_model.onnx",
        symmetric: bool = False,
        use_external_data_format: bool = False,
        per_channel: bool = False,
    ) -> None:
        if per_channel:
            raise ValueError("per_channel=True found; seqto calibrates activations per tensor, as quantize_static does")
        self.model = model_path if isinstance(model_path, _core.Model) else _core.oracle_model(model_path, 0)
        self.op_types = list(op_types_to_calibrate or [])
        self.method: typing.Any = CalibrationMethod.MinMax
        self.options: dict[str, typing.Any] = {"symmetric": symmetric}
        self.execution_providers = ["CPUExecutionProvider"]
        self._batches: list[typing.Any] = []

    def set_execution_providers(self, execution_providers: typing.Any = ["CPUExecutionProvider"]) -> None:  # noqa: B006
        self.execution_providers = execution_providers

    def augment_graph(self) -> None:
        """Nothing: tensors are observed where they are."""

    def create_inference_session(self) -> None:
        """Nothing: the session is made when ranges are computed."""

    def collect_data(self, data_reader: CalibrationDataReader) -> None:
        before = len(self._batches)
        while (batch := data_reader.get_next()) is not None:
            self._batches.append(batch)
        if len(self._batches) == before:
            raise ValueError("No data is collected.")

    def compute_data(self) -> TensorsData:
        if not self._batches:
            raise ValueError("No data is collected.")
        provider = self.execution_providers[0]
        provider = provider[0] if isinstance(provider, tuple) else provider
        device = provider.removesuffix("ExecutionProvider").lower()
        ranges = _core.oracle_ranges(self.model, self._batches, op_types=self.op_types, method=_METHODS[self.method.name],
                                     device=device, threads=len(os.sched_getaffinity(0)), **self.options)
        return TensorsData(self.method, ranges)


class MinMaxCalibrater(CalibraterBase):
    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: typing.Any = "augmented_model.onnx",
        symmetric: bool = False,
        use_external_data_format: bool = False,
        moving_average: bool = False,
        averaging_constant: float = 0.01,
        max_intermediate_outputs: int | None = None,
        per_channel: bool = False,
    ) -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, symmetric, use_external_data_format,
                         per_channel)
        if moving_average and not 0 <= averaging_constant <= 1:
            raise ValueError("Invalid averaging constant, which should not be < 0 or > 1.")
        self._moving_average = moving_average
        if moving_average:
            self.options["moving_average_constant"] = averaging_constant
            if max_intermediate_outputs:
                self.options["chunk_samples"] = max_intermediate_outputs

    def compute_data(self) -> TensorsData:
        if not self._moving_average:
            return super().compute_data()
        method, self.method = self.method, _MovingAverage
        found = super().compute_data()
        self.method = found.calibration_method = method
        return found


class _MovingAverage:
    name = "MovingAverage"


_METHODS["MovingAverage"] = "moving_average"


def create_calibrator(
    model: str | Path,
    op_types_to_calibrate: Sequence[str] | None = None,
    augmented_model_path: typing.Any = "augmented_model.onnx",
    calibrate_method: typing.Any = CalibrationMethod.MinMax,
    use_external_data_format: bool = False,
    providers: typing.Any = None,
    extra_options: typing.Any = {},  # noqa: B006
) -> CalibraterBase:
    """The calibrator of a method, with onnxruntime's defaults."""
    extra = dict(extra_options)
    calibrator: CalibraterBase
    if calibrate_method.name == "MinMax":
        known = ("symmetric", "moving_average", "averaging_constant", "max_intermediate_outputs", "per_channel")
        calibrator = MinMaxCalibrater(model, op_types_to_calibrate, **{k: extra[k] for k in known if extra.get(k) is not None})
    else:
        calibrator = CalibraterBase(model, op_types_to_calibrate)
        entropy, percentile = calibrate_method.name == "Entropy", calibrate_method.name == "Percentile"
        calibrator.options["bins"] = extra.get("num_bins", 128 if entropy else 2048)
        if entropy:
            calibrator.options["quantized_bins"] = extra.get("num_quantized_bins", 128)
        if percentile:
            calibrator.options["percentile"] = extra.get("percentile", 99.999)
        calibrator.options["symmetric"] = extra.get("symmetric", percentile)
        if extra.get("scenario", "same") != "same":
            raise ValueError(f"scenario={extra['scenario']!r} found; seqto has 'same'")
    calibrator.method = calibrate_method
    if providers:
        calibrator.set_execution_providers(providers)
    return calibrator
