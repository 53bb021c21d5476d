"""Every statement about the transport has a test that names it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
STATEMENTS = TESTS / "contract" / "STATEMENTS.md"


def stated() -> list[int]:
    return [
        int(number) for number in re.findall(r"^(\d+)\. ", STATEMENTS.read_text(), re.MULTILINE)
    ]


def docstrings() -> Iterator[str]:
    """Yield the docstrings of tests; what a module says about itself does not count."""
    for path in sorted(TESTS.rglob("test_*.py")):
        module = ast.parse(path.read_text())
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield ast.get_docstring(node) or ""


def named(docstring: str) -> set[int]:
    """Return the numbers in "statements 3, 5 to 7 and 9"."""
    numbers: set[int] = set()
    for mention in re.findall(r"[Ss]tatements? ((?:\d+(?:, | to | and )?)+)", docstring):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", mention):
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def test_statements_are_numbered_without_a_gap() -> None:
    assert stated() == list(range(1, len(stated()) + 1))


def test_mentions_are_understood() -> None:
    assert named("Statements 3, 5 to 7 and 9; fault 4.") == {3, 5, 6, 7, 9}


def test_every_statement_is_named_by_a_test() -> None:
    mentioned = set().union(*(named(docstring) for docstring in docstrings()))
    assert sorted(set(stated()) - mentioned) == []
