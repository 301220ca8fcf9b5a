"""What may stand for a model and for data."""
from __future__ import annotations

import os
import typing
from collections.abc import Callable, Iterable, Mapping

if typing.TYPE_CHECKING:
    from ._core import Model


class ModelProto(typing.Protocol):
    """An onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


class Array(typing.Protocol):
    """A numpy array, a torch tensor, and what else numpy makes an array of."""

    def __array__(self) -> typing.Any: ...


class DataReader(typing.Protocol):
    """onnxruntime's CalibrationDataReader."""

    def get_next(self) -> Mapping[str, typing.Any] | None: ...


ModelLike: typing.TypeAlias = "Model | str | os.PathLike[str] | bytes | ModelProto"
DataLike: typing.TypeAlias = "str | os.PathLike[str] | Array | Mapping[str, typing.Any] | Iterable[typing.Any] | DataReader"
# A function of verb, done, total and a note; True or a class of tqdm's: bars.
ProgressLike: typing.TypeAlias = "Callable[[str, int, int, str], object] | type[typing.Any] | bool"
