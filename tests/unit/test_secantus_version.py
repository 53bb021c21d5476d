"""The version of SecantusDB that the launcher repairs is the one that gets installed."""

import tomllib
from pathlib import Path

from fairlane.testing._secantus_version import SECANTUS_VERSION

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_extra_installs_the_version_that_the_launcher_repairs() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    (requirement,) = (line for line in extras["server"] if line.startswith("secantusdb"))
    assert requirement.partition(";")[0].strip() == f"secantusdb=={SECANTUS_VERSION}"
