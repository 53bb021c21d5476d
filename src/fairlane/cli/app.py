"""The Typer application: one line per command, each command in a module of its own."""

from typing import Annotated

import typer

from fairlane import __version__
from fairlane.cli.demo.command import demo

__all__ = ("app",)

app: typer.Typer = typer.Typer(
    help="FIFO message groups on the MongoDB you already run.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"fairlane {__version__}")
        raise typer.Exit


@app.callback()
def _fairlane(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """FIFO message groups on the MongoDB you already run."""


app.command()(demo)
