"""Draw the rates of all libraries of a stored result side by side."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ("draw",)

MEASURES = (
    ("publish", "publish", "#93c5fd"),
    ("claim_and_ack", "claim and ack", "#1d4ed8"),
    ("end_to_end", "end to end, both at once", "#b45309"),
)
BAR = 0.27


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Write the figure, in the format that the file's name ends with."""
    depths = sorted({run["depth"] for run in result["runs"]})
    with mpl.rc_context({"svg.hashsalt": "fairlane", "font.size": 9}):
        figure = Figure(figsize=(9, 5.5), layout="constrained")
        all_axes = figure.subplots(1, len(depths), sharey=True, squeeze=False)[0]
        for axes, depth in zip(all_axes, depths, strict=True):
            _draw_depth(axes, [run for run in result["runs"] if run["depth"] == depth])
            axes.set_title(f"{depth} messages in each group", fontsize=9)
        all_axes[0].legend(fontsize=7.5, loc="lower right")
        figure.supxlabel(f"messages per second; {result['server']}", fontsize=8)
        # No date: the same result draws the same file.
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_depth(axes: Axes, runs: list[Mapping[str, Any]]) -> None:
    places = range(len(runs))
    for number, (name, label, colour) in enumerate(MEASURES):
        rates = [run[name]["per_second"] for run in runs]
        axes.barh(
            [place + (number - 1) * BAR for place in places], rates, BAR, label=label, color=colour
        )
    axes.set_yticks(places, [run["title"] for run in runs])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.grid(axis="x", color="#e2e8f0")
    axes.set_axisbelow(True)
