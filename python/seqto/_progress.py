"""Progress bars of tqdm, or a function of the caller's own."""
from __future__ import annotations

import typing


class Bars:
    """A bar for each verb, one after the other."""

    def __init__(self, make: typing.Any) -> None:
        self._make, self._bar, self._verb = make, None, ""

    _bar: typing.Any

    def __call__(self, verb: str, done: int, total: int, note: str) -> None:
        if self._bar is None or verb != self._verb:
            self.close()
            self._bar, self._verb = self._make(desc=verb, total=total or None), verb
        self._bar.total, self._bar.n = total or None, done
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def told(progress: typing.Any) -> typing.Any:
    """What `progress=` means: nobody, tqdm's bars (True, or a class of tqdm's), or a function."""
    if progress is None or progress is False:
        return None
    if progress is True:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ModuleNotFoundError:
            raise TypeError("progress=True needs the package tqdm; install it, or give a function of verb, done, total and "
                            "a note") from None
        return Bars(tqdm)
    return Bars(progress) if isinstance(progress, type) and hasattr(progress, "refresh") else progress
