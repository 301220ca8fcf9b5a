"""The one exception of the package."""
from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from ._core import Code


class Error(RuntimeError):
    """What the caller or the world did wrong. The text reads "[verb] what was found; what was expected; what to do"."""

    code: Code  #: what kind of trouble; its value is the command's exit code
