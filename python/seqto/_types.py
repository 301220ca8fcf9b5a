"""What may stand for a model and for data; parts of the caller's own."""
from __future__ import annotations

import os
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence

if typing.TYPE_CHECKING:
    from ._core import Model, Plan, SearchSpace, Trial


class ModelProto(typing.Protocol):
    """An onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


class Array(typing.Protocol):
    """A numpy array, a torch tensor, and what else numpy makes an array of."""

    def __array__(self) -> typing.Any: ...


class DataReader(typing.Protocol):
    """onnxruntime's CalibrationDataReader."""

    def get_next(self) -> Mapping[str, typing.Any] | None: ...


class Samples(typing.Protocol):
    """A torch Dataset, and what else has a length and samples: an array, a dict or a tuple of arrays each, and a label."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> typing.Any: ...


class Proposer(typing.Protocol):
    """An own strategy. A class attribute `name` is what the study calls it, else the name of the class."""

    def ask(self, space: SearchSpace, /) -> Iterable[Plan]:
        """Plans to be measured side by side; none: the search is over."""

    def tell(self, plan: Plan, trial: Trial, /) -> object:
        """What became of each, in the order asked, before the next ask()."""


# From inputs by name to outputs, by name or in the model's order. It takes as long as the call takes, or as its attribute
# latency_ns says behind the call.
Run: typing.TypeAlias = "Callable[[dict[str, typing.Any]], Mapping[str, typing.Any] | Sequence[typing.Any]]"
Device: typing.TypeAlias = "Callable[[Model], Run]"
# Of the outputs by name, the samples along the first axis, and of what the data say is right: labels (int64; -1: not
# known), or the numbers to predict (float32), or None. Gives a number, or one for each sample, whose mean it then is,
# with an interval. Higher is better.
MetricFunction: typing.TypeAlias = "Callable[[dict[str, typing.Any], typing.Any], typing.Any]"
ModelLike: typing.TypeAlias = "Model | str | os.PathLike[str] | bytes | ModelProto"
DataLike: typing.TypeAlias = "str | os.PathLike[str] | Array | Mapping[str, typing.Any] | Samples | Iterable[typing.Any] | DataReader"
# A function of verb, done, total and a note; True or a class of tqdm's: bars.
ProgressLike: typing.TypeAlias = "Callable[[str, int, int, str], object] | type[typing.Any] | bool"
