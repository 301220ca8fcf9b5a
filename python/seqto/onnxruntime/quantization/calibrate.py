"""onnxruntime's calibrators: readers of samples, and the ranges that they give."""
from __future__ import annotations

import abc
import json
import logging
import os
import tempfile
import typing
from collections.abc import ItemsView, Iterator, KeysView, Sequence, ValuesView
from enum import Enum
from pathlib import Path

from ... import _core

if typing.TYPE_CHECKING:
    import numpy as np

_log = logging.getLogger("seqto")


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
    """What calibration found about one tensor: lowest, highest, and with a histogram hist and hist_edges (or bins)."""

    def __init__(self, **kwargs: typing.Any) -> None:
        self._attrs = list(kwargs)
        for name, value in kwargs.items():
            if name not in ("avg", "std", "lowest", "highest", "hist", "hist_edges", "bins"):
                raise ValueError(f"Unexpected value {name!r}.")
            setattr(self, name, value)

    lowest: np.ndarray
    highest: np.ndarray
    avg: np.ndarray
    std: np.ndarray

    @property
    def range_value(self) -> tuple[np.ndarray, np.ndarray]:
        return self.lowest, self.highest

    @property
    def avg_std(self) -> tuple[np.ndarray, np.ndarray]:
        return self.avg, self.std

    def to_dict(self) -> dict[str, typing.Any]:
        return {**{k: getattr(self, k) for k in self._attrs}, "CLS": "TensorData"}

    @classmethod
    def from_dict(cls, d: typing.Mapping[str, typing.Any]) -> typing.Self:
        import numpy as np

        def value(v: typing.Any) -> typing.Any:
            if isinstance(v, typing.Mapping) and v.get("CLS") == "numpy.array":
                return np.array(v["data"], np.dtype(v["dtype"]))
            return np.array(v, np.float32) if isinstance(v, (int, float)) else v

        return cls(**{k: value(v) for k, v in d.items() if k != "CLS"})


class TensorsData:
    """The ranges of all tensors, by name. `data` may be changed; `ranges` are the same as the library takes them."""

    def __init__(self, calibration_method: typing.Any, data: _core.Ranges | typing.Mapping[str, typing.Any]) -> None:
        self.calibration_method = calibration_method
        if isinstance(data, _core.Ranges):
            shape = {"lowest": (1,), "highest": (1,)} if calibration_method.name == "MinMax" else {}
            data = {name: TensorData(**{k: v.reshape(shape.get(k, v.shape)).copy() for k, v in data.statistics(name).items()})
                    for name in data}
        self.data = {name: _tensor_data(value) for name, value in data.items()}

    @property
    def ranges(self) -> _core.Ranges:
        import numpy as np

        ranges = _core.Ranges()
        for name, value in self.data.items():
            low, high = (np.asarray(v).item() for v in value.range_value)
            ranges.set(name, low, high)
        return ranges

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def __getitem__(self, key: str) -> TensorData:
        return self.data[key]

    def __setitem__(self, key: str, value: TensorData) -> None:
        if key not in self.data:
            raise RuntimeError(f"Only an existing tensor can be modified, {key!r} is not.")
        self.data[key] = value

    def keys(self) -> KeysView[str]:
        return self.data.keys()

    def values(self) -> ValuesView[TensorData]:
        return self.data.values()

    def items(self) -> ItemsView[str, TensorData]:
        return self.data.items()

    def to_dict(self) -> dict[str, typing.Any]:
        return {"CLS": "TensorsData", "data": self.data, "calibration_method": self.calibration_method}

    @classmethod
    def from_dict(cls, d: typing.Mapping[str, typing.Any]) -> typing.Self:
        method = d["calibration_method"]
        if isinstance(method, typing.Mapping):
            method = CalibrationMethod[method["value"].split(".")[-1]]
        return cls(method, {k: TensorData.from_dict(v) for k, v in d["data"].items()})


