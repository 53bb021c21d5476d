"""A virtual environment for each library, made once and kept in a cache folder."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers._catalog import Subject

__all__ = ("InstallFailed", "default_cache", "python_of")


class InstallFailed(Exception):
    """A library could not be installed; the text ends with what pip said last."""


def default_cache() -> Path:
    """Return the user's cache folder for these environments."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "fairlane", "peers")


def python_of(subject: Subject, cache: Path) -> str:
    """Return the interpreter that has the library, after installing it if need be.

    Raises `InstallFailed`. An installation that was broken off is begun anew.
    """
    if not subject.requirements:
        return sys.executable
    folder = cache / f"{subject.program}-{fingerprint(subject.requirements)}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    whole = folder / "whole"
    if not whole.exists():
        _install(folder, python, subject.requirements)
        whole.touch()
    return str(python)


def fingerprint(requirements: Sequence[str]) -> str:
    """Return what changes with the requirements and with the interpreter."""
    return hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:12]


def _install(folder: Path, python: Path, requirements: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", *requirements],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InstallFailed(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")
