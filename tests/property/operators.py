"""The query language as far as the transport uses it: pure functions on plain documents.

An operator that is not known here is an error, never ignored.
"""

from collections.abc import Callable, Sequence
from typing import Any

import bson

from fairlane.driver import Document

__all__ = ("STAGES", "in_order", "is_match", "projected", "updated")

MISSING = object()

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$lte": lambda value, wanted: _is_like(value, wanted) and value <= wanted,
    "$lt": lambda value, wanted: _is_like(value, wanted) and value < wanted,
    "$gte": lambda value, wanted: _is_like(value, wanted) and value >= wanted,
    "$eq": lambda value, wanted: value == wanted,
    "$gt": lambda value, wanted: _is_like(value, wanted) and value > wanted,
    "$in": lambda value, wanted: _is_among(value, wanted),
    "$nin": lambda value, wanted: not _is_among(value, wanted),
    "$exists": lambda value, wanted: (value is not MISSING) == wanted,
}


def _is_like(value: Any, wanted: Any) -> bool:
    """Tell whether the two are of one kind; others are not compared."""
    if isinstance(wanted, str):
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_among(value: Any, wanted: Sequence[Any]) -> bool:
    """Tell whether the value is one of these; what is missing counts as null."""
    return (None if value is MISSING else value) in wanted


def _value(document: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(document, dict):
            document = document.get(step, MISSING)
        elif isinstance(document, list) and step.isdigit():
            document = document[int(step)] if int(step) < len(document) else MISSING
        else:
            return MISSING
    return document


def is_match(document: Document, match: Document) -> bool:
    return all(
        any(is_match(document, each) for each in wanted)
        if path == "$or"
        else _holds(_value(document, path), wanted)
        for path, wanted in match.items()
    )


def _holds(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return all(OPERATORS[name](value, operand) for name, operand in wanted.items())
    if wanted is None:
        return value is None or value is MISSING
    return bool(value == wanted)


def in_order(documents: list[Document], sort: Sequence[tuple[str, int]]) -> list[Document]:
    for path, direction in reversed(sort):
        documents = sorted(
            documents, key=lambda document: _value(document, path), reverse=direction < 0
        )
    return documents


def projected(document: Document, fields: Document | None) -> Document:
    if fields is None:
        return document
    return {key: value for key, value in document.items() if key == "_id" or key in fields}


def updated(
    document: Document, update: Document | list[Document], *, is_new: bool = False
) -> Document:
    if isinstance(update, list):
        return _piped(document, update)
    changed = dict(document)
    for operator, changes in update.items():
        if operator == "$setOnInsert" and not is_new:
            continue
        for key, operand in changes.items():
            _change(changed, operator, key, operand)
    return changed


def _change(document: Document, operator: str, key: str, operand: Any) -> None:
    if operator in ("$set", "$setOnInsert"):
        document[key] = operand
    elif operator == "$inc":
        document[key] = document.get(key, 0) + operand
    elif operator == "$max":
        document[key] = max(document.get(key, operand), operand)
    elif operator == "$unset":
        document.pop(key, None)
    else:
        raise NotImplementedError(operator)


def _grouped(rows: list[Document], operand: Document) -> list[Document]:
    groups: dict[Any, list[Document]] = {}
    for row in rows:
        key = _evaluated(row, operand["_id"])
        groups.setdefault(bson.encode({"_id": key}), []).append(row)
    return [
        {name: _gathered(members, expression) for name, expression in operand.items()}
        for members in groups.values()
    ]


def _gathered(members: list[Document], expression: Any) -> Any:
    if isinstance(expression, dict) and "$sum" in expression:
        return sum(_evaluated(member, expression["$sum"]) for member in members)
    if isinstance(expression, dict) and "$first" in expression:
        expression = expression["$first"]
    return _evaluated(members[0], expression)


def _piped(document: Document, stages: list[Document]) -> Document:
    changed = dict(document)
    for stage in stages:
        ((operator, changes),) = stage.items()
        if operator != "$set":
            raise NotImplementedError(operator)
        changed.update({key: _evaluated(document, value) for key, value in changes.items()})
    return changed


def _evaluated(document: Document, expression: Any) -> Any:
    if isinstance(expression, str) and expression.startswith("$"):
        value = _value(document, expression[1:])
        return None if value is MISSING else value
    if not isinstance(expression, dict):
        return expression
    if not any(name.startswith("$") for name in expression):
        return {name: _evaluated(document, part) for name, part in expression.items()}
    ((operator, operands),) = expression.items()
    return EXPRESSIONS[operator](*(_evaluated(document, operand) for operand in operands))


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "$ifNull": lambda value, default: default if value is None else value,
    "$cond": lambda condition, one, other: one if condition else other,
    "$lte": lambda one, other: one <= other,
    "$ne": lambda one, other: one != other,
}

STAGES: dict[str, Callable[[list[Document], Any], list[Document]]] = {
    "$match": lambda rows, match: [row for row in rows if is_match(row, match)],
    "$sort": lambda rows, sort: in_order(rows, list(sort.items())),
    "$limit": lambda rows, limit: rows[:limit],
    "$group": _grouped,
    "$project": lambda rows, fields: [
        {"_id": row["_id"]}
        | {
            name: row[name] if expression == 1 else _evaluated(row, expression)
            for name, expression in fields.items()
            if expression != 1 or name in row
        }
        for row in rows
    ],
}
