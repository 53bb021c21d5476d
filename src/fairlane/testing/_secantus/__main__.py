"""Start SecantusDB, repaired unless `--plain`, and serve until a signal."""

import argparse
import contextlib
import logging
import signal
import socket
import sys
import threading
from importlib.metadata import PackageNotFoundError, version

from fairlane.testing._secantus_version import SECANTUS_VERSION

REFUSED = 2


def main() -> int:
    options = _parser().parse_args()
    if (refusal := _refusal()) is not None:
        sys.stderr.write(f"{refusal}\n")
        return REFUSED
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    if not options.plain:
        from fairlane.testing._secantus import repairs

        repairs.apply_all()
    _serve(options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fairlane.testing._secantus", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", required=True, help="where the data lives; made if missing")
    parser.add_argument("--plain", action="store_true", help="do not repair anything")
    parser.add_argument("--sync-on-commit", action="store_true", help="write through to the disk")
    return parser


def _refusal() -> str | None:
    """Say why the server cannot run: the repairs replace private parts of one version."""
    try:
        found = version("secantusdb")
    except PackageNotFoundError:
        return f"secantusdb=={SECANTUS_VERSION} is not installed: pip install 'fairlane[server]'"
    if found != SECANTUS_VERSION:
        return f"this launcher works with secantusdb=={SECANTUS_VERSION} only, not {found}"
    return None


def _serve(options: argparse.Namespace) -> None:
    # The class, not the command: that would read a `secantusd.toml` it finds lying around.
    from secantus import SecantusDBServer

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = SecantusDBServer(
        port=options.port,
        storage_path=options.folder,
        enable_test_commands=True,  # failCommand, for tests of retries
        sync_on_commit=options.sync_on_commit,
    )
    server.start()
    stop.wait()
    with contextlib.suppress(OSError):  # wakes the thread in accept(), which stop() waits for 2 s
        server._socket.shutdown(socket.SHUT_RDWR)
    server.stop()


if __name__ == "__main__":
    sys.exit(main())
