"""What a person sees of an operator's command: tables, on standard output."""

from rich.console import Console, RenderableType

__all__ = ("Screen", "show")

WIDTH_OF_FILES = 120
"""Columns where there is no terminal that has any: in a file, or a pipe."""


class Screen(Console):
    """A console that lets the `BrokenPipeError` of a pipe without a reader pass, to `conclude`."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = WIDTH_OF_FILES

    def on_broken_pipe(self) -> None:
        raise


def show(what: RenderableType) -> None:
    Screen().print(what)
