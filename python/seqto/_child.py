"""`seqto eval DIR -` as a child process: a proposal a line in, a result a line out."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from ._runtime import worker

SAID_BYTES = 2000  # of what it said at last, for whoever asks why it ended


class ChildError(Exception):
    """It ended, or gave a proposal back unmeasured."""


def command() -> list[str]:
    program = os.environ.get("SEQTO_WORKER") or worker()
    return [program] if program else [sys.executable, "-m", "seqto"]


class Child:
    def __init__(self, words: list[str]):
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)
        self.pid = self._process.pid
        self._answer("ready")

    def evaluate(self, proposal: str) -> str:
        assert self._process.stdin
        try:
            self._process.stdin.write(proposal.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildError(self._how_it_ended()) from None
        return self._answer("trial")

    def close(self) -> None:
        """Waits until it has ended."""
        self._process.communicate()
        self._said.close()

    def _answer(self, key: str) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline().decode()
        if not line.endswith("\n"):
            raise ChildError(self._how_it_ended())
        answer = json.loads(line)
        if key not in answer:
            raise ChildError(answer.get("error", f"{key!r} expected, found: {line[:100]!r}"))
        return line.rstrip("\n")

    def _how_it_ended(self) -> str:
        self._process.communicate()
        self._said.seek(max(0, os.fstat(self._said.fileno()).st_size - SAID_BYTES))
        said = self._said.read().decode(errors="replace").strip()
        return f"the evaluator ended with {self._process.returncode}" + (f": {said}" if said else "")
