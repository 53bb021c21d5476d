"""Draw the published points and what the model makes of the same runs."""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks._contention_published import FITTED, PUBLISHED, Published
from benchmarks._contention_simulation import Workload, simulate

__all__ = ("draw",)

SERIES = ((50_000, 256, "#b45309"), (100_000, 512, "#1d4ed8"))
COUNTS = tuple(2**n for n in range(10))

Line = list[tuple[int, float, float]]
"""Partitions, claims per second, conflicts per claim."""


def draw(path: Path) -> None:
    """Write the figure, in the format that the file's name ends with."""
    with mpl.rc_context({"svg.hashsalt": "fairlane", "font.size": 9}):
        figure = Figure(figsize=(9, 4), layout="constrained")
        axes = figure.subplots(1, 2)
        for jobs, claimers, colour in SERIES:
            _draw_series(axes, jobs, claimers, colour)
        _label(axes[0], "claims per second")
        _label(axes[1], "write conflicts per claim")
        axes[0].legend(fontsize=7.5)
        # No date: the same model draws the same file.
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_series(axes: tuple[Axes, Axes], jobs: int, claimers: int, colour: str) -> None:
    rows = [row for row in PUBLISHED if row.claimers == claimers and row.reads_back]
    workload = rows[0].workload
    name = f"{jobs:,} jobs, {claimers} claimers"
    _lines(axes, _published(rows), f"{name}: published", color=colour, marker="o", linestyle="")
    _lines(axes, _modelled(workload), f"{name}: model", color=colour, linestyle="-")
    leaves = replace(workload, stays=False)
    _lines(axes, _modelled(leaves), "… if claimed documents left", color=colour, linestyle=":")


def _published(rows: list[Published]) -> Line:
    return [(row.partitions, row.jobs / row.seconds, row.conflicts / row.jobs) for row in rows]


def _modelled(workload: Workload) -> Line:
    line = []
    for partitions in COUNTS:
        outcome = simulate(replace(workload, partitions=partitions), FITTED)
        depth = workload.depth
        line.append((partitions, depth / outcome.seconds, outcome.conflicts / depth))
    return line


def _lines(axes: tuple[Axes, Axes], line: Line, label: str, **style: str) -> None:
    partitions, rates, conflicts = zip(*line, strict=True)
    axes[0].plot(partitions, rates, label=label, **style)
    axes[1].plot(partitions, conflicts, **style)


def _label(axes: Axes, name: str) -> None:
    axes.set(xlabel="partitions", ylabel=name, xscale="log", yscale="log")
    axes.set_xticks(COUNTS, [str(count) for count in COUNTS], minor=False)
    axes.minorticks_off()
    axes.grid(color="#e2e8f0")
