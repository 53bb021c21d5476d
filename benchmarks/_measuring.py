"""What the benchmarks that measure a server share: which server, which driver, what was sent."""

import os
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import quantiles
from typing import Any

import pymongo
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from fairlane.testing import local_server

__all__ = ("CLIENTS", "CommandCounter", "Server", "context", "percentiles", "served")

CLIENTS: dict[str, Any] = {"motor": AsyncIOMotorClient, "pymongo": pymongo.AsyncMongoClient}


class CommandCounter(CommandListener):
    """Counts the commands that were sent, by name."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()

    def started(self, event: CommandStartedEvent) -> None:
        self.sent[event.command_name] += 1

    def succeeded(self, event: CommandSucceededEvent) -> None:
        return

    def failed(self, event: CommandFailedEvent) -> None:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server that is measured.

    Attributes:
        url: where it listens; may hold a password.
        name: what it is, to be named beside every measurement.
        is_repaired: whether it is SecantusDB with its planner and its sorted updates put right.
        pid: of its process, if it is a local one.
    """

    url: str
    name: str
    is_repaired: bool = False
    pid: int | None = None

    def cpu_seconds(self) -> float | None:
        """Return the processor time it has used; None if it is not local, or there is no /proc."""
        stat = Path(f"/proc/{self.pid}/stat")
        if self.pid is None or not stat.exists():
            return None
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(url: str | None) -> Iterator[Server]:
    """Yield the server at `url`, or a local one that runs as long as the block does."""
    if url:
        yield Server(url=url, name=f"{_kind(url)}, given by --url")
        return
    with local_server() as started:
        is_secantus = started.name.startswith("SecantusDB")
        name = f"{started.name}, not MongoDB" if is_secantus else started.name
        yield Server(url=started.url, name=name, is_repaired=is_secantus, pid=started.pid)


def _kind(url: str) -> str:
    with pymongo.MongoClient[dict[str, Any]](url) as client:
        build = client.admin.command("buildInfo")
    if "secantusVersion" in build:
        return f"SecantusDB {build['secantusVersion']}, not MongoDB"
    return f"server {build['version']}"


def context(benchmark: str, server: Server, driver: str) -> dict[str, object]:
    """Return what stands at the head of every result."""
    return {
        "benchmark": benchmark,
        "server": server.name,
        "driver": driver,
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("fairlane", "motor", "pymongo")},
        },
    }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the percentiles of some durations in milliseconds; nothing if there are none."""
    if not seconds:
        return {}
    cuts = quantiles(seconds, n=100) if len(seconds) > 1 else [seconds[0]] * 99
    return {f"p{rank}_ms": round(cuts[rank - 1] * 1e3, 2) for rank in (50, 95, 99)}
