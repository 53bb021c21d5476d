"""Every fault that transport, queue and pool owe tests for has some, and they exist."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
TABLE = TESTS / "FAULTS.md"
OWED = [
    *(1, 2, 3, 4, 6, 7, 8, 10, 11, 13, 14, 15, 16, 17, 19, 20, 21, 23, 24, 27, 29, 33, 34, 35, 36),
    *(37, 38, 41, 42, 43, 44, 45, 46, 47, 50, 51, 52, 53, 54, 55, 59, 61, 68),
]


def rows() -> dict[int, set[tuple[str, str]]]:
    """Return the tests of each fault, as file and name."""
    found = re.findall(r"^\| (\d+)\. (.*) \|$", TABLE.read_text(), re.MULTILINE)
    return {int(number): set(re.findall(r"`([\w/]+\.py)::(\w+)`", row)) for number, row in found}


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text()) if path.exists() else ast.Module([], [])
    return {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_fault_has_a_row_with_tests() -> None:
    assert [number for number, tests in rows().items() if tests] == OWED


def test_every_test_of_the_table_exists() -> None:
    named = set[tuple[str, str]]().union(*rows().values())
    assert [f"{file}::{name}" for file, name in named if name not in functions(TESTS / file)] == []
