"""Least squares for a handful of positive parameters, without derivatives."""

import math
from collections.abc import Callable, Sequence

__all__ = ("least_squares", "root_mean_square")

Residuals = Callable[[list[float]], list[float]]

_STEP = 0.15
_ENOUGH = 0.01


def least_squares(residuals: Residuals, start: Sequence[float], *, rounds: int = 8) -> list[float]:
    """Return parameters whose residuals are small, by damped Gauss-Newton on their logarithms.

    It stops after the rounds, or when a round gains less than a hundredth. What it finds is a
    minimum near the start, and not always the least.
    """
    at, here, damping = list(start), residuals(list(start)), 0.1
    for _ in range(rounds):
        slopes = _slopes(residuals, at, here)
        for _ in range(4):
            there = _moved(at, _step(slopes, here, damping))
            found = residuals(there)
            if _squares(found) < _squares(here):
                break
            damping *= 4
        else:
            return at
        gain = 1 - _squares(found) / _squares(here)
        at, here, damping = there, found, damping / 3
        if gain < _ENOUGH:
            return at
    return at


def root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(_squares(values) / len(values))


def _squares(values: Sequence[float]) -> float:
    return math.fsum(value * value for value in values)


def _moved(at: Sequence[float], step: Sequence[float]) -> list[float]:
    """Move by a step in the logarithms; no parameter by more than a factor of e."""
    return [value * math.exp(max(-1.0, min(1.0, by))) for value, by in zip(at, step, strict=True)]


def _slopes(residuals: Residuals, at: Sequence[float], here: Sequence[float]) -> list[list[float]]:
    """Return, for each parameter, how the residuals change with its logarithm."""
    slopes = []
    for index in range(len(at)):
        moved = [value * math.exp(_STEP * (i == index)) for i, value in enumerate(at)]
        found = residuals(moved)
        slopes.append([(new - old) / _STEP for new, old in zip(found, here, strict=True)])
    return slopes


def _step(slopes: list[list[float]], here: Sequence[float], damping: float) -> list[float]:
    matrix = [
        [_product(row, column) + damping * (row is column) for column in slopes] for row in slopes
    ]
    return _solved(matrix, [-_product(row, here) for row in slopes])


def _product(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve symmetric equations; the damping keeps every pivot above zero."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i, pivot in enumerate(rows):
        pivot[:] = [value / pivot[i] for value in pivot]
        for row in rows:
            if row is not pivot:
                row[:] = [value - row[i] * by for value, by in zip(row, pivot, strict=True)]
    return [row[-1] for row in rows]
