"""Files that travel to other machines by the hash of their content."""
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PIECE = 64 << 20  # bytes in memory at a time, and in one object of a store

Files = tuple[tuple[str, int], ...]  # names below a folder, with bytes


@dataclass(frozen=True)
class Parcel:
    """Files below `root`, as they were when it was packed."""

    root: str
    files: Files
    digest: str

    def is_at_its_root(self) -> bool:
        """Whether this machine has the same there: the sender's own, or one that shares its file system."""
        try:
            return _sizes(self.root, [name for name, _ in self.files]) == self.files and pack(self.root, self.files) == self
        except OSError:
            return False


def pack(root: str | Path, files: Files) -> Parcel:
    digest = hashlib.sha256(json.dumps(files).encode())
    for block in _blocks(root, files):
        digest.update(block)
    return Parcel(str(root), files, digest.hexdigest())


def pack_file(path: Path, beside: Iterable[Path] = ()) -> Parcel:
    """A file, with those that belong to it in folders from its own on."""
    names = [path.name, *sorted(str(other.relative_to(path.parent)) for other in beside)]
    return pack(path.parent, _sizes(path.parent, names))


def pack_folder(path: Path) -> Parcel:
    files = (Path(folder, name) for folder, _, names in os.walk(path, followlinks=True) for name in names)
    return pack(path, _sizes(path, sorted(str(file.relative_to(path)) for file in files if file.is_file())))


def pieces(parcel: Parcel) -> Iterator[bytes]:
    """Its content. Throws OSError where a file has become shorter since."""
    piece = bytearray()
    for block in _blocks(parcel.root, parcel.files):
        piece += block
        if len(piece) >= PIECE:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _sizes(root: str | Path, names: Iterable[str]) -> Files:
    return tuple((name, os.stat(Path(root, name)).st_size) for name in names)


def _blocks(root: str | Path, files: Files) -> Iterator[bytes]:
    for name, left in files:
        with open(Path(root, name), "rb") as file:
            while left > 0:
                block = file.read(min(left, PIECE // 4))
                if not block:
                    raise OSError(f"{file.name} is shorter than it was")
                left -= len(block)
                yield block


class Store:
    """A folder of this machine and user with parcels by their digests, for as long as any process has it open.

    What a killed process leaves, the next one removes when it closes.
    """

    def __init__(self, folder: Path | None = None):
        self.folder = folder or Path(tempfile.gettempdir(), f"seqto-{os.getuid()}")
        self._lock = _open_shared(self.folder)

    def place(self, parcel: Parcel) -> Path:
        return self.folder / parcel.digest

    def has(self, parcel: Parcel) -> bool:
        return self.place(parcel).is_dir()

    def unpack(self, parcel: Parcel, content: Iterable[bytes]) -> None:
        """Whole or not at all, and once: `content` is not read where another process has written it."""
        with open(self.folder / f"{parcel.digest}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.has(parcel):
                return
            with tempfile.TemporaryDirectory(dir=self.folder) as work:
                whole = Path(work, "whole")
                _write(whole, parcel.files, content)
                whole.rename(self.place(parcel))

    def close(self) -> None:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self.folder)
        os.close(self._lock)


def _open_shared(folder: Path) -> int:
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if os.fstat(lock).st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user")
        fcntl.flock(lock, fcntl.LOCK_SH)
        with contextlib.suppress(FileNotFoundError):  # removed in between, by the last one that closed it
            if os.path.samestat(os.fstat(lock), os.stat(folder)):
                return lock
        os.close(lock)


def _write(folder: Path, files: Files, content: Iterable[bytes]) -> None:
    content, rest = iter(content), memoryview(b"")
    folder.mkdir()
    for name, left in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            while left > 0:
                rest = rest or memoryview(next(content))
                written = file.write(rest[:left])
                left, rest = left - written, rest[written:]
