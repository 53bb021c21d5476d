"""What holds for every rule of the contract, whichever test states it."""

from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx


@pytest.fixture(autouse=True)
def no_blocking_call() -> Iterator[None]:
    """Let a blocking call of the library inside the event loop fail the test."""
    with blockbuster_ctx("fairlane") as watch:
        # PyMongo looks once, at a client's first connection, whether it runs in a container.
        watch.functions["os.stat"].can_block_in("pymongo/pool_options.py", "get_container_env_info")
        yield
