"""How an operator's command ends: its exit status, and one line for every expected error."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, NoReturn

import typer
from pymongo.errors import OperationFailure, PyMongoError

from fairlane.cli.text import plain
from fairlane.driver import UNAUTHORIZED
from fairlane.errors import ConfigurationError, FairlaneError, PayloadError

__all__ = (
    "FAILED",
    "INTERRUPTED",
    "OK",
    "PIPE_CLOSED",
    "TERMINATED",
    "USAGE",
    "Refused",
    "brief",
    "complain",
    "conclude",
)

OK = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 128 + signal.SIGINT
PIPE_CLOSED = 128 + 13
"""As the shell shows it of a program that SIGPIPE has ended."""
TERMINATED = 128 + signal.SIGTERM
LONGEST = 600


class Refused(ValueError):
    """What was typed, or read, cannot be used."""


WRONG = (ConfigurationError, PayloadError, Refused)
EXPECTED = (FairlaneError, OSError, PyMongoError, Refused)


def conclude(
    name: str, work: Coroutine[Any, Any, int], *, interrupted: int = INTERRUPTED
) -> NoReturn:
    """Run the work of a command and exit with the status that it returns.

    Expected errors are one line on standard error and a status. `interrupted` is that of Ctrl-C.
    """
    raise typer.Exit(_status(name, work, interrupted))


def complain(name: str, problem: str) -> None:
    typer.echo(f"fairlane {name}: {plain(problem)}", err=True)


def brief(error: PyMongoError) -> str:
    """Return what the driver says, without whole replies, settings and its view of the servers."""
    details = error.details if isinstance(error, OperationFailure) else None
    said = str((details or {}).get("errmsg") or error)
    for tail in (" (configured timeouts", ", Timeout:", ", full error:"):
        said = said.partition(tail)[0]
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}..."


def _status(name: str, work: Coroutine[Any, Any, int], interrupted: int) -> int:
    _allow_any_text()
    try:
        status = asyncio.run(_terminable(work))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return interrupted
    except asyncio.CancelledError:
        return TERMINATED
    except BrokenPipeError:
        return PIPE_CLOSED
    except EXPECTED as error:
        return _failed(name, error)
    return status


def _allow_any_text() -> None:
    """Let what a terminal cannot show be written as escapes: a group id may hold anything."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


async def _terminable(work: Coroutine[Any, Any, int]) -> int:
    """Let SIGTERM end the work as Ctrl-C does, so that it cleans up."""
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError, RuntimeError):  # Windows; not in the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work


def _failed(name: str, error: Exception) -> int:
    of_network = FairlaneError | ConnectionError | TimeoutError
    if isinstance(error, OSError) and not isinstance(error, of_network):
        complain(name, f"cannot write: {error.strerror}")
        return FAILED
    complain(name, _explained(error) if isinstance(error, PyMongoError) else str(error))
    return USAGE if isinstance(error, WRONG) else FAILED


def _explained(error: PyMongoError) -> str:
    if isinstance(error, OperationFailure) and error.code == UNAUTHORIZED:
        return (
            f"this user may not do that; it needs the role readWrite on the database, and a login "
            f"where the server wants one: {brief(error)}"
        )
    return f"the server failed: {brief(error)}"