def _tensor_data(value: typing.Any) -> TensorData:
    """Of a tuple, and of onnxruntime's own, too."""
    if isinstance(value, tuple):
        return TensorData(**dict(zip(("lowest", "highest", "hist", "bins"), value, strict=False)))
    return value if isinstance(value, TensorData) else TensorData.from_dict(value.to_dict())


class CalibrationCacheEncoder(json.JSONEncoder):
    """For json.dumps() of the above."""

    def default(self, o: typing.Any) -> typing.Any:
        import numpy as np

        if isinstance(o, (TensorData, TensorsData)):
            return o.to_dict()
        if isinstance(o, Enum):
            return {"CLS": "CalibrationMethod", "value": str(o)}
        if isinstance(o, np.ndarray):
            return {"data": o.tolist(), "dtype": str(o.dtype), "CLS": "numpy.array"}
        return o.item() if isinstance(o, np.generic) else super().default(o)


_METHODS = {"MinMax": "minmax", "Entropy": "entropy", "Percentile": "percentile", "Distribution": "distribution"}


def save_tensors_data(tensors_data: TensorsData, path: str | Path, *, smooth_quant: bool = False) -> None:
    """Writes ranges as onnxruntime's JSON, whole or not at all; `smooth_quant`: they are those of a smoothed model."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**tensors_data.to_dict(), "smooth_quant": smooth_quant}, cls=CalibrationCacheEncoder)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".calibcache_", delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


def load_tensors_data(path: str | Path) -> TensorsData:
    """Reads them."""
    if not Path(path).exists():
        raise FileNotFoundError(f"Calibration cache not found: {path}")
    if not Path(path).is_file():
        raise ValueError(f"Calibration cache path is not a file: {path}")
    return TensorsData.from_dict(json.loads(Path(path).read_text()))


class CalibraterBase:
    """Collects samples, and computes the ranges of the model's tensors from them when it is asked to. Samples beyond 16 MB
    wait in a temporary file."""

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
        self.op_types = list(op_types_to_calibrate or sorted({layer.op_type for layer in self.model.layers()}))
        self.calibration_method: typing.Any = CalibrationMethod.MinMax
        self.options: dict[str, typing.Any] = {"symmetric": bool(symmetric)}
        self.execution_providers: Sequence[typing.Any] = ["CPUExecutionProvider"]
        self._batches, self._calls = _core.Batches(), list[int]()  # and how many of them each collect_data() brought

    def set_execution_providers(self, execution_providers: typing.Any = ["CPUExecutionProvider"]) -> None:  # noqa: B006
        """The first that the runtime has is taken, else the CPU; one with options is a tuple."""
        self.execution_providers = execution_providers

    def augment_graph(self) -> None:
        """Nothing: tensors are observed where they are."""

    def create_inference_session(self) -> None:
        """Nothing: the session is made when ranges are computed."""

    def clear_collected_data(self) -> None:
        """Nothing: what collect_data() has seen counts, as in onnxruntime, which frees outputs of the model here."""

    def collect_data(self, data_reader: CalibrationDataReader) -> None:
        before = len(self._batches)
        while batch := data_reader.get_next():
            self._batches.append(self.model, batch)
        if len(self._batches) == before:
            raise ValueError("No data is collected.")
        self._calls.append(len(self._batches) - before)

    def compute_data(self) -> TensorsData:
        return self._computed(_METHODS[self.calibration_method.name])

    def _computed(self, method: str) -> TensorsData:
        if not len(self._batches):
            raise ValueError("No data is collected.")
        for provider in self.execution_providers:
            name, options = provider if isinstance(provider, tuple) else (provider, {})
            if name == "CPUExecutionProvider":
                break
            try:
                return self._computed_on(name.removesuffix("ExecutionProvider").lower(), method,
                                         {k: str(v) for k, v in options.items()})
            except _core.Error as error:
                if error.code != _core.Code.unavailable:
                    raise
                _log.warning("%s found in the providers, which does not run here; the next one is taken: %s", name, error)
        return self._computed_on("cpu", method, {})

    def _computed_on(self, device: str, method: str, provider_options: dict[str, str]) -> TensorsData:
        ranges = _core.oracle_ranges(self.model, self._batches, self._calls, op_types=self.op_types, method=method, device=device,
                                     provider_options=provider_options, threads=len(os.sched_getaffinity(0)), **self.options)
        return TensorsData(self.calibration_method, ranges)


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
            self.options["moving_average_constant"] = float(averaging_constant)
        self._found: tuple[int, TensorsData] | None = None  # of so many batches

    def compute_data(self) -> TensorsData:
        if self._found is None or self._found[0] != len(self._batches):
            self._found = (len(self._batches), self._computed("moving_average" if self._moving_average else "minmax"))
        return self._found[1]


class HistogramCalibrater(CalibraterBase):
    """Ranges from histograms; onnxruntime's bins and searches."""

    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: typing.Any = "augmented_model.onnx",
        use_external_data_format: bool = False,
        method: str = "percentile",
        symmetric: bool = False,
        num_bins: int = 128,
        num_quantized_bins: int = 2048,
        percentile: float = 99.999,
        scenario: str = "same",
    ) -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, symmetric)
        if method not in ("entropy", "percentile", "distribution"):
            raise ValueError("Only 'entropy', 'percentile' and 'distribution' methods are supported")
        if scenario != "same":
            raise ValueError(f"scenario={scenario!r} found; seqto has 'same'")
        self.calibration_method = CalibrationMethod[method.capitalize()]
        self.options["bins"] = num_bins
        if method == "entropy":
            self.options["quantized_bins"] = num_quantized_bins
        if method == "percentile":
            self.options["percentile"] = percentile


