"""What stands where onnxruntime's own quantizers hold their model."""
from __future__ import annotations

import typing
from pathlib import Path

from ... import _core
from .quant_utils import MODEL_SIZE_THRESHOLD


class ONNXModel:
    """A model that can be saved; as an onnx.ModelProto, which needs the package onnx, where it is asked for."""

    def __init__(self, model: typing.Any) -> None:
        self._model = _core.load(model)
        self._proto: typing.Any = None

    @property
    def model(self) -> typing.Any:
        """The onnx.ModelProto, which may be changed."""
        if self._proto is None:
            self._proto = self._model.to_onnx()
        return self._proto

    def graph(self) -> typing.Any:
        return self.model.graph

    def nodes(self) -> typing.Any:
        return self.model.graph.node

    def initializer(self) -> typing.Any:
        return self.model.graph.initializer

    def ir_version(self) -> int:
        return int(self.model.ir_version)

    def opset_import(self) -> typing.Any:
        return self.model.opset_import

    def save_model_to_file(self, output_path: str | Path, use_external_data_format: bool = False) -> None:
        """Writes the file; with `use_external_data_format`, and above 2 GB, weights go to PATH.data."""
        if use_external_data_format and (self._proto is not None or self._model.size_bytes < MODEL_SIZE_THRESHOLD):
            import onnx  # type: ignore[import-not-found, import-untyped, unused-ignore]

            where = Path(output_path)
            where.with_name(where.name + ".data").unlink(missing_ok=True)
            onnx.save_model(self.model, str(where), save_as_external_data=True, location=where.name + ".data")
        else:
            (self._model if self._proto is None else _core.load(self._proto)).save(output_path)
