"""The command line of `fairlane publish`."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fairlane import checks
from fairlane.cli.outcome import OK, Refused, conclude
from fairlane.cli.target import URL, Db, Prefix, Target, Timeout, Url, opened
from fairlane.cli.text import event_of, json_line
from fairlane.errors import ConfigurationError

__all__ = ("Item", "publish")

CHUNK = 500
STANDARD_INPUT = "-"
FIELDS = frozenset({"group", "event", "priority"})

Source = Annotated[
    Path | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help='Instead: events in order, a JSON line {"group": "...", "event": ...} each, with '
        '"priority" if wanted; - is standard input. Nothing is published if a line is wrong.',
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    group: str
    event: Any
    priority: int


def publish(
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="The message group.", show_default=False)
    ] = None,
    event: Annotated[
        str | None,
        typer.Argument(
            metavar="[EVENT]",
            help="The event as JSON, or Extended JSON; - reads it from standard input.",
            show_default=False,
        ),
    ] = None,
    source: Source = None,
    priority: Annotated[
        int,
        typer.Option(metavar="0..4", min=0, max=4, help="Of groups that have no messages yet."),
    ] = 0,
    message_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="A name for the message: repeated, it is stored once."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each message.")
    ] = False,
    url: Url = URL,
    db: Db = "fairlane",
    prefix: Prefix = "fairlane",
    timeout: Timeout = 5.0,
) -> None:
    """Publish one message, or a file of them, and print their sequence numbers.

    Exit status: 0 if all are stored on a majority; 1 if the server failed: what was printed is
    stored; 2 if the command line or the input is wrong, then nothing is; 130 after Ctrl-C.
    """
    target = Target(url=url, db_name=db, prefix=prefix, timeout=timeout)
    conclude("publish", _publish(target, (group, event, source, priority), message_id, as_json))


_Given = tuple[str | None, str | None, Path | None, int]


async def _publish(target: Target, given: _Given, message_id: str | None, as_json: bool) -> int:
    items = _items(*given)
    if message_id is not None and given[2] is not None:
        raise Refused("--message-id names one message, not a file of them")
    async with opened(target) as deployment:
        transport = deployment.transport(ensure_indexes=True)
        if message_id is not None:
            only = items[0]
            seq = await transport.publish(
                only.group, only.event, only.priority, message_id=message_id
            )
            _show(items, [seq], as_json)
            return OK
        for start in range(0, len(items), CHUNK):
            chunk = items[start : start + CHUNK]
            seqs = await transport.publish_many(
                [(item.group, item.event, item.priority) for item in chunk]
            )
            _show(chunk, seqs, as_json)
    return OK


def _show(items: Iterable[Item], seqs: Iterable[int], as_json: bool) -> None:
    """Print the numbers. If the reader of a pipe has gone, the rest is published all the same."""
    with suppress(BrokenPipeError):
        for item, seq in zip(items, seqs, strict=True):
            typer.echo(json_line({"seq": seq, "group_id": item.group}) if as_json else str(seq))


def _items(group: str | None, event: str | None, source: Path | None, priority: int) -> list[Item]:
    if source is not None:
        if group is not None:
            raise Refused("give GROUP and EVENT, or --input, not both")
        return list(_read(source, priority))
    if group is None or event is None:
        raise Refused("what is to be published? GROUP and EVENT, or --input FILE")
    text = sys.stdin.read() if event == STANDARD_INPUT else event
    try:
        return [Item(group=group, event=event_of(text), priority=priority)]
    except ValueError as error:
        raise Refused(f"EVENT is {error} (a text needs quotes: '\"paid\"')") from None


def _read(source: Path, priority: int) -> Iterator[Item]:
    for number, line in enumerate(_lines(source), start=1):
        if line.strip():
            try:
                yield _item(event_of(line), priority)
            except (ValueError, ConfigurationError) as error:
                raise Refused(f"{source}, line {number}: {error}") from None


def _lines(source: Path) -> list[bytes]:
    if str(source) == STANDARD_INPUT:
        return sys.stdin.buffer.read().splitlines()
    try:
        return source.read_bytes().splitlines()
    except OSError as error:
        raise Refused(f"cannot read {source}: {error.strerror}") from None


def _item(line: Any, priority: int) -> Item:
    if not isinstance(line, dict) or not {"group", "event"} <= line.keys() <= FIELDS:
        raise ValueError('not an object with "group", "event" and, if wanted, "priority"')
    return Item(
        group=checks.text("group", line["group"]),
        event=line["event"],
        priority=checks.priority("priority", line.get("priority", priority)),
    )
