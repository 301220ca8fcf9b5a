"""Evaluators on the nodes of the Ray cluster that this process is connected to: an actor each."""
from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future

import ray  # type: ignore[import-not-found, unused-ignore]

from ._child import Child, ChildError, command
from ._core import version
from ._parcels import Store, pieces
from ._shipment import Delivery, Shipment

GPU_DEVICES = ("cuda", "tensorrt")
CLOSE_SECONDS = 10.0

Sent = dict[str, list[ray.ObjectRef]]  # by digest: the pieces of a parcel


class RayActor:
    """On a node: a child, and what it reads."""

    def __init__(self, shipment: Shipment):
        if shipment.version != version:
            raise ChildError(f"seqto {version} found on this node, {shipment.version} expected")
        self._store = Store()
        self._delivery = Delivery(shipment, self._store)
        self._child: Child | None = None

    def start(self, sent: Sent) -> list[str]:
        """Digests of what this node has to be sent first; none: it is ready."""
        for parcel in self._delivery.shipment.parcels:
            if parcel.digest in sent:
                self._store.unpack(parcel, _content(sent[parcel.digest]))
        if missing := self._delivery.missing():
            return missing
        self._child = Child([*self._command(), str(self._delivery.folder()), "-"])
        return []

    def _command(self) -> list[str]:
        by_keywords = self._delivery.shipment.setting("keywords", "")
        return [sys.executable, "-m", "seqto._evaluate"] if by_keywords else [*command(), "eval"]

    def evaluate(self, proposal: str) -> str:
        assert self._child
        return self._child.evaluate(proposal)

    def close(self) -> None:
        if self._child:
            self._child.close()
        self._store.close()
        ray.actor.exit_actor()


def _content(refs: list[ray.ObjectRef]) -> Iterator[bytes]:
    for ref in refs:
        yield ray.get(ref)


class RayEvaluator:
    def __init__(self, pool: RayPool):
        self._pool = pool
        self.actor = pool.actors.remote(pool.shipment)
        self._placed = self.actor.__ray_ready__.remote()

    def start(self) -> Future[list[str]]:
        future: Future[list[str]] = self.actor.start.remote(self._pool.sent).future()
        return future

    def evaluate(self, proposal: str) -> Future[str]:
        future: Future[str] = self.actor.evaluate.remote(proposal).future()
        return future

    def end(self) -> None:
        """In good order, so that nothing is left on its node."""
        if ray.wait([self._placed], timeout=0)[0]:
            self._pool.closing.append(self.actor.close.remote())
        else:  # it waits for a node that has room
            ray.kill(self.actor)


class RayPool:
    def __init__(self, shipment: Shipment, labels: dict[str, str], workers: int):
        self.shipment = ray.put(shipment)
        self.sent: Sent = {}
        self.closing: list[ray.ObjectRef] = []
        self._parcels = {parcel.digest: parcel for parcel in shipment.parcels}
        self._labels, self._workers = labels, workers
        gpus = 1.0 if shipment.setting("device", "cpu").partition(":")[0] in GPU_DEVICES else 0.0
        self._needs = {"CPU": float(shipment.setting("threads", "1")), "GPU": gpus}
        self.actors = ray.remote(RayActor).options(
            num_cpus=self._needs["CPU"], num_gpus=gpus, label_selector=labels or None, max_restarts=0, max_task_retries=0
        )

    def room(self) -> int:
        """As many as were asked for, though they may wait for nodes; else for what the nodes have, and one at least."""
        if self._workers:
            return self._workers
        nodes = [node for node in ray.nodes() if node["Alive"] and self._labels.items() <= node["Labels"].items()]
        return max(1, sum(self._fitting(node["Resources"]) for node in nodes))

    def _fitting(self, resources: dict[str, float]) -> int:
        return int(min(resources.get(name, 0.0) // need for name, need in self._needs.items() if need))

    def make(self) -> RayEvaluator:
        return RayEvaluator(self)

    def send(self, missing: list[str]) -> None:
        """Into the cluster's object store, once for all nodes."""
        for digest in missing:
            if digest not in self.sent:
                self.sent[digest] = [ray.put(piece) for piece in pieces(self._parcels[digest])]

    def close(self) -> None:
        """Waits for evaluators that were told to end."""
        if self.closing:
            ray.wait(self.closing, num_returns=len(self.closing), timeout=CLOSE_SECONDS)
