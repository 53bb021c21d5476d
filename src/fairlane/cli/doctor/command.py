"""The command line of `fairlane doctor`."""

from typing import Annotated

import typer
from rich.text import Text

from fairlane.cli.doctor.examination import examine
from fairlane.cli.doctor.finding import STATUSES, Finding, Status, worst
from fairlane.cli.doctor.strategy import StrategyName
from fairlane.cli.outcome import conclude
from fairlane.cli.screen import Screen
from fairlane.cli.target import URL, Db, Prefix, Target, Timeout, Url
from fairlane.cli.text import json_line, plain
from fairlane.lease.strategy import checked_strategy

__all__ = ("doctor",)

STYLES: dict[Status, str] = {"ok": "green", "warning": "yellow", "error": "bold red"}
INDENT = 26


def doctor(
    strategy: Annotated[
        StrategyName, typer.Option(help="What your programs pass as strategy=.")
    ] = StrategyName.AUTO,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all findings as one JSON object.")
    ] = False,
    url: Url = URL,
    db: Db = "fairlane",
    prefix: Prefix = "fairlane",
    timeout: Timeout = 5.0,
) -> None:
    """Check what the guarantees rest on: server, clocks, settings, indexes, and the claim itself.

    Concurrent claims race for documents in a collection that is made for that and dropped
    afterwards; your data is only looked at. Each check says ok, warning or error, and what to do.

    Exit status: 0 if all is well; 1 if the worst is a warning; 2 if it is an error, or the command
    line is wrong; 130 after Ctrl-C.
    """
    target = Target(url=url, db_name=db, prefix=prefix, timeout=timeout)
    conclude("doctor", _doctor(target, strategy, as_json))


async def _doctor(target: Target, strategy: StrategyName, as_json: bool) -> int:
    findings: list[Finding] = []
    screen = Screen()

    def note(finding: Finding) -> None:
        findings.append(finding)
        if not as_json:
            _show(finding, screen)

    await examine(target, note, wanted=checked_strategy(strategy.value))
    status = worst(findings)
    if as_json:
        checks = [_flat(finding) for finding in findings]
        typer.echo(json_line({"status": status, "checks": checks}))
    return STATUSES.index(status)


def _flat(finding: Finding) -> dict[str, object]:
    return {
        "check": finding.check,
        "status": finding.status,
        "detail": finding.detail,
        "advice": finding.advice,
        "data": dict(finding.data),
    }


def _show(finding: Finding, screen: Screen) -> None:
    line = Text()
    line.append(f"{finding.status:<9}", style=STYLES[finding.status])
    line.append(f"{finding.check:<17}", style="bold")
    line.append(plain(finding.detail))
    screen.print(line, soft_wrap=True)
    if finding.advice is not None:
        screen.print(Text(f"{'':{INDENT}}-> {plain(finding.advice)}"), soft_wrap=True)
    screen.file.flush()