class EntropyCalibrater(HistogramCalibrater):
    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: typing.Any = "augmented_model.onnx",
        use_external_data_format: bool = False,
        method: str = "entropy",
        symmetric: bool = False,
        num_bins: int = 128,
        num_quantized_bins: int = 128,
    ) -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, use_external_data_format, method, symmetric,
                         num_bins, num_quantized_bins)


class PercentileCalibrater(HistogramCalibrater):
    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: typing.Any = "augmented_model.onnx",
        use_external_data_format: bool = False,
        method: str = "percentile",
        symmetric: bool = False,
        num_bins: int = 2048,
        percentile: float = 99.999,
    ) -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, use_external_data_format, method, symmetric,
                         num_bins, percentile=percentile)


class DistributionCalibrater(HistogramCalibrater):
    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: typing.Any = "augmented_model.onnx",
        use_external_data_format: bool = False,
        method: str = "distribution",
        num_bins: int = 128,
        scenario: str = "same",
    ) -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, use_external_data_format, method,
                         num_bins=num_bins, scenario=scenario)


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
    if calibrate_method.name not in _CALIBRATERS:
        raise ValueError(f"Unsupported calibration method {calibrate_method}")
    kind, defaults = _CALIBRATERS[calibrate_method.name]
    options = {k: extra_options.get(k, v) for k, v in defaults.items()}
    calibrator: CalibraterBase = kind(model, op_types_to_calibrate, augmented_model_path,
                                      use_external_data_format=use_external_data_format, **options)
    if providers:
        calibrator.set_execution_providers(providers)
    return calibrator


_CALIBRATERS: dict[str, tuple[typing.Any, dict[str, typing.Any]]] = {  # with the defaults of their options
    "MinMax": (MinMaxCalibrater, {"symmetric": False, "moving_average": False, "averaging_constant": 0.01,
                                  "max_intermediate_outputs": None, "per_channel": False}),
    "Entropy": (EntropyCalibrater, {"num_bins": 128, "num_quantized_bins": 128, "symmetric": False}),
    "Percentile": (PercentileCalibrater, {"num_bins": 2048, "percentile": 99.999, "symmetric": True}),
    "Distribution": (DistributionCalibrater, {"num_bins": 2048, "scenario": "same"}),
}
