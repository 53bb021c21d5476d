"""Every behaviour on the page about the job queue has tests that name it, and they exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS / "contract" / "JOB_STATEMENTS.md"

Cases = dict[str, set[str]]

MENTION = r"(B6|A12)\.(\d+)(?: to (?:B6|A12)\.(\d+))?"
STATED = {"B6": 37, "A12": 104}


def on_the_page() -> Cases:
    """Return the tests that the page gives for each behaviour."""
    return {
        name: set(re.findall(r"`(\S+\.py::\w+)`", line))
        for name, line in re.findall(r"^- ((?:B6|A12)\.\d+) (.*)$", PAGE.read_text(), re.MULTILINE)
    }


def docstrings() -> Iterator[tuple[str, str]]:
    for room in ("contract", "unit"):
        for path in sorted((TESTS / room).glob("test_*.py")):
            prefix, text = "" if room == "contract" else f"{room}/", path.read_text()
            if not re.search(MENTION, text):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{prefix}{path.name}::{node.name}", ast.get_docstring(node) or ""


def named(docstring: str) -> set[str]:
    """Return the behaviours in "B6.3, A12.5 to A12.7"."""
    names = set()
    for kind, first, last in re.findall(MENTION, docstring):
        names |= {f"{kind}.{number}" for number in range(int(first), int(last or first) + 1)}
    return names


@cache
def in_the_tests() -> Cases:
    found: Cases = {}
    for case, docstring in docstrings():
        for name in named(docstring):
            found.setdefault(name, set()).add(case)
    return found


def test_mentions_are_understood() -> None:
    assert named("B6.3: and A12.5 to A12.7.") == {"B6.3", "A12.5", "A12.6", "A12.7"}


@pytest.mark.parametrize("kind", STATED)
def test_page_has_all_behaviours_in_order_and_no_others(kind: str) -> None:
    there = [name for name in on_the_page() if name.startswith(f"{kind}.")]
    assert there == [f"{kind}.{number}" for number in range(1, STATED[kind] + 1)]


def test_page_states_each_behaviour_once() -> None:
    lines = re.findall(r"^- ((?:B6|A12)\.\d+) ", PAGE.read_text(), re.MULTILINE)
    assert len(lines) == len(set(lines)) == sum(STATED.values())


@pytest.mark.parametrize("name", on_the_page())
def test_behaviour_is_named_by_the_tests_that_the_page_gives(name: str) -> None:
    cases = on_the_page()[name]
    assert cases
    assert cases <= in_the_tests().get(name, set())


def test_modules_on_the_page_exist() -> None:
    modules = re.findall(r"`((?:unit/)?test_\w+\.py)", PAGE.read_text())
    missing = [
        name
        for name in modules
        if not (TESTS / (name if name.startswith("unit/") else f"contract/{name}")).exists()
    ]
    assert modules
    assert missing == []
