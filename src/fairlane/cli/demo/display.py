"""What a person sees while the demo runs: progress bars on a terminal, a few lines elsewhere."""

from collections.abc import Iterable
from types import TracebackType
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ("Display", "Labels", "say")

BAR_WIDTH = 24
ROOM_FOR_ECHO = 4
"""A terminal shows `^C` behind the last row. Wrapped, it would keep that row from being erased."""


class Labels(NamedTuple):
    """What is said of the work: of what came in, what was worked off, and what came again."""

    entered: str = "published"
    ended: str = "handled"
    repeated: str = "redelivered"


EVENTS = Labels()


def say(console: Console, text: str) -> None:
    """Print for people: wrapped between words on a terminal, one line elsewhere."""
    console.print(text, markup=False, highlight=False, soft_wrap=not console.is_terminal)


class Display:
    """Writes to standard error only, so that standard output stays the result."""

    def __init__(self, console: Console, total: int, labels: Labels = EVENTS) -> None:
        self._console = console
        self._labels = labels
        self._is_stopping = False
        self._progress = _Bars(
            TextColumn("{task.description:<9}"),
            BarColumn(BAR_WIDTH),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[remark]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._entered = self._progress.add_task(labels.entered, total=total, remark="")
        self._ended = self._progress.add_task(labels.ended, total=total, remark="")

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def note(self, text: str) -> None:
        """Say something that stays on the screen."""
        say(self._console, text)

    def stopping(self) -> None:
        """Take the bars away and say, once, that the clean-up of a run cut short has begun."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._progress.stop()
        self.note("stopping")

    def show(self, *, entered: int, ended: int, repeated: int) -> None:
        self._progress.update(self._entered, completed=entered)
        remark = f"{repeated} {self._labels.repeated}" if repeated else ""
        self._progress.update(self._ended, completed=ended, remark=remark)


class _Bars(Progress):
    def get_renderables(self) -> Iterable[RenderableType]:
        yield from map(_Narrowed, super().get_renderables())


class _Narrowed:
    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(1, options.max_width - ROOM_FOR_ECHO)
        yield from console.render(self._inner, options.update_width(width))
