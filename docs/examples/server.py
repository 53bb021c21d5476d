from contextlib import suppress

from fairlane.testing import local_server

with suppress(KeyboardInterrupt, EOFError), local_server() as server:
    input(f"{server.url} (Enter ends it) ")
