"""Which server program this machine has, and how it is started. Nothing here runs one."""

import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from fairlane.errors import ConfigurationError
from fairlane.testing._secantus_version import SECANTUS_VERSION

__all__ = ("Program", "choose", "mongod", "secantus")

REPLICA_SET = "fairlane"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A server program.

    Attributes:
        name: for people; `{version}` is what the server says its version is.
        command: its command line, with the places `{folder}` and `{port}`.
        replica_set: to be initiated after the first start, if any.
    """

    name: str
    command: tuple[str, ...]
    replica_set: str | None = None


def choose(*, plain: bool, sync_on_commit: bool) -> Program:
    """Return `mongod` if it is on the PATH, else SecantusDB."""
    path = shutil.which("mongod")
    if path is not None:
        return mongod(path)
    _require_secantus()
    return secantus(plain=plain, sync_on_commit=sync_on_commit)


def mongod(path: str) -> Program:
    """Return MongoDB as a replica set of one: transactions and change streams need a set."""
    command = (
        path,
        *("--dbpath", "{folder}", "--port", "{port}", "--bind_ip", "127.0.0.1"),
        *("--replSet", REPLICA_SET, "--oplogSize", "128", "--wiredTigerCacheSizeGB", "0.25"),
        *("--setParameter", "enableTestCommands=1"),  # failCommand
        *(() if sys.platform == "win32" else ("--nounixsocket",)),  # it would outlive a SIGKILL
    )
    return Program(name="mongod {version}", command=command, replica_set=REPLICA_SET)


def secantus(*, plain: bool, sync_on_commit: bool) -> Program:
    """Return SecantusDB behind our launcher, which is only ever run as a process of its own."""
    kind = "plain" if plain else "repaired planner"
    command = (
        *(sys.executable, "-P", "-m", "fairlane.testing._secantus"),
        *("--port", "{port}", "--folder", "{folder}"),
        *(("--plain",) if plain else ()),
        *(("--sync-on-commit",) if sync_on_commit else ()),
    )
    return Program(name=f"SecantusDB {SECANTUS_VERSION} ({kind})", command=command)


def _require_secantus() -> None:
    try:
        found = version("secantusdb")
    except PackageNotFoundError:
        raise ConfigurationError(
            "no server to start: put `mongod` on the PATH, or `pip install 'fairlane[server]'` "
            "(SecantusDB, Python 3.11 to 3.13)"
        ) from None
    if found != SECANTUS_VERSION:
        raise ConfigurationError(
            f"the local server works with secantusdb=={SECANTUS_VERSION} only, not {found}: "
            "`pip install 'fairlane[server]'` installs the right one"
        )
