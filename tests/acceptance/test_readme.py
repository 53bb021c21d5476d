"""What the README says can be typed is what works: its examples and its two command lines."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
EXAMPLES = dict(
    re.findall(r"<!-- example: (\S+) -->\n```python\n(.*?)```", README, flags=re.DOTALL)
)
COMMANDS = dict(re.findall(r"<!-- command: (\w+) -->\n```console\n(.*?)\n```", README))


@pytest.mark.parametrize("name", EXAMPLES)
def test_readme_example_is_a_file_that_the_docs_tests_run(name: str) -> None:
    assert EXAMPLES[name] == (ROOT / "docs" / "examples" / name).read_text()


def test_every_python_block_of_the_readme_is_a_named_example() -> None:
    assert README.count("```python") == len(EXAMPLES) == 5


def test_readme_has_one_command_line_for_the_demo_and_one_for_the_tests() -> None:
    assert COMMANDS.keys() == {"demo", "test"}


def test_ci_runs_the_command_line_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert COMMANDS["test"] in script
    commands = [line for line in script if line and not line.startswith("#")]
    assert commands[:2] == ["set -euo pipefail", 'cd "$(dirname "$0")/.."']
    assert commands[2:] == [COMMANDS["test"]]


def test_local_links_of_the_readme_exist() -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []
