"""What a person sees while the demo runs: progress bars on a terminal, a few lines elsewhere."""

from collections.abc import Iterable
from types import TracebackType

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ("Display", "say")

BAR_WIDTH = 24
ROOM_FOR_ECHO = 4
"""A terminal shows `^C` behind the last row. Wrapped, it would keep that row from being erased."""


def say(console: Console, text: str) -> None:
    """Print for people: wrapped between words on a terminal, one line elsewhere."""
    console.print(text, markup=False, highlight=False, soft_wrap=not console.is_terminal)


class Display:
    """Writes to standard error only, so that standard output stays the result."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
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
        self._published = self._progress.add_task("published", total=total, remark="")
        self._handled = self._progress.add_task("handled", total=total, remark="")

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

    def show(self, *, published: int, handled: int, redelivered: int) -> None:
        self._progress.update(self._published, completed=published)
        remark = f"{redelivered} redelivered" if redelivered else ""
        self._progress.update(self._handled, completed=handled, remark=remark)


class _Bars(Progress):
    def get_renderables(self) -> Iterable[RenderableType]:
        yield from map(_Narrowed, super().get_renderables())


class _Narrowed:
    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(1, options.max_width - ROOM_FOR_ECHO)
        yield from console.render(self._inner, options.update_width(width))
