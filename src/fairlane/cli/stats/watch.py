"""Look again and again, through outages, until somebody has seen enough."""

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import Protocol

import typer
from pymongo.errors import ConnectionFailure
from rich.console import Group
from rich.live import Live
from rich.text import Text

from fairlane.cli.outcome import brief, complain
from fairlane.cli.screen import Screen
from fairlane.cli.stats.sample import Pace, Sample, document, pace
from fairlane.cli.stats.table import tables
from fairlane.cli.text import json_line, plain

__all__ = ("Display", "JsonLines", "LiveTable", "Look", "Pages", "watch")


LONG = 3.0
"""Seconds after which whoever watches is told that an answer takes its time."""


class Look(Protocol):
    async def __call__(self) -> Sample: ...


class Display(Protocol):
    def show(self, sample: Sample, speed: Pace | None) -> None: ...

    def excuse(self, problem: str) -> None:
        """Say why there is nothing new to be shown."""


async def watch(look: Look, display: Display, interval: float) -> None:
    """Show a sample every `interval` seconds, for ever; wait for a server that is away."""
    last: Sample | None = None
    while True:
        try:
            sample = await _patiently(look(), display)
        except ConnectionFailure as error:
            display.excuse(f"no answer: {brief(error)}")
        else:
            display.show(sample, None if last is None else pace(last, sample))
            last = sample
        await asyncio.sleep(interval)


async def _patiently(looking: Awaitable[Sample], display: Display) -> Sample:
    """Wait for a look, and say so when that takes long."""
    task = asyncio.ensure_future(looking)
    waited = 0.0
    try:
        while not (await asyncio.wait((task,), timeout=LONG))[0]:
            waited += LONG
            display.excuse(f"no answer for {waited:g} s")
        return task.result()
    finally:
        task.cancel()


class JsonLines:
    """One object a line, for programs; the first one tells no pace."""

    def show(self, sample: Sample, speed: Pace | None) -> None:
        typer.echo(json_line(document(sample, speed)))

    def excuse(self, problem: str) -> None:
        complain("stats", problem)


class Pages:
    """One table below the other, where there is no terminal."""

    def __init__(self) -> None:
        self._screen = Screen()

    def show(self, sample: Sample, speed: Pace | None) -> None:
        self._screen.print(Text(f"{sample.at:%Y-%m-%d %H:%M:%S} UTC"))
        self._screen.print(tables(sample, speed, is_watched=True))
        self._screen.file.flush()

    def excuse(self, problem: str) -> None:
        complain("stats", problem)


class LiveTable:
    """One table that changes in its place; an outage is told below it."""

    def __init__(self, title: str, screen: Screen | None = None) -> None:
        self._title = title
        self._live = Live(console=screen or Screen(), auto_refresh=False)
        self._last: tuple[Sample, Pace | None] | None = None

    def __enter__(self) -> "LiveTable":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, sample: Sample, speed: Pace | None) -> None:
        self._last = sample, speed
        self._draw("")

    def excuse(self, problem: str) -> None:
        self._draw(plain(problem))

    def _draw(self, problem: str) -> None:
        parts: list[Group | Text] = []
        if self._last is not None:
            sample, speed = self._last
            parts.append(Text(f"{self._title}, {sample.at:%Y-%m-%d %H:%M:%S} UTC", style="bold"))
            parts.append(tables(sample, speed, is_watched=True))
        if problem:
            parts.append(Text(problem, style="red"))
        self._live.update(Group(*parts), refresh=True)
