"""`python -m seqto.ray DIR`: a Ray cluster behind the lines of `seqto eval DIR -`; docs/guide/cluster.md.

Proposals come in on stdin. Results go out on stdout, in any order, and {"ready": N} whenever the number of evaluators
has changed.
"""
from __future__ import annotations

import argparse
import os
import secrets
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ._bridge import Bridge, PoolError
from ._shipment import shipment

LOCAL_STORE_BYTES = 256 << 20  # of a cluster on this machine, which is sent the study alone
INTERNAL, UNAVAILABLE = 1, 4  # exit codes


def connect(address: str) -> None:
    """To a cluster; "local": one on this machine, which ends with this process, on loopback, with a token of its own."""
    options: dict[str, Any] = {}
    if address == "local":
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0")
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else Ray takes the machine's address in place of loopback
        options = {"include_dashboard": False, "object_store_memory": LOCAL_STORE_BYTES}
    import ray  # type: ignore[import-not-found, unused-ignore]  # reads its environment now

    ray.init(address, log_to_driver=False, logging_level="ERROR", **options)


def run(folder: Path, address: str, labels: dict[str, str], workers: int, say: Callable[[str], None]) -> None:
    out = os.dup(1)
    os.dup2(2, 1)  # Ray writes to stdout
    connect(address)
    import ray

    from ._ray_pool import RayPool

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)  # from here on Ray tells of every node that dies, at length; it is all in its logs
    try:
        pool = RayPool(shipment(folder), labels, workers)
        bridge = Bridge(pool, lambda line: write_line(out, line), say)
        try:
            bridge.run(lines_of(0), lambda: nobody_reads(out))
        finally:
            bridge.end()
            pool.close()
    except ray.exceptions.RayError as error:
        raise PoolError(f"the cluster is gone: {error}") from error
    finally:
        ray.shutdown()


def lines_of(descriptor: int) -> Iterator[str]:
    rest = b""
    while block := os.read(descriptor, 1 << 16):
        *whole, rest = (rest + block).split(b"\n")
        yield from (line.decode() for line in whole)


def write_line(descriptor: int, line: str) -> None:
    left = line.encode() + b"\n"
    while left:
        left = left[os.write(descriptor, left) :]


def nobody_reads(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m seqto.ray", description="Measure proposals on a Ray cluster.")
    parser.add_argument("dir", type=Path, help="folder of the study")
    parser.add_argument("--address", default=os.environ.get("RAY_ADDRESS", "local"),
                        help="HOST:PORT of a cluster, auto, or local: one on this machine (default: $RAY_ADDRESS, else local)")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="of the nodes to use; may be repeated")
    parser.add_argument("--workers", type=int, default=0, help="evaluators, also those that wait for nodes to come (default: what fits)")
    asked = parser.parse_args()
    said = open(os.dup(2), "w", buffering=1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for label in asked.label:
        if "=" not in label:
            parser.error(f"--label {label} found; KEY=VALUE expected")
    labels = dict(label.split("=", 1) for label in asked.label)
    try:
        run(asked.dir, asked.address, labels, asked.workers, lambda text: print(text, file=said))
    except ModuleNotFoundError as error:
        print(f"[ray] {error}; Ray expected; give `pip install seqto[ray]` on this machine and on every node", file=said)
        sys.exit(UNAVAILABLE)
    except (PoolError, OSError) as error:
        print(f"[ray] {error}", file=said)
        sys.exit(UNAVAILABLE)
    except Exception:
        traceback.print_exc(file=said)
        sys.exit(INTERNAL)


if __name__ == "__main__":
    main()
