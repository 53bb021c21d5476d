"""What a person sees while the demo runs: progress bars on a terminal, a few lines elsewhere."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ("Display",)


class Display:
    """Writes to standard error only, so that standard output stays the result."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description:<9}"),
            BarColumn(),
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
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, *, published: int, handled: int, redelivered: int) -> None:
        self._progress.update(self._published, completed=published)
        remark = f"{redelivered} delivered again" if redelivered else ""
        self._progress.update(self._handled, completed=handled, remark=remark)
