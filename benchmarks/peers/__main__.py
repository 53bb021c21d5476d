"""What does a message's whole life cost with each library, and with the driver alone?

Each library is installed from its registry into an environment of its own and driven as its
documentation says, on the same server, with the same messages: published, worked off, and both at
once, by one process that publishes and one that works. Prints a table; `--json` stores everything.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks._measuring import Server, context, served
from benchmarks.peers._catalog import SUBJECTS
from benchmarks.peers._environments import InstallFailed, default_cache, python_of
from benchmarks.peers._figures import DEFINITIONS, Figures, ratios
from benchmarks.peers._processes import SubjectFailed
from benchmarks.peers._records import Sizes
from benchmarks.peers._run import Limits, measured
from benchmarks.peers._table import table

__all__ = ("main",)

INTERRUPTED = 130


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", help="another server instead of a local one for each library")
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    parser.add_argument("--publishers", type=positive, default=64)
    parser.add_argument("--workers", type=positive, default=64)
    parser.add_argument("--groups", type=positive, default=1_000)
    parser.add_argument("--depth", type=positive, nargs="+", default=[3, 20], help="per group")
    parser.add_argument("--size", type=positive, default=100, help="bytes in each payload")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each part")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds without progress")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="of environments")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store everything there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="store the table there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="needs fairlane[bench]")
    parser.add_argument("--stored", type=Path, metavar="FILE", help="measure nothing, show this")
    return parser.parse_args(given)


def positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def result_of(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everybody at every depth; a library that fails is named and left out."""
    runs: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    server, load = "", _load()
    for depth in options.depth:
        all_figures: dict[str, Figures] = {}
        for name in options.only:
            try:
                server, all_figures[name] = _measured(name, depth, options)
            except (InstallFailed, SubjectFailed) as failure:
                failures.append({**_titled(name, depth), "reason": str(failure)})
        runs += _runs(all_figures, depth)
    head = {**_head(server, options), "load_before": load}
    return {**head, "runs": runs, "failures": failures}


def _load() -> float | None:
    """Return what else the machine does: how many programs wanted to run in the last minute."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


def _measured(name: str, depth: int, options: argparse.Namespace) -> tuple[str, Figures]:
    print(f"{name}, {depth} messages in each group", file=sys.stderr)  # noqa: T201
    subject = SUBJECTS[name]
    python = python_of(subject, options.cache)
    limits = Limits(seconds=options.seconds, patience=options.patience)
    with served(options.url) as server:
        figures = asyncio.run(measured(subject, python, server, _sizes(options, depth), limits))
    return server.name, figures


def _runs(all_figures: Mapping[str, Figures], depth: int) -> Iterator[dict[str, Any]]:
    to_bases = ratios(all_figures)
    for name, figures in all_figures.items():
        subject = SUBJECTS[name]
        yield {
            **_titled(name, depth),
            "keeps_order": subject.keeps_order,
            "workers": subject.workers,
            "settled": subject.settled,
            "reads": subject.reads,
            **asdict(figures),
            "ratios": to_bases[name],
        }


def _titled(name: str, depth: int) -> dict[str, Any]:
    return {"subject": name, "title": SUBJECTS[name].title, "depth": depth}


def _head(server: str, options: argparse.Namespace) -> dict[str, Any]:
    sizes = asdict(_sizes(options, 0))
    del sizes["depth"]  # every run has its own
    return {
        **context("peers", Server(url="", name=server), "each library's own; see versions"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "sizes": sizes,
        "limits": {"seconds": options.seconds, "patience": options.patience},
        "definitions": DEFINITIONS,
    }


def _sizes(options: argparse.Namespace, depth: int) -> Sizes:
    return Sizes(
        publishers=options.publishers,
        workers=options.workers,
        groups=options.groups,
        depth=depth,
        size=options.size,
    )


def wrongs(result: Mapping[str, Any]) -> Iterator[str]:
    """Say what the project's own code has done that it must not do."""
    own = [name for name, subject in SUBJECTS.items() if not subject.requirements]
    for failure in result["failures"]:
        if failure["subject"] in own:
            yield f"{failure['subject']} did not run: {failure['reason']}"
    for run in result["runs"]:
        if run["subject"].startswith("fairlane"):
            for part in ("backlog", "together"):
                yield from (f"{run['subject']}, {part}: {text}" for text in _broken(run[part]))


def _broken(outcome: Mapping[str, Any]) -> Iterator[str]:
    if outcome["order_violations"]:
        yield f"{outcome['order_violations']} messages out of order"
    if outcome["not_handled"] and not outcome["cut_off"]:
        yield f"{outcome['not_handled']} messages never handled"


def show(result: Mapping[str, Any], options: argparse.Namespace) -> None:
    text = table(result)
    print(text)  # noqa: T201
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    if options.markdown:
        options.markdown.write_text(text)
    if options.plot:
        # Only this needs matplotlib.
        from benchmarks.peers._plot import draw

        draw(result, options.plot)


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(given)
    try:
        stored = options.stored
        result = json.loads(stored.read_text()) if stored else result_of(options)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    show(result, options)
    if wrong := list(wrongs(result)):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
