"""The stored result as a Markdown table, which is fit to be read on a terminal as well."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ("table",)

HEAD = (
    "",
    "publish/s",
    "claim+ack/s",
    "end to end/s",
    "commands",
    "writes",
    "client CPU µs",
    "server CPU µs",
    "p50 / p95 / p99 ms",
    "duplicates",
    "out of order",
    "not handled",
    "reads of those waiting",
)
MEASURES = {"publish": "publish", "claim_and_ack": "claim+ack", "end_to_end": "end to end"}
MORE = {"commands": "commands", "writes": "writes", "cpu": "client CPU", "server_cpu": "server CPU"}
CUT_OFF = "†"

Run = Mapping[str, Any]


def table(result: Mapping[str, Any]) -> str:
    """Return a table for each depth, and who did not run."""
    return "\n".join(_lines(result))


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    for depth in sorted({run["depth"] for run in result["runs"]}):
        runs = [run for run in result["runs"] if run["depth"] == depth]
        yield f"{depth} messages in each of {result['sizes']['groups']:,} groups:"
        yield ""
        yield from _aligned([HEAD, *(_row(run) for run in runs)])
        yield ""
        yield from _ratios(runs)
    for failure in result["failures"]:
        yield f"- Did not run: {failure['title']} ({failure['depth']} messages in each group)."
        yield f"  It said: `{failure['reason']}`"


def _row(run: Run) -> tuple[str, ...]:
    whole = run["end_to_end"]
    latency = run["latency"]
    return (
        run["title"],
        f"{run['publish']['per_second']:,.0f}",
        _rate(run["claim_and_ack"], run["backlog"]),
        _rate(whole, run["together"]),
        f"{whole['commands_per_message']:.2f}",
        f"{whole['writes_per_message']:.2f}",
        f"{whole['cpu_us_per_message']:,.0f}",
        f"{whole['server_cpu_us_per_message'] or math.nan:,.0f}",
        " / ".join(f"{latency[rank]:,.0f}" for rank in latency) or "none",
        _sum(run, "duplicates"),
        _sum(run, "order_violations") if run["keeps_order"] else "no order promised",
        _sum(run, "not_handled"),
        run["reads"],
    )


def _rate(cost: Mapping[str, Any], outcome: Mapping[str, Any]) -> str:
    return f"{cost['per_second']:,.0f}{CUT_OFF if outcome['cut_off'] else ''}"


def _ratios(runs: Sequence[Run]) -> Iterator[str]:
    bases = list(runs[0]["ratios"])
    if not bases:
        return
    names = {**MEASURES, **MORE}
    yield f"The same, divided by {' / by '.join(bases)}:"
    yield ""
    rows = [(run["title"], *(_ratio(run["ratios"], bases, name) for name in names)) for run in runs]
    yield from _aligned([("", *names.values()), *rows])
    yield ""


def _ratio(to_bases: Mapping[str, Run], bases: Sequence[str], name: str) -> str:
    return " / ".join(f"{to_bases[base].get(name, math.nan):.2f}" for base in bases)


def _sum(run: Run, name: str) -> str:
    return f"{run['backlog'][name] + run['together'][name]:,}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        first, *rest = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'-' * (widths[0] + 2)}|{'|'.join('-' * (n + 1) + ':' for n in widths[1:])}|"
