"""The only way things are run here: on a developer's machine, in `.ci/run` and on GitHub."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_external_run = True
nox.options.reuse_venv = "yes"
# The tests come last, so that pytest's closing line stands at the end of the output.
nox.options.sessions = ["lint", "typing", "docs", "build", "install", "bench", "soak", "tests"]

HERE = Path(__file__).parent
# Pinned to a minor version: a new one of these finds new faults in old code.
LINTERS = ("ruff==0.17.*", "import-linter==2.*")
TYPE_CHECKERS = ("mypy==2.4.*", "pyright[nodejs]==1.1.414")  # [nodejs]: no Node.js needed
DOCS = ("sphinx>=8.2", "myst-parser>=4", "furo>=2024.8.6")
TINY = ("--messages", "60", "--groups", "12", "--workers", "4", "--publishers", "2")
TINY_CONTENTION = ("--scenario", "one", "p8", "--groups", "60", "--claimers", "4")
TINY_PEERS = (
    *("--groups", "8", "--depth", "3", "--publishers", "4", "--workers", "4", "--patience", "1"),
)
TINY_BENCHMARKS = (
    ("life", *TINY, "--driver", "motor"),
    ("life", *TINY, "--driver", "pymongo"),
    ("contention", *TINY_CONTENTION, "--processes", "2"),
    ("contention", *TINY_CONTENTION, "--processes", "1", "--product", "jobs", "--batch", "8"),
    ("bulk_enqueue", "--jobs", "40", "--schedulers", "3"),
    ("wakeup", "--messages", "5", "--idle", "1", "--ways", "stream"),
    ("contention_model", "--claimers", "4", "--depth", "200"),
    # Without those that would have to be installed.
    ("peers", *TINY_PEERS, "--only", "fairlane", "floor", "seed"),
)
SHIPPED = ("fairlane/py.typed", "fairlane/cli/demo/sample.jsonl")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and the order of the layers."""
    session.install(*LINTERS)
    session.install("-e", ".")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports", "--no-cache")


@nox.session
def typing(session: nox.Session) -> None:
    """Check the types of the code, and that the public surface is wholly typed."""
    session.install(*TYPE_CHECKERS, "-e", ".[test]")
    session.run("mypy")
    session.run("mypy", "docs/examples")
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


@nox.session(venv_backend="none")
def install(session: nox.Session) -> None:
    """Run the README's command line for the demo in a fresh copy of the tracked files."""
    tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=HERE, text=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in tracked.split("\0"):
            if not (HERE / name).is_file():
                continue
            copy = Path(folder, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HERE / name, copy)
        with session.chdir(folder):
            session.run("bash", "-euc", _demo_command())


def _demo_command() -> str:
    readme = (HERE / "README.md").read_text()
    (command,) = re.findall(r"<!-- command: demo -->\n```console\n(.*)\n```", readme)
    # Another job of the matrix may have no python3.11.
    python = "python3.11" if sys.version_info[:2] == (3, 11) else shlex.quote(sys.executable)
    return str(command).replace("python3.11", python)


@nox.session
def bench(session: nox.Session) -> None:
    """Run each benchmark once, tiny. Or one: `nox -s bench -- life --messages 2000`."""
    session.install("-e", ".[demo]")
    runs = (session.posargs,) if session.posargs else TINY_BENCHMARKS
    for name, *arguments in runs:
        session.run("python", "-m", f"benchmarks.{name}", *arguments)


@nox.session
def soak(session: nox.Session) -> None:
    """Let everything go wrong for 3 minutes: `nox -s soak -- --minutes 10 --seed 7`.

    As one of all sessions for one minute.
    """
    session.install("-e", ".[demo]")
    arguments = session.posargs if _is_asked_for("soak") else ("--minutes", "1")
    with session.chdir("tests"):
        session.run("python", "-m", "soak", *arguments)


def _is_asked_for(name: str) -> bool:
    """Tell whether the caller named this session."""
    words = (*sys.argv[1:], os.environ.get("NOXSESSION", ""))
    return any(name in re.split(r"[\s,=]", word) for word in words)


@nox.session
def explore(session: nox.Session) -> None:
    """Play a million random schedules, and every schedule of all small scenes with a fault.

    FAIRLANE_SCHEDULES is how many of each of the nine kinds, FAIRLANE_FAULTS how many faults.
    """
    session.install("-e", ".[test]")
    env = {"FAIRLANE_SCHEDULES": "125000", "FAIRLANE_FAULTS": "1"}
    session.run(
        "pytest",
        "--numprocesses=2",
        "tests/property/test_every_schedule.py",
        "tests/property/test_every_job_schedule.py",
        "tests/property/test_explorer.py",
        "tests/property/test_schedules.py",
        "-k=not motor and not pymongo and not small_scenes",
        *session.posargs,
        env={name: os.environ.get(name, usual) for name, usual in env.items()},
    )


@nox.session
def tests(session: nox.Session) -> None:
    """Run all five rooms. Arguments go to pytest: `nox -s tests -- tests/unit -x`."""
    session.install("-e", ".[test]")
    # Each process starts a server of its own; on a shared one, a test that makes the server fail
    # would make its neighbour's fail. Three, since tests wait: two cores are busy then.
    alone = session.posargs or "FAIRLANE_TEST_URL" in os.environ
    session.run("pytest", *(session.posargs if alone else ("--numprocesses=3",)))
