"""The only way things are run here: on a developer's machine, in `.ci/run` and on GitHub."""

import shlex
import tempfile
import zipfile
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_external_run = True
nox.options.reuse_venv = "yes"
# The tests come last, so that pytest's closing line stands at the end of the output.
nox.options.sessions = ["lint", "typing", "docs", "build", "tests"]

HERE = Path(__file__).parent
# Pinned to a minor version: a new one of these finds new faults in old code.
LINTERS = ("ruff==0.17.*", "import-linter==2.*")
TYPE_CHECKERS = ("mypy==2.4.*", "pyright[nodejs]==1.1.414")  # [nodejs]: no Node.js needed
DOCS = ("sphinx>=8.2", "myst-parser>=4", "furo>=2024.8.6")
SHIPPED = ("fairlane/py.typed",)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and the order of the layers."""
    session.install(*LINTERS)
    session.install("-e", ".")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports")


@nox.session
def typing(session: nox.Session) -> None:
    """Check the types of the code, and that the public surface is wholly typed."""
    session.install(*TYPE_CHECKERS, "-e", ".[test]")
    session.run("mypy")
    session.run("pyright", "--verifytypes", "fairlane", "--ignoreexternal")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into docs/_build/html; a warning is an error."""
    session.install(*DOCS, "-e", ".[cli]")
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-E", "docs", "docs/_build/html")


@nox.session
def build(session: nox.Session) -> None:
    """Build the wheel and the source archive, and look into the wheel."""
    session.install("build")
    with tempfile.TemporaryDirectory() as folder:
        session.run("python", "-m", "build", "--outdir", folder, silent=True)
        (wheel,) = Path(folder).glob("*.whl")
        shipped = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in SHIPPED if name not in shipped]
    if missing:
        session.error(f"the wheel lacks {', '.join(missing)}")


@nox.session
def install(session: nox.Session) -> None:
    """Run the README's first command line, the demo, in a fresh clone. For the last commit."""
    command = _readme_commands()["demo"]
    with tempfile.TemporaryDirectory() as folder:
        session.run("git", "clone", "--quiet", str(HERE), folder, external=True)
        with session.chdir(folder):
            session.run("bash", "-c", command, external=True)


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks once, tiny, so that they never rot. Arguments: see benchmarks/."""
    session.install("-e", ".[demo]")
    session.run("python", "-m", "benchmarks", *(session.posargs or ("--tiny",)))


@nox.session
def tests(session: nox.Session) -> None:
    """Run all five rooms. Arguments go to pytest: `nox -s tests -- tests/unit -x`."""
    session.install("-e", ".[test]")
    session.run("pytest", *session.posargs)
