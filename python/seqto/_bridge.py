"""Many evaluators behind the lines of one: proposals in, results out in any order, and how many are ready."""
from __future__ import annotations

import json
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

TRIES = 3  # of a candidate, and starts in a row that fail
POLL_SECONDS = 1.0


class Evaluator(Protocol):
    """Somewhere; one call at a time. What a future throws means that it is gone."""

    def start(self) -> Future[list[str]]:
        """What it has to be sent first; nothing: it is ready."""

    def evaluate(self, proposal: str) -> Future[str]: ...

    def end(self) -> None:
        """Nobody will call it again."""


class Pool(Protocol):
    def room(self) -> int:
        """For how many evaluators."""

    def make(self) -> Evaluator: ...

    def send(self, missing: list[str]) -> None:
        """To all evaluators that start from now on."""


class PoolError(Exception):
    """No evaluator can be had."""


@dataclass(eq=False)
class _Task:
    proposal: str
    failures: list[str] = field(default_factory=list)


@dataclass(eq=False)
class _Slot:
    evaluator: Evaluator
    ready: bool = False
    task: _Task | None = None


class Bridge:
    def __init__(self, pool: Pool, write: Callable[[str], None], log: Callable[[str], None]):
        self._pool, self._write, self._log = pool, write, log
        # Of a slot, its future; of none, a line, or None after the last.
        self._events: queue.SimpleQueue[tuple[_Slot | None, Any]] = queue.SimpleQueue()
        self._slots: set[_Slot] = set()
        self._idle: deque[_Slot] = deque()
        self._tasks: deque[_Task] = deque()
        self._failed_starts = 0
        self._next_look = 0.0

    def run(self, lines: Iterable[str], abandoned: Callable[[], bool] = lambda: False) -> None:
        """Until all of `lines` have their results. Throws PoolError."""
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()
        more = True
        while more or self._tasks or any(slot.task for slot in self._slots):
            if time.monotonic() >= self._next_look:
                self._fill()
                if not more and abandoned():
                    return
            try:
                slot, event = self._events.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            if slot is None and event is None:
                more = False
            elif slot is None:
                self._tasks.append(_Task(event))
            elif slot in self._slots:
                self._take(slot, event)
            self._assign()

    def end(self) -> None:
        for slot in self._slots:
            slot.evaluator.end()

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            if line.strip():
                self._events.put((None, line.rstrip("\n")))
        self._events.put((None, None))

    def _fill(self) -> None:
        self._next_look = time.monotonic() + POLL_SECONDS
        for _ in range(self._pool.room() - len(self._slots)):
            slot = _Slot(self._pool.make())
            self._slots.add(slot)
            self._watch(slot, slot.evaluator.start())

    def _watch(self, slot: _Slot, future: Future[list[str]] | Future[str]) -> None:
        future.add_done_callback(lambda done: self._events.put((slot, done)))

    def _assign(self) -> None:
        while self._idle and self._tasks:
            slot = self._idle.popleft()
            slot.task = self._tasks.popleft()
            self._watch(slot, slot.evaluator.evaluate(slot.task.proposal))

    def _take(self, slot: _Slot, done: Future[Any]) -> None:
        if error := done.exception():
            return self._lose(slot, error)
        result, task = done.result(), slot.task
        if task:
            slot.task = None
            self._write(result)
        elif result:
            self._pool.send(result)
            return self._watch(slot, slot.evaluator.start())
        else:
            slot.ready = True
            self._tell_ready()
        self._failed_starts = 0
        self._idle.append(slot)

    def _lose(self, slot: _Slot, error: BaseException) -> None:
        reason = str(getattr(error, "cause", None) or error).strip()  # an engine may have wrapped it
        self._log(f"an evaluator is gone: {reason}")
        self._slots.discard(slot)
        slot.evaluator.end()
        if slot.ready:
            self._next_look = 0.0
            self._tell_ready()
        else:
            self._failed_starts += 1
            if self._failed_starts >= TRIES:
                raise PoolError(f"{TRIES} evaluators in a row did not start; the last one: {reason}")
        if slot.task:
            self._try_again(slot.task, reason)

    def _try_again(self, task: _Task, reason: str) -> None:
        task.failures.append(reason)
        if len(task.failures) < TRIES:
            return self._tasks.appendleft(task)
        error = f"[eval] {TRIES} evaluators in a row are gone: {reason}"
        self._write(json.dumps({"number": json.loads(task.proposal)["number"], "error": error}))

    def _tell_ready(self) -> None:
        self._write(json.dumps({"ready": sum(slot.ready for slot in self._slots)}))
