"""Everything that was decided about one quantized model."""
from __future__ import annotations

import json
import typing

Json: typing.TypeAlias = "dict[str, typing.Any]"


class Encoding:
    """What `seqto quantize --print-encoding` prints, docs/reference/formats.md: parameters of tensors, codes as hashes.
    Encodings are equal where their hashes are; so are the files that are written from them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._values: Json = json.loads(text)

    @property
    def hash(self) -> str:
        """16 hex digits of all the rest."""
        return str(self._values["hash"])

    @property
    def layers(self) -> dict[str, Json]:
        """{layer: {"scheme", fields of its scheme, "deviations"}} of all that are not float."""
        return self._of("layers")

    @property
    def tensors(self) -> dict[str, Json]:
        """{tensor: {"type", "scale", "zero_point", ...}} of static and dynamic layers."""
        return self._of("tensors")

    @property
    def biases(self) -> dict[str, Json]:
        """{tensor: {"type", "dims", "sha256", "scale", "layer"}}."""
        return self._of("biases")

    @property
    def weights(self) -> dict[str, Json]:
        """{tensor: {form: [{"type", "dims", "sha256"}, ...]}} of schemes that only store weights."""
        return self._of("weights")

    @property
    def removed(self) -> list[str]:
        """Relu and Clip that the codes make superfluous."""
        return list(self._values.get("removed", []))

    @property
    def deviations(self) -> list[str]:
        """Ids of docs/reference/compatibility.md."""
        return list(self._values.get("deviations", []))

    @property
    def notes(self) -> list[str]:
        """What was asked for and not done; one sentence each."""
        return list(self._values.get("notes", []))

    def to_json(self) -> str:
        """The text that the command prints."""
        return self._text

    def _of(self, key: str) -> dict[str, Json]:
        return typing.cast("dict[str, Json]", self._values.get(key, {}))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoding) and other.hash == self.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return f"<seqto.Encoding {self.hash}: {len(self.layers)} layers>"
