"""The Typer application: one line per command, each command in a module of its own."""

import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from fairlane import __version__
from fairlane.cli.dead.command import dead_list, dead_redrive, dead_resume, dead_show
from fairlane.cli.demo.command import demo
from fairlane.cli.doctor.command import doctor
from fairlane.cli.publish import publish
from fairlane.cli.repair import repair
from fairlane.cli.stats.command import stats
from fairlane.cli.worker.command import worker

__all__ = ("app",)


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        return _with_bare_flags(super().get_params(ctx))


class _Numbered(_Command):
    """A command whose arguments may be negative numbers, which are no options."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        ctx.ignore_unknown_options = any(re.fullmatch(r"-\d+", each) for each in args)
        return super().parse_args(ctx, args)


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        return _with_bare_flags(super().get_params(ctx))


def _with_bare_flags(parameters: Any) -> Any:
    """Some versions of Typer write `<bool>` behind a flag in the help."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


app: typer.Typer = typer.Typer(
    cls=_Group,
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


dead: typer.Typer = typer.Typer(
    cls=_Group,
    help="List, show and redrive what is not tried any more: dead letters, failed jobs.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
dead.command("list", cls=_Command)(dead_list)
dead.command("show", cls=_Numbered)(dead_show)
dead.command("redrive", cls=_Numbered)(dead_redrive)
dead.command("resume", cls=_Command)(dead_resume)

app.command(cls=_Command)(demo)
app.command(cls=_Command)(worker)
app.command(cls=_Command)(publish)
app.command(cls=_Command)(stats)
app.add_typer(dead, name="dead")
app.command(cls=_Command)(repair)
app.command(cls=_Command)(doctor)
