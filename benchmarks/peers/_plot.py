"""Draw the rates of all libraries of a stored result side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ("draw",)

MEASURES = (
    ("publish", "publish", "#60a5fa", "^"),
    ("claim_and_ack", "claim and ack", "#1d4ed8", "o"),
    ("end_to_end", "end to end, both at once", "#b45309", "D"),
)


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Write the figure, in the format that the file's name ends with."""
    depths = sorted({run["depth"] for run in result["runs"]})
    places = {title: n for n, title in enumerate({run["title"]: 0 for run in result["runs"]})}
    with mpl.rc_context({"svg.hashsalt": "fairlane", "font.size": 9}):
        figure = Figure(figsize=(9, 5), layout="constrained")
        all_axes = figure.subplots(1, len(depths), sharey=True, sharex=True, squeeze=False)[0]
        for axes, depth in zip(all_axes, depths, strict=True):
            _draw_depth(axes, places, [run for run in result["runs"] if run["depth"] == depth])
            axes.set_title(f"{depth} messages in each group", fontsize=9)
        all_axes[0].invert_yaxis()
        handles, labels = all_axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, fontsize=7.5, ncols=3, loc="outside upper center")
        figure.supxlabel(f"messages per second; {result['server']}", fontsize=8)
        # No date: the same result draws the same file.
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_depth(axes: Axes, places: Mapping[str, int], runs: Sequence[Mapping[str, Any]]) -> None:
    """Draw points, not bars: on a logarithmic axis a bar's length means nothing."""
    lines = [places[run["title"]] for run in runs]
    for name, label, colour, marker in MEASURES:
        rates = [run[name]["per_second"] for run in runs]
        axes.plot(rates, lines, marker, label=label, color=colour, markersize=6, alpha=0.85)
    axes.set_yticks(list(places.values()), list(places))
    axes.set_xscale("log")
    axes.grid(color="#e2e8f0")
    axes.set_axisbelow(True)
