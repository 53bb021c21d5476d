"""SIGKILL of the process that started a local server leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PATIENCE = 10.0
SCRIPT = """
import os, sys, time
from fairlane.testing import local_server
with local_server() as server:
    {trouble}
    print(server.pid, flush=True)
    time.sleep(60)
"""
TROUBLES = {
    "serving": "pass",
    "paused": "server.pause()",
    "crashed": "server.kill()",
    # the child holds copies of all pipes of its parent
    "forked": "child = os.fork()\n    if child == 0: time.sleep(30); os._exit(0)",
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_sigkill_of_the_parent_leaves_nothing(trouble: str, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(trouble=TROUBLES[trouble])],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
        assert list(tmp_path.iterdir())

        parent.send_signal(signal.SIGKILL)
        parent.wait()

        assert _ends(pid)
        assert _gets_empty(tmp_path)


def _ends(pid: int) -> bool:
    return _comes_true(lambda: not _exists(pid))


def _gets_empty(folder: Path) -> bool:
    return _comes_true(lambda: not any(folder.iterdir()))


def _comes_true(claim: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
